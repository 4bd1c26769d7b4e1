"""Wang & Kong, A Practical Upper Bound for the Worst-Case Attribution Deviations, CVPR 2023."""

from attrcert.papers.item import Item, Sort

ITEMS = (
    Item(
        "Theorem 1", Sort.THEOREM, "in l2 the linearised attribution moves by at most xi_max eps, xi_max the top singular value of J",
        "attrcert.bounds.first_order.l2_spectral", "attrcert bound --norm l2 --eps 0.1",
        "It is an estimate: attacks exceed it. P is J^T J, not J J^T. xi_max comes as an enclosure, not as a Ritz value, which lies below.",
    ),
    Item(
        "Corollary 1", Sort.THEOREM, "in lp, p > 2, by at most d^(1/2-1/p) xi_max eps; in linf by sqrt(d) xi_max eps",
        "attrcert.bounds.first_order.linf_corollary", "attrcert bound --norm linf --eps 8/255 --linf-method corollary",
    ),
    Item(
        "Theorem 2", Sort.THEOREM, "in linf by at most eps sqrt(sum of |P_ij|)",
        "attrcert.bounds.first_order.linf_row_sums", "attrcert bound --norm linf --eps 8/255 --linf-method row-sums --limit 4",
        "P is J^T J. The bound is not attained in general. --linf-method scaled, the default, is tighter and needs no matrix.",
    ),
    Item(
        "Theorem 3, Eq. 39", Sort.THEOREM, "the bound times c, which is measured at the worst direction",
        "attrcert.bounds.first_order.taylor_correction", "attrcert bound --eps 0.25",
        "As printed its hypothesis forces c = 1. Both signs of the direction are taken. `corrected`, no certificate.",
    ),
    Item(
        "Corollary 2", Sort.THEOREM, "a deviation of at most T turns the map by at most asin(T / |g|)",
        "attrcert.geometry.angles", "attrcert bound --eps 0.1",
        "Nothing follows for T >= |g|: such rows are `vacuous`.",
    ),
    Item(
        "Proposition 1", Sort.THEOREM, "the label constraint, linearised",
        "attrcert.bounds.first_order.label_margin", "attrcert bound --eps 0.5 --label-constraint check",
        "One constraint never lowers the bound, since delta and -delta do equally well; several can, by --label-constraint tighten.",
    ),
    Item(
        "Proposition 1, tightened", Sort.THEOREM, "what is left of the bound where both signs lose the label",
        "attrcert.bounds.first_order.label_dual", "attrcert bound --eps 0.5 --label-constraint tighten",
        "Not in the paper, whose constraint has no effect.",
    ),
    Item(
        "Eqs 51 and 52", Sort.THEOREM, "the largest eps that keeps a deviation or a cosine distance",
        "attrcert.running.evaluating.inverting", "attrcert max-eps --max-cosine-distance 0.05",
        "Squares are missing there: |g| = 3.47, xi = 2, distance .05 give .587, at which it is .0590; right is .5418.",
    ),
    Item(
        "SM", Sort.ATTRIBUTION, "saliency", "attrcert.attributions.gradient", "attrcert bound --attribution saliency",
        "A ReLU network's Hessian is 0: ReLUs run as softplus. --softplus-beta 5,20,80 shows how close each is and what is bounded.",
    ),
    Item(
        "IxG", Sort.ATTRIBUTION, "input x gradient", "attrcert.attributions.input_times_gradient", "attrcert bound --attribution ixg",
    ),
    Item(
        "IG", Sort.ATTRIBUTION, "integrated gradients", "attrcert.attributions.integrated_gradients",
        "attrcert bound --attribution ig --quadrature riemann-right --limit 8",
    ),
    Item(
        "PGD", Sort.ATTACK, "climbs the deviation, 20 steps", "attrcert.attacks.euclidean",
        "attrcert attack --preset wang-kong-l2 --limit 8",
    ),
    Item(
        "PGD on the angle", Sort.ATTACK, "climbs the cosine distance", "attrcert.attacks.cosine",
        "attrcert attack --attack cosine --limit 8",
    ),
    Item(
        "IFIA", Sort.ATTACK, "top-k, 200 steps, linf", "attrcert.attacks.top_k", "attrcert attack --preset wang-kong-linf --limit 8",
    ),
    Item(
        "T_hat", Sort.METRIC, "how far an attack moved the map", "attrcert.metrics.euclidean",
        "attrcert attack --metric euclidean,degrees --limit 8",
    ),
    Item(
        "AT, TRADES, IG-NORM, AdvAAT, ART, TRADES+IGR", Sort.TRAINING, "compared, not proposed; attrcert judges checkpoints",
        "", "attrcert attack fashion-adversarial --eps 0.1 --limit 8",
    ),
    Item(
        "Figure 3", Sort.FIGURE, "eta, what the linearisation misses, against eps", "attrcert.reporting.pages.paper_figures",
        "attrcert report bounds.csv --plots figures",
    ),
    Item(
        "Figures 4 to 7", Sort.FIGURE, "|J| as a heat map: its first 100 dimensions, and whole", "attrcert.reporting.pages.galleries",
        "attrcert bound --limit 1 --save-jacobian 0 --out bounds.csv",
    ),
    Item(
        "Figure 8", Sort.FIGURE, "the distribution of T - T_hat, here as a share of |g|", "attrcert.reporting.pages.paper_figures",
        "attrcert report attacks.csv --plots figures",
    ),
    Item(
        "Table 6", Sort.TABLE, "T_hat_e, T_e, T'_e, T_hat_c, T_c without label constraint", "attrcert.reporting.summaries.attacks",
        "attrcert attack --eps 0.1 --label-constraint compare --limit 8",
        "Attacks keep the label; with `compare` they also run without that (T_hat_e_free). attrcert counts how often T_e is exceeded.",
    ),
    Item(
        "Tables 7 and 8", Sort.TABLE, "the same with it, in l2 and in linf", "attrcert.reporting.summaries.labels",
        "attrcert attack --norm linf --eps 8/255 --label-constraint compare --limit 8",
        "The constraint rarely lowers T_e (`label_matters` counts), though what attacks reach it does.",
    ),
    Item(
        "Tables 9 and 10", Sort.TABLE, "Flower and ImageNet; in brackets the share outside T_e", "attrcert.reporting.summaries.attacks",
        "attrcert attack torchvision:resnet18 torchvision:ImageNet:val --limit 8",
    ),
)  # fmt: skip
