"""`attrcert catalogue`: what there is, what each thing is, and whose theorem."""

from attrcert.cli.options import Asked, command


@command("catalogue", example="attrcert catalogue attacks")
def catalogue(asked: Asked) -> None:
    """List attributions, certificates, attacks, presets, metrics, models, samples, settings, columns, and what the guarantees mean."""
    import json

    from attrcert.catalogue import families
    from attrcert.cli.console import put, stdout
    from attrcert.foreign import printable
    from attrcert.settings.reading import Listing

    listing = asked.part(Listing)
    picked = {name: entries for name, entries in families().items() if listing.family in (None, name)}
    if listing.format == "json":
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
