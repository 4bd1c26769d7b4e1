"""Runs of every command give what they gave before: each text, and each number but for the rounding of another machine."""

from pathlib import Path
from typing import Any

import pytest
from golden_runs import FIXTURES, RUNS, TIMES, WRITE, fixture, outcome, written

from attrcert.columns import COUNTS, FIDELITY, declared

# relative and absolute; maps are in their files in float32, and the linearisation error is a difference of gradients of length 15
TOLERANCES = {"bound-float32": (1e-5, 1e-5), "smooth": (1e-5, 1e-6)}
PROVED = (1e-6, 1e-16)  # of the best weights that a search finds
DOUBLE = (1e-9, 1e-16)


def same(name: str, told: str | None, now: str | None) -> bool:
    """Whether two cells are the same text or, but for rounding, the same number."""
    if told is None or now is None or told == now:
        return told == now
    relative, absolute = TOLERANCES.get(name, PROVED if "proved" in name else DOUBLE)
    try:
        whole = "." not in told and "e" not in told
        return not whole and float(now) == pytest.approx(float(told), rel=relative, abs=absolute)
    except ValueError:
        return False


def differences(name: str, told: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[str]:
    identities = [f"{key} was {a!r} and is {b!r}" for key, a, b in _pairs(told[0], now[0]) if a != b]
    rows = [
        f"row {n}: {key} was {a} and is {b}"
        for n, (before, after) in enumerate(zip(told[1:], now[1:], strict=False), 1)
        for key, a, b in _pairs(before, after)
        if not same(name, a, b)
    ]
    lengths = [] if len(told) == len(now) else [f"there were {len(told) - 1} rows and are {len(now) - 1}"]
    return identities + rows + lengths


def _pairs(told: dict[str, Any], now: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    return [(key, told.get(key), now.get(key)) for key in dict.fromkeys((*told, *now))]


@pytest.mark.parametrize("name", RUNS)
def test_a_run_gives_what_it_gave_before(name: str, tmp_path: Path) -> None:
    found = differences(name, written(name), outcome(name, tmp_path))
    assert not found, "\n".join([*found, f"if this is meant: {WRITE}"])


def test_every_column_has_a_cell_in_some_run() -> None:
    filled = {column for name in RUNS for row in written(name)[1:] for column in row}
    # rows of --csv, and of several softplus versions, which no bundled model has; tests of their own look at them
    elsewhere = {column.name for column in (*COUNTS, *FIDELITY)}
    assert not {column.name for column in declared()} - filled - set(TIMES) - elsewhere


def test_no_fixture_is_of_a_run_that_is_gone() -> None:
    assert set(FIXTURES.iterdir()) == {fixture(name) for name in RUNS}


@pytest.mark.parametrize(
    ("row", "other"),
    [
        ({"T_e": "1.5"}, {"T_e": "1.50000001"}),
        ({"steps": "12"}, {"steps": "13"}),
        ({"status": "ok"}, {"status": "vacuous"}),
        ({"T_e": "1.5"}, {}),
        ({}, {"T_e": "1.5"}),
    ],
)
def test_a_cell_that_differs_is_told(row: dict[str, str], other: dict[str, str]) -> None:
    assert len(differences("bound-l2", [{}, row], [{}, other])) == 1
    assert differences("bound-l2", [{}, row], [{}, row]) == []
    assert len(differences("bound-l2", [row], [other])) == 1
    assert len(differences("bound-l2", [{}, row], [{}])) == 1


def test_the_rounding_of_another_machine_is_no_difference() -> None:
    assert differences("bound-l2", [{}, {"T_e": "1.5"}], [{}, {"T_e": "1.5000000000001"}]) == []
