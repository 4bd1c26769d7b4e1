"""Wang et al., Smoothed Geometry for Robust Attribution, NeurIPS 2020."""

from attrcert.papers.item import Item, Sort

ITEMS = (
    Item(
        "Theorem 1", Sort.THEOREM, "local robustness of a map of order L, L the Lipschitz constant of f",
        corrected="False: f = sin(kx)/k has L = 1 and k as its robustness. The bound 2L / |x - x*| lets x* come as close as it likes.",
    ),
    Item(
        "Proposition 2", Sort.THEOREM, "from some sigma on SmoothGrad is the more robust",
        corrected="Two upper bounds are compared, and they speak of different x*: neither says which is the more robust.",
    ),
    Item(
        "SmoothGrad's constant", Sort.THEOREM, "smoothing |f| <= F makes the gradient Lipschitz",
        "attrcert.bounds.smoothed.smoothgrad_lipschitz", "attrcert max-eps --smoothgrad-lipschitz 0.5 --sigma 0.1 --max-deviation 1",
        "4 phi(1) = .968 is enough where the paper has 2. It holds for the exact mean; f must be a probability, not a logit.",
    ),
    Item(
        "Theorem 3", Sort.THEOREM, "the map moves by at most the Hessian's top eigenvalue times eps",
        "attrcert.bounds.first_order.l2_spectral",
        "attrcert bound --norm l2 --eps 0.1",
        "To first order only.",
    ),
    Item(
        "Proposition 3", Sort.THEOREM, "the Hessian of a ReLU network's loss, in closed form",
        "attrcert.bounds.first_order.ce_hessian", "attrcert bound relu.pt data.npz --arch resnet20 --loss-hessian",
        "Its Cholesky factor is of a singular matrix and fails half of the time; none is needed. Nothing is said across a kink.",
    ),
    Item(
        "SM, of the loss", Sort.ATTRIBUTION, "the gradient of the cross-entropy", "attrcert.attributions.loss_gradient",
        "attrcert bound relu.pt data.npz --arch resnet20 --attribution loss-gradient",
    ),
    Item(
        "SG and UG", Sort.ATTRIBUTION, "SmoothGrad and uniform gradient", "attrcert.attributions.smoothed",
        "attrcert bound --attribution smooth-grad --sigma 0.1 --limit 8",
    ),
    Item(
        "top-k attack", Sort.ATTACK, "k = 20, linf", "attrcert.attacks.top_k",
        "attrcert attack --preset wang-2020 --attack top-k --limit 4",
    ),
    Item(
        "manipulate attack", Sort.ATTACK, "towards a target map", "attrcert.attacks.manipulate",
        "attrcert attack --preset wang-2020 --attack manipulate --limit 4",
    ),
    Item(
        "mass-centre attack", Sort.ATTACK, "moves the centre of mass", "attrcert.attacks.mass_centre",
        "attrcert attack --preset wang-2020 --attack mass-centre --limit 4",
    ),
    Item(
        "transfer", Sort.ATTACK, "the same perturbation measured on other attributions", "attrcert.running.evaluating.attacking",
        "attrcert attack --transfer ixg --limit 8",
    ),
    Item(
        "k-in", Sort.METRIC, "the mass that stays on the top k", "attrcert.metrics.top_k",
        "attrcert attack --metric top-k-mass --k 20 --limit 8",
    ),
    Item("cor", Sort.METRIC, "Spearman's rank correlation", "attrcert.metrics.spearman", "attrcert attack --metric spearman --limit 8"),
    Item("cosd", Sort.METRIC, "cosine distance, 1 - cosine", "attrcert.metrics.cosine", "attrcert attack --metric cosine --limit 8"),
    Item(
        "local robustness", Sort.METRIC, "the largest |g(x') - g(x)| / |x' - x| near x", "attrcert.scores.local_robustness",
        "attrcert score fashion-adversarial --metric local-robustness --norm l2 --eps 0.02 --proved --limit 4",
    ),
    Item("SSR", Sort.TRAINING, "a penalty on the largest eigenvalue of the loss Hessian"),
    Item("ResNet-20", Sort.NETWORK, "of CIFAR-10", "attrcert.loading.published", "attrcert bound weights.pt data.npz --arch resnet20"),
    Item(
        "Tables 2 and 3", Sort.TABLE, "areas under each metric over eps 2, 4, 8, 16 /255", "attrcert.reporting.summaries.attacks",
        "attrcert attack --preset wang-2020 --auc --limit 4",
    ),
)  # fmt: skip
