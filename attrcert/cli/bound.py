"""`attrcert bound`: per sample and eps, how far the attribution can be moved."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attrcert.cli import options
from attrcert.cli.console import talk
from attrcert.cli.session import compute
from attrcert.cli.specs import data_spec, model_spec
from attrcert.errors import UsageError
from attrcert.running.config import DEFAULT_MEMORY, DEFAULT_SOFTPLUS_BETA, BoundConfig
from attrcert.vocabulary import parse_eps

if TYPE_CHECKING:
    from attrcert.records import Row
    from attrcert.reporting.summaries import Summary
    from attrcert.running.runs import BoundRun

DEFAULTS = BoundConfig()
EPS_DEFAULT = [f"{eps:g}" for eps in DEFAULTS.eps]
FORMATS = ("table", "json", "csv", "markdown")
BUNDLED_LIMIT = 64
METHOD, SOLVER = "Method", "Solver"


def bound(
    checkpoint: options.Checkpoint = None,
    dataset: options.Dataset = None,
    attribution: Annotated[
        str,
        typer.Option(
            help="saliency (sm), input-x-gradient (ixg) or integrated-gradients (ig).", rich_help_panel=METHOD
        ),
    ] = DEFAULTS.attribution,
    norm: Annotated[
        str, typer.Option(help="Of the perturbation: l2, linf, or lp with --p.", rich_help_panel=METHOD)
    ] = DEFAULTS.norm,
    p: Annotated[float | None, typer.Option(help="Exponent for --norm lp.", rich_help_panel=METHOD)] = DEFAULTS.p,
    eps: Annotated[
        list[str],
        typer.Option(
            help="Size of the perturbation in pixel units [0,1], e.g. 0.1 or 8/255; repeatable.", rich_help_panel=METHOD
        ),
    ] = EPS_DEFAULT,
    target: Annotated[
        str, typer.Option(help="Explained class: predicted, label, or a class number.", rich_help_panel=METHOD)
    ] = DEFAULTS.target,
    ig_steps: Annotated[
        int, typer.Option(help="Nodes of integrated gradients.", rich_help_panel=METHOD)
    ] = DEFAULTS.ig_steps,
    quadrature: Annotated[
        str, typer.Option(help="gauss-legendre or riemann-right (the papers').", rich_help_panel=METHOD)
    ] = DEFAULTS.quadrature,
    baseline: Annotated[
        str,
        typer.Option(
            help="Of integrated gradients: a pixel value, mean (what normalisation maps to 0), or blur.",
            rich_help_panel=METHOD,
        ),
    ] = DEFAULTS.baseline,
    linf_method: Annotated[
        list[str],
        typer.Option(
            help="scaled, row-sums (forms d x d matrices), corollary; repeatable, the smallest wins.",
            rich_help_panel=METHOD,
        ),
    ] = list(DEFAULTS.linf_method),  # noqa: B006
    loss_hessian: Annotated[
        bool,
        typer.Option(
            "--loss-hessian",
            help="Bound the gradient of the cross-entropy loss of a ReLU network, in closed form, without softplus.",
            rich_help_panel=METHOD,
        ),
    ] = DEFAULTS.loss_hessian,
    label_constraint: Annotated[
        str,
        typer.Option(
            help="check whether the worst perturbations keep the label; tighten the bound where both signs lose it; off.",
            rich_help_panel=METHOD,
        ),
    ] = DEFAULTS.label_constraint,
    margin_classes: Annotated[
        int, typer.Option(help="Nearest classes looked at for the label margin.", rich_help_panel=METHOD)
    ] = DEFAULTS.margin_classes,
    eta_draws: Annotated[
        int, typer.Option(help="Random perturbations for eta_random.", rich_help_panel=METHOD)
    ] = DEFAULTS.eta_draws,
    slack: Annotated[
        float,
        typer.Option(help="Stop when the upper end is within this of the lower one, relative.", rich_help_panel=SOLVER),
    ] = DEFAULTS.slack,
    failure: Annotated[
        float, typer.Option(help="Probability, per sample, that an upper end is too small.", rich_help_panel=SOLVER)
    ] = DEFAULTS.failure,
    max_steps: Annotated[
        int, typer.Option(help="Lanczos steps after which a sample is not-converged.", rich_help_panel=SOLVER)
    ] = DEFAULTS.max_steps,
    arch: options.Arch = None,
    arch_arg: options.ArchArg = None,
    output: options.ModelOutput = None,
    mean: options.Mean = None,
    std: options.Std = None,
    softplus_beta: options.SoftplusBeta = f"{DEFAULT_SOFTPLUS_BETA:g}",
    data_root: options.DataRoot = "data",
    download: options.Download = False,
    resize: options.Resize = None,
    crop: options.Crop = None,
    channels: options.Channels = None,
    skip: options.Skip = 0,
    limit: options.Limit = None,
    indices: options.Indices = None,
    device: options.Device = "auto",
    dtype: options.Dtype = DEFAULTS.dtype,
    batch_size: options.BatchSize = "auto",
    ig_chunk: Annotated[
        int, typer.Option(help="Points of integrated gradients differentiated together.", rich_help_panel=options.RUN)
    ] = DEFAULTS.ig_chunk,
    memory: options.Memory = DEFAULT_MEMORY,
    seed: options.Seed = DEFAULTS.seed,
    max_incomplete: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="Exit 4 if a larger share of samples has no figure.", rich_help_panel=options.RUN
        ),
    ] = 0.0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="CSV with one row per sample and eps; the manifest goes beside it.", rich_help_panel=options.OUTPUT
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run that --out holds.", rich_help_panel=options.OUTPUT)
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what --out holds.", rich_help_panel=options.OUTPUT)
    ] = False,
    format_: Annotated[
        str,
        typer.Option(
            "--format", help="Format of stdout: table, json, csv or markdown.", rich_help_panel=options.OUTPUT
        ),
    ] = "table",
    json_: Annotated[
        bool, typer.Option("--json", help="The same as --format json.", rich_help_panel=options.OUTPUT)
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="No progress and no warnings on stderr.", rich_help_panel=options.OUTPUT),
    ] = False,
) -> None:
    """Bound, for each sample, how far its attribution can be moved by a perturbation of size eps.

    The figures are first-order: they bound the linearised attribution, and are estimates for the true one that
    attacks can exceed. Without arguments it bounds 64 images of the bundled Fashion-MNIST sample with the bundled
    natural model.
    """
    format_ = "json" if json_ else format_
    if format_ not in FORMATS:
        raise UsageError(f"--format must be one of {', '.join(FORMATS)}, got {format_!r}")
    if (resume or overwrite) and out is None:
        raise UsageError("--resume and --overwrite need --out")
    config = BoundConfig(
        attribution=attribution, norm=norm, p=p, eps=tuple(parse_eps(e) for e in options.words(eps)), target=target, ig_steps=ig_steps,
        quadrature=quadrature, baseline=baseline, ig_chunk=ig_chunk, loss_hessian=loss_hessian, linf_method=options.words(linf_method),
        label_constraint=label_constraint, margin_classes=margin_classes, eta_draws=eta_draws, slack=slack, failure=failure,
        max_steps=max_steps, seed=seed, dtype=dtype,
    )  # fmt: skip

    from attrcert.running.runs import RunOptions, open_run

    model = model_spec(checkpoint, arch, arch_arg, output, mean, std, softplus_beta)
    if dataset is None and limit is None and indices is None:
        limit = BUNDLED_LIMIT
    data = data_spec(dataset, data_root, download, resize, crop, channels, skip, limit, indices)
    run = open_run(model, data, config, RunOptions(device, options.size(batch_size), memory))
    rows = compute(run, out=out, resume=resume, overwrite=overwrite, quiet=quiet)
    summary = render(run, rows, format_)
    if summary.incomplete > max_incomplete * summary.samples:
        talk(
            f"incomplete: {summary.incomplete} of {summary.samples} samples have no figure, or one that has not converged; "
            f"--max-incomplete allows a share of {max_incomplete:g}"
        )
        raise typer.Exit(4)


def render(run: "BoundRun", rows: "list[Row]", format_: str) -> "Summary":
    """The result on stdout."""
    from attrcert.records import COLUMNS, to_csv
    from attrcert.reporting.summaries import bound_table, markdown, summarise

    summary = summarise(rows, run.facts())
    if format_ == "csv":
        sys.stdout.write(to_csv(rows, COLUMNS["bound"], header=True))
    elif format_ == "json":
        typer.echo(
            json.dumps({"identity": run.identity(), "summary": asdict(summary), "rows": rows}, indent=1, default=str)
        )
    elif format_ == "markdown":
        typer.echo(markdown(bound_table(summary)))
    else:
        from rich.console import Console

        from attrcert.reporting.tables import show

        show(bound_table(summary), Console(highlight=False))
    return summary
