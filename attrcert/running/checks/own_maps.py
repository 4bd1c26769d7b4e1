"""A user's own attribution, or another that autograd differentiates: does it give maps, the same ones every time, each sample its own, and
can they be differentiated?
"""

import copy
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.attributions.captum_methods import CaptumMethod
from attrcert.attributions.differentiated import AutogradJacobian, Differentiated
from attrcert.errors import AttrcertError
from attrcert.networks.classifier import Classifier
from attrcert.running.checks.findings import Finding, Level, first_line
from attrcert.running.checks.hooked import check_hooked
from attrcert.running.checks.outputs import relative
from attrcert.vocabulary import SOFTPLUS_BETA, shortened

NAME = "attribution"
WITH_VALUES = (
    "its values alone are enough for attack --attack search or random, score --metric insertion, deletion, rps or stability, "
    "bound --smooth, max-eps --smooth, min-radius, and smooth --certify-pixels"
)
SMOOTH = f"run ReLUs as softplus (--softplus-beta {SOFTPLUS_BETA:g})"
AWAY = 0.05  # standard deviation of the noise under which derivatives are looked at: flat parts of images are where maps have kinks
ZERO = "its Jacobian is zero at the first samples, and a bound of 0 would mean nothing"
# by the type of numbers: what a sample alone may differ by, steps of difference quotients, and how far the best may be from a product
COUPLING = {torch.float32: 1e-4, torch.float64: 1e-9}
STEPS = {torch.float32: (1e-2, 1e-3), torch.float64: (1e-3, 1e-5)}
NEAR = {torch.float32: 5e-2, torch.float64: 1e-2}
ADJOINT = {torch.float32: 1e-3, torch.float64: 1e-8}


def own_maps(own: Differentiated, f: Classifier, x: Float[Tensor, "b *shape"]) -> Finding:
    """Finite maps that are a function of their sample alone; their shape, and what was chosen for the user."""
    function = getattr(own, "function", None)
    if isinstance(function, CaptumMethod):
        check_hooked(function, f, x)
    with torch.no_grad():
        y = f(x).argmax(1)
    once = own.value(f, x, y)
    if not once.isfinite().all(dim=1).any():
        hint = "look at its output for one sample: it is called with (model, x, target)"
        return Finding(NAME, Level.FAIL, f"{own.name} is NaN or infinite at all of the first samples", hint)
    few = once.isfinite().all(dim=1).nonzero()[:1, 0]
    again, copies = own.value(f, x, y)[few], x[few].expand(2, *x.shape[1:])
    tolerance = COUPLING[x.dtype]
    if relative(again, once[few]) > tolerance:
        hint = "it draws random numbers: " + (
            "call it from a function of your own, file.py:function, that seeds them"
            if isinstance(function, CaptumMethod)
            else "let it draw them from a torch.Generator with a fixed seed"
        )
        return Finding(
            NAME, Level.FAIL, f"two calls of {own.name} differ by {relative(again, once[few]):.2g} relative", hint
        )
    alone = own.value(f, copies, y[few].expand(2))[:1]
    if relative(alone, once[few]) > tolerance:
        hint = "every map must be computed from its own sample alone, without sums or means over the batch"
        return Finding(NAME, Level.FAIL, f"{own.name} mixes the samples of a batch", hint)
    told = [f"shape {own.map_shape(f, x)}", own.note(f)]
    return Finding(NAME, Level.OK, ", ".join(filter(None, told)))


def differentiable(own: Differentiated, f: Classifier, x: Float[Tensor, "b *shape"]) -> Finding:
    """Products with its Jacobian: there are some, both ways agree, no sample enters another's, and differences of values say the same."""
    exact, z = _in_double(own, f, x)
    z = z + AWAY * torch.randn(z.shape, generator=torch.Generator().manual_seed(1)).to(z)
    with torch.no_grad():
        y = exact(z).argmax(1)
    try:
        reason = _wrong(own, exact, z, AutogradJacobian(own, exact, z, y))
    except (AttrcertError, RuntimeError, NotImplementedError) as error:
        reason = f"autograd cannot follow it: {shortened(first_line(error), 120)}"
    if reason:
        hint = f"{SMOOTH}; {WITH_VALUES}" if reason == ZERO and f.beta is None else WITH_VALUES
        return Finding(NAME, Level.FAIL, f"{own.name} cannot be differentiated: {reason}", hint)
    return Finding(
        NAME, Level.OK, f"{own.name} is differentiable: products with its Jacobian agree with differences of its values"
    )


def _in_double(own: Differentiated, f: Classifier, x: Tensor) -> tuple[Classifier, Tensor]:
    """The network in float64, where it and the map run there."""
    exact = replace(f, network=copy.deepcopy(f.network).double())
    try:
        own.value(exact, x[:1].double(), torch.zeros(1, dtype=torch.int64, device=x.device))
    except (AttrcertError, RuntimeError):
        return f, x
    return exact, x.double()


def _wrong(own: Differentiated, f: Classifier, z: Tensor, J: AutogradJacobian) -> str:
    """What keeps the products from being those of the Jacobian; empty where nothing does."""
    if not J.reaches:
        return "the graph of its maps does not reach the input (detached, or not computed by torch; what torch.autograd.grad gives has one)"
    rng = torch.Generator().manual_seed(0)
    v = torch.nn.functional.normalize(torch.randn(J.shape[0], J.shape[2], generator=rng).to(z), dim=1)
    u = torch.nn.functional.normalize(torch.randn(*J.shape[:2], generator=rng).to(z), dim=1)
    image, back = J.matvec(v), J.rmatvec(u)
    if not (image.isfinite().all(dim=1) & back.isfinite().all(dim=1)).any():
        return "its derivatives are NaN or infinite"
    size = image.norm(dim=1) + back.norm(dim=1)
    if (((image * u).sum(dim=1) - (v * back).sum(dim=1)).abs() > ADJOINT[z.dtype] * size).any():
        return "J v and J^T u do not belong to one Jacobian"
    first = torch.zeros_like(v).index_copy(0, torch.zeros(1, dtype=torch.int64, device=v.device), v[:1])
    if len(v) > 1 and J.matvec(first)[1:].nan_to_num().abs().max() > 0:
        return "the derivative of one sample's map depends on another sample"
    return _unlike_differences(own, f, z, J.classes, v, image)


def _unlike_differences(own: Differentiated, f: Classifier, z: Tensor, y: Tensor, v: Tensor, image: Tensor) -> str:
    """At half of the samples a kink may be near."""
    quotients = [
        (own.value(f, z + h * v.view_as(z), y) - own.value(f, z - h * v.view_as(z), y)) / (2 * h)
        for h in STEPS[z.dtype]
    ]
    if image.abs().max() == 0:
        constant = all(moved.abs().max() == 0 for moved in quotients)
        return ZERO if constant else "its graph misses all that moves it"
    off = min(float(_apart(image, moved).median()) for moved in quotients)
    if off <= NEAR[z.dtype]:
        return ""
    return f"its derivatives by autograd differ by {off:.2g} relative from differences of its values: a part of it is detached"


def _apart(image: Tensor, moved: Tensor) -> Float[Tensor, " b"]:
    """The difference, relative to the longer one."""
    longer = torch.maximum(moved.norm(dim=1), image.norm(dim=1)).clamp_min(torch.finfo(image.dtype).tiny)
    return ((moved - image).norm(dim=1) / longer).nan_to_num(nan=torch.inf)
