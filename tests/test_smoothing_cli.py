"""`bound --smooth`, `max-eps` and `min-radius` from outside: rows, files, tables and refusals keep their promises."""

import json
import math
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from reference import smoothing as slow
from reference.program import Done, attrcert
from torch import Tensor, nn

from attrcert.attributions.gradient import Saliency
from attrcert.attributions.smoothed import UniformSmooth
from attrcert.attributions.unit import Direction
from attrcert.bounds.smoothed.cosine_bounds import Tight
from attrcert.bounds.smoothed.lengths import unit_noise
from attrcert.bounds.smoothed.noise_overlap import UniformBall
from attrcert.columns import COLUMNS
from attrcert.draws import Draws
from attrcert.loading.architectures import build
from attrcert.running.evaluating import drawing
from attrcert.settings.smoothing import CHUNK
from attrcert.statistics.confidence import Betting

GOLDEN = json.loads((Path(__file__).parent / "golden_smoothing.json").read_text())
ARCHS = """
    import math
    import torch
    from torch import nn

    def relu():
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 40), nn.ReLU(), nn.Linear(40, 3))

    def dead():
        net = relu()
        for parameter in net.parameters():
            parameter.data *= 0
        return net

    class FourReLUs(nn.Module):
        def __init__(self, a2):
            super().__init__()
            self.weights = nn.Parameter(torch.tensor([math.sqrt(a2), math.sqrt(1 - a2)], dtype=torch.float64))
        def forward(self, x):
            first, second = (x.flatten(1) - 0.5)[:, 0], (x.flatten(1) - 0.5)[:, 1]
            a, b = self.weights
            f = a * (first.relu() + (-first).relu()) + b * (second.relu() - (-second).relu())
            return torch.stack([f + 9, 0 * f], dim=1)
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("smoothing")
    (folder / "archs.py").write_text(textwrap.dedent(ARCHS))
    for name in ("relu", "dead"):
        torch.save(build(f"{folder}/archs.py:{name}", {}).state_dict(), folder / f"{name}.pt")
    images = np.random.default_rng(0).integers(0, 256, (6, 8, 8), dtype=np.uint8)
    np.savez(folder / "data.npz", images=images, labels=np.arange(6) % 3)
    return folder


@pytest.fixture(scope="module")
def on(work) -> Callable[..., Done]:
    """A command on six images of 8 x 8 pixels and a ReLU network, in double precision."""

    def command(name: str, *words, net: str = "relu", format_: str = "csv", samples: int = 100) -> Done:
        drawn = ("--samples", samples) if name == "min-radius" or "--smooth" in words else ()
        arch = ("--arch", f"{work}/archs.py:{net}", "--dtype", "float64", *drawn)
        return attrcert(name, work / f"{net}.pt", work / "data.npz", *arch, "--format", format_, "--quiet", *words)

    return command


def image(work: Path, index: int) -> Tensor:
    """As the program reads it: bytes divided by 255 in single precision."""
    with np.load(work / "data.npz") as arrays:
        return (torch.from_numpy(arrays["images"][index]).float() / 255).double()[None, None]


TASKS = {
    "bound": ("bound", "--smooth", "uniform", "--radius", "0.5,1", "--eps", "0.01,0.05", "--min-cosine", 0.9),
    "max-eps": ("max-eps", "--smooth", "uniform", "--radius", "0.5,1", "--min-cosine", "0.8,0.9"),
    "best": ("max-eps", "--smooth", "uniform", "--radius", "best", "--min-cosine", "0.8,0.9"),
    "min-radius": ("min-radius", "--radii", "0.25,0.5,1", "--eps", "0.02,0.05", "--min-cosine", "0.5,0.9"),
    "gaussian": ("bound", "--smooth", "gaussian", "--sigma", "0.05,0.1", "--eps", "0.01,0.05"),
}
CASES = {"bound": 4, "max-eps": 4, "best": 2, "min-radius": 4, "gaussian": 4}
FIRST_ORDER = ("max-eps", "--max-angle", 30, "--max-deviation", "0.1,1", "--max-cosine-distance", 0.1)
EVERY_TASK = pytest.mark.parametrize("task", TASKS)


def finite(rows: list[dict[str, str]], command: str) -> bool:
    kinds = {column.name: column.kind for column in COLUMNS[command]}
    figures = [float(cell) for row in rows for name, cell in row.items() if kinds[name] is float and cell]
    return bool(figures) and bool(np.isfinite(figures).all())


def timeless(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    return [{**row, "seconds": ""} for row in rows]


# rows


@EVERY_TASK
def test_rows_have_every_documented_column_a_case_each_and_finite_figures(on, task: str) -> None:
    rows = on(*TASKS[task]).rows
    assert len(rows) == 6 * CASES[task]
    assert [int(row["index"]) for row in rows] == [i for i in range(6) for _ in range(CASES[task])]
    assert all(list(row) == [column.name for column in COLUMNS["certify"]] for row in rows)
    assert finite(rows, "certify")
    for row in rows:
        assert row["guarantee"] == "confidence"
        assert (row["rule"], row["confidence"], row["failure"]) == ("auto", "betting", "0.001")
        assert 0 <= float(row["lambda_hat"]) <= float(row["lambda_upper"]) <= 1
        assert float(row["M"]) == 1
        assert 0 <= float(row["C_lower"]) <= float(row["C_hat"]) <= 1 + 1e-9
        assert row["samples"] == "100"


def test_first_order_rows_have_every_documented_column_and_finite_figures(on) -> None:
    rows = on(*FIRST_ORDER).rows
    assert len(rows) == 6 * 4
    assert all(list(row) == [column.name for column in COLUMNS["max-eps"]] for row in rows)
    assert finite(rows, "max-eps")
    assert all(float(row["eps_max"]) > 0 for row in rows)


@EVERY_TASK
def test_json_has_the_rows_of_csv(on, task: str) -> None:
    told, found = on(*TASKS[task]).rows, json.loads(on(*TASKS[task], format_="json").out)
    assert "NaN" not in json.dumps(found)
    for row, other in zip(told, found["rows"], strict=True):
        cells = {name: "" if cell is None else str(cell) for name, cell in other.items()}
        assert {**cells, "seconds": ""} == {**row, "seconds": ""}


def test_json_of_first_order_inversions_has_the_rows_of_csv(on) -> None:
    told, found = on(*FIRST_ORDER).rows, json.loads(on(*FIRST_ORDER, format_="json").out)
    for row, other in zip(told, found["rows"], strict=True):
        assert {k: "" if v is None else str(v) for k, v in other.items() if k != "seconds"} == {
            k: v for k, v in row.items() if k != "seconds"
        }


@pytest.mark.parametrize("task", ["bound", "max-eps", "min-radius", "first-order"])
def test_a_file_cut_short_resumes_to_the_rows_of_a_whole_run(on, tmp_path, task: str) -> None:
    words, out = TASKS.get(task, FIRST_ORDER), tmp_path / "rows.csv"
    whole = on(*words, "--out", out, "--batch-size", 3).rows
    lines = out.read_text().splitlines(keepends=True)
    cases = len(whole) // 6
    out.write_text("".join(lines[: 1 + 3 * cases + cases // 2]))
    again = on(*words, "--out", out, "--batch-size", 3, "--resume").rows
    assert timeless(again) == timeless(whole)
    assert len(out.read_text().splitlines()) == 1 + 6 * cases


def test_a_run_for_all_samples_together_cannot_be_resumed_with_more_of_them(on, tmp_path) -> None:
    out = tmp_path / "rows.csv"
    assert on(*TASKS["bound"], "--simultaneous", "--limit", 2, "--out", out).code == 0
    assert on(*TASKS["bound"], "--simultaneous", "--limit", 4, "--out", out, "--resume").code == 2
    assert on(*TASKS["bound"], "--limit", 2, "--out", out, "--resume").code == 2


# what does not change results


@pytest.mark.parametrize("task", ["bound", "max-eps", "min-radius"])
def test_batch_size_changes_nothing_but_rounding(on, task: str) -> None:
    found = [on(*TASKS[task], "--limit", 4, "--batch-size", size).rows for size in (3, 4)]
    for one, six in zip(*found, strict=True):
        for name in ("C_hat", "C_lower", "cosine", "eps_max", "radius_min"):
            assert float(one[name] or 0) == pytest.approx(float(six[name] or 0), rel=1e-9), name
        assert one["status"] == six["status"]


@pytest.mark.parametrize("bounded", ["unit", "clip:0.1"])
def test_radii_that_run_together_have_the_figures_of_each_alone(on, bounded: str) -> None:
    words = ("bound", "--smooth", "uniform", "--eps", "0.01,0.05", "--bounded", bounded)
    together = on(*words, "--radius", "0.5,1,2").rows
    for radius in ("0.5", "1.0", "2.0"):
        alone = on(*words, "--radius", radius).rows
        assert timeless(alone) == timeless([row for row in together if row["radius"] == radius])


def test_another_seed_gives_other_figures_and_the_same_seed_the_same(on) -> None:
    first, again, other = (on(*TASKS["max-eps"], *more).rows for more in ((), ("--seed", 0), ("--seed", 1)))
    assert timeless(first) == timeless(again)
    assert not {row["C_lower"] for row in first} & {row["C_lower"] for row in other}


# the network as it is


def test_a_relu_network_is_smoothed_as_it_is(on, work) -> None:
    """Next to no noise and no clipping: the length is that of the network's own gradient."""
    words = ("bound", "--smooth", "uniform", "--radius", 1e-9, "--bounded", "clip-at:1000", "--eps", 1e-12)
    net = build(f"{work}/archs.py:relu", {}).double()
    found = json.loads(on(*words, format_="json").out)
    assert found["identity"]["softplus_beta"] is None
    for row in found["rows"]:
        x = image(work, row["index"]).requires_grad_()
        (g,) = torch.autograd.grad(net(x)[0, row["target"]], x)
        assert row["C_hat"] == pytest.approx(g.norm().item(), rel=1e-9)
        assert row["M"] == 1000
        assert row["predicted"] == int(net(x).argmax())


