"""`attrcert merge`: one CSV of the CSVs of shards."""

import typer

from attrcert.cli.console import talk, warn
from attrcert.cli.options import Asked, command


@command("merge", example="attrcert merge shard-*.csv -o bounds.csv")
def merge(asked: Asked) -> None:
    """Join the CSVs of runs with --shard 1/N to N/N into the one that a run without --shard would have written.

    Perturbations (--save-deltas) and Jacobians are joined too, into files beside it.
    Files of different runs are refused, with what differs. Missing samples are told, with exit code 4; the run's own command
    without --shard, with --out and --resume, computes them.
    """
    from attrcert.saved.merging import merge as join
    from attrcert.settings.reading import Joining
    from attrcert.vocabulary import indices_text

    joining = asked.part(Joining)
    merged = join(joining.files)
    beside, notes = merged.write(joining.out, overwrite=joining.overwrite)
    for note in notes:
        warn(note)
    talk(f"{joining.out}: {len(merged.rows)} rows of {merged.samples} samples from {len(joining.files)} files")
    for kind, file in beside.items():
        talk(f"{file}: {kind}, {len(merged.arrays[kind])} arrays")
    if merged.missing:
        talk(f"missing: {len(merged.missing)} samples: {indices_text(merged.missing)}", style="yellow")
        talk("hint: the command of the shards without --shard, with this --out and --resume, computes them")
        raise typer.Exit(4)
