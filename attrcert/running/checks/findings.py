"""Is this model fit to be bounded? The checks of `attrcert doctor`; the first few run before every bound."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import torch
from jaxtyping import Float
from scipy.special import bdtrc
from torch import Tensor
from torch.nn import functional as F

from attrcert.attributions.gradient import Hessian, gradient
from attrcert.errors import AttrcertError, ModelError
from attrcert.networks.classifier import Classifier
from attrcert.networks.tracing import Called, outputs_by_module
from attrcert.vocabulary import some

LEAST_AGREEMENT, LEAST_COSINE = 0.95, 0.9
LARGEST_CHANCE = 0.05  # that guessing does as well as a model which is called better
CHUNK = 8  # images differentiated at once, so that the checks need less memory than the run


class Level(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """What a check saw, and what to do about it."""

    check: str
    level: Level
    message: str
    hint: str = ""


@dataclass(frozen=True)
class Fidelity:
    """How close the softplus twin is to the network it stands for."""

    samples: int
    agreement: float
    logit_gap: float
    cosine: float


def outputs(f: Classifier, x: Float[Tensor, "b *shape"]) -> Finding:
    """Logits of shape (batch, classes), finite on at least one sample."""
    name = "outputs"
    try:
        logits = _logits(f, x)
    except AttrcertError as error:
        return Finding(name, Level.FAIL, error.message, error.hint)
    except Exception as error:
        shape = tuple(x.shape[1:])
        hint = "check --arch, --resize, --crop and --channels"
        return Finding(name, Level.FAIL, f"the model rejects images of shape {shape}: {_first_line(error)}", hint)
    if logits.shape[1] < 2:
        return Finding(name, Level.FAIL, f"a classifier needs at least 2 classes, got {logits.shape[1]}")
    finite = int(logits.isfinite().all(dim=1).sum())
    if not finite:
        with outputs_by_module(f.network) as seen, torch.no_grad():
            f(x[:2])
        first = next((module for module, output in seen.items() if not output.isfinite().all()), "the model")
        message = f"the model's outputs are NaN or infinite, first from {first}"
        return Finding(name, Level.FAIL, message, "check the weights and --mean/--std")
    message = f"{logits.shape[1]} classes, logits of {finite} of {len(x)} samples finite"
    return Finding(name, Level.OK if finite == len(x) else Level.WARN, message)


def determinism(f: Classifier, x: Float[Tensor, "b *shape"]) -> Finding:
    """The same input gives the same output."""
    with outputs_by_module(f.network) as first, torch.no_grad():
        once = f(x)
    with outputs_by_module(f.network) as second, torch.no_grad():
        twice = f(x)
    if torch.equal(once, twice):
        return Finding("determinism", Level.OK, "two passes agree to the bit")
    gap, culprit = (once - twice).abs().max().item(), _first_difference(first, second, 0.0)
    message = f"two passes differ by {gap:.2g}, first in {culprit}"
    return Finding("determinism", Level.FAIL, message, "the model draws random numbers in eval mode")


def batch_coupling(f: Classifier, x: Float[Tensor, "b *shape"]) -> Finding:
    """A sample alone gives what it gives in a batch; otherwise one product would mix samples."""
    name = "batch coupling"
    if len(x) < 2:
        return Finding(name, Level.WARN, "not checked: it takes at least two samples")
    with outputs_by_module(f.network) as together, torch.no_grad():
        logits = f(x)
    # a sample among copies of itself is as good as alone, and batch statistics take it
    with outputs_by_module(f.network) as alone, torch.no_grad():
        single = f(x[:1].expand(2, *x.shape[1:]))
    tolerance = 1e-4 if x.dtype == torch.float32 else 1e-9
    if _relative(single[0], logits[0]) <= tolerance:
        return Finding(name, Level.OK, "a sample alone gives what it gives in a batch")
    culprit = _first_difference(alone, together, tolerance)
    hint = "every sample must be computed independently of the others"
    return Finding(name, Level.FAIL, f"{culprit} mixes the samples of a batch", hint)


def curvature(f: Classifier, x: Float[Tensor, "b *shape"]) -> Finding:
    """The gradient can be differentiated, and is not constant."""
    name = "second derivative"
    v = torch.randn(len(x), x[0].numel(), generator=torch.Generator().manual_seed(0)).to(x)
    try:
        product = Hessian(f, x, f(x).argmax(1)).matvec(v)
    except RuntimeError as error:
        return Finding(
            name,
            Level.FAIL,
            f"the gradient cannot be differentiated: {_first_line(error)}",
            "an operation has no second derivative",
        )
    if not product.isfinite().all():
        return Finding(
            name,
            Level.FAIL,
            "the Hessian product has NaN or infinity",
            "an operation's second derivative is not finite",
        )
    if product.abs().max() == 0:
        return Finding(
            name,
            Level.FAIL,
            "the Hessian is zero at every sample (a ReLU network is piecewise linear): a bound of 0 would mean nothing",
            "use --softplus-beta 20, or --loss-hessian for the gradient of the loss",
        )
    return Finding(name, Level.OK, "Hessian products work and are not zero")


def piecewise_linear(f: Classifier, x: Float[Tensor, "b *shape"]) -> Finding:
    """The network has no curvature of its own, as the closed-form Hessian of the loss supposes."""
    seen = curvature(f, x)
    if seen.level is not Level.OK:  # the Hessian is zero, or the network cannot be differentiated twice at all
        return Finding("piecewise linear", Level.OK, "the network has no curvature of its own")
    message = "--loss-hessian holds for piecewise-linear networks only, and this one has curvature of its own"
    return Finding("piecewise linear", Level.FAIL, message, "leave --loss-hessian out")


def finite_difference(f: Classifier, x: Float[Tensor, "b *shape"]) -> Finding:
    """The Hessian product equals a central difference of gradients, in float64."""
    name = "Hessian against finite difference"
    try:
        network = copy.deepcopy(f.network).double()
        exact = Classifier(network, f.mean, f.std, f.output, f.beta)
        z = x.double()
        y = exact(z).argmax(1)
        v = torch.randn(len(z), z[0].numel(), generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(
            z.device
        )
        v = v / v.norm(dim=1, keepdim=True)
        step = 1e-5 * v.view_as(z)
        difference = (gradient(exact, z + step, y) - gradient(exact, z - step, y)) / 2e-5
        gap = _relative(Hessian(exact, z, y).matvec(v), difference)
    except Exception as error:
        return Finding(name, Level.WARN, f"not checked: {_first_line(error)}", "the model does not run in float64")
    if gap <= 1e-4:
        return Finding(name, Level.OK, f"agree to {gap:.1g} relative")
    return Finding(
        name,
        Level.WARN,
        f"differ by {gap:.1g} relative",
        "the gradient has a kink or a jump near a sample, or an operation's derivative is wrong",
    )


EXACT = ("abs", "gt", "where", "clip", "clamp")  # words that other functions' names contain
_KINKS = {
    "max_pool": "max-pooling: the gradient jumps where the maximum switches, so no Jacobian bound can hold across it "
    "(average pooling or strides have no switch)",
    "relu": "a ReLU runs as it is",
    "hardtanh": "hardtanh runs as it is",
    "clamp": "a clamp has kinks",
    "clip": "a clip has kinks",
    "maximum": "a maximum has a kink",
    "minimum": "a minimum has a kink",
    "where": "where may have a kink or a jump",
    "abs": "abs has a kink",
    "gt": "a comparison may make a kink or a jump",
    "hardswish": "hardswish has kinks",
    "hardsigmoid": "hardsigmoid has kinks",
    "threshold": "threshold has a jump or a kink",
    "shrink": "a shrinkage function has kinks",
}


def kinks(f: Classifier, x: Float[Tensor, "b *shape"]) -> list[Finding]:
    """Operations whose gradient jumps, by module."""
    with Called(f.network) as called, torch.no_grad():
        f(x[:2])
    found: dict[str, list[str]] = {}
    for function, module in called.names:
        for word, reason in _KINKS.items():
            if word in function and not (word in EXACT and function.strip("_") != word):
                found.setdefault(reason, []).append(module)
    if not found:
        return [
            Finding(
                "kinks",
                Level.OK,
                "none of the known kinks (max-pooling, ReLU, clamp, maximum, abs, where, ...) was seen",
            )
        ]
    hint = "first-order figures say nothing beyond the nearest switch or kink"
    return [
        Finding("kinks", Level.WARN, f"{reason} ({some(dict.fromkeys(modules), 3)})", hint)
        for reason, modules in found.items()
    ]


def fidelity(f: Classifier, x: Float[Tensor, "b *shape"]) -> tuple[Fidelity | None, Finding]:
    """The softplus twin against the original: same labels, close logits, aligned gradients."""
    if f.beta is None or not f.replaced(x[:2]):
        return None, Finding("softplus twin", Level.OK, "the network runs with its own activations")
    original = f.original()
    twin, own = _logits(f, x), _logits(original, x)
    y = own.argmax(1)
    slopes = gradient(f, x, y, chunk=CHUNK), gradient(original, x, y, chunk=CHUNK)
    cosine = F.cosine_similarity(slopes[0], slopes[1], dim=1)
    measured = Fidelity(
        len(x), (twin.argmax(1) == y).double().mean().item(), (twin - own).abs().max().item(), cosine.mean().item()
    )
    count = ", ".join(f"{number} {kind}" for kind, number in f.replaced(x[:2]).items())
    message = (
        f"{count} run as softplus, beta {f.beta:g}: same label on {measured.agreement:.0%} of {len(x)} samples, "
        f"largest logit gap {measured.logit_gap:.2g}, mean cosine of the gradients {measured.cosine:.2f}"
    )
    if measured.agreement >= LEAST_AGREEMENT and measured.cosine >= LEAST_COSINE:
        return measured, Finding("softplus twin", Level.OK, message)
    return measured, Finding(
        "softplus twin",
        Level.WARN,
        message,
        "the bounds speak of the twin; a larger --softplus-beta stays closer to the ReLU network",
    )


def accuracy(f: Classifier, x: Float[Tensor, "b *shape"], labels: list[int | None]) -> Finding:
    """More labels right than guessing gets (an exact binomial test), or something about normalisation or label order is wrong."""
    known = [(i, label) for i, label in enumerate(labels) if label is not None]
    if not known:
        return Finding("accuracy", Level.WARN, "not checked: the data have no labels")
    logits = _logits(f, x)
    beyond = [label for _, label in known if not 0 <= label < logits.shape[1]]
    if beyond:
        return Finding(
            "accuracy",
            Level.FAIL,
            f"labels must be below {logits.shape[1]}, the number of classes, got {beyond[0]}",
            "is this the data set that the model was trained for?",
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
    if high <= 2 / 255:
        return Finding(
            "input range", Level.WARN, f"pixels lie in [{low:g}, {high:g}]", "were they divided by 255 twice?"
        )
    return Finding("input range", Level.OK, f"pixels lie in [{low:g}, {high:g}]")


def before_run(
    f: Classifier,
    x: Float[Tensor, "b *shape"],
    labels: list[int | None],
    *,
    needs: Callable[[Classifier, Float[Tensor, "b *shape"]], Finding] | None,
) -> tuple[Fidelity | None, list[Finding]]:
    """The light version: what would make every figure wrong stops the run. `needs` is the run's own check, if it has one."""
    seen = _passed(outputs(f, x))
    x, labels = _finite(f, x, labels)
    few = x[:4]
    measured, twin = fidelity(f, x)
    findings = [
        seen,
        _passed(determinism(f, few)),
        _passed(batch_coupling(f, few)),
        _passed(accuracy(f, x, labels)),
        twin,
    ]
    if needs is not None:  # what is averaged over noise may have kinks
        findings += [*kinks(f, few), _passed(needs(f, few))]
    return measured, findings


