"""Joo et al., Towards More Robust Interpretation via Local Gradient Alignment, AAAI 2023."""

from attrcert.papers.item import Item, Sort

ITEMS = (
    Item(
        "Eq. 1", Sort.THEOREM, "the change of the gradient is about |H delta|", "attrcert.bounds.first_order.l2_spectral",
        "attrcert bound --norm l2 --eps 0.1",
        "Its second line, with |delta|_p, needs the factor d^(1/2-1/p) for p > 2.",
    ),
    Item(
        "the l2 criterion", Sort.THEOREM, "it depends on the length of the gradient, the cosine does not", "attrcert.metrics.cosine",
        "attrcert attack --metric euclidean,cosine --limit 8",
    ),
    Item("Grad", Sort.ATTRIBUTION, "saliency", "attrcert.attributions.gradient", "attrcert bound --attribution saliency"),
    Item("xGrad", Sort.ATTRIBUTION, "input x gradient", "attrcert.attributions.input_times_gradient", "attrcert bound --attribution ixg"),
    Item(
        "GBP", Sort.ATTRIBUTION, "guided backpropagation", "attrcert.attributions.guided_backprop", "attrcert bound --attribution gbp",
        "Published code passes batch norm by as if it were not there. softplus is taken of what is passed back in units of its size.",
    ),
    Item(
        "LRP", Sort.ATTRIBUTION, "z+, and zB at the input", "attrcert.attributions.relevance", "attrcert bound --attribution lrp",
        "Published code has zB for LeNet alone, and z+ at the input of its ResNets.",
    ),
    Item(
        "manipulation", Sort.ATTACK, "towards a frame, by Adam", "attrcert.attacks.manipulate", "attrcert attack --preset joo --limit 4",
        "Published code keeps the last iterate; here it is the best that is in the ball and keeps the label.",
    ),
    Item("l2 + Cosd", Sort.TRAINING, "cosine distance and l2 distance of gradients at a noisy input"),
    Item("Hessian, IGA, ATEX", Sort.TRAINING, "compared, not proposed"),
    Item(
        "LeNet", Sort.NETWORK, "of CIFAR-10, softplus of beta 3; with pool=average its Jacobian is everywhere",
        "attrcert.loading.published",
        "attrcert bound weights.pt data.npz --arch lenet --arch-arg activation=softplus",
    ),
    Item(
        "ResNet-18", Sort.NETWORK, "with a 3 x 3 stem", "attrcert.loading.published",
        "attrcert bound weights.pt data.npz --arch resnet18-32",
    ),
    Item(
        "Figure 3b", Sort.FIGURE, "the cosine distance against its bound", "attrcert.reporting.pages.paper_figures",
        "attrcert report attacks.csv --plots figures",
        "The paper's eps |H delta| / |g| is of first order in eps, the distance of second, and without its remainder it is no bound: "
        "CRC is .1 and it is 0 for x_1 + 100 x_2^3 at 0, eps .05. Drawn is (1 - sqrt(1 - r^2)) / 2, r = T_e / |g|.",
    ),
)  # fmt: skip
