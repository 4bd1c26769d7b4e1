"""Models from names and files: strictly, without running a checkpoint's code, with messages that say what to do."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from attrcert.errors import CheckpointError, InputError, ModelError, UsageError
from attrcert.loading import bundled
from attrcert.loading.architectures import build, softplus_mlp
from attrcert.loading.checkpoints import load_model
from attrcert.networks.classifier import Classifier
from attrcert.settings.sources import ModelSpec, parse_argument

ARGS = {"inputs": 16, "classes": 3, "hidden": 4}
CPU = torch.device("cpu")


def load(checkpoint: Path | str, arch: str | None = "softplus-mlp", **spec) -> Classifier:
    arguments = spec.pop("arch_args", ARGS if arch == "softplus-mlp" else {})
    named = ModelSpec(str(checkpoint), arch, arguments, **{"softplus_beta": None, **spec})
    return load_model(named, device=CPU, dtype=torch.float32).classifier


@pytest.fixture
def net() -> nn.Module:
    torch.manual_seed(0)
    return softplus_mlp(**ARGS)


@pytest.fixture
def x() -> Tensor:
    return torch.rand(5, 1, 4, 4, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def user_file(tmp_path):
    """Writes a Python file and gives its path."""

    def write(source: str, name: str = "theirs.py") -> Path:
        path = tmp_path / name
        path.write_text(textwrap.dedent(source))
        return path

    return write


def same(classifier: Classifier, net: nn.Module, x: Tensor) -> bool:
    with torch.no_grad():
        return torch.equal(classifier(x), net(x))


# bundled and safetensors


@pytest.mark.parametrize("name", sorted(bundled.models()))
def test_a_bundled_model_is_loaded_by_its_name_alone(name):
    loaded = load_model(ModelSpec(name), device=CPU, dtype=torch.float32)
    arch, shape, classes = ("softplus-mlp", (13,), 3) if name == "wine" else ("softplus-cnn", (1, 28, 28), 10)
    assert loaded.classifier(torch.rand(2, *shape)).shape == (2, classes)
    assert loaded.facts["arch"] == arch
    assert len(loaded.facts["checkpoint_sha256"]) == 64


def test_both_bundled_models_are_there():
    assert {"fashion-natural", "fashion-adversarial"} <= set(bundled.models())


def test_the_dtype_reaches_the_weights():
    network = load_model(ModelSpec(), device=CPU, dtype=torch.float64).classifier.network
    assert {parameter.dtype for parameter in network.parameters()} == {torch.float64}


def test_a_safetensors_file_with_metadata_is_a_whole_model(tmp_path, net, x):
    metadata = {"arch": "softplus-mlp", "arch_args": json.dumps(ARGS), "mean": "[0.25]", "std": "[0.5]"}
    save_file(net.state_dict(), tmp_path / "whole.safetensors", {f"attrcert.{k}": v for k, v in metadata.items()})
    classifier = load(tmp_path / "whole.safetensors", arch=None, arch_args={})
    assert (classifier.mean, classifier.std) == ((0.25,), (0.5,))
    with torch.no_grad():
        torch.testing.assert_close(classifier(x), net((x - 0.25) / 0.5))


def test_options_win_over_the_metadata(tmp_path, net):
    metadata = {"arch": "softplus-cnn", "mean": "[0.25]", "std": "[0.5]"}
    save_file(net.state_dict(), tmp_path / "a.safetensors", {f"attrcert.{k}": v for k, v in metadata.items()})
    assert load(tmp_path / "a.safetensors", mean=(0.1,), std=(0.2,)).mean == (0.1,)


def test_a_checkpoint_that_names_no_architecture_asks_for_arch(tmp_path, net):
    save_file(net.state_dict(), tmp_path / "bare.safetensors")
    with pytest.raises(UsageError) as caught:
        load(tmp_path / "bare.safetensors", arch=None)
    assert "--arch" in caught.value.hint


@pytest.mark.parametrize("broken", ["0.49,0.48", "0.5", '{"a": 1}', "[null]"])
def test_metadata_that_cannot_be_read_is_a_checkpoint_error(tmp_path, net, broken):
    metadata = {"attrcert.arch": "softplus-mlp", "attrcert.arch_args": json.dumps(ARGS), "attrcert.mean": broken}
    save_file(net.state_dict(), tmp_path / "broken.safetensors", {**metadata, "attrcert.std": "[0.5]"})
    with pytest.raises(InputError, match=r"broken\.safetensors"):
        load(tmp_path / "broken.safetensors", arch=None, arch_args={})


def test_metadata_that_names_code_is_refused_and_does_not_run(tmp_path, net):
    """A safetensors file is data: only an architecture that the user names may run code."""
    ran = tmp_path / "ran"
    metadata = {"attrcert.arch": "os:system", "attrcert.arch_args": json.dumps({"command": f"touch {ran}"})}
    save_file(net.state_dict(), tmp_path / "evil.safetensors", metadata)
    with pytest.raises((InputError, UsageError)):
        load(tmp_path / "evil.safetensors", arch=None, arch_args={})
    assert not ran.exists()


# torch checkpoints


@pytest.mark.parametrize("ending", [".pt", ".pth", ".th"])
def test_a_state_dict_is_loaded_from_every_torch_ending(tmp_path, net, x, ending):
    torch.save(net.state_dict(), tmp_path / f"weights{ending}")
    assert same(load(tmp_path / f"weights{ending}"), net, x)


@pytest.mark.parametrize("wrapper", ["state_dict", "state", "net", "model", "model_state_dict"])
def test_a_wrapped_state_dict_is_unwrapped(tmp_path, net, x, wrapper):
    torch.save({"epoch": 3, wrapper: net.state_dict(), "optimizer": {"lr": 0.1}}, tmp_path / "wrapped.pt")
    assert same(load(tmp_path / "wrapped.pt"), net, x)


@pytest.mark.parametrize("prefix", ["module.", "model.", "_orig_mod.", "module._orig_mod.", "model.module."])
def test_prefixes_of_wrapping_modules_are_undone(tmp_path, net, x, prefix):
    torch.save({prefix + key: value for key, value in net.state_dict().items()}, tmp_path / "prefixed.pt")
    assert same(load(tmp_path / "prefixed.pt"), net, x)


def test_a_prefix_that_belongs_to_the_network_stays(tmp_path, user_file):
    path = user_file("""
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
            def forward(self, x):
                return self.model(x)
    """)
    weights = {"model.1.weight": torch.ones(3, 16), "model.1.bias": torch.zeros(3)}
    torch.save(weights, tmp_path / "own.pt")
    classifier = load(tmp_path / "own.pt", f"{path}:Net")
    assert classifier(torch.ones(1, 1, 4, 4)).tolist() == [[16.0] * 3]


def test_batch_norms_counter_may_be_missing(tmp_path, user_file):
    path = user_file("from torch import nn\ndef make(): return nn.Sequential(nn.BatchNorm2d(1), nn.Flatten())")
    weights = nn.Sequential(nn.BatchNorm2d(1)).state_dict()
    del weights["0.num_batches_tracked"]
    torch.save(weights, tmp_path / "old.pt")
    assert load(tmp_path / "old.pt", f"{path}:make")(torch.rand(2, 1, 2, 2)).shape == (2, 4)


def test_keys_that_do_not_fit_are_all_named(tmp_path, net):
    weights = net.state_dict()
    weights["head.extra"] = torch.zeros(2)
    weights["1.weight"] = torch.zeros(4, 99)
    del weights["3.bias"]
    torch.save(weights, tmp_path / "other.pt")
    with pytest.raises(CheckpointError) as caught:
        load(tmp_path / "other.pt")
    message = caught.value.message
    assert "1 missing: 3.bias" in message
    assert "1 unexpected: head.extra" in message
    assert "1.weight (4, 99) instead of (4, 16)" in message
    assert "--arch" in caught.value.hint
    assert caught.value.exit_code == 3


def test_a_long_list_of_keys_is_cut_and_counted(tmp_path):
    torch.save({f"layer{i}": torch.zeros(1) for i in range(20)}, tmp_path / "alien.pt")
    with pytest.raises(CheckpointError, match=r"20 unexpected: .* and 15 more"):
        load(tmp_path / "alien.pt")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused_by_name(tmp_path, net, value):
    weights = net.state_dict()
    weights["3.bias"][1] = value
    torch.save(weights, tmp_path / "broken.pt")
    with pytest.raises(CheckpointError, match=r"finite.*3\.bias") as caught:
        load(tmp_path / "broken.pt")
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("content", "said"),
    [({"epoch": 3}, "epoch"), ([1, 2], "list"), (torch.zeros(3), "Tensor"), ({}, "without named entries")],
    ids=["no weights", "a list", "a tensor", "nothing"],
)
def test_a_torch_file_without_weights_is_refused_with_what_it_holds(tmp_path, content, said):
    torch.save(content, tmp_path / "odd.pt")
    with pytest.raises(CheckpointError, match=said):
        load(tmp_path / "odd.pt")


@pytest.mark.parametrize("name", ["text.safetensors", "text.pt", "empty.safetensors", "empty.pt", "weights.onnx"])
def test_a_file_that_is_not_what_its_name_says_is_refused(tmp_path, name):
    (tmp_path / name).write_text("" if name.startswith("empty") else "these are not weights\n" * 10)
    with pytest.raises(CheckpointError, match=name.replace(".", r"\.")) as caught:
        load(tmp_path / name)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    "content",
    [
        b"<html>404 not found</html>",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:aa\n",
        b"\x89PNG\r\n\x1a\n",
    ],
    ids=["web page", "LFS pointer", "picture"],
)
def test_a_file_that_is_no_pickle_is_not_said_to_hold_code(tmp_path, content):
    (tmp_path / "weights.pt").write_bytes(content)
    with pytest.raises(CheckpointError, match="not a readable torch checkpoint"):
        load(tmp_path / "weights.pt")


def test_a_truncated_safetensors_file_is_refused(tmp_path, net):
    save_file(net.state_dict(), tmp_path / "whole.safetensors")
    (tmp_path / "cut.safetensors").write_bytes((tmp_path / "whole.safetensors").read_bytes()[:-40])
    with pytest.raises(CheckpointError, match=r"cut\.safetensors"):
        load(tmp_path / "cut.safetensors")


def test_a_truncated_torch_file_is_refused(tmp_path, net):
    torch.save(net.state_dict(), tmp_path / "whole.pt")
    (tmp_path / "cut.pt").write_bytes((tmp_path / "whole.pt").read_bytes()[:-200])
    with pytest.raises(CheckpointError, match=r"cut\.pt"):
        load(tmp_path / "cut.pt")


@pytest.mark.parametrize("name", ["gone.safetensors", "gone.pt", "folder/gone"])
def test_a_file_that_is_not_there_is_said(tmp_path, name):
    with pytest.raises(CheckpointError, match="there is no checkpoint file"):
        load(tmp_path / name)


def test_an_unknown_bundled_name_suggests_the_nearest():
    with pytest.raises(UsageError) as caught:
        load("fashion-natual")
    assert "'fashion-natural'" in caught.value.hint


class Malicious:
    """Unpickling runs a command."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def test_a_malicious_pickle_is_refused_with_exit_code_3_and_does_not_run(tmp_path):
    ran = tmp_path / "ran"
    torch.save({"state_dict": Malicious(f"touch {ran}")}, tmp_path / "evil.pt")
    command = [sys.executable, "-m", "attrcert", "bound", str(tmp_path / "evil.pt"), "--arch", "softplus-cnn"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 3, done.stderr
    assert not ran.exists()
    assert "never runs code from a checkpoint" in done.stderr
    assert "state_dict()" in done.stderr
    assert done.stdout == ""
    # the trap is real: an ordinary unpickling springs it
    torch.load(tmp_path / "evil.pt", weights_only=False)
    assert ran.exists()


# architectures


def test_an_unknown_architecture_suggests_the_nearest():
    with pytest.raises(UsageError) as caught:
        build("softplus-cn", {})
    assert "'softplus-cnn'" in caught.value.hint


def test_an_unknown_torchvision_model_suggests_the_nearest():
    with pytest.raises(UsageError) as caught:
        build("torchvision:resnet81", {})
    assert "'resnet18'" in caught.value.hint


def test_a_torchvision_model_is_built_without_pretrained_weights():
    network = build("torchvision:resnet18", {"num_classes": 7})
    assert network.fc.out_features == 7


def test_a_torchvision_checkpoint_is_loaded(tmp_path):
    network = build("torchvision:squeezenet1_1", {"num_classes": 3})
    torch.save(network.state_dict(), tmp_path / "squeeze.pth")
    raw = {"mean": (0.0,), "std": (1.0,)}
    classifier = load(tmp_path / "squeeze.pth", "torchvision:squeezenet1_1", arch_args={"num_classes": 3}, **raw)
    x = torch.rand(1, 3, 64, 64)
    with classifier.prepared(), torch.no_grad():
        assert torch.equal(classifier(x), network.eval()(x))


def test_a_factory_in_an_importable_module_is_called_with_its_arguments():
    network = build("torch.nn:Linear", {"in_features": 3, "out_features": 2})
    assert isinstance(network, nn.Linear)


def test_a_factory_in_a_file_may_import_its_neighbour(user_file):
    user_file("WIDTH = 6", "neighbour_of_net.py")
    path = user_file("""
        from torch import nn
        from neighbour_of_net import WIDTH
        def make(classes=2):
            return nn.Linear(WIDTH, classes)
    """)
    before = list(sys.path)
    assert build(f"{path}:make", {"classes": 5}).weight.shape == (5, 6)
    assert sys.path == before


def test_a_factory_may_import_its_neighbour_when_it_is_called(user_file):
    user_file("WIDTH = 6", "late_neighbour.py")
    path = user_file("""
        from torch import nn
        def make():
            from late_neighbour import WIDTH
            return nn.Linear(WIDTH, 2)
    """)
    assert build(f"{path}:make", {}).in_features == 6


def test_a_module_in_the_working_folder_is_found(user_file, monkeypatch):
    path = user_file("from torch import nn\ndef make(): return nn.Linear(2, 2)", "nets_in_cwd.py")
    monkeypatch.chdir(path.parent)
    assert isinstance(build("nets_in_cwd:make", {}), nn.Linear)


def test_a_file_with_a_dataclass_and_postponed_annotations_is_imported(user_file):
    path = user_file("""
        from __future__ import annotations
        from dataclasses import dataclass
        from torch import nn
        @dataclass
        class Config:
            width: int = 3
        def make():
            return nn.Linear(Config().width, 2)
    """)
    assert build(f"{path}:make", {}).in_features == 3


def test_a_factory_that_raises_is_reported_with_its_own_words(user_file):
    path = user_file("def make(depth): raise ValueError('depth must be odd')")
    with pytest.raises(ModelError, match=r"depth.*ValueError: depth must be odd") as caught:
        build(f"{path}:make", {"depth": 4})
    assert caught.value.exit_code == 3


def test_a_factory_called_with_wrong_arguments_is_reported(user_file):
    path = user_file("def make(depth): ...")
    with pytest.raises(ModelError, match="width"):
        build(f"{path}:make", {"width": 4})


@pytest.mark.parametrize("source", ["import no_such_package_here", "1 +", "raise RuntimeError('at the top')"])
def test_a_file_that_cannot_be_imported_is_a_model_error(user_file, source):
    path = user_file(source)
    with pytest.raises(ModelError, match=r"importing .*theirs\.py failed"):
        build(f"{path}:make", {})


def test_a_script_that_exits_when_imported_is_a_model_error(user_file):
    path = user_file("import sys\nsys.exit(0)")
    with pytest.raises(ModelError):
        build(f"{path}:make", {})


@pytest.mark.parametrize("body", ["return 3", "return None", "return lambda x: x"])
def test_a_factory_that_returns_no_module_is_refused(user_file, body):
    path = user_file(f"def make():\n    {body}")
    with pytest.raises(ModelError, match=r"must return a torch\.nn\.Module"):
        build(f"{path}:make", {})


def test_a_name_that_the_file_lacks_is_said_with_what_it_has(user_file):
    path = user_file("def small(): ...\ndef large(): ...")
    with pytest.raises(ModelError, match=r"'medium'.*small, large"):
        build(f"{path}:medium", {})
    with pytest.raises(ModelError, match=rf"--arch must be {path}:FACTORY, got {path}; it has small, large"):
        build(str(path), {})


def test_a_file_that_is_not_there_is_a_model_error(tmp_path):
    with pytest.raises(ModelError, match="there is no file"):
        build(f"{tmp_path}/gone.py:make", {})


def test_the_manifest_tells_the_architecture_files_hash(tmp_path, user_file):
    path = user_file("from torch import nn\ndef make(): return nn.Linear(2, 2)")
    torch.save(nn.Linear(2, 2).state_dict(), tmp_path / "w.pt")
    spec = ModelSpec(str(tmp_path / "w.pt"), f"{path}:make")
    first = load_model(spec, device=CPU, dtype=torch.float32).facts["arch_sha256"]
    path.write_text(path.read_text() + "# changed\n")
    assert load_model(spec, device=CPU, dtype=torch.float32).facts["arch_sha256"] != first


@pytest.mark.parametrize(
    ("text", "value"),
    [("k=3", 3), ("k=0.5", 0.5), ("k=[1, 2]", [1, 2]), ("k=True", True), ("k=relu", "relu"), ("k=a=b", "a=b")],
)
def test_an_argument_is_read_as_a_python_literal_where_it_is_one(text, value):
    assert parse_argument(text, "--arch-arg") == ("k", value)


@pytest.mark.parametrize("text", ["k", "=3", "a-b=3", ""])
def test_an_argument_that_is_no_assignment_is_refused(text):
    with pytest.raises(UsageError, match="key=value"):
        parse_argument(text, "--arch-arg")


# the classifier


class NamedOutput(NamedTuple):
    features: Tensor
    logits: Tensor


class Several(nn.Module):
    def __init__(self, pack) -> None:
        super().__init__()
        self.pack = pack

    def forward(self, x: Tensor):
        flat = x.flatten(1)
        return self.pack(flat[:, :3], flat[:, :5])


@pytest.mark.parametrize(
    ("pack", "output", "width"),
    [
        (lambda a, b: (a, b), "0", 3),
        (lambda a, b: (a, b), "1", 5),
        (lambda a, b: [a, b], "1", 5),
        (lambda a, b: {"logits": a, "features": b}, "logits", 3),
        (lambda a, b: {"logits": a, "features": b}, "features", 5),
    ],
)
def test_output_picks_one_of_several_outputs(pack, output, width, x):
    assert Classifier(Several(pack), output=output)(x).shape == (5, width)


@pytest.mark.parametrize("output", [None, "2", "heads"])
@pytest.mark.parametrize(
    ("pack", "hint"),
    [(lambda a, b: (a, b), "--output 0"), (lambda a, b: {"scores": a, "features": b}, "--output scores")],
    ids=["tuple", "dict"],
)
def test_several_outputs_without_a_valid_choice_are_refused_with_a_proposal(pack, hint, output, x):
    with pytest.raises(ModelError, match="one of them must be picked") as caught:
        Classifier(Several(pack), output=output)(x)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "pack",
    [
        lambda a, b: {"features": b, "logits": a},
        lambda a, b: NamedOutput(b, a),
        lambda a, b: SimpleNamespace(features=b, logits=a),
        lambda a, b: (b[:, :, None], a),
        lambda a, b: [a, b.long(), b[:1]],
        lambda a, b: (None, {"map": b}, a),
    ],
    ids=["dict", "named tuple", "attribute", "tuple", "list", "nested"],
)
def test_logits_are_picked_where_there_is_no_doubt(pack, x):
    assert torch.equal(Classifier(Several(pack))(x), x.flatten(1)[:, :3])


