"""Where results go."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from attrcert.columns import Column, Row
from attrcert.errors import UsageError
from attrcert.settings.declared import OUTPUT, RUN, Settings, setting

if TYPE_CHECKING:
    from attrcert.reporting.gating.rules import Rule

FORMATS = ("table", "json", "csv", "markdown")


def path(text: str, name: str) -> Path:
    return Path(text)


@dataclass(frozen=True)
class Complete(Settings):
    """How many samples may lack what was asked for."""

    max_incomplete: float = setting(0.0, "Exit 4 if a larger share of samples has no figure.", RUN, least=0, most=1)


@dataclass(frozen=True)
class Quiet(Settings):
    """Whether stderr stays empty."""

    quiet: bool = setting(False, "No progress and no warnings on stderr.", OUTPUT, flags=("--quiet", "-q"), basic=True)


@dataclass(frozen=True)
class Format(Settings):
    """How stdout looks."""

    format: str = setting("table", "Format of stdout.", OUTPUT, choices=FORMATS, basic=True)
    json: bool = setting(False, "The same as --format json.", OUTPUT)

    def check(self) -> None:
        if self.json:
            object.__setattr__(self, "format", "json")


@dataclass(frozen=True)
class Output(Format, Complete, Quiet):
    """Of commands with rows."""

    out: Path | None = setting(
        None, "CSV with one row per sample and case; the manifest goes beside it.", OUTPUT, read=path, basic=True
    )
    resume: bool = setting(False, "Continue the run that --out holds.", OUTPUT, basic=True)
    overwrite: bool = setting(False, "Replace what --out holds.", OUTPUT, basic=True)
    require: tuple[str, ...] = setting(
        (), 'Judge the rows and exit 1 if this does not hold, e.g. "p95(T_c_deg) <= 30"; repeatable. See `attrcert gate`.',
        OUTPUT, many=True, whole=True, metavar="RULE", basic=True,
    )  # fmt: skip

    def needs_file(self, other: Path | None = None) -> None:
        """--resume continues a CSV; --overwrite replaces it, or another file that the command writes."""
        if self.out is None and (self.resume or (self.overwrite and other is None)):
            raise UsageError("--resume and --overwrite need --out")

    def rules(self, columns: Sequence[Column], cases: Sequence[Row]) -> "tuple[Rule, ...]":
        """What is required of rows with these columns in these cases; read before anything is computed.

        A filter on what the cases do not tell is left to the judgement.
        """
        from attrcert.reporting.gating.rules import parse_rule
        from attrcert.reporting.gating.selections import applies, no_run_has
        from attrcert.saved.runfiles import table_of

        rules = tuple(parse_rule(text) for text in self.require or ())
        expected = table_of([{"index": 0, "status": "ok", **case} for case in cases], columns, "", "the run")
        told = {name for case in cases for name in case}
        for rule in rules:
            filters = tuple(
                term for term in rule.figure.filters if term.column in told or term.column not in expected.header
            )
            if not applies(replace(rule.figure, filters=filters), expected):
                raise no_run_has(rule.figure, [expected])
        return rules
