"""Tables of attacks: means, shares and areas by hand, rounded towards the weaker claim, and no sample left out of the count."""

import io
import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.reading import read_rows
from rich.console import Console

from attrcert.columns import COLUMNS, METRIC_COLUMNS, attack_columns, headlines
from attrcert.reporting.gating.promises import broken
from attrcert.reporting.summaries.areas import area
from attrcert.reporting.summaries.attacks import AttackSummary, summarise_attacks
from attrcert.reporting.summaries.bounds import summarise
from attrcert.reporting.summaries.overviews import overview
from attrcert.reporting.tables.markdown import markdown
from attrcert.reporting.tables.terminal import show
from attrcert.reporting.tables.text_table import TextTable
from attrcert.saved.records import to_csv
from attrcert.vocabulary import Guarantee


def row(index: int, **cells) -> dict:
    reached = {"T_sampled": 0.5, "T_hat_e": 1.0, "T_hat_c_deg": 10.0, "kendall": 0.8}
    bounded = {"T_e": 2.0, "T_e_corrected": 3.0, "T_c_deg": 20.0, "guarantee": "first-order"}
    compared = {"tightness": 0.5, "violated": False, "violated_corrected": False}
    case = {"index": index, "eps": 0.1, "attack": "euclidean", "status": "ok"}
    return case | reached | bounded | compared | cells


def failed(index: int, **cells) -> dict:
    return {"index": index, "eps": 0.1, "attack": "euclidean", "status": "error:range", "message": "too bright"} | cells


def tables(rows: list[dict], *, auc: bool = False) -> tuple[TextTable, ...]:
    return overview("attack", rows, summarise(rows, {"model": "some-net"}), auc=auc)


def first_line(rows: list[dict]) -> dict[str, str]:
    table = tables(rows)[0]
    return dict(zip(table.header, table.cells[0], strict=True))


def notes(rows: list[dict]) -> str:
    return " ".join(tables(rows)[0].notes)


# groups and means


def test_rows_are_grouped_by_eps_and_attack_in_the_order_in_which_they_came():
    cases = [(eps, attack) for eps in (0.2, 0.1) for attack in ("top-k", "euclidean")]
    rows = [row(i, eps=eps, attack=attack) for i in range(3) for eps, attack in cases]
    found = summarise_attacks(rows)
    assert [(part.eps, part.attack, part.samples) for part in found] == [(*case, 3) for case in cases]


def test_means_are_over_the_samples_of_the_group_alone():
    rows = [
        row(0, T_sampled=0.25, T_hat_e=1.0, T_e=4.0, T_e_corrected=5.0, tightness=0.25, T_hat_c_deg=8.0, kendall=0.5),
        row(1, T_sampled=0.75, T_hat_e=2.0, T_e=2.0, T_e_corrected=8.0, tightness=1.0, T_hat_c_deg=9.0, kendall=0.0),
        row(0, attack="cosine", T_hat_e=100.0, T_e=100.0),
        row(0, eps=0.2, T_hat_e=1000.0, T_e=1000.0),
    ]
    found = summarise_attacks(rows)[0]
    assert (found.T_sampled, found.T_hat_e, found.T_e.mean, found.T_e_corrected.mean) == (0.5, 1.5, 3.0, 6.5)
    assert (found.tightness, found.T_hat_c_deg, found.T_c_deg) == (0.625, 8.5, 20.0)
    assert found.metrics == {"kendall": 0.25}


def test_a_figure_that_a_sample_lacks_is_not_counted_as_zero():
    found = summarise_attacks([row(0, kendall=None, T_c_deg=None), row(1, kendall=0.4, T_c_deg=30.0)])[0]
    assert (found.metrics["kendall"], found.T_c_deg, found.vacuous) == (0.4, 30.0, 1)


def test_failed_samples_are_counted_and_have_no_figures():
    found = summarise_attacks([row(0, T_hat_e=1.0), failed(1), row(2, T_hat_e=3.0)])[0]
    assert (found.samples, found.T_hat_e, found.T_e.compared, found.vacuous) == (3, 2.0, 2, 0)
    assert "1 error:range" in notes([row(0), failed(1), row(2)])


def test_misclassified_samples_are_in_the_means_and_counted():
    rows = [row(0, T_hat_e=1.0), row(1, T_hat_e=3.0, correct=False)]
    assert summarise_attacks(rows)[0].T_hat_e == 2.0
    assert "1 misclassified" in notes(rows)


def test_samples_whose_label_always_changed_are_in_the_means_with_zero_and_counted_per_attack():
    flipped = {"status": "label-changed", "T_hat_e": 0.0, "tightness": 0.0}
    rows = [row(0, T_hat_e=3.0), row(1, **flipped), row(0, attack="top-k"), row(1, attack="top-k")]
    first, second = summarise_attacks(rows)
    assert (first.T_hat_e, first.label_changed, second.label_changed) == (1.5, 1, 0)
    assert "euclidean: every iterate of 1 samples changed the label" in notes(rows)
    assert "top-k: every iterate" not in notes(rows)


# outside