@pytest.mark.parametrize("attribution", ["saliency", "input-x-gradient", "integrated-gradients"])
def test_the_length_is_that_of_the_mean_of_directions_under_the_program_s_noise(on, work, attribution: str) -> None:
    few = ("--ig-steps", 5) if attribution == "integrated-gradients" else ()
    words = ("bound", "--smooth", "uniform", "--radius", 0.7, "--attribution", attribution, *few)
    net = build(f"{work}/archs.py:relu", {}).double()
    nodes, weights = np.polynomial.legendre.leggauss(5)
    for row in on(*words, "--eps", 0.01, "--limit", 2).rows:
        x, y = image(work, int(row["index"])), int(row["target"])
        like = x.flatten(1)
        draws = Draws(0, (0,))  # all samples have the same noise
        noise = [0.7 * unit_noise("uniform", draws, "smooth", CHUNK, like=like, part=k)[0] for k in range(4)]
        z = (x + torch.cat(noise).view(100, 1, 8, 8)).requires_grad_()
        at = [1.0] if attribution != "integrated-gradients" else ((nodes + 1) / 2).tolist()
        share = [1.0] if attribution != "integrated-gradients" else (weights / 2).tolist()
        g = sum(w * torch.autograd.grad(net(a * z)[:, y].sum(), z)[0] / a for a, w in zip(at, share, strict=True))
        g = (g if attribution == "saliency" else z * g).flatten(1).detach()
        mean = torch.nn.functional.normalize(g, dim=1).mean(dim=0)
        assert float(row["C_hat"]) == pytest.approx(mean.norm().item(), rel=1e-9)


