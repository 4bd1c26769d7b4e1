"""The library gives the command line's rows, takes models and data as they come, and leaves them as they were."""

import csv
import io
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import attrcert
from attrcert.cli.app import main
from attrcert.columns import COLUMNS
from attrcert.errors import AttrcertError, ModelError, UsageError
from attrcert.loading.architectures import softplus_mlp
from attrcert.saved.records import render

ARGS = {"inputs": 36, "classes": 3, "hidden": 5}


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (8, 1, 6, 6), dtype=np.uint8)


@pytest.fixture
def labels() -> np.ndarray:
    return np.arange(8) % 3


@pytest.fixture
def net() -> nn.Module:
    torch.manual_seed(0)
    return softplus_mlp(**ARGS)


def relu_net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Flatten(), nn.Linear(32, 3)
    )


def comparable(rows) -> list[dict]:
    return [{key: value for key, value in row.items() if key != "seconds" and value is not None} for row in rows]


SETTINGS = {
    "l2": ({"eps": (0.1, 8 / 255)}, ["--eps", "0.1", "--eps", "8/255"]),
    "linf": ({"norm": "linf", "eps": (0.02,)}, ["--norm", "linf", "--eps", "0.02"]),
    "ig": ({"attribution": "ig", "ig_steps": 4, "seed": 3}, ["--attribution", "ig", "--ig-steps", "4", "--seed", "3"]),
    "target": ({"target": "label", "mean": (0.5,), "std": (0.25,)}, ["--target", "label", "--mean", "0.5", "--std", "0.25"]),
}  # fmt: skip


@pytest.mark.parametrize(("settings", "words"), SETTINGS.values(), ids=SETTINGS)
def test_the_librarys_rows_are_the_command_lines(net, images, labels, settings, words, tmp_path, monkeypatch, capsys):
    save_file(net.state_dict(), tmp_path / "net.safetensors")
    np.savez(tmp_path / "data.npz", images=images, labels=labels)
    arch = ["--arch", "softplus-mlp", *(f"--arch-arg={key}={value}" for key, value in ARGS.items())]
    argv = ["attrcert", "bound", str(tmp_path / "net.safetensors"), str(tmp_path / "data.npz"), *arch, *words]
    monkeypatch.setattr(sys, "argv", [*argv, "--format", "csv", "--quiet"])
    with pytest.raises(SystemExit):
        main()
    theirs = [
        {key: cell for key, cell in row.items() if cell and key != "seconds"}
        for row in csv.DictReader(io.StringIO(capsys.readouterr().out))
    ]
    ours = attrcert.bound(net, (images, labels), **settings)
    assert [{key: render(value) for key, value in row.items()} for row in comparable(ours)] == theirs
    assert len(ours) == 8 * len(settings.get("eps", (0.1,)))


def test_rows_have_only_documented_columns(net, images):
    names = {column.name for column in COLUMNS["bound"]}
    assert all(set(row) <= names for row in attrcert.bound(net, images))


def test_a_network_a_classifier_and_its_settings_give_the_same_rows(images, labels):
    net = relu_net()
    plain = attrcert.bound(net, (images, labels), mean=(0.5,), std=(0.25,))
    classifier = attrcert.Classifier(net, mean=(0.5,), std=(0.25,))
    assert comparable(attrcert.bound(classifier, (images, labels))) == comparable(plain)


def test_a_bundled_name_is_enough():
    (row,) = attrcert.bound("fashion-natural", limit=1)
    assert row["index"] == 0
    assert row["T_e"] > 0


def test_a_bundled_name_takes_data_of_every_kind():
    images, labels = np.zeros((2, 28, 28), dtype=np.uint8) + 99, np.array([1, 2])
    by_array = attrcert.bound("fashion-adversarial", (images, labels))
    by_dataset = attrcert.bound("fashion-adversarial", [(images[0], 1), (images[1], 2)])
    assert comparable(by_array) == comparable(by_dataset)
    assert len(attrcert.bound("fashion-adversarial", "fashion-test", limit=2)) == 2


def test_tensors_and_arrays_give_the_same_rows(net, images, labels):
    tensors = torch.from_numpy(images).float() / 255, torch.from_numpy(labels)
    assert comparable(attrcert.bound(net, tensors)) == comparable(attrcert.bound(net, (images, labels)))


def test_labels_may_be_a_list(net, images, labels):
    rows = attrcert.bound(net, (images, labels.tolist()))
    assert [row["label"] for row in rows] == labels.tolist()


