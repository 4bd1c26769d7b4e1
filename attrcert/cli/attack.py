"""`attrcert attack`: how far attacks do move the attribution, beside how far the bound says they can."""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from attrcert.cli import options
from attrcert.cli.execution import execute
from attrcert.cli.groups import Context, said, with_groups
from attrcert.columns import METRIC_NAMES
from attrcert.errors import UsageError
from attrcert.running.settings.config import ATTACK_NAMES, AttackConfig
from attrcert.running.settings.presets import PRESETS, preset
from attrcert.vocabulary import parse_number

ATTACK = "Attack"
DEFAULTS = AttackConfig()


@dataclass(frozen=True)
class AttackGroup:
    """What the attacks do: fields of the configuration."""

    attack: Annotated[
        list[str],
        typer.Option(help=f"{', '.join(ATTACK_NAMES)} (the best of all); repeatable.", rich_help_panel=ATTACK),
    ] = field(default_factory=lambda: list(DEFAULTS.attack))
    steps: Annotated[int, typer.Option(help="Steps from each start.", rich_help_panel=ATTACK)] = DEFAULTS.steps
    step_size: Annotated[
        str,
        typer.Option(help="auto (adapted as the attack goes), or a fixed size such as 1/255.", rich_help_panel=ATTACK),
    ] = "auto"
    restarts: Annotated[
        int,
        typer.Option(
            help="Random starts, beside both signs of the bound's worst perturbation.", rich_help_panel=ATTACK
        ),
    ] = DEFAULTS.restarts
    random_draws: Annotated[
        int,
        typer.Option(
            help="Draws of the random search, the baseline T_sampled; 0 leaves it out.", rich_help_panel=ATTACK
        ),
    ] = DEFAULTS.random_draws
    k: Annotated[
        int | None,
        typer.Option(
            help="Of top-k, in entries. Default: 100, 1000 for large images, at most an eighth.",
            show_default=False,
            rich_help_panel=ATTACK,
        ),
    ] = DEFAULTS.k
    keep: Annotated[
        str | None,
        typer.Option(
            help="Metric by which the best iterate is chosen. Default: the attack's own.",
            show_default=False,
            rich_help_panel=ATTACK,
        ),
    ] = DEFAULTS.keep
    target_map: Annotated[
        str,
        typer.Option(
            help="What manipulate aims at: frame, sample:N (that sample's map), or an image file.",
            rich_help_panel=ATTACK,
        ),
    ] = DEFAULTS.target_map
    map_weight: Annotated[
        float, typer.Option(help="Weight of the map in manipulate's loss.", rich_help_panel=ATTACK)
    ] = DEFAULTS.map_weight
    output_weight: Annotated[float, typer.Option(help="Weight of the probabilities in it.", rich_help_panel=ATTACK)] = (
        DEFAULTS.output_weight
    )
    direction_beta: Annotated[
        str | None,
        typer.Option(
            help="Softplus beta of the model that leads the way, e.g. 1, or 10:100 to let it grow. Default: the bound's.",
            show_default=False,
            rich_help_panel=ATTACK,
        ),
    ] = DEFAULTS.direction_beta
    measure_on: Annotated[
        str,
        typer.Option(
            help="twin: the model that the bound speaks of; relu: the network as it is, which no T_e here speaks of.",
            rich_help_panel=ATTACK,
        ),
    ] = DEFAULTS.measure_on
    metric: Annotated[
        list[str],
        typer.Option(
            help=f"{', '.join(METRIC_NAMES)}; repeatable. Default: all.", show_default=False, rich_help_panel=ATTACK
        ),
    ] = field(default_factory=lambda: list(DEFAULTS.metric))
    transfer: Annotated[
        list[str] | None,
        typer.Option(
            help="Attributions on which to measure the same perturbations; repeatable.", rich_help_panel=ATTACK
        ),
    ] = None

    def settings(self) -> dict[str, Any]:
        """The fields of a configuration."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        lists = {name: options.words(given[name] or []) for name in ("attack", "metric", "transfer")}
        size = None if self.step_size == "auto" else parse_number(self.step_size, "--step-size")
        return {**given, **lists, "step_size": size}


@with_groups
def attack(
    context: Context,
    attacks: AttackGroup,
    method: options.MethodGroup,
    model: options.ModelGroup,
    data: options.DataGroup,
    run: options.RunGroup,
    results: options.OutputGroup,
    checkpoint: options.Checkpoint = None,
    dataset: options.Dataset = None,
    preset_: Annotated[
        str | None,
        typer.Option(
            "--preset",
            help=f"A paper's settings, where none are given: {', '.join(PRESETS)}.",
            show_default=False,
            rich_help_panel=ATTACK,
        ),
    ] = None,
    auc: Annotated[
        bool,
        typer.Option(
            "--auc", help="Also the area under each figure over the eps list.", rich_help_panel=options.OUTPUT
        ),
    ] = False,
    save_deltas: Annotated[
        Path | None,
        typer.Option(
            help="Keep the perturbations in this .safetensors file, keyed by index, eps and attack.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
) -> None:
    """Attack each sample's attribution: move it as far as possible while the predicted label stays, and put that beside the
    bound of the same sample, attribution and ball.

    What an attack reaches (T_hat) is a lower bound of the worst case. Where it exceeds a first-order T_e, that is counted and shown;
    exit code 1 is for bounds that are proved or hold with confidence.
    """
    given = {**method.single(), **attacks.settings(), **run.settings()}
    config = AttackConfig(**{**given, **_unsaid(context, preset(preset_) if preset_ else {})})
    if auc and len(config.eps) < 2:
        raise UsageError("--auc needs at least two values of eps", hint="e.g. --eps 2/255 --eps 4/255 --eps 8/255")
    if save_deltas is not None and save_deltas.suffix != ".safetensors":
        raise UsageError(f"--save-deltas must name a .safetensors file, got {save_deltas}")
    if save_deltas is not None and results.out == save_deltas:
        raise UsageError("--out and --save-deltas must name two files, got the same")
    spec = data.spec(dataset, bundled_limit=options.BUNDLED_LIMIT)
    execute(config, model.spec(checkpoint, data.max_input), spec, run, results, deltas=save_deltas, auc=auc)


def _unsaid(context: Any, settings: Any) -> dict[str, Any]:
    """Those of a preset's settings that were not given on the command line."""
    return {name: value for name, value in settings.items() if not said(context, name)}
