"""Shapes and types of what handles arrays are checked while the tests run; torch keeps to one thread per worker."""

from reference.typechecking import forget_calls, install

install("attrcert")

from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402

import pytest  # noqa: E402
import torch  # noqa: E402
from reference.program import attrcert  # noqa: E402
from torch import Tensor, nn  # noqa: E402

torch.set_num_threads(1)

Network = Callable[[Tensor], Tensor]


def _initialised(network: nn.Sequential, seed: int, gain: float) -> nn.Sequential:
    """Weights from a generator of their own: the global one is never touched."""
    rng = torch.Generator().manual_seed(seed)
    for parameter in network.parameters():
        fan = parameter[0].numel() if parameter.ndim > 1 else 1
        scale = gain / fan**0.5 if parameter.ndim > 1 else 0.1
        parameter.data = scale * torch.randn(parameter.shape, generator=rng, dtype=torch.float64)
    return network.double().eval().requires_grad_(False)


@pytest.fixture(autouse=True)
def _checks_begin_anew() -> None:
    forget_calls()


@pytest.fixture(scope="session")
def smooth_cnn() -> Callable[..., nn.Sequential]:
    """A small float64 network with curvature everywhere: one convolution, softplus, two dense layers."""

    def make(
        *, channels: int = 1, side: int = 5, classes: int = 4, beta: float = 3.0, seed: int = 0, gain: float = 1.5
    ) -> nn.Sequential:
        inner = side - 2
        network = nn.Sequential(
            nn.Conv2d(channels, 3, 3),
            nn.Softplus(beta=beta),
            nn.Flatten(),
            nn.Linear(3 * inner * inner, 12),
            nn.Softplus(beta=beta),
            nn.Linear(12, classes),
        )
        return _initialised(network, seed, gain)

    return make


@pytest.fixture(scope="session")
def relu_mlp() -> Callable[..., nn.Sequential]:
    """A small float64 ReLU network: its Hessian is zero, that of its loss is not."""

    def make(*, inputs: int = 9, classes: int = 4, seed: int = 0) -> nn.Sequential:
        network = nn.Sequential(
            nn.Flatten(), nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, 10), nn.ReLU(), nn.Linear(10, classes)
        )
        return _initialised(network, seed, 1.5)

    return make


@pytest.fixture(scope="session")
def images() -> Callable[..., Tensor]:
    """Uniform float64 images in [0, 1]."""

    def make(b: int, *shape: int, seed: int = 0) -> Tensor:
        return torch.rand(b, *shape, generator=torch.Generator().manual_seed(1000 + seed), dtype=torch.float64)

    return make


@pytest.fixture(scope="session")
def report_runs(tmp_path_factory) -> Path:
    """A folder with attacks on both bundled models, their perturbations, and a bound with a Jacobian."""
    home = tmp_path_factory.mktemp("runs")
    quick = ("--steps", 5, "--restarts", 0, "--random-draws", 10)
    for model in ("natural", "adversarial"):
        words = (f"fashion-{model}", "--limit", 6, "--eps", "0.1,0.25", "--attack", "euclidean,top-k", "--quiet")
        files = ("--out", home / f"{model}.csv", "--save-deltas", home / f"{model}.safetensors")
        done = attrcert("attack", *words, *quick, *files)
        assert done.code == 0, done.err
    done = attrcert("bound", "--limit", 4, "--quiet", "--save-jacobian", 1, "--out", home / "bound.csv")
    assert done.code == 0, done.err
    return home
