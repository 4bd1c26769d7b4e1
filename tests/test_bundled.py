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

README = (Path(__file__).parent.parent / "README.md").read_text()
FASHION = "fashion-natural", "fashion-adversarial", "fashion-certifiable"


def cosines_of_maps(name: str) -> tuple[float, float]:
    """The mean cosine of saliency maps of different images of the sample: with the same predicted class, and with others."""
    classifier = load_model(ModelSpec(name), device=torch.device("cpu"), dtype=torch.float32).classifier
    images = load_data(DataSpec()).images
    x = torch.stack([images[i][0] for i in range(len(images))]).requires_grad_()
    top, predicted = classifier(x).max(dim=1)
    (maps,) = torch.autograd.grad(top.sum(), x)
    unit = torch.nn.functional.normalize(maps.flatten(1), dim=1)
    cosines, same = unit @ unit.T, predicted[:, None] == predicted
    pairs = same & ~torch.eye(len(x), dtype=torch.bool)
    return cosines[pairs].mean().item(), cosines[~same].mean().item()


@pytest.mark.parametrize("name", ["fashion-natural", "fashion-adversarial", "fashion-certifiable", "wine"])
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


def test_the_fashion_models_share_one_architecture():
    natural, *others = (read_weights(bundled.models()[name])[1] for name in FASHION)
    for other in others:
        assert natural["attrcert.arch"] == other["attrcert.arch"]
        assert natural["attrcert.arch_args"] == other["attrcert.arch_args"]


@pytest.mark.parametrize("name", FASHION)
def test_the_readme_has_each_fashion_models_accuracy_and_cosines(name):
    _, metadata = read_weights(bundled.models()[name])
    same, other = cosines_of_maps(name)
    assert f"| {name} | {float(metadata['attrcert.test_accuracy']):.1%} | {same:.2f} | {other:.2f} |" in README


def test_maps_of_the_certifiable_model_differ_within_a_class():
    assert cosines_of_maps("fashion-certifiable")[0] <= 0.7


def test_it_is_proved_that_maps_of_the_certifiable_model_turn_little():
    rows = attrcert.bound("fashion-certifiable", proved=True, eps=0.1, limit=2, proved_effort=1)
    assert len(rows) == 2
    assert max(row["angle_proved_deg"] for row in rows) < 15


def test_a_bundled_model_of_a_table_runs_by_its_name_alone():
    rows = attrcert.bound("wine", eps=0.1)
    assert [row["status"] for row in rows].count("ok") > 30
    assert len(rows) == 60
    assert sum(bool(row["correct"]) for row in rows) >= 57
    assert load_data(DataSpec("wine-test")).form.kind is Kind.TABULAR
