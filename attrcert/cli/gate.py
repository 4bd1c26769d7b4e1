"""`attrcert gate`: judge CSVs by rules, for pipelines that must stop."""

import json
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attrcert.cli.console import put, talk
from attrcert.errors import UsageError
from attrcert.saved.files import cannot_write, check_target, write_text

if TYPE_CHECKING:
    from attrcert.reporting.gating.gates import Gate
    from attrcert.reporting.gating.verdicts import Verdict

FORMATS = ("table", "json", "markdown")
_rules, _baseline, _output = (
    partial(typer.Option, rich_help_panel=panel, show_default=False) for panel in ("Rules", "Baseline", "Output")
)


def gate(
    files: Annotated[list[Path], typer.Argument(help="CSVs that --out wrote.", show_default=False)],
    require: Annotated[
        list[str] | None,
        _rules(
            metavar="RULE",
            help='What must hold, e.g. "p95(T_c_deg\\[eps=0.1]) <= 30" or "fraction(status == vacuous) <= 1%"; repeatable.',
        ),
    ] = None,
    config: Annotated[
        Path | None,
        _rules(
            help="A TOML file whose table 'gate' has require, max_regression, baseline, waive, allow_mismatch, min_samples, "
            "max_incomplete and allow_refuted; options given beside it add to its lists, but --baseline replaces."
        ),
    ] = None,
    waive: Annotated[
        list[str] | None,
        _rules(metavar="INDEX:REASON", help="A sample that no rule counts, and why; told in every output. Repeatable."),
    ] = None,
    min_samples: Annotated[
        int | None, _rules(help="A rule over fewer samples cannot be judged (exit 2). Default: 1.")
    ] = None,
    max_incomplete: Annotated[
        float | None, _rules(help="Exit 4 if a larger share of a run's samples has no figure. Default: 0.")
    ] = None,
    allow_refuted: Annotated[
        bool,
        _rules(
            "--allow-refuted",
            help="Let a rule pass on first-order or corrected figures that attacks in these files exceeded; they are counted in every "
            "output. Without it such a rule is refuted (exit 1).",
        ),
    ] = False,
    baseline: Annotated[
        list[Path] | None,
        _baseline(
            metavar="CSV", help="The CSV of an earlier run of the same command; repeatable, one for each command."
        ),
    ] = None,
    max_regression: Annotated[
        list[str] | None,
        _baseline(
            metavar="FIGURE AMOUNT",
            help='By how much a figure may be worse than the baseline\'s, e.g. "mean(T_c_deg) 5%" or "p95(T_e) 0.1"; repeatable.',
        ),
    ] = None,
    allow_mismatch: Annotated[
        list[str] | None,
        _baseline(
            metavar="KEY",
            help="Compare runs although they differ in this: attribution, norm, eps, data, beta, any key of a manifest's "
            "identity, or manifest where there is none. Repeatable.",
        ),
    ] = None,
    junit: Annotated[Path | None, _output(help="Also write JUnit XML, a test case per rule.")] = None,
    format_: Annotated[
        str, _output("--format", metavar=f"[{'|'.join(FORMATS)}]", help="Format of stdout.", show_default=True)
    ] = "table",
    json_: Annotated[bool, _output("--json", help="The same as --format json.")] = False,
    markdown: Annotated[bool, _output("--markdown", help="The same as --format markdown.")] = False,
    exit_zero: Annotated[
        bool,
        _output(
            "--exit-zero",
            help="Exit 0 though a rule failed or was refuted, or a run is incomplete; what cannot be judged still exits 2.",
        ),
    ] = False,
) -> None:
    """Judge the CSVs of earlier runs by rules, and exit 1 where one fails.

    A rule is a statistic of a column (mean, median, min, max, std, p95, ...) or of how many rows meet a condition (fraction, count),
    with a filter in brackets, against a number. It must hold in every case (eps, attack, threshold, radius) of every file that has
    its columns, of figures that no attack in these files exceeded.
    Exit codes: 0 all hold, 1 a rule failed or was refuted, 2 a rule cannot be read or judged, 4 a run is incomplete.
    Where GITHUB_STEP_SUMMARY is set, the verdict is appended to that file.
    """
    from attrcert.reporting.gating.gates import judge_files

    shape = _format(format_, json_=json_, markdown=markdown)
    given: dict[str, Any] = {
        "require": _demands(require),
        "max_regression": _demands(max_regression),
        "baseline": tuple(baseline or ()),
        "waive": _waivers(waive),
        "allow_mismatch": tuple(allow_mismatch or ()),
    }
    limits = {"min_samples": min_samples, "max_incomplete": max_incomplete, "allow_refuted": allow_refuted or None}
    demanded = _merged(config, given, {name: value for name, value in limits.items() if value is not None})
    _check(junit)
    verdict = judge_files(files, demanded)
    try:
        _write(verdict, junit)
    finally:  # a report that cannot be written must not hide the verdict
        render(verdict, shape)
    code = verdict.outcome.exit_code
    if exit_zero and code in (1, 4):
        talk(f"--exit-zero: the verdict's exit code {code} becomes 0")
        code = 0
    raise typer.Exit(code)


