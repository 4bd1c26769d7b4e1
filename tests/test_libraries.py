"""Models that timm, torchvision and transformers know: built by them, read by attrcert, prepared as their configuration says, offline."""

import importlib
import json
import socket
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from reference.program import attrcert
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from attrcert.errors import CheckpointError, UsageError
from attrcert.loading.checkpoints import LoadedModel, load_model
from attrcert.loading.datasets import load_data
from attrcert.loading.libraries import hugging_face, library
from attrcert.loading.preparing import prepared
from attrcert.loading.vision import torchvision
from attrcert.settings.sources import DataSpec, ModelSpec

torchvision()  # which the others import

import huggingface_hub  # noqa: E402
import timm  # noqa: E402
import transformers  # noqa: E402

TINY = "test_vit.r160_in1k"  # 0.4 million parameters


def loaded(checkpoint: Path | str, arch: str | None = None, **spec) -> LoadedModel:
    return load_model(ModelSpec(str(checkpoint), arch, **spec), device=torch.device("cpu"), dtype=torch.float32)


def holds(model: LoadedModel, network: nn.Module) -> bool:
    found, wanted = model.classifier.network.state_dict(), network.state_dict()
    return found.keys() == wanted.keys() and all(torch.equal(found[key], wanted[key]) for key in wanted)


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """Every way to the network raises what no caller expects."""

    class Reached(BaseException):
        pass

    def reached(*_, **__):
        raise Reached

    monkeypatch.setattr(socket.socket, "connect", reached)
    monkeypatch.setattr(socket, "getaddrinfo", reached)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A cache of Hugging Face's with the weights of the tiny model."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    torch.manual_seed(0)
    network = timm.create_model(TINY)
    folder = tmp_path / "hub" / f"models--timm--{TINY}"
    (folder / "snapshots" / "abc").mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("abc")
    save_file(network.state_dict(), folder / "snapshots" / "abc" / "model.safetensors")
    return network


@pytest.fixture
def torch_home(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    (tmp_path / "hub" / "checkpoints").mkdir(parents=True)
    return tmp_path / "hub" / "checkpoints"


def vit(seed: int = 0) -> transformers.ViTForImageClassification:
    torch.manual_seed(seed)
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    names = dict(enumerate(("cat", "dog", "frog")))
    return transformers.ViTForImageClassification(
        transformers.ViTConfig(**shape, image_size=16, patch_size=8, id2label=names, label2id={})
    ).eval()


@pytest.fixture
def folder(tmp_path):
    """As save_pretrained makes it."""
    vit().save_pretrained(tmp_path / "vit")
    transformers.ViTImageProcessor(size={"height": 16, "width": 16}).save_pretrained(tmp_path / "vit")
    return tmp_path / "vit"


@pytest.fixture
def photos(tmp_path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 255, (4, 20, 30, 3), dtype=np.uint8)
    for place, name in enumerate(("cat", "cat", "frog", "frog")):
        (tmp_path / "photos" / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels[place]).save(tmp_path / "photos" / name / f"{place}.png")
    return tmp_path / "photos"


# timm


def test_a_file_of_a_timm_model_needs_no_more_than_the_models_name(tmp_path):
    network = timm.create_model("resnet10t", num_classes=10)
    save_file(network.state_dict(), tmp_path / "w.safetensors")
    model = loaded(tmp_path / "w.safetensors", "timm:resnet10t")
    assert holds(model, network)
    assert model.classifier.mean == network.pretrained_cfg["mean"]
    assert model.facts["arch_args"] == {"num_classes": 10}
    assert model.facts["classes"] is None  # those of the configuration are others
    assert [note.partition("=")[0].partition(" ")[0] for note in model.notes] == ["num_classes", "--mean"]
    own = loaded(tmp_path / "w.safetensors", "timm:resnet10t", mean=(0.0,), std=(1.0,))
    assert (own.classifier.mean, len(own.notes)) == ((0.0,), 1)


def test_a_timm_model_comes_with_its_weights_from_the_cache(hub):
    model = loaded(f"timm:{TINY}")
    assert holds(model, hub)
    assert model.facts["classes"][0].startswith("tench")
    assert len(model.facts["classes"]) == 1000
    steps = timm.data.create_transform(**timm.data.resolve_model_data_config(hub)).transforms
    assert (model.preparation.resize, model.preparation.crop) == (steps[0].size, steps[1].size[0])
    assert model.preparation.interpolation == steps[0].interpolation.value


def test_weights_that_are_not_cached_are_fetched_only_where_that_is_asked_for(hub, tmp_path, monkeypatch):
    with pytest.raises(CheckpointError, match=r"timm/resnet10t\.c3_in1k") as caught:
        loaded("timm:resnet10t")
    assert "--download" in caught.value.hint
    save_file(timm.create_model("resnet10t").state_dict(), tmp_path / "sent")
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda *_, **__: str(tmp_path / "sent"))
    loaded("timm:resnet10t", download=True)