def test_exceeded_bounds_are_counted_for_each_bound_separately():
    rows = [
        row(0, violated=True, violated_corrected=True, T_e_ball=9.0, violated_ball=False),
        row(1, violated=True, violated_corrected=False, T_e_ball=9.0, violated_ball=True),
        row(2, violated=True, violated_corrected=False, T_e_ball=9.0, violated_ball=False),
        row(3, violated=False, violated_corrected=False, T_e_ball=9.0, violated_ball=False),
    ]
    found = summarise_attacks(rows)[0]
    assert [(part.exceeded, part.compared) for part in (found.T_e, found.T_e_corrected, found.T_e_ball)] == [
        (3, 4),
        (1, 4),
        (1, 4),
    ]
    line = first_line(rows)
    assert line["T_e"].endswith("[75%]")
    assert line["T_e_corrected"].endswith("[25%]")
    assert line["T_e_ball"].endswith("[25%]")


def test_the_ball_has_a_column_only_where_it_was_asked_for():
    assert "T_e_ball" not in first_line([row(0)])


@pytest.mark.parametrize(("exceeded", "wrong"), [(1, "[0%]"), (299, "[100%]")])
def test_a_share_is_never_rounded_to_none_or_all(exceeded, wrong):
    rows = [row(i, violated=i < exceeded) for i in range(300)]
    assert wrong not in first_line(rows)["T_e"]


def test_without_a_comparison_there_is_no_share_and_the_reason_is_said():
    apart = dict.fromkeys(("tightness", "violated", "violated_corrected"))
    line = first_line([row(0, **apart), row(1, **apart)])
    assert (line["T_e"], line["T_e_corrected"], line["tightness"]) == ("2", "3", "-")
    assert "they are not compared" in notes([row(0, **apart)])
    assert "they are not compared" not in notes([row(0)])


def test_failed_samples_alone_are_not_said_to_be_measured_on_another_model():
    assert "another model" not in notes([failed(0), failed(1)])


# rounding


def test_what_was_reached_is_rounded_down_and_what_was_bounded_up():
    figures = {"T_sampled": 0.123456, "T_hat_e": 0.234567, "T_e": 0.345611, "T_e_corrected": 0.456711}
    line = first_line([row(0, **figures, tightness=0.678678, T_hat_c_deg=12.39, T_c_deg=45.61)])
    assert (line["T_sampled"], line["T_hat_e"], line["tightness"]) == ("0.1234", "0.2345", "0.6786")
    assert (line["T_e"], line["T_e_corrected"]) == ("0.3457 [0%]", "0.4568 [0%]")
    assert (line["T_hat_c_deg"], line["T_c_deg"]) == ("12.3°", "45.7°")


@given(st.floats(1e-9, 1e9), st.floats(1e-9, 1e9))
def test_no_printed_figure_claims_more_than_the_rows(reached, bounded):
    line = first_line([row(0, T_hat_e=reached, T_e=bounded)])
    assert Decimal(line["T_hat_e"]) <= Decimal(reached)
    assert Decimal(line["T_e"].split()[0]) >= Decimal(bounded)


# areas


def test_the_area_is_the_trapezoid_rule_in_any_order():
    assert area([(0.5, 4.0), (0.0, 1.0), (0.25, 2.0)]) == 0.25 * 1.5 + 0.25 * 3.0


def test_the_area_of_one_point_is_zero():
    assert area([(0.5, 4.0)]) == 0


def test_areas_are_those_of_each_attribution():
    rows = [
        row(0, attribution=name, eps=eps, T_hat_e=height * eps)
        for name, height in (("saliency", 2.0), ("integrated-gradients(steps=3)", 4.0))
        for eps in (1.0, 3.0)
    ]
    lines = {line[:3]: line[3] for line in tables(rows, auc=True)[-1].cells}
    assert lines["saliency", "euclidean", "T_hat_e"] == "8"
    assert lines["integrated-gradients", "euclidean", "T_hat_e"] == "16"


def areas(rows: list[dict]) -> dict[tuple[str, str], tuple[str, str]]:
    table = tables(rows, auc=True)[-1]
    assert table.header[:3] == ("attack", "figure", "area")
    return {(attack, figure): (whole, mean) for attack, figure, whole, mean in table.cells}


def test_areas_are_under_the_means_of_each_attack_and_figure():
    rows = [
        row(i, eps=eps, attack=attack, T_hat_e=(2 * i + 1) * eps * scale, kendall=1 - eps, ig_T_hat_e=4 * eps)
        for i in range(2)
        for eps in (0.5, 0.25, 1.0)
        for attack, scale in (("euclidean", 1.0), ("top-k", 2.0))
    ]
    found = areas(rows)
    assert {attack for attack, _ in found} == {"euclidean", "top-k"}
    # means 2 eps at .25, .5, 1: .25 * .75 + .5 * 1.5, over a range of .75
    assert found["euclidean", "T_hat_e"] == ("0.9375", "1.25")
    assert found["top-k", "T_hat_e"] == ("1.875", "2.5")
    assert found["euclidean", "kendall"] == ("0.2812", "0.375")
    assert found["euclidean", "ig_T_hat_e"] == ("1.875", "2.5")


