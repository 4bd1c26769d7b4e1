"""The columns that the rows of every command begin and end with."""

from attrcert.columns.column import Column, words
from attrcert.vocabulary import ERROR_KINDS, Guarantee, Status

COMMON = (
    Column("index", int, "the sample's place in the data set", least=0, place=1),
    Column("source", str, "its file, within the folder of the data; empty for arrays", since=4, place=1),
    Column("label", int, "its label; empty where the data have none", place=2),
    Column("label_name", str, "what the label's class is called, where the data say so", since=4, place=2),
    Column("predicted", int, "the class with the largest logit", least=0, place=3),
    Column("target", int, "the explained class y", least=0),
    Column("correct", bool, "whether the prediction is the label; empty where the data have none", since=2),
    Column(
        "status", str,
        "ok, everywhere (max-eps --proved: the threshold is kept as far as two images can be apart), "
        "vacuous (T_e, or with --proved T_proved, >= g_norm, or smoothed: no angle follows from the draws), "
        "abstained (smoothed: the threshold was not certified), infeasible (min-radius: at no radius tested), label-changed (attack: "
        "no iterate kept the label), not-converged, or error:<kind>",
        words=(*words(Status), *(f"error:{kind}" for kind in ERROR_KINDS)), place=4,
    ),
    Column(
        "guarantee", str,
        "what the bound promises: proved (T_proved), confidence (but for `failure`) or first-order (T_e holds for the linearised "
        "attribution only); of scores the strongest promise of the row's figures",
        words=words(Guarantee),
    ),
    Column("attribution", str, "the method with its parameters", case=True),
    Column("norm", str, "of the perturbation: l2, l<p> or linf", case=True),
    Column(
        "eps", float, "its size, in pixel units; of other data in units of the inputs, or of each feature's scale (--feature-scale)",
        least=0, case=True, place=5,
    ),
    Column("g_norm", float, "|g(x)|_2", least=0, place=90),
)  # fmt: skip
APART = ("attribution", "norm")  # of which a run may have several
CLOSING = (
    Column("seconds", float, "the sample's share of its batch's time", least=0),
    Column("seed", int, "of the run; a sample's draws depend on (seed, index) alone", least=0),
    Column("message", str, "why a sample could not be used, or what to try where it is infeasible", place=99),
)
