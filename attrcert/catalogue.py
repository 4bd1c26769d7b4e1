"""What attrcert has, by family: name, meaning in one line, reference."""

import inspect
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open

from attrcert.attacks import ATTACKS, turning
from attrcert.attributions import ATTRIBUTIONS, BOUNDINGS
from attrcert.attributions.loss_gradient import PiecewiseLossGradient
from attrcert.bounds.first_order import (
    ball,
    ce_hessian,
    l2_spectral,
    label_dual,
    linf_corollary,
    linf_row_sums,
    linf_scaled,
    taylor_correction,
)
from attrcert.bounds.proved import form, secant, streamed, trust
from attrcert.bounds.smoothed import RULES, centre, lengths, pixels
from attrcert.columns import OF_ROW, TURN, Column, declared
from attrcert.loading import bundled
from attrcert.loading.architectures import BUNDLED
from attrcert.metrics import METRICS
from attrcert.papers import entries
from attrcert.references import PAPERS
from attrcert.registry import Family
from attrcert.running.evaluating.campaigns import Campaign
from attrcert.scores import SCORES
from attrcert.settings.attacking import WORST
from attrcert.settings.commands import COMMANDS
from attrcert.settings.presets import PRESETS, Preset
from attrcert.statistics import CONFIDENCES
from attrcert.vocabulary import CLT, Guarantee

Entry = dict[str, str]
KEY = re.compile(r"\[([a-z]+\d{4}[a-z]+)")  # of a paper, as docstrings cite it

CERTIFICATES = {
    "spectral (l2, lp)": l2_spectral,
    "scaled (linf)": linf_scaled,
    "row-sums (linf)": linf_row_sums,
    "corollary (linf)": linf_corollary,
    "gram (--loss-hessian)": ce_hessian,
    "correction c": taylor_correction,
    "ball (--ball)": ball,
    "label constraint": label_dual,
    "secant (--proved)": secant,
    "trust-region ranges (--proved)": trust,
    "joint (--proved)": form,
    "streamed (--proved)": streamed,
    "smoothing (--smooth)": lengths,
    "centre smoothing (--smooth centre)": centre,
    "pixels (--certify-pixels)": pixels,
}


def families() -> dict[str, list[Entry]]:
    """All families; entries are read from the docstrings, so that they say what the code says."""
    attributions, scores = (
        {_with_aliases(name, family): member for name, member in family.items()} for family in (ATTRIBUTIONS, SCORES)
    )
    return {
        "attributions": _described({**attributions, "loss-gradient (--loss-hessian)": PiecewiseLossGradient}),
        "certificates": _described(CERTIFICATES),
        "rules": _described(dict(RULES.items())),
        "boundings": _described(dict(BOUNDINGS.items())),
        "confidence-bounds": _described({**dict(CONFIDENCES.items()), CLT: lengths.clt_length}),
        "attacks": _described({**dict(ATTACKS.items()), WORST: Campaign.worst, f"{TURN} (--smooth)": turning}),
        "presets": [_entry(name, _preset(preset), preset.meaning) for name, preset in PRESETS.items()],
        "metrics": _described(dict(METRICS.items())),
        "scores": _described(scores),
        "models": [_entry(name, _model_meaning(path)) for name, path in bundled.models().items()],
        "samples": [_entry(name, bundled.MEANINGS[name]) for name in bundled.samples()],
        "architectures": _described(BUNDLED),
        "papers": entries(),
        "settings": _settings(),
        "columns": [{**_entry(column.name, column.meaning), "guarantee": _promise(column)} for column in declared()],
        "guarantees": [_entry(guarantee.value, guarantee.meaning) for guarantee in Guarantee],
    }


def _promise(column: Column) -> str:
    """What a column's figure guarantees."""
    return "as the row says" if column.guarantee == OF_ROW else str(column.guarantee or "")


def _described(members: Mapping[str, Any]) -> list[Entry]:
    """By their own docstrings; the paper is their module's unless they name one."""
    found = []
    for name, member in members.items():
        text = inspect.getdoc(member) or ""
        found.append(_entry(name, text, text if KEY.search(text) else inspect.getdoc(inspect.getmodule(member)) or ""))
    return found


def _entry(name: str, text: str, source: str = "") -> Entry:
    paragraph = " ".join(text.split("\n\n")[0].split())
    papers = [PAPERS[key] for key in KEY.findall(source.split("\n\n")[0]) if key in PAPERS]
    reference = "; ".join(f"{paper.authors}, {paper.venue}" for paper in papers)
    return {"name": name, "meaning": re.sub(r" ?\[[a-z]+\d{4}[^\]]*\]", "", paragraph), "reference": reference}


def _settings() -> list[Entry]:
    """Every option of every command, and which of them have it with that meaning."""
    found: dict[tuple[str, str], list[str]] = {}
    for command, known in COMMANDS.items():
        for offer in known.offers:
            if not offer.hidden:
                found.setdefault((offer.spelt, offer.meaning), []).append(command)
    return [{**_entry(name, meaning), "commands": ", ".join(have)} for (name, meaning), have in found.items()]


def _preset(preset: Preset) -> str:
    """What a preset stands for, in words and in options."""
    options = ", ".join(f"{name.replace('_', '-')} {_word(value)}" for name, value in preset.settings.items())
    return f"{preset.meaning} ({options})"


def _word(value: Any) -> str:
    if isinstance(value, tuple):
        return "+".join(_word(part) for part in value)
    if not isinstance(value, float):
        return str(value)
    short = f"{value:g}"  # pixel units as they are written: 8/255, but 0.1
    return short if len(short) < 6 else f"{255 * value:g}/255"


def _with_aliases(name: str, family: Family[Any]) -> str:
    aliases = family.aliases(name)
    return f"{name} ({', '.join(aliases)})" if aliases else name


def _model_meaning(path: Path) -> str:
    with safe_open(path, framework="np") as file:
        facts = {key.removeprefix("attrcert."): value for key, value in (file.metadata() or {}).items()}
    accuracy = f"{float(facts['test_accuracy']):.1%} test accuracy"
    if "adversarial_accuracy" in facts:
        accuracy += f", {float(facts['adversarial_accuracy']):.1%} under the attack it was trained against"
    return f"{facts['arch']} {json.loads(facts['arch_args'])}: {accuracy}"
