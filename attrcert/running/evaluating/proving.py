"""The proved bound of a run: the network is read once, and what it bounds is compared with what runs, in float64."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from attrcert.ascent.balls import on_sphere
from attrcert.attributions.gradient import Saliency
from attrcert.bounds.proved.bound import ProvedBound, Prover
from attrcert.bounds.proved.choosing import FittingProver, least_bytes
from attrcert.bounds.proved.nodes import path
from attrcert.bounds.proved.point import second_blur, without_jacobians
from attrcert.bounds.proved.reading import read_network
from attrcert.draws import Draws
from attrcert.errors import ModelError, UsageError
from attrcert.networks.classifier import Classifier
from attrcert.settings.tasks import BoundConfig
from attrcert.types import Attribution

LARGEST_BASELINE = 1.001  # the share of rounding that bounds.proved.rounding allows a node, but for rounding itself
POINTS = 8  # that logits and gradients are compared at before the run
AGREEMENT = 1e-6  # relative
FLOOR = 1e-12  # absolute: what cancels in torch's derivatives of saturated activations
ROUNDED = (
    16  # times the bound of what rounding takes of a second derivative: two ways to compute it differ by that much
)


@dataclass(frozen=True)
class Proving:
    """The bound, and the network that runs, in float64: every attribution that is bounded is compared with its own.

    Values alone would show little of a part that bends beside a large linear one. So what the bound is about is compared too: the
    attribution's derivative, at x and on the sphere of the largest ball, relative to what the bound says it can be. Samples where they
    differ are `MisreadError`.
    """

    prover: Prover
    running: Classifier

    def __call__(
        self,
        x: Float[Tensor, "b *shape"],
        classes: Int64[Tensor, " b"],
        eps: Sequence[Float[Tensor, " b"]],
        draws: Draws,
    ) -> list[ProvedBound]:
        """Of each sample at each eps."""
        x = x.double()
        found = self.prover(x, classes, eps, draws)
        attribution = self.prover.attribution
        _same("attributions", attribution.value(self.running, x, classes, draws), found[0].value)
        rates = [bound.upper / one.to(bound.upper) for bound, one in zip(found, eps, strict=True)]
        largest = torch.stack([one.to(rates[0]) for one in eps]).amax(dim=0)
        allowed = AGREEMENT + ROUNDED * found[0].rounding
        self._same_derivative(x, classes, allowed * torch.stack(rates).amin(dim=0), draws)
        unit = on_sphere(draws.normal("far", x[0].numel(), like=x), self.prover.norm)
        far = x + (largest[:, None] * unit).view_as(x)
        self._same_derivative(far, classes, allowed * torch.stack(rates).amax(dim=0), draws)
        return found

    def _same_derivative(self, x: Tensor, classes: Tensor, allowed: Float[Tensor, " b"], draws: Draws) -> None:
        """The products of both Jacobians with a normal vector, which no part of them is likely to be hidden from."""
        v = draws.normal("agreement", x[0].numel(), like=x)
        theirs, ours = (
            self.prover.attribution.explain(f, x, classes, draws).jacobian.matvec(v)
            for f in (self.running, lambda points: self.prover.network.values(points)[-1])
        )
        off = (theirs - ours).norm(dim=1)
        allowed = allowed.nan_to_num(torch.inf) + ROUNDED * self._blurred(
            x, classes, v
        )  # a bound of infinity claims nothing
        bad = ~(off <= allowed)
        if bool(bad.any()):
            worst = int(torch.where(bad, off / allowed, 0.0).nan_to_num(torch.inf).argmax())
            said = f"{float(allowed[worst]):.3g} allowed"
            raise _another("derivatives of the attribution", float(off[worst]), said, _rows(bad))

    def _blurred(self, x: Tensor, classes: Tensor, v: Float[Tensor, "b d"]) -> Float[Tensor, " b"]:
        """About what rounding does to the products where s'' is off by as much as its largest value is rounded, as torch's formulas are."""
        nodes = path(self.prover.attribution, x)
        total = torch.zeros_like(v)
        for z, w, a in zip(nodes.points, nodes.weights, nodes.steps, strict=True):
            total += abs(w * a) * second_blur(without_jacobians(self.prover.network, z, classes), v)
        return (total if nodes.difference is None else nodes.difference * total).norm(dim=1)

    def compare(self, x: Float[Tensor, "b *shape"]) -> None:
        """At images, at noisy ones and at noise: a value alone would not show a gradient of its own."""
        rng = torch.Generator().manual_seed(0)
        images = x[torch.arange(POINTS, device=x.device) % len(x)].double()
        noise = torch.rand(images.shape, generator=rng, dtype=torch.float64).to(x.device)
        share = torch.arange(POINTS, device=x.device).view(-1, *[1] * (x.ndim - 1)) / (POINTS - 1)
        points = (1 - share) * images + share * noise
        network = self.prover.network
        with torch.no_grad():
            logits = self.running(points)
            _same("logits", logits, network.values(points)[-1])
        classes = logits.argmax(dim=1)
        ours = without_jacobians(network, points, classes).gradient
        _same("gradients", Saliency().value(self.running, points, classes), ours)


def proving(
    config: BoundConfig, classifier: Classifier, attribution: Attribution, x: Tensor, memory: int
) -> Proving | None:
    """For a configuration that asks for it; refuses what has no rule, does not fit, or was read wrongly."""
    if not config.bounding.proved:
        return None
    one = x[:1].double()
    difference = path(attribution, one).difference  # refuses attributions without a proof before anything is read
    if difference is not None and bool(((one.flatten(1) - difference).abs() > LARGEST_BASELINE).any()):
        raise UsageError(
            "proved bounds of integrated-gradients need a baseline between -1 and 1, and the mean is larger",
            hint="--baseline 0, or --feature-scale std",
        )
    running = replace(classifier, network=deepcopy(classifier.network).double().eval().requires_grad_(False))
    network = read_network(running, tuple(x.shape[1:]), x.device)
    needed = least_bytes(network, len(config.perturbation.eps))
    if needed > memory:
        raise ModelError(
            f"the proved bound holds matrices of {network.inputs} x {network.inputs} entries, {needed / 1e9:.3g} GB a sample, and --memory "
            f"allows {memory / 1e9:.3g} GB",
            hint=f"--memory {needed / 1e9 * 1.1:.2g}GB if the machine has it; the smoothing certificate (--smooth uniform) needs little",
        )
    made = Proving(
        FittingProver(network, attribution, config.perturbation.delta_norm, memory, config.bounding.proved_effort),
        running,
    )
    made.compare(x)
    return made


class MisreadError(ModelError):
    """Samples of a batch at which what was read is not what runs."""

    def __init__(self, message: str, rows: tuple[int, ...], *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.rows = rows


def _same(what: str, theirs: Float[Tensor, "b n"], ours: Float[Tensor, "b n"]) -> None:
    off, size = (theirs - ours).abs().amax(dim=1), theirs.abs().amax(dim=1)
    bad = ~(off <= AGREEMENT * size + FLOOR)
    if bool(bad.any()):
        raise _another(what, float(off[bad].max()), "", _rows(bad))


def _rows(bad: Bool[Tensor, " b"]) -> tuple[int, ...]:
    return tuple(bad.nonzero()[:, 0].tolist())


def _another(what: str, off: float, allowed: str, rows: tuple[int, ...]) -> MisreadError:
    return MisreadError(
        f"the proved bound read another network than the one that runs: their {what} differ by {off:.3g}"
        + (f", {allowed}" if allowed else ""),
        rows,
        hint="gradients that the network stops or replaces, and writing into views, are not followed",
    )
