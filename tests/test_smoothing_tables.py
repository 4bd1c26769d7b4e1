"""What tables and JSON say of smoothing certificates and inversions: the rows' own figures, what they hold for, and what to try next."""

import json
import math
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from reference.program import Done, attrcert

from attrcert.catalogue import families
from attrcert.errors import UsageError
from attrcert.loading.architectures import build
from attrcert.reporting.summaries.bounds import summarise
from attrcert.reporting.summaries.cases import summarise_cases
from attrcert.reporting.summaries.inverses import smooth_table
from attrcert.reporting.summaries.statistics import LowStatistic
from attrcert.settings.certifying import CertifyConfig
from attrcert.settings.smoothing import BEST_SPREADS
from attrcert.vocabulary import CLT

ARCHS = """
    import torch
    from torch import nn

    def relu():
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(36, 20), nn.ReLU(), nn.Linear(20, 3))
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    (folder / "archs.py").write_text(textwrap.dedent(ARCHS))
    torch.save(build(f"{folder}/archs.py:relu", {}).state_dict(), folder / "relu.pt")
    images = np.random.default_rng(0).integers(0, 256, (4, 6, 6), dtype=np.uint8)
    np.savez(folder / "data.npz", images=images, labels=np.arange(4) % 3)
    return folder


@pytest.fixture(scope="module")
def on(work) -> Callable[..., Done]:
    def command(name: str, *words, format_: str = "table") -> Done:
        drawn = ("--samples", 60) if (name == "min-radius" or "--smooth" in words) and "--samples" not in words else ()
        arch = ("--arch", f"{work}/archs.py:relu", "--dtype", "float64")
        return attrcert(name, work / "relu.pt", work / "data.npz", *arch, *drawn, "--format", format_, *words)

    return command


def text(done: Done) -> str:
    assert done.out, done.err
    return " ".join(done.out.split())


# JSON


def test_json_summarises_what_the_table_shows_of_every_smoothed_case(on) -> None:
    words = ("bound", "--smooth", "uniform", "--radius", "0.5,1", "--eps", "0.01,0.04", "--min-cosine", 0.97)
    found = json.loads(on(*words, format_="json").out)
    cases, rows = found["summary"]["cases"], found["rows"]
    assert [(case["radius"], case["eps"]) for case in cases] == [(0.5, 0.01), (0.5, 0.04), (1.0, 0.01), (1.0, 0.04)]
    for case in cases:
        mine = [row for row in rows if (row["radius"], row["eps"]) == (case["radius"], case["eps"])]
        known = [row["cosine"] for row in mine if row["cosine"] is not None]
        assert case["cosine"]["count"] == len(known)
        if known:
            assert case["cosine"]["mean"] == pytest.approx(np.mean(known))
        assert case["cosine"]["min"] == (min(known) if len(known) == 4 else None)
        assert case["certified"] == sum(row["status"] != "abstained" for row in mine)
        assert case["abstained"] == 4 - case["certified"]
        assert case["C_lower/M"] == pytest.approx(np.mean([row["C_lower"] / row["M"] for row in mine]))
        assert (case["samples"], case["threshold"], case["guarantee"]) == (4, 0.97, "confidence")
    assert {case["abstained"] for case in cases} > {0}


def test_json_summarises_inversions(on) -> None:
    found = json.loads(on("max-eps", "--max-angle", "10,30", format_="json").out)
    for case, angle in zip(found["summary"]["cases"], (10.0, 30.0), strict=True):
        eps = [row["eps_max"] for row in found["rows"] if row["threshold"] == angle]
        assert (case["threshold_kind"], case["threshold"], case["met"]) == ("angle", angle, 4)
        assert case["eps_max"]["mean"] == pytest.approx(np.mean(eps))
        assert case["eps_max"]["median"] == pytest.approx(np.median(eps))
        assert case["eps_max"]["min"] == min(eps)
    words = ("min-radius", "--radii", "0.1,1,2", "--eps", "0.02,0.9", "--min-cosine", 0.5)
    found = json.loads(on(*words, format_="json").out)
    near, far = found["summary"]["cases"]
    radii = [row["radius_min"] for row in found["rows"] if row["eps"] == 0.02]
    assert near["radius_min"]["mean"] == pytest.approx(np.mean(radii))
    assert (near["infeasible"], far["infeasible"], far["certified"]) == (0, 4, 0)
    assert far["radius_min"]["mean"] is None


def test_json_of_the_published_rule_certifies_nothing(on) -> None:
    words = ("bound", "--smooth", "uniform", "--eps", 0.01, "--rule", "published")
    for case in json.loads(on(*words, format_="json").out)["summary"]["cases"]:
        assert "certified" not in case
        assert case["met"] == 4


@pytest.mark.parametrize("json_", [("--json",), ("--format", "json")], ids=str)
def test_closed_forms_are_printed_as_json_too(json_: tuple) -> None:
    words = ("min-radius", "--published", 0.5, "--min-cosine", "0.9,0.8", "--eps", 0.5, *json_)
    radii = json.loads(attrcert(*words).out)
    assert [(one["eps"], one["threshold"]) for one in radii] == [(0.5, 0.9), (0.5, 0.8)]
    assert radii[0]["radius"] == pytest.approx(45.9651, rel=1e-5)
    assert "not a certificate" in radii[0]["guarantee"]
    assert json.loads(attrcert(*words[:2], 0, *words[3:]).out)[0]["radius"] is None
    words = ("max-eps", "--smoothgrad-lipschitz", 0.5, "--sigma", 0.25, "--max-deviation", "0.5,9", *json_)
    near, far = json.loads(attrcert(*words).out)
    assert near["eps_max"] == pytest.approx(0.0645739, rel=1e-5)
    assert far["eps_max"] is None
    assert attrcert(*words[:7], "--format", "csv").code == 2


# statistics


def test_samples_without_a_figure_lie_below_or_above_every_value() -> None:
    values = [0.4, 0.1, 0.3, 0.2]
    whole = LowStatistic.of(values)
    assert (whole.count, whole.mean, whole.median, whole.min) == (4, pytest.approx(0.25), pytest.approx(0.25), 0.1)
    below = LowStatistic.of(values, below=4)
    assert (below.median, below.p5, below.min) == (None, None, None)
    assert LowStatistic.of(values, below=3).median == 0.1
    above = LowStatistic.of(values, above=3)
    assert (above.median, above.p5, above.min) == (0.4, 0.1, 0.1)
    assert LowStatistic.of([]) == LowStatistic(0, None, None, None, None)


def test_nothing_is_minus_nothing(on) -> None:
    rows = [
        {"index": i, "status": "abstained", "guarantee": "confidence", "radius": 1.0, "threshold_kind": "cosine",
         "threshold": 0.9, "eps_max": 0.0, "C_lower": 0.0, "M": 1.0, "failure": 1e-3, "noise": "uniform"}
        for i in range(3)
    ]  # fmt: skip
    (line,) = smooth_table(summarise(rows, {}), rows).cells
    assert line == ("1", "0.9", "0", "0", "0", "0", "0", "3/3", "3")


def test_an_eps_without_end_is_not_below_the_others() -> None:
    rows = [
        {"index": i, "status": "ok", "guarantee": "empirical", "radius": 1.0, "threshold": 0.2, "eps_max": eps}
        for i, eps in enumerate((None, 0.3, 0.5))
    ]
    (case,) = summarise_cases(rows)
    assert (case.statistic.median, case.statistic.min, case.met) == (0.5, 0.3, 3)


# footers


def test_the_footer_says_per_what_the_failure_holds(on) -> None:
    words = ("bound", "--smooth", "uniform", "--eps", 0.01)
    assert "failure 0.001 for each sample and radius." in text(on(*words))
    assert "failure 0.001 for all 4 samples and every radius together." in text(on(*words, "--simultaneous"))
    gaussian = ("bound", "--smooth", "gaussian", "--eps", 0.01)
    assert "for each sample and sigma." in text(on(*gaussian))
    words = ("min-radius", "--eps", 0.01, "--min-cosine", 0.8)
    assert "for each sample, all of the grid together." in text(on(*words))
    assert "for each sample and case." in text(on(*words, "--search", "descend"))


def test_a_threshold_and_the_draws_that_were_used_are_shown(on) -> None:
    words = ("bound", "--smooth", "uniform", "--radius", 1, "--eps", 0.03, "--samples", 400)
    middle = np.median([float(row["cosine"]) for row in on(*words, format_="csv").rows]).round(3)
    words = (*words, "--min-cosine", middle)
    said = text(on(*words))
    assert f"at least {middle:g} (--min-cosine)" in said
    assert "Draws used: 400 for each sample." in said
    early = on(*words, "--stop-when", "certified", format_="csv").rows
    used = [int(row["samples"]) for row in early]
    assert len(set(used)) > 1
    said = text(on(*words, "--stop-when", "certified"))
    assert f"Draws used: {np.mean(used):.0f} on average, {min(used)} to {max(used)}." in said


@pytest.mark.parametrize("command", ["bound", "max-eps", "min-radius"])
def test_tables_that_are_no_certificates_speak_of_what_was_chosen_alone_and_certify_nothing(on, command: str) -> None:
    words = {
        "bound": ("bound", "--smooth", "uniform", "--eps", 0.01),
        "max-eps": ("max-eps", "--smooth", "uniform", "--min-cosine", 0.9),
        "min-radius": ("min-radius", "--radii", "0.5,1", "--eps", 0.01, "--min-cosine", 0.9),
    }[command]
    published, clt = (text(on(*words, *more)) for more in (("--rule", "published"), ("--confidence", "clt")))
    assert ("published rule" in published, "clt" in published) == (True, False)
    assert ("published rule" in clt, "clt" in clt) == (False, True)
    for said in (published, clt):
        assert "NOT a certificate" in said
        assert "certified" not in said
    assert "certified" in text(on(*words))


# grids


@pytest.mark.parametrize(
    "words",
    [("bound", "--smooth", "uniform"), ("max-eps", "--smooth", "uniform"), ("min-radius", "--radii", "1")],
    ids=str,
)
def test_a_table_says_once_what_is_averaged_and_explains_the_columns_that_it_has(on, words) -> None:
    text = " ".join(on(*words, "--min-cosine", 0.5, "--limit", 1).out.split())
    assert "saliency of the predicted class, made unit and averaged over uniform noise (radius below)" in text
    assert "saliency, unit" not in text
    assert ("C_lower/M is the share" in text) == ("C_lower/M │" in text) == (words[0] != "min-radius")


def test_gaussian_noise_has_grids_of_its_own_and_tables_of_sigma(on) -> None:
    words = ("max-eps", "--smooth", "gaussian", "--sigma", "best", "--min-cosine", 0.8)
    rows = on(*words, format_="csv").rows
    for row in rows:
        tried = dict(part.split(": ") for part in row["radii_tried"].split("; "))
        assert [float(sigma) for sigma in tried] == list(BEST_SPREADS["sigma"])
        assert float(max(tried.values(), key=float)) == pytest.approx(float(row["eps_max"]), rel=1e-5)
        assert float(tried[f"{float(row['radius']):g}"]) == pytest.approx(float(row["eps_max"]), rel=1e-5)
    said = text(on(*words))
    assert "sigma ┃" in said
    assert said.replace("sigma is the column radius of the rows.", "").count("radius") == 0
    words = ("min-radius", "--smooth", "gaussian", "--eps", 0.01, "--min-cosine", 0.8)
    assert text(on(*words)).startswith("The smallest sigma")
    for row in on(*words, format_="csv").rows:
        tried = [float(part.split(":")[0]) for part in row["radii_tried"].split("; ")]
        assert (len(tried), max(tried)) == (12, 1.0)


def test_the_best_of_a_grid_is_one_line_and_an_end_of_the_grid_is_pointed_at(on, monkeypatch) -> None:
    words = ("max-eps", "--smooth", "uniform", "--radius", "best", "--min-cosine", 0.8)
    rows = on(*words, format_="csv").rows
    at_end = sum(float(row["radius"]) == 8 for row in rows)
    said = text(on(*words))
    assert said.count("radius ┃ best") == 1
    assert ("larger end of the grid" in said) == (at_end > 0)
    monkeypatch.setitem(BEST_SPREADS, "radius", (0.001, 0.002))
    assert "4 of these are at the larger end of the grid" in text(on(*words))
    assert "try --radius 0.004,0.008" in text(on(*words))
    shared = {"status": "ok", "guarantee": "confidence", "threshold": 0.9, "radii_tried": "1: 0.2; 2: 0.3; 4: 0.1"}
    made = [{**shared, "index": i, "radius": r, "eps_max": 0.2} for i, r in enumerate((1.0, 1.0, 2.0))]
    notes = " ".join(smooth_table(summarise(made, {}), made).notes)
    assert "the best radius is 1 on 2, 2 on 1 of 3 samples" in notes
    assert (
        "2 of these are at the smaller end of the grid, and smaller ones may do better: try --radius 0.5,0.25" in notes
    )
    assert "larger end" not in notes


def test_the_smallest_radius_of_a_grid_and_an_infeasible_one_are_pointed_at(on) -> None:
    words = ("min-radius", "--eps", 0.01, "--min-cosine", 0.5)
    said = text(on(*words, "--radii", "1,2"))
    assert "4 rows have the smallest radius of the grid" in said
    assert "Where it is infeasible" not in said
    said = text(on(*words, "--radii", "0.001,2"))
    assert "smallest radius of the grid:" not in said
    said = text(on(*words, "--radii", "0.001"))
    assert "Where it is infeasible: try larger ones (--max-radius)" in said
    assert "larger" in on(*words, "--radii", "0.001", format_="csv").rows[0]["message"]


def test_kinks_are_no_concern_of_what_is_averaged_over_noise(on) -> None:
    assert "kink" not in on("bound", "--smooth", "uniform", "--eps", 0.01).err
    first_order = on("bound", "--softplus-beta", "none", "--loss-hessian", "--eps", 0.01)
    assert "a ReLU runs as it is" in first_order.said


# the rest


def test_a_configuration_refuses_a_bounding_that_bounds_nothing() -> None:
    for text_ in ("clip:1.5", "clip-at:0", "max", "unit:1"):
        with pytest.raises(UsageError, match="--bounded must be"):
            CertifyConfig(bounded=text_)


def test_the_catalogue_lists_what_smoothing_can_be_asked_for() -> None:
    found = {family: [entry["name"] for entry in entries] for family, entries in families().items()}
    assert set(found["rules"]) == {"auto", "moments", "tight", "tangent", "published"}
    assert set(found["confidence-bounds"]) == {"betting", "empirical-bernstein", "mcdiarmid", CLT}
    assert found["boundings"] == ["unit", "clip:Q", "clip-at:M", "sample-max"]
    entries = [entry for family in ("rules", "confidence-bounds", "boundings") for entry in families()[family]]
    assert all(entry["meaning"] for entry in entries)


def test_smooth_says_which_samples_have_no_map_and_why(work, tmp_path) -> None:
    with np.load(work / "data.npz") as arrays:
        images, labels = arrays["images"].astype(np.float32) / 255, arrays["labels"]
    images[1, 0, 0] = math.nan
    np.savez(tmp_path / "some.npz", images=images, labels=labels)
    words = ("smooth", work / "relu.pt", tmp_path / "some.npz", "--arch", f"{work}/archs.py:relu", "--samples", 60)
    done = attrcert(*words, "--out", tmp_path / "maps.npz")
    assert done.code == 4
    assert "no map of sample 1: non-finite" in done.said
    assert "1 of 4 samples have no map" in done.said
    assert np.load(tmp_path / "maps.npz")["index"].tolist() == [0, 2, 3]
    assert attrcert(*words, "--out", tmp_path / "again.npz", "--max-incomplete", 0.5).code == 0