def test_an_attribution_that_is_zero_everywhere_is_vacuous_and_abstains(on) -> None:
    (row, *_) = on("bound", "--smooth", "uniform", "--eps", 0.01, net="dead").rows
    assert (row["status"], row["cosine"], float(row["C_lower"])) == ("vacuous", "", 0)
    for row in on("max-eps", "--smooth", "uniform", "--min-cosine", 0.9, net="dead").rows:
        assert (row["status"], float(row["eps_max"])) == ("abstained", 0)
    for row in on(*TASKS["min-radius"], net="dead").rows:
        assert (row["status"], row["radius_min"], row["cosine"]) == ("infeasible", "", "")


def test_the_pilot_that_clips_is_not_among_the_draws_that_are_used(on, monkeypatch) -> None:
    drawn: list[Tensor] = []

    def noting(*words, **more) -> Tensor:
        drawn.append(unit_noise(*words, **more))
        return drawn[-1]

    monkeypatch.setattr(drawing, "unit_noise", noting)
    words = ("bound", "--smooth", "uniform", "--eps", 0.01, "--limit", 1, "--bounded")
    on(*words, "clip:0.1")
    pilot, used, drawn[:] = drawn[0][0], torch.cat(drawn[1:], dim=1)[0], []
    on(*words, "clip-at:0.3")
    assert torch.equal(torch.cat(drawn, dim=1)[0], used)  # drawing a pilot moved no draw
    assert (len(pilot), len(used)) == (100, 100)
    assert torch.cdist(pilot, used).min() > 0.1  # and none of it is used again
    assert torch.cdist(pilot, used, p=0).min() == 64


