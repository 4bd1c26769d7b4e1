"""Feature attributions, each with its Jacobian as a linear map."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrcert.registry import Family

if TYPE_CHECKING:
    from attrcert.attributions.bounded import Bounding
    from attrcert.types import Attribution

ATTRIBUTIONS: "Family[Attribution]" = Family(
    "attribution",
    {
        "saliency": "attrcert.attributions.gradient:Saliency",
        "input-x-gradient": "attrcert.attributions.input_times_gradient:InputTimesGradient",
        "integrated-gradients": "attrcert.attributions.integrated_gradients:IntegratedGradients",
        "guided-backprop": "attrcert.attributions.guided_backprop:GuidedBackprop",
        "lrp": "attrcert.attributions.relevance:LayerwiseRelevance",
        "grad-cam": "attrcert.attributions.grad_cam:GradCam",
        "loss-gradient": "attrcert.attributions.loss_gradient:LossGradient",
        "smooth-grad": "attrcert.attributions.smoothed:SmoothGrad",
        "uniform-smooth": "attrcert.attributions.smoothed:UniformSmooth",
    },
    {
        "sm": "saliency",
        "ixg": "input-x-gradient",
        "ig": "integrated-gradients",
        "gbp": "guided-backprop",
        "cam": "grad-cam",
        "sg": "smooth-grad",
        "us": "uniform-smooth",
    },
)
CAPTUM = "captum"  # `captum:NAME` is one of its classes


class Given(str):
    """The name of a function that was given itself: module:name, and the function."""

    function: Callable[..., Any]

    @classmethod
    def of(cls, function: Callable[..., Any]) -> "Given":
        kind = type(function)
        module, name = (getattr(function, part, getattr(kind, part)) for part in ("__module__", "__qualname__"))
        given = cls(f"{module}:{name}")
        given.function = function
        return given


def is_own(name: str) -> bool:
    """Whether a name is of the user's own: file.py:function, module:function or captum:NAME."""
    return ":" in name


SMOOTHED = {"smooth-grad": "sigma", "uniform-smooth": "radius"}  # and how far the noise of each reaches
BOUNDINGS: "Family[Bounding]" = Family(
    "bounding",
    {
        "unit": "attrcert.attributions.bounded:Unit",
        "clip:Q": "attrcert.attributions.bounded:Clip",
        "clip-at:M": "attrcert.attributions.bounded:ClipAt",
        "sample-max": "attrcert.attributions.bounded:SampleMaximum",
    },
)
