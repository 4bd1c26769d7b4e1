"""`attrcert gate`: judge CSVs by rules, for pipelines that must stop."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from attrcert.cli.console import put, talk
from attrcert.cli.options import Asked, command
from attrcert.errors import UsageError

if TYPE_CHECKING:
    from attrcert.reporting.gating.verdicts import Verdict


@command("gate", example='attrcert gate bounds.csv attacks.csv --require "p95(T_c_deg[eps=0.1]) <= 30"')
def gate(asked: Asked) -> None:
    """Judge the CSVs of earlier runs by rules, and exit 1 where one fails.

    A rule is a statistic of a column (mean, median, min, max, std, p95, ...) or of how many rows meet a condition (fraction, count),
    with a filter in brackets, against a number. It must hold in every case (eps, attack, threshold, radius) of every file that has
    its columns, of figures that no attack in these files exceeded.
    Exit codes: 0 all hold, 1 a rule failed or was refuted, 2 a rule cannot be read or judged, 4 a run is incomplete.
    Where GITHUB_STEP_SUMMARY is set, the verdict is appended to that file.
    """
    from attrcert.reporting.gating.gates import judge_files
    from attrcert.reporting.gating.verdict_texts import JUNIT_MARK
    from attrcert.results import demanded
    from attrcert.saved.replacing import check_ours
    from attrcert.settings.reading import Judged, Judging

    judged, judging = asked.part(Judged), asked.part(Judging)
    demands = demanded(judging)
    if judged.junit is not None and judged.junit.parent.is_dir():  # if it is not, that is told after the verdict
        check_ours(judged.junit, (JUNIT_MARK,), what="a JUnit report that attrcert wrote", other="--junit")
    verdict = judge_files(judging.files, demands)
    try:
        _write(verdict, judged.junit)
    finally:  # a report that cannot be written must not hide the verdict
        render(verdict, judged.format)
    code = verdict.outcome.exit_code
    if judged.exit_zero and code in (1, 4):
        talk(f"--exit-zero: the verdict's exit code {code} becomes 0")
        code = 0
    raise typer.Exit(code)


def _write(verdict: "Verdict", path: Path | None) -> None:
    """The reports beside stdout."""
    from attrcert.reporting.gating.verdict_texts import junit
    from attrcert.saved.files import cannot_write, write_text

    if path is not None:
        write_text(path, junit(verdict))
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    try:
        if summary:
            _add_to(Path(summary), verdict)
    except OSError as error:
        raise cannot_write(Path(summary or ""), error) from error


def _add_to(path: Path, verdict: "Verdict") -> None:
    """To a file that is not ours, wherever a link to it points; a pipe would be waited for."""
    from attrcert.reporting.gating.verdict_texts import step_summary, verdict_markdown

    if path.is_fifo():
        raise UsageError(f"GITHUB_STEP_SUMMARY must name a file, and {path} is a pipe")
    with path.open("a", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write(step_summary(verdict_markdown(verdict) + "\n", stream.tell()))


def render(verdict: "Verdict", shape: str, *, on_stderr: bool = False) -> None:
    """The verdict on stdout, or as talk where stdout holds something else."""
    import json

    from attrcert.reporting.gating.verdict_texts import verdict_json, verdict_markdown, verdict_table

    if shape == "json":
        put(json.dumps(verdict_json(verdict), indent=1))
    elif shape == "markdown":
        put(verdict_markdown(verdict))
    elif shape == "latex":
        from attrcert.reporting.tables.latex import latex

        put(latex(verdict_table(verdict)))
    else:
        from rich.console import Console

        from attrcert.reporting.tables.terminal import show

        show(verdict_table(verdict), Console(stderr=on_stderr, highlight=False))
