"""The scene of a run, where only the model and the images matter."""

from torch import Tensor

from attrcert.attributions.gradient import Saliency
from attrcert.loading.pixels import Images
from attrcert.networks.classifier import Classifier
from attrcert.running.evaluating.methods import Layout
from attrcert.running.evaluating.work import Scene
from attrcert.settings.sources import DEFAULT_MAX_INPUT


def scene_of(f: Classifier, x: Tensor, images: Images, max_input: str = DEFAULT_MAX_INPUT) -> Scene:
    return Scene(
        f=f, x=x, attribution=Saliency(), images=images, layout=Layout(), memory=0, points=1, samples=len(x), max_input=max_input,
        replaced=False,
    )  # fmt: skip
