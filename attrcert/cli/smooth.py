"""`attrcert smooth`: the smoothed attributions themselves, since they are what is certified."""

from attrcert.cli.console import silent, talk
from attrcert.cli.options import Asked, command
from attrcert.errors import UsageError


@command(
    "smooth",
    example="attrcert smooth model.safetensors data/val --smooth gaussian --sigma 0.1 --out maps.npz --png maps",
)
def smooth(asked: Asked) -> None:
    """Write each sample's smoothed attribution with its error bar: the map that the certificates speak of.

    The .npz has, per sample: index, label (-1 for none), predicted, target, image, map (the mean over the draws of the
    bounded attribution), standard_error (of each entry), C_hat (the map's length), C_lower (its lower bound with
    confidence) and M.
    """
    from attrcert.settings.computing import RunOptions
    from attrcert.settings.output import Complete, Files, Quiet

    task, files = asked.task(), asked.part(Files)

    from attrcert.cli.execution import incomplete
    from attrcert.running.keeping.heatmaps import (
        check_pictures,
        holds_maps,
        smoothed_maps,
        write_maps,
        write_pictures,
    )
    from attrcert.running.opening.opening import open_run
    from attrcert.saved.files import make_folder
    from attrcert.saved.locks import Lock

    out, png, say = files.out, files.png, silent if asked.part(Quiet).quiet else talk
    if out.exists() and not holds_maps(out):
        raise UsageError(f"{out} is not a file of maps that attrcert wrote, and is not overwritten")
    if png is not None:
        make_folder(png)
    with Lock(out) as lock:
        for note in lock.notes:
            say(f"warning: {note}", style="yellow")
        run = open_run(asked.model(), asked.data(), task, asked.part(RunOptions))
        if png is not None:
            check_pictures(png, run.data.indices)
        maps, failed = smoothed_maps(run)
        write_maps(maps, out)
    say(f"{len(maps['index'])} maps in {out}")
    if png is not None:
        write_pictures(maps, png)
        say(f"{len(maps['index'])} pictures in {png}")
    for sample in failed:
        say(f"no map of sample {sample.index}: {sample.kind}: {sample.message}", style="yellow")
    incomplete(len(failed), len(failed) + len(maps["index"]), "map", asked.part(Complete))
