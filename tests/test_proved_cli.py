"""`--proved` from the outside: rows, tables, refusals, and the inverse, on networks that users bring."""

import json
import math
import textwrap
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mpmath import mp
from reference.program import Done, attrcert
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import attrcert as library
from attrcert.attributions.gradient import Saliency
from attrcert.draws import Draws
from attrcert.errors import ModelError
from attrcert.loading.architectures import softplus_mlp
from attrcert.networks.classifier import Classifier
from attrcert.running.evaluating.proving import proving
from attrcert.settings.tasks import BoundConfig

ARCHITECTURE = textwrap.dedent("""
    from torch import nn

    def smooth():
        return nn.Sequential(nn.Conv2d(1, 3, 2, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(27, 8), nn.Tanh(), nn.Linear(8, 4))

    def pooled():
        return nn.Sequential(nn.Conv2d(1, 3, 2), nn.ReLU(), nn.MaxPool2d(5), nn.Flatten(), nn.Linear(3, 4))

    def tower():
        floors = [layer for _ in range(24) for layer in (nn.ReLU(), nn.Linear(24, 24))]
        return nn.Sequential(nn.Flatten(), nn.Linear(36, 24), *floors, nn.Linear(24, 4))
""")


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    """A user's folder: code, a checkpoint of each network, images."""
    folder = tmp_path_factory.mktemp("proved")
    (folder / "nets.py").write_text(ARCHITECTURE)
    made: dict = {}
    exec(ARCHITECTURE, made)
    rng = torch.Generator().manual_seed(0)
    for name in ("smooth", "pooled", "tower"):
        state = {
            key: torch.randn(part.shape, generator=rng) / max(1, part[0].numel()) ** 0.5
            for key, part in made[name]().state_dict().items()
        }
        save_file(state, folder / f"{name}.safetensors")
    numbers = np.random.default_rng(0)
    np.savez(
        folder / "data.npz", images=numbers.random((6, 6, 6, 1), dtype=np.float32), labels=numbers.integers(4, size=6)
    )
    return folder


@pytest.fixture(scope="module")
def on(work: Path):
    def run(command: str, *words: object, network: str = "smooth", **options: object) -> Done:
        where = (work / f"{network}.safetensors", work / "data.npz", "--arch", f"{work / 'nets.py'}:{network}")
        beta = () if "--softplus-beta" in words else ("--softplus-beta", 5)
        effort = () if "--proved-effort" in words else ("--proved-effort", 0)
        return attrcert(command, *where, "--proved", *effort, *beta, *words, "--quiet", **options)

    return run


@pytest.mark.parametrize(("attribution", "norm"), [("sm", "l2"), ("sm", "linf"), ("ixg", "linf"), ("ig", "l2")])
def test_attacks_stay_below_the_proved_bound_and_rows_say_so(on, norm: str, attribution: str) -> None:
    few = ("--ig-steps", 3) if attribution == "ig" else ()
    words = ("--norm", norm, "--attribution", attribution, *few, "--eps", "0.01,0.2", "--attack", "worst")
    done = on("attack", *words, "--steps", 10, "--restarts", 2, "--limit", 3, "--format", "csv")
    assert done.code == 0
    for row in done.rows:
        assert row["guarantee"] == "proved"
        assert row["violated_proved"] == "False"
        assert row["proved_method"] in ("secant", "interval")
        T, g = float(row["T_proved"]), float(row["g_norm"])
        assert 0 < float(row["T_hat_e"]) <= T
        if g > T:
            assert float(row["angle_proved_deg"]) == pytest.approx(math.degrees(math.asin(T / g)), rel=1e-4)
        else:
            assert (row["angle_proved_deg"], row["status"]) == ("", "vacuous")


def test_a_vacuous_row_is_one_without_a_proved_angle(on) -> None:
    done = on("bound", "--eps", "0.01,50", "--format", "csv")
    small, large = done.rows[0], done.rows[1]
    assert small["status"] == "ok"
    assert large["status"] == "vacuous"
    assert float(large["T_proved"]) >= float(large["g_norm"])


