"""Rules of a gate are read as they are written, and what cannot be read is told with its place."""

import re
import string
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attrcert.reporting.gating.rules import Comparison, RuleError, parse_allowance, parse_rule
from attrcert.vocabulary import did_you_mean

SIGNS = ("<=", ">=", "<", ">", "==", "!=")
STATISTICS = ("mean", "median", "min", "max", "std", "p0", "p5", "p95", "p99.9", "p100")
THRESHOLDS = ("min_cosine", "max_angle", "max_deviation", "max_cosine_distance")
SOUP = (
    *STATISTICS, *SIGNS, *THRESHOLDS, "=", "fraction", "count", "(", ")", "[", "]", ",", "and", "or", "T_c_deg", "status",
    "violated", "vacuous", '"vacuous"', "'top-k'", '"', "'", "eps", "0.1", "8/255", "1/0", "1%", "+5%", "-0.5", "1e999", ".5",
    "30.", "%", "/", "p", "p101", "p-1", "p9.9.9", "error:shape", "é", "٣", "\n", "\t", "\x00", "\\", "{", "#", "7" * 5000,
)  # fmt: skip

soup = st.lists(st.sampled_from(SOUP), max_size=16).flatmap(
    lambda words: st.sampled_from(["", " "]).map(lambda blank: blank.join(words))
)
reserved = {"and", "or", *THRESHOLDS}
columns = st.text(string.ascii_letters + "_", min_size=1, max_size=8).filter(
    lambda name: name not in reserved and not name.endswith("_deg")  # degrees have no percentage
)
words = st.text(string.ascii_letters, min_size=1, max_size=8)
numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(lambda x: (repr(x), x)),
    st.tuples(st.integers(-999, 999), st.integers(1, 999)).map(lambda two: (f"{two[0]}/{two[1]}", two[0] / two[1])),
    st.integers(0, 2000).map(lambda k: (f"{k // 10}.{k % 10}%", k / 1000)),
)
values = st.one_of(
    numbers,
    words.map(lambda word: (word, word)),
    st.text(string.ascii_letters + " ,()[]<=", min_size=1).map(lambda text: (f'"{text}"', text)),
)
comparisons = st.tuples(columns, st.sampled_from(SIGNS), values)


def told(term: Comparison) -> tuple:
    """A comparison as the strategies write it."""
    assert term.value is not None
    return term.column, term.comparator, term.value.text if term.value.number is None else term.value.number


@pytest.mark.parametrize(
    ("text", "statistic", "column", "comparator", "limit"),
    [
        ("p95(T_c_deg) <= 30", "p95", "T_c_deg", "<=", 30),
        ("mean(T_hat_e) < 0.5", "mean", "T_hat_e", "<", 0.5),
        ("max(tightness) <= 1", "max", "tightness", "<=", 1),
        ("p99.9(T_e)>=1e-3", "p99.9", "T_e", ">=", 0.001),
        ("std( cosine )\n!= .5", "std", "cosine", "!=", 0.5),
        ("median(eps_max) > 8/255", "median", "eps_max", ">", 8 / 255),
        ("min(kendall)==-1", "min", "kendall", "==", -1),
        ("max(top_k) = 50%", "max", "top_k", "==", 0.5),
    ],
)
def test_a_statistic_of_a_column_is_read(text, statistic, column, comparator, limit):
    rule = parse_rule(text)
    assert (rule.figure.statistic, rule.figure.column) == (statistic, column)
    assert (rule.comparator, rule.limit) == (comparator, limit)
    assert rule.figure.condition == rule.figure.filters == ()


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ('fraction(status == "vacuous") <= 0.01', [[("status", "==", "vacuous")]]),
        ("fraction(status = vacuous) <= 1%", [[("status", "==", "vacuous")]]),
        ("count(status != 'error:shape') >= 100", [[("status", "!=", "error:shape")]]),
        (
            "count(T_e > 1 and eps < 0.1 or attack == top-k) == 0",
            [[("T_e", ">", 1), ("eps", "<", 0.1)], [("attack", "==", "top-k")]],
        ),
    ],
)
def test_a_condition_is_read_as_any_of_all_of(text, condition):
    figure = parse_rule(text).figure
    assert figure.column is None
    assert [[told(term) for term in part] for part in figure.condition] == condition


