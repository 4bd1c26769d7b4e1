"""Are these the images and labels that the model was trained for?"""

from jaxtyping import Float
from scipy.special import bdtrc
from torch import Tensor

from attrcert.networks.classifier import Classifier
from attrcert.running.checks.findings import Finding, Level
from attrcert.running.checks.outputs import logits_of

LARGEST_CHANCE = 0.05  # that guessing does as well as a model which is called better


def accuracy(f: Classifier, x: Float[Tensor, "b *shape"], labels: list[int | None]) -> Finding:
    """More labels right than guessing gets (an exact binomial test), or something about normalisation or label order is wrong."""
    known = [(i, label) for i, label in enumerate(labels) if label is not None]
    if not known:
        return Finding("accuracy", Level.WARN, "not checked: the data have no labels")
    logits = logits_of(f, x)
    beyond = [label for _, label in known if not 0 <= label < logits.shape[1]]
    if beyond:
        message = f"labels must be below {logits.shape[1]}, the number of classes, got {beyond[0]}"
        return Finding(
            "accuracy",
            Level.FAIL,
            message,
            "is this the data set that the model was trained for, and --output the right one?",
        )
    hits, classes = sum(int(logits[i].argmax()) == label for i, label in known), logits.shape[1]
    message = f"{hits} of {len(known)} right"
    by_chance = float(bdtrc(hits - 1, len(known), 1 / classes))
    if by_chance <= LARGEST_CHANCE:
        return Finding("accuracy", Level.OK, f"{message} ({hits / len(known):.0%})")
    return Finding(
        "accuracy",
        Level.WARN,
        f"{message}: guessing among {classes} classes gets as many in {by_chance:.0%} of such checks",
        "check --mean and --std, the order of the labels and --softplus-beta"
        if classes ** -len(known) <= LARGEST_CHANCE
        else "so few samples cannot tell: take more, e.g. --limit 32",
    )


def input_range(x: Float[Tensor, "b *shape"]) -> Finding:
    """Pixels in [0, 1] that use the range."""
    low, high = x.min().item(), x.max().item()
    message = f"pixels lie in [{low:g}, {high:g}]"
    if high <= 2 / 255:
        return Finding("input range", Level.WARN, message, "were they divided by 255 twice?")
    return Finding("input range", Level.OK, message)