def test_bounds_grow_with_eps_and_do_not_depend_on_dtype_batch_or_company(on) -> None:
    words = ("--eps", "0.4,0.01,0.1", "--format", "csv")
    whole = on("bound", *words).rows
    by_index = {key: [row for row in whole if row["index"] == key] for key in {row["index"] for row in whole}}
    for several in by_index.values():
        ordered = sorted(several, key=lambda row: float(row["eps"]))
        assert [float(row["T_proved"]) for row in ordered] == sorted(float(row["T_proved"]) for row in ordered)
    for other in (("--batch-size", 1), ("--dtype", "float64")):
        for one, same in zip(whole, on("bound", *words, *other).rows, strict=True):
            assert float(one["T_proved"]) == pytest.approx(float(same["T_proved"]), rel=1e-6)
    alone = on("bound", "--eps", 0.1, "--indices", 3, "--format", "csv").rows[0]
    middle = next(row for row in by_index["3"] if row["eps"] == "0.1")
    assert float(alone["T_proved"]) == pytest.approx(float(middle["T_proved"]), rel=1e-6)


class Stopped(nn.Module):
    """Gives a value without its gradient, which no comparison of values shows."""

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        with torch.no_grad():
            held = torch.sigmoid(3 * flat)
        return (flat.tanh() + torch.sigmoid(3 * flat) - held)[:, :3]


