"""Feature attributions, each with its Jacobian as a linear map."""

from attrcert.attributions.gradient import Saliency
from attrcert.attributions.input_times_gradient import InputTimesGradient
from attrcert.attributions.integrated_gradients import IntegratedGradients
from attrcert.attributions.smoothed import SmoothGrad, UniformSmooth
from attrcert.registry import Family
from attrcert.types import Attribution

ATTRIBUTIONS: Family[Attribution] = Family(
    "attribution",
    {
        "saliency": Saliency,
        "input-x-gradient": InputTimesGradient,
        "integrated-gradients": IntegratedGradients,
        "smooth-grad": SmoothGrad,
        "uniform-smooth": UniformSmooth,
    },
    {
        "sm": "saliency",
        "ixg": "input-x-gradient",
        "ig": "integrated-gradients",
        "sg": "smooth-grad",
        "us": "uniform-smooth",
    },
)
SMOOTHED = ("smooth-grad", "uniform-smooth")
