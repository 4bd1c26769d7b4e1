"""Captum's attributions as own maps: a class of `captum.attr` is made with the model and asked for the target."""

import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor, nn

from attrcert.attributions.layers import chosen, layer_of
from attrcert.attributions.own import Model
from attrcert.errors import UsageError
from attrcert.registry import imported, unknown

PACKAGE = "captum.attr"
LAYER = "layer"
OPTION = "--attribution-arg layer="
SUCH_AS = {"baselines": "0", "sliding_window_shapes": "'(1, 4, 4)'", "neuron_selector": "0"}  # of what must be given
NOT_MAPS = ("Attribution", "NoiseTunnel")  # wrap others, or are what others are made of


@dataclass(frozen=True)
class CaptumMethod:
    """`arguments` go to the class where it takes them, and else to its `attribute`; `layer` names a module of the network."""

    name: str
    arguments: Mapping[str, Any]

    def __call__(self, model: Model, x: Tensor, target: Tensor) -> Any:
        given = {name: value for name, value in self.arguments.items() if name != LAYER}
        made = {name: value for name, value in given.items() if name in self._of_class}
        if LAYER in self._of_class:
            made[LAYER] = self._layer(model)[1]
        baselines = given.get("baselines")
        if "baselines" in self._needed and isinstance(baselines, int | float):  # a set of inputs, of at least two
            given["baselines"] = x.detach().new_full((2, *x.shape[1:]), baselines)
        asked = {"target": target} if "target" in self._of_call else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of hooks, which it takes away again
            found = self._member(model, **made).attribute(
                x, **asked, **{name: value for name, value in given.items() if name not in made}
            )
        return found[0] if isinstance(found, tuple) and len(found) == 1 else found

    def check(self) -> None:
        """Refuse a name or an argument that is not there, and the want of one that must be."""
        known = [*self._of_class[1:], *(name for name in self._of_call[1:] if name != "target")]
        for name in self.arguments:
            if name not in known:
                raise unknown(f"--attribution-arg of captum:{self.name}", name, known, where="")
        missing = [name for name in self._needed if name not in self.arguments]
        if missing:
            example = " ".join(f"--attribution-arg {name}={SUCH_AS.get(name, 'VALUE')}" for name in missing)
            raise UsageError(f"captum:{self.name} needs {' and '.join(missing)}, got none", hint=f"e.g. {example}")

    def note(self, model: Model) -> str:
        """The layer, where nobody chose one."""
        if LAYER not in self._of_class or LAYER in self.arguments:
            return ""
        return chosen(self._layer(model)[0], OPTION)

    @cached_property
    def _member(self) -> Any:
        try:
            package = imported(f"{PACKAGE}:__dict__")
        except ModuleNotFoundError as error:
            raise UsageError(f"captum:{self.name} needs Captum", hint="pip install 'attrcert[captum]'") from error
        maps = {
            name: one
            for name, one in package.items()
            if inspect.isclass(one) and hasattr(one, "attribute") and not name.endswith(NOT_MAPS)
        }
        if self.name not in maps:
            raise unknown("captum:NAME", self.name, sorted(maps), where="")
        return maps[self.name]

    @cached_property
    def _of_class(self) -> list[str]:
        """The parameters of the class, the model first."""
        return list(inspect.signature(self._member).parameters)

    @cached_property
    def _of_call(self) -> list[str]:
        """The parameters of `attribute`, the inputs first."""
        own = inspect.signature(self._member.attribute).parameters
        return [name for name in own if name not in ("self", "kwargs")]

    @cached_property
    def _needed(self) -> list[str]:
        """The arguments that have no default; the model, the layer, the inputs and the target are ours to give."""
        ours = ("self", "target", LAYER, *self._of_class[:1], *self._of_call[:1])
        both = (inspect.signature(self._member), inspect.signature(self._member.attribute))
        return [
            one.name
            for signature in both
            for one in signature.parameters.values()
            if one.default is one.empty and one.kind is not one.VAR_KEYWORD and one.name not in ours
        ]

    def _layer(self, model: Model) -> tuple[str, nn.Module]:
        wanted = self.arguments.get(LAYER)
        return layer_of(model.network, None if wanted is None else str(wanted), OPTION, f"captum:{self.name}")