def _finite(
    f: Classifier, x: Float[Tensor, "b *shape"], labels: list[int | None]
) -> tuple[Float[Tensor, "kept *shape"], list[int | None]]:
    """The samples with finite outputs; the others are rows of their own and say nothing of the model."""
    keep = _logits(f, x).isfinite().all(dim=1).nonzero()[:, 0].tolist()
    return x[keep], [labels[i] for i in keep]


def _passed(finding: Finding) -> Finding:
    if finding.level is Level.FAIL:
        raise ModelError(f"{finding.check}: {finding.message}", hint=finding.hint)
    return finding


def diagnose(f: Classifier, x: Float[Tensor, "b *shape"], labels: list[int | None]) -> list[Finding]:
    """All checks; later ones are left out where an earlier one makes them meaningless."""
    findings = [input_range(x), outputs(f, x)]
    if findings[-1].level is Level.FAIL:
        return findings
    x, labels = _finite(f, x, labels)
    few = x[:4]
    findings += [determinism(f, few), batch_coupling(f, few), fidelity(f, x)[1], *kinks(f, few), curvature(f, few)]
    if all(finding.level is not Level.FAIL for finding in findings):
        findings.append(finite_difference(f, few))
    return [*findings, accuracy(f, x, labels)]


def _logits(f: Classifier, x: Float[Tensor, "b *shape"]) -> Float[Tensor, "b k"]:
    with torch.no_grad():
        return torch.cat([f(part) for part in x.split(CHUNK)])


def _first_difference(one: Mapping[str, Tensor], other: Mapping[str, Tensor], tolerance: float) -> str:
    """The first module whose output differs."""
    for module, output in one.items():
        if module in other and (output.shape != other[module].shape or _relative(output, other[module]) > tolerance):
            return module
    return "the model"


def _relative(a: Tensor, b: Tensor) -> float:
    return ((a - b).abs().max() / b.abs().max().clamp_min(1e-30)).item()


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
