"""`max-eps` and `min-radius` undo `bound`: thresholds in, radii out, and the bound at those radii gives the thresholds back."""

import csv
import io
import json
import math
import sys
import textwrap
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from attrcert.cli.app import main
from attrcert.loading.architectures import build
from attrcert.running.evaluating import drawing, smoothing
from attrcert.running.evaluating.cells import Bounded
from attrcert.running.evaluating.inverting import Inversions, allowed, largest_eps
from attrcert.settings.certifying import MinRadiusConfig
from attrcert.settings.tasks import MaxEpsConfig
from attrcert.statistics.confidence import Betting

GOLDEN = json.loads((Path(__file__).parent / "golden_smoothing.json").read_text())
# the program rounds eps down by 1e-12, and a bound of a few products up or down by a few ulps
ROUNDING = 1e-11
ARCHS = """
    import torch
    from torch import nn

    def smooth():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.Softplus(), nn.Linear(6, 3))
        for parameter in net.parameters():
            parameter.data *= 3
        return net

    def relu():
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 40), nn.ReLU(), nn.Linear(40, 3))
"""


def deviation_allowed(kind: str, threshold: float, length: float) -> float:
    """Of one map of that length."""
    return float(allowed(kind, threshold, torch.tensor([length], dtype=torch.float64), lambda: None)[0])


def run(*words) -> list[dict[str, str]]:
    """The rows that a command prints."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(out), redirect_stderr(err):
        patched.setattr(sys, "argv", ["attrcert", *map(str, words), "--format", "csv", "--quiet"])
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code, err.getvalue()
    return list(csv.DictReader(io.StringIO(out.getvalue())))


@pytest.fixture(scope="module")
def on(tmp_path_factory) -> Callable[..., list[dict[str, str]]]:
    """A command on four images of 8 x 8 pixels in double precision."""
    folder = tmp_path_factory.mktemp("inversions")
    (folder / "archs.py").write_text(textwrap.dedent(ARCHS))
    for name in ("smooth", "relu"):
        torch.save(build(f"{folder}/archs.py:{name}", {}).state_dict(), folder / f"{name}.pt")
    images = np.random.default_rng(0).integers(0, 256, (4, 8, 8), dtype=np.uint8)
    np.savez(folder / "data.npz", images=images, labels=np.arange(4) % 3)

    def command(name: str, *words, net: str = "smooth") -> list[dict[str, str]]:
        arch = ("--arch", f"{folder}/archs.py:{net}", "--dtype", "float64")
        return run(name, folder / f"{net}.pt", folder / "data.npz", *arch, *words)

    return command


# thresholds and the deviations that they allow


@pytest.mark.parametrize("case", GOLDEN["cosine_distance"], ids=str)
def test_a_cosine_distance_allows_the_golden_eps(case: dict) -> None:
    assert deviation_allowed("cosine-distance", case["omega"], case["g"]) / case["xi"] == pytest.approx(
        case["eps"], rel=1e-12
    )


def test_the_published_equation_gives_an_eps_at_which_the_distance_is_exceeded() -> None:
    case = GOLDEN["published_eq52"]
    ours = deviation_allowed("cosine-distance", case["omega"], case["g"]) / case["xi"]
    assert ours == pytest.approx(0.5418, abs=5e-5)

    def distance(eps: float) -> float:
        return 1 - math.sqrt(1 - (eps * case["xi"] / case["g"]) ** 2)

    assert distance(case["eps"]) == pytest.approx(case["distance"], abs=5e-5)
    assert distance(ours) == pytest.approx(case["omega"], rel=1e-12)


def test_an_angle_and_its_cosine_distance_allow_the_same_deviation() -> None:
    for angle in (1e-6, 1.0, 30.0, 89.999):
        same = deviation_allowed("cosine-distance", 2 * math.sin(math.radians(angle) / 2) ** 2, 3.47)
        assert deviation_allowed("angle", angle, 3.47) == pytest.approx(same, rel=1e-9)
    assert deviation_allowed("angle", 30.0, 3.47) == pytest.approx(3.47 / 2, rel=1e-12)
    assert deviation_allowed("deviation", 0.3, 3.47) == 0.3


# first order: there and back


THRESHOLDS = {"deviation": 0.4, "cosine-distance": 0.05, "angle": 30.0}
WORDS = [word for kind, value in THRESHOLDS.items() for word in (f"--max-{kind}", value)]
NORMS = pytest.mark.parametrize("norm", [("l2",), ("lp", "--p", 4), ("lp", "--p", 1.5), ("linf",)], ids=str)


def back(on, rows: list[dict[str, str]], norm: tuple, factor: float = 1.0) -> list[dict[str, str]]:
    """The rows of `bound` at each row's eps_max, times a factor."""
    sizes = [repr(float(row["eps_max"]) * factor) for row in rows]
    found = {(row["index"], row["eps"]): row for row in on("bound", "--norm", *norm, "--eps", ",".join(sizes))}
    return [found[row["index"], size] for row, size in zip(rows, sizes, strict=True)]