def test_a_bare_column_is_a_condition():
    ((term,),) = parse_rule("count(violated) == 0").figure.condition
    assert (term.column, term.value) == ("violated", None)


def test_filters_in_brackets_are_read_one_by_one():
    figure = parse_rule("mean(T_e[eps=8/255, norm=linf,attack = top-k, status != vacuous]) <= 1").figure
    assert figure.column == "T_e"
    assert [told(term) for term in figure.filters] == [
        ("eps", "==", 8 / 255),
        ("norm", "==", "linf"),
        ("attack", "==", "top-k"),
        ("status", "!=", "vacuous"),
    ]


def test_a_condition_can_be_filtered():
    figure = parse_rule("fraction(status == vacuous [eps=0.1]) <= 1%").figure
    assert [told(term) for term in figure.filters] == [("eps", "==", 0.1)]
    assert [told(term) for part in figure.condition for term in part] == [("status", "==", "vacuous")]


@pytest.mark.parametrize(
    ("option", "kind"),
    [
        ("min_cosine", "cosine"),
        ("max_angle", "angle"),
        ("max_deviation", "deviation"),
        ("max_cosine_distance", "cosine-distance"),
    ],
)
def test_an_options_name_stands_for_its_threshold(option, kind):
    figure = parse_rule(f"mean(eps_max[{option}=0.9]) >= 0.02").figure
    assert [told(term) for term in figure.filters] == [("threshold_kind", "==", kind), ("threshold", "==", 0.9)]


@pytest.mark.parametrize(
    "marked",
    [
        "^",
        "^mode(T_e) <= 1",
        "^p101(T_e) <= 1",
        "^p(T_e) <= 1",
        "mean^[T_e] <= 1",
        "mean(^) <= 1",
        "mean(^0.5) <= 1",
        "mean(T_e ^<= 1",
        "mean(T_e) ^30",
        "mean(T_e) <= ^thirty",
        "mean(T_e) <=^",
        "mean(T_e) <= 30 ^degrees",
        "mean(T_e) <= 1 ^%",
        "mean(T_e) <= ^1/0",
        "mean(T_e) <= ^1e999",
        "mean(T_e[eps^]) <= 1",
        "mean(T_e[eps=^,norm=l2]) <= 1",
        "mean(T_e[eps=0.1^) <= 1",
        "mean(T_e[^]) <= 1",
        "fraction(status == ^) <= 1",
        "fraction(status == ok and ^) <= 1",
        'fraction(status == ^"vacuous) <= 1',
        "mean(T_e) ^& 3",
        "mean(T_e)\t<=\n3 ^; rm",
    ],
)
def test_a_rule_that_cannot_be_read_is_shown_with_a_caret_at_the_character(marked):
    place = marked.index("^")
    with pytest.raises(RuleError) as caught:
        parse_rule(marked.replace("^", ""))
    what, rule, caret = caught.value.message.rsplit("\n", 2)
    assert f"at character {place + 1} of the rule" in what
    assert rule.strip() == " ".join(marked.replace("^", "").strip().splitlines()).replace("\t", " ")
    assert caret == " " * (place + 2) + "^"
    assert caught.value.exit_code == 2


