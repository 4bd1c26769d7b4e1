"""Are these the images and labels that the model was trained for?"""

from jaxtyping import Float
from scipy.special import bdtrc
from torch import Tensor

from attrcert.loading.datasets import LoadedData
from attrcert.networks.classifier import Classifier
from attrcert.running.checks.findings import Finding, Level
from attrcert.running.checks.outputs import logits_of
from attrcert.settings.tasks import Task
from attrcert.vocabulary import Kind

UNEQUAL = 30.0  # scales of features
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


def input_range(x: Float[Tensor, "b *shape"], data: LoadedData) -> Finding:
    """Pixels in [0, 1] that use the range; features of one scale."""
    low, high = x.min().item(), x.max().item()
    if not data.of_pixels:
        return _spread(x, data) or Finding("input range", Level.OK, f"values lie in [{low:g}, {high:g}]")
    message = f"pixels lie in [{low:g}, {high:g}]"
    if high <= 2 / 255:
        return Finding("input range", Level.WARN, message, "were they divided by 255 twice?")
    return Finding("input range", Level.OK, message)


def perturbation_size(config: Task, data: LoadedData, x: Float[Tensor, "b *shape"]) -> tuple[Finding, ...]:
    """A perturbation longer than any difference of two inputs is a mistaken unit; so is one that features of other scales share."""
    if not config.perturbs:
        return ()
    if "eps" in config.refused:
        unequal = _spread(x, data)
        return (unequal,) if unequal else ()
    norm, largest = config.perturbation.delta_norm, max(config.perturbation.eps)
    images = data.of_pixels
    if largest > data.within.distance(norm, x[0].numel()):
        what = "images" if images else "inputs"
        hint = "eps is in pixel units (0 to 1): did you mean 8/255?" if images else f"eps is in {data.units}"
        return (
            Finding("eps", Level.WARN, f"eps {largest:g} is larger than any difference of two {what} in {norm}", hint),
        )
    return (_spread(x, data) or Finding("eps", Level.OK, "within the pixel range" if images else f"in {data.units}"),)


def _spread(x: Float[Tensor, "b *shape"], data: LoadedData) -> Finding | None:
    """Features of a table that differ so much in scale that one eps means nothing for some of them."""
    if data.form.kind is not Kind.TABULAR or len(x) < 2:
        return None
    std = x.std(dim=0)
    std = std[std > 0]
    if not len(std) or (ratio := (std.max() / std.min()).item()) < UNEQUAL:
        return None
    message = f"features differ in scale by a factor of {ratio:.0f}, and eps is the same for all"
    return Finding(
        "features", Level.WARN, message, "--feature-scale std: eps in units of each feature's standard deviation"
    )
