"""`attrcert audit`: is the explanation stable?"""

import sys
from contextlib import AbstractContextManager
from typing import Any

import typer

from attrcert.cli.console import put, silent, talk, warn
from attrcert.cli.options import Asked, command
from attrcert.foreign import printable, shell
from attrcert.settings.auditing import Auditing

STYLES = {"ok": "", "note": "", "warn": "yellow", "fail": "bold red"}


@command("audit", example="attrcert audit model.safetensors data/val --arch torchvision:resnet18 -o audit --minutes 10")
def audit(asked: Asked) -> None:
    """Say whether the explanation is stable: check the model, attack, bound, prove and certify on as many samples as the time allows,
    and put what was found into words.

    Everything goes into a folder: a CSV of each part, report.html and verdict.md. The same command again goes on with more samples.
    """
    from attrcert.auditing.auditing import REPORT, Audited, Listener
    from attrcert.auditing.auditing import audit as audited
    from attrcert.cli.session import interruptible
    from attrcert.reporting.gating.promises import broken
    from attrcert.settings.output import Quiet

    quiet, auditing = asked.part(Quiet).quiet, asked.part(Auditing)
    listener = Listener() if quiet else Listener(talk, warn, _show, _bar)
    try:
        with interruptible():
            found = audited(Audited(asked.model(), asked.data(), auditing, asked.given), listener)
    except KeyboardInterrupt:
        _say_how_to_go_on(auditing)
        raise typer.Exit(4) from None
    put("\n".join(printable(sentence) for sentence in found.verdict))
    (silent if quiet else talk)(f"rows, verdict and page are in {auditing.out}; see {auditing.out / REPORT}")
    if any(broken(rows) for rows in found.rows.values()):
        raise typer.Exit(1)


def _show(findings: Any) -> None:
    for finding in findings:
        talk(f"{finding.level}: {finding.text}", style=STYLES[finding.level])


def _bar(name: str, total: int, done: int) -> AbstractContextManager[Any]:
    from attrcert.cli.progress import progress

    return progress(name, total, done, quiet=False)


def _say_how_to_go_on(asked: Auditing) -> None:
    talk(f"interrupted: what was computed is in {asked.out}. Go on with:")
    talk(f"  {shell(['attrcert', *(word for word in sys.argv[1:] if word != '--overwrite')])}")
