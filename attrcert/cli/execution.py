"""From a configuration to rows, a table on stdout and an exit code: what every computing command does."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import typer

from attrcert.cli.console import put, show_tables, talk, warn
from attrcert.cli.dry_run import tell_plan
from attrcert.cli.gate import render
from attrcert.cli.options import Asked
from attrcert.cli.session import compute
from attrcert.columns import Row, filled
from attrcert.errors import UsageError
from attrcert.reporting.gating.gates import judge_table
from attrcert.reporting.gating.possibilities import check_can_fail
from attrcert.reporting.gating.promises import broken
from attrcert.reporting.gating.rules import Rule, parse_rule
from attrcert.reporting.gating.selections import applies, check_asked, no_run_has
from attrcert.reporting.gating.verdict_texts import verdict_json
from attrcert.reporting.gating.verdicts import Verdict
from attrcert.reporting.summaries.areas import areas
from attrcert.reporting.summaries.attacks import summarise_attacks
from attrcert.reporting.summaries.bounds import Summary, measured_beyond, summarise
from attrcert.reporting.summaries.cases import summarise_cases
from attrcert.reporting.summaries.fidelity import closeness
from attrcert.reporting.summaries.localised import summarise_localised
from attrcert.reporting.summaries.overviews import overview
from attrcert.reporting.summaries.scores import summarise_scores
from attrcert.reporting.summaries.sentences import sentences
from attrcert.reporting.summaries.turned import summarise_turned
from attrcert.running.engines.engine import Engine, Here, Spread
from attrcert.running.engines.local_workers import Processes
from attrcert.running.keeping.jacobians import check_jacobians
from attrcert.running.opening.opening import open_run
from attrcert.running.opening.runs import Run
from attrcert.saved.arrays import jacobian_file
from attrcert.saved.files import check_target
from attrcert.saved.records import to_csv
from attrcert.saved.runfiles import table_of
from attrcert.settings.computing import RunOptions, Workers
from attrcert.settings.output import Complete, Output
from attrcert.settings.several import at_betas
from attrcert.settings.tasks import Task


def execute(
    asked: Asked,
    task: Task | None = None,
    *,
    deltas: Path | None = None,
    jacobians: Sequence[int] = (),
    auc: bool = False,
) -> None:
    """Compute, write, print, judge; exit 1 if a promise was broken or a rule failed, 4 if too many samples have no figure."""
    task, results = task or asked.task(), asked.part(Output)
    results.needs_file(deltas)
    for path in (results.out, deltas, jacobian_file(results.out) if results.out and jacobians else None):
        if path:
            check_target(path)
    model, workers = asked.model(), asked.part(Workers)
    rules = _rules(results.require, at_betas(task, model.betas))
    engine, options = _engine(workers), replace(asked.part(RunOptions), sharing=workers.sharing)
    run = open_run(model, asked.data(), task, options)
    if jacobians:
        check_jacobians(run, jacobians)
    if results.dry_run:
        tell_plan(run, engine, options.memory, results.format)
        return
    rows = compute(run, options, results, engine, deltas=deltas, jacobians=jacobians)
    _warn_beyond(run, rows, quiet=results.quiet)
    verdict = _judged(run, rows, rules)
    summary = _render(run, rows, results.format, verdict, auc=auc)
    violated = broken(rows)
    if violated:
        talk(f"violated: an attack exceeded a proved or confidence bound on {len(violated)} rows", style="bold red")
        raise typer.Exit(1)
    if verdict and verdict.outcome.exit_code:
        raise typer.Exit(verdict.outcome.exit_code)
    incomplete(summary.incomplete, summary.samples, "figure, or one that has not converged", results)


def _warn_beyond(run: Run, rows: Sequence[Row], *, quiet: bool) -> None:
    """The estimates of `bound` are too low where the run itself measured more."""
    beyond, samples = measured_beyond(rows) if run.config.command == "bound" else (0, 0)
    if beyond and not quiet:
        warn(
            f"T_e is too low on {beyond} of {samples} samples: at the worst perturbation found the attribution moves farther. "
            "`attrcert attack` shows how far; --proved bounds it where the network allows that"
        )


def _rules(texts: Sequence[str], task: Task) -> tuple[Rule, ...]:
    """What is required of a task's rows. A rule about what is not asked for, and one that cannot fail, are refused before anything is
    computed; a filter on what the cases do not tell is left to the judgement.
    """
    rules = tuple(parse_rule(text) for text in texts)
    rows: list[Row] = [{"index": 0, "status": "ok", **case} for case in task.cases]
    expected = table_of(rows, task.columns, task.command, "the run", {"identity": task.identity()})
    told = {name for case in task.cases for name in case}
    for rule in rules:
        check_asked(rule.figure, expected)
        filters = tuple(
            term for term in rule.figure.filters if term.column in told or term.column not in expected.header
        )
        if not applies(replace(rule.figure, filters=filters), expected):
            raise no_run_has(rule.figure, [expected])
        check_can_fail(rule, expected)
    return rules


def _engine(asked: Workers) -> Engine:
    """Who computes."""
    if asked.engine == "local" and asked.workers == 1:
        return Here()
    if asked.engine == "local":
        return Spread(partial(Processes, workers=asked.workers), asked.workers)
    try:
        from attrcert.running.engines.apart import Apart
        from attrcert.running.engines.ray_workers import Actors
    except ModuleNotFoundError as error:
        raise UsageError("--engine ray needs Ray", hint="pip install 'attrcert[ray]'") from error
    return Apart(partial(Actors, address=asked.ray_address, gpus=asked.gpus_per_worker), asked.workers)


def _judged(run: Run, rows: list[Row], rules: Sequence[Rule]) -> Verdict | None:
    """By --require."""
    if not rules:
        return None
    manifest = {"identity": run.identity(), **run.environment()}
    return judge_table(table_of(rows, run.config.columns, run.config.command, "this run", manifest), rules)


def incomplete(missing: int, samples: int, what: str, limit: Complete) -> None:
    """Exit 4 if too many samples have no such thing."""
    if missing > limit.max_incomplete * samples:
        talk(
            f"incomplete: {missing} of {samples} samples have no {what}; "
            f"--max-incomplete allows a share of {limit.max_incomplete:g}"
        )
        raise typer.Exit(4)


def _sentences(run: Run, rows: Sequence[Row]) -> list[str]:
    return sentences(rows, run.config.command, run.identity())


def _as_json(run: Run, rows: list[Row], summary: Summary, verdict: Verdict | None, *, auc: bool) -> dict[str, Any]:
    """What the tables show, and every row."""
    whole = {
        "identity": run.identity(),
        "summary": _summary_json(run, rows, summary),
        "sentences": _sentences(run, rows),
        "rows": filled(rows, run.config.columns),
    }
    whole |= {"fidelity": [one.as_json() for one in close]} if (close := closeness(rows)) else {}
    if run.config.command == "attack":
        attacks = summarise_attacks(rows)
        whole["attacks"] = [part.as_json() for part in attacks]
        whole |= {"areas": [one.as_json() for one in areas(attacks)]} if auc else {}
    if run.config.command == "attack-smooth":
        whole["attacks"] = [part.as_json() for part in summarise_turned(rows)]
    if found := summarise_localised(rows):
        whole["localised"] = [part.as_json() for part in found]
    return whole | ({"verdict": verdict_json(verdict)} if verdict else {})


def _summary_json(run: Run, rows: list[Row], summary: Summary) -> dict[str, Any]:
    """What the table shows."""
    if run.config.command not in ("max-eps", "certify", "attack-smooth", "score"):
        return summary.as_json()
    found = summarise_scores(rows) if run.config.command == "score" else summarise_cases(rows)
    cases = [part.as_json() for part in found]
    return {"facts": dict(summary.facts), "status": dict(summary.status), "cases": cases}


def _render(run: Run, rows: list[Row], format_: str, verdict: Verdict | None, *, auc: bool) -> Summary:
    """The result on stdout."""
    summary = summarise(rows, run.facts())
    if format_ == "csv":
        put(to_csv(rows, run.config.columns, header=True).removesuffix("\n"))
        if verdict:
            render(verdict, "table", on_stderr=True)
        return summary
    if format_ == "json":
        put(json.dumps(_as_json(run, rows, summary, verdict, auc=auc), indent=1, default=str))
        return summary
    show_tables(overview(run.config.command, rows, summary, auc=auc), _sentences(run, rows), format_)
    if verdict:
        put("")
        render(verdict, format_)
    return summary
