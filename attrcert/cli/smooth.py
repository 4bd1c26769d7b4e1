"""`attrcert smooth`: the smoothed attributions themselves, since they are what is certified."""

import os
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from attrcert.cli.console import show_tables, silent, talk
from attrcert.cli.options import Asked, command
from attrcert.errors import UsageError

if TYPE_CHECKING:
    from attrcert.columns import Row
    from attrcert.running.evaluating.samples import Failed
    from attrcert.running.opening.runs import Run
    from attrcert.settings.output import Files


@command(
    "smooth",
    example="attrcert smooth model.safetensors data/val --smooth gaussian --sigma 0.1 --out maps.npz --png maps",
)
def smooth(asked: Asked) -> None:
    """Write each sample's smoothed attribution with its error bar: the map that the certificates speak of.

    The .npz has, per sample: index, label (-1 for none), predicted, target, image, map (the mean over the draws of the
    bounded attribution), standard_error (of each entry), C_hat (the map's length), C_lower (its lower bound with
    confidence) and M.

    With --certify-pixels 10% each draw marks the largest 10% of its pixels, and it is certified which pixels stay marked, and
    which stay unmarked, for more than half of the noise at every perturbed input near the sample. The .npz then has pixel_side
    (1 certified top, -1 certified not, 0 abstained) and pixel_radius (the l2 distance up to which that holds) too, and the
    pictures of --png show the sides.
    """
    from attrcert.settings.certifying import SmoothConfig
    from attrcert.settings.computing import RunOptions
    from attrcert.settings.output import Complete, Files, Quiet

    task, files = asked.task(), asked.part(Files)
    assert isinstance(task, SmoothConfig)
    certifying = task.pixels.certify_pixels is not None
    if files.csv is not None and not certifying:
        raise UsageError("--csv has rows of certified pixels", hint="add --certify-pixels 10%")

    from attrcert.cli.execution import incomplete
    from attrcert.cli.session import tell_findings
    from attrcert.running.keeping.map_pictures import check_pictures, write_pictures
    from attrcert.running.opening.opening import open_run
    from attrcert.saved.files import make_folder
    from attrcert.saved.locks import Lock
    from attrcert.saved.map_files import holds_maps

    out, png, say = files.out, files.png, silent if asked.part(Quiet).quiet else talk
    if out.exists() and not holds_maps(out):
        raise UsageError(f"{out} is not a file of maps that attrcert wrote, and is not overwritten")
    if png is not None:
        make_folder(png)
    with Lock(out) as lock:
        run = open_run(asked.model(), asked.data(), task, asked.part(RunOptions))
        tell_findings(run, quiet=asked.part(Quiet).quiet)
        if png is not None:
            check_pictures(png, run.shape, run.data.indices)
        for note in (*(finding.text for finding in run.findings if finding.level == "warn"), *lock.notes):
            say(f"warning: {note}", style="yellow")
        maps, failed, rows = _computed(run, files, say, certifying=certifying)
    say(f"{len(maps['index'])} maps in {out}")
    if png is not None:
        write_pictures(maps, png, rows)
        say(f"{len(maps['index'])} pictures in {png}")
    _tell(failed, say)
    if certifying:
        _show(run, rows)
    incomplete(len(failed), len(failed) + len(maps["index"]), "map", asked.part(Complete))


def _computed(
    run: "Run", files: "Files", say: Callable[..., None], *, certifying: bool
) -> "tuple[dict[str, Any], list[Failed], list[Row]]":
    """The maps, the samples without one, and the rows of certified pixels; saved as they are asked for."""
    from attrcert.cli.session import now
    from attrcert.running.keeping.heatmaps import smoothed_maps
    from attrcert.running.keeping.pixel_rows import pixel_rows
    from attrcert.saved.map_files import write_maps

    with run.file(files.csv, overwrite=files.overwrite) if files.csv else nullcontext() as table:
        for note in table.notes if table else ():
            say(f"warning: {note}", style="yellow")
        started = now()
        maps, failed = smoothed_maps(run)
        write_maps(maps, files.out)
        rows = pixel_rows(run, maps, failed) if certifying else []
        if table:
            told = {"maps": os.path.relpath(files.out, table.path.parent), "started": started, "ended": now()}
            table.append(rows)
            table.write_manifest({**run.environment(), **told})
    return maps, failed, rows


def _tell(failed: "list[Failed]", say: Callable[..., None]) -> None:
    for sample in failed:
        say(f"no map of sample {sample.index}: {sample.kind}: {sample.message}", style="yellow")


def _show(run: "Run", rows: "list[Row]") -> None:
    """What is certified, on stdout."""
    from attrcert.reporting.summaries.bounds import summarise
    from attrcert.reporting.summaries.overviews import overview
    from attrcert.reporting.summaries.sentences import sentences

    tables = overview(run.config.command, rows, summarise(rows, run.facts()))
    show_tables(tables, sentences(rows, run.config.command, run.identity()), "table")
