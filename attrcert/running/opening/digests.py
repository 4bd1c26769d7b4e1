"""What tells networks and images apart that were given as objects, without a file of their own."""

import hashlib
from typing import Any

import torch

from attrcert.errors import SampleError
from attrcert.loading.datasets import LoadedData
from attrcert.networks.classifier import Classifier

LOOKED_AT = 256  # images; all of a data set may be many


def given_model(classifier: Classifier) -> dict[str, Any]:
    """The weights, their names and the normalisation."""
    digest = hashlib.sha256(type(classifier.network).__qualname__.encode())
    for name, tensor in classifier.network.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    told = {"mean": classifier.mean, "std": classifier.std, "output": classifier.output}
    return {"weights_sha256": digest.hexdigest(), **told}


def given_data(data: LoadedData) -> dict[str, Any]:
    """Which samples, and the first of them."""
    digest = hashlib.sha256(repr((len(data.images), data.selected)).encode())
    for index in data.selected[:LOOKED_AT]:
        try:
            image, label = data.images[index]
        except SampleError as error:
            digest.update(error.message.encode())
            continue
        digest.update(f"{tuple(image.shape)} {label}".encode() + image.float().contiguous().numpy().tobytes())
    return {"images_sha256": digest.hexdigest()}
