"""Files with bytes changed at random: each is read, or refused with a message; nothing else comes out of the readers."""

import io
import json
import random
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from safetensors.torch import save

from attrcert.errors import AttrcertError
from attrcert.loading.architectures import softplus_mlp
from attrcert.loading.checkpoints import load_model
from attrcert.loading.datasets import load_data
from attrcert.settings.sources import DataSpec, ModelSpec

ARGS = {"inputs": 16, "classes": 3, "hidden": 4}
METADATA = {
    "attrcert.arch": "softplus-mlp",
    "attrcert.arch_args": json.dumps(ARGS),
    "attrcert.mean": "[0.5]",
    "attrcert.std": "[0.25]",
    "attrcert.classes": '["a", "b", "c"]',
}
TIMES = 300
CAP = "50MB"  # so that a lie about sizes cannot cost a test run its memory


def safetensors_file() -> bytes:
    return save(softplus_mlp(**ARGS).state_dict(), METADATA)


def torch_file(*, legacy: bool) -> bytes:
    stream = io.BytesIO()
    torch.save({"state_dict": softplus_mlp(**ARGS).state_dict()}, stream, _use_new_zipfile_serialization=not legacy)
    return stream.getvalue()


def npz_file(*, compressed: bool) -> bytes:
    stream = io.BytesIO()
    images = np.arange(4 * 4 * 4, dtype=np.uint8).reshape(4, 4, 4)
    (np.savez_compressed if compressed else np.savez)(stream, images=images, labels=np.arange(4))
    return stream.getvalue()


def picture_file(form: str) -> bytes:
    stream = io.BytesIO()
    PIL.Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3)).save(stream, format=form)
    return stream.getvalue()


def read_model(path: Path) -> None:
    arch, arguments = (None, {}) if path.suffix == ".safetensors" else ("softplus-mlp", ARGS)
    spec = ModelSpec(str(path), arch, arguments, max_input=CAP)
    loaded = load_model(spec, device=torch.device("cpu"), dtype=torch.float32)
    loaded.classifier(torch.rand(2, 1, 4, 4))


def read_data(path: Path) -> None:
    """All images of a file, or of the folder of a picture."""
    data = load_data(DataSpec(str(path if path.suffix == ".npz" else path.parent), max_input=CAP))
    for index in data.indices[:8]:
        data.images[index]


KINDS: dict[str, tuple[Callable[[], bytes], str, Callable[[Path], None]]] = {
    "safetensors": (safetensors_file, ".safetensors", read_model),
    "torch": (lambda: torch_file(legacy=False), ".pt", read_model),
    "legacy torch": (lambda: torch_file(legacy=True), ".pth", read_model),
    "npz": (lambda: npz_file(compressed=False), ".npz", read_data),
    "compressed npz": (lambda: npz_file(compressed=True), ".npz", read_data),
    **{
        form: (lambda form=form: picture_file(form), f".{form.lower()}", read_data)
        for form in ("PNG", "GIF", "TIFF", "PPM")
    },
}


CHANGES: tuple[Callable[[bytes, int, int, random.Random], bytes], ...] = (
    lambda old, at, n, rng: old[:at],
    lambda old, at, n, rng: old[:at] + old[at + n :],
    lambda old, at, n, rng: old[:at] + rng.randbytes(n) + old[at:],
    lambda old, at, n, rng: old[:at] + bytes(n) + old[at + n :],
    lambda old, at, n, rng: old[:at] + b"\xff" * n + old[at + n :],
    lambda old, at, n, rng: old[:at] + bytes([old[at] ^ 1 << rng.randrange(8)]) + old[at + 1 :],
    lambda old, at, n, rng: old[:at] + bytes([rng.choice(b"0123456789-e.[]{}\"',:()")]) + old[at + 1 :],
)


def changed(content: bytes, rng: random.Random) -> bytes:
    """One to three changes, most of them near the beginning or the end, where formats keep their sizes."""
    for _ in range(rng.randint(1, 3)):
        size, edge = len(content), min(len(content), 300)
        if size:
            at = rng.choice((rng.randrange(size), rng.randrange(edge), size - 1 - rng.randrange(edge)))
            content = rng.choice(CHANGES)(content, at, rng.choice((1, 1, 2, 4, 8, 40)), rng)
    return content


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_file_is_read_or_refused_with_a_message(tmp_path, kind):
    make, ending, read = KINDS[kind]
    torch.manual_seed(0)
    content, path, rng = make(), tmp_path / f"x{ending}", random.Random(f"changes of {kind}")
    path.write_bytes(content)
    read(path)  # as it is, it is fine
    refusals = []
    for _ in range(TIMES):
        path.write_bytes(changed(content, rng))
        try:
            read(path)
        except AttrcertError as error:
            refusals.append(str(error))
    assert len(refusals) > TIMES / 20  # the changes do reach what matters
    assert max(len(refusal) for refusal in refusals) < 2000


VALUES = (
    "", "null", "true", "-1", "1e999", "NaN", "[]", "{}", "[[]]", '"a"', "[1,[2]]", "9" * 400, '{"depth": 1e9}', "[" * 5000,
    '{"hidden": -3}', '{"hidden": 0}', '{"beta": 0}', '{"beta": "x"}', '{"inputs": 16.5}', '{"classes": [1]}', '{"": 1}', "\x1b[2J",
    '{"classes": 100000000}', '{"inputs": true}', "torchvision:resnet18", "torchvision:fcn_resnet50", "os:system", "./x.py:f",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("key", METADATA)
def test_odd_metadata_are_read_or_refused_with_a_message(tmp_path, key):
    torch.manual_seed(0)
    weights, path = softplus_mlp(**ARGS).state_dict(), tmp_path / "x.safetensors"
    outcomes = []
    for value in VALUES:
        path.write_bytes(save(weights, {**METADATA, key: value}))
        try:
            read_model(path)
        except AttrcertError as error:
            outcomes.append(str(error))
    assert len(outcomes) > len(VALUES) / 2


HEADERS = (
    {"shape": [2**40, 2**40]}, {"shape": [-1]}, {"shape": []}, {"shape": [0, 16]}, {"shape": "x"}, {"shape": [4.5]},
    {"data_offsets": [0, 2**63]}, {"data_offsets": [8, 4]}, {"data_offsets": [-4, 4]}, {"dtype": "F16"}, {"dtype": "I8"}, {"dtype": "F4"},
    {"dtype": "BOOL"}, {"dtype": "C64"}, {"dtype": "F8_E8M0"}, {"dtype": None},
)  # fmt: skip


@pytest.mark.parametrize("edit", HEADERS, ids=str)
def test_an_edited_header_is_read_or_refused_with_a_message(tmp_path, edit):
    torch.manual_seed(0)
    content = safetensors_file()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    header["1.weight"] |= edit
    text = json.dumps(header).encode()
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])
    with pytest.raises(AttrcertError):
        read_model(tmp_path / "x.safetensors")
