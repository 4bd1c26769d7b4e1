"""`attrcert merge`: one CSV of the CSVs of shards."""

from pathlib import Path
from typing import Annotated

import typer

from attrcert.cli.console import talk
from attrcert.errors import UsageError


def merge(
    files: Annotated[list[Path], typer.Argument(help="The CSVs of all shards.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The CSV to write; its manifest goes beside it.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what --out holds.")] = False,
) -> None:
    """Join the CSVs of runs with --shard 1/N to N/N into the one that a run without --shard would have written.

    Perturbations (--save-deltas) and Jacobians are joined too, into files beside it.
    Files of different runs are refused, with what differs. Missing samples are told, with exit code 4; the run's own command
    without --shard, with --out and --resume, computes them.
    """
    from attrcert.saved.merging import merge as join
    from attrcert.vocabulary import indices_text

    if any(file.resolve() == out.resolve() for file in files):
        raise UsageError(f"{out} is one of the files to join", hint="choose another --out")
    merged = join(files)
    beside, notes = merged.write(out, overwrite=overwrite)
    for note in notes:
        talk(f"warning: {note}", style="yellow")
    talk(f"{out}: {len(merged.rows)} rows of {merged.samples} samples from {len(files)} files")
    for kind, file in beside.items():
        talk(f"{file}: {kind}, {len(merged.arrays[kind])} arrays")
    if merged.missing:
        talk(f"missing: {len(merged.missing)} samples: {indices_text(merged.missing)}", style="yellow")
        talk("hint: the command of the shards without --shard, with this --out and --resume, computes them")
        raise typer.Exit(4)
