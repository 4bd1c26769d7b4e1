"""What attrcert has, by family: name, meaning in one line, reference."""

import inspect
import json
import re
from pathlib import Path
from typing import Any

from safetensors import safe_open

from attrcert.attacks import ATTACKS
from attrcert.attributions import ATTRIBUTIONS, BOUNDINGS
from attrcert.attributions.loss_gradient import LossGradient
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
from attrcert.bounds.proved import secant
from attrcert.bounds.smoothed import RULES, lengths
from attrcert.columns import OF_ROW, Column, declared
from attrcert.loading import bundled
from attrcert.loading.architectures import BUNDLED
from attrcert.metrics import METRICS
from attrcert.references import PAPERS
from attrcert.running.evaluating.campaigns import Campaign
from attrcert.settings.attacking import WORST
from attrcert.settings.commands import COMMANDS
from attrcert.settings.declared import Settings, default_of, spelt
from attrcert.settings.declared import declared as declared_in
from attrcert.settings.presets import PRESETS, Preset
from attrcert.settings.tasks import settings_of
from attrcert.statistics import CONFIDENCES
from attrcert.vocabulary import CLT, Guarantee

Entry = dict[str, str]

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
    "smoothing (--smooth)": lengths,
}


def families() -> dict[str, list[Entry]]:
    """All families; entries are read from the docstrings, so that they say what the code says."""
    attributions = [
        _entry(_with_aliases(name), inspect.getdoc(member) or "", _module_claim(member))
        for name, member in ATTRIBUTIONS.items()
    ]
    attributions.append(
        _entry("loss-gradient (--loss-hessian)", inspect.getdoc(LossGradient) or "", _module_claim(LossGradient))
    )
    return {
        "attributions": attributions,
        "certificates": [
            _entry(name, module.__doc__ or "", module.__doc__ or "") for name, module in CERTIFICATES.items()
        ],
        "rules": [_described(name, member) for name, member in RULES.items()],
        "boundings": [_described(name, member) for name, member in BOUNDINGS.items()],
        "confidence-bounds": [
            *(_described(name, member) for name, member in CONFIDENCES.items()),
            _entry(CLT, inspect.getdoc(lengths.clt_length) or "", lengths.__doc__ or ""),
        ],
        "attacks": [
            *(_entry(name, inspect.getdoc(member) or "", _module_claim(member)) for name, member in ATTACKS.items()),
            _entry(WORST, inspect.getdoc(Campaign.worst) or "", ""),
        ],
        "presets": [_entry(name, _preset(preset), preset.meaning) for name, preset in PRESETS.items()],
        "metrics": [
            _entry(name, inspect.getdoc(member) or "", inspect.getdoc(member) or "") for name, member in METRICS.items()
        ],
        "models": [_entry(name, _model_meaning(path), "") for name, path in bundled.models().items()],
        "samples": [_entry(name, "256 images of the Fashion-MNIST test set", "") for name in bundled.samples()],
        "architectures": [_entry(name, inspect.getdoc(make) or "", "") for name, make in BUNDLED.items()],
        "settings": _settings(),
        "columns": [
            {**_entry(column.name, column.meaning, ""), "guarantee": _promise(column)} for column in declared()
        ],
        "guarantees": [_entry(guarantee.value, guarantee.meaning, "") for guarantee in Guarantee],
    }


def _promise(column: Column) -> str:
    """What a column's figure guarantees."""
    return "as the row says" if column.guarantee == OF_ROW else str(column.guarantee or "")


def _described(name: str, member: type) -> Entry:
    """By its own docstring; the paper is its module's unless it names one."""
    text = inspect.getdoc(member) or ""
    return _entry(name, text, text if "[" in text else _module_claim(member))


def _entry(name: str, text: str, source: str) -> Entry:
    paragraph = " ".join(text.split("\n\n")[0].split())
    keys = [key for key in re.findall(r"\[([a-z]+\d{4}[a-z]+)", source.split("\n\n")[0]) if key in PAPERS]
    reference = "; ".join(f"{PAPERS[key].authors}, {PAPERS[key].venue}" for key in keys)
    return {"name": name, "meaning": re.sub(r" ?\[[a-z]+\d{4}[^\]]*\]", "", paragraph), "reference": reference}


def _settings() -> list[Entry]:
    """Every option of the computing commands, and which of them have it."""
    homes: dict[str, tuple[type[Settings], list[str]]] = {}
    for name, command in COMMANDS.items():
        meant = {key for task in command.tasks for key in settings_of(task)}
        for part in command.parts:
            for key in declared_in(part):
                _, commands = homes.setdefault(key, (part, []))
                if name not in commands and (key in meant or part in command.others):
                    commands.append(name)
    return [_setting(key, part, ", ".join(commands)) for key, (part, commands) in homes.items() if commands]


def _setting(name: str, part: type[Settings], commands: str) -> Entry:
    how, default = declared_in(part)[name], default_of(part, name)
    choices = f" One of {', '.join(how.words)}." if how.words else ""
    usual = how.unsaid or (
        "" if default is None or isinstance(default, bool) or default in ((), {}) else _word(default)
    )
    text = how.help + choices + (f" Default: {usual}." if usual else "")
    return {"name": spelt(name, how), "meaning": text, "reference": "", "commands": commands}


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


def _with_aliases(name: str) -> str:
    aliases = ATTRIBUTIONS.aliases(name)
    return f"{name} ({', '.join(aliases)})" if aliases else name


def _module_claim(member: type) -> str:
    return inspect.getdoc(inspect.getmodule(member)) or ""


def _model_meaning(path: Path) -> str:
    with safe_open(path, framework="np") as file:
        facts = {key.removeprefix("attrcert."): value for key, value in (file.metadata() or {}).items()}
    accuracy = f"{float(facts['test_accuracy']):.1%} test accuracy"
    if "adversarial_accuracy" in facts:
        accuracy += f", {float(facts['adversarial_accuracy']):.1%} under the attack it was trained against"
    return f"{facts['arch']} {json.loads(facts['arch_args'])}: {accuracy}"
