"""Singh et al., Attributional Robustness Training Using Input-Gradient Spatial Alignment, ECCV 2020."""

from attrcert.papers.item import Item, Sort

ITEMS = (
    Item(
        "IG", Sort.ATTRIBUTION, "integrated gradients, 100 steps", "attrcert.attributions.integrated_gradients",
        "attrcert bound --attribution ig --ig-steps 100 --quadrature riemann-right --limit 2",
    ),
    Item(
        "IFIA", Sort.ATTACK, "top-k on integrated gradients, linf 8/255", "attrcert.attacks.top_k",
        "attrcert attack --preset singh --limit 1",
        "Restarts are random, and the set of the top k is that of the original map throughout.",
    ),
    Item(
        "adversarial accuracy", Sort.METRIC, "PGD in l2 and linf on the prediction", "attrcert.attacks.prediction",
        "attrcert attack --attack prediction --norm linf --eps 2/255,8/255 --limit 8",
    ),
    Item(
        "the transfer table", Sort.TABLE, "accuracy under perturbations that were made on other networks",
        "attrcert.running.evaluating.predicting", "attrcert attack --attack prediction --transfer-from fashion-adversarial --limit 8",
    ),
    Item(
        "top-k intersection", Sort.METRIC, "what stays of the k largest", "attrcert.metrics.top_k",
        "attrcert attack --metric top-k --k 100 --limit 8",
    ),
    Item("Kendall", Sort.METRIC, "rank correlation tau", "attrcert.metrics.kendall", "attrcert attack --metric kendall --limit 8"),
    Item(
        "weakly supervised localisation", Sort.METRIC, "GT-known and Top-1 localisation of the map's box, CUB",
        "attrcert.scores.localisation",
        "attrcert score net.pt cub:CUB_200_2011:test --metric localisation --boxes CUB_200_2011/bounding_boxes.txt --loc-map art",
        "In its code boxes that do not meet can have an IoU above 0.",
    ),
    Item(
        "the table of localisation", Sort.TABLE, "both figures, and MaxBoxAcc beside them", "attrcert.reporting.summaries.localised",
        "attrcert score net.pt images --metric localisation --boxes boxes.json --attribution sm,ig --resize 224,224",
    ),
    Item(
        "the identity behind ART", Sort.THEOREM, "for unit vectors |u - v|^2 = 2 (1 - cos)", "attrcert.metrics.cosine",
        "attrcert attack --metric cosine --limit 8",
    ),
    Item("ART", Sort.TRAINING, "a triplet loss of input and gradients"),
    Item(
        "Wide ResNets", Sort.NETWORK, "28-10 and 40-2", "attrcert.loading.published", "attrcert bound weights.pt data.npz --arch wrn-28-10",
    ),
    Item(
        "Figure S2", Sort.FIGURE, "box plots of Kendall's tau and the top-k intersection", "attrcert.reporting.pages.paper_figures",
        "attrcert report attacks.csv --plots figures",
    ),
    Item(
        "the tables of attributional robustness", Sort.TABLE, "top-k intersection and Kendall's tau under attack",
        "attrcert.reporting.summaries.attacks", "attrcert attack --preset singh --metric top-k,kendall --limit 1",
    ),
)  # fmt: skip
