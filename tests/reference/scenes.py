"""The scene of a run, where only the model and the images matter."""

from torch import Tensor

from attrcert.attributions.gradient import Saliency
from attrcert.loading.datasets import LoadedData
from attrcert.loading.pixels import Images
from attrcert.networks.classifier import Classifier
from attrcert.running.evaluating.methods import Layout
from attrcert.running.evaluating.work import Scene
from attrcert.settings.sources import DEFAULT_MAX_INPUT


def scene_of(f: Classifier, x: Tensor, images: Images, max_input: str = DEFAULT_MAX_INPUT) -> Scene:
    data = LoadedData(images, tuple(range(len(x))), {}, max_input=max_input)
    return Scene(f=f, x=x, attribution=Saliency(), data=data, layout=Layout(), memory=0, points=1, replaced=False)
