"""The bundled models and sample are what their recipes say."""

import tomllib
import zipfile
from pathlib import Path

import pytest
import torch
from hatchling.build import build_wheel

import attrcert
from attrcert.loading import bundled
from attrcert.loading.checkpoints import load_model, read_weights
from attrcert.loading.datasets import load_data
from attrcert.settings.declared import made
from attrcert.settings.sources import DEFAULT_SAMPLE, SAMPLES, DataSpec, ModelSpec
from attrcert.vocabulary import Kind


@pytest.mark.parametrize("name", ["fashion-natural", "fashion-adversarial", "wine"])
def test_a_bundled_model_reaches_its_recipes_accuracy(name):
    path = bundled.models()[name]
    recipe = tomllib.loads(path.with_name("recipe.toml").read_text())
    _, metadata = read_weights(path)
    least = recipe["training"]["least_accuracy"]
    assert float(metadata["attrcert.test_accuracy"]) >= least
    classifier = load_model(ModelSpec(name), device=torch.device("cpu"), dtype=torch.float32).classifier
    images = load_data(made(DataSpec, {"dataset": SAMPLES.get(name, {}).get("dataset", DEFAULT_SAMPLE)})).images
    pairs = [images[i] for i in range(len(images))]
    with torch.no_grad():
        predicted = classifier(torch.stack([image for image, _ in pairs])).argmax(1)
    hits = (predicted == torch.tensor([label for _, label in pairs])).double().mean()
    # 256 images: three standard deviations of a share of about 0.9 are 0.06
    assert hits >= least - 0.06


def test_the_wheel_carries_the_models_and_the_sample(tmp_path, monkeypatch):
    monkeypatch.chdir(Path(__file__).parent.parent)
    with zipfile.ZipFile(tmp_path / build_wheel(str(tmp_path))) as wheel:
        inside = {name.removeprefix("attrcert/bundled/") for name in wheel.namelist()}
    wanted = [*bundled.models().values(), *bundled.samples().values()]
    assert {str(path.relative_to(bundled.folder())) for path in wanted} <= inside
    assert not any("train" in name for name in inside)


def test_the_sample_has_256_images_of_ten_classes():
    images = load_data(DataSpec()).images
    assert len(images) == 256
    assert {images[i][1] for i in range(256)} == set(range(10))


def test_both_fashion_models_share_one_architecture():
    natural, adversarial = (read_weights(bundled.models()[f"fashion-{kind}"])[1] for kind in ("natural", "adversarial"))
    assert natural["attrcert.arch"] == adversarial["attrcert.arch"]
    assert natural["attrcert.arch_args"] == adversarial["attrcert.arch_args"]


def test_a_bundled_model_of_a_table_runs_by_its_name_alone():
    rows = attrcert.bound("wine", eps=0.1)
    assert [row["status"] for row in rows].count("ok") > 30
    assert len(rows) == 60
    assert sum(bool(row["correct"]) for row in rows) >= 57
    assert load_data(DataSpec("wine-test")).form.kind is Kind.TABULAR
