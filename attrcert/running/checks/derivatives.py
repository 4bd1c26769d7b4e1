"""Can the model be differentiated twice, are the products right, and where does its gradient jump?"""

import copy

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.attributions.gradient import Hessian, gradient
from attrcert.networks.classifier import Classifier
from attrcert.networks.tracing import Called
from attrcert.running.checks.findings import Finding, Level, first_line
from attrcert.running.checks.outputs import relative
from attrcert.vocabulary import SOFTPLUS_BETA, some

KINKS = "kinks"  # the check of them
EXACT = ("abs", "gt", "where", "clip", "clamp", "max", "min")  # words that other functions' names contain
FLAT = 1e-9  # change of a gradient across its inputs, relative, below which it is as good as constant
VANISHING = "Hessian products all but vanish at every sample: the activations are saturated, and bounds say little"
SCALED = "are the inputs scaled as the model was trained? check --mean and --std"
_KINKS = {
    "max_pool": "max-pooling: the gradient jumps where the maximum switches, so no Jacobian bound can hold across it "
    "(average pooling or strides have no switch)",
    "relu": "a ReLU runs as it is",
    "hardtanh": "hardtanh runs as it is",
    "clamp": "a clamp has kinks",
    "clip": "a clip has kinks",
    **dict.fromkeys(("maximum", "fmax", "max"), "a maximum has a kink"),
    **dict.fromkeys(("minimum", "fmin", "min"), "a minimum has a kink"),
    "where": "where may have a kink or a jump",
    "abs": "abs has a kink",
    "gt": "a comparison may make a kink or a jump",
    "hardswish": "hardswish has kinks",
    "hardsigmoid": "hardsigmoid has kinks",
    "threshold": "threshold has a jump or a kink",
    "shrink": "a shrinkage function has kinks",
}


def curvature(f: Classifier, x: Float[Tensor, "b *shape"]) -> Finding:
    """The gradient can be differentiated, and is not constant."""
    name = "second derivative"
    v = torch.randn(len(x), x[0].numel(), generator=torch.Generator().manual_seed(0)).to(x)
    try:
        y = f(x).argmax(1)
        product = Hessian(f, x, y).matvec(v)
    except RuntimeError as error:
        message = f"the gradient cannot be differentiated: {first_line(error)}"
        return Finding(name, Level.FAIL, message, "an operation has no second derivative")
    if not product.isfinite().all():
        hint = "an operation's second derivative is not finite"
        return Finding(name, Level.FAIL, "the Hessian product has NaN or infinity", hint)
    if product.abs().max() == 0:
        unlike = f"use --softplus-beta {SOFTPLUS_BETA:g}, or --loss-hessian for the gradient of the loss"
        why = "a ReLU network is piecewise linear, and so are saturated activations"
        message = f"the Hessian is zero at every sample ({why}): a bound of 0 would mean nothing"
        return Finding(name, Level.FAIL, message, unlike if f.beta is None else SCALED)
    slope = gradient(f, x, y).abs().max()
    if product.abs().max() * x.abs().max() <= FLAT * slope:
        return Finding(
            name, Level.WARN, f"{VANISHING}: {product.abs().max():.1g}, of a gradient of {slope:.1g}", SCALED
        )
    return Finding(name, Level.OK, "Hessian products work and are not zero")


def piecewise_linear(f: Classifier, x: Float[Tensor, "b *shape"]) -> Finding:
    """The network has no curvature of its own, as the closed-form Hessian of the loss supposes."""
    seen = curvature(f, x)
    if seen.level is Level.FAIL:  # the Hessian is zero, or the network cannot be differentiated twice at all
        return Finding("piecewise linear", Level.OK, "the network has no curvature of its own")
    message = "--loss-hessian holds for piecewise-linear networks only, and this one has curvature of its own"
    return Finding("piecewise linear", Level.FAIL, message, "leave --loss-hessian out")


def finite_difference(f: Classifier, x: Float[Tensor, "b *shape"]) -> Finding:
    """The Hessian product equals a central difference of gradients, in float64."""
    name = "Hessian against finite difference"
    try:
        network = copy.deepcopy(f.network).double()
        exact = Classifier(network, f.mean, f.std, f.output, f.beta)
        z = x.double()
        y = exact(z).argmax(1)
        if curvature(exact, z).level is Level.WARN:
            return Finding(
                name, Level.WARN, "not checked: second derivatives vanish, and differences show rounding alone", SCALED
            )
        v = torch.randn(len(z), z[0].numel(), generator=torch.Generator().manual_seed(0), dtype=z.dtype).to(z.device)
        v = v / v.norm(dim=1, keepdim=True)
        step = 1e-5 * v.view_as(z)
        difference = (gradient(exact, z + step, y) - gradient(exact, z - step, y)) / 2e-5
        gap = relative(Hessian(exact, z, y).matvec(v), difference)
    except Exception as error:
        return Finding(name, Level.WARN, f"not checked: {first_line(error)}", "the model does not run in float64")
    if gap <= 1e-4:
        return Finding(name, Level.OK, f"agree to {gap:.1g} relative")
    hint = "the gradient has a kink or a jump near a sample, or an operation's derivative is wrong"
    return Finding(name, Level.WARN, f"differ by {gap:.1g} relative", hint)


def kinks(f: Classifier, x: Float[Tensor, "b *shape"]) -> list[Finding]:
    """Operations whose gradient jumps, by module."""
    with Called(f.network) as called, torch.no_grad():
        f(x[:2])
    found: dict[str, list[str]] = {}
    for function, module in called.names:
        for word, reason in _KINKS.items():
            if word in function and not (word in EXACT and function.strip("_") != word):
                found.setdefault(reason, []).append(module)
    if not found:
        message = "none of the known kinks (max-pooling, ReLU, clamp, maximum, abs, where, ...) was seen"
        return [Finding(KINKS, Level.OK, message)]
    hint = "first-order figures say nothing beyond the nearest switch or kink"
    return [
        Finding(KINKS, Level.WARN, f"{reason} ({some(dict.fromkeys(modules), 3)})", hint)
        for reason, modules in found.items()
    ]
