"""`attack --smooth`: no attack gets past a certificate, a wrong certificate does not survive it, and what it measures it measures well."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from reference.judging import write_run
from reference.program import attrcert
from safetensors.torch import load_file
from torch import Tensor, nn

import attrcert as library
from attrcert.attacks.turning import away, turn
from attrcert.attributions.bounded import bounded, make_bounding, pulled_back
from attrcert.bounds.smoothed.jacobian import TurningJacobian
from attrcert.columns import COLUMNS, verdicts
from attrcert.reporting.gating.promises import broken
from attrcert.running.evaluating import evidence, turning
from attrcert.saved.arrays import delta_key
from attrcert.statistics.paired_cosine import CosineEstimate, PairedMeans

SMOOTH = {"smooth": "gaussian", "sigma": 0.1}


def normals(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Kinked(nn.Module):
    """f = a |x_1| + b x_2: its gradient is (a, b) or (-a, b), and jumps at x_1 = 0.5 where the images lie."""

    def __init__(self, a2: float) -> None:
        super().__init__()
        self.a, self.b = math.sqrt(a2), math.sqrt(1 - a2)

    def forward(self, x: Tensor) -> Tensor:
        first, second = (x.flatten(1) - 0.5).unbind(dim=1)
        f = self.a * (first.relu() + (-first).relu()) + self.b * second
        return torch.stack([f + 9, 0 * f], dim=1)


KINK = Kinked(0.2), torch.full((2, 1, 1, 2), 0.5)


def network(seed: int, inputs: int = 16, width: int = 24) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, 3))


# the estimate


def paired(X: Tensor, Y: Tensor, blocks: int = 20) -> PairedMeans:
    found = PairedMeans(blocks, like=X[:, 0])
    for x, y in zip(X.split(5, dim=1), Y.split(5, dim=1), strict=True):
        found.add(x, y)
    return found


def test_the_cosine_is_that_of_sums_over_all_pairs_of_different_draws():
    X, Y = normals(1, 20, 3, seed=1) + 1, normals(1, 20, 3, seed=2) + 0.5
    pairs = [(i, j) for i in range(20) for j in range(20) if i != j]
    product, one, other = (sum(float(a[0, i] @ b[0, j]) for i, j in pairs) for a, b in ((X, Y), (X, X), (Y, Y)))
    assert float(paired(X, Y, blocks=4).estimate().cosine) == pytest.approx(product / math.sqrt(one * other), rel=1e-12)


def test_the_cosine_has_no_bias_where_that_of_the_means_has_much():
    b, n, d = 200, 400, 200
    h, other = torch.zeros(d, dtype=torch.float64), torch.zeros(d, dtype=torch.float64)
    h[0], other[0], other[1] = 1.0, 0.8, 0.6
    X, Y = h + normals(b, n, d, seed=3), other + normals(b, n, d, seed=4)
    found = paired(X, Y).estimate()
    plain = torch.cosine_similarity(X.mean(dim=1), Y.mean(dim=1)).mean()
    assert float(plain) < 0.6  # what the lengths' bias makes of 0.8
    assert float(found.cosine.mean()) == pytest.approx(0.8, abs=4 * float(found.cosine.std()) / math.sqrt(b) + 0.02)
    assert float(found.error.mean()) == pytest.approx(float(found.cosine.std()), rel=0.25)


def test_what_was_reached_is_less_two_errors_and_nothing_where_nothing_is_known():
    told = torch.tensor([0.5, 0.999, torch.nan], dtype=torch.float64), torch.tensor([0.1, 0.1, torch.nan]).double()
    half, close, unknown = CosineEstimate(*told).turned(2.0)
    assert half == pytest.approx(math.degrees(math.acos(0.7)))
    assert (close, unknown) == (0.0, 0.0)
    zeros = torch.zeros(1, 20, 3, dtype=torch.float64)
    assert math.isnan(paired(zeros, zeros).estimate().cosine)


# directions


def test_the_jacobian_from_draws_is_that_of_a_linear_map_across_h():
    d, sigma = 4, 0.3
    A, along = normals(d, d, seed=5), torch.nn.functional.normalize(normals(1, d, seed=6), dim=1)
    noise = normals(200_000, d, seed=7)
    J = TurningJacobian((sigma * noise @ A.T)[None], noise, along, sigma)
    dense = torch.stack([J.matvec(v[None])[0] for v in torch.eye(d, dtype=torch.float64)], dim=1)
    across = torch.eye(d, dtype=torch.float64) - along.T @ along
    assert torch.allclose(dense, across @ A, atol=0.05)  # five standard errors of 200,000 draws
    u, v = normals(1, d, seed=8), normals(1, d, seed=9)
    assert float(u @ J.matvec(v).T) == pytest.approx(float(J.rmatvec(u) @ v.T), rel=1e-10)


@pytest.mark.parametrize("kind", ["unit", "clip-at:2.5", "clip-at:100"])
def test_what_bounds_vectors_is_differentiated_as_it_is(kind):
    bounding, M = make_bounding(kind), torch.tensor([1.0 if kind == "unit" else float(kind.split(":")[1])]).double()
    g, u = normals(1, 6, 5, seed=10), normals(1, 6, 5, seed=11)
    leaf = g.clone().requires_grad_()
    (bounded(leaf, bounding, M) * u).sum().backward()
    assert leaf.grad is not None
    assert torch.allclose(pulled_back(u, g, bounding, M), leaf.grad, rtol=1e-9, atol=1e-12)


def test_the_way_leads_away_from_h_and_across_the_moved_map():
    h, moved = normals(3, 5, seed=12), normals(3, 5, seed=13)
    u = away(h, moved)
    assert (u * moved).sum(dim=1).abs().max() < 1e-12
    assert ((u * h).sum(dim=1) < 0).all()


def test_the_ascent_finds_the_top_direction_of_a_linear_map_that_only_noisy_products_show():
    d = 6
    J = torch.diag(torch.tensor([3.0, 1.0, 0.5, 0.2, 0.1, 9.0], dtype=torch.float64))  # the largest lies along h
    h = torch.zeros(1, d, dtype=torch.float64)
    h[0, -1] = 100.0

    def look(t: int, delta: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        noise = 0.3 * normals(2, 1, d, seed=100 + t)
        return delta @ J.T + noise[0], u @ J + noise[1]

    start = torch.nn.functional.normalize(normals(1, d, seed=14), dim=1)
    delta = turn(look, h, 0.5 * start, eps=0.5, steps=100)
    assert float(delta.norm()) == pytest.approx(0.5)
    assert abs(float(delta[0, 0])) > 0.45


# attacks and certificates


def degrees(rows: list) -> list[tuple[float, float]]:
    return [(row["T_hat_c_deg"], row["angle_deg"]) for row in rows if row["angle_deg"] is not None]


@pytest.mark.parametrize("rule", ["auto", "moments", "tight"])
@pytest.mark.parametrize("seed", range(3))
def test_no_attack_gets_past_the_certificate_of_a_random_network(seed, rule):
    x = torch.rand(4, 1, 4, 4, generator=torch.Generator().manual_seed(seed))
    rows = library.attack(network(seed), x, **SMOOTH, eps=(0.02, 0.05), rule=rule, samples=1000, steps=10, seed=seed)
    assert degrees(rows)
    assert all(reached <= limit for reached, limit in degrees(rows))
    assert {row["violated_certified"] for row in rows} <= {False, None}
    assert all(row["delta_norm"] <= row["eps"] for row in rows)


@pytest.mark.parametrize("settings", [{"bounded": "clip:0.5"}, {"smooth": "uniform", "sigma": None, "radius": 0.5}])
def test_no_attack_gets_past_other_certificates(settings):
    rows = library.attack(
        network(7), torch.rand(3, 1, 4, 4), **{**SMOOTH, "eps": 0.03, "samples": 1000, "steps": 5, **settings}
    )
    assert degrees(rows)
    assert all(0 < reached <= limit for reached, limit in degrees(rows))


@pytest.mark.parametrize("model", ["fashion-natural", "fashion-adversarial"])
def test_no_attack_gets_past_the_certificates_of_the_bundled_models_and_a_random_one_stays_far_behind(model):
    rows = library.attack(model, **SMOOTH, eps=0.1, limit=2, samples=1000, steps=10)
    assert all(reached <= limit for reached, limit in degrees(rows))
    for row in rows:
        assert row["T_hat_c_deg"] > 3 * row["T_sampled_c_deg"]
        assert row["tightness"] > 0.15
        assert row["found_by"] == "ascent"


def test_an_easy_map_is_turned_by_most_of_what_is_certified():
    rows = library.attack(*KINK, **SMOOTH, eps=0.05, samples=4000, dtype="float64")
    for reached, limit in degrees(rows):
        assert 0.5 * math.sin(math.radians(limit)) < math.sin(math.radians(reached)) <= math.sin(math.radians(limit))
    a, b = KINK[0].a, KINK[0].b
    exact = math.degrees(
        math.atan2(a * math.erf(0.5 / math.sqrt(2)), b)
    )  # h(x + delta) = (a (2 Phi(eps / sigma) - 1), b)
    for row in rows:
        assert exact - 2 < row["T_hat_c_deg"] <= exact
        assert abs(row["cosine_hat"] - math.cos(math.radians(exact))) < 4 * row["cosine_error"]


def test_a_wrong_certificate_is_refuted(monkeypatch):
    right = evidence.largest_variance
    monkeypatch.setattr(evidence, "largest_variance", lambda *words: right(*words) / 50)
    rows = library.attack(*KINK, **SMOOTH, eps=0.05, samples=2000, rule="moments", dtype="float64")
    assert [row["violated_certified"] for row in rows] == [True, True]
    assert broken(rows) == rows


def test_the_published_rule_is_refuted_and_was_no_promise():
    x = torch.tensor([[[[0.25, 0.5]]]])  # within eps of the kink
    settings = {"smooth": "uniform", "radius": 1, "eps": 0.5, "samples": 4000, "dtype": "float64"}
    (published,) = library.attack(Kinked(0.85), x, **settings, rule="published")
    assert published["T_hat_c_deg"] > published["angle_deg"] + 10
    assert (published["violated_certified"], published["guarantee"]) == (True, "empirical")
    assert not broken([published])
    (tight,) = library.attack(Kinked(0.85), x, **settings, rule="tight")
    assert not tight["violated_certified"]


def test_a_network_without_second_derivatives_is_attacked_by_its_draws_alone():
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.relu()

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, slope):
            return slope * (ctx.saved_tensors[0] > 0)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(16, 24), nn.Linear(24, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(Once.apply(self.first(x.flatten(1))))

    torch.manual_seed(0)
    rows = library.attack(Net(), torch.rand(2, 1, 4, 4), **SMOOTH, eps=0.05, samples=1000)
    assert {row["found_by"] for row in rows} == {"jacobian"}
    assert all(row["T_hat_c_deg"] > 2 * row["T_sampled_c_deg"] for row in rows)


def test_samples_that_stop_early_are_attacked_as_well():
    settings = {**SMOOTH, "eps": 0.1, "steps": 2, "samples": 1000, "min_cosine": 0.8, "stop_when": "certified"}
    rows = library.attack(network(1), torch.rand(5, 1, 4, 4, generator=torch.Generator().manual_seed(0)), **settings)
    assert len({row["samples"] for row in rows}) > 1
    assert all(0 < row["T_hat_c_deg"] <= row["angle_deg"] for row in rows)
    assert all(row["found_by"] in ("ascent", "jacobian") for row in rows)


# the command

QUICK = (
    "attack",
    "--smooth",
    "gaussian",
    "--sigma",
    0.1,
    "--eps",
    "0.05,0.1",
    "--samples",
    200,
    "--steps",
    2,
    "--limit",
    2,
    "--quiet",
)


def test_the_rows_hold_the_certificate_of_bound_and_are_resumed(tmp_path):
    quick = (*QUICK, "--chunk", 16)  # the size that is chosen by time decides the last digits
    whole = attrcert(*quick, "--out", tmp_path / "a.csv", "--format", "csv")
    assert whole.code == 0
    assert [column.name for column in COLUMNS["attack-smooth"]] == list(whole.rows[0])
    assert [(row["index"], row["eps"]) for row in whole.rows] == [
        ("0", "0.05"),
        ("0", "0.1"),
        ("1", "0.05"),
        ("1", "0.1"),
    ]
    certified = attrcert("bound", *QUICK[1:9], "--chunk", 16, "--limit", 2, "--quiet", "--format", "csv").rows
    shared = ("C_lower", "lambda_upper", "cosine", "angle_deg", "status", "guarantee")
    assert [[row[name] for name in shared] for row in whole.rows] == [
        [row[name] for name in shared] for row in certified
    ]
    lines = (tmp_path / "a.csv").read_text().splitlines(keepends=True)
    (tmp_path / "a.csv").write_text("".join(lines[:3]))
    manifest = json.loads((tmp_path / "a.csv.json").read_text())
    (tmp_path / "a.csv.json").write_text(json.dumps({**manifest, "state": "interrupted", "rows": 2}))
    again = attrcert(*quick, "--out", tmp_path / "a.csv", "--resume", "--format", "csv")
    assert [{**row, "seconds": ""} for row in again.rows] == [{**row, "seconds": ""} for row in whole.rows]


def test_table_json_report_and_gate_know_the_rows(tmp_path):
    done = attrcert(*QUICK, "--out", tmp_path / "a.csv", "--save-deltas", tmp_path / "d.safetensors")
    assert "How far an attack turns the smoothed attribution" in done.shown
    assert "0/2" in done.shown  # violated of those that are certified
    found = json.loads(attrcert(*QUICK, "--format", "json").out)
    assert [part["eps"] for part in found["attacks"]] == [0.05, 0.1]
    assert found["attacks"][0]["T_hat_c_deg"] == pytest.approx(
        np.mean([row["T_hat_c_deg"] for row in found["rows"] if row["eps"] == 0.05])
    )
    kept = load_file(tmp_path / "d.safetensors")
    assert float(kept[delta_key(0, 0.05, "turn")].norm()) == pytest.approx(0.05, rel=1e-5)
    assert attrcert("gate", tmp_path / "a.csv", "--require", "max(angle_deg[eps == 0.05]) <= 80").code == 0
    assert attrcert("gate", tmp_path / "a.csv", "--require", "max(T_hat_c_deg) <= 0.001").code == 1
    assert attrcert("report", tmp_path / "a.csv", "--out", tmp_path / "page.html").code == 0
    assert "violated_certified" in (tmp_path / "page.html").read_text()


def test_a_broken_promise_ends_with_exit_code_1(monkeypatch):
    right = evidence.largest_variance
    monkeypatch.setattr(evidence, "largest_variance", lambda *words: right(*words) / 5000)
    done = attrcert(*QUICK, "--rule", "moments")
    assert done.code == 1
    assert "violated: an attack exceeded a proved or confidence bound on" in done.said


LOOSE = {"attack": "turn", "cosine": 0.7, "angle_deg": 45.58}  # what the attack's own run certified


def smoothed(tmp_path: Path, rows: list[dict], command: str, name: str) -> Path:
    common = {"attribution": "saliency, unit", "noise": "gaussian", "radius": 0.1, "guarantee": "confidence"}
    rows = [{"index": i, "eps": 0.1, **common, **row} for i, row in enumerate(rows)]
    return write_run(tmp_path / name, rows, command, identity={"attribution": "saliency, unit"})


@pytest.mark.parametrize(
    ("cells", "rule"),
    [
        ({"cosine": 0.9, "angle_deg": 25.85}, "min(cosine) >= 0.5"),
        ({"cosine": 0.9, "angle_deg": 25.85}, "max(angle_deg) <= 50"),
        ({"eps": None, "eps_max": 0.2, "threshold": 0.9, "threshold_kind": "cosine"}, "min(eps_max) >= 0.1"),
    ],
)
def test_a_rule_does_not_pass_on_a_certificate_that_an_attack_in_another_file_refuted(tmp_path, cells, rule):
    certificate = smoothed(tmp_path, [cells, cells], "certify", "c.csv")
    for reached, outcome in ((25.0, 0), (40.0, 1)):
        rows = [{**LOOSE, "T_hat_c_deg": 1.0}, {**LOOSE, "T_hat_c_deg": reached}]
        attack = smoothed(tmp_path, rows, "attack-smooth", "a.csv")
        done = attrcert("gate", certificate, attack, "--require", rule)
        assert (done.code, "exceeded" in done.shown) == (outcome, bool(outcome))


@pytest.mark.parametrize(
    "other", [{"radius": 0.2}, {"noise": "uniform"}, {"attribution": "saliency, clip:0.5"}, {"eps": 0.3}]
)
def test_an_attack_on_another_smoothed_map_refutes_nothing(tmp_path, other):
    certificate = smoothed(tmp_path, [{"cosine": 0.9, "angle_deg": 25.85}], "certify", "c.csv")
    attack = smoothed(tmp_path, [{**LOOSE, "T_hat_c_deg": 40.0, **other}], "attack-smooth", "a.csv")
    assert attrcert("gate", certificate, attack, "--require", "max(angle_deg) <= 50").code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--attack", "top-k"), "--attack means nothing with --smooth"),
        (("--measure-on", "relu"), "--measure-on means nothing with --smooth"),
        (("--auc",), "--auc means nothing with --smooth"),
        (("--preset", "wang-kong-l2"), "--preset means nothing with --smooth"),
        (("--sigma", 0.2), "attack takes one radius or sigma, got 2"),
        (("--norm", "linf"), "smoothing certificates are for l2"),
    ],
)
def test_what_means_nothing_with_smooth_is_refused(words, message):
    done = attrcert(*QUICK, *words)
    assert done.code == 2
    assert message in done.said


def test_the_best_of_a_grid_is_refused():
    done = attrcert("attack", "--smooth", "gaussian", "--sigma", "best")
    assert done.code == 2
    assert "attack needs numbers" in done.said


def test_options_of_smoothing_are_refused_without_it():
    done = attrcert("attack", "--min-cosine", 0.9)
    assert done.code == 2
    assert "--min-cosine is for smoothed attributions" in done.said


def test_the_preset_for_smoothed_maps_is_an_attack_beside_its_certificate():
    done = attrcert("attack", "--preset", "wang-kong-smooth", "--limit", 1, "--steps", 2, "--restarts", 1, "--samples", 100,
                    "--eps", 0.2, "--quiet", "--format", "csv")  # fmt: skip
    assert done.code == 0
    (row,) = done.rows
    assert (row["noise"], row["radius"], row["eps"], row["attack"]) == ("uniform", "1.0", "0.2", "turn")
    assert float(row["T_hat_c_deg"]) > 0
    assert 0 < float(row["top_k"]) < 1


def test_the_best_of_random_starts_climbs_on_beside_both_signs_of_the_leading_direction(monkeypatch):
    seen = []

    def spied(look, h, starts, *, eps, steps):
        ends = turn(look, h, starts, eps=eps, steps=steps)
        seen.append((starts.view(-1, 2, starts.shape[1]), ends.view(-1, 2, starts.shape[1]), steps))
        return ends

    monkeypatch.setattr(turning, "turn", spied)
    settings = {**SMOOTH, "eps": 0.1, "limit": 2, "samples": 100, "steps": 20}
    for restarts in (0, 3):
        library.attack("fashion-adversarial", **settings, restarts=restarts)
    (alone, _, _), (random, raced, few), (more, _, steps) = seen
    assert (few, steps) == (2, 20)
    assert torch.equal(alone[0], -alone[1])
    assert torch.equal(more[:2], alone)
    for sample in range(2):
        assert (more[2, sample] - raced[:, sample]).norm(dim=1).min() < 1e-6
        directions = random[:, sample] / 0.1
        assert (directions @ directions.T - torch.eye(3)).abs().max() < 0.3  # far from each other, and of that size


@pytest.mark.parametrize(("a2", "share"), [(0.2, 1.0), (0.95, 0.0)])
def test_the_share_of_largest_entries_is_that_of_the_two_maps(a2, share):
    """h(x) = (0, b), and h(x + delta) = (.38 a, b) at the best delta."""
    rows = library.attack(Kinked(a2), KINK[1], **SMOOTH, eps=0.05, samples=400, k=1)
    assert [row["top_k"] for row in rows] == [share, share]


def test_every_attack_command_has_one_flag_per_bound():
    assert [(flag.name, bound.name) for flag, bound in verdicts("attack-smooth")] == [
        ("violated_certified", "angle_deg")
    ]
    flags = [flag.name for command in ("attack", "attack-smooth") for flag, _ in verdicts(command)]
    assert len(set(flags)) == len(flags)
