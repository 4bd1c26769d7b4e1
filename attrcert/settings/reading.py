"""What the commands that read files are asked for: rules over CSVs, a page, one CSV of many, a list of what there is."""

from dataclasses import MISSING, dataclass
from pathlib import Path

from attrcert.errors import UsageError
from attrcert.papers import ITEMS
from attrcert.settings.declared import OUTPUT, Settings, setting
from attrcert.settings.output import Findings, Format, path

RULES, BASELINE = "Rules", "Baseline"
FAMILIES = (
    "attributions", "certificates", "rules", "boundings", "confidence-bounds", "attacks", "presets", "metrics", "scores", "models",
    "samples", "architectures", "papers", "settings", "columns", "guarantees",
)  # fmt: skip


@dataclass(frozen=True)
class Saved(Settings):
    """What earlier runs wrote."""

    files: tuple[Path, ...] = setting(
        MISSING, "CSVs that --out wrote.", read=path, many=True, whole=True, argument=True
    )


@dataclass(frozen=True)
class Judging(Saved):
    """What must hold, and compared with what."""

    require: tuple[str, ...] = setting(
        (), 'What must hold, e.g. "p95(T_c_deg[eps=0.1]) <= 30" or "fraction(status == vacuous) <= 1%"; repeatable.',
        RULES, many=True, whole=True, metavar="RULE",
    )  # fmt: skip
    config: Path | None = setting(
        None,
        "A TOML file whose table 'gate' has require, max_regression, baseline, waive, allow_mismatch, min_samples, max_incomplete and "
        "allow_refuted; options given beside it add to its lists, but --baseline replaces.", RULES, read=path,
    )  # fmt: skip
    waive: tuple[str, ...] = setting(
        (), "A sample that no rule counts, and why; told in every output. Repeatable.",
        RULES, many=True, whole=True, metavar="INDEX:REASON",
    )  # fmt: skip
    min_samples: int | None = setting(None, "A rule over fewer samples cannot be judged (exit 2).", RULES, unsaid="1")
    max_incomplete: float | None = setting(
        None, "Exit 4 if a larger share of a run's samples has no figure.", RULES, unsaid="0"
    )
    allow_refuted: bool = setting(
        False,
        "Let a rule pass on first-order or corrected figures that attacks in these files exceeded; they are counted in every output. "
        "Without it such a rule is refuted (exit 1).", RULES,
    )  # fmt: skip
    baseline: tuple[Path, ...] = setting(
        (), "The CSV of an earlier run of the same command; repeatable, one for each command.",
        BASELINE, read=path, many=True, whole=True, metavar="CSV",
    )  # fmt: skip
    max_regression: tuple[str, ...] = setting(
        (), 'By how much a figure may be worse than the baseline\'s, e.g. "mean(T_c_deg) 5%" or "p95(T_e) 0.1"; repeatable.',
        BASELINE, many=True, whole=True, metavar="FIGURE AMOUNT",
    )  # fmt: skip
    allow_mismatch: tuple[str, ...] = setting(
        (),
        "Compare runs although they differ in this: attribution, norm, eps, data, beta, any key of a manifest's identity, or manifest "
        "where there is none. Repeatable.", BASELINE, many=True, whole=True, metavar="KEY",
    )  # fmt: skip


@dataclass(frozen=True)
class Judged(Format):
    """How a verdict is told."""

    format: str = setting("table", "Format of stdout.", OUTPUT, choices=("table", "json", "markdown"))
    markdown: bool = setting(False, "The same as --format markdown.", OUTPUT)
    junit: Path | None = setting(None, "Also write JUnit XML, a test case per rule.", OUTPUT, read=path)
    exit_zero: bool = setting(
        False, "Exit 0 though a rule failed or was refuted, or a run is incomplete; what cannot be judged still exits 2.", OUTPUT,
    )  # fmt: skip


@dataclass(frozen=True)
class Paging(Saved):
    """The page, and what is on it."""

    title: str = setting("", "Of the page.", unsaid="the runs' names")
    worst: int = setting(500, "Rows in the table of samples, the worst first.", least=1)
    pictures: int = setting(4, "Samples with pictures, of the most and of the least moved.", least=0)
    deltas: tuple[Path, ...] = setting(
        (), "The --save-deltas file of each attack run, in order.",
        read=path, many=True, whole=True, metavar="FILE", unsaid="where their manifests say",
    )  # fmt: skip
    out: Path | None = setting(
        None, "The page to write.", OUTPUT, read=path, flags=("--out", "-o"), unsaid="report.html; markdown goes to stdout",
    )  # fmt: skip
    format: str = setting("html", "Format of the page.", OUTPUT, choices=("html", "markdown"))
    plots: Path | None = setting(None, "Also write the figures as PNG and SVG into this folder.", OUTPUT, read=path)

    @property
    def target(self) -> Path | None:
        """Where the page goes; None is stdout."""
        return self.out or (Path("report.html") if self.format == "html" else None)


@dataclass(frozen=True)
class Joining(Saved):
    """Of all shards, and the whole."""

    out: Path = setting(MISSING, "The CSV to write; its manifest goes beside it.", read=path, flags=("--out", "-o"))
    overwrite: bool = setting(False, "Replace what --out holds.")

    def check(self) -> None:
        if any(file.resolve() == self.out.resolve() for file in self.files):
            raise UsageError(f"{self.out} is one of the files to join", hint="choose another --out")


@dataclass(frozen=True)
class Listing(Findings):
    """What is listed."""

    family: str | None = setting(None, "What to list.", choices=FAMILIES, argument=True, unsaid="all", basic=True)
    paper: str | None = setting(
        None, "Of `papers`: this one alone.", choices=tuple(ITEMS), unsaid="all five", basic=True
    )

    def check(self) -> None:
        super().check()
        if self.paper and self.family not in (None, "papers"):
            raise UsageError(f"--paper is for `attrcert catalogue papers`, got {self.family}")
