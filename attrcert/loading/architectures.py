"""Networks from a name: bundled, of a library, or the user's own factory in a module or file."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from torch import nn

from attrcert.errors import AttrcertError, InputError, ModelError
from attrcert.loading.files import regular
from attrcert.loading.libraries import library_of
from attrcert.loading.published import PUBLISHED
from attrcert.loading.vision import prepare_torchvision, torchvision
from attrcert.registry import unknown


def softplus_cnn(
    channels: int = 1, size: int = 28, classes: int = 10, width: int = 16, hidden: int = 100, beta: float = 5.0
) -> nn.Module:
    """Two strided convolutions and two dense layers with softplus between: no kink, no max-pool."""
    return nn.Sequential(
        nn.Conv2d(channels, width, 4, stride=2, padding=1),
        nn.Softplus(beta),
        nn.Conv2d(width, 2 * width, 4, stride=2, padding=1),
        nn.Softplus(beta),
        nn.Flatten(),
        nn.Linear(2 * width * (size // 4) ** 2, hidden),
        nn.Softplus(beta),
        nn.Linear(hidden, classes),
    )


def softplus_mlp(
    inputs: int = 784, classes: int = 10, hidden: int = 32, depth: int = 1, beta: float = 5.0
) -> nn.Module:
    """Dense layers with softplus between."""
    layers: list[nn.Module] = [nn.Flatten()]
    for _ in range(depth):
        layers += [nn.Linear(inputs, hidden), nn.Softplus(beta)]
        inputs = hidden
    return nn.Sequential(*layers, nn.Linear(inputs, classes))


BUNDLED: dict[str, Callable[..., nn.Module]] = {
    "softplus-cnn": softplus_cnn,
    "softplus-mlp": softplus_mlp,
    **PUBLISHED,
}
CLASS_ARGUMENTS = ("num_classes", "num_labels", "n_classes", "classes")  # what factories call the number of classes


def build(arch: str, arguments: Mapping[str, Any]) -> nn.Module:
    """The network that `--arch` names; user code runs here, and its failures are reported as such."""
    return made(maker(arch), arch, arguments)


def maker(arch: str) -> Callable[..., Any]:
    """What builds the network; user code is imported here."""
    found = library_of(arch)
    if found is None:
        return BUNDLED.get(arch) or factory(arch)
    library, name = found
    return lambda **arguments: library.network(name, arguments)


def made(make: Callable[..., Any], arch: str, arguments: Mapping[str, Any]) -> nn.Module:
    with reported(f"building {arch} with {dict(arguments)}", ModelError):
        network = make(**arguments)
    if not isinstance(network, nn.Module):
        raise ModelError(f"{arch} must return a torch.nn.Module, got {type(network).__name__}")
    return network


def class_argument(make: Callable[..., Any], arch: str) -> str | None:
    """The argument of a factory for the number of classes, if it has one."""
    if library_of(arch):
        return "num_labels" if arch.startswith("hf:") else "num_classes"
    return next((name for name in CLASS_ARGUMENTS if name in _parameters(make)), None)


def is_required(make: Callable[..., Any], argument: str) -> bool:
    known = _parameters(make).get(argument)
    return known is not None and known.default is inspect.Parameter.empty


def _parameters(make: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(make).parameters
    except (ValueError, TypeError):  # of what is not written in Python
        return {}


def factory(spec: str) -> Callable[..., Any]:
    """The callable named by `package.module:name` or `path/to/file.py:name`."""
    place, colon, name = spec.rpartition(":")
    if not colon and not spec.endswith(".py"):
        raise unknown("architecture", spec, BUNDLED)
    place = place or spec
    prepare_torchvision()  # before code of others imports it
    with _importable(place), reported(f"importing {place}", ModelError):
        module = _imported_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    found = getattr(module, name, None)
    if not callable(found):
        public = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        wrong = f"{place} has no callable {name!r}" if colon else f"--arch must be {place}:FACTORY, got {place}"
        raise ModelError(f"{wrong}; it has {', '.join(public)}")

    @wraps(found)
    def make(*given: Any, **arguments: Any) -> Any:
        with _importable(place):
            return found(*given, **arguments)

    return make


def is_safe_to_name(arch: str) -> bool:
    """Whether a stranger's file may name it: nothing but layers is made, whatever the arguments are."""
    if not arch.startswith("torchvision:"):
        return arch in BUNDLED
    models = torchvision("models")
    return arch.partition(":")[2] in models.list_models(module=models)  # classifiers; others fetch a backbone


@contextmanager
def reported(doing: str, kind: type[InputError], *, hint: str = "") -> Iterator[None]:
    """Code of others may raise whatever it likes: it is an error of this kind."""
    try:
        yield
    except AttrcertError:
        raise
    except (Exception, SystemExit) as error:
        raise kind(f"{doing} failed: {type(error).__name__}: {error}", hint=hint) from error


@contextmanager
def _importable(place: str) -> Iterator[None]:
    """The user's code may import its neighbours, when it is imported and when it is called."""
    folder = str(Path(place).resolve().parent) if place.endswith(".py") else str(Path.cwd())
    before = list(sys.path)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path[:] = before


def _imported_file(path: Path) -> Any:
    regular(path, "file", ModelError)
    name = f"attrcert_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look their module up
    spec.loader.exec_module(module)
    return module