def test_one_eps_may_be_a_number(net, images):
    assert [row["eps"] for row in attrcert.bound(net, images, eps=0.1, limit=2)] == [0.1, 0.1]


def test_the_users_network_is_left_as_it_was(images, labels):
    network = relu_net().train()
    network[1].eval()
    network[5].bias.requires_grad_(False)
    weights = {key: value.clone() for key, value in network.state_dict().items()}
    modes = [module.training for module in network.modules()]
    gradients = [parameter.requires_grad for parameter in network.parameters()]

    rows = attrcert.bound(network, (images, labels))

    assert all(row["T_e"] > 0 for row in rows)
    assert [module.training for module in network.modules()] == modes
    assert [parameter.requires_grad for parameter in network.parameters()] == gradients
    assert network[2].inplace
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in network.modules())
    assert all(torch.equal(weights[key], value) for key, value in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())
    below = torch.full((1, 2, 4, 4), -1.0)
    assert network[2](below).abs().max() == 0  # a ReLU again, not its softplus


def test_the_users_network_is_left_as_it_was_when_the_run_is_refused(images):
    network = relu_net().train()
    with pytest.raises(ModelError, match="Hessian is zero"):
        attrcert.bound(network, images, softplus_beta=None)
    assert all(module.training for module in network.modules())
    assert all(parameter.requires_grad for parameter in network.parameters())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in network.modules())


def test_the_users_images_are_left_as_they_were(images):
    network = nn.Sequential(nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(36, 5), nn.Softplus(), nn.Linear(5, 3))
    given: Tensor = torch.from_numpy(images).double() / 255
    kept = given.clone()
    attrcert.bound(network.double(), given, dtype="float64")
    assert torch.equal(given, kept)


def test_the_global_random_state_is_not_touched(net, images):
    torch.manual_seed(7)
    np.random.seed(7)
    expected = torch.rand(3), np.random.rand()
    torch.manual_seed(7)
    np.random.seed(7)
    attrcert.bound(net, images)
    assert torch.equal(torch.rand(3), expected[0])
    assert np.random.rand() == expected[1]


def test_a_run_works_where_gradients_are_switched_off(net, images):
    expected = comparable(attrcert.bound(net, images))
    with torch.no_grad():
        assert comparable(attrcert.bound(net, images)) == expected


def test_float64_agrees_with_float32(net, images):
    single = attrcert.bound(net, images, slack=1e-3)
    double = attrcert.bound(net.double(), images, slack=1e-3, dtype="float64")
    for a, b in zip(single, double, strict=True):
        # both upper ends lie within the slack above the same xi_max
        assert a["xi_upper"] == pytest.approx(b["xi_upper"], rel=3e-3)
        assert a["g_norm"] == pytest.approx(b["g_norm"], rel=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_network_of_the_other_dtype_is_bounded_or_refused_by_its_dtype(net, images, dtype):
    network = net.double() if dtype == "float32" else net
    with pytest.raises(AttrcertError, match=r"float64|float32|dtype"):
        attrcert.bound(network, images, dtype=dtype)
    assert {parameter.dtype for parameter in network.parameters()} == (
        {torch.float64} if dtype == "float32" else {torch.float32}
    )


@pytest.mark.parametrize(
    "settings",
    [{"eps": (-1.0,)}, {"norm": "l3"}, {"attribution": "salency"}, {"target": "7"}],
    ids=str,
)
def test_wrong_settings_raise_usage_errors(net, images, settings):
    with pytest.raises(UsageError):
        attrcert.bound(net, images, **settings)


@pytest.mark.parametrize("options", [{"batch_size": 0}, {"memory": "x"}, {"device": "abacus"}], ids=str)
def test_wrong_run_options_raise_usage_errors(net, images, options):
    with pytest.raises(UsageError):
        attrcert.bound(net, images, options=attrcert.RunOptions(**options))


def test_what_the_command_line_warns_of_is_a_python_warning(images):
    torch.manual_seed(0)
    pooled = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Softplus(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3))
    with pytest.warns(UserWarning, match="max-pooling"):
        attrcert.bound(pooled, images)


def test_errors_carry_message_and_hint_in_their_text(net, images):
    with pytest.raises(AttrcertError) as caught:
        attrcert.bound(net, images, eps=(0.0,))
    assert "eps must be positive" in str(caught.value)
    assert "pixel units" in str(caught.value)


def test_every_public_name_can_be_imported():
    assert "bound" in attrcert.__all__
    assert all(getattr(attrcert, name) is not None for name in attrcert.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = attrcert.no_such_name
