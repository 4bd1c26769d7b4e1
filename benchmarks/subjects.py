"""What is measured: networks at several sizes with their first samples; third-party checkpoints where a folder has them."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from attrcert.loading.architectures import build
from attrcert.loading.checkpoints import load_model
from attrcert.loading.datasets import load_data
from attrcert.networks.classifier import Classifier
from attrcert.settings.sources import DataSpec, ModelSpec

CIFAR = ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.201))
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
LARGE = ("resnet18, 224 x 224", "torchvision:resnet18", 224)
CPU, SINGLE = torch.device("cpu"), torch.float32


@dataclass(frozen=True)
class Subject:
    """A model and images; `dense` samples are few enough to form their Jacobians."""

    name: str
    classifier: Classifier
    images: Tensor
    dense: int

    @property
    def d(self) -> int:
        return self.images[0].numel()


def bundled(samples: int) -> Subject:
    """The bundled natural model on its own sample."""
    classifier = load_model(ModelSpec(), device=CPU, dtype=SINGLE).classifier
    return Subject("CNN", classifier, _images(DataSpec(), samples), dense=4)


def third_party_source(folder: Path, checkpoint: str, arch: str, scale: tuple) -> tuple[ModelSpec, DataSpec] | None:
    """A CIFAR-10 network with pre-trained weights and test images, where the folder has them."""
    weights, data = folder / "checkpoints" / checkpoint, folder / "cifar10_test_1000.npz"
    if not (weights.exists() and data.exists()):
        return None
    mean, std = scale
    spec = ModelSpec(str(weights), arch=f"{weights.parent / 'archs.py'}:{arch}", mean=mean, std=std)
    return spec, DataSpec(str(data))


def third_party(name: str, source: tuple[ModelSpec, DataSpec] | None, samples: int) -> Subject | None:
    if source is None:
        return None
    model, data = source
    return Subject(name, load_model(model, device=CPU, dtype=SINGLE).classifier, _images(data, samples), dense=1)


def random_weights(name: str, arch: str, side: int, samples: int, *, dense: int, **arguments: object) -> Subject:
    """A network as it is initialised, on noise; for sizes and costs, not for figures."""
    torch.manual_seed(0)
    classifier = Classifier(build(arch, arguments), mean=IMAGENET[0], std=IMAGENET[1], beta=20.0)
    images = torch.rand(samples, 3, side, side, generator=torch.Generator().manual_seed(0))
    return Subject(name, classifier, images, dense)


def convsmall(folder: Path, samples: int) -> Subject:
    found = third_party("ConvSmall", convsmall_source(folder), samples)
    return found or random_weights("CNN, random", "softplus-cnn", 32, samples, dense=1, channels=3, size=32)


def convsmall_source(folder: Path) -> tuple[ModelSpec, DataSpec] | None:
    """What the program is told to load it."""
    return third_party_source(folder, "cifar_convsmall_pgd.safetensors", "cifar_convsmall", CIFAR)


def resnet20(folder: Path, samples: int) -> Subject:
    source = third_party_source(folder, "cifar_resnet20.safetensors", "cifar_resnet20", IMAGENET)
    found = third_party("ResNet-20", source, samples)
    return found or random_weights("resnet18 at 32, random", "torchvision:resnet18", 32, samples, dense=0)


def _images(spec: DataSpec, samples: int) -> Tensor:
    images = load_data(spec).images
    return torch.stack([images[i][0] for i in range(samples)])
