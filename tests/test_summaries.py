"""Figures in tables: the right statistics, rounded towards the weaker claim, and never called more than they are."""

import io
import json
import math
import re
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from attrcert.columns import headlines
from attrcert.reporting.summaries.bounds import Summary, bound_tables, summarise
from attrcert.reporting.summaries.statistics import Statistic
from attrcert.reporting.tables.markdown import markdown
from attrcert.reporting.tables.terminal import show
from attrcert.reporting.tables.text_table import TextTable, plain
from attrcert.vocabulary import Guarantee, Status, round_down, round_up

finite = st.floats(allow_nan=False, allow_infinity=False)
figures = st.lists(st.floats(0, 1e6), min_size=1, max_size=50)


def row(index: int, **cells) -> dict:
    figures = {"T_e": 2.0, "T_e_attained": 1.9, "c": 1.5, "T_e_corrected": 3.0, "T_c_deg": 20.0}
    return {"index": index, "eps": 0.1, "status": "ok", "label_kept": "both"} | figures | cells


def bound_table(found: Summary) -> TextTable:
    (table,) = bound_tables(found)
    return table


# rounding


@given(finite, st.integers(1, 6))
def test_rounding_goes_outwards(x, digits):
    assert Decimal(round_down(x, digits)) <= Decimal(x) <= Decimal(round_up(x, digits))


@given(finite, st.integers(1, 6))
def test_rounding_is_off_by_less_than_a_unit_in_the_last_digit(x, digits):
    exact = Decimal(x)
    unit = Decimal(1).scaleb(exact.adjusted() - digits + 1) if exact else Decimal(1)
    assert Decimal(round_up(x, digits)) - exact < unit
    assert exact - Decimal(round_down(x, digits)) < unit


@pytest.mark.parametrize(
    ("x", "up", "down"),
    [  # binary fractions, so that the float is the decimal number
        (1.234375, "1.24", "1.23"),
        (-1.234375, "-1.23", "-1.24"),
        (9.99609375, "10.0", "9.99"),
        (123456.0, "124000", "123000"),
        (0.0, "0", "0"),
        (2.0**-20, "9.54e-7", "9.53e-7"),
        (2.0**40, "1.10e+12", "1.09e+12"),
    ],
)
def test_rounded_numbers_read_as_a_person_writes_them(x, up, down):
    assert (round_up(x), round_down(x)) == (up, down)


def test_what_is_not_finite_is_not_dressed_up():
    assert round_up(math.inf) == "inf"
    assert round_down(-math.inf) == "-inf"


# statistics


@given(figures)
def test_statistics_are_numpys(values):
    found = Statistic.of(values)
    assert found.count == len(values)
    assert found.mean == pytest.approx(np.mean(values), rel=1e-12)
    assert found.median == pytest.approx(np.median(values), rel=1e-12)
    assert found.p95 == np.quantile(values, 0.95, method="inverted_cdf")
    assert found.max == max(values)


@given(figures, st.integers(0, 60))
def test_samples_beyond_every_value_count_in_the_percentiles(values, beyond):
    found = Statistic.of(values, beyond=beyond)
    all_of_them = [*values, *[math.inf] * beyond]
    middle = float(np.median(all_of_them))
    assert found.median == (None if middle == math.inf else pytest.approx(middle, rel=1e-12))
    for ours, q in ((found.p95, 0.95), (found.max, 1.0)):
        theirs = float(np.quantile(all_of_them, q, method="inverted_cdf"))
        assert ours == (None if theirs == math.inf else theirs)


def test_statistics_by_hand():
    found = Statistic.of([float(i) for i in range(1, 21)])
    assert (found.count, found.mean, found.median, found.p95, found.max) == (20, 10.5, 10.5, 19.0, 20.0)


def test_half_vacuous_samples_leave_no_median_and_fewer_leave_one():
    found = Statistic.of([1.0, 2.0], beyond=2)
    assert (found.count, found.median, found.p95, found.max) == (2, None, None, None)
    assert Statistic.of([1.0, 2.0], beyond=1).median == 2.0


def test_no_samples_give_no_figures():
    assert Statistic.of([]) == Statistic(0, None, None, None, None)


# summaries


