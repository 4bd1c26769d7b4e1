"""Wang & Kong, Certified l2 Attribution Robustness via Uniformly Smoothed Attributions, 2024."""

from attrcert.papers.item import Item, Sort

ITEMS = (
    Item(
        "Theorem 1", Sort.THEOREM, "the least cosine of a uniformly smoothed map within eps",
        "attrcert.bounds.smoothed.cosine_bounds", "attrcert bound --smooth uniform --radius 4 --eps 0.05 --rule tight --limit 8",
        "The published cosine is false: it minimises at a right angle, and a network of four ReLUs breaks it. `tight` holds and no better "
        "rule follows from the same figures; --rule published is for comparison.",
    ),
    Item(
        "Theorem 1, its volumes", Sort.THEOREM, "how far the noise at x and at x + delta overlaps",
        "attrcert.bounds.smoothed.noise_overlap", "attrcert bound --smooth uniform --radius 4 --eps 0.05 --limit 8",
        "The published form cancels at small eps. Gaussian noise is there too (--smooth gaussian), and certifies more.",
    ),
    Item(
        "Corollary 1, largest eps", Sort.THEOREM, "the largest eps that keeps a cosine", "attrcert.bounds.smoothed.cosine_bounds",
        "attrcert max-eps --smooth uniform --radius 4 --min-cosine 0.9 --limit 8",
        "The inverse of the rule that holds.",
    ),
    Item(
        "Corollary 1, smallest radius", Sort.THEOREM, "the smallest radius that keeps a cosine within eps",
        "attrcert.running.evaluating.smoothing", "attrcert min-radius --eps 0.05 --min-cosine 0.8 --radii 2,4 --limit 4",
        "The closed form fixes |h|, which depends on the radius: it is no answer (--published 0.9 prints it). Radii are tested one by one.",
    ),
    Item(
        "h", Sort.ATTRIBUTION, "the uniformly smoothed attribution", "attrcert.bounds.smoothed.lengths",
        "attrcert smooth --smooth uniform --radius 4 --limit 2 --out maps.npz",
    ),
    Item(
        "h of few draws", Sort.ATTRIBUTION, "the mean over draws that are fixed, bounded like any other map",
        "attrcert.attributions.smoothed", "attrcert bound --attribution uniform-smooth --radius 1 --limit 8",
    ),
    Item(
        "M", Sort.THEOREM, "the largest |g|", "attrcert.attributions.bounded",
        "attrcert bound --smooth uniform --radius 4 --eps 0.05 --bounded clip:0.1 --limit 8",
        "The paper takes the largest of samples, which is no bound. Here |g| <= M by construction.",
    ),
    Item(
        "the confidence interval", Sort.THEOREM, "|h| from draws, by a generalised chi-square law",
        "attrcert.statistics.generalised_chi_square", "attrcert bound --smooth uniform --radius 4 --confidence clt --limit 8",
        "It is biased and misses 10 to 100 % of the time at a nominal 5 %. The default, betting, holds at every number of draws.",
    ),
    Item(
        "the attack", Sort.ATTACK, "against the smoothed map", "attrcert.attacks.turning",
        "attrcert attack --preset wang-kong-smooth --limit 2",
        "The angle is climbed, which is what is certified; measured on fresh draws.",
    ),
    Item(
        "centre smoothing", Sort.TABLE, "what Kumar & Goldstein's centre smoothing certifies, for comparison",
        "attrcert.bounds.smoothed.centre", "attrcert bound --smooth centre --sigma 0.1 --eps 0.02 --limit 4",
        "It is vacuous (1 - cosine above 1) unless about half of the noise turns the map by less than 30 degrees.",
    ),
    Item("IGR, Eq. 39", Sort.TRAINING, "TRADES and 1 - cos(IG(x), IG(x'))"),
    Item(
        "Tables 5 to 7", Sort.TABLE, "mean largest eps by radius and cosine", "attrcert.reporting.summaries.inverses",
        "attrcert max-eps --smooth uniform --radius 0.5,1,2 --min-cosine 0.8,0.9 --limit 8",
        "No |h| <= M gives the printed values: none of 98 cells can come from the paper's formulas.",
    ),
    Item(
        "Table 9", Sort.TABLE, "smallest radius by eps", "attrcert.reporting.summaries.inverses",
        "attrcert min-radius --eps 0.05 --min-cosine 0.8,0.9 --radii 2,4 --limit 4",
        "All 28 printed cells are below what the paper's formula gives at |h| = M.",
    ),
)  # fmt: skip
