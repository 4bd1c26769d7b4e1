"""Whether any of many perturbations gets past a certificate: `python -m benchmarks.perturbations FOLDER [NAME ...]`.

FOLDER as in `benchmarks.certificates`; the bundled models are tried too. For every sample PERTURBATIONS of length eps are compared on the
same draws: random ones, J^T u for random u, mixtures of the leading direction with those, ends of the ascent and points around them. The
strongest is measured on fresh draws, and its angle less two standard errors put beside the certified one.
"""

import sys
import time
from math import sqrt
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor

import attrcert
from attrcert import DataSpec, ModelSpec
from attrcert.attacks.turning import directed
from attrcert.bounds.smoothed.jacobian import TurningJacobian
from attrcert.running.evaluating.drawing import Drawing, Group
from attrcert.running.evaluating.samples import read
from attrcert.running.evaluating.turning import Search, Turns
from attrcert.settings.certifying import CertifiedAttackConfig
from attrcert.settings.smoothing import CHUNK
from benchmarks.certificates import DRAWS, SAMPLES, SUBJECTS, known

RADIUS, COSINE = 2.0, 0.9  # sigma sqrt(d), and what is certified at the eps that is attacked
RANDOM, BACKWARDS, MIXED, AROUND = 48, 32, 44, 15  # of the last, around each end of the ascent
TOGETHER, COMPARED, FRESH = 40, 8, 160  # perturbations at once, and chunks of draws
BUNDLED = ("fashion-natural", "fashion-adversarial")


def tried(folder: Path, name: str) -> str:
    """A line of the table."""
    started = time.perf_counter()
    where, settings = (
        known(folder, name) if name in SUBJECTS else ((name, "fashion-test"), {"limit": SAMPLES, "samples": DRAWS})
    )
    d = SUBJECTS[name].d if name in SUBJECTS else 784
    settings |= {"smooth": "gaussian", "sigma": RADIUS / sqrt(d)}
    reach = attrcert.max_eps(*where, **settings, min_cosine=COSINE)
    eps = fmean(float(row["eps_max"] or 0) for row in reach)
    if eps == 0:
        return f"| {name} | - | nothing is certified | | | |"
    model = {key: settings.pop(key) for key in ("arch", "mean", "std") if key in settings}
    for key in ("mean", "std"):
        if key in model:
            model[key] = tuple(map(float, model[key].split(",")))
    limit = settings.pop("limit")
    config = CertifiedAttackConfig(**settings, eps=eps)
    run = attrcert.open_run(ModelSpec(where[0], **model), DataSpec(where[1], limit=limit), config)
    assert isinstance(run.work, Turns)
    with run.classifier.prepared() as f:
        batch, _ = read(run.data.images, run.data.indices, run.shape, device=run.device, dtype=torch.float32)
        assert batch is not None
        drawn = run.work.drawing(f, batch, f(batch.images))
        (group,) = drawn.finished()
        margins, count = _judged(drawn, group, Search.among(drawn, group, run.work.twin), eps)
    least = min(margins)
    return f"| {name} | {eps:.4f} | {count} | {sum(m < 0 for m in margins)} | {least:.1f} | {time.perf_counter() - started:.0f} |"


def _judged(drawn: Drawing, group: Group, search: Search, eps: float) -> tuple[list[float], int]:
    """By how many degrees the strongest stays below what is certified, of each sample that has an angle; perturbations tried."""
    candidates = _candidates(drawn, group, search, eps)
    compared = [
        one.estimate().cosine
        for part in candidates.split(TOGETHER)
        for one in search._measured(part, COMPARED, "bench-compared")
    ]
    best = torch.stack(compared).nan_to_num(nan=torch.inf).argmin(dim=0)
    strongest = candidates[best, torch.arange(len(best))]
    (fresh,) = search._measured(strongest[None], FRESH, "bench-fresh")
    reached = fresh.estimate().turned(2.0)
    (spread,) = drawn.config.spread
    certified = [drawn.cosine(seen[spread], spread, eps) for seen in group.seen]
    margins = [
        torch.rad2deg(torch.acos(torch.tensor(cosine))).item() - angle
        for cosine, angle in zip(certified, reached, strict=True)
        if cosine is not None
    ]
    return margins, candidates.shape[0] * candidates.shape[1]


def _candidates(drawn: Drawing, group: Group, search: Search, eps: float) -> Tensor:
    (estimate,) = group.estimates.values()
    kept = estimate.scatter.kept if estimate.scatter is not None else None
    assert kept is not None
    assert search.leading is not None
    noise = torch.cat([drawn.unit(CHUNK, number) for number in range(-(-estimate.count // CHUNK))])
    noise = noise[estimate.piloted : estimate.count].to(kept)
    J = TurningJacobian(kept, noise, directed(estimate.mean).to(kept), drawn.config.spread[0])
    rng, shape = torch.Generator().manual_seed(0), search.leading.shape

    def normals() -> Tensor:
        return directed(torch.randn(shape, generator=rng))

    backwards = [directed(J.rmatvec(normals())) for _ in range(BACKWARDS + MIXED)]
    share = torch.linspace(-1, 1, MIXED)
    mixed = [
        directed(a * search.leading + (1 - a.abs()) * v) for a, v in zip(share, backwards[BACKWARDS:], strict=True)
    ]
    ends = [end / eps for end in search._candidates(eps)[1].unbind()[1:]]
    around = [directed(end + 0.6 * k / AROUND * normals()) for end in ends[-2:] for k in range(AROUND)]
    found = [*(normals() for _ in range(RANDOM)), *backwards[:BACKWARDS], *mixed, *ends, *around]
    return eps * torch.stack(found)


def main(folder: Path, names: list[str]) -> None:
    print(f"{SAMPLES} images, {DRAWS} draws, r = {RADIUS:g}; eps: the mean at which a cosine of {COSINE} is certified")
    print("| model | eps | perturbations | past the certificate | least margin, degrees | seconds |")
    print("|---|---|---|---|---|---|")
    for name in names or [*BUNDLED, *SUBJECTS]:
        print(tried(folder, name), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
