"""What Pillow and torch warn of is one line on stderr, and nothing with --quiet."""

import os
import warnings
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from reference.program import attrcert

from attrcert.cli.library_warnings import VARIABLE, library_warnings


@pytest.fixture
def grumbling(tmp_path) -> Path:
    """A folder with a good picture and a torn one, of which Pillow warns."""
    grey = np.random.default_rng(0).integers(0, 256, (28, 28), dtype=np.uint8)
    for name in ("a.png", "b.tif"):
        PIL.Image.fromarray(grey).save(tmp_path / name)
    torn = tmp_path / "b.tif"
    torn.write_bytes(torn.read_bytes()[:60])
    return tmp_path


def test_a_librarys_warning_is_one_line_without_where_it_came_from(grumbling):
    done = attrcert("bound", "fashion-natural", grumbling, "--max-incomplete", 1)
    assert done.code == 0, done.err
    lines = [line for line in done.err.splitlines() if "Corrupt EXIF" in line]
    assert lines
    assert all(line.startswith("warning: Corrupt EXIF data") for line in lines)
    assert "PIL" not in done.err


def test_quiet_is_quiet_about_libraries_too(grumbling, recwarn):
    done = attrcert("bound", "fashion-natural", grumbling, "--max-incomplete", 1, "--quiet")
    assert done.code == 0
    assert done.err == ""
    assert not [warning for warning in recwarn if "Corrupt EXIF" in str(warning.message)]


@pytest.mark.parametrize("quiet", [True, False])
def test_worker_processes_are_told_and_all_is_as_before_afterwards(monkeypatch, quiet):
    monkeypatch.setenv(VARIABLE, "default")
    shown = warnings.showwarning
    with library_warnings(quiet=quiet):
        assert os.environ[VARIABLE] == ("ignore" if quiet else "default")
    assert os.environ[VARIABLE] == "default"
    assert warnings.showwarning is shown


def test_a_warning_without_words_is_shown_all_the_same(capsys):
    with library_warnings(quiet=False):
        warnings.simplefilter("always")
        warnings.warn("", stacklevel=1)
        warnings.warn("first\nsecond", stacklevel=1)
    assert capsys.readouterr().err.splitlines() == ["warning: ", "warning: first"]
