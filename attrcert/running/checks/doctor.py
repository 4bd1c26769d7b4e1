"""Is this model fit to be bounded? The checks of `attrcert doctor`; the first few run before every bound."""

from collections.abc import Callable, Sequence

from jaxtyping import Float
from torch import Tensor

from attrcert.attributions.differentiated import Differentiated
from attrcert.errors import AttributionError, ModelError
from attrcert.loading.datasets import LoadedData
from attrcert.networks.classifier import Classifier
from attrcert.running.checks.data import accuracy, input_range
from attrcert.running.checks.derivatives import curvature, finite_difference, kinks
from attrcert.running.checks.fidelity import Fidelity, fidelity
from attrcert.running.checks.findings import Finding, Level
from attrcert.running.checks.outputs import batch_coupling, determinism, logits_of, outputs
from attrcert.running.checks.own_maps import NAME, own_maps


def doctor(f: Classifier, x: Float[Tensor, "b *shape"], labels: list[int | None], data: LoadedData) -> list[Finding]:
    """All checks; later ones are left out where an earlier one makes them meaningless."""
    findings = [input_range(x, data), outputs(f, x)]
    if findings[-1].level is Level.FAIL:
        return findings
    x, labels = _finite(f, x, labels)
    few = x[:4]
    findings += [determinism(f, few), batch_coupling(f, few), fidelity(f, x)[1], *kinks(f, few), curvature(f, few)]
    if all(finding.level is not Level.FAIL for finding in findings):
        findings.append(finite_difference(f, few))
    return [*findings, accuracy(f, x, labels)]


def before_run(
    f: Classifier, x: Float[Tensor, "b *shape"], labels: list[int | None], versions: Sequence[Classifier]
) -> tuple[dict[float, Fidelity], list[Finding], Float[Tensor, "few *shape"]]:
    """The light version: what would make every figure wrong stops the run; and a few samples for what a task needs beside it. How
    close each of the softplus `versions` is to the network is told by its beta; of a network without ReLUs there are none.
    """
    seen = _passed(outputs(f, x))
    x, labels = _finite(f, x, labels)
    few = x[:4]
    checked = _passed(determinism(f, few)), _passed(batch_coupling(f, few)), _passed(accuracy(f, x, labels))
    twins = [(one.beta, *fidelity(one, x)) for one in versions]
    measured = {beta: found for beta, found, _ in twins if beta is not None and found is not None}
    return measured, [seen, *checked, *(finding for _, _, finding in twins)], few


def before_task(
    f: Classifier,
    few: Float[Tensor, "b *shape"],
    *,
    needs: Callable[[Classifier, Float[Tensor, "b *shape"]], Finding] | None,
    own: Differentiated | None = None,
) -> list[Finding]:
    """The same of what one task explains. `needs` is its own check, if it has one, and `own` an attribution that is itself looked at."""
    findings = [_passed(own_maps(own, f, few))] if own else []
    if needs is not None:  # what is averaged over noise may have kinks
        findings += [*kinks(f, few), _passed(needs(f, few))]
    return findings


def _finite(
    f: Classifier, x: Float[Tensor, "b *shape"], labels: list[int | None]
) -> tuple[Float[Tensor, "kept *shape"], list[int | None]]:
    """The samples with finite outputs; the others are rows of their own and say nothing of the model."""
    keep = logits_of(f, x).isfinite().all(dim=1).nonzero()[:, 0].tolist()
    return x[keep], [labels[i] for i in keep]


def _passed(finding: Finding) -> Finding:
    if finding.level is Level.FAIL:
        kind = AttributionError if finding.check == NAME else ModelError
        raise kind(f"{finding.check}: {finding.message}", hint=finding.hint)
    return finding