@pytest.mark.parametrize("bounded", ["clip:0.5", "clip-at:0.3", "clip-at:0.05"])
def test_a_clipped_attribution_is_certified_with_its_limit_as_M(on, bounded: str) -> None:
    for row in on("bound", "--smooth", "uniform", "--eps", 0.01, "--bounded", bounded).rows:
        assert float(row["M"]) == pytest.approx(float(bounded.split(":")[1])) or bounded.startswith("clip:")
        assert 0 < float(row["C_lower"]) < float(row["C_hat"]) <= float(row["M"]) * (1 + 1e-9)
        assert bounded in row["attribution"]


# the published rule


def test_published_rows_are_empirical_and_their_tables_say_not_a_certificate(on) -> None:
    for task in ("bound", "max-eps", "min-radius"):
        rows = on(*TASKS[task], "--rule", "published").rows
        assert {row["guarantee"] for row in rows} == {"empirical"}
        assert {row["confidence"] for row in rows} == {"none"}
        for format_ in ("table", "markdown"):
            text = " ".join(on(*TASKS[task], "--rule", "published", format_=format_).out.split())
            assert "NOT a certificate" in text
            assert "confidence: holds" not in text
        assert "NOT a certificate" not in on(*TASKS[task], format_="table").out


def test_the_sample_maximum_stands_for_M_in_the_published_rule_alone(on) -> None:
    words = ("bound", "--smooth", "uniform", "--eps", 0.01, "--bounded", "sample-max")
    rows = on(*words, "--rule", "published").rows
    assert {row["guarantee"] for row in rows} == {"empirical"}
    assert all(float(row["C_hat"]) <= float(row["M"]) < 10 for row in rows)
    for rule in ("tight", "tangent"):
        assert "sample-max goes with --rule published" in on(*words, "--rule", rule).said


@pytest.mark.parametrize("threshold", [0.2, 0.4])
def test_an_eps_without_end_is_not_taken_for_the_smallest(on, threshold: float) -> None:
    """The published rule keeps a low cosine at any distance; the best radius must not be one that does worse."""
    words = ("max-eps", "--smooth", "uniform", "--rule", "published", "--min-cosine", threshold)
    grid = on(*words, "--radius", "0.25,0.5,1,2,4,8").rows
    endless = {row["index"] for row in grid if not row["eps_max"]}
    assert endless
    for row in on(*words, "--radius", "best").rows:
        assert (row["eps_max"] == "") == (row["index"] in endless)
    text = " ".join(on(*words, "--radius", "0.25,0.5", format_="table").out.split())
    assert "largest eps" in text