def _format(format_: str, *, json_: bool, markdown: bool) -> str:
    if json_ and markdown:
        raise UsageError("--json and --markdown exclude each other")
    shape = "json" if json_ else "markdown" if markdown else format_
    if shape not in FORMATS:
        raise UsageError(f"--format must be one of {', '.join(FORMATS)}, got {shape!r}")
    return shape


def _demands(texts: list[str] | None) -> tuple[Any, ...]:
    from attrcert.reporting.gating.gates import Demand

    return tuple(Demand(text) for text in texts or ())


def _waivers(texts: list[str] | None) -> tuple[Any, ...]:
    from attrcert.reporting.gating.verdicts import Waiver

    return tuple(Waiver.parse(text) for text in texts or ())


def _merged(config: Path | None, lists: dict[str, Any], limits: dict[str, Any]) -> "Gate":
    """The command line adds to the configuration's lists, except that its baseline and its numbers come first."""
    from attrcert.reporting.gating.gates import Gate, read_gate

    read = read_gate(config) if config else {}
    added = {name: (*read.get(name, ()), *value) for name, value in lists.items()}
    return Gate(**{**read, **added, "baseline": lists["baseline"] or read.get("baseline", ()), **limits})


def _check(path: Path | None) -> None:
    """A report replaces a report, and nothing else."""
    from attrcert.reporting.gating.verdict_texts import JUNIT_MARK

    if path is None or not os.path.isdir(path.parent):  # which is told after the verdict
        return
    check_target(path)
    try:
        if path.is_file() and JUNIT_MARK not in path.read_text(encoding="utf-8", errors="replace")[:500]:
            raise UsageError(
                f"{path} exists and is not a JUnit report that attrcert wrote", hint="choose another --junit"
            )
    except OSError as error:
        raise cannot_write(path, error) from error


def _write(verdict: "Verdict", path: Path | None) -> None:
    """The reports beside stdout."""
    from attrcert.reporting.gating.verdict_texts import junit, step_summary, verdict_markdown

    if path is not None:
        write_text(path, junit(verdict))
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        _add_to(Path(summary), step_summary(verdict_markdown(verdict) + "\n", _size(Path(summary))))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # it is not there yet
        return 0


def _add_to(path: Path, text: str) -> None:
    """To a file that is not ours, wherever a link to it points; a pipe would be waited for."""
    try:
        if path.is_fifo():
            raise UsageError(f"GITHUB_STEP_SUMMARY must name a file, and {path} is a pipe")
        with path.open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text)
    except OSError as error:
        raise cannot_write(path, error) from error


def render(verdict: "Verdict", shape: str, *, on_stderr: bool = False) -> None:
    """The verdict on stdout, or as talk where stdout holds something else."""
    from attrcert.reporting.gating.verdict_texts import verdict_json, verdict_markdown, verdict_table

    if shape == "json":
        put(json.dumps(verdict_json(verdict), indent=1))
    elif shape == "markdown":
        put(verdict_markdown(verdict))
    else:
        from rich.console import Console

        from attrcert.reporting.tables.terminal import show

        show(verdict_table(verdict), Console(stderr=on_stderr, highlight=False))