def test_figures_are_grouped_by_eps_and_errors_are_counted_but_not_averaged():
    rows = [
        row(0, T_e=1.0),
        row(0, T_e=10.0, eps=0.2),
        row(1, T_e=3.0),
        row(1, T_e=30.0, eps=0.2, status="vacuous", T_c_deg=None),
        {"index": 2, "eps": 0.1, "status": "error:unreadable"},
        {"index": 2, "eps": 0.2, "status": "error:unreadable"},
    ]
    found = summarise(rows, {})
    small, large = found.per_eps
    assert (small.eps, small.T_e.mean, small.T_e.count, small.samples) == (0.1, 2.0, 2, 3)
    assert (large.eps, large.T_e.mean, large.T_c_deg.count) == (0.2, 20.0, 1)
    assert small.status == {"ok": 2, "error:unreadable": 1}
    assert found.status == {"ok": 1, "vacuous": 1, "error:unreadable": 1}
    assert (found.samples, found.incomplete) == (3, 1)


def test_vacuous_samples_lie_beyond_the_percentiles_of_the_angle():
    rows = [row(0), row(1, T_c_deg=40.0), row(2, status="vacuous", T_c_deg=None)]
    (at_eps,) = summarise(rows, {}).per_eps
    assert (at_eps.T_c_deg.median, at_eps.T_c_deg.p95, at_eps.T_c_deg.max) == (40.0, None, None)
    (line,) = [line for line in bound_table(summarise(rows, {})).cells if line[1] == "T_c_deg"]
    assert line[5:7] == ("-", "-")


@pytest.mark.parametrize(
    ("statuses", "worst"),
    [
        (("ok", "vacuous"), "vacuous"),
        (("everywhere", "ok"), "ok"),
        (("not-converged", "vacuous"), "not-converged"),
        (("error:memory", "ok"), "error:memory"),
    ],
)
def test_a_sample_counts_once_with_its_worst_status(statuses, worst):
    rows = [row(0, status=status, eps=eps) for eps, status in enumerate(statuses, start=1)]
    assert summarise(rows, {}).status == {worst: 1}


@pytest.mark.parametrize("status", [*Status, "error:shape"])
def test_only_errors_and_unconverged_samples_are_incomplete(status):
    incomplete = summarise([row(0, status=str(status))], {}).incomplete
    assert incomplete == (str(status) in ("not-converged", "error:shape"))


def test_a_summary_of_errors_alone_has_dashes_for_figures():
    rows = [{"index": i, "eps": 0.1, "status": "error:range"} for i in range(3)]
    table = bound_table(summarise(rows, {}))
    assert {cell for line in table.cells for cell in line[3:7]} == {"-"}
    assert any("3 error:range" in note for note in table.notes)


# what is printed


def on_terminal(table, width: int) -> str:
    stream = io.StringIO()
    show(table, Console(file=stream, width=width, highlight=False))
    return stream.getvalue()


FORMATS = {"table": lambda table: on_terminal(table, 100), "markdown": markdown}
KINDS = {
    "l2": [row(0), row(1, T_e=4.0)],
    "linf": [row(0, linf_method="scaled"), row(1, linf_method="row-sums")],
    "vacuous": [row(0, status="vacuous", T_c_deg=None), row(1)],
    "errors": [{"index": 0, "eps": 0.1, "status": "error:range"}, row(1)],
    "unconverged": [row(0, status="not-converged")],
}


@pytest.mark.parametrize("text", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("rows", KINDS.values(), ids=KINDS)
def test_every_text_says_that_the_figures_are_first_order_estimates(rows, text):
    said = " ".join(text(bound_table(summarise(rows, {"model": "m"}))).split())
    assert "first-order" in said
    assert "estimate" in said
    assert "attacks can exceed" in said
    assert "not certificates" in said
    assert not re.search(r"certified|guaranteed|proved|proven", said, re.IGNORECASE)


@pytest.mark.parametrize("text", FORMATS.values(), ids=FORMATS)
def test_every_figures_line_names_its_guarantee(text):
    lines = text(bound_table(summarise(KINDS["linf"], {}))).splitlines()
    for figure, guarantee in (("T_e", "first-order"), ("T_e_corrected", "corrected"), ("T_c_deg", "first-order")):
        (line,) = [line for line in lines if re.search(rf"[│|]\s+{re.escape(figure)}\s+[│|]", line)]
        assert guarantee in line


@pytest.mark.parametrize("text", FORMATS.values(), ids=FORMATS)
def test_every_text_shows_facts_counts_and_vacuous_samples(text):
    said = " ".join(text(bound_table(summarise(KINDS["vacuous"], {"model": "some-net", "gone": None}))).split())
    assert "model: some-net" in said
    assert "gone" not in said
    assert "1 ok" in said
    assert "1 vacuous" in said
    assert "no angle follows" in said


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=9))
def test_printed_figures_never_claim_less_than_the_rows(values):
    rows = [row(i, T_e=value, T_e_corrected=2 * value) for i, value in enumerate(values)]
    cells = {line[1]: line for line in bound_table(summarise(rows, {})).cells}
    exact = Statistic.of(values)
    for place, figure in enumerate((exact.mean, exact.median, exact.p95, exact.max), start=3):
        assert Decimal(cells["T_e"][place]) >= Decimal(figure)
        assert Decimal(cells["T_e_corrected"][place]) >= Decimal(figure)


