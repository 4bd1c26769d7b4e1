"""What a run found, in sentences: the right half of the samples, rounded towards the weaker claim, and what it rests on."""

import json

import pytest
from reference.program import attrcert

from attrcert.reporting.summaries.sentences import sentences


def row(index: int, **cells) -> dict:
    return {"index": index, "status": "ok", "guarantee": "first-order", "attribution": "saliency", "norm": "l2"} | cells


def bounded(*angles: float | None, **cells) -> list[dict]:
    return [row(i, eps=0.1, T_e=1.0, T_c_deg=angle, **cells) for i, angle in enumerate(angles)]


def certified(*cosines: float | None, **cells) -> list[dict]:
    about = {"guarantee": "confidence", "eps": 0.1, "radius": 2.0, "noise": "uniform", "failure": 0.001}
    return [row(i, cosine=cosine, **{**about, **cells}) for i, cosine in enumerate(cosines)]


def only(rows: list[dict], command: str, **identity) -> str:
    (said,) = sentences(rows, command, identity)
    return said


def test_an_estimate_is_rounded_up_and_never_called_more():
    said = only(bounded(10.0, 14.01, 70.0), "bound")
    assert "the saliency map turns by no more than 14.1 degrees within l2 0.1 on at least half of the 3 samples" in said
    assert said.startswith("By first-order estimates, which attacks can exceed,")


def test_that_an_estimate_is_too_low_is_said_before_the_estimate():
    rows = [
        {**one, "T_e": 1.0, "T_e_attained": 0.9, "c": c} for one, c in zip(bounded(1.0, 2.0), (1.0, 1.3), strict=True)
    ]
    said = only(rows, "bound")
    assert said.startswith("T_e is too low on 1 of 2 samples: there")
    assert "By first-order estimates" in said


@pytest.mark.parametrize("angles", [(10.0, None, None), (None,)])
def test_no_angle_is_named_where_half_of_the_samples_have_none(angles):
    said = only(bounded(*angles), "bound")
    assert "do not limit" in said
    assert f"{angles.count(None)} of {len(angles)} samples" in said


def test_what_is_proved_is_said_to_be_proved_and_estimates_stand_in_where_nothing_is():
    assert only(bounded(9.0, guarantee="proved", angle_proved_deg=12.0), "bound").startswith("It is proved that")
    nothing, estimate = sentences(bounded(9.0, guarantee="proved"), "bound", {})
    assert nothing.startswith("Nothing is proved")
    assert estimate.startswith("By first-order estimates")


def test_of_several_attacks_the_best_on_each_sample_counts_rounded_down():
    angles = {"euclidean": (16.09, 3.0, 20.0), "top-k": (2.0, 30.0, 1.0)}
    rows = [
        row(i, eps=0.5, attack=attack, T_hat_c_deg=angle, violated=angle == 30.0)
        for attack, of in angles.items()
        for i, angle in enumerate(of)
    ]
    said = only(rows, "attack")
    assert "turned the saliency map by at least 20 degrees on half of the 3 samples" in said
    assert "exceeded the first-order bound T_e on 1 of 3" in said
    assert "at least 16.0 degrees" in only([one for one in rows if one["index"] == 0], "attack")


def test_an_attack_that_measured_no_angle_says_how_far_it_moved_the_map():
    assert "by at least 0.123 (T_hat_e)" in only([row(0, eps=0.5, attack="random", T_hat_e=0.12399)], "attack")


def test_the_eps_of_a_threshold_is_rounded_down_and_empty_means_any():
    about = {"threshold_kind": "angle", "threshold": 20.0}
    rows = [row(i, eps_max=eps, **about) for i, eps in enumerate((0.1379, 0.2, 0.01))]
    assert "within l2 0.137 turns the saliency map by more than 20 degrees on at least half" in only(rows, "max-eps")
    assert "perturbation of any size turns" in only([row(0, **about)], "max-eps")


def test_a_certificate_says_with_what_confidence_and_for_how_many_together():
    said = only(certified(0.91, 0.9999, 0.2), "certify")
    assert said.startswith("The smoothed saliency map of half of the 3 samples keeps a cosine of 0.910 within l2 0.1")
    assert said.endswith("(radius 2, confidence 99.9 % for each).")
    assert "for all together" in only(certified(0.91), "certify", simultaneous=True)


def test_what_no_certificate_allows_is_not_called_certified():
    assert "Nothing is certified" in only(certified(None, None, 0.9), "certify")
    said = only(certified(0.9, guarantee="empirical"), "certify")
    assert said.startswith("By a rule that is no certificate,")
    assert "confidence" not in said


def test_failed_samples_are_left_out_and_told():
    failed = [{"index": 7, "status": "error:range"}]
    first, second = sentences([*bounded(9.0), *failed], "bound", {})
    assert first.endswith("within l2 0.1 on the sample.")
    assert second == "1 of the 2 samples could not be used."
    failed[0]["message"] = "its box leaves\nthe image"
    told = r"1 of the 2 samples could not be used (sample 7: its box leaves\nthe image)."
    assert sentences([*bounded(9.0), *failed], "bound", {})[1] == told
    assert "No sample could be used" in sentences(failed, "bound", {})[0]


@pytest.mark.parametrize("shape", ["table", "markdown", "json"])
def test_a_run_ends_with_the_sentence_in_every_text(shape):
    done = attrcert("bound", "--limit", 2, "--format", shape)
    said = json.loads(done.out)["sentences"] if shape == "json" else [" ".join(done.out.split())]
    assert said[-1].endswith("by no more than 14.1 degrees within l2 0.1 on at least half of the 2 samples."), done.out


@pytest.mark.parametrize(("c", "beyond"), [(1.0, ""), (1.04, ""), (1.06, "too low on 1 of 2")])
def test_an_estimate_that_the_run_itself_saw_exceeded_says_so(c, beyond):
    rows = [one | {"T_e_attained": 0.95, "c": each} for one, each in zip(bounded(9.0, 9.0), (1.0, c), strict=True)]
    said = only(rows, "bound")
    assert beyond in said
    assert ("too low" in said) == bool(beyond)


def test_what_the_run_saw_of_perturbations_beyond_the_estimate_is_a_warning():
    words = ("bound", "fashion-adversarial", "--limit", 4, "--eps", 0.1)
    done = attrcert(*words)
    assert "warning: T_e is too low on 2 of 4 samples" in done.said
    assert "T_e is too low on 2 of 4 samples: there" in done.shown
    assert attrcert(*words, "--quiet").err == ""