@pytest.mark.parametrize("name", ["resnet81", "hf-hub:somebody/model", "local-dir:/tmp", "resnet18.no_such_weights"])
def test_a_name_that_timm_does_not_have_is_refused(name):
    with pytest.raises(UsageError, match="timm has no model"):
        loaded(f"timm:{name}")


def test_several_names_that_go_on_as_the_given_one_are_told():
    with pytest.raises(UsageError, match="timm has no model 'resnet10'") as caught:
        loaded("timm:resnet10")
    assert "did you mean 'resnet101' or 'resnet10t' or" in caught.value.hint


@pytest.mark.parametrize(
    "key", ["pretrained", "checkpoint_path", "pretrained_cfg_overlay", "pretrained_cfg", "cache_dir"]
)
def test_timm_is_not_asked_for_weights(tmp_path, key):
    torch.save({"fc.weight": torch.zeros(2, 2)}, tmp_path / "w.pt")
    with pytest.raises(UsageError, match=f"--arch-arg {key} must not"):
        loaded(tmp_path / "w.pt", "timm:resnet10t", arch_args={key: True})


# torchvision


def test_a_torchvision_model_comes_with_its_weights_from_the_cache(torch_home):
    models = torchvision("models")
    torch.manual_seed(0)
    network, weights = models.squeezenet1_1(), models.SqueezeNet1_1_Weights.DEFAULT
    with pytest.raises(CheckpointError, match=r"there is no .*squeezenet1_1") as caught:
        loaded("torchvision:squeezenet1_1")
    assert "--download" in caught.value.hint
    torch.save(network.state_dict(), torch_home / weights.url.rpartition("/")[2])
    model = loaded("torchvision:squeezenet1_1")
    assert holds(model, network)
    assert model.facts["classes"] == weights.meta["categories"]
    assert (model.preparation.resize, model.preparation.crop) == (256, 224)
    assert list(model.classifier.mean) == list(weights.transforms().mean)


def test_weights_of_torchvision_are_fetched_into_its_cache_where_that_is_asked_for(torch_home, monkeypatch):
    models = torchvision("models")

    def fetch(url: str, path: str, prefix: str) -> None:
        assert url == models.SqueezeNet1_1_Weights.DEFAULT.url
        assert prefix in url
        torch.save(models.squeezenet1_1().state_dict(), path)

    monkeypatch.setattr(torch.hub, "download_url_to_file", fetch)
    loaded("torchvision:squeezenet1_1", download=True)
    loaded("torchvision:squeezenet1_1")


# Hugging Face


def test_a_folder_of_hugging_face_is_a_whole_model(folder):
    model, x = loaded(f"hf:{folder}"), torch.rand(2, 3, 16, 16)
    with model.classifier.prepared(), torch.no_grad():
        assert torch.allclose(model.classifier(x), vit()((x - 0.5) / 0.5).logits, atol=1e-6)
    assert model.facts["classes"] == ["cat", "dog", "frog"]
    assert model.notes == (f"--mean 0.5,0.5,0.5 --std 0.5,0.5,0.5 are those of preprocessor_config.json of {folder}",)
    assert (model.preparation.crop, model.preparation.squashed) == (16, True)


def test_a_folder_that_says_nothing_of_pixels_is_told(folder):
    (folder / "preprocessor_config.json").unlink()
    (note,) = loaded(f"hf:{folder}").notes
    assert note.startswith(f"pixels are not normalised, since config.json of {folder} has no mean and std")
    assert loaded(f"hf:{folder}", mean=(0.5,), std=(0.5,)).notes == ()


def test_a_folder_in_parts_or_with_torchs_weights_is_read_too(folder):
    weights = load_file(folder / "model.safetensors")
    names = sorted(weights)
    (folder / "model.safetensors").unlink()
    for part, some in enumerate((names[:9], names[9:])):
        save_file({name: weights[name] for name in some}, folder / f"model-0000{part + 1}-of-00002.safetensors")
    assert holds(loaded(f"hf:{folder}"), vit())
    for path in folder.glob("*.safetensors"):
        path.unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    assert holds(loaded(f"hf:{folder}"), vit())


