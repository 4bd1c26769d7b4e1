"""Rounding: upper ends hold where weights cancel, figures that are noise are marked, and real networks pay next to nothing."""

import math

import pytest
import torch
from mpmath import mp
from reference.program import attrcert
from torch import Tensor, nn

import attrcert as library
from attrcert.running.evaluating.rounding import otherwise

CURVES = {
    "tanh": (nn.Tanh(), lambda z: -2 * mp.tanh(z) * mp.sech(z) ** 2),
    "softplus": (nn.Softplus(), lambda z: mp.exp(-z) / (1 + mp.exp(-z)) ** 2),
}


def cancelling(activation: nn.Module, scale: float, seed: int, dtype: torch.dtype) -> tuple[nn.Module, Tensor]:
    """One hidden unit of 16 inputs, whose large weights cancel to a z of order one."""
    rng = torch.Generator().manual_seed(seed)
    x, w = torch.rand(1, 1, 4, 4, generator=rng), scale * torch.randn(16, generator=rng)
    network = nn.Sequential(nn.Flatten(), nn.Linear(16, 1), activation, nn.Linear(1, 2)).to(dtype)
    network[1].weight.data = w[None].to(dtype)
    network[1].bias.data = (0.3 - x.flatten(1).double() @ w.double()).to(dtype)
    network[3].weight.data = torch.tensor([[1.0], [0.5]], dtype=dtype)
    return network, x


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize(
    ("dtype", "scale"), [("float32", 1e2), ("float32", 1e4), ("float32", 1e5), ("float64", 1e6), ("float64", 1e12)]
)
def test_no_upper_end_is_too_small_where_weights_cancel(dtype: str, scale: float, curve: str, norm: str) -> None:
    """Against J = s''(z) w w^T in forty digits."""
    activation, bend = CURVES[curve]
    for seed in range(6):
        network, x = cancelling(activation, scale, seed, getattr(torch, dtype))
        (row,) = library.bound(network, x, norm=norm, eps=1.0, target="0", dtype=dtype, label_constraint="off")
        w, pixels = network[1].weight[0].tolist(), x.flatten().tolist()
        with mp.workdps(40):
            z = mp.fdot(w, pixels) + mp.mpf(float(network[1].bias))
            length = mp.sqrt(mp.fsum(mp.mpf(part) ** 2 for part in w))
            exact = abs(bend(z)) * length * (length if norm == "l2" else mp.fsum(abs(mp.mpf(part)) for part in w))
        assert row["T_e_attained"] <= exact <= row["T_e"]
        if row["solver_status"] == "converged":
            assert row["T_e"] <= 1.05 * exact
        else:
            assert (row["solver_status"], row["status"]) == ("rounding", "not-converged")
            assert "--dtype float64" in row["message"]


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_a_network_without_cancellation_is_enclosed_as_closely_in_float32_as_in_float64(norm: str) -> None:
    single, double = (
        library.bound("fashion-natural", limit=4, norm=norm, dtype=dtype) for dtype in ("float32", "float64")
    )
    for one, other in zip(single, double, strict=True):
        assert one["T_e"] <= (1 + 2e-4) * other["T_e"]
        assert one["T_e"] >= other["T_e_attained"]


class Cast(nn.Module):
    """Insists on float32."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(9, 2)
        self.register_buffer("scale", torch.ones(9))

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(torch.tanh(x.flatten(1).float() * self.scale.float()))


def test_a_network_that_does_not_run_in_float64_gets_an_allowance_and_is_told() -> None:
    images = torch.rand(2, 1, 3, 3, generator=torch.Generator().manual_seed(0))
    with pytest.warns(UserWarning, match="rounding: not measured: the model does not run in float64"):
        rows = library.bound(Cast(), images, eps=0.1)
    assert all(row["T_e"] >= (1 + 1e-4) * row["T_e_attained"] for row in rows)


def test_the_other_network_of_a_run_in_float64_has_slightly_other_weights() -> None:
    network = nn.Linear(9, 2).double()
    other = otherwise(library.Classifier(nn.Sequential(nn.Flatten(), network)), torch.rand(1, 1, 3, 3).double())
    assert other is not None
    off = (other.f.network[1].weight / network.weight - 1).abs()
    assert float(off.min()) == pytest.approx(2**-40, rel=1e-3)


def test_what_an_attack_reached_below_its_rounding_is_marked_and_not_compared() -> None:
    words = ("attack", "fashion-adversarial", "--limit", 2, "--proved", "--steps", 3)
    done = attrcert(*words, "--eps", "1e-7", "--eps", "1e-2", "--format", "csv")
    assert done.code == 0, done.err
    for row in done.rows:
        noise = float(row["T_hat_e"]) <= float(row["T_hat_floor"])
        assert noise == (row["eps"] == "1e-07")
        flags = ("violated", "violated_corrected", "violated_proved", "tightness")
        assert all((row[name] == "") == noise for name in flags)
    table = attrcert(*words, "--eps", "1e-7").shown
    assert "T_hat_e of 2 samples is not above what rounding alone can make of it" in table
    assert "another model" not in table


def test_the_floor_is_what_float32_takes_of_the_map() -> None:
    """Twice both maps' rounding: of the order of 1e-6 of their length."""
    rows = library.attack("fashion-adversarial", limit=3, steps=1, eps=0.1)
    shares = [row["T_hat_floor"] / row["g_norm"] for row in rows]
    assert all(1e-8 < share < 1e-4 for share in shares)
    exact = library.attack("fashion-adversarial", limit=3, steps=1, eps=0.1, dtype="float64")
    assert all(0 < row["T_hat_floor"] / row["g_norm"] < 1e-11 for row in exact)
    assert not any(math.isnan(share) for share in shares)
