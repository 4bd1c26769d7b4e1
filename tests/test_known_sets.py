"""Data sets by name: each in the format that torchvision or its authors publish, with its splits, classes and usual preparation."""

import pickle
import struct
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import scipy.io
import torch
from reference.program import attrcert
from torch import nn

from attrcert.errors import DataError, InputError, UsageError
from attrcert.loading.checkpoints import LoadedModel
from attrcert.loading.datasets import LoadedData, load_data, look_for
from attrcert.loading.libraries.library import Preparation
from attrcert.loading.preparing import prepared
from attrcert.loading.published import convsmall
from attrcert.loading.vision import torchvision
from attrcert.networks.classifier import Classifier
from attrcert.settings.sources import DataSpec

DATASETS = torchvision("datasets")


def load(dataset: str, root: Path | str = "data", **spec) -> LoadedData:
    return load_data(DataSpec(dataset, data_root=str(root), **spec))


def pixels(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def picture(path: Path, array: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.Image.fromarray(array).save(path)
    return path


@pytest.fixture
def unhashed(monkeypatch):
    """Files that were made here have not the hashes of those that are published."""
    for module in ("cifar", "svhn", "flowers102"):
        monkeypatch.setattr(torchvision(f"datasets.{module}"), "check_integrity", lambda *_: True)


# each format


def idx(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack(f">I{array.ndim}I", 0x800 + array.ndim, *array.shape) + array.tobytes())


def made_mnist(root: Path, name: str) -> np.ndarray:
    for part, count in (("train", 4), ("t10k", 3)):
        idx(root / name / "raw" / f"{part}-images-idx3-ubyte", pixels(count, 28, 28, seed=count))
        idx(root / name / "raw" / f"{part}-labels-idx1-ubyte", np.arange(count, dtype=np.uint8)[::-1].copy())
    return pixels(3, 28, 28, seed=3)[2]


def made_cifar10(root: Path) -> np.ndarray:
    folder = root / "cifar-10-batches-py"
    folder.mkdir()
    (folder / "test_batch").write_bytes(pickle.dumps({"data": pixels(3, 3072), "labels": [2, 1, 0]}))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": ["airplane", *"bcdefghij"]}))
    return pixels(3, 3072)[2].reshape(3, 32, 32).transpose(1, 2, 0)


def made_cifar100(root: Path) -> np.ndarray:
    folder = root / "cifar-100-python"
    folder.mkdir()
    (folder / "test").write_bytes(pickle.dumps({"data": pixels(3, 3072), "fine_labels": [2, 1, 0]}))
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": ["apple", *"bcdefghij"]}))
    return pixels(3, 3072)[2].reshape(3, 32, 32).transpose(1, 2, 0)


def made_svhn(root: Path) -> np.ndarray:
    images = pixels(32, 32, 3, 3)
    scipy.io.savemat(root / "test_32x32.mat", {"X": images, "y": np.array([[2], [1], [10]])})
    return images[..., 2]


def made_gtsrb(root: Path) -> np.ndarray:
    folder, lines = root / "gtsrb" / "GTSRB" / "Final_Test" / "Images", ["Filename;ClassId"]
    for number in range(3):
        picture(folder / f"{number:05d}.ppm", pixels(20 + number, 30, 3, seed=number))
        lines.append(f"{number:05d}.ppm;{2 - number}")
    (root / "gtsrb" / "GT-final_test.csv").write_text("\n".join(lines) + "\n")
    return pixels(22, 30, 3, seed=2)


def made_flowers(root: Path) -> np.ndarray:
    folder = root / "flowers-102"
    for number in range(1, 4):
        picture(folder / "jpg" / f"image_{number:05d}.jpg", pixels(30, 40, 3, seed=number))
    scipy.io.savemat(folder / "imagelabels.mat", {"labels": np.array([[1, 2, 3]])})
    scipy.io.savemat(folder / "setid.mat", {"trnid": [[1, 2]], "valid": [[2, 3]], "tstid": [[3, 2, 1]]})
    return np.asarray(PIL.Image.open(folder / "jpg" / "image_00001.jpg"))


def made_imagenet(root: Path) -> np.ndarray:
    names = {"n01440764": ("tench", "Tinca tinca"), "n01443537": ("goldfish",), "n01484850": ("great white shark",)}
    torch.save((names, []), root / "meta.bin")
    for number, synset in enumerate(names):
        path = picture(root / "val" / synset / "ILSVRC2012_val_00000001.JPEG", pixels(30, 40, 3, seed=number))
    picture(root / "val" / "n01440764" / "ILSVRC2012_val_00000002.JPEG", pixels(30, 40, 3))
    assert path.exists()
    return np.asarray(PIL.Image.open(root / "val" / "n01440764" / "ILSVRC2012_val_00000001.JPEG"))


def made_birds(root: Path) -> np.ndarray:
    """Two classes, five images, of which three are for the test."""
    folder = root / "CUB_200_2011"
    paths = [f"{kind}/{kind[4:]}_{number}.png" for kind in ("001.Albatross", "002.Auklet") for number in (1, 2)]
    paths.append("002.Auklet/Auklet_3.png")
    for number, path in enumerate(paths):
        picture(folder / "images" / path, pixels(30, 40 + number, 3, seed=number))
    (folder / "images.txt").write_text("".join(f"{n} {path}\n" for n, path in enumerate(paths, 1)))
    (folder / "image_class_labels.txt").write_text("".join(f"{n} {path[2]}\n" for n, path in enumerate(paths, 1)))
    (folder / "train_test_split.txt").write_text("1 1\n2 0\n3 1\n4 0\n5 0\n")
    (folder / "classes.txt").write_text("1 001.Albatross\n2 002.Auklet\n")
    return pixels(30, 41, 3, seed=1)


SETS = {  # a place whose third image has the label 0, and the name of class 0
    "MNIST:test": (lambda root: made_mnist(root, "MNIST"), "0 - zero"),
    "FashionMNIST:test": (lambda root: made_mnist(root, "FashionMNIST"), "T-shirt/top"),
    "CIFAR10:test": (made_cifar10, "airplane"),
    "CIFAR100:test": (made_cifar100, "apple"),
    "SVHN:test": (made_svhn, None),
    "GTSRB:test": (made_gtsrb, None),
    "Flowers102:test": (made_flowers, "pink primrose"),
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.usefixtures("unhashed")
def test_a_set_is_read_as_it_is_published(tmp_path, name):
    make, called = SETS[name]
    third = make(tmp_path)
    data = load(f"torchvision:{name}", tmp_path)
    assert [data.images[index][1] for index in data.indices] == [2, 1, 0]
    image = data.images[2][0]
    wanted = third if third.ndim == 3 else third[..., None]
    torch.testing.assert_close(image, torch.from_numpy(wanted.copy()).permute(2, 0, 1).float() / 255)
    assert data.label_name(0) == called
    assert data.notes == ()


def test_imagenets_classes_go_by_their_synsets(tmp_path):
    first = made_imagenet(tmp_path)
    data = load("torchvision:ImageNet:val", tmp_path)
    assert [data.images[index][1] for index in data.indices] == [0, 0, 1, 2]
    torch.testing.assert_close(data.images[0][0], torch.from_numpy(first.copy()).permute(2, 0, 1).float() / 255)
    assert [data.label_name(label) for label in range(3)] == ["tench", "goldfish", "great white shark"]


def test_imagenet_without_its_devkit_says_what_is_missing(tmp_path):
    picture(tmp_path / "val" / "n01440764" / "a.JPEG", pixels(8, 8, 3))
    with pytest.raises(DataError, match=r"ILSVRC2012_devkit_t12\.tar\.gz") as caught:
        load("torchvision:ImageNet:val", tmp_path)
    assert "class folders" in caught.value.hint
    assert "--download" not in caught.value.hint
    assert load(str(tmp_path / "val")).images[0][1] == 0  # as the hint says


@pytest.mark.usefixtures("unhashed")
def test_what_torchvision_does_not_find_is_told_with_where_it_looks(tmp_path):
    made_mnist(tmp_path, "MNIST")
    for part in (tmp_path / "MNIST" / "raw").glob("train-*"):
        part.unlink()  # torchvision asks for those of both splits
    with pytest.raises(DataError) as caught:
        load("torchvision:MNIST:test", tmp_path)
    assert "MNIST/raw with the four files of train and t10k" in caught.value.hint
    with pytest.raises(DataError, match=r"--data-root must be a folder, and there is none at .*nowhere"):
        load("torchvision:CIFAR10:test", tmp_path / "nowhere")


# splits


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [("ImageNet", "test", "val"), ("Flowers102", "valid", "val"), ("SVHN", "tset", "test"), ("CIFAR10", "val", "test")],
)
def test_a_split_that_a_set_lacks_is_refused_before_anything_is_loaded(name, wrong, right):
    with pytest.raises(UsageError, match=rf"{name} has the splits .*, got {wrong}") as caught:
        look_for(DataSpec(f"torchvision:{name}:{wrong}"))
    assert right in caught.value.hint


@pytest.mark.usefixtures("unhashed")
def test_a_set_without_a_split_is_torchvisions_default_and_that_is_told(tmp_path):
    made_mnist(tmp_path, "MNIST")
    data = load("torchvision:MNIST", tmp_path)
    assert len(data.indices) == 4
    (note,) = data.notes
    assert note == "torchvision:MNIST is its train split; torchvision:MNIST:test takes another"


# how they are usually prepared


def plain_model(preparation: Preparation | None = None) -> LoadedModel:
    return LoadedModel(Classifier(nn.Identity()), {}, preparation=preparation)


@pytest.mark.usefixtures("unhashed")
@pytest.mark.parametrize(
    ("name", "make", "shape"),
    [("GTSRB:test", made_gtsrb, (3, 32, 32)), ("Flowers102:val", made_flowers, (3, 224, 224))],
)
def test_images_of_many_sizes_are_brought_to_the_usual_one_and_that_is_told(tmp_path, name, make, shape):
    make(tmp_path)
    data, (note,) = prepared(plain_model(), load(f"torchvision:{name}", tmp_path))
    assert {data.images[index][0].shape for index in data.indices} == {shape}
    assert f"the usual practice with {name.partition(':')[0]}" in note
    assert data.facts["crop"] == shape[-1]


def test_traffic_signs_are_squashed_and_not_cut(tmp_path):
    made_gtsrb(tmp_path)
    data, _ = prepared(plain_model(), load("torchvision:GTSRB:test", tmp_path))
    whole = load("torchvision:GTSRB:test", tmp_path, resize=(32, 32))
    torch.testing.assert_close(data.images[1][0], whole.images[1][0])


def test_a_models_own_preparation_goes_before_the_usual_one(tmp_path):
    made_gtsrb(tmp_path)
    its = Preparation("its configuration", resize=20, crop=16)
    data, (note,) = prepared(plain_model(its), load("torchvision:GTSRB:test", tmp_path))
    assert data.images[0][0].shape == (3, 16, 16)
    assert "its configuration" in note


@pytest.mark.usefixtures("unhashed")
def test_images_of_one_size_stay_as_they_are(tmp_path):
    made_cifar10(tmp_path)
    data = load("torchvision:CIFAR10:test", tmp_path)
    assert prepared(plain_model(), data) == (data, ())


def test_the_command_prepares_signs_says_so_and_leaves_them_alone_where_it_is_told_how(tmp_path):
    made_gtsrb(tmp_path)
    torch.manual_seed(0)
    torch.save(convsmall(classes=43).state_dict(), tmp_path / "w.pt")
    asked = f"doctor {tmp_path}/w.pt torchvision:GTSRB --arch convsmall --data-root {tmp_path} --format json".split()
    picture(tmp_path / "gtsrb" / "GTSRB" / "Training" / "00007" / "0.ppm", pixels(24, 40, 3))
    done = attrcert(*asked)
    assert "squashed to 32 x 32" in done.out
    assert "torchvision:GTSRB is its train split" in done.out
    other = attrcert(*asked, "--resize", "36,36", "--crop", 32)
    assert "second derivative" in other.out
    assert "squashed" not in other.out


# CUB-200-2011


@pytest.mark.parametrize(("ending", "labels"), [("", [0, 1, 1]), (":test", [0, 1, 1]), (":train", [0, 1])])
def test_birds_are_those_of_the_split_with_their_files_and_classes(tmp_path, ending, labels):
    second = made_birds(tmp_path)
    data = load(f"cub:{tmp_path / 'CUB_200_2011'}{ending}")
    assert [data.images[index][1] for index in data.indices] == labels
    assert data.classes == ("Albatross", "Auklet")
    if ending != ":train":
        assert data.source(0) == "images/001.Albatross/Albatross_2.png"
        torch.testing.assert_close(data.images[0][0], torch.from_numpy(second.copy()).permute(2, 0, 1).float() / 255)
        assert prepared(plain_model(), data)[0].images[2][0].shape == (3, 224, 224)


def test_another_labelling_is_another_data_set(tmp_path):
    made_birds(tmp_path)
    folder = tmp_path / "CUB_200_2011"
    before = load(f"cub:{folder}").facts["dataset_sha256"]
    (folder / "image_class_labels.txt").write_text("1 1\n2 2\n3 2\n4 2\n5 2\n")
    assert load(f"cub:{folder}").facts["dataset_sha256"] != before


def test_the_folder_of_birds_is_not_taken_for_one_class_called_images(tmp_path):
    made_birds(tmp_path)
    with pytest.raises(UsageError) as caught:
        look_for(DataSpec(str(tmp_path / "CUB_200_2011")))
    assert caught.value.hint.startswith(f"cub:{tmp_path / 'CUB_200_2011'}:test ")


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("images.txt", "2 ../../secret.png\n4 a.png\n5 b.png\n", "must name files inside"),
        ("images.txt", "2\n", "line 1"),
        ("images.txt", "", "gives no image"),
        ("image_class_labels.txt", "1 1\n2 3\n3 2\n4 2\n5 2\n", "must name a class"),
        ("train_test_split.txt", "1 1\n2 1\n3 1\n", "gives no image to the split test"),
        ("classes.txt", None, r"there is no file of CUB-200-2011 .*classes\.txt"),
        ("images.txt", b"\xff\xfe", "is not readable text"),
    ],
)
def test_broken_files_of_birds_are_refused_by_name(tmp_path, file, text, told):
    made_birds(tmp_path)
    place = tmp_path / "CUB_200_2011" / file
    if text is None:
        place.unlink()
    else:
        place.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=told):
        load(f"cub:{tmp_path / 'CUB_200_2011'}")


def test_a_folder_of_birds_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(DataError, match="there is no folder") as caught:
        load(f"cub:{tmp_path / 'gone'}:test")
    assert "CUB_200_2011" in caught.value.hint
