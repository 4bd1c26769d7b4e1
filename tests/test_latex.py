"""Tables in LaTeX: nothing that stands in a cell is a command, and every line has all cells."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.program import attrcert

from attrcert.reporting.tables.latex import escaped, latex
from attrcert.reporting.tables.text_table import TextTable

COMMANDS = r"\\text[a-z]+\{\}|\\[&%$#_{}]|\$\^\\circ\$|-\{\}"  # that escaping writes


@given(st.text(st.characters(codec="ascii") | st.sampled_from("°é"), max_size=30))
def test_no_letter_is_left_that_latex_would_read_as_more(text):
    assert not re.search(r"[\\&%$#_{}~^|<>`\"]|--", re.sub(COMMANDS, "", escaped(text)))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("T_e 50% & more", r"T\_e 50\% \& more"),
        ("--eps 8/255", "-{}-eps 8/255"),
        ("a\\b", r"a\textbackslash{}b"),
        ("|g| <= 30°", r"\textbar{}g\textbar{} \textless{}= 30$^\circ$"),
    ],
)
def test_texts_come_out_as_they_went_in(text, written):
    assert escaped(text) == written


@pytest.mark.parametrize("columns", [3, 12])
def test_every_line_of_a_grid_has_a_cell_for_every_column(columns):
    header = ("eps", "figure", *(f"a_long_name_{place}" for place in range(columns - 2)))
    text = latex(TextTable("A & B", header, (tuple(f"{place}%" for place in range(columns)),) * 8, keys=2))
    grids = re.findall(r"\\begin\{tabular\}\{([lr]+)\}(.*?)\\end\{tabular\}", text, re.DOTALL)
    assert len(grids) == (1 if columns == 3 else 2)
    for sides, grid in grids:
        lines = [line for line in grid.splitlines() if line.endswith(r"\\")]
        assert {len(re.findall(r"(?<!\\)&", line)) + 1 for line in lines} == {len(sides)}
        assert len(lines) == 9
    assert all(f"a\\_long\\_name\\_{place}" in text for place in range(columns - 2))
    assert r"\caption{A \& B}" in text


def test_a_run_and_its_verdict_are_written_in_latex():
    done = attrcert("bound", "--limit", 2, "--format", "latex", "--require", "max(T_e) <= 1000", "--quiet")
    assert done.code == 0, done.err
    assert done.out.count(r"\begin{table}") == done.out.count(r"\end{table}") == 2
    assert r"max(T\_e) \textless{}= 1000" in done.out
    assert "┃" not in done.out
