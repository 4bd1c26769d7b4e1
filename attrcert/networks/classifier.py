"""A classifier: normalisation inside, one logits tensor out, smooth twins of its ReLUs if asked."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from attrcert.errors import ModelError, UsageError
from attrcert.networks.outputs import entry
from attrcert.networks.twins import Twins
from attrcert.types import PIXELS, Box
from attrcert.vocabulary import SOFTPLUS_BETA


@dataclass(frozen=True)
class Classifier:
    """Pixels to logits. `output` picks one of several outputs; `beta` runs ReLUs as softplus, None runs the network as it is; `within` is
    what its inputs can be.
    """

    network: nn.Module
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    output: str | None = None
    beta: float | None = SOFTPLUS_BETA
    within: Box = PIXELS

    def __post_init__(self) -> None:
        if (self.mean is None) != (self.std is None):
            raise UsageError("mean and std go together, got only one of them")
        if self.mean is not None and self.std is not None:
            finite = all(math.isfinite(value) for value in (*self.mean, *self.std))
            if not (0 < len(self.mean) == len(self.std) and finite and min(self.std) > 0):
                raise UsageError(
                    f"mean and std need the same length, finite values and positive std, got {self.mean} and {self.std}"
                )
        if self.beta is not None and not self.beta > 0:
            raise UsageError(f"softplus beta must be positive, got {self.beta}")

    def __call__(self, x: Float[Tensor, "b *shape"]) -> Float[Tensor, "b k"]:
        return self.under(Twins(self.beta), x)

    def under(self, mode: TorchFunctionMode, x: Float[Tensor, "b *shape"]) -> Float[Tensor, "b k"]:
        """With torch's functions as this mode has them, the normalisation's too."""
        if self.network.training:  # it would learn from x: batch norm counts what it sees
            with self.prepared():
                return self.under(mode, x)
        with mode, sdpa_kernel(SDPBackend.MATH):
            return self._picked(self.network(self._normalised(x)), len(x))

    def original(self) -> "Classifier":
        """The network with its own activations."""
        return replace(self, beta=None)

    def of_divided(self, scale: Sequence[float]) -> "Classifier":
        """The same of inputs that were divided, channel by channel, by a scale: the normalisation undoes it."""
        mean, std = self.mean or (0.0,), self.std or (1.0,)
        if not len(mean) == len(std) or len(mean) not in (1, len(scale)):
            raise ModelError(
                f"mean and std have {len(mean)} values, but the data have {len(scale)} channels or features"
            )
        if len(mean) == 1:
            mean, std = mean * len(scale), std * len(scale)
        mean, std = (tuple(value / by for value, by in zip(part, scale, strict=True)) for part in (mean, std))
        return replace(self, mean=mean, std=std)

    def replaced(self, x: Float[Tensor, "b *shape"]) -> dict[str, int]:
        """How many activations of each kind run as their twins."""
        with torch.no_grad(), Twins(self.beta) as twins:
            self.network(self._normalised(x))
        return dict(twins.replaced)

    @contextmanager
    def prepared(self) -> Iterator["Classifier"]:
        """The network in eval mode, its parameters without gradient, TF32 and autocast off; all as before afterwards."""
        modes = {module: module.training for module in self.network.modules()}
        gradients = {parameter: parameter.requires_grad for parameter in self.network.parameters()}
        tf32 = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
        try:
            self.network.eval()
            self.network.requires_grad_(False)
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
            # half of the digits would leave nothing of a second derivative
            with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
                yield self
        finally:
            torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = tf32
            for module, training in modes.items():
                module.training = training
            for parameter, required in gradients.items():
                parameter.requires_grad_(required)

    def _normalised(self, x: Tensor) -> Tensor:
        if self.mean is None:
            return x.clone()  # a network may write into its input
        if len(self.mean) not in (1, x.shape[1]):
            part = "channel" if x.ndim > 2 else "feature"
            raise ModelError(
                f"mean has {len(self.mean)} values, but the data have {x.shape[1]} {part}s",
                hint=f"give one value per {part} in --mean and --std",
            )
        mean, std = (
            torch.tensor(v, dtype=x.dtype, device=x.device).view(-1, *[1] * (x.ndim - 2)) for v in (self.mean, self.std)
        )
        return (x - mean) / std

    def _picked(self, output: Any, batch: int) -> Float[Tensor, "b k"]:
        def is_logits(part: Any) -> bool:
            return isinstance(part, Tensor) and part.ndim == 2 and len(part) == batch and part.is_floating_point()

        if not isinstance(output, Tensor):
            output = entry(output, self.output, is_logits)
        if not isinstance(output, Tensor) or output.ndim != 2:
            came = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
            raise ModelError(
                f"the model must give logits of shape (batch, classes), got {came}",
                hint="pick the right output with --output",
            )
        return output