@pytest.mark.parametrize(
    "case", [one for one in GOLDEN["four_relus"] if one["d"] <= 3], ids=lambda case: f"d={case['d']}"
)
def test_four_relus_break_the_published_rows_and_keep_the_others(tmp_path, case: dict) -> None:
    """Rows of the actual network at x, against its smoothed gradients at x and x + delta by the program's smoothing."""
    (tmp_path / "archs.py").write_text(textwrap.dedent(ARCHS))
    arch, d, eps, N = f"{tmp_path}/archs.py:FourReLUs", case["d"], case["eps"], 4000
    net = build(arch, {"a2": case["a2"]})
    torch.save(net.state_dict(), tmp_path / "net.pt")
    x = np.full((1, 1, d), 0.5)
    x[0, 0, 0] -= eps
    np.savez(tmp_path / "x.npz", images=x)
    words = ("--arch", arch, "--arch-arg", f"a2={case['a2']}", "--dtype", "float64", "--format", "csv", "--quiet")
    found = {}
    for rule in ("published", "tight", "tangent"):
        done = attrcert(
            "bound", tmp_path / "net.pt", tmp_path / "x.npz", *words,
            "--smooth", "uniform", "--radius", 1, "--eps", eps, "--samples", N, "--rule", rule,
        )  # fmt: skip
        (found[rule],) = done.rows
    g = UniformSmooth(radius=1.0, samples=40_000, base=Direction(Saliency()))
    points = torch.from_numpy(np.concatenate([x, np.full((1, 1, d), 0.5)]))[:, None]
    h, moved = g.value(net, points, torch.zeros(2, dtype=torch.int64), Draws(3, (0, 1))).detach().numpy()
    true = slow.cosine(h, moved)
    assert true == pytest.approx(case["truth"], abs=0.03)  # five standard errors of means of 40,000
    assert float(found["published"]["cosine"]) == pytest.approx(case["published"], abs=0.03)
    assert float(found["published"]["cosine"]) > true + 0.1
    for rule in ("tight", "tangent"):
        assert float(found[rule]["cosine"] or -1) < true
        assert float(found[rule]["C_lower"]) < case["c"]
    # what the draws showed of |h| is worth a few hundredths of the certificate
    assert float(found["tight"]["tau"]) == pytest.approx(case["tau"], rel=1e-9)
    assert float(found["tight"]["C_lower"]) > 0.9 * case["c"]


# stopping early


def test_stopping_when_certified_keeps_verdicts_and_saves_draws() -> None:
    words = ("bound", "--smooth", "uniform", "--radius", 1, "--eps", "0.01,0.03", "--limit", 6)
    more = ("--samples-max", 600, "--min-cosine", 0.92, "--format", "csv", "--quiet")
    full, early = attrcert(*words, *more).rows, attrcert(*words, *more, "--stop-when", "certified").rows
    assert {row["status"] for row in full} >= {"ok", "abstained"}
    assert {row["samples"] for row in full} == {"600"}
    for one, other in zip(full, early, strict=True):
        assert int(other["samples"]) <= 600
        assert float(other["C_lower"]) <= float(one["C_lower"]) + 1e-6  # what is certified early stays so
        assert other["status"] in (one["status"], "abstained")
    certified = [sum(row["status"] == "ok" for row in rows) for rows in (full, early)]
    assert certified[1] >= 0.9 * certified[0]
    assert np.mean([int(row["samples"]) for row in early]) < 0.75 * 600


def test_drawing_stops_where_the_draws_left_cannot_certify_though_the_estimate_is_long_enough(on) -> None:
    words = ("bound", "--smooth", "uniform", "--radius", 1, "--eps", 0.03, "--indices", 0)
    full = on(*words, samples=600).rows[0]
    claimed = Tight().cosine(float(full["C_hat"]) / float(full["M"]), float(full["tau"]))
    assert claimed is not None
    assert float(full["cosine"]) < claimed - 2e-3
    threshold = ("--min-cosine", claimed - 1e-3)
    early = on(*words, *threshold, "--stop-when", "certified", samples=600).rows[0]
    assert early["status"] == "abstained"
    assert int(early["samples"]) < 600


def test_min_radius_may_stop_early_too(on) -> None:
    words = ("min-radius", "--radii", "0.25,0.5,1", "--eps", 0.02, "--min-cosine", 0.5)
    full, early = on(*words, samples=400).rows, on(*words, "--stop-when", "certified", samples=400).rows
    assert sum(int(row["samples"] or 400) for row in early) < 6 * 400
    for one, other in zip(full, early, strict=True):
        assert float(one["radius_min"] or math.inf) <= float(other["radius_min"] or math.inf)


def test_stopping_early_looks_at_no_sample_s_draws_for_another(on) -> None:
    words = (*TASKS["bound"], "--stop-when", "certified")
    together = on(*words, samples=300).rows
    assert len({row["samples"] for row in together}) > 1 or {row["samples"] for row in together} != {"300"}
    for i in (0, 3, 5):
        alone = on(*words, "--indices", i, samples=300).rows
        for one, other in zip(alone, [row for row in together if row["index"] == str(i)], strict=True):
            assert one["samples"] == other["samples"]
            assert float(one["C_lower"]) == pytest.approx(float(other["C_lower"]), rel=1e-9)


# abstention


