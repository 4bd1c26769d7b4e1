"""`attrcert doctor`: is this model fit to be bounded?"""

from dataclasses import asdict

import typer

from attrcert.cli.console import put, stdout
from attrcert.cli.options import Asked, command
from attrcert.foreign import printable, printable_lines

STYLES = {"ok": "green", "note": "cyan", "warn": "yellow", "fail": "bold red"}


@command("doctor", example="attrcert doctor model.safetensors data/val --arch torchvision:resnet18")
def doctor(asked: Asked) -> None:
    """Check a model and its data before bounding them: batch coupling, determinism, second derivatives, kinks such as
    max-pooling, the softplus twin's fidelity, input range, accuracy. Exit 3 if a check fails.
    """
    import json

    from attrcert.running.opening.opening import doctor as examined
    from attrcert.settings.computing import Place
    from attrcert.settings.explaining import Precision
    from attrcert.settings.output import Findings

    shown = asked.part(Findings)
    device, dtype = asked.part(Place).device, asked.part(Precision).dtype
    findings = examined(asked.model(), asked.data(), device=device, dtype=dtype)
    if shown.format == "json":
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