def test_a_constant_figure_is_its_own_mean_height_even_where_it_is_missing_at_one_eps():
    rows = [row(0, eps=eps, kendall=0.5 if eps < 0.4 else None) for eps in (0.1, 0.2, 0.4)]
    assert areas(rows)["euclidean", "kendall"][1] == "0.5"


def test_areas_are_shown_only_where_asked_for():
    rows = [row(0, eps=0.1), row(0, eps=0.2)]
    assert len(tables(rows, auc=True)) == len(tables(rows)) + 1


# the other tables


def test_metrics_have_a_table_of_those_that_were_measured():
    rows = [row(0, kendall=0.25, top_k=0.5), row(1, kendall=0.75, top_k=None)]
    table = tables(rows)[1]
    assert table.header == ("eps", "attack", "top_k", "kendall")
    assert table.cells == (("0.1", "euclidean", "0.5", "0.5"),)


def test_without_other_metrics_there_is_no_table_of_them():
    assert len(tables([row(0, kendall=None)])) == 1


def test_transferred_figures_have_their_own_table_under_their_columns_names():
    table = tables([row(0, ig_T_hat_e=1.0, ig_kendall=0.5), row(1, ig_T_hat_e=2.0, ig_kendall=0.5)])[-1]
    assert table.header == ("eps", "attack", "ig_T_hat_e", "ig_kendall")
    assert table.cells == (("0.1", "euclidean", "1.5", "0.5"),)


@pytest.mark.parametrize("metric", [name for name in METRIC_COLUMNS if name not in ("euclidean", "degrees")])
def test_every_metric_reaches_the_summary_under_its_name(metric):
    assert summarise_attacks([row(0, **{"kendall": None, METRIC_COLUMNS[metric].name: 0.125})])[0].metrics == {
        metric: 0.125
    }


def texts(rows: list[dict]) -> dict[str, str]:
    stream = io.StringIO()
    for table in tables(rows):
        show(table, Console(file=stream, width=120, highlight=False))
    return {"table": stream.getvalue(), "markdown": "\n".join(markdown(table) for table in tables(rows))}


@pytest.mark.parametrize("format_", ["table", "markdown"])
def test_every_text_tells_empirical_from_first_order_and_claims_no_proof(format_):
    said = " ".join(texts([row(0), row(1)])[format_].split())
    assert "model: some-net" in said
    assert "empirical" in said
    assert "attacks can exceed" in said
    assert "proved" not in said
    assert "certified" not in said


@pytest.mark.parametrize("format_", ["table", "markdown"])
def test_no_text_has_nan_or_none(format_):
    said = texts([failed(0), row(1, T_c_deg=None, tightness=None)])[format_].lower()
    assert "nan" not in said
    assert "none" not in said


def test_summaries_can_be_written_as_json():
    (found,) = json.loads(json.dumps([part.as_json() for part in summarise_attacks([row(0), row(1, violated=True)])]))
    assert found["T_e"] == {"mean": 2.0, "exceeded": 1, "compared": 2}
    figures = {column.name for column in headlines("attack")}
    assert {"T_sampled", "T_hat_e", "T_e", "T_e_ball", "T_proved", "angle_proved_deg", "T_c_deg"} <= figures
    assert set(found) == {*figures, *AttackSummary.__dataclass_fields__} - {"of", "bounds", "figures"}


def test_rows_read_back_from_a_file_give_the_same_summary(tmp_path):
    columns = attack_columns(("ig",))
    rows = [row(0, ig_T_hat_e=0.1), row(1, violated=True, T_c_deg=None), failed(2)]
    (tmp_path / "rows.csv").write_text(to_csv(rows, columns, header=True))
    assert summarise_attacks(read_rows(tmp_path / "rows.csv", columns)) == summarise_attacks(rows)


# promises


@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_only_proved_and_confidence_bounds_can_be_broken(guarantee):
    flag = "violated_proved" if guarantee == "proved" else "violated"
    rows = [row(0, guarantee=str(guarantee), **{flag: True}), row(1, guarantee=str(guarantee))]
    assert broken(rows) == (rows[:1] if guarantee in ("proved", "confidence") else [])


def test_a_first_order_figure_beside_a_proved_one_may_be_exceeded():
    assert broken([row(0, violated=True, violated_proved=False, guarantee="proved")]) == []


@pytest.mark.parametrize("violated", [False, None])
def test_a_bound_that_holds_or_was_not_compared_is_not_broken(violated):
    assert broken([row(0, violated_proved=violated, violated_corrected=True, guarantee="proved")]) == []


def test_failed_samples_break_nothing():
    assert broken([failed(0), failed(1, guarantee="proved")]) == []


def test_a_broken_promise_is_seen_in_rows_read_back_from_a_file(tmp_path):
    rows = [row(0, violated_proved=True, guarantee="proved"), row(1, violated_proved=False, guarantee="proved")]
    (tmp_path / "rows.csv").write_text(to_csv(rows, COLUMNS["attack"], header=True))
    assert [found["index"] for found in broken(read_rows(tmp_path / "rows.csv", COLUMNS["attack"]))] == [0]