def test_a_row_abstains_exactly_where_its_cosine_is_below_the_threshold(on) -> None:
    rows = on("bound", "--smooth", "uniform", "--radius", "0.5,1,2", "--eps", "0.01,0.03", "--min-cosine", 0.97).rows
    below = {row["status"] == "abstained" for row in rows if float(row["cosine"] or -1) < 0.97}
    above = {row["status"] == "abstained" for row in rows if float(row["cosine"] or -1) >= 0.97}
    assert (below, above) == ({True}, {False})


def test_every_given_threshold_has_its_verdict(on) -> None:
    words = ("bound", "--smooth", "uniform", "--radius", 1, "--eps", 0.03)
    alone = {T: on(*words, "--min-cosine", T).rows for T in ("0.5", "0.97")}
    assert {row["status"] for row in alone["0.5"]} != {row["status"] for row in alone["0.97"]}
    together = on(*words, "--min-cosine", "0.5,0.97")
    if together.code:  # or refuse
        assert together.code == 2
        return
    for T, rows in alone.items():
        found = [row for row in together.rows if row["threshold"] == T]
        assert [row["status"] for row in found] == [row["status"] for row in rows]


@pytest.mark.parametrize("confidence", ["betting", "empirical-bernstein", "mcdiarmid"])
def test_every_confidence_bound_is_below_the_estimate_and_names_itself(on, confidence: str) -> None:
    rows = on(*TASKS["bound"], "--confidence", confidence, samples=400).rows
    assert {row["confidence"] for row in rows} == {confidence}
    assert all(0 < float(row["C_lower"]) < float(row["C_hat"]) for row in rows)


def test_a_smaller_failure_certifies_less(on) -> None:
    lengths = [[float(row["C_lower"]) for row in on(*TASKS["bound"], "--failure", q).rows] for q in (0.1, 1e-3, 1e-6)]
    assert all(a > b > c for a, b, c in zip(*lengths, strict=True))


def test_the_cosine_is_that_of_tau_and_the_certified_length(on) -> None:
    for row in on("bound", "--smooth", "uniform", "--radius", "0.5,2", "--eps", "0.01,0.05", "--rule", "tangent").rows:
        tau = float(slow.uniform_tau(float(row["eps"]), float(row["radius"]), 64))
        assert float(row["tau"]) == pytest.approx(tau, rel=1e-11)
        ratio = 2 * tau / float(row["C_lower"])
        if ratio < 1:
            assert float(row["cosine"]) == pytest.approx(math.sqrt(1 - ratio**2), rel=1e-10)
            assert float(row["angle_deg"]) == pytest.approx(math.degrees(math.asin(ratio)), rel=1e-8)
        else:
            assert (row["cosine"], row["angle_deg"], row["status"]) == ("", "", "vacuous")


def test_a_mean_over_some_of_the_samples_says_so(on) -> None:
    """A mean cosine without the samples that have none is larger than what a user would take it for."""
    words = ("bound", "--smooth", "uniform", "--radius", 0.5, "--eps")
    lengths = sorted(float(row["C_lower"]) for row in on(*words, 0.01).rows)
    eps = UniformBall(0.5).eps(
        (lengths[2] + lengths[3]) / 4, 64
    )  # tau is half of a length between the third and the fourth
    assert sum(row["cosine"] == "" for row in on(*words, eps).rows) == 3
    text = " ".join(on(*words, eps, format_="table").out.split())
    assert "3/6" in text
    assert "Means are over" in text