class Negated(torch.autograd.Function):
    """Passes values on and turns gradients round."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 1

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return -5 * gradients[0]


class Turned(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return Negated.apply(x.flatten(1)).tanh()[:, :3]


class Beside(nn.Module):
    """A large linear part, and a small one that bends and whose gradient is stopped, where a tracer sees it or not."""

    def __init__(self, hidden: bool) -> None:
        super().__init__()
        self.hidden, self.straight, self.bent = hidden, nn.Linear(9, 3), nn.Linear(9, 3)
        for number, part in enumerate((self.straight, self.bent)):
            part.weight.data = torch.randn(3, 9, generator=torch.Generator().manual_seed(number)) * (1e8, 1)[number]

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        bent = self.bent(flat).tanh()
        if not self.hidden or isinstance(bent, Tensor):  # what traces it gives no tensor
            bent = bent.detach()
        return self.straight(flat) + flat[:, :3].sigmoid() + bent


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (Stopped(), "no rule for mul under torch.no_grad"),
        (Turned(), "no rule for mul under torch.no_grad"),
        (Beside(hidden=False), "no rule for detach"),
        (
            Beside(hidden=True),
            "read another network than the one that runs: their derivatives of the attribution differ",
        ),
    ],
    ids=["stopped", "turned", "detached", "detached unseen"],
)
def test_a_network_with_gradients_of_its_own_is_refused(network: nn.Module, said: str) -> None:
    images = torch.rand(3, 1, 3, 3, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ModelError, match=said):
        library.bound(network, (images, torch.zeros(3, dtype=torch.int64)), proved=True, eps=0.1)


class BesideWhereBright(Beside):
    """Stops that gradient of bright images only."""

    def forward(self, x: Tensor) -> Tensor:
        stopped = super().forward(x)
        if not isinstance(x, Tensor):
            return stopped
        bright = x.flatten(1)[:, :1] > 0.5
        bent = self.bent(x.flatten(1)).tanh()
        return stopped + torch.where(bright, 0.0, bent - bent.detach())


def test_one_sample_where_another_network_runs_is_a_row_and_the_others_go_on() -> None:
    images = torch.rand(4, 1, 3, 3, generator=torch.Generator().manual_seed(0)) * 0.4
    images[2, 0, 0, 0] = 0.9
    data = (images, torch.zeros(4, dtype=torch.int64))
    rows = list(library.bound(BesideWhereBright(hidden=True), data, proved=True, eps=0.1))
    assert [row["status"] == "error:misread" for row in rows] == [False, False, True, False]
    assert "differ by" in rows[2]["message"]
    assert all(row["T_proved"] > 0 for row in (rows[0], rows[1], rows[3]))


@pytest.mark.parametrize("times", [10, 30])
def test_saturated_softplus_neither_overflows_nor_looks_like_another_network(times: float) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    for part in network.parameters():
        part.data *= times
    images = torch.rand(4, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    rows = list(
        library.bound(network, (images, network(images).argmax(dim=1)), proved=True, eps=0.01, softplus_beta=20)
    )
    assert {row["status"] for row in rows} <= {"ok", "vacuous"}
    for row in rows:
        assert row["T_e"] < row["T_proved"] < float("inf")


def test_a_forward_of_its_own_and_hooks_for_all_modules_are_refused() -> None:
    images = torch.rand(2, 1, 3, 3, generator=torch.Generator().manual_seed(0))
    network = nn.Sequential(nn.Flatten(), nn.Identity(), nn.Linear(9, 3), nn.Tanh())
    handle = nn.modules.module.register_module_forward_hook(lambda module, given, output: None)
    try:
        with pytest.raises(ModelError, match="torch has one for all modules"):
            library.bound(network, images, proved=True, eps=0.1)
    finally:
        handle.remove()
    network[1].forward = lambda t: t + torch.sigmoid(60 * (t - 2.2))
    with pytest.raises(ModelError, match="1 by its class, and it has a forward of its own"):
        library.bound(network, images, proved=True, eps=0.1)


class Shifted(nn.Module):
    """A linear part beside a tanh at the place that float32 does not resolve: exp(15) x - b cancels all but the last digits."""

    def __init__(self) -> None:
        super().__init__()
        self.skip, self.out = nn.Linear(1, 2, bias=False), nn.Linear(1, 2, bias=False)
        self.t, self.b = nn.Parameter(torch.tensor([15.0])), nn.Parameter(torch.tensor([1634508.5]))
        self.skip.weight.data, self.out.weight.data = torch.tensor([[1e3], [0.0]]), torch.tensor([[1e-7], [0.0]])

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        return self.skip(flat) + self.out(torch.tanh(flat * self.t.exp() - self.b))


def test_what_touches_no_input_is_computed_in_float64() -> None:
    """Against the change of the gradient in forty digits."""
    (row,) = library.bound(Shifted(), torch.full((1, 1, 1, 1), 0.5), proved=True, eps=1e-7, target="0")
    with mp.workdps(40):
        scale, z = mp.exp(15), mp.exp(15) * mp.mpf(0.5) - mp.mpf(1634508.5)
        slopes = [scale * mp.mpf(float(torch.tensor(1e-7))) * mp.sech(z + scale * d) ** 2 for d in (-1e-7, 0, 1e-7)]
        moved = float(max(abs(slopes[0] - slopes[1]), abs(slopes[2] - slopes[1])))
    assert moved <= row["T_proved"] <= 1.5 * moved


def test_a_stock_softplus_is_bounded_across_torchs_threshold() -> None:
    """The network's own gradient, as it runs, on both sides of beta z = 20."""
    network = nn.Sequential(
        nn.Flatten(), nn.Linear(1, 1, bias=False), nn.Softplus(), nn.Linear(1, 2, bias=False)
    ).double()
    network[1].weight.data.fill_(40.0)
    network[3].weight.data.fill_(1.0)
    x = torch.full((1, 1, 1, 1), 0.5 - 1e-12, dtype=torch.float64)
    (row,) = library.bound(network, x, proved=True, eps=1e-10, dtype="float64", target="0")
    f, target = Classifier(network), torch.tensor([0])
    moved = Saliency().value(f, x + 1e-10, target) - Saliency().value(f, x, target)
    assert float(moved.abs().max()) <= row["T_proved"] <= 1e-14  # the jump, times 40, would be 8e-8


