"""`attrcert attack` from outside: its rows, its files and its tables keep their promises, whatever it is given."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from reference.program import Done, attrcert
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from attrcert.attacks import ATTACKS
from attrcert.cli import execution
from attrcert.columns import COLUMNS, METRIC_COLUMNS, attack_columns
from attrcert.errors import UsageError
from attrcert.library import attack
from attrcert.loading.architectures import build
from attrcert.metrics import METRICS
from attrcert.running.evaluating.attacking import Attacks
from attrcert.settings.attacking import WORST
from attrcert.settings.certifying import CertifiedAttackConfig
from attrcert.settings.presets import PRESETS
from attrcert.settings.tasks import AttackConfig, settings_of
from attrcert.vocabulary import round_down, round_up

ATTACK_NAMES = (*ATTACKS, WORST)
ARCHS = """
    import os
    import torch
    from torch import nn

    def dense(activation):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), activation, nn.Linear(6, 3))
        for parameter in net.parameters():
            parameter.data *= 3
        return net

    def smooth():
        return dense(nn.Softplus())

    def conv():
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(1, 2, 3), nn.Softplus(), nn.Flatten(), nn.Linear(72, 3))

    def relu():
        return dense(nn.ReLU())

    class Mortal(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.passes = smooth(), 0
        def forward(self, x):
            self.passes += 1
            if "COUNT_INTO" in os.environ:
                with open(os.environ["COUNT_INTO"], "w") as stream:
                    stream.write(str(self.passes))
            if self.passes == int(os.environ.get("DIE_AT", "0")):
                os.kill(os.getpid(), int(os.environ["DIE_OF"]))
            return self.net(x)

    class Flipping(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))
        def forward(self, x):
            z = x.flatten(1)
            moved = ((4 * z - (4 * z).round()).abs().amax(dim=1) > 1e-5).to(x)
            curved = self.scale * (z**3).sum(dim=1)
            return torch.stack([curved, curved + 2 * moved.detach() - 1], dim=1)

    class Coy(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = smooth()
        def forward(self, x):
            return self.net(x) + x.flatten(1).sum(dim=1, keepdim=True).log()
"""
SMALL = {"--steps": 2, "--restarts": 1, "--random-draws": 3}


def small(*more: object) -> list[object]:
    """The words of a quick attack, where no others are given."""
    return [word for name, value in SMALL.items() if name not in more for word in (name, value)]


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    """A folder with architectures, their weights, and images of 8 x 8 pixels."""
    folder = tmp_path_factory.mktemp("attacks")
    (folder / "archs.py").write_text(textwrap.dedent(ARCHS))
    for name in ("smooth", "conv", "relu", "Mortal", "Flipping", "Coy"):
        torch.save(build(f"{folder}/archs.py:{name}", {}).state_dict(), folder / f"{name}.pt")
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (20, 8, 8), dtype=np.uint8)
    np.savez(folder / "data.npz", images=images, labels=np.arange(20) % 3)
    np.savez(folder / "quarters.npz", images=rng.integers(1, 4, (4, 8, 8)) / 4, labels=np.zeros(4, dtype=int))
    return folder


@pytest.fixture(scope="module")
def words_of(work) -> Callable[..., list]:
    """A small attack on one of the architectures, rows on stdout."""

    def words(*more, net: str = "smooth", data: Path | str = work / "data.npz", format_: str = "csv") -> list:
        arch = ("--arch", f"{work}/archs.py:{net}")
        return ["attack", work / f"{net}.pt", data, *arch, "--format", format_, "--quiet", *small(*more), *more]

    return words


@pytest.fixture(scope="module")
def attacked(words_of) -> Callable[..., Done]:
    return lambda *more, **choices: attrcert(*words_of(*more, **choices))


@dataclass(frozen=True)
class Whole:
    """A run of every attack and its perturbations."""

    rows: list[dict[str, str]]
    deltas: dict[str, Tensor]
    norm: str

    def delta(self, row: dict[str, str]) -> Tensor:
        return self.deltas[f"index={row['index']}/eps={float(row['eps'])!r}/attack={row['attack']}"]


def perturbations(path: Path) -> dict[str, Tensor]:
    """What --save-deltas kept, without the maps and inputs beside them."""
    return {name: tensor for name, tensor in load_file(path).items() if "attack=" in name.split("/")[-1]}


EPS = (0.25, 1.0)


@pytest.fixture(scope="module", params=["l2", "linf"])
def whole(request, attacked, tmp_path_factory) -> Whole:
    path = tmp_path_factory.mktemp("whole") / "deltas.safetensors"
    names = ("--attack", ",".join(ATTACK_NAMES), "--transfer", "input-x-gradient", "--dtype", "float64")
    where = ("--norm", request.param, "--eps", ",".join(map(str, EPS)), "--indices", "0-2,7", "--save-deltas", path)
    done = attacked(*names, *where, "--label-constraint", "check")
    assert done.code == 0, done.err
    return Whole(done.rows, load_file(path), request.param)


def network(work: Path, name: str) -> nn.Module:
    net = build(f"{work}/archs.py:{name}", {})
    net.load_state_dict(torch.load(work / f"{name}.pt"))
    return net.double()


def image(work: Path, index: str) -> Tensor:
    """As the program reads it: bytes divided by 255 in single precision."""
    with np.load(work / "data.npz") as arrays:
        pixels = torch.from_numpy(arrays["images"][int(index)])
    return (pixels.float() / 255).double()[None, None]


def gradient(net: nn.Module, x: Tensor, target: int) -> Tensor:
    leaf = x.clone().requires_grad_()
    (found,) = torch.autograd.grad(net(leaf)[0, target], leaf)
    return found.flatten()


# rows


def test_there_is_one_row_per_sample_eps_and_attack_in_that_order(whole):
    cases = [(index, eps, name) for index in ("0", "1", "2", "7") for eps in EPS for name in ATTACK_NAMES]
    assert [(row["index"], float(row["eps"]), row["attack"]) for row in whole.rows] == cases


def test_a_row_has_every_documented_column_and_those_of_the_transfer(whole):
    names = [column.name for column in attack_columns(("input-x-gradient",))]
    assert all(list(row) == names for row in whole.rows)
    assert {column.name for column in COLUMNS["attack"]} < set(names)


METRIC_CELLS = {column.name for column in METRIC_COLUMNS.values()}
ATTACK_CELLS = {
    "target_left",
    "attack",
    "T_sampled",
    "tightness",
    "violated",
    "violated_corrected",
    "delta_norm",
    "attack_steps",
}
BOUND_CELLS = {
    "correct", "T_hat_floor",
    "index", "label", "predicted", "target", "status", "guarantee", "attribution", "norm", "eps", "g_norm", "solver_status",
    "steps", "residual", "T_e", "T_e_attained", "c", "T_e_corrected", "margin_radius", "margin_classes", "label_kept",
    "label_kept_linearised", "eta", "eta_random", "failure", "seconds", "seed",
}  # fmt: skip
PER_NORM = {"l2": {"xi_lower", "xi_upper"}, "linf": {"linf_method", "linf_lower", "T_e_scaled"}}
PREDICTED = {"predicted_attacked", "correct_attacked", "margin_attacked"}  # with fooled, where the sample is right at x
COMPARED = {"tightness", "violated", "violated_corrected"}
FOLLOWING = {f"{name}{of}" for name in ("top_k_bound", "mass_centre_bound") for of in ("", "_corrected")}
ANGLES = {  # empty where a bound reaches the map's length
    "T_c_deg", "T_c_corrected_deg", "pearson_bound", "pearson_bound_corrected",
}  # fmt: skip


def test_every_cell_that_applies_is_filled_and_no_other(whole):
    carried = {f"input_x_gradient_{figure}" for figure in ("T_hat_e", "T_hat_c_deg", "top_k", "kendall")}
    expected = BOUND_CELLS | FOLLOWING | METRIC_CELLS | ATTACK_CELLS | PER_NORM[whole.norm] | carried
    predicted = (expected | PREDICTED) - COMPARED
    for row in whole.rows:
        right = {"fooled"} if row["correct"] == "True" else set()
        own = expected if row["attack"] != "prediction" else predicted | right
        assert {name for name, cell in row.items() if cell} - ANGLES == own


def test_no_cell_is_nan_or_infinite(whole):
    kinds = {column.name: column.kind for column in attack_columns(("input-x-gradient",))}
    figures = [cell for row in whole.rows for name, cell in row.items() if kinds[name] is float and cell]
    assert np.isfinite([float(cell) for cell in figures]).all()


def test_every_perturbation_keeps_to_the_ball(whole):
    p = {"l2": 2, "linf": torch.inf}[whole.norm]
    for row in whole.rows:
        size = whole.delta(row).flatten().norm(p=p).item()
        assert size <= float(row["eps"]) * (1 + 1e-6)
        assert float(row["delta_norm"]) == pytest.approx(size, rel=1e-9)


def test_every_perturbed_image_lies_in_the_pixel_range_exactly(whole, work):
    clipped = 0
    for row in whole.rows:
        moved = image(work, row["index"]) + whole.delta(row)
        assert moved.min() >= 0
        assert moved.max() <= 1
        clipped += int((moved == 0).any() or (moved == 1).any())
    assert clipped  # else the range would not have been tried


def test_no_perturbation_changes_the_label_although_some_could(whole, work):
    net = network(work, "smooth")
    for row in whole.rows:
        x = image(work, row["index"])
        assert net(x).argmax() == int(row["predicted"])
        kept = row["predicted"] if row["attack"] != "prediction" else row["predicted_attacked"]
        assert net(x + whole.delta(row)).argmax() == int(kept)
    assert all(whole.delta(row).any() for row in whole.rows if row["attack"] == "worst")  # and none gave up
    lost = [row["label_kept"] for row in whole.rows if row["label_kept"] != "both"]
    assert lost  # the bound's own worst perturbation changes some labels: the attack had to mind them


def test_the_reported_deviation_is_that_of_the_saved_perturbation(whole, work):
    net = network(work, "smooth")
    for row in whole.rows:
        x, y = image(work, row["index"]), int(row["target"])
        before, after = gradient(net, x, y), gradient(net, x + whole.delta(row), y)
        assert float(row["T_hat_e"]) == pytest.approx((after - before).norm().item(), rel=1e-9, abs=1e-12)
        a, b = after / after.norm(), before / before.norm()
        angle = torch.rad2deg(2 * torch.atan2((a - b).norm(), (a + b).norm())).item()
        assert float(row["T_hat_c_deg"]) == pytest.approx(angle, rel=1e-6, abs=1e-9)


def test_transferred_figures_are_those_of_the_other_attribution_at_the_same_perturbation(whole, work):
    net = network(work, "smooth")
    for row in whole.rows:
        x, y = image(work, row["index"]), int(row["target"])
        moved = x + whole.delta(row)
        before, after = x.flatten() * gradient(net, x, y), moved.flatten() * gradient(net, moved, y)
        deviation = (after - before).norm().item()
        assert float(row["input_x_gradient_T_hat_e"]) == pytest.approx(deviation, rel=1e-9, abs=1e-12)
        kendall = METRICS.make("kendall", k=1)(after[None], before[None], (1, 8, 8))
        assert kendall is not None
        assert float(row["input_x_gradient_kendall"]) == pytest.approx(kendall.item(), abs=1e-9)


def test_tightness_and_violations_compare_what_was_reached_with_each_bound(whole):
    for row in (row for row in whole.rows if row["attack"] != "prediction"):
        reached = float(row["T_hat_e"])
        assert float(row["tightness"]) == pytest.approx(reached / float(row["T_e"]), rel=1e-12)
        assert row["violated"] == str(reached > float(row["T_e"]))
        assert row["violated_corrected"] == str(reached > float(row["T_e_corrected"]))
    assert {row["violated"] for row in whole.rows if row["attack"] != "prediction"} == {"True", "False"}


def test_the_worst_attack_is_no_weaker_than_any_other_on_any_sample(whole):
    reached: dict[tuple, dict[str, float]] = {}
    for row in whole.rows:
        reached.setdefault((row["index"], row["eps"]), {})[row["attack"]] = float(row["T_hat_e"])
    moved = [{name: one for name, one in found.items() if name != "prediction"} for found in reached.values()]
    assert all(found["worst"] >= max(found.values()) for found in moved)


def test_the_sampled_figure_is_what_the_random_attack_reaches(whole):
    random = {(row["index"], row["eps"]): row["T_hat_e"] for row in whole.rows if row["attack"] == "random"}
    assert all(row["T_sampled"] == random[row["index"], row["eps"]] for row in whole.rows)


def test_the_sampled_figure_is_the_largest_draw_whatever_chooses_the_best_iterate(attacked):
    words = ("--random-draws", 30, "--limit", 4)
    plain, kept = attacked(*words).rows, attacked(*words, "--keep", "kendall").rows
    assert [row["T_sampled"] for row in kept] == [row["T_sampled"] for row in plain]


def test_saved_perturbations_are_keyed_by_index_eps_and_attack_and_have_the_images_shape(whole):
    cases = {f"index={i}/eps={eps!r}/attack={name}" for i in (0, 1, 2, 7) for eps in EPS for name in ATTACK_NAMES}
    maps = {f"{case}/map" for case in cases} | {f"index={i}/{name}" for i in (0, 1, 2, 7) for name in ("input", "map")}
    assert set(whole.deltas) == cases | maps
    assert {tuple(delta.shape) for delta in whole.deltas.values()} == {(1, 8, 8)}


def test_saved_maps_are_those_whose_distance_the_rows_tell(whole):
    for row in whole.rows:
        before = whole.deltas[f"index={row['index']}/map"].double()
        after = whole.deltas[f"index={row['index']}/eps={float(row['eps'])!r}/attack={row['attack']}/map"].double()
        assert (after - before).norm().item() == pytest.approx(float(row["T_hat_e"]), rel=1e-9)
        assert before.norm().item() == pytest.approx(float(row["g_norm"]), rel=1e-9)


def test_single_precision_keeps_to_the_ball_and_the_pixel_range(attacked, work, tmp_path):
    path = tmp_path / "deltas.safetensors"
    done = attacked("--attack", "worst,manipulate", "--eps", "0.1,2", "--limit", 4, "--save-deltas", path)
    assert done.code == 0, done.err
    found = Whole(done.rows, load_file(path), "l2")
    for row in done.rows:
        delta = found.delta(row)
        assert delta.dtype == torch.float32
        assert delta.double().norm() <= float(row["eps"]) * (1 + 1e-6)
        moved = image(work, row["index"]).float() + delta
        assert 0 <= moved.min() <= moved.max() <= 1


def test_the_same_attacks_together_or_alone_give_the_same_rows(attacked):
    both = attacked("--attack", "cosine,top-k", "--limit", 3).rows
    repeated = attacked("--attack", "cosine", "--attack", "top-k", "--limit", 3).rows
    alone = attacked("--attack", "top-k", "--limit", 3).rows
    assert [{**row, "seconds": ""} for row in repeated] == [{**row, "seconds": ""} for row in both]
    assert [{**row, "seconds": ""} for row in both if row["attack"] == "top-k"] == [
        {**row, "seconds": ""} for row in alone
    ]


# metrics, and which iterate is the best


def test_only_the_chosen_metrics_are_measured_beside_the_two_that_bounds_speak_of(attacked):
    rows = attacked("--metric", "kendall", "--metric", "top-k,ssim", "--limit", 2).rows
    for row in rows:
        assert {name for name in METRIC_CELLS if row[name]} == {"T_hat_e", "T_hat_c_deg", "kendall", "top_k", "ssim"}


def test_keeping_the_lowest_kendall_finds_a_lower_one_than_keeping_the_largest_deviation(attacked):
    words = ("--limit", 6, "--steps", 6, "--eps", 0.5)
    plain, kept = attacked(*words).rows, attacked(*words, "--keep", "kendall").rows
    pairs = [(float(a["kendall"]), float(b["kendall"])) for a, b in zip(plain, kept, strict=True)]
    assert all(b <= a for a, b in pairs)
    assert any(b < a for a, b in pairs)


def test_more_features_than_the_input_has_are_refused_and_all_of_them_are_not(attacked):
    done = attacked("--k", 65, "--attack", "top-k")
    assert done.code == 2
    assert "--k must be at most 64, the number of features, got 65 hint: e.g. --k 8" in done.said
    done = attacked("--preset", "ghorbani")
    assert done.code == 2
    assert (
        "--k must be at most 64, the number of features, got 1000, which the preset ghorbani sets hint: e.g."
        in done.said
    )
    assert {row["top_k"] for row in attacked("--k", 64, "--attack", "top-k", "--limit", 2).rows} == {"1.0"}


# labels and samples that fail


def test_where_every_perturbation_changes_the_label_there_is_none_and_it_is_counted(attacked, work, tmp_path):
    path = tmp_path / "deltas.safetensors"
    choices = {"net": "Flipping", "data": work / "quarters.npz"}
    words = ("--attack", "random,euclidean,worst", "--eps", "0.1")
    done = attacked(*words, "--save-deltas", path, **choices)
    assert done.code == 0, done.err
    assert {(row["status"], float(row["T_hat_e"]), float(row["delta_norm"])) for row in done.rows} == {
        ("label-changed", 0.0, 0.0)
    }
    assert {row["violated"] for row in done.rows} == {"False"}
    assert len(done.rows) == 12
    assert not any(delta.any() for delta in perturbations(path).values())
    table = " ".join(attacked(*words, **choices, format_="table").out.split())
    assert "4 label-changed" in table
    for name in ("random", "euclidean", "worst"):
        assert f"{name}: every iterate of 4 samples changed the label" in table


def test_an_attack_that_meets_another_label_goes_on_to_one_that_keeps_it(attacked):
    rows = attacked("--attack", "euclidean,cosine", "--eps", 1, "--steps", 8).rows
    assert {row["label_kept"] for row in rows} != {"both"}  # some starts do lose it
    assert {row["status"] for row in rows} <= {"ok", "vacuous"}


@pytest.mark.parametrize(
    "words",
    [["--target-map", "sample:0"], ["--steps", "0"], ["--map-weight", "0", "--output-weight", "0"]],
    ids=["already there", "no step", "no objective"],
)
def test_a_perturbation_of_zero_that_no_label_forced_is_not_called_a_changed_label(attacked, words):
    row = attacked("--attack", "manipulate", "--indices", "0", *words).rows[0]
    assert float(row["delta_norm"]) == 0
    assert row["status"] == "ok"


@pytest.mark.parametrize("eps", ["1e-30", "1e-9", "300", "1e30"])
@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_extreme_sizes_give_finite_cells(attacked, norm, eps):
    done = attacked("--norm", norm, "--eps", eps, "--limit", 3, "--attack", "euclidean,manipulate")
    assert done.code == 0, done.err
    assert not {cell for row in done.rows for cell in row.values()} & {"nan", "inf", "-inf"}


@pytest.mark.parametrize("eps", ["1e-30", "1e-9"])
def test_a_size_too_small_to_change_a_label_is_not_said_to_change_one(attacked, eps):
    rows = attacked("--eps", eps, "--limit", 3, "--attack", "random,worst,manipulate").rows
    assert {row["status"] for row in rows} <= {"ok"}


def test_a_perturbation_too_small_to_change_an_image_violates_nothing(attacked):
    # x + delta = x in single precision: what differs then is rounding, not the attribution
    rows = attacked("--norm", "linf", "--eps", "1e-9", "--limit", 7, net="conv").rows
    assert {row["violated"] for row in rows} <= {"False", ""}
    assert all(float(row["T_hat_e"]) <= float(row["T_hat_floor"]) for row in rows if row["violated"] == "")


def test_misclassified_samples_are_attacked_and_counted(attacked):
    rows = attacked("--limit", 6, "--eps", 0.01).rows
    wrong = [row for row in rows if row["label"] != row["predicted"]]
    assert 0 < len(wrong) < 6
    assert all(row["correct"] == "False" and row["status"] == "ok" and float(row["T_hat_e"]) > 0 for row in wrong)
    table = " ".join(attacked("--limit", 6, "--eps", 0.01, format_="table").out.split())
    assert f"{len(wrong)} misclassified" in table


CASES = ("--attack", "cosine,random", "--eps", "0.1,0.2")


def assert_failed(done: Done, index: int, status: str, samples: int) -> None:
    """One sample has an empty row for each case, the others are attacked, and the exit code says so."""
    assert done.code == 4, done.err
    assert len(done.rows) == 4 * samples
    bad = [row for row in done.rows if row["index"] == str(index)]
    assert [(float(row["eps"]), row["attack"]) for row in bad] == [
        (eps, name) for eps in (0.1, 0.2) for name in ("cosine", "random")
    ]
    assert {row["status"] for row in bad} == {status}
    assert all(row["message"] for row in bad)
    assert not any(row[name] for row in bad for name in METRIC_CELLS | {"violated", "tightness", "delta_norm"})
    assert all(row["T_hat_e"] for row in done.rows if row["index"] != str(index))


def test_an_image_with_nan_has_an_error_row_for_every_case_and_no_saved_perturbation(attacked, work, tmp_path):
    with np.load(work / "data.npz") as arrays:
        images, labels = arrays["images"][:4] / 255, arrays["labels"][:4]
    images[1, 3, 3] = np.nan
    np.savez(tmp_path / "bad.npz", images=images, labels=labels)
    path = tmp_path / "deltas.safetensors"
    done = attacked(*CASES, "--save-deltas", path, data=tmp_path / "bad.npz")
    assert_failed(done, 1, "error:non-finite", 4)
    assert Counter(key.split("/")[0] for key in perturbations(path)) == {"index=0": 4, "index=2": 4, "index=3": 4}
    assert attacked(*CASES, "--max-incomplete", 0.25, data=tmp_path / "bad.npz").code == 0


def test_an_unreadable_image_has_an_error_row_for_every_case(attacked, work, tmp_path):
    with np.load(work / "data.npz") as arrays:
        for i in range(3):
            Image.fromarray(arrays["images"][i]).save(tmp_path / f"{i}.png")
    (tmp_path / "1.png").write_bytes(b"not a picture")
    assert_failed(attacked(*CASES, "--channels", 1, data=tmp_path), 1, "error:unreadable", 3)


def test_an_output_that_is_not_finite_has_an_error_row_for_every_case(attacked, work, tmp_path):
    with np.load(work / "data.npz") as arrays:
        images = arrays["images"][:3].copy()
    images[2] = 0
    np.savez(tmp_path / "black.npz", images=images)
    assert_failed(attacked(*CASES, net="Coy", data=tmp_path / "black.npz"), 2, "error:non-finite-output", 3)


def test_a_label_out_of_range_far_into_the_data_has_an_error_row_for_every_case(attacked, tmp_path):
    images = np.random.default_rng(1).integers(0, 256, (66, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "bad.npz", images=images, labels=np.array([0] * 65 + [7]))
    words = ("--steps", 0, "--restarts", 0, "--metric", "cosine")
    assert_failed(attacked(*CASES, *words, data=tmp_path / "bad.npz"), 65, "error:label", 66)


def test_the_table_counts_a_failed_sample_and_leaves_it_out_of_the_means(attacked, work, tmp_path):
    with np.load(work / "data.npz") as arrays:
        images = arrays["images"][:3] / 255
    images[1, 0, 0] = 7
    np.savez(tmp_path / "bad.npz", images=images)
    done = attacked(data=tmp_path / "bad.npz", format_="json")
    found = json.loads(done.out)
    assert found["attacks"][0]["samples"] == 3
    reached = [row["T_hat_e"] for row in found["rows"] if row["status"] != "error:range"]
    assert found["attacks"][0]["T_hat_e"] == pytest.approx(sum(reached) / 2)
    assert "1 error:range" in attacked(data=tmp_path / "bad.npz", format_="markdown").out


def test_a_batch_that_does_not_fit_is_halved_and_its_perturbations_are_complete(attacked, tmp_path, monkeypatch):
    attacked(*CASES, "--limit", 6, "--save-deltas", tmp_path / "whole.safetensors")
    real = Attacks.explain

    def limited(self, classifier, batch, logits):
        if len(batch.indices) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(self, classifier, batch, logits)

    monkeypatch.setattr(Attacks, "explain", limited)
    assert attacked(*CASES, "--limit", 6, "--save-deltas", tmp_path / "halved.safetensors").code == 0
    assert_same_deltas(tmp_path / "halved.safetensors", tmp_path / "whole.safetensors", rel=1e-3)


def assert_same_deltas(first: Path, second: Path, *, rel: float = 0.0) -> None:
    a, b = load_file(first), load_file(second)
    assert set(a) == set(b)
    for key in a:
        assert (a[key] - b[key]).norm() <= rel * b[key].norm(), key


# which model leads and which is measured


def test_measuring_the_network_as_it_is_leaves_comparisons_empty_and_says_so(attacked):
    words = ("--measure-on", "relu", "--eps", 1, "--limit", 4)
    rows = attacked(*words, net="relu").rows
    for row in rows:
        assert (row["tightness"], row["violated"], row["violated_corrected"], row["violated_ball"]) == ("",) * 4
        assert float(row["T_e"]) > 0
    table = " ".join(attacked(*words, net="relu", format_="table").out.split())
    assert "they are not compared" in table
    assert "%]" not in table


@pytest.mark.parametrize("measured", ["relu", "twin"])
def test_the_deviation_is_that_of_the_network_it_is_said_to_be_measured_on(attacked, work, tmp_path, measured):
    path = tmp_path / "deltas.safetensors"
    words = ("--measure-on", measured, "--eps", 1, "--limit", 4, "--dtype", "float64", "--save-deltas", path)
    done = attacked(*words, "--softplus-beta", 5, net="relu")
    found, net = Whole(done.rows, load_file(path), "l2"), network(work, "relu")
    if measured == "twin":
        net[2] = nn.Softplus(beta=5, threshold=1000)
    assert any(float(row["T_hat_e"]) > 0 for row in done.rows)
    for row in done.rows:
        x, y = image(work, row["index"]), int(row["target"])
        moved = x + found.delta(row)
        deviation = (gradient(net, moved, y) - gradient(net, x, y)).norm().item()
        assert float(row["T_hat_e"]) == pytest.approx(deviation, rel=1e-6)
        assert net(moved).argmax() == net(x).argmax()


def test_the_beta_of_the_model_that_leads_the_way_changes_the_perturbation(attacked, tmp_path):
    words = ("--attack", "manipulate", "--limit", 2, "--eps", 0.5, "--steps", 4)
    found = []
    for number, beta in enumerate((["--direction-beta", "10"], ["--direction-beta", "10:100"], [])):
        path = tmp_path / f"{number}.safetensors"
        done = attacked(*words, *beta, "--save-deltas", path, net="relu")
        assert done.code == 0, done.err
        found.append(load_file(path)["index=0/eps=0.5/attack=manipulate"])
    assert not torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
    assert not torch.equal(found[1], found[2])


# target maps


def manipulated(attacked: Callable[..., Done], path: Path, target: str) -> Tensor:
    done = attacked("--attack", "manipulate", "--limit", 1, "--target-map", target, "--save-deltas", path)
    assert done.code == 0, done.err
    return load_file(path)["index=0/eps=0.1/attack=manipulate"]


def test_every_kind_of_target_map_leads_elsewhere(attacked, tmp_path):
    picture = np.zeros((16, 16, 3), dtype=np.uint8)
    picture[:8] = 255
    Image.fromarray(picture).save(tmp_path / "half.png")
    targets = ("frame", "sample:3", "sample:19", str(tmp_path / "half.png"))
    found = [manipulated(attacked, tmp_path / f"{i}.safetensors", target) for i, target in enumerate(targets)]
    assert not any(torch.equal(a, b) for i, a in enumerate(found) for b in found[:i])


def test_an_image_of_the_frame_leads_where_the_frame_leads(attacked, tmp_path):
    picture = np.full((8, 8), 200, dtype=np.uint8)
    picture[1:7, 1:7] = 0  # a border of 5/32 of the side
    Image.fromarray(picture).save(tmp_path / "frame.png")
    ours = manipulated(attacked, tmp_path / "ours.safetensors", str(tmp_path / "frame.png"))
    assert torch.allclose(ours, manipulated(attacked, tmp_path / "theirs.safetensors", "frame"), atol=1e-5)


@pytest.mark.parametrize(
    ("target", "code", "said"),
    [
        ("sample:20", 2, "below 20, got '20'"),
        ("sample:-1", 2, "below 20, got '-1'"),
        ("sample:", 2, "below 20, got ''"),
        ("sample:one", 2, "below 20, got 'one'"),
        ("gone.png", 3, "gone.png cannot be read as an image"),
        ("text.png", 3, "text.png cannot be read as an image"),
        ("black.png", 3, "black.png is black"),
        ("", 3, "frame, sample:N, or an image file"),
    ],
)
def test_a_target_map_that_is_none_is_refused(attacked, tmp_path, monkeypatch, target, code, said):
    monkeypatch.chdir(tmp_path)
    Image.new("L", (8, 8)).save("black.png")
    Path("text.png").write_text("no picture")
    done = attacked("--attack", "manipulate", "--target-map", target)
    assert done.code == code
    assert said in done.said
    assert done.out == ""


# inputs without pixels, which reach the library but not the command line


@pytest.fixture(scope="module")
def flat() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.Softplus(), nn.Linear(6, 3))
    return net, (torch.rand(3, 3, 4), torch.arange(3))


def test_pictures_too_small_for_ssim_have_no_ssim_and_every_other_metric(flat):
    net, data = flat
    (row, *_) = attack(net, data, steps=1, restarts=0, random_draws=2, attack=("mass-centre", "manipulate"))
    assert row["ssim"] is None
    assert all(row[name] is not None for name in METRIC_CELLS - {"ssim"})


# presets


@pytest.fixture
def config_of(monkeypatch) -> Callable[..., AttackConfig]:
    """The configuration that a command line means."""
    seen: list[AttackConfig] = []
    monkeypatch.setattr(execution, "execute", lambda asked, task, **_: seen.append(task))

    def config(*words) -> AttackConfig:
        done = attrcert("attack", *words)
        assert done.code == 0, done.err
        return seen.pop()

    return config


SMOOTHED = "wang-kong-smooth"  # an attack of its own kind
PLAIN = [name for name in PRESETS if name != SMOOTHED]


def test_the_preset_of_smoothed_maps_sets_its_fields_and_no_other(config_of):
    settings = PRESETS[SMOOTHED].settings
    assert config_of("--preset", SMOOTHED) == CertifiedAttackConfig(**settings)
    said = CertifiedAttackConfig(**{**settings, "steps": 30, "eps": 0.1})
    assert config_of("--preset", SMOOTHED, "--steps", 30, "--eps", 0.1) == said


@pytest.mark.parametrize("name", PLAIN)
def test_a_preset_sets_its_fields_and_no_other(config_of, name):
    assert config_of("--preset", name) == AttackConfig(**PRESETS[name].settings)
    assert config_of("--preset", name) != config_of()


def default_words(settings: Mapping[str, Any]) -> dict[str, str]:
    """The defaults of those of a preset's fields that can be said on the command line."""
    values = {field: AttackConfig().flat()[field] for field in settings}
    words = {field: ",".join(map(str, value)) for field, value in values.items() if isinstance(value, tuple)}
    words |= {field: str(value) for field, value in values.items() if isinstance(value, str | int | float)}
    return words | ({"step_size": "auto"} if "step_size" in settings else {})


@pytest.mark.parametrize("name", PLAIN)
def test_what_is_said_beside_a_preset_wins_even_where_it_is_the_default(config_of, name):
    told = default_words(PRESETS[name].settings)
    assert {"attack", "norm", "steps"} <= told.keys()
    words = [part for field, word in told.items() for part in ("--" + field.replace("_", "-"), word)]
    rest = {field: value for field, value in PRESETS[name].settings.items() if field not in told}
    assert config_of("--preset", name, *words) == AttackConfig(**rest)


def test_without_options_the_configuration_is_the_default_one(config_of):
    assert config_of() == AttackConfig()


def test_every_field_of_a_preset_is_an_option_of_the_command():
    known = set(settings_of(AttackConfig))
    assert all(set(PRESETS[name].settings) <= known for name in PLAIN)
    assert set(PRESETS[SMOOTHED].settings) <= set(settings_of(CertifiedAttackConfig))


def test_a_preset_runs(attacked):
    done = attacked("--preset", "wang-2020", "--limit", 1, "--auc")
    assert done.code == 0, done.err
    assert Counter(row["attack"] for row in done.rows) == {"top-k": 4, "manipulate": 4, "mass-centre": 4}
    assert {row["norm"] for row in done.rows} == {"linf"}


# wrong usage


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--attack", "eucledian"], "did you mean 'euclidean'"),
        (["--attack", "random,wurst"], "did you mean 'worst'"),
        (["--attack", ""], "one at least, got none"),
        (["--attack", "random,random"], "once"),
        (["--preset", "gorbani"], "did you mean 'ghorbani'"),
        (["--metric", "spearmen"], "did you mean 'spearman'"),
        (["--keep", "kendal"], "did you mean 'kendall'"),
        (["--transfer", "salency"], "did you mean 'saliency'"),
        (["--transfer", "xx"], "--transfer must be one of"),
        (["--measure-on", "twins"], "did you mean 'twin'"),
        (["--norm", "lp", "--p", "3"], "for l2 and linf, got norm lp"),
        (["--steps", "-1"], "at least 0, got -1"),
        (["--steps", "1.5"], "--steps must be a whole number, got '1.5'"),
        (["--steps", "many"], "--steps must be a whole number, got 'many'"),
        (["--restarts", "-1"], "at least 0, got -1"),
        (["--random-draws", "-1"], "at least 0, got -1"),
        (["--random-draws", "0", "--attack", "random"], "needs random draws, got 0"),
        (["--k", "0"], "at least 1, got 0"),
        (["--k", "-5"], "at least 1, got -5"),
        (["--k", "few"], "--k must be a whole number, got 'few'"),
        (["--step-size", "0"], "positive.*got 0"),
        (["--step-size", "-0.1"], "positive.*got -0.1"),
        (["--step-size", "nan"], "got 'nan'"),
        (["--step-size", "inf"], "got 'inf'"),
        (["--step-size", "wide"], "got 'wide'"),
        (["--step-size", "1/0"], "got '1/0'"),
        (["--map-weight", "-1"], "at least 0, got -1"),
        (["--map-weight", "nan"], "must be a number, got nan"),
        (["--map-weight", "inf"], "finite.*got inf"),
        (["--map-weight", "heavy"], "--map-weight must be a number, got 'heavy'"),
        (["--output-weight", "-1"], "at least 0, got -1"),
        (["--output-weight", "nan"], "must be a number, got nan"),
        (["--output-weight", "inf"], "finite.*got inf"),
        (["--direction-beta", "0"], "positive.*got 0"),
        (["--direction-beta", "-1"], "positive.*got -1"),
        (["--direction-beta", "10:-1"], "positive.*got 10:-1"),
        (["--direction-beta", "nan"], "got 'nan'"),
        (["--direction-beta", "inf"], "got 'inf'"),
        (["--direction-beta", "soft"], "got 'soft'"),
        (["--direction-beta", "10:"], "got"),
        (["--direction-beta", "1:2:3"], "got"),
        (["--auc"], "at least two values of eps"),
        (["--auc", "--eps", "0.1"], "at least two values of eps"),
        (["--save-deltas", "deltas.npz"], r"\.safetensors file, got deltas\.npz"),
        (["--save-deltas", "no/such/folder/deltas.safetensors"], "no folder no/such/folder"),
        (["--loss-hessian"], "loss-hessian"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_exits_2_and_says_what_must_hold_and_what_came(attacked, words, said):
    done = attacked("--limit", 1, *words)
    assert done.code == 2
    assert re.search(said, done.said), done.err
    assert done.out == ""


@pytest.mark.parametrize("option", ["--step-size", "--direction-beta"])
def test_a_word_that_is_no_number_is_reported_with_its_option(attacked, option):
    assert option.strip("-").replace("-", " ") in attacked(option, "soft").said.replace("-", " ")


@pytest.mark.parametrize("words", ["ig,ig", "ig,integrated-gradients"])
def test_an_attribution_transferred_to_twice_has_its_columns_once_or_is_refused(attacked, words):
    done = attacked("--transfer", words, "--ig-steps", 2, "--limit", 1)
    header = done.out.split("\n")[0].split(",")
    assert max(Counter(header).values()) == 1
    assert sum(name.endswith("_T_hat_e") for name in header) < 2


def test_the_same_check_holds_for_the_library():
    with pytest.raises(UsageError, match="map-weight must be"):
        AttackConfig(map_weight=float("nan"))


# results on stdout


def test_stdout_has_nothing_but_the_rows_and_stderr_the_progress(words_of):
    words = [word for word in words_of(*CASES, "--limit", 3) if word != "--quiet"]
    done = attrcert(*words)
    assert done.out.count("\n") == 13
    assert done.out.startswith("index,source,label,")
    assert "attacking" in done.err
    assert re.search(r"[1-9][\d,]* derivatives", done.err)


def test_quiet_leaves_stderr_empty(attacked):
    assert attacked("--limit", 2, net="relu").err == ""


def test_all_formats_say_the_same(attacked):
    words = (*CASES, "--limit", 3, "--transfer", "ixg")
    rows = attacked(*words).rows
    found = json.loads(
        attacked(*words, format_="json").out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON")
    )
    assert [(row["eps"], row["attack"], row["T_hat_e"]) for row in found["rows"]] == [
        (float(row["eps"]), row["attack"], float(row["T_hat_e"])) for row in rows
    ]
    text = attacked(*words, format_="markdown").out
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    header = lines.index(next(line for line in lines if "T_hat_e" in line))
    table = attacked(*words, format_="table").out
    for part, line in zip(found["attacks"], lines[header + 2 :], strict=False):
        group = [row for row in rows if (float(row["eps"]), row["attack"]) == (part["eps"], part["attack"])]
        means = {name: sum(float(row[name]) for row in group) / 3 for name in ("T_hat_e", "T_e", "T_sampled")}
        assert part["T_hat_e"] == pytest.approx(means["T_hat_e"])
        cells = dict(zip(lines[header], line, strict=True))
        assert (cells["eps"], cells["attack"], cells["samples"]) == (f"{part['eps']:.4g}", part["attack"], "3")
        assert cells["T_hat_e"] == round_down(part["T_hat_e"], 4)
        assert cells["T_sampled"] == round_down(part["T_sampled"], 4)
        assert cells["T_e"].split()[0] == round_up(part["T_e"]["mean"], 4)
        assert all(cells[name] in table for name in ("T_hat_e", "T_sampled", "T_c_deg"))
    assert len(found["attacks"]) == 4


def test_areas_are_in_the_table_and_in_the_json(attacked):
    words = ("--auc", *CASES, "--limit", 2)
    assert "Areas under" in attacked(*words, format_="markdown").out
    assert "area" in attacked(*words, format_="json").out


def test_the_ball_wide_estimate_is_compared_too(attacked):
    rows = attacked("--ball", "--limit", 3).rows
    assert all(row["violated_ball"] == str(float(row["T_hat_e"]) > float(row["T_e_ball"])) for row in rows)
    assert "T_e_ball" in attacked("--ball", "--limit", 3, format_="markdown").out


# files


def stripped(path: Path) -> list[dict[str, str]]:
    with path.open() as stream:
        return [{**row, "seconds": ""} for row in csv.DictReader(stream)]


@pytest.fixture
def files(tmp_path) -> tuple:
    return ("--out", tmp_path / "rows.csv", "--save-deltas", tmp_path / "deltas.safetensors")


def test_out_holds_the_rows_of_stdout_and_the_manifest_the_attacks_settings(attacked, tmp_path):
    out = tmp_path / "rows.csv"
    done = attacked(*CASES, "--out", out, "--limit", 2, "--keep", "kendall", "--transfer", "ixg")
    assert out.read_text() == done.out
    manifest = json.loads((tmp_path / "rows.csv.json").read_text())
    assert (manifest["command"], manifest["state"], manifest["rows"]) == ("attack", "complete", 8)
    identity = manifest["identity"]
    assert (identity["attack"], identity["steps"], identity["keep"]) == (["cosine", "random"], 2, "kendall")


def test_nothing_is_left_beside_the_files_of_a_finished_run(attacked, files, tmp_path):
    assert attacked(*files, "--limit", 2).code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"rows.csv", "rows.csv.json", "deltas.safetensors"}


def test_perturbations_are_saved_without_a_file_of_rows(attacked, tmp_path):
    path = tmp_path / "deltas.safetensors"
    assert attacked("--limit", 2, "--save-deltas", path).code == 0
    assert len(perturbations(path)) == 2
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def test_saved_perturbations_are_not_touched_unasked_and_the_hint_works(attacked, tmp_path):
    path = tmp_path / "deltas.safetensors"
    attacked("--limit", 2, "--save-deltas", path)
    before = path.read_bytes()
    done = attacked("--limit", 3, "--save-deltas", path)
    assert done.code == 2
    assert "exists" in done.said
    assert path.read_bytes() == before
    assert "--overwrite" in done.said
    assert attacked("--limit", 3, "--save-deltas", path, "--overwrite").code == 0
    assert len(perturbations(path)) == 3


def test_overwriting_replaces_rows_and_perturbations(attacked, files, tmp_path):
    attacked(*files, "--limit", 3)
    assert attacked(*files, "--limit", 2).code == 2
    assert attacked(*files, "--limit", 2, "--attack", "cosine", "--overwrite").code == 0
    assert len(stripped(tmp_path / "rows.csv")) == 2
    assert set(perturbations(tmp_path / "deltas.safetensors")) == {f"index={i}/eps=0.1/attack=cosine" for i in range(2)}


@pytest.mark.parametrize("how", ["--overwrite", "--resume"])
def test_a_safetensors_file_of_something_else_is_never_replaced_or_added_to(attacked, tmp_path, how):
    model = tmp_path / "model.safetensors"
    save_file({"weight": torch.ones(3)}, model)
    before = model.read_bytes()
    done = attacked("--limit", 1, "--out", tmp_path / "rows.csv", "--save-deltas", model, how)
    assert done.code == 2
    assert model.read_bytes() == before


@pytest.mark.parametrize("made", ["missing folder", "folder", "garbage"])
def test_a_place_that_perturbations_cannot_go_to_leaves_the_rows_alone(attacked, tmp_path, made):
    out = tmp_path / "rows.csv"
    attacked("--out", out, "--limit", 2)
    before = out.read_bytes()
    path = tmp_path / ("no" if made == "missing folder" else ".") / "deltas.safetensors"
    if made == "folder":
        path.mkdir()
    if made == "garbage":
        path.write_bytes(b"garbage")
    done = attacked("--out", out, "--limit", 1, "--overwrite", "--save-deltas", path)
    assert done.code == 2
    assert out.read_bytes() == before


def test_a_refused_place_for_perturbations_leaves_no_empty_file_of_rows(attacked, tmp_path):
    out = tmp_path / "rows.csv"
    assert attacked("--out", out, "--limit", 1, "--save-deltas", tmp_path / "no" / "deltas.safetensors").code == 2
    assert not out.exists()


def test_rows_and_perturbations_cannot_go_into_one_file(attacked, tmp_path):
    path = tmp_path / "both.safetensors"
    assert attacked("--limit", 1, "--out", path, "--save-deltas", path).code == 2
    assert not path.exists()


# resuming

RUN = ("--attack", "cosine,manipulate,random", "--eps", "0.1,0.3", "--batch-size", 3, "--limit", 8)


@pytest.fixture(scope="module")
def uninterrupted(words_of, tmp_path_factory) -> tuple[Path, Path, int]:
    """The files of a whole run, and how often it asked the model."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    rows, deltas = folder / "rows.csv", folder / "deltas.safetensors"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("COUNT_INTO", str(folder / "passes"))
        done = attrcert(*words_of(*RUN, "--out", rows, "--save-deltas", deltas, net="Mortal"))
    assert done.code == 0, done.err
    return rows, deltas, int((folder / "passes").read_text())


def assert_resumed(words: list, tmp_path: Path, uninterrupted: tuple[Path, Path, int]) -> None:
    resumed = attrcert(*words, "--resume")
    assert resumed.code == 0, resumed.err
    rows = stripped(tmp_path / "rows.csv")
    assert max(Counter((row["index"], row["eps"], row["attack"]) for row in rows).values()) == 1
    assert rows == stripped(uninterrupted[0])
    assert_same_deltas(tmp_path / "deltas.safetensors", uninterrupted[1])
    assert {path.name for path in tmp_path.iterdir()} == {"rows.csv", "rows.csv.json", "deltas.safetensors"}
    assert len(resumed.rows) == len(rows)


@pytest.mark.parametrize(("share", "torn"), [(0.55, False), (0.75, True)], ids=["between lines", "in a line"])
def test_a_killed_run_resumes_to_the_uninterrupted_result(words_of, files, tmp_path, uninterrupted, share, torn):
    words = list(map(str, words_of(*RUN, *files, net="Mortal")))
    fate = {"DIE_AT": str(int(share * uninterrupted[2])), "DIE_OF": str(int(signal.SIGKILL)), "OMP_NUM_THREADS": "1"}
    killed = subprocess.run(
        [sys.executable, "-m", "attrcert", *words], env={**os.environ, **fate}, capture_output=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    content = (tmp_path / "rows.csv").read_bytes()
    assert 1 < content.count(b"\n") < 1 + 8 * 6
    assert not (tmp_path / "deltas.safetensors").exists()
    if torn:
        (tmp_path / "rows.csv").write_bytes(content[:-40])
    assert_resumed(words, tmp_path, uninterrupted)


def test_an_interrupted_run_says_how_to_go_on_and_resumes_to_the_uninterrupted_result(
    words_of, files, tmp_path, uninterrupted, monkeypatch
):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    words = words_of(*RUN, *files, net="Mortal")
    monkeypatch.setenv("DIE_AT", str(int(0.6 * uninterrupted[2])))
    monkeypatch.setenv("DIE_OF", str(int(signal.SIGINT)))
    done = attrcert(*words)
    signal.signal(signal.SIGINT, before)
    assert done.code == 4
    assert "--resume" in done.said
    assert "--save-deltas" in done.said
    assert done.out == ""
    assert json.loads((tmp_path / "rows.csv.json").read_text())["state"] == "interrupted"
    assert 0 < len(stripped(tmp_path / "rows.csv")) < 8 * 6
    monkeypatch.delenv("DIE_AT")
    assert_resumed(words, tmp_path, uninterrupted)


def test_after_an_interrupt_without_a_file_of_rows_the_same_command_works(words_of, tmp_path, monkeypatch):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    words = words_of("--batch-size", 1, "--limit", 3, "--save-deltas", tmp_path / "deltas.safetensors", net="Mortal")
    monkeypatch.setenv("COUNT_INTO", str(tmp_path / "passes"))
    attrcert(*words)
    passes = int((tmp_path / "passes").read_text())
    (tmp_path / "deltas.safetensors").unlink()
    monkeypatch.setenv("DIE_AT", str(passes - 2))
    monkeypatch.setenv("DIE_OF", str(int(signal.SIGINT)))
    assert attrcert(*words).code == 4
    signal.signal(signal.SIGINT, before)
    monkeypatch.delenv("DIE_AT")
    done = attrcert(*words)
    assert done.code == 0, done.err
    assert len(perturbations(tmp_path / "deltas.safetensors")) == 3


@pytest.fixture(scope="module")
def finished(attacked, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("finished") / "rows.csv"
    assert attacked(*CASES, "--limit", 1, "--out", out).code == 0
    return out


@pytest.mark.parametrize(
    ("words", "differing"),
    [
        (["--attack", "top-k"], ["attack was ['cosine', 'random'] and is ['cosine', 'random', 'top-k']"]),
        (["--steps", "3"], ["steps was 2 and is 3"]),
        (["--k", "5", "--restarts", "2"], ["k was 8 and is 5", "restarts was 1 and is 2"]),
        (["--preset", "wang-2020"], ["k was 8 and is 20", "norm was 'l2' and is 'linf'"]),
        (["--transfer", "ixg"], ["transfer was [] and is ['input-x-gradient']"]),
        (["--metric", "kendall"], ["metric was"]),
        (["--direction-beta", "3"], ["direction_beta was None and is '3'"]),
        (["--step-size", "0.01"], ["step_size was None and is 0.01"]),
        (["--keep", "ssim"], ["keep was None and is 'ssim'"]),
    ],
    ids=lambda value: " ".join(value) if value[0].startswith("--") else "",
)
def test_resuming_with_other_settings_is_refused_and_names_them(attacked, finished, words, differing):
    out = finished
    before = out.read_bytes()
    done = attacked(*CASES, "--limit", 1, *words, "--out", out, "--resume")
    assert done.code == 2
    assert all(part in done.said for part in differing), done.said
    assert out.read_bytes() == before


@pytest.mark.parametrize("first", [True, False], ids=["saved before", "saved now"])
def test_a_run_is_not_resumed_where_only_one_of_both_keeps_perturbations(attacked, files, first):
    assert attacked("--limit", 1, *(files if first else files[:2])).code == 0
    done = attacked("--limit", 1, *(files[:2] if first else files), "--resume")
    assert done.code == 2
    assert "save_deltas" in done.said


@pytest.mark.parametrize("lost", ["deleted", "another path"])
def test_resuming_never_ends_with_fewer_perturbations_than_rows(attacked, files, tmp_path, lost):
    attacked("--limit", 2, *files)
    path = files[3]
    if lost == "deleted":
        path.unlink()
    else:
        path = tmp_path / "other.safetensors"
    done = attacked("--limit", 2, *files[:3], path, "--resume")
    if done.code == 0:
        assert len(perturbations(path)) == 2
    else:
        assert done.code == 2
        assert path.name in done.said


def test_resuming_a_finished_run_computes_nothing_and_keeps_its_perturbations(attacked, files, monkeypatch):
    first = attacked("--limit", 2, *files)
    before = load_file(files[3])
    monkeypatch.setattr(Attacks, "explain", lambda *_: pytest.fail("computed again"))
    again = attacked("--limit", 2, *files, "--resume")
    assert (again.code, again.out) == (0, first.out)
    assert set(load_file(files[3])) == set(before)


def test_a_new_run_does_not_take_over_the_perturbations_of_another(attacked, files):
    attacked("--limit", 2, *files)
    files[1].unlink()
    done = attacked("--limit", 1, "--attack", "cosine", *files, "--resume")
    assert done.code == 2 or set(perturbations(files[3])) == {"index=0/eps=0.1/attack=cosine"}


# the verdict


@pytest.mark.parametrize(
    ("guarantee", "code"), [("proved", 1), ("confidence", 1), ("corrected", 0), ("first-order", 0), ("empirical", 0)]
)
def test_exceeding_a_bound_that_promises_to_hold_exits_1(attacked, monkeypatch, guarantee, code):
    real = execution.compute

    def promising(*given, **named):
        rows = real(*given, **named)
        assert any(row["violated"] for row in rows)
        flag = "violated_proved" if guarantee == "proved" else "violated"
        return [{**row, "guarantee": guarantee, flag: row["violated"]} for row in rows]

    monkeypatch.setattr(execution, "compute", promising)
    done = attacked("--limit", 4, "--eps", 0.25)
    assert done.code == code
    assert ("violated" in done.said) == (code == 1)
    assert len(done.rows) == 4  # the result is shown all the same


def test_a_broken_promise_weighs_more_than_an_incomplete_run(attacked, monkeypatch):
    real = execution.compute

    def promising(*given, **named):
        first, *others = real(*given, **named)
        return [
            {**first, "status": "error:range"},
            *({**row, "guarantee": "proved", "violated_proved": True} for row in others),
        ]

    monkeypatch.setattr(execution, "compute", promising)
    assert attacked("--limit", 2).code == 1


def test_first_order_figures_that_are_exceeded_exit_0_and_their_share_is_shown(attacked):
    done = attacked("--limit", 4, "--eps", 0.25, format_="json")
    assert done.code == 0
    part = json.loads(done.out)["attacks"][0]
    assert part["T_e"]["exceeded"] > 0
    share = round(100 * part["T_e"]["exceeded"] / part["T_e"]["compared"])
    assert f"[{share}%]" in attacked("--limit", 4, "--eps", 0.25, format_="markdown").out


# help and catalogue


def test_the_help_needs_no_torch_and_names_every_attack_metric_and_preset():
    program = textwrap.dedent("""
        import sys
        sys.argv = ["attrcert", "attack", "--help-all"]
        from attrcert.cli.app import main
        try:
            main()
        finally:
            print("torch" in sys.modules, "numpy" in sys.modules, file=sys.stderr)
    """)
    env = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr.split() == ["False", "False"]
    for name in (*ATTACK_NAMES, *METRICS, *PRESETS):
        assert name in done.stdout


@pytest.mark.parametrize(
    ("family", "names"),
    [("attacks", (*ATTACK_NAMES, "turn (--smooth)")), ("metrics", tuple(METRICS)), ("presets", tuple(PRESETS))],
)
def test_the_catalogue_lists_the_family_with_a_meaning_of_each(family, names):
    entries = json.loads(attrcert("catalogue", family, "--format", "json").out)[family]
    assert [entry["name"] for entry in entries if entry["name"] in names] == [entry["name"] for entry in entries]
    assert {entry["name"] for entry in entries} == set(names)
    assert all(len(entry["meaning"]) > 20 for entry in entries)
    if family == "presets":
        assert all(entry["reference"] for entry in entries)
    assert names[0] in attrcert("catalogue", family).out


def test_the_catalogue_shows_the_settings_of_a_preset():
    entries = json.loads(attrcert("catalogue", "presets", "--format", "json").out)["presets"]
    (found,) = [entry["meaning"] for entry in entries if entry["name"] == "ghorbani"]
    for said in ("top-k", "mass-centre", "linf", "eps 8/255", "steps 300", "k 1000", "measure-on relu"):
        assert said in found


@pytest.mark.parametrize("family", ["attacks", "presets", "metrics"])
def test_the_catalogues_help_names_the_family(family):
    assert family in attrcert("catalogue", "--help").out


def test_the_bundled_default_needs_no_argument_but_a_limit():
    done = attrcert("attack", "--limit", 2, *small(), "--format", "csv", "--quiet")
    assert done.code == 0, done.err
    assert [(row["index"], row["attack"]) for row in done.rows] == [("0", "euclidean"), ("1", "euclidean")]


def test_the_notes_tell_of_each_eps_in_the_order_of_the_table(attacked):
    done = attacked("--eps", "0.1,0.2,0.05", "--limit", 2, "--steps", 1, format_="table")
    assert re.findall(r"^eps (\S+), means over 2 samples", done.out, re.MULTILINE) == ["0.1", "0.2", "0.05"]


def test_the_table_says_how_far_from_its_target_manipulate_stayed(attacked):
    words = ("--attack", "manipulate", "--limit", 2, "--steps", 3)
    left = [float(row["target_left"]) for row in attacked(*words).rows]
    shown = attacked(*words, "--metric", "ssim", format_="markdown").out
    assert f"| {sum(left) / 2:.4g} |" in shown[shown.index("target_left") :]