@NORMS
def test_the_bound_at_the_largest_eps_is_the_threshold(on, norm: tuple) -> None:
    rows = on("max-eps", "--norm", *norm, *WORDS)
    assert [(row["threshold_kind"], float(row["threshold"])) for row in rows] == list(THRESHOLDS.items()) * 4
    assert {row["guarantee"] for row in rows} == {"first-order"}
    for row, bound in zip(rows, back(on, rows, norm), strict=True):
        T, angle = float(bound["T_e"]), math.radians(float(bound["T_c_deg"] or "nan"))
        reached = {"deviation": T, "cosine-distance": 2 * math.sin(angle / 2) ** 2, "angle": math.degrees(angle)}
        threshold = THRESHOLDS[row["threshold_kind"]]
        assert reached[row["threshold_kind"]] == pytest.approx(threshold, rel=ROUNDING)
        assert deviation_allowed(row["threshold_kind"], threshold, float(bound["g_norm"])) >= T
        assert bound["g_norm"] == row["g_norm"]


@NORMS
def test_the_largest_eps_is_the_allowed_deviation_over_the_gain(on, norm: tuple) -> None:
    gains = {row["index"]: float(row["T_e"]) for row in on("bound", "--norm", *norm, "--eps", 1)}
    for row in on("max-eps", "--norm", *norm, *WORDS):
        deviation = deviation_allowed(row["threshold_kind"], float(row["threshold"]), float(row["g_norm"]))
        assert float(row["eps_max"]) == pytest.approx(deviation / gains[row["index"]], rel=ROUNDING)
        assert (row["xi_upper"] == "") == (norm[0] == "linf")
        if norm[0] != "linf":
            factor = 64 ** max(0.0, 0.5 - 1 / float(norm[2])) if norm[0] == "lp" else 1
            assert float(row["eps_max"]) == pytest.approx(deviation / float(row["xi_upper"]) / factor, rel=ROUNDING)


@NORMS
def test_the_corrected_bound_keeps_the_threshold_at_the_largest_eps_and_not_slightly_above(on, norm: tuple) -> None:
    plain, rows = (on("max-eps", "--norm", *norm, *WORDS, *more) for more in ((), ("--corrected",)))
    assert {row["guarantee"] for row in rows} == {"corrected"}
    at, above = back(on, rows, norm), back(on, rows, norm, 1 + 1e-6)
    corrected = 0
    for row, uncorrected, here, there in zip(rows, plain, at, above, strict=True):
        deviation = deviation_allowed(row["threshold_kind"], float(row["threshold"]), float(row["g_norm"]))
        assert 0 < float(row["eps_max"]) <= float(uncorrected["eps_max"])
        # the solver's bound is the same; the change of g at a difference of 1e-7 or so has eight digits
        assert float(here["T_e_corrected"]) <= deviation * (1 + 1e-8)
        assert float(there["T_e_corrected"]) > deviation
        corrected += float(here["c"]) > 1.001
    assert corrected >= 4  # else the search would not have been tried


def test_several_thresholds_at_once_or_alone_give_the_same_rows(on) -> None:
    together = on("max-eps", *WORDS, "--max-angle", 10)
    assert len(together) == 16
    for kind, value in THRESHOLDS.items():
        alone = on("max-eps", f"--max-{kind}", value)
        both = [row for row in together if (row["threshold_kind"], float(row["threshold"])) == (kind, value)]
        assert [row["eps_max"] for row in both] == [row["eps_max"] for row in alone]


def bounded(upper: list[float], ratio: Callable[[Tensor], Tensor] = torch.ones_like) -> Bounded:
    """No more of a bound than the search looks at."""
    stub = object.__new__(Bounded)
    object.__setattr__(stub, "worst", SimpleNamespace(upper=torch.tensor(upper, dtype=torch.float64)))
    object.__setattr__(stub, "linearisation", SimpleNamespace(ratio=ratio))
    return stub