@pytest.mark.parametrize("activation", [nn.Tanh(), nn.Softplus(2.0)], ids=["tanh", "softplus"])
def test_networks_with_parametrised_weights_are_bounded_as_they_are(activation: nn.Module) -> None:
    """Stock weight norm: the change of the gradient at random perturbations, in float64, stays below."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), parametrizations.weight_norm(nn.Linear(9, 1)), activation, nn.Linear(1, 2))
    x = torch.rand(1, 1, 3, 3)
    (row,) = library.bound(network, x, proved=True, eps=1e-3, target="0")
    f, point = Classifier(deepcopy(network).double()), x.double()
    toward = f.network[1].weight.detach()
    moves = [s * 1e-3 * (toward / toward.norm()).view(1, 1, 3, 3) for s in (-1, 1)]
    target = torch.tensor([0])
    at = Saliency().value(f, point, target)
    reached = max(float((Saliency().value(f, point + move, target) - at).norm()) for move in moves)
    assert reached <= row["T_proved"] <= 1.01 * reached


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize(("word", "value"), [("--max-angle", 20), ("--max-deviation", 0.05)])
def test_the_bound_at_the_largest_eps_keeps_the_threshold_and_slightly_above_it_does_not(
    on, norm: str, word: str, value: float
) -> None:
    found = on("max-eps", word, value, "--norm", norm, "--limit", 3, "--format", "csv").rows
    for row in found:
        assert row["guarantee"] == "proved"
        eps = float(row["eps_max"])
        for size, kept in ((eps, True), (eps * (1 + 1e-4), False)):
            words = ("--norm", norm, "--indices", row["index"], "--eps", repr(size), "--format", "csv")
            at = on("bound", *words).rows[0]
            figure = float(at["T_proved"]) if word == "--max-deviation" else float(at["angle_proved_deg"])
            assert (figure <= value * (1 + 1e-6)) is kept


@pytest.mark.parametrize(("norm", "largest"), [("l2", 3.0), ("linf", 1.0)])
def test_what_holds_as_far_as_images_can_be_apart_is_claimed_so_far_and_no_farther(
    norm: str, largest: float, tmp_path
) -> None:
    """A gradient that hardly turns: the threshold is kept in the whole ball, and the row says at which radius that was shown."""
    network = softplus_mlp(inputs=9, classes=2, hidden=1)
    network[1].weight.data.fill_(1e-3)
    arguments = json.dumps({"inputs": 9, "classes": 2, "hidden": 1})
    metadata = {"attrcert.arch": "softplus-mlp", "attrcert.arch_args": arguments}
    save_file(network.state_dict(), tmp_path / "flat.safetensors", metadata)
    np.savez(tmp_path / "data.npz", images=np.full((1, 3, 3), 0.5, dtype=np.float32))
    words = ("max-eps", tmp_path / "flat.safetensors", tmp_path / "data.npz", "--proved", "--norm", norm)
    words += ("--max-deviation", 1e-3, "--max-deviation", 1e-12)
    kept, lost = attrcert(*words, "--format", "csv").rows
    assert (kept["status"], float(kept["eps_max"])) == ("everywhere", pytest.approx(largest))
    assert lost["status"] == "ok"
    assert 0 < float(lost["eps_max"]) < largest
    assert "everywhere: the threshold is kept at the largest eps that was tested" in attrcert(*words).shown


def test_deep_networks_are_bounded_by_streamed_rows(on) -> None:
    words = ("--eps", "1e-4,2e-4", "--attack", "worst", "--steps", 5, "--restarts", 1, "--limit", 2, "--format", "csv")
    done = on("attack", *words, "--dtype", "float64", network="tower")
    assert done.code == 0
    assert len(done.rows) == 4
    for row in done.rows:
        assert row["proved_method"] == "streamed"
        assert 0 < float(row["T_hat_e"]) <= float(row["T_proved"]) <= 1.5 * float(row["T_hat_e"])


def test_the_tables_say_which_figures_are_guarantees(on) -> None:
    bounded = on("bound", "--eps", 0.05).out
    assert "proved bounds beside first-order estimates" in bounded
    assert "T_proved" in bounded
    assert "The other figures are not guarantees" in " ".join(bounded.split())
    attacked = on("attack", "--eps", 0.05, "--steps", 5).out
    assert "T_proved/T_hat_e" in attacked
    assert "the only guarantees here" in " ".join(attacked.split())
    inverse = on("max-eps", "--max-angle", 20, "--limit", 2).out
    assert "keeps a threshold: proved" in inverse


@pytest.mark.parametrize(
    ("words", "network", "code", "said"),
    [
        ((), "pooled", 3, "max_pool2d in 2"),
        (("--softplus-beta", "none"), "smooth", 3, "relu in 1"),
        (("--memory", "10KB"), "smooth", 3, "GB a sample, and --memory allows"),
        (("--norm", "lp", "--p", 4), "smooth", 2, "l2 and linf"),
        (("--attribution", "smooth-grad"), "smooth", 2, "proved bounds are for saliency"),
        (("--attribution", "ig", "--baseline", "blur"), "smooth", 2, "constant baseline"),
        (("--loss-hessian",), "smooth", 2, "excludes --loss-hessian"),
        (("--smooth", "uniform"), "smooth", 2, "--proved"),
    ],
)
def test_what_cannot_be_proved_is_refused_with_a_reason(on, words: tuple, network: str, code: int, said: str) -> None:
    done = on("bound", *words, network=network)
    assert done.code == code
    assert said in " ".join(done.err.split())
    assert done.out == ""


def test_a_cut_file_resumes_to_the_same_rows(on, tmp_path) -> None:
    file = tmp_path / "rows.csv"
    words = ("--eps", 0.1, "--batch-size", 2, "--out", file)
    assert on("bound", *words).code == 0
    whole = file.read_text().splitlines()
    file.write_text("\n".join(whole[:4]) + "\n7,tor")
    assert on("bound", *words, "--resume").code == 0
    again = file.read_text().splitlines()
    place = whole[0].split(",").index("T_proved")
    assert [line.split(",")[place] for line in again] == [line.split(",")[place] for line in whole]


class Elsewhere(nn.Module):
    """Another gradient where pixels are large, which those that are compared first are not, and a tracer does not see."""

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        bent = nn.functional.softplus(500 * (flat - 1.5))
        return (flat.tanh() + bent - (bent.detach() if isinstance(bent, Tensor) else bent))[:, :3]


def test_an_attribution_that_differs_from_what_runs_is_not_bounded() -> None:
    images = torch.rand(2, 1, 3, 3, generator=torch.Generator().manual_seed(0))
    made = proving(BoundConfig(proved=True), Classifier(Elsewhere()), Saliency(), images, 10**9)
    assert made is not None
    subject = torch.full((1, 1, 3, 3), 2.0, dtype=torch.float64)
    with pytest.raises(ModelError, match="their attributions differ"):
        made(subject, torch.tensor([0]), [torch.tensor([0.1])], Draws(0, (0,)))


def test_what_is_proved_does_not_hang_on_the_first_order_solver(on) -> None:
    done = on("bound", "--eps", 0.05, "--max-steps", 1, "--format", "csv")
    assert done.code == 0
    assert {row["status"] for row in done.rows} <= {"ok", "vacuous"}


def test_a_saturated_sample_is_bounded_beside_others() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(9, 3), nn.Tanh())
    network[1].weight.data.fill_(1.0)
    network[1].bias.data.fill_(0.0)
    dark = torch.rand(2, 1, 3, 3, generator=torch.Generator().manual_seed(0)) / 9
    images, labels = torch.cat([dark, torch.ones(1, 1, 3, 3)]), torch.zeros(3, dtype=torch.int64)
    assert all(row["T_proved"] > 0 for row in library.bound(network, (images, labels), proved=True, eps=0.01))


def test_the_library_proves_too() -> None:
    rng = torch.Generator().manual_seed(1)
    network = nn.Sequential(nn.Flatten(), nn.Linear(9, 5), nn.Softplus(), nn.Linear(5, 2))
    for parameter in network.parameters():
        parameter.data = torch.randn(parameter.shape, generator=rng)
    images = torch.rand(3, 1, 3, 3, generator=torch.Generator().manual_seed(0))
    found = library.bound(network, (images, torch.zeros(3, dtype=torch.int64)), proved=True, eps=0.1)
    reached = library.attack(network, (images, torch.zeros(3, dtype=torch.int64)), proved=True, eps=0.1, steps=5)
    for row, attacked in zip(found, reached, strict=True):
        assert row["guarantee"] == "proved"
        assert 0 < attacked["T_hat_e"] <= row["T_proved"] == pytest.approx(attacked["T_proved"], rel=1e-9)
