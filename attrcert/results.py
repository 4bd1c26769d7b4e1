"""What the commands as functions give: rows that can be looked at in a notebook, and the verdict of a gate on them."""

import io
from collections.abc import Iterable, Mapping
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any, SupportsIndex

from rich.console import Console

from attrcert.columns import Column, Row
from attrcert.errors import UsageError
from attrcert.reporting.gating.gates import Demand, Gate, judge_files, judge_table, read_gate
from attrcert.reporting.gating.rules import parse_rule
from attrcert.reporting.gating.verdicts import Verdict, Waiver
from attrcert.reporting.summaries.bounds import summarise
from attrcert.reporting.summaries.overviews import overview
from attrcert.reporting.summaries.sentences import sentences
from attrcert.reporting.tables.terminal import show
from attrcert.reporting.tables.text_table import TextTable
from attrcert.reporting.tables.web import web
from attrcert.saved.runfiles import table_of
from attrcert.settings.declared import made
from attrcert.settings.reading import Judging

WIDTH = 100  # letters of a summary's lines
NO_PANDAS = "to_pandas needs pandas"


class Rows(list[Row]):
    """The rows of a run: a list of dictionaries that knows its columns and what its run depended on (`manifest`)."""

    def __init__(
        self, rows: Iterable[Row], *, command: str, columns: tuple[Column, ...], manifest: Mapping[str, Any]
    ) -> None:
        super().__init__(rows)
        self.command, self.columns, self.manifest = command, columns, manifest

    def summary(self) -> str:
        """The tables that the command line prints, and what they come to."""
        stream = io.StringIO()
        for table in self._tables():
            show(table, Console(file=stream, width=WIDTH, highlight=False))
            stream.write("\n")
        return stream.getvalue() + "\n".join(self._sentences()) + "\n"

    def to_pandas(self) -> Any:
        """A DataFrame with a line for each row."""
        try:
            pandas = import_module("pandas")
        except ModuleNotFoundError as error:
            raise UsageError(NO_PANDAS, hint="pip install pandas") from error
        return pandas.DataFrame(list(self), columns=[column.name for column in self.columns])

    def _repr_html_(self) -> str:
        said = "".join(f"<p><b>{escape(sentence)}</b></p>" for sentence in self._sentences())
        return "".join(map(web, self._tables())) + said

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return _again, (list(self), self.command, self.columns, self.manifest)

    def _tables(self) -> tuple[TextTable, ...]:
        return overview(self.command, self, summarise(self, self.manifest.get("facts", {})))

    def _sentences(self) -> list[str]:
        return sentences(self, self.command, self.manifest["identity"])


def _again(rows: list[Row], command: str, columns: tuple[Column, ...], manifest: Mapping[str, Any]) -> Rows:
    return Rows(rows, command=command, columns=columns, manifest=manifest)


def gate(results: Any, *rules: str, require: str | Iterable[str] = (), **settings: Any) -> Verdict:
    """What `attrcert gate` says of rows that a function gave, or of CSVs by their names; other settings are for files.

    `gate(rows, "p95(T_c_deg) <= 30").passed` is whether it holds.
    """
    wanted = [*rules, *([require] if isinstance(require, str) else require)]
    if not isinstance(results, Rows):
        files = [results] if isinstance(results, str | Path) else list(results)
        asked = made(Judging, {**settings, "require": wanted, "files": files})
        return judge_files(asked.files, demanded(asked))
    if settings:
        raise UsageError(f"{next(iter(settings))} is for files, and rows were given", hint="write them with --out")
    if not wanted:
        raise UsageError("a gate needs at least one rule", hint='e.g. "p95(T_c_deg) <= 30"')
    table = table_of(results, results.columns, results.command, "these rows", results.manifest)
    return judge_table(table, [parse_rule(rule) for rule in wanted])


def demanded(asked: Judging) -> Gate:
    """What is asked for adds to the configuration's lists, except that its baseline and its numbers come first."""
    read = read_gate(asked.config) if asked.config else {}
    lists: dict[str, Iterable[Any]] = {
        "require": map(Demand, asked.require),
        "max_regression": map(Demand, asked.max_regression),
        "waive": map(Waiver.parse, asked.waive),
        "allow_mismatch": asked.allow_mismatch,
    }
    first = {
        "baseline": asked.baseline or None,
        "min_samples": asked.min_samples,
        "max_incomplete": asked.max_incomplete,
        "allow_refuted": asked.allow_refuted or None,
    }
    added = {name: (*read.get(name, ()), *values) for name, values in lists.items()}
    return Gate(**{**read, **added, **{name: value for name, value in first.items() if value is not None}})
