"""`attrcert smooth`: the smoothed attributions themselves, since they are what is certified."""

from pathlib import Path
from typing import Annotated

import typer

from attrcert.cli import options
from attrcert.cli.console import talk
from attrcert.cli.execution import incomplete
from attrcert.cli.groups import Context, said, with_groups
from attrcert.cli.smoothing import SmoothGroup
from attrcert.errors import UsageError
from attrcert.saved.files import check_target, make_folder
from attrcert.saved.locks import Lock


@with_groups
def smooth(
    context: Context,
    smoothing: SmoothGroup,
    method: options.MethodGroup,
    model: options.ModelGroup,
    data: options.DataGroup,
    run: options.RunGroup,
    checkpoint: options.Checkpoint = None,
    dataset: options.Dataset = None,
    out: Annotated[Path, typer.Option(help="An .npz file for the maps.", rich_help_panel=options.OUTPUT)] = Path(
        "maps.npz"
    ),
    png: Annotated[
        Path | None,
        typer.Option(help="A folder for heatmaps beside their inputs.", rich_help_panel=options.OUTPUT),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file.", rich_help_panel=options.OUTPUT)
    ] = False,
) -> None:
    """Write each sample's smoothed attribution with its error bar: the map that the certificates speak of.

    The .npz has, per sample: index, label (-1 for none), predicted, target, image, map (the mean over the draws of the
    bounded attribution), standard_error (of each entry), C_hat (the map's length), C_lower (its lower bound with
    confidence) and M.
    """
    for name in ("eps", "min_cosine"):
        if said(context, name):
            raise UsageError(
                f"--{name.replace('_', '-')} means nothing here: a map is the same for every one",
                hint="`attrcert bound --smooth` certifies the maps",
            )
    if out.suffix != ".npz" or not out.parent.is_dir():
        raise UsageError(f"--out must name an .npz file in a folder that exists, got {out}")
    check_target(out)
    if out.exists() and not overwrite:
        raise UsageError(f"{out} exists", hint="--overwrite replaces it")
    config = smoothing.config("bound", method, run)
    if len(config.spread) > 1:
        raise UsageError(f"smooth takes one radius or sigma, got {len(config.spread)}")

    from attrcert.running.keeping.heatmaps import check_pictures, holds_maps, write_maps, write_pictures
    from attrcert.running.opening.runs import open_run

    if out.exists() and not holds_maps(out):
        raise UsageError(f"{out} is not a file of maps that attrcert wrote, and is not overwritten")
    if png is not None:
        make_folder(png)
    spec = data.spec(dataset, bundled_limit=options.BUNDLED_LIMIT)
    with Lock(out) as lock:
        if lock.note:
            talk(f"warning: {lock.note}", style="yellow")
        opened = open_run(model.spec(checkpoint, data.max_input), spec, config, run.options())
        if png is not None:
            check_pictures(png, opened.data.indices)
        maps, failed = write_maps(opened, out)
    talk(f"{len(maps['index'])} maps in {out}")
    if png is not None:
        write_pictures(maps, png)
        talk(f"{len(maps['index'])} pictures in {png}")
    for sample in failed:
        talk(f"no map of sample {sample.index}: {sample.kind}: {sample.message}", style="yellow")
    incomplete(len(failed), len(failed) + len(maps["index"]), "map", run)
