"""`attrcert`: the commands, and errors as messages with exit codes."""

import io
import signal
import sys

import typer

from attrcert.cli.attack import attack
from attrcert.cli.bound import bound
from attrcert.cli.catalogue import catalogue
from attrcert.cli.console import talk
from attrcert.cli.doctor import doctor
from attrcert.cli.gate import gate
from attrcert.cli.max_eps import max_eps
from attrcert.cli.merge import merge
from attrcert.cli.min_radius import min_radius
from attrcert.cli.report import report
from attrcert.cli.smooth import smooth
from attrcert.errors import AttrcertError

app = typer.Typer(
    name="attrcert",
    help="How far can a feature attribution be moved by a perturbation of size eps? Bounds and attacks per sample, and "
    "what each figure guarantees.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
app.command()(bound)
app.command()(attack)
app.command("max-eps")(max_eps)
app.command("min-radius")(min_radius)
app.command()(smooth)
app.command()(gate)
app.command()(report)
app.command()(merge)
app.command()(doctor)
app.command()(catalogue)


def _version(wanted: bool) -> bool:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"attrcert {version('attrcert')}")
        raise typer.Exit
    return wanted


@app.callback()
def _main(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    pass


def main() -> None:
    """Run a command; an error that a user can act on is two lines on stderr, not a traceback."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `attrcert ... | head` ends as other programs do
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files need not be text
    try:
        app()
    except AttrcertError as error:
        talk(f"error: {error.message}", style="bold red")
        if error.hint:
            talk(f"hint: {error.hint}")
        sys.exit(error.exit_code)