def deviations(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("corrected", [False, True])
def test_an_attribution_that_does_not_move_is_kept_at_every_eps(corrected: bool) -> None:
    found = largest_eps(bounded([0.0, 2.0]), deviations(0.3, 0.3), corrected=corrected)
    assert found.tolist() == [math.inf, pytest.approx(0.15, rel=ROUNDING)]


@pytest.mark.parametrize("corrected", [False, True])
def test_an_attribution_of_zero_has_no_eps_that_is_not_a_number(corrected: bool) -> None:
    """|g| = 0 allows no deviation by an angle, whether or not it moves."""
    found = largest_eps(bounded([0.0, 2.0]), deviations(0.0, 0.0), corrected=corrected)
    assert not found.isnan().any()
    assert found[1] == 0


def test_the_search_is_right_where_the_correction_jumps_or_falls_with_eps() -> None:
    laws: list[Callable[[Tensor], Tensor]] = [
        lambda eps: torch.where(eps < 0.04, 1.0, 3.0),
        lambda eps: 1 + 50 * eps,
        lambda eps: 1 + (30 * eps).sin().abs(),
        lambda eps: torch.where(eps < 0.04, 3.0, 1.0),
        torch.ones_like,
    ]
    for law in laws:
        (eps,) = largest_eps(bounded([2.0], law), deviations(0.3), corrected=True)
        assert 0.03 < eps <= 0.15
        assert law(eps[None]) * 2 * eps <= 0.3 * (1 + 1e-12)
    (eps,) = largest_eps(bounded([2.0], laws[1]), deviations(0.3), corrected=True)
    assert (1 + 50 * eps) * 2 * eps == pytest.approx(0.3, rel=1e-8)


@pytest.mark.parametrize("corrected", [False, True])
def test_a_bound_that_is_no_number_gives_no_eps_at_all(corrected: bool) -> None:
    found = largest_eps(bounded([math.nan, math.inf, 2.0]), deviations(0.3, 0.3, 0.3), corrected=corrected)
    assert found.tolist() == [0, 0, pytest.approx(0.15, rel=ROUNDING)]


def test_a_correction_never_lengthens_the_plain_eps() -> None:
    laws: list[Callable[[Tensor], Tensor]] = [
        lambda eps: torch.full_like(eps, 0.5),  # what no measured correction is, and rounding may come close to
        lambda eps: torch.full_like(eps, math.nan),
        torch.ones_like,
    ]
    for law in laws:
        upper, deviation = [2.0, 1e-300, 3.0], deviations(0.3, 0.3, 1e300)
        plain = largest_eps(bounded(upper, law), deviation, corrected=False)
        assert (largest_eps(bounded(upper, law), deviation, corrected=True) <= plain).all()


def test_a_sample_whose_bound_is_no_number_is_not_converged(on, monkeypatch) -> None:
    real = Inversions.bounded

    def spoilt(self, subject):
        found = real(self, subject)
        upper = found.worst.upper.clone()
        upper[1] = math.nan
        return replace(found, worst=replace(found.worst, upper=upper))

    monkeypatch.setattr(Inversions, "bounded", spoilt)
    rows = on("max-eps", "--max-angle", 30, "--max-incomplete", 1)
    assert [(row["status"] == "not-converged", float(row["eps_max"]) > 0) for row in rows] == [
        (i == 1, i != 1) for i in range(4)
    ]


def test_a_correction_without_end_leaves_no_eps() -> None:
    (eps,) = largest_eps(bounded([2.0], lambda eps: torch.full_like(eps, math.inf)), deviations(0.3), corrected=True)
    assert eps == 0


# smoothed: there and back


COSINES = (0.5, 0.8, 0.9, 0.99)


@pytest.mark.parametrize("rule", ["tight", "tangent"])
@pytest.mark.parametrize("noise", [("uniform", "--radius", "0.5,2"), ("gaussian", "--sigma", "0.05,0.3")], ids=str)
def test_the_smoothed_bound_at_the_largest_eps_is_the_threshold_and_certified(on, noise: tuple, rule: str) -> None:
    words = ("--smooth", *noise, "--rule", rule, "--samples", 150)
    rows = on("max-eps", *words, "--min-cosine", ",".join(map(str, COSINES)), net="relu")
    assert len(rows) == 4 * 2 * len(COSINES)
    for T in COSINES:
        some = [row for row in rows if float(row["threshold"]) == T]
        sizes = {row["eps_max"] for row in some}
        bounds = on("bound", *words, "--min-cosine", T, "--eps", ",".join(sizes), net="relu")
        found = {(row["index"], row["radius"], row["eps"]): row for row in bounds}
        for row in some:
            bound = found[row["index"], row["radius"], row["eps_max"]]
            assert float(bound["cosine"]) == pytest.approx(T, rel=ROUNDING)
            assert bound["C_lower"] == row["C_lower"]
            assert bound["status"] != "abstained", (bound["cosine"], T)


def test_the_best_radius_of_the_grid_is_the_one_with_the_largest_eps(on) -> None:
    words = ("--smooth", "uniform", "--samples", 150, "--min-cosine", 0.8)
    best = on("max-eps", *words, "--radius", "best", net="relu")
    grid = sorted(set(SMOOTH_GRID))
    alone = on("max-eps", *words, "--radius", ",".join(map(str, grid)), "--failure", repr(1e-3 / len(grid)), net="relu")
    for row in best:
        mine = [other for other in alone if other["index"] == row["index"]]
        largest = max(mine, key=lambda other: float(other["eps_max"]))
        assert row["radius"] == largest["radius"]
        assert float(row["eps_max"]) == pytest.approx(float(largest["eps_max"]), rel=1e-9)


SMOOTH_GRID = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


# min-radius on cosines that are known


TABLES = {
    "rising": ({1.0: None, 2.0: 0.5, 3.0: 0.85, 4.0: 0.95}, 3.0, 3.0),
    "gap": ({1.0: 0.9, 2.0: 0.5, 3.0: 0.85, 4.0: 0.95}, 1.0, 3.0),
    "bounded": ({1.0: 0.5, 2.0: 0.9, 3.0: 0.9, 4.0: 0.5}, 2.0, None),
    "falling": ({1.0: 0.9, 2.0: 0.85, 3.0: None, 4.0: None}, 1.0, None),
    "equal": ({1.0: 0.79999, 2.0: 0.8, 3.0: 0.8, 4.0: 0.8}, 2.0, 2.0),
    "all": ({1.0: 0.99, 2.0: 0.9, 3.0: 0.9, 4.0: 0.9}, 1.0, 1.0),
    "none": ({1.0: None, 2.0: 0.5, 3.0: 0.6, 4.0: 0.55}, None, None),
    "nothing": ({1.0: None, 2.0: None, 3.0: None, 4.0: None}, None, None),
}


@pytest.mark.parametrize("search", ["smallest", "descend"])
@pytest.mark.parametrize("name", TABLES)
def test_min_radius_is_the_smallest_that_passes_or_the_last_before_the_first_failure(
    on, monkeypatch, name: str, search: str
) -> None:
    cosines, smallest, last = TABLES[name]
    monkeypatch.setattr(drawing.Drawing, "cosine", lambda self, seen, spread, eps: cosines[spread])
    words = ("--radii", "4,1,3,2", "--eps", 0.05, "--min-cosine", 0.8, "--samples", 60, "--search", search)
    expected = smallest if search == "smallest" else last
    failing = [r for r, cosine in cosines.items() if cosine is None or cosine < 0.8] if search == "descend" else []
    tested = {r: cosine for r, cosine in cosines.items() if r >= max(failing, default=0.0)}
    for row in on("min-radius", *words, net="relu"):
        if expected is None:
            known = {r: cosine for r, cosine in tested.items() if cosine is not None}
            assert (row["status"], row["radius_min"]) == ("infeasible", "")
            assert row["cosine"] == (str(max(known.values())) if known else "")
            assert float(row["radius"]) == (max(known, key=lambda r: known[r]) if known else 4.0)
            assert row["C_lower"]
            assert "larger" in row["message"]
        else:
            assert row["status"] == "ok"
            assert float(row["radius_min"]) == expected
            assert float(row["cosine"]) == cosines[expected]
        tried = dict(part.split(": ") for part in row["radii_tried"].split("; "))
        assert {float(r): None if c == "none" else float(c) for r, c in tried.items()} == tested


def failures(on, monkeypatch, command: str, *words) -> set[float]:
    """What the confidence bound was asked for."""
    asked: set[float] = set()
    real = Betting.__call__

    def noting(self, seen, q):
        asked.add(q)
        return real(self, seen, q)

    monkeypatch.setattr(Betting, "__call__", noting)
    on(command, "--samples", 60, *words, net="relu")
    return asked


@pytest.mark.parametrize(
    ("words", "share"),
    [
        (("min-radius", "--radii", "1,2,4,8", "--min-cosine", 0.8), 4),
        (("min-radius", "--radii", "1,2,4,8", "--min-cosine", "0.8,0.9", "--eps", "0.1,0.2"), 4),
        (("min-radius", "--min-cosine", 0.8), 12),
        (("min-radius", "--radii", "1,2,4,8", "--min-cosine", 0.8, "--search", "descend"), 1),
        (("min-radius", "--radii", "1,2,4,8", "--min-cosine", 0.8, "--simultaneous"), 16),
        (("min-radius", "--radii", "1,2", "--min-cosine", 0.8, "--search", "descend", "--simultaneous"), 8),
        (("max-eps", "--smooth", "uniform", "--radius", "1,2", "--min-cosine", 0.8, "--simultaneous"), 8),
        (("bound", "--smooth", "uniform", "--radius", "1,2,4", "--simultaneous"), 12),
        (("max-eps", "--smooth", "uniform", "--radius", "best", "--min-cosine", 0.8, "--simultaneous"), 24),
        (("max-eps", "--smooth", "uniform", "--radius", "best", "--min-cosine", 0.8), len(SMOOTH_GRID)),
        (("max-eps", "--smooth", "uniform", "--radius", "1,2", "--min-cosine", 0.8), 1),
        (("bound", "--smooth", "uniform"), 1),
        (("bound", "--smooth", "uniform", "--simultaneous"), 4),
        (("bound", "--smooth", "uniform", "--simultaneous", "--batch-size", 1), 4),
    ],
    ids=str,
)
def test_the_failure_is_shared_by_radii_that_are_chosen_from_and_by_samples_that_must_hold_together(
    on, monkeypatch, words: tuple, share: int
) -> None:
    (asked,) = failures(on, monkeypatch, *words, "--failure", 0.08)
    assert asked == pytest.approx(0.04 / share, rel=1e-12)  # the other half is for the variance


def test_a_rule_that_needs_no_variance_has_the_whole_failure_for_the_length(on, monkeypatch) -> None:
    (asked,) = failures(on, monkeypatch, "bound", "--smooth", "uniform", "--rule", "tight", "--failure", 0.08)
    assert asked == pytest.approx(0.08, rel=1e-12)


@pytest.mark.parametrize("case", [one for one in GOLDEN["min_radius"] if one["rule"] == "published"], ids=str)
def test_the_published_closed_form_is_the_golden_one(case: dict) -> None:
    config = MinRadiusConfig(eps=(case["eps"],), min_cosine=(case["T"],))
    ((eps, T, radius),) = smoothing.published_radii(config, case["d"], case["c"])
    assert (eps, T) == (case["eps"], case["T"])
    assert radius == pytest.approx(case["radius"], rel=1e-10)


def test_no_length_has_no_published_radius() -> None:
    config = MinRadiusConfig(min_cosine=(0.9,))
    ((_, _, radius),) = smoothing.published_radii(config, 784, 0.0)
    assert radius == math.inf


def test_min_radius_on_the_bundled_model_certifies_again_with_fresh_draws() -> None:
    words = ("--eps", 0.02, "--min-cosine", 0.8, "--limit", 6)
    rows = run("min-radius", *words, "--radii", "0.25,0.5,1,2,4", "--samples", 200)
    assert {row["status"] for row in rows} <= {"ok"}
    assert len({row["radius_min"] for row in rows} - {"0.25"}) >= 1
    for radius in {row["radius_min"] for row in rows}:
        mine = [row["index"] for row in rows if row["radius_min"] == radius]
        fresh = ("--smooth", "uniform", "--radius", radius, "--seed", 77, "--samples", 300)
        again = run("bound", *fresh, *words[:4], "--indices", ",".join(mine))
        assert {row["status"] for row in again} <= {"ok"}
        assert len(again) == len(mine)


def test_thresholds_are_read_in_the_order_of_their_kinds() -> None:
    config = MaxEpsConfig(max_angle=(1.0, 2.0), max_deviation=(3.0,))
    assert config.thresholds.pairs == (("deviation", 3.0), ("angle", 1.0), ("angle", 2.0))
