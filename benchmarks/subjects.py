"""What is measured: networks at several sizes with their first samples; third-party checkpoints where a folder has them."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from attrcert.loading.architectures import build
from attrcert.loading.checkpoints import ModelSpec, load_model
from attrcert.loading.classifier import Classifier
from attrcert.loading.datasets import DataSpec, load_data

CIFAR = ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.201))
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
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


def third_party(name: str, folder: Path, checkpoint: str, arch: str, scale: tuple, samples: int) -> Subject | None:
    """A CIFAR-10 network with pre-trained weights, where the folder has it."""
    weights, data = folder / "checkpoints" / checkpoint, folder / "cifar10_test_1000.npz"
    if not (weights.exists() and data.exists()):
        return None
    mean, std = scale
    spec = ModelSpec(str(weights), arch=f"{weights.parent / 'archs.py'}:{arch}", mean=mean, std=std, beta=20.0)
    classifier = load_model(spec, device=CPU, dtype=SINGLE).classifier
    return Subject(name, classifier, _images(DataSpec(str(data)), samples), dense=1)


def random_weights(name: str, arch: str, side: int, samples: int, *, dense: int, **arguments: object) -> Subject:
    """A network as it is initialised, on noise; for sizes and costs, not for figures."""
    torch.manual_seed(0)
    classifier = Classifier(build(arch, arguments), mean=IMAGENET[0], std=IMAGENET[1], beta=20.0)
    images = torch.rand(samples, 3, side, side, generator=torch.Generator().manual_seed(0))
    return Subject(name, classifier, images, dense)


def convsmall(folder: Path, samples: int) -> Subject:
    found = third_party("ConvSmall", folder, "cifar_convsmall_pgd.safetensors", "cifar_convsmall", CIFAR, samples)
    return found or random_weights("CNN, random", "softplus-cnn", 32, samples, dense=1, channels=3, size=32)


def resnet20(folder: Path, samples: int) -> Subject:
    found = third_party("ResNet-20", folder, "cifar_resnet20.safetensors", "cifar_resnet20", IMAGENET, samples)
    return found or random_weights("resnet18 at 32, random", "torchvision:resnet18", 32, samples, dense=0)


def _images(spec: DataSpec, samples: int) -> Tensor:
    images = load_data(spec).images
    return torch.stack([images[i][0] for i in range(samples)])
