"""Networks from a name: bundled, torchvision's, or the user's own factory in a module or file."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from attrcert.errors import AttrcertError, InputError, ModelError, UsageError
from attrcert.loading.files import regular
from attrcert.loading.vision import torchvision
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


BUNDLED: dict[str, Callable[..., nn.Module]] = {"softplus-cnn": softplus_cnn, "softplus-mlp": softplus_mlp}
# With these torchvision downloads and unpickles; `progress` is of the download.
WEIGHT_ARGUMENTS = ("weights", "weights_backbone", "pretrained", "pretrained_backbone", "progress")


def build(arch: str, arguments: Mapping[str, Any]) -> nn.Module:
    """The network that `--arch` names; user code runs here, and its failures are reported as such."""
    make = (
        _torchvision_model(arch, arguments) if arch.startswith("torchvision:") else BUNDLED.get(arch) or factory(arch)
    )
    with reported(f"building {arch} with {dict(arguments)}", ModelError):
        network = make(**arguments)
    if not isinstance(network, nn.Module):
        raise ModelError(f"{arch} must return a torch.nn.Module, got {type(network).__name__}")
    return network


def factory(spec: str) -> Callable[..., Any]:
    """The callable named by `package.module:name` or `path/to/file.py:name`."""
    place, colon, name = spec.rpartition(":")
    if not colon and not spec.endswith(".py"):
        raise unknown("architecture", spec, BUNDLED)
    place = place or spec
    with _importable(place), reported(f"importing {place}", ModelError):
        module = _imported_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    found = getattr(module, name, None)
    if not callable(found):
        public = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        wrong = f"{place} has no callable {name!r}" if colon else f"--arch must be {place}:FACTORY, got {place}"
        raise ModelError(f"{wrong}; it has {', '.join(public)}")

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


def _torchvision_model(arch: str, arguments: Mapping[str, Any]) -> Callable[..., nn.Module]:
    """The builder, kept from downloading."""
    models = torchvision("models")
    name = arch.partition(":")[2]
    if name not in models.list_models():
        raise unknown("torchvision model", name, models.list_models())
    for key in WEIGHT_ARGUMENTS:
        if arguments.get(key) is not None:
            raise UsageError(f"weights come from the checkpoint: --arch-arg {key} must not be given with {arch}")
    builder = models.get_model_builder(name)
    none = {key: None for key in ("weights", "weights_backbone") if key in inspect.signature(builder).parameters}

    def make(**given: Any) -> nn.Module:
        return builder(**{key: value for key, value in given.items() if key not in WEIGHT_ARGUMENTS}, **none)

    return make


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