def test_a_misspelt_statistic_is_told_the_nearest():
    with pytest.raises(RuleError) as caught:
        parse_rule("fracton(violated) == 0")
    assert "fraction" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "amount", "relative", "sign"),
    [
        ("mean(T_c_deg) 5%", 0.05, True, 0),
        ("mean(T_c_deg) 0.5", 0.5, False, 0),
        ("fraction(status == vacuous) +1%", 0.01, True, 1),
        ("count(violated) -3", 3, False, -1),
        ("p95(T_e[eps=8/255]) 1/4", 0.25, False, 0),
    ],
)
def test_an_allowance_is_an_amount_or_a_share_with_or_without_a_direction(text, amount, relative, sign):
    allowance = parse_allowance(text)
    assert (allowance.amount, allowance.relative, allowance.sign) == (amount, relative, sign)


@pytest.mark.parametrize(
    "marked", ["mean(T_e)^", "mean(T_e) ^<= 5%", "mean(T_e) 5% ^5%", "mean(T_e) ^much", "^5% mean(T_e)"]
)
def test_an_allowance_that_cannot_be_read_is_told_its_place(marked):
    with pytest.raises(RuleError, match=f"at character {marked.index('^') + 1} of the rule"):
        parse_allowance(marked.replace("^", ""))


@settings(max_examples=500, deadline=None)
@given(st.one_of(st.text(), soup, soup.map(lambda text: f"mean({text}) <= 1"), soup.map(lambda text: f"count({text}")))
def test_no_text_makes_the_parsers_fail_otherwise_than_by_a_rule_error(text):
    for parse in (parse_rule, parse_allowance):
        with suppress(RuleError):  # most texts are no rules, some are
            assert parse(text).figure.columns


@settings(deadline=None)
@given(
    st.sampled_from(STATISTICS),
    columns,
    st.lists(comparisons, max_size=3),
    st.sampled_from(SIGNS),
    numbers,
    st.sampled_from([" ", "  ", "\t", "\n "]),
)
def test_a_rule_about_a_column_is_read_as_it_was_made(statistic, column, filters, comparator, number, blank):
    kept = f"{blank},{blank}".join(blank.join([name, sign, text]) for name, sign, (text, _) in filters)
    brackets = ["[", kept, "]"] if filters else []
    rule = parse_rule(blank.join([statistic, "(", column, *brackets, ")", comparator, number[0]]))
    assert (rule.figure.statistic, rule.figure.column, rule.figure.condition) == (statistic, column, ())
    assert [told(term) for term in rule.figure.filters] == [(name, sign, value) for name, sign, (_, value) in filters]
    assert (rule.comparator, rule.limit) == (comparator, number[1])


@settings(deadline=None)
@given(
    st.sampled_from(["fraction", "count"]),
    st.lists(st.lists(comparisons, min_size=1, max_size=3), min_size=1, max_size=3),
    numbers,
)
def test_a_rule_about_a_condition_is_read_as_it_was_made(statistic, condition, number):
    parts = [" and ".join(f"{c} {sign} {text}" for c, sign, (text, _) in part) for part in condition]
    rule = parse_rule(f"{statistic}({' or '.join(parts)}) == {number[0]}")
    assert (rule.figure.statistic, rule.figure.column, rule.figure.filters) == (statistic, None, ())
    assert [[told(term) for term in part] for part in rule.figure.condition] == [
        [(c, sign, value) for c, sign, (_, value) in part] for part in condition
    ]
    assert rule.limit == number[1]


@settings(deadline=None)
@given(st.floats(0, 100).filter(lambda x: "e" not in repr(x)))
def test_any_percentage_names_a_percentile(share):
    assert parse_rule(f"p{share!r}(T_e) <= 1").figure.percent == share


@pytest.mark.parametrize(
    ("name", "meant"), [("T_c", "T_c_deg"), ("cos", "cosine"), ("t_hat_c", "T_hat_c_deg"), ("staus", "status")]
)
def test_a_name_that_is_the_beginning_of_a_column_suggests_it(name, meant):
    known = {"T_e", "T_c_deg", "T_c_corrected_deg", "T_hat_c_deg", "cosine", "cosine_hat", "status"}
    assert re.match(rf"did you mean {meant!r}[ ?]", did_you_mean(name, known, ""))
