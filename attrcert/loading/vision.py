"""The one importer of torchvision; declares what a stock wheel misses beside a CPU-only torch."""

import importlib
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

import torch

# A stock torchvision wheel beside a CPU-only torch has no compiled operators, and importing it dies while it
# registers fake kernels for these two. Declaring their schemas is enough for datasets, models and transforms.
_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_declared: list[torch.library.Library] = []


def torchvision(module: str = "") -> ModuleType:
    """torchvision, or one of its modules."""
    name = f"torchvision.{module}" if module else "torchvision"
    try:
        return importlib.import_module(name)
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error) or _declared:
            raise
    library = torch.library.Library("torchvision", "DEF")
    for schema in _SCHEMAS:
        library.define(schema)
    _declared.append(library)
    return importlib.import_module(name)


def prepare_torchvision() -> None:
    """What the code of others will import is importable; it takes a second, and only where a wheel may miss its operators."""
    try:
        stock = "+" not in version("torchvision")
    except PackageNotFoundError:
        return
    if stock and torch.version.cuda is None:
        torchvision()
