"""`attrcert`: the commands, and errors as messages with exit codes."""

import sys
from typing import Any

import typer
from typer.core import TyperGroup

from attrcert.cli.attack import attack
from attrcert.cli.audit import audit
from attrcert.cli.bound import bound
from attrcert.cli.catalogue import catalogue
from attrcert.cli.console import put
from attrcert.cli.doctor import doctor
from attrcert.cli.endings import ended
from attrcert.cli.gate import gate
from attrcert.cli.max_eps import max_eps
from attrcert.cli.merge import merge
from attrcert.cli.min_radius import min_radius
from attrcert.cli.options import without_types
from attrcert.cli.report import report
from attrcert.cli.score import score
from attrcert.cli.smooth import smooth
from attrcert.cli.streams import standard_streams
from attrcert.errors import told

TRACEBACK = "--traceback"
OFFERED = (audit, bound, attack, max_eps, min_radius, smooth, score, doctor, gate, report, merge, catalogue)


class Commands(TyperGroup):
    """Errors that typer would end with 1, the exit code of a rule that failed, are errors like others."""

    def get_params(self, ctx: Any) -> Any:
        return without_types(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The options of the one command that was named are made now, and none for a list of all commands."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, found and next(one.made() for one in OFFERED if one.name == name), rest

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (EOFError, OSError, SystemExit) as error:
            raise told(error) from error


app = typer.Typer(
    name="attrcert",
    cls=Commands,
    help="How far can a feature attribution be moved by a perturbation of size eps? Bounds and attacks per sample, and "
    "what each figure guarantees.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
for one in OFFERED:
    app.command(one.name, help=one.help)(lambda: None)


def _version(wanted: bool) -> bool:
    if wanted:
        from importlib.metadata import version

        put(f"attrcert {version('attrcert')}")
        raise typer.Exit
    return wanted


@app.callback()
def _main(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
    traceback: bool = typer.Option(
        False, TRACEBACK, help="Show where in the program an error came from; before or after the command."
    ),
) -> None:
    pass


def main() -> None:
    """Run a command; an error is two lines on stderr and an exit code, not a traceback unless one is asked for."""
    words, traceback = _asked(sys.argv[1:])
    with standard_streams():
        code = ended(lambda: app(args=words), traceback=traceback)
    sys.exit(code)


def _asked(words: list[str]) -> tuple[list[str], bool]:
    """The words without --traceback, which may stand anywhere, and whether it was there."""
    end = words.index("--") if "--" in words else len(words)
    return [word for word in words[:end] if word != TRACEBACK] + words[end:], TRACEBACK in words[:end]
