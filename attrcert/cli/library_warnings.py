"""Warnings of the libraries that attrcert uses, such as Pillow and torch: one line each, or none with --quiet."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attrcert.cli.console import warn

VARIABLE = "PYTHONWARNINGS"  # tells the same to worker processes


@contextmanager
def library_warnings(*, quiet: bool) -> Iterator[None]:
    before = os.environ.get(VARIABLE)
    with warnings.catch_warnings():
        warnings.showwarning = _show
        if quiet:
            warnings.simplefilter("ignore")
            os.environ[VARIABLE] = "ignore"
        try:
            yield
        finally:
            os.environ.pop(VARIABLE, None)
            os.environ |= {VARIABLE: before} if before is not None else {}


def _show(message: Warning | str, *_: Any, **__: Any) -> None:
    warn(str(message).strip().partition("\n")[0])