@pytest.mark.parametrize("pack", [lambda a, b: a[:, 0], lambda a, b: a[:, :, None], lambda a, b: (3, a)])
def test_an_output_that_is_no_matrix_of_logits_is_refused(pack, x):
    with pytest.raises(ModelError, match="logits of shape"):
        Classifier(Several(pack), output="0")(x)


def test_normalisation_inside_equals_normalisation_outside(net):
    torch.manual_seed(0)
    conv = nn.Sequential(nn.Conv2d(3, 2, 2), nn.Softplus(), nn.Flatten(), nn.Linear(18, 4))
    x, mean, std = torch.rand(5, 3, 4, 4), (0.1, 0.5, 0.7), (0.2, 0.3, 1.5)
    outside = (x - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    torch.testing.assert_close(Classifier(conv, mean, std)(x), conv(outside))
    torch.testing.assert_close(Classifier(net, (0.3,), (0.6,))(x[:, :1]), net((x[:, :1] - 0.3) / 0.6))


@pytest.mark.parametrize(
    ("mean", "std"),
    [((0.5,), None), (None, (0.5,)), ((0.5,), (0.5, 0.5)), ((0.5,), (0.0,)), ((0.5,), (-1.0,))],
)
def test_impossible_normalisations_are_usage_errors(net, mean, std):
    with pytest.raises(UsageError, match="mean and std"):
        Classifier(net, mean, std)


def test_a_normalisation_for_other_channels_is_refused(net, x):
    with pytest.raises(ModelError, match=r"3 values.*1 channels"):
        Classifier(net, (0.5,) * 3, (0.5,) * 3)(x)


@pytest.mark.parametrize("beta", [0.0, -1.0, float("nan")])
def test_a_softplus_beta_that_is_not_positive_is_refused(net, beta):
    with pytest.raises(UsageError, match="positive"):
        Classifier(net, beta=beta)


def mixed_network() -> nn.Module:
    network = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.Linear(8, 3))
    network.train()
    network[3].eval()
    network[1].bias.requires_grad_(False)
    return network