# refusals


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["max-eps", "--smooth", "uniform"], "needs --min-cosine"),
        (["min-radius", "--eps", "0.1"], "needs --min-cosine"),
        (["min-radius", "--min-cosine", "0.9", "--radii", "1,1"], "each radius may be given once"),
        (["max-eps"], "needs a threshold"),
        (["max-eps", "--min-cosine", "0.9"], "--smooth"),
        (["bound", "--min-cosine", "0.9"], "--smooth"),
        (["max-eps", "--smooth", "uniform", "--min-cosine", "0.9", "--max-angle", "30"], "--max-angle means nothing with --smooth"),
        (["max-eps", "--smooth", "uniform", "--min-cosine", "1"], "--min-cosine must lie strictly between 0 and 1, got 1"),
        (["max-eps", "--smooth", "uniform", "--min-cosine", "0"], "--min-cosine must lie strictly between 0 and 1, got 0"),
        (["max-eps", "--smooth", "uniform", "--min-cosine", "-0.5"], "--min-cosine must lie strictly between 0 and 1, got -0.5"),
        (["max-eps", "--smooth", "uniform", "--min-cosine", "high"], "number"),
        (["max-eps", "--max-angle", "90"], "below 90, got 90"),
        (["max-eps", "--max-angle", "0"], "above 0"),
        (["max-eps", "--max-cosine-distance", "1"], "below 1, got 1"),
        (["max-eps", "--max-deviation", "-1"], "above 0"),
        (["max-eps", "--max-deviation", "many"], "number"),
        (["bound", "--smooth", "gaussian", "--radius", "1"], "takes --sigma"),
        (["bound", "--smooth", "uniform", "--sigma", "1"], "takes --radius"),
        (["bound", "--smooth", "laplace"], "--smooth must be one of uniform, gaussian"),
        (["bound", "--attribution", "us", "--radius", "1,2"], "--smooth only"),
        (["bound", "--attribution", "sg", "--sigma", "1", "--sigma", "2"], "--smooth only"),
        (["bound", "--smooth", "uniform", "--radius", "1,1"], "once"),
        (["bound", "--smooth", "uniform", "--radius", "0"], "positive"),
        (["bound", "--smooth", "uniform", "--radius", "-1"], "positive"),
        (["bound", "--smooth", "uniform", "--radius", "best"], "--radius best is for max-eps"),
        (["smooth", "--radius", "best"], "--radius best is for max-eps"),
        (["bound", "--attribution", "us", "--radius", "best"], "best go with --smooth only"),
        (["max-eps", "--smooth", "gaussian", "--min-cosine", "0.9", "--radius", "best"], "takes --sigma"),
        (["bound", "--smooth", "uniform", "--radius", "1", "--sigma", "1"], "not --sigma"),
        (["min-radius", "--min-cosine", "0.9", "--radius", "1"], "--radius means nothing here"),
        (["min-radius", "--min-cosine", "0.9", "--smooth", "gaussian", "--sigma", "1"], "--sigma means nothing here"),
        (["min-radius", "--min-cosine", "0.9", "--smooth", "gaussian", "--published", "0.5"], "for uniform noise"),
        (["min-radius", "--min-cosine", "0.9", "--radii", "1", "--max-radius", "2"], "one of them"),
        (["max-eps", "--max-angle", "30", "--eps", "0.1"], "--eps means nothing here"),
        (["max-eps", "--smooth", "uniform", "--min-cosine", "0.9", "--eps", "0.2"], "--eps means nothing here"),
        (["smooth", "--eps", "0.1"], "--eps means nothing here"),
        (["smooth", "--min-cosine", "0.9"], "--min-cosine means nothing here"),
        (["bound", "--samples", "1000"], "--samples is for smoothed"),
        (["bound", "--stop-when", "never"], "--stop-when is for smoothed"),
        (["bound", "--simultaneous"], "--simultaneous is for smoothed"),
        (["max-eps", "--max-angle", "30", "--samples", "100"], "--samples is for smoothed"),
        (["max-eps", "--max-angle", "30", "--simultaneous"], "--simultaneous is for smoothed"),
        (["bound", "--smooth", "uniform", "--norm", "linf"], "for l2, got norm linf"),
        (["max-eps", "--smooth", "uniform", "--min-cosine", "0.9", "--norm", "lp", "--p", "4"], "for l2"),
        (["bound", "--smooth", "uniform", "--samples", "5"], "--samples must be at least 50"),
        (["bound", "--smooth", "uniform", "--samples", "0"], "--samples must be at least 50"),
        (["bound", "--smooth", "uniform", "--failure", "0"], "failure"),
        (["bound", "--smooth", "uniform", "--failure", "1"], "failure"),
        (["bound", "--smooth", "uniform", "--bounded", "sample-max"], "goes with --rule published"),
        (["bound", "--smooth", "uniform", "--bounded", "clip:1.5"], "--bounded must be unit"),
        (["bound", "--smooth", "uniform", "--rule", "tigth"], "did you mean 'tight'"),
        (["bound", "--smooth", "uniform", "--confidence", "beting"], "did you mean 'betting'"),
        (["bound", "--smooth", "uniform", "--attribution", "smooth-grad"], "plain one"),
        (["bound", "--smooth", "uniform", "--stop-when", "certified"], "needs a threshold"),
        (["max-eps", "--smooth", "uniform", "--min-cosine", "0.9", "--stop-when", "certified"], "threshold that is met"),
        (["bound", "--smooth", "uniform", "--min-cosine", "0.9", "--stop-when", "certified", "--confidence", "mcdiarmid"], "betting"),
        (["min-radius", "--min-cosine", "0.9", "--radii", "1,1"], "once"),
        (["min-radius", "--min-cosine", "0.9", "--radii", "1,x"], "number"),
        (["min-radius", "--min-cosine", "0.9", "--radii", "0,1"], "--radii must be positive"),
        (["min-radius", "--min-cosine", "0.9", "--max-radius", "-1"], "--max-radius must be positive"),
        (["min-radius", "--min-cosine", "0.9", "--search", "climb"], "--search must be one of"),
        (["min-radius", "--min-cosine", "0.9", "--published", "1.5"], "at most 1"),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, list) else "",
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_with_a_reason_and_no_rows(words: list[str], said: str) -> None:
    done = attrcert(*words, "--limit", 1, *(["--quiet"] if words[0] != "smooth" else []))
    assert done.code == 2, done.out
    assert "catalogue" not in done.said
    assert said in done.said
    assert done.out == ""


