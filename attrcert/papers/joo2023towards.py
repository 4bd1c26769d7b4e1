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
    Item(
        "Theorem 6", Sort.THEOREM, "the cosine criterion, (1 - cosine) / 2, is at most eps |H delta| / |g| and a remainder",
        "attrcert.scores.cosine_criterion", "attrcert score --metric crc --limit 8",
        "Its remainder is of second order in eps, and so is the criterion. (1 - sqrt(1 - r^2)) / 2 holds without one, r the change of the "
        "gradient as a share of the longer one.",
    ),
    Item(
        "RPS", Sort.METRIC, "similarity of the maps at x and at random points beside it", "attrcert.scores.perturbation_similarity",
        "attrcert score --metric rps --limit 8",
        "Published code takes the standard deviation of CIFAR-10 for all data sets, and divides the map at x anew before each draw.",
    ),
    Item(
        "Insertion", Sort.METRIC, "the class's probability as the map's largest pixels are put in", "attrcert.scores.insertion",
        "attrcert score --metric insertion,deletion --limit 8",
        "Published code leaves out the last step, and takes the mean of the others; here the area is taken by the trapezoid rule.",
    ),
    Item(
        "Adv-Insertion", Sort.METRIC, "the same in the order of the map at the attacked input", "attrcert.scores.adversarial_insertion",
        "attrcert score --metric adv-insertion --eps 4/255 --limit 4",
    ),
    Item("l2 + Cosd", Sort.TRAINING, "cosine distance and l2 distance of gradients at a noisy input"),
    Item("Hessian, IGA, ATEX", Sort.TRAINING, "compared, not proposed"),
    Item(
        "LeNet", Sort.NETWORK, "of CIFAR-10, softplus of beta 3; with pool=average it has a Jacobian everywhere",
        "attrcert.loading.published",
        "attrcert bound weights.pt data.npz --arch lenet --arch-arg activation=softplus",
    ),
    Item(
        "ResNet-18", Sort.NETWORK, "with a 3 x 3 stem", "attrcert.loading.published",
        "attrcert bound weights.pt data.npz --arch resnet18-32",
    ),
    Item(
        "Table 1", Sort.TABLE, "RPS, Insertion and Adv-Insertion of each map", "attrcert.reporting.summaries.scores",
        "attrcert score --metric insertion,adv-insertion,rps --attribution sm,ixg --eps 4/255 --fill mean --limit 4",
    ),
    Item(
        "Figure 3b, of any perturbation", Sort.FIGURE, "the criterion beside the published figure and the bound that holds",
        "attrcert.reporting.pages.score_figures", "attrcert report scores.csv --plots figures",
    ),
    Item(
        "Figure 3b", Sort.FIGURE, "the cosine distance against its bound", "attrcert.reporting.pages.paper_figures",
        "attrcert report attacks.csv --plots figures",
        "The paper's eps |H delta| / |g| is of first order in eps, the distance of second, and without its remainder it is no bound: "
        "CRC is .1 and it is 0 for x_1 + 100 x_2^3 at 0, eps .05. Drawn is (1 - sqrt(1 - r^2)) / 2, r = T_e / |g|.",
    ),
)  # fmt: skip
