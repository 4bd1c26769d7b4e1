"""Programs that torch.export saved (.pt2), run as networks.

torch's loader of these files may unpickle, and evaluates texts of the file: a program is code, and is loaded only where the user says
`--arch export`.
"""

import logging
import warnings
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attrcert.errors import CheckpointError, ModelError
from attrcert.loading.files import decoding, regular

EXPORT = "export"
MODEL = "models/model.json"  # which every such archive has, in a folder
OLD_MODEL = "serialized_exported_program.json"  # before torch 2.7 at its root
HOW = "torch.export.export(model.eval(), (images,), dynamic_shapes=({0: torch.export.Dim('batch')},))"


class Exported(nn.Module):
    """The program, which cannot be set to training or evaluation any more."""

    def __init__(self, program: nn.Module) -> None:
        super().__init__()
        self.program = program

    def train(self, mode: bool = True) -> "Exported":
        self.training = mode
        return self

    def forward(self, x: torch.Tensor) -> Any:
        return self.program(x)


def exported(path: Path) -> nn.Module:
    """The program in a file, which must take images alone and batches of any size."""
    regular(path, "checkpoint file", CheckpointError)
    with decoding(f"{path.name} is not a program that this torch can load", CheckpointError):
        _check_archive(path)
        with _torch_is_quiet(), path.open("rb") as stream:
            program = torch.export.load(stream)
        taken = [node for node in program.graph.nodes if node.name in program.graph_signature.user_inputs]
    if len(taken) != 1:
        raise ModelError(
            f"a program must take a batch of images and nothing else, but {path.name} takes {len(taken)} inputs"
        )
    batch = taken[0].meta["val"].shape[:1]
    if not batch or isinstance(batch[0], int):
        raise ModelError(
            f"{path.name} takes batches of {batch[0] if batch else 'no'} images only", hint=f"export it with {HOW}"
        )
    with _torch_is_quiet():
        return Exported(program.module())


def holds_program(names: Iterable[str]) -> bool:
    """Whether an archive of these files is a saved program."""
    return any(name == OLD_MODEL or name.endswith(f"/{MODEL}") for name in names)


def _check_archive(path: Path) -> None:
    """Where it is something else, torch logs pages."""
    with zipfile.ZipFile(path) as archive:
        if not holds_program(archive.namelist()):
            raise ValueError("it holds no program")


@contextmanager
def _torch_is_quiet() -> Iterator[None]:
    """It warns of itself, and logs a page about every file of an older torch."""
    log = logging.getLogger("torch.export")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)