def test_another_file_of_weights_fits_the_folders_architecture(folder, tmp_path):
    torch.save(vit(1).state_dict(), tmp_path / "tuned.ckpt")
    assert holds(loaded(tmp_path / "tuned.ckpt", f"hf:{folder}"), vit(1))


def test_the_folders_own_file_fits_by_its_name_too_whatever_wraps_it_and_however_many_classes_it_has(folder, tmp_path):
    file = folder / "model.safetensors"
    assert not load_file(file).keys() <= vit().state_dict().keys()  # it has names of its own
    assert holds(loaded(file, f"hf:{folder}"), vit())
    wrapped = {f"net.{key}": tensor for key, tensor in load_file(file).items()}
    wrapped["net.classifier.weight"], wrapped["net.classifier.bias"] = torch.zeros(5, 8), torch.ones(5)
    torch.save({"state_dict": {**wrapped, "loss.weight": torch.ones(5)}}, tmp_path / "lit.ckpt")
    model = loaded(tmp_path / "lit.ckpt", f"hf:{folder}")
    found = model.classifier.network.state_dict()
    assert (len(found["classifier.bias"]), model.facts["arch_args"]) == (5, {"num_labels": 5})
    assert "loss.weight" in model.doubts[0]
    assert torch.equal(found["vit.layernorm.weight"], vit().state_dict()["vit.layernorm.weight"])
    del wrapped["net.vit.layernorm.weight"]
    torch.save(wrapped, tmp_path / "short.pt")
    with pytest.raises(CheckpointError, match=r"1 missing: vit\.layernorm\.weight"):
        loaded(tmp_path / "short.pt", f"hf:{folder}")


def test_weights_that_transformers_would_make_up_are_an_error_that_names_them(folder):
    weights = load_file(folder / "model.safetensors")
    del weights["classifier.bias"]
    save_file({**weights, "classifier.weight": torch.zeros(5, 8)}, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"1 missing: classifier\.bias; 1 of another shape: classifier\.weight"):
        loaded(f"hf:{folder}")


def test_code_that_a_folder_brings_along_is_refused(folder, tmp_path):
    given = json.loads((folder / "config.json").read_text())
    code = {"AutoConfig": "theirs.Config", "AutoModelForImageClassification": "theirs.Net"}
    (folder / "config.json").write_text(json.dumps({**given, "model_type": "theirs", "auto_map": code}))
    (folder / "theirs.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(CheckpointError, match="never runs code from a checkpoint"):
        loaded(f"hf:{folder}")
    (folder / "config.json").write_text(json.dumps({**given, "auto_map": code}))  # transformers' own ViT goes before it
    assert holds(loaded(f"hf:{folder}"), vit())
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: (f / "config.json").unlink(), r"there is no file .*config\.json"),
        (lambda f: (f / "config.json").write_text("[1"), "not readable JSON"),
        (lambda f: (f / "config.json").write_text('{"model_type": "bert"}'), "no image classifier"),
        (lambda f: (f / "config.json").write_text('{"model_type": "no-such"}'), "cannot be read by transformers"),
        (lambda f: (f / "model.safetensors").unlink(), "holds no weights"),
        (lambda f: (f / "preprocessor_config.json").write_text('{"size": {"height": "wide"}}'), "cannot be understood"),
    ],
)
def test_a_folder_that_is_no_model_is_refused_with_what_is_wrong(folder, change, said):
    change(folder)
    with pytest.raises(CheckpointError, match=said):
        loaded(f"hf:{folder}")


FACTOR = {"image_mean": [0.5], "image_std": [0.25], "size": 8}


@pytest.mark.parametrize(
    ("given", "mean", "std", "sides"),
    [
        (FACTOR, (0.5,), (0.25,), (8, 8)),
        ({**FACTOR, "size": {"shortest_edge": 10}, "crop_size": {"height": 8, "width": 8}}, (0.5,), (0.25,), (10, 8)),
        ({**FACTOR, "size": {"shortest_edge": 224}, "crop_pct": 0.875}, (0.5,), (0.25,), (256, 224)),
        ({**FACTOR, "do_normalize": False}, None, None, (8, 8)),
        ({**FACTOR, "rescale_factor": 1 / 127.5}, (0.25,), (0.125,), (8, 8)),
        ({"do_normalize": False, "do_rescale": False}, (0.0,), (1 / 255,), (None, None)),
        ({**FACTOR, "do_resize": False}, (0.5,), (0.25,), (None, None)),
    ],
)
def test_what_a_preprocessor_says_holds_for_pixels_in_0_1(given, mean, std, sides):
    found = hugging_face._prepared(given, "here", None)
    assert (found.resize, found.crop) == sides
    for ours, wanted in ((found.mean, mean), (found.std, std)):
        assert ours == (None if wanted is None else pytest.approx(wanted))


