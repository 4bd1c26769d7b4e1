"""Between two convergence checks nothing waits for a device: the steps run on tensors that have no values at all."""

import pytest
import torch
from torch import Tensor, nn

from attrcert.attributions import ATTRIBUTIONS
from attrcert.draws import Draws
from attrcert.linalg.enclosure import CHECK_EVERY, TopSingularValue
from attrcert.linalg.krylov import GramLanczos, Lanczos, _Process
from attrcert.linalg.maps import Dense
from attrcert.types import LinearMap

META = torch.device("meta")


def on_meta(name: str) -> LinearMap:
    """The Jacobian of a small network's attribution where no number can be read."""
    network = (
        nn.Sequential(nn.Flatten(), nn.Linear(9, 8), nn.Softplus(), nn.Linear(8, 3)).to(META).requires_grad_(False)
    )
    x, y = torch.empty(4, 1, 3, 3, device=META), torch.zeros(4, dtype=torch.int64, device=META)
    return ATTRIBUTIONS.make(name, steps=3).explain(network, x, y).jacobian


def test_a_meta_tensor_refuses_to_tell_its_value():
    for read in (Tensor.item, Tensor.tolist, Tensor.numpy, Tensor.cpu, bool):
        with pytest.raises((NotImplementedError, RuntimeError, TypeError)):
            read(torch.empty((), device=META))


@pytest.mark.parametrize("name", ["saliency", "input-x-gradient", "integrated-gradients"])
def test_a_lanczos_step_on_an_attribution_reads_no_value(name):
    J = on_meta(name)
    process = (Lanczos if J.symmetric else GramLanczos)(J, Draws(0, (0, 1, 2, 3)), "test")
    for _ in range(2 * CHECK_EVERY):
        process.step()
    assert process.basis.last.device == META
    assert process.alphas[-1].shape == (4,)


class Counted:
    """How often the section, for which a GPU is waited for, was asked for."""

    def __init__(self, monkeypatch) -> None:
        self.sections = self.steps = 0
        section, advance = _Process.section, _Process._advance

        def counted_section(process):
            self.sections += 1
            return section(process)

        def counted_advance(process, *arguments):
            self.steps += 1
            return advance(process, *arguments)

        monkeypatch.setattr(_Process, "section", counted_section)
        monkeypatch.setattr(_Process, "_advance", counted_advance)


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_solver_looks_at_values_once_in_several_steps(symmetric, monkeypatch):
    counted = Counted(monkeypatch)
    values = torch.linspace(1, 2, 60, dtype=torch.float64)
    matrix = torch.diag(values).expand(3, 60, 60)
    TopSingularValue(slack=1e-6)(Dense(matrix, symmetric=symmetric), Draws(0, (0, 1, 2)), purpose="test")
    assert counted.steps >= 6 * CHECK_EVERY
    assert counted.sections <= -(-counted.steps // CHECK_EVERY)
