"""The architectures of the papers: of the published size, under the repositories' names, and computing what they compute."""

import pytest
import torch
from reference.published import COMPUTED
from torch import nn

from attrcert.errors import CheckpointError, UsageError
from attrcert.loading.architectures import BUNDLED
from attrcert.loading.checkpoints import load_model
from attrcert.loading.published import PUBLISHED
from attrcert.settings.sources import ModelSpec

MILLIONS = {  # of parameters, as published
    "resnet20": 0.27,
    "resnet18-32": 11.17,
    "wrn-28-10": 36.5,
    "wrn-34-10": 46.16,
    "wrn-40-2": 2.2,
    "lenet": 1.117,
    "convsmall": 0.125,
    "mnist-cnn": 0.166,
}


def made(name: str, **arguments) -> nn.Module:
    """With weights, running means and variances that differ from place to place."""
    torch.manual_seed(0)
    network = PUBLISHED[name](**arguments).double().eval()
    for key, tensor in network.state_dict().items():
        if key.endswith(("running_mean", "running_var")):
            tensor.copy_(torch.rand_like(tensor) + 0.5)
    return network


def loaded(path, arch: str, **spec):
    return load_model(ModelSpec(str(path), arch, **spec), device=torch.device("cpu"), dtype=torch.float64)


@pytest.mark.parametrize("name", PUBLISHED)
def test_an_architecture_has_as_many_parameters_as_was_published(name):
    with torch.device("meta"):
        network = PUBLISHED[name]()
    count = sum(parameter.numel() for parameter in network.parameters())
    assert count / 1e6 == pytest.approx(MILLIONS[name], rel=0.02)
    size = 28 if name == "mnist-cnn" else 32
    assert network(torch.empty(2, 1 if size == 28 else 3, size, size, device="meta")).shape == (2, 10)


@pytest.mark.parametrize("name", COMPUTED)
def test_a_network_computes_from_its_tensors_what_the_repository_computes(name):
    network = made(name)
    x = torch.rand(2, 1 if name == "mnist-cnn" else 3, *[28 if name == "mnist-cnn" else 32] * 2, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(network(x), COMPUTED[name](network.state_dict(), x))


def test_a_repositorys_file_is_loaded_with_its_prefix_and_its_number_of_classes(tmp_path):
    network = made("resnet20", classes=100).float()
    weights = {f"module.{key}": tensor for key, tensor in network.state_dict().items()}
    torch.save({"state_dict": weights, "best_prec1": 68.0}, tmp_path / "model.th")
    model = loaded(tmp_path / "model.th", "resnet20")
    assert model.facts["arch_args"] == {"classes": 100}
    assert all(
        torch.equal(model.classifier.network.state_dict()[key], one) for key, one in network.state_dict().items()
    )


def test_the_stage_that_trades_saves_and_never_uses_is_left_out_with_a_warning(tmp_path):
    weights = made("wrn-40-2").state_dict()
    unused = {f"sub_{key}": tensor for key, tensor in weights.items() if key.startswith("block1.")}
    torch.save({**weights, **unused}, tmp_path / "w.pt")
    assert f"{len(unused)} tensors" in loaded(tmp_path / "w.pt", "wrn-40-2").doubts[0]


def test_a_file_with_option_b_shortcuts_is_not_resnet20s(tmp_path):
    weights = made("resnet20").state_dict()
    torch.save({**weights, "layer2.0.shortcut.0.weight": torch.zeros(32, 16, 1, 1)}, tmp_path / "w.pt")
    with pytest.raises(CheckpointError, match=r"unexpected: layer2\.0\.shortcut"):
        loaded(tmp_path / "w.pt", "resnet20")


@pytest.mark.parametrize("name", ["lenet", "convsmall", "resnet20", "wrn-40-2"])
def test_the_activation_of_ones_choice_stands_at_every_place(name):
    plain, smooth = made(name), made(name, activation="softplus", beta=5)
    places = [key for key, module in plain.named_modules() if isinstance(module, nn.ReLU)]
    chosen = {key: module.beta for key, module in smooth.named_modules() if isinstance(module, nn.Softplus)}
    assert len(places) > 2
    assert chosen == dict.fromkeys(places, 5)
    assert plain.state_dict().keys() == smooth.state_dict().keys()


def test_lenet_pools_as_it_is_told():
    assert not any(isinstance(module, nn.MaxPool2d) for module in made("lenet", pool="average").modules())


@pytest.mark.parametrize("arguments", [{"activation": "rleu"}, {"pool": "maximum"}])
def test_an_unknown_word_is_refused_with_the_nearest(arguments):
    with pytest.raises(UsageError) as caught:
        BUNDLED["lenet"](**arguments)
    assert {"rleu": "relu", "maximum": "max"}[next(iter(arguments.values()))] in caught.value.message
