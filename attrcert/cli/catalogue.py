"""`attrcert catalogue`: what there is, what each thing is, and whose theorem."""

import json
from typing import Annotated

import typer

from attrcert.cli.console import put, stdout
from attrcert.errors import UsageError
from attrcert.foreign import printable
from attrcert.registry import unknown
from attrcert.settings.declared import OUTPUT


def catalogue(
    family: Annotated[
        str | None,
        typer.Argument(
            help="attributions, certificates, rules, boundings, confidence-bounds, attacks, presets, metrics, models, samples, "
            "architectures, settings, columns or guarantees. Default: all.",
            show_default=False,
        ),
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", metavar="[table|json]", help="Format of stdout.", rich_help_panel=OUTPUT)
    ] = "table",
) -> None:
    """List attributions, certificates, attacks, presets, metrics, models, samples, settings, columns, and what the guarantees mean."""
    if format_ not in ("table", "json"):
        raise UsageError(f"--format must be table or json, got {format_!r}")

    from attrcert.catalogue import families

    found = families()
    if family is not None and family not in found:
        raise unknown("family", family, found)
    picked = {name: entries for name, entries in found.items() if family in (None, name)}
    if format_ == "json":
        put(json.dumps(picked, indent=1))
        return
    from rich.table import Table
    from rich.text import Text

    console = stdout()
    for name, entries in picked.items():
        last = next((key for key in ("guarantee", "commands") if key in entries[0]), "reference")
        table = Table(
            "name", "what it is", last, title=name, title_justify="left", show_edge=False, header_style="bold"
        )
        for entry in entries:
            table.add_row(*(Text(printable(entry[part])) for part in ("name", "meaning", last)))
        console.print(table)
        console.print()
