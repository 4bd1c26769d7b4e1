"""The program run in this process, as a shell would see it."""

import csv
import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

import pytest

from attrcert.cli.app import main


@dataclass(frozen=True)
class Done:
    """Exit code, stdout and stderr of a run."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, str]]:
        """Of --format csv."""
        assert self.out, self.err
        return list(csv.DictReader(io.StringIO(self.out)))

    @property
    def shown(self) -> str:
        """What stdout says, however the terminal broke its lines."""
        return " ".join(self.out.split())

    @property
    def said(self) -> str:
        return " ".join(self.err.split())


def attrcert(*words: object) -> Done:
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(out), redirect_stderr(err):
        patched.setattr(sys, "argv", ["attrcert", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
    return Done(int(ended.value.code or 0), out.getvalue(), err.getvalue())
