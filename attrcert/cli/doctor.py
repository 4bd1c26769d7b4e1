"""`attrcert doctor`: is this model fit to be bounded?"""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from attrcert.cli import options
from attrcert.cli.console import put, stdout
from attrcert.cli.groups import with_groups
from attrcert.errors import UsageError
from attrcert.foreign import printable, printable_lines

STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@with_groups
def doctor(
    model: options.ModelGroup,
    data: options.DataGroup,
    checkpoint: options.Checkpoint = None,
    dataset: options.Dataset = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "float32",
    format_: Annotated[
        str, typer.Option("--format", help="Format of stdout: table or json.", rich_help_panel=options.OUTPUT)
    ] = "table",
) -> None:
    """Check a model and its data before bounding them: batch coupling, determinism, second derivatives, kinks such as
    max-pooling, the softplus twin's fidelity, input range, accuracy. Exit 3 if a check fails.
    """
    if format_ not in ("table", "json"):
        raise UsageError(f"--format must be table or json, got {format_!r}")

    from attrcert.running.opening.runs import examine

    findings = examine(model.spec(checkpoint, data.max_input), data.spec(dataset), device=device, dtype=dtype)
    if format_ == "json":
        put(json.dumps([asdict(finding) for finding in findings], indent=1))
    else:
        from rich.table import Table
        from rich.text import Text

        table = Table("check", "", "what was seen", show_edge=False, header_style="bold")
        for finding in findings:
            said = printable(finding.message) + (f"\n-> {printable_lines(finding.hint)}" if finding.hint else "")
            table.add_row(Text(finding.check), Text(finding.level, style=STYLES[finding.level]), Text(said))
        stdout().print(table)
    if any(finding.level == "fail" for finding in findings):
        raise typer.Exit(3)