def state_of(network: nn.Module) -> tuple:
    return [m.training for m in network.modules()], [p.requires_grad for p in network.parameters()]


def test_preparing_sets_eval_mode_and_stops_gradients_and_restores_both(x):
    network = mixed_network()
    before = state_of(network)
    with Classifier(network).prepared() as classifier:
        assert not any(state_of(network)[0])
        assert not any(state_of(network)[1])
        assert torch.equal(classifier(x), classifier(x))
    assert state_of(network) == before


def test_a_prepared_network_runs_in_its_own_precision_though_a_caller_asked_for_less():
    network, x = nn.Sequential(nn.Flatten(), nn.Linear(4, 3)), torch.rand(2, 1, 2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert network(x).dtype == torch.bfloat16
        with Classifier(network).prepared() as classifier:
            assert classifier(x).dtype == torch.float32
        assert network(x).dtype == torch.bfloat16


def test_preparing_restores_the_network_when_the_run_fails():
    network = mixed_network()
    before = state_of(network)
    with pytest.raises(KeyboardInterrupt), Classifier(network).prepared():
        raise KeyboardInterrupt
    assert state_of(network) == before


@pytest.mark.parametrize("beta", [None, 10.0])
def test_a_network_that_writes_into_its_input_does_not_change_the_images(x, beta):
    network = nn.Sequential(nn.Hardtanh(0.3, 0.6, inplace=True), nn.Flatten(), nn.Linear(16, 3))
    classifier, kept = Classifier(network, beta=beta), x.clone()
    with torch.no_grad():
        classifier(x)
    assert torch.equal(x, kept)


@pytest.mark.parametrize("beta", [None, 10.0])
def test_a_network_that_writes_into_its_input_can_be_differentiated(x, beta):
    network = nn.Sequential(nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(16, 3))
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(Classifier(network, beta=beta)(leaf)[:, 0].sum(), leaf)
    assert gradient.shape == x.shape


def test_the_original_classifier_runs_the_relus_themselves(x):
    network = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))
    classifier = Classifier(network, beta=3.0)
    assert torch.equal(classifier.original()(x), network(x))
    assert not torch.equal(classifier(x), network(x))
    assert classifier.replaced(x) == {"relu": 1}