@given(st.floats(0, 180))
def test_printed_angles_never_claim_less_than_the_rows(angle):
    cells = {line[1]: line for line in bound_table(summarise([row(0, T_c_deg=angle)], {})).cells}
    printed = Decimal(cells["T_c_deg"][6].rstrip("°"))
    assert Decimal(angle) <= printed < Decimal(angle) + Decimal("0.1000001")


@pytest.mark.parametrize("width", [40, 46, 50, 80])
def test_cells_of_several_words_are_whole_however_narrow_the_terminal_is(width):
    rows = [
        {**row(i), "attribution": name, **({"T_c_deg": None} if i else {})}
        for name in ("integrated-gradients", "saliency")
        for i in range(2)
    ]
    shown = on_terminal(bound_tables(summarise(rows, {}))[0], width)
    assert shown.count("integrated-gradients") >= 1
    assert shown.count("20.0° (n=1)") == 2


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize(("T_e", "printed"), [(12345.678, "12350"), (1.23456e-4, "0.0001235")])
def test_a_narrow_terminal_cuts_no_number(width, T_e, printed):
    rows = [row(0, T_e=T_e, T_e_corrected=T_e, T_e_attained=T_e, eps=0.031372, linf_method="scaled")]
    shown = on_terminal(bound_table(summarise(rows, {})), width)
    assert "…" not in shown
    assert shown.count(printed) == 8  # mean, median, p95 and max of T_e and of T_e_corrected


def wide(lines: int) -> TextTable:
    header = ("eps", "attack", *(f"figure_{place}" for place in range(9)))
    cells = [(str(line), "top-k", *(f"{line}.{place:04}" for place in range(9))) for line in range(lines)]
    return TextTable("A wide table", header, tuple(cells), keys=2)


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("lines", [1, 4, 9])
def test_a_wide_table_fits_the_terminal_and_loses_no_cell(lines, width):
    table = wide(lines)
    shown = on_terminal(table, width).splitlines()
    assert max(map(len, shown)) <= width
    words = " ".join(shown).split()
    assert all(words.count(cell) == 1 for row in (table.header, *table.cells) for cell in row[2:])


def test_a_key_that_is_left_out_is_the_one_before_where_lines_stand_as_columns():
    table = TextTable("", ("eps", "figure", "mean"), (("0.1", "T_e", "1"), ("", "T_c_deg", "2")), keys=2)
    assert table.as_columns().header == ("eps", "0.1", "0.1")
    assert table.as_columns().cells == (("figure", "T_e", "T_c_deg"), ("mean", "1", "2"))


@pytest.mark.parametrize("name", [column.name for column in headlines("bound")])
def test_a_sample_that_nothing_bounds_lies_beyond_every_percentile(name):
    (found,) = summarise([row(0, **{name: 1.0}), row(1, T_e_attained=None, **{name: None})], {}).per_eps
    assert getattr(found, name) == Statistic(count=1, mean=1.0, median=None, p95=None, max=None)


def test_a_summary_can_be_written_as_json_and_has_the_same_figures():
    rows = KINDS["linf"]
    found = json.loads(json.dumps(summarise(rows, {"model": "m"}).as_json()))
    assert found["per_eps"][0]["winners"] == {"scaled": 1, "row-sums": 1}
    assert found["per_eps"][0]["T_e"]["mean"] == 2.0


def test_looseness_compares_the_bound_with_what_was_reached():
    found = summarise([row(0, T_e=3.0, T_e_attained=2.0, linf_method="scaled")], {})
    assert found.per_eps[0].looseness.mean == 1.5


def test_samples_whose_label_is_lost_are_counted():
    found = summarise([row(0, label_kept="none"), row(1, label_kept="plus")], {})
    assert found.per_eps[0].label_lost == 1
    assert any("change the label of 1 samples" in note for note in bound_table(found).notes)


@pytest.mark.parametrize("guarantee", [Guarantee.FIRST_ORDER, Guarantee.CORRECTED])
def test_weak_guarantees_call_themselves_estimates(guarantee):
    assert "estimate" in guarantee.meaning


def test_a_share_that_is_nearly_whole_does_not_look_whole():
    assert [plain(value, 4) for value in (1.0, 0.99998, 0.9987, 1.00001)] == ["1", "0.99998", "0.9987", "1"]