# images


def first(model: LoadedModel, **data) -> tuple[Tensor, tuple[str, ...], dict]:
    images, told = prepared(model, load_data(DataSpec(**data)))
    return images.images[0][0], told, images.facts


def test_images_that_do_not_fit_are_prepared_as_the_model_says_and_that_is_told(hub, photos):
    image, told, facts = first(loaded(f"timm:{TINY}"), dataset=str(photos))
    steps = timm.data.create_transform(**timm.data.resolve_model_data_config(hub)).transforms[:3]
    theirs = Image.open(photos / "cat" / "0.png")
    for step in steps:
        theirs = step(theirs)
    assert image.shape == theirs.shape
    assert (image - theirs.float() / (255 if theirs.dtype == torch.uint8 else 1)).abs().mean() < 0.01
    assert told[0].startswith("images of 20 x 30 are prepared as timm's configuration of")
    assert (facts["resize"], facts["crop"], facts["interpolation"]) == (steps[0].size, 160, "bicubic")


def test_images_of_the_models_size_stay_as_they_are(hub):
    pixels = np.random.default_rng(0).random((2, 160, 160, 3)).astype(np.float32)
    image, told, _ = first(loaded(f"timm:{TINY}"), dataset=(pixels, np.zeros(2, int)))
    assert torch.equal(image, torch.from_numpy(pixels[0]).permute(2, 0, 1))
    assert told == ()


@pytest.mark.parametrize(("side", "fits"), [(32, True), (176, True), (200, False)])
def test_small_images_are_left_to_weights_of_ones_own(tmp_path, side, fits):
    save_file(timm.create_model("resnet10t", num_classes=10).state_dict(), tmp_path / "w")
    image, told, _ = first(
        loaded(tmp_path / "w", "timm:resnet10t"), dataset=(np.zeros((1, side, side, 3), np.uint8), np.zeros(1, int))
    )
    assert image.shape[-1] == (side if fits else 176)
    assert bool(told) is not fits


def test_a_bound_of_a_folders_model_says_on_stderr_what_it_took_from_it(folder, photos):
    done = attrcert("bound", f"hf:{folder}", photos, "--format", "csv")
    assert done.code == 0, done.err
    assert [row["status"] for row in done.rows] == ["ok"] * 4
    assert [(row["label"], row["label_name"]) for row in done.rows] == [("0", "cat")] * 2 + [("2", "frog")] * 2
    assert "model: --mean 0.5,0.5,0.5 --std 0.5,0.5,0.5 are those of preprocessor_config.json" in done.said
    assert "model: images of 20 x 30 are prepared as preprocessor_config.json" in done.said
    assert "squashed to 16 x 16, bilinear" in done.said
    own = attrcert("bound", f"hf:{folder}", photos, "--crop", 16, "--limit", 1, "--format", "csv")
    assert "are prepared as" not in own.said
    assert own.rows[0]["g_norm"] != done.rows[0]["g_norm"]


# what is missing


@pytest.mark.parametrize(
    ("name", "module", "extra"), [("timm:resnet10t", "timm", "timm"), ("hf:{}", "transformers", "hf")]
)
def test_a_library_that_is_not_installed_is_said_with_the_command_that_installs_it(
    folder, monkeypatch, name, module, extra
):
    def import_module(wanted: str) -> object:
        if wanted.partition(".")[0] in ("timm", "transformers", "huggingface_hub"):
            raise ModuleNotFoundError(f"No module named {wanted!r}", name=wanted)
        return importlib.import_module(wanted)

    monkeypatch.setattr(library, "importlib", type("Importing", (), {"import_module": staticmethod(import_module)}))
    with pytest.raises(UsageError) as caught:
        loaded(name.format(folder))
    assert caught.value.hint == f"pip install 'attrcert[{extra}]'"
    assert caught.value.message.endswith("need " + ("huggingface_hub" if extra == "hf" else module))


def test_a_library_comes_with_its_architecture(folder):
    with pytest.raises(UsageError, match="--arch must not be given"):
        loaded(f"hf:{folder}", "softplus-cnn")
