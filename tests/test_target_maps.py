"""A picture file as the map that an attack aims at."""

import os
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from reference.scenes import scene_of

from attrcert.errors import DataError
from attrcert.networks.classifier import Classifier
from attrcert.running.evaluating.target_maps import target_map
from attrcert.settings.tasks import AttackConfig


def aimed(path: Path, **cap: str) -> torch.Tensor | None:
    config = AttackConfig(attack=("manipulate",), target_map=str(path))
    return target_map(config, scene_of(Classifier(torch.nn.Flatten()), torch.zeros(1, 1, 4, 4), [], **cap))


@pytest.fixture
def grey(tmp_path) -> Path:
    PIL.Image.fromarray(np.arange(1, 10_001, dtype=np.int64).reshape(100, 100).astype(np.uint8)).save(
        tmp_path / "a.png"
    )
    return tmp_path / "a.png"


def test_a_picture_becomes_a_map_of_the_inputs_size(grey):
    found = aimed(grey)
    assert found is not None
    assert found.shape == (16,)
    assert float(found.mean()) == pytest.approx(1.0)


def test_a_picture_beyond_the_cap_is_refused_with_the_option(grey):
    with pytest.raises(DataError, match=r"would fill 80 KB .*--max-input 79KB") as caught:
        aimed(grey, max_input="79KB")
    assert "--max-input" in caught.value.hint
    assert aimed(grey, max_input="80KB") is not None


@pytest.mark.parametrize("kind", ["pipe", "folder", "gone", "text", "torn", "postscript"])
def test_what_is_no_picture_is_refused_and_not_waited_for(grey, tmp_path, kind):
    path = tmp_path / "map.png"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind != "gone":
        contents = {"text": b"no picture", "torn": grey.read_bytes()[:80], "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n"}
        path.write_bytes(contents[kind])
    with pytest.raises(DataError, match=r"target map .*map\.png cannot be read as an image") as caught:
        aimed(path)
    assert caught.value.hint == "--target-map takes frame, sample:N, or an image file"