@pytest.mark.parametrize("ratio", ["0", "0.5", "1"])
def test_the_published_radius_is_printed_for_every_length_and_not_called_an_answer(ratio: str) -> None:
    done = attrcert("min-radius", "--published", ratio, "--min-cosine", "0.9,0.8", "--eps", 0.5)
    assert done.code == 0, done.err
    assert done.out.count("not a certificate") == 2
    if ratio == "0.5":
        assert "R = 45.9651" in done.out


# figures of the noise that users see


def test_gaussian_noise_has_its_own_overlap(on) -> None:
    for row in on(*TASKS["gaussian"]).rows:
        tau = float(slow.gaussian_tau(float(row["eps"]), float(row["radius"])))
        assert float(row["tau"]) == pytest.approx(tau, rel=1e-11)
        assert row["noise"] == "gaussian"


def test_the_bets_of_a_row_are_those_of_its_projections(on, monkeypatch) -> None:
    """The bound in the row is the confidence bound of the projections, less the rounding, and M is 1."""
    seen = []
    real = Betting.__call__

    def noting(self, projections, q):
        seen.append((projections, q))
        return real(self, projections, q)

    monkeypatch.setattr(Betting, "__call__", noting)
    rows = on("bound", "--smooth", "uniform", "--eps", 0.01, samples=300).rows
    assert len(seen) == 6
    for row, (one, q) in zip(rows, seen, strict=True):
        assert (one.M, one.total, len(one.later)) == (1.0, 300, 250)
        pilot = one.pilot
        lower = slow.betting(
            one.later.tolist(), 1.0, q, cap=0.9, horizon=int(one.horizons[0]),
            mean=float((pilot + 1).mean() / 2), variance=float((pilot / 2).var()), weight=min(len(pilot), 50),
        )  # fmt: skip
        assert float(row["C_lower"]) == pytest.approx(lower, abs=1e-11)


def test_the_overlap_of_a_row_is_that_of_its_radius_and_dimension(on) -> None:
    row = on("bound", "--smooth", "uniform", "--radius", 2, "--eps", 0.3, "--limit", 1).rows[0]
    assert float(row["tau"]) == UniformBall(2.0).tau(0.3, 64)


def test_a_network_with_its_own_softplus_is_smoothed_as_it_is_too(work, tmp_path) -> None:
    (tmp_path / "nets.py").write_text(
        "import torch\nfrom torch import nn\n\ndef soft():\n    torch.manual_seed(0)\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.Softplus(), nn.Linear(9, 3))\n"
    )
    net: nn.Module = build(f"{tmp_path}/nets.py:soft", {})
    torch.save(net.state_dict(), tmp_path / "soft.pt")
    words = ("--arch", f"{tmp_path}/nets.py:soft", "--samples", 60, "--eps", 0.01, "--smooth", "uniform", "--quiet")
    done = attrcert("bound", tmp_path / "soft.pt", work / "data.npz", *words, "--format", "csv")
    assert all(float(row["C_lower"]) > 0.3 for row in done.rows)
