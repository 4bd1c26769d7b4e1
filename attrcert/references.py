"""The papers whose theorems attrcert computes, by the key used in docstrings and in `attrcert catalogue`."""

from typing import NamedTuple


class Paper(NamedTuple):
    authors: str
    title: str
    venue: str


PAPERS: dict[str, Paper] = {
    "wang2023practical": Paper(
        "Wang & Kong", "A Practical Upper Bound for the Worst-Case Attribution Deviations", "CVPR 2023"
    ),
    "wang2024certified": Paper(
        "Wang & Kong", "Certified l2 Attribution Robustness via Uniformly Smoothed Attributions", "2024"
    ),
    "wang2020smoothed": Paper("Wang et al.", "Smoothed Geometry for Robust Attribution", "NeurIPS 2020"),
    "joo2023towards": Paper(
        "Joo et al.", "Towards More Robust Interpretation via Local Gradient Alignment", "AAAI 2023"
    ),
    "kuczynski1992estimating": Paper(
        "Kuczynski & Wozniakowski",
        "Estimating the Largest Eigenvalue by the Power and Lanczos Algorithms with a Random Start",
        "SIAM J. Matrix Anal. Appl. 1992",
    ),
    "waudbysmith2024estimating": Paper(
        "Waudby-Smith & Ramdas", "Estimating Means of Bounded Random Variables by Betting", "JRSS B 2024"
    ),
    "maurer2009empirical": Paper(
        "Maurer & Pontil", "Empirical Bernstein Bounds and Sample-Variance Penalization", "COLT 2009"
    ),
    "simonyan2013deep": Paper(
        "Simonyan et al.",
        "Deep Inside Convolutional Networks: Visualising Image Classification Models and Saliency Maps",
        "2013",
    ),
    "shrikumar2017learning": Paper(
        "Shrikumar et al.", "Learning Important Features Through Propagating Activation Differences", "ICML 2017"
    ),
    "sundararajan2017axiomatic": Paper("Sundararajan et al.", "Axiomatic Attribution for Deep Networks", "ICML 2017"),
    "dombrowski2019explanations": Paper(
        "Dombrowski et al.", "Explanations Can Be Manipulated and Geometry Is to Blame", "NeurIPS 2019"
    ),
    "springenberg2015striving": Paper(
        "Springenberg et al.", "Striving for Simplicity: The All Convolutional Net", "ICLR workshop 2015"
    ),
    "bach2015pixelwise": Paper(
        "Bach et al.",
        "On Pixel-Wise Explanations for Non-Linear Classifier Decisions by Layer-Wise Relevance Propagation",
        "PLoS ONE 2015",
    ),
    "montavon2017explaining": Paper(
        "Montavon et al.",
        "Explaining Nonlinear Classification Decisions with Deep Taylor Decomposition",
        "Pattern Recognition 2017",
    ),
    "selvaraju2017gradcam": Paper(
        "Selvaraju et al.",
        "Grad-CAM: Visual Explanations from Deep Networks via Gradient-Based Localization",
        "ICCV 2017",
    ),
    "nesterov1998semidefinite": Paper(
        "Nesterov", "Semidefinite Relaxation and Nonconvex Quadratic Optimization", "Optim. Methods Softw. 1998"
    ),
    "smilkov2017smoothgrad": Paper("Smilkov et al.", "SmoothGrad: Removing Noise by Adding Noise", "2017"),
    "ghorbani2019interpretation": Paper("Ghorbani et al.", "Interpretation of Neural Networks Is Fragile", "AAAI 2019"),
    "madry2018towards": Paper(
        "Madry et al.", "Towards Deep Learning Models Resistant to Adversarial Attacks", "ICLR 2018"
    ),
    "carlini2017towards": Paper("Carlini & Wagner", "Towards Evaluating the Robustness of Neural Networks", "S&P 2017"),
    "yeh2019fidelity": Paper("Yeh et al.", "On the (In)fidelity and Sensitivity of Explanations", "NeurIPS 2019"),
    "chen2019robust": Paper("Chen et al.", "Robust Attribution Regularization", "NeurIPS 2019"),
    "singh2020attributional": Paper(
        "Singh et al.", "Attributional Robustness Training Using Input-Gradient Spatial Alignment", "ECCV 2020"
    ),
    "schur1911bemerkungen": Paper(
        "Schur",
        "Bemerkungen zur Theorie der beschränkten Bilinearformen mit unendlich vielen Veränderlichen",
        "Crelle 1911",
    ),
    "bousquet2002bennett": Paper(
        "Bousquet",
        "A Bennett Concentration Inequality and Its Application to Suprema of Empirical Processes",
        "C. R. Math. 2002",
    ),
    "ghashami2016frequent": Paper(
        "Ghashami et al.", "Frequent Directions: Simple and Deterministic Matrix Sketching", "SIAM J. Comput. 2016"
    ),
    "anani2025pixel": Paper("Anani et al.", "Pixel-Level Certified Explanations via Randomized Smoothing", "ICML 2025"),
    "petsiuk2018rise": Paper(
        "Petsiuk et al.", "RISE: Randomized Input Sampling for Explanation of Black-box Models", "BMVC 2018"
    ),
    "agarwal2022rethinking": Paper("Agarwal et al.", "Rethinking Stability for Attribution-based Explanations", "2022"),
    "kumar2021center": Paper(
        "Kumar & Goldstein",
        "Center Smoothing: Certified Robustness for Networks with Structured Outputs",
        "NeurIPS 2021",
    ),
    "conn2000trust": Paper("Conn, Gould & Toint", "Trust-Region Methods", "SIAM 2000"),
    "rump2006verification": Paper("Rump", "Verification of Positive Definiteness", "BIT 2006"),
    "higham2002accuracy": Paper("Higham", "Accuracy and Stability of Numerical Algorithms", "SIAM 2002"),
}
