"""`attrcert catalogue`: what there is, what each thing is, and whose theorem."""

from collections.abc import Mapping, Sequence

from attrcert.cli.options import Asked, command

Entries = Sequence[Mapping[str, str]]


@command("catalogue", example="attrcert catalogue papers --paper wang2023practical")
def catalogue(asked: Asked) -> None:
    """List attributions, certificates, attacks, presets, metrics, models, samples, settings, columns, what the guarantees mean, and of
    five papers what they state, where it is here, the command that shows it, and what is corrected.
    """
    import json

    from attrcert.cli.console import put
    from attrcert.papers import entries
    from attrcert.settings.reading import Listing

    listing = asked.part(Listing)
    if listing.family == "papers" or listing.paper:  # which need no torch
        picked = {"papers": [one for one in entries() if listing.paper in (None, one["paper"])]}
    else:
        from attrcert.catalogue import families

        picked = {name: found for name, found in families().items() if listing.family in (None, name)}
    if listing.format == "json":
        put(json.dumps(picked, indent=1))
        return
    for name, found in picked.items():
        (_papers if name == "papers" else _table)(name, found)


def _table(name: str, entries: Entries) -> None:
    from rich.table import Table
    from rich.text import Text

    from attrcert.cli.console import stdout
    from attrcert.foreign import printable

    last = next((key for key in ("guarantee", "commands") if key in entries[0]), "reference")
    table = Table("name", "what it is", last, title=name, title_justify="left", show_edge=False, header_style="bold")
    for entry in entries:
        table.add_row(*(Text(printable(entry[part])) for part in ("name", "meaning", last)))
    console = stdout()
    console.print(table)
    console.print()


def _papers(name: str, entries: Entries) -> None:
    """A few lines for each item; modules and commands are whole on a line, to be copied."""
    from rich.padding import Padding
    from rich.text import Text

    from attrcert.cli.console import stdout

    console, shown = stdout(), ""
    for entry in entries:
        if entry["paper"] != shown:
            shown = entry["paper"]
            console.print(Text(f"{shown} ({entry['reference']})\n", style="bold"))
        about = Text.assemble((entry["name"], "bold"), f", {entry['sort']}: {entry['meaning']}")
        console.print(Padding(about, (0, 0, 0, 2)))
        console.print(Text(f"    {entry['module'] or 'not in attrcert'}"), soft_wrap=True)
        if entry["command"]:
            console.print(Text(f"    $ {entry['command']}"), soft_wrap=True)
        if entry["corrected"]:
            console.print(Padding(Text(f"Corrected: {entry['corrected']}"), (0, 0, 0, 4)))
        console.print()
