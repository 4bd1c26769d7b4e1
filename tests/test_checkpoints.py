"""A user's own file is read by its content, the weights that fit are found in it, and what was settled for the user is told."""

import argparse
import collections
import pathlib
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from reference.program import attrcert
from safetensors.torch import save_file
from torch import Tensor, nn

from attrcert.errors import CheckpointError, UsageError
from attrcert.loading.architectures import softplus_mlp
from attrcert.loading.checkpoints import LoadedModel, load_model
from attrcert.settings.sources import ModelSpec

ARGS = {"inputs": 16, "classes": 3, "hidden": 4}


class Settings:
    """A class of a trainer's, which nobody else has."""

    def __init__(self) -> None:
        self.depth = 3


class Spring:
    """Makes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return subprocess.check_call, (["touch", str(self.marker)],)


def net(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return softplus_mlp(**ARGS)


def under(prefix: str, network: nn.Module) -> dict[str, Tensor]:
    return {prefix + key: tensor for key, tensor in network.state_dict().items()}


def loaded(path: Path, arch: str = "softplus-mlp", arch_args: dict | None = None, **spec) -> LoadedModel:
    arguments = ARGS if arch_args is None and arch == "softplus-mlp" else arch_args or {}
    return load_model(ModelSpec(str(path), arch, arguments, **spec), device=torch.device("cpu"), dtype=torch.float32)


def holds(model: LoadedModel, network: nn.Module) -> bool:
    found, wanted = model.classifier.network.state_dict(), network.state_dict()
    return found.keys() == wanted.keys() and all(torch.equal(found[key], wanted[key]) for key in wanted)


def lightning(**more: object) -> dict[str, object]:
    """What Lightning's Trainer saves."""
    return {
        "epoch": 3,
        "global_step": 12,
        "pytorch-lightning_version": "2.6.0",
        "state_dict": {**under("model.", net()), "criterion.weight": torch.ones(3)},
        "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": {"total": {"ready": 1}}}},
        "callbacks": {
            "ModelCheckpoint{'monitor': 'loss'}": {"best_model_score": torch.tensor(0.3), "last": Path("a.ckpt")}
        },
        "optimizer_states": [{"state": {0: {"exp_avg": torch.ones(4, 16)}}, "param_groups": [{"lr": np.float64(0.1)}]}],
        "hyper_parameters": {
            "args": argparse.Namespace(lr=0.1, out=pathlib.PurePosixPath("x")),
            "counts": collections.defaultdict(list, {"a": [1]}),
            "recent": collections.deque([1.0], maxlen=3),
            "table": np.arange(3),
            "settings": Settings(),
        },
        **more,
    }


# whatever it is called


@pytest.mark.parametrize("name", ["w.ckpt", "w.bin", "w.pth.tar", "w.model", "w", "w.pt"])
@pytest.mark.parametrize("form", ["archive", "pickle", "safetensors"])
def test_a_file_is_known_by_its_content(tmp_path, name, form):
    if form == "safetensors":
        save_file(net().state_dict(), tmp_path / name)
    else:
        torch.save(net().state_dict(), tmp_path / name, _use_new_zipfile_serialization=form == "archive")
    assert holds(loaded(tmp_path / name), net())


@pytest.mark.parametrize("legacy", [False, True], ids=["archive", "pickle"])
def test_a_checkpoint_of_lightning_is_read_and_what_is_left_out_is_told(tmp_path, legacy):
    torch.save(lightning(), tmp_path / "last.ckpt", _use_new_zipfile_serialization=not legacy)
    model = loaded(tmp_path / "last.ckpt")
    assert holds(model, net())
    (doubt,) = model.doubts
    assert "1 tensors of last.ckpt are left out" in doubt
    assert doubt.endswith(": criterion.weight")


def test_what_is_left_out_is_a_warning_on_stderr_and_what_was_settled_a_line(tmp_path):
    torch.manual_seed(0)
    torch.save({**softplus_mlp(classes=12, hidden=4).state_dict(), "ema.decay": torch.ones(1)}, tmp_path / "w.ckpt")
    done = attrcert("bound", tmp_path / "w.ckpt", "--arch", "softplus-mlp", "--arch-arg", "hidden=4", "--limit", 2)
    assert done.code == 0, done.err
    assert "warning: model: 1 tensors of w.ckpt are left out" in done.said
    assert "\nmodel: classes=12 is what the last layer in w.ckpt has\n" in f"\n{done.err}"


def test_no_code_of_a_file_runs_though_its_tensors_are_read(tmp_path):
    torch.save(lightning(spring=Spring(tmp_path / "ran")), tmp_path / "w.ckpt")
    assert holds(loaded(tmp_path / "w.ckpt"), net())
    assert not (tmp_path / "ran").exists()
    torch.load(tmp_path / "w.ckpt", weights_only=False)  # the trap is real
    assert (tmp_path / "ran").exists()


def test_a_network_that_was_pickled_whole_gives_its_weights_and_not_its_code(tmp_path):
    whole = nn.Sequential(nn.BatchNorm2d(1), *net())
    torch.save({"model": whole, "epoch": 2}, tmp_path / "whole.pt")
    (tmp_path / "nets.py").write_text(
        "from torch import nn\nfrom attrcert.loading.architectures import softplus_mlp\n"
        f"def make(): return nn.Sequential(nn.BatchNorm2d(1), *softplus_mlp(**{ARGS}))"
    )
    assert holds(loaded(tmp_path / "whole.pt", f"{tmp_path}/nets.py:make"), whole)


def test_the_command_for_a_file_that_cannot_be_read_without_its_code_cleans_it(tmp_path):
    """A network pickled whole in torch's old form: its code is a part of the file."""
    torch.save(net(), tmp_path / "it's old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(
        CheckpointError, match=r"more than tensors \(torch\.nn\.modules\.container\.Sequential"
    ) as caught:
        loaded(tmp_path / "it's old.pt")
    command = caught.value.hint[caught.value.hint.index("python -c") :]
    subprocess.run([sys.executable, *shlex.split(command)[1:]], check=True, timeout=120)
    assert holds(loaded(tmp_path / "it's old-weights.pt"), net())


def test_a_torchscript_program_is_refused_with_the_command_that_takes_its_weights(tmp_path):
    torch.jit.save(torch.jit.script(nn.Sequential(*net())), tmp_path / "script.pt")
    with pytest.raises(CheckpointError, match="TorchScript program") as caught:
        loaded(tmp_path / "script.pt")
    command = caught.value.hint[caught.value.hint.index("python -c") :]
    subprocess.run([sys.executable, *shlex.split(command)[1:]], check=True, timeout=120)
    assert holds(loaded(tmp_path / "script-weights.pt"), net())


def test_a_pointer_of_git_lfs_says_how_to_fetch_the_file(tmp_path):
    (tmp_path / "w.bin").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:aa\n")
    with pytest.raises(CheckpointError) as caught:
        loaded(tmp_path / "w.bin")
    assert "git lfs pull" in caught.value.hint


# which of what is in it


def test_a_prefix_of_some_keys_is_undone_where_others_stand_beside(tmp_path):
    beside = {"criterion.weight": torch.ones(3), "head.aux.weight": torch.ones(2)}
    torch.save({**beside, **under("student.net.", net())}, tmp_path / "w.pt")
    model = loaded(tmp_path / "w.pt")
    assert holds(model, net())
    assert "criterion.weight, head.aux.weight" in model.doubts[0]


def test_a_missing_tensor_is_an_error_that_names_it_whatever_stands_beside(tmp_path):
    state = {**under("model.", net()), "criterion.weight": torch.ones(3)}
    del state["model.3.bias"]
    torch.save({"state_dict": state}, tmp_path / "w.ckpt")
    with pytest.raises(CheckpointError, match=r"1 missing: 3\.bias"):
        loaded(tmp_path / "w.ckpt")


def test_one_more_layer_of_a_kind_that_the_network_has_is_an_error(tmp_path):
    torch.save({**net().state_dict(), "5.weight": torch.ones(3, 3)}, tmp_path / "deeper.pt")
    with pytest.raises(CheckpointError, match=r"1 unexpected: 5\.weight"):
        loaded(tmp_path / "deeper.pt")


@pytest.mark.parametrize("content", [("model_ema", "model"), ("ema", "state_dict"), ("teacher", "student")])
def test_averaged_weights_come_after_the_others_and_both_are_told(tmp_path, content):
    averaged, own = content
    torch.save({averaged: net(1).state_dict(), own: net(0).state_dict()}, tmp_path / "w.pt")
    model = loaded(tmp_path / "w.pt")
    assert holds(model, net(0))
    assert f"those under {own} are taken" in model.doubts[0]
    asked = loaded(tmp_path / "w.pt", checkpoint_key=averaged)
    assert holds(asked, net(1))
    assert asked.doubts == ()
    assert asked.facts["checkpoint_key"] == averaged


def test_averages_beside_the_weights_in_one_state_are_told_too(tmp_path):
    torch.save({**under("ema.", net(1)), **under("model.", net(0))}, tmp_path / "w.pt")
    model = loaded(tmp_path / "w.pt")
    assert holds(model, net(0))
    assert "under model.* and under ema.*" in model.doubts[-1]


def test_the_entry_that_fits_wins_over_one_that_comes_first(tmp_path):
    torch.save({"state_dict": {"scale": torch.ones(2)}, "net": {"weights": net().state_dict()}}, tmp_path / "w.pt")
    assert holds(loaded(tmp_path / "w.pt"), net())


def test_an_entry_that_is_not_there_is_refused_with_those_that_are(tmp_path):
    torch.save({"model": net().state_dict(), "ema": net().state_dict()}, tmp_path / "w.pt")
    with pytest.raises(UsageError, match="it has model, ema"):
        loaded(tmp_path / "w.pt", checkpoint_key="emma")


def test_weights_that_are_not_finite_are_not_exchanged_for_averages(tmp_path):
    broken = net(0).state_dict()
    broken["3.bias"][0] = torch.nan
    torch.save({"model": broken, "ema": net(1).state_dict()}, tmp_path / "w.pt")
    with pytest.raises(CheckpointError, match=r"finite.*3\.bias"):
        loaded(tmp_path / "w.pt")


def test_a_file_of_many_that_hold_each_other_is_read_in_no_time(tmp_path):
    loop: dict = {"w": torch.ones(1)}
    loop |= {f"entry{i}": loop for i in range(1000)}
    torch.save(loop, tmp_path / "loop.pt")
    with pytest.raises(CheckpointError, match="missing"):
        loaded(tmp_path / "loop.pt")


# the number of classes

SIGNATURES = ["num_classes=1000", "num_labels=2", "n_classes=10", "classes=4", "num_classes"]


@pytest.mark.parametrize("signature", SIGNATURES)
@pytest.mark.parametrize("form", ["safetensors", "torch"])
def test_the_number_of_classes_is_that_of_the_weights_and_is_told(tmp_path, signature, form):
    name = signature.partition("=")[0]
    (tmp_path / "nets.py").write_text(
        textwrap.dedent(f"""
            from attrcert.loading.architectures import softplus_mlp
            def make({signature}):
                return softplus_mlp(inputs=16, hidden=4, classes={name})
        """)
    )
    save = save_file if form == "safetensors" else torch.save
    save(net().state_dict(), tmp_path / "w")
    model = loaded(tmp_path / "w", f"{tmp_path}/nets.py:make")
    assert holds(model, net())
    assert model.facts["arch_args"] == {name: 3}
    assert model.notes == (f"{name}=3 is what the last layer in w has",)
    with pytest.raises(CheckpointError, match="does not fit"):
        loaded(tmp_path / "w", f"{tmp_path}/nets.py:make", {name: 5})  # what the user says is not changed


def test_nothing_is_told_where_the_number_of_classes_is_the_factorys_own(tmp_path):
    torch.save(softplus_mlp().state_dict(), tmp_path / "w.pt")
    model = loaded(tmp_path / "w.pt", arch_args={"hidden": 32})
    assert model.notes == ()
    assert model.facts["arch_args"] == {"hidden": 32}


def test_another_difference_than_the_number_of_classes_is_an_error(tmp_path):
    torch.save(softplus_mlp(classes=3, hidden=8).state_dict(), tmp_path / "w.pt")
    with pytest.raises(CheckpointError, match="does not fit"):
        loaded(tmp_path / "w.pt", arch_args={"hidden": 32})


@pytest.mark.parametrize("legacy", [False, True])
def test_where_shapes_differ_the_trainers_own_arguments_are_told(tmp_path, legacy):
    for given in (
        {"width": 12, "kind": "wide", "decay": [1, 2]},
        argparse.Namespace(width=12, kind="wide", owner=Path("/")),
    ):
        torch.save({"state_dict": net().state_dict(), "hyper_parameters": given}, tmp_path / "lit.ckpt")
        with pytest.raises(CheckpointError, match=r"of another shape: 1\.weight") as caught:
            loaded(tmp_path / "lit.ckpt", arch_args={**ARGS, "hidden": 5})
        assert caught.value.hint.endswith("it was saved with width=12, kind=wide")


def test_tensors_that_may_be_the_normalisation_are_told_with_their_values(tmp_path):
    beside = {
        "mean": torch.tensor([[0.25]]),
        "norm.pixel_std": torch.tensor([0.5, 1.0]),
        "bn.running_mean": torch.ones(2),
    }
    torch.save({**net().state_dict(), **beside}, tmp_path / "w.pt")
    (doubt,) = loaded(tmp_path / "w.pt").doubts
    assert "mean may be the model's normalisation: --mean 0.25; norm.pixel_std may be the" in doubt
    assert doubt.endswith("--std 0.5,1")
    assert "running_mean may" not in doubt


@pytest.mark.parametrize("name", ["w.pth", "w.ckpt"])
def test_a_file_that_ends_early_is_said_to(tmp_path, name):
    torch.save(net().state_dict(), tmp_path / name)
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:900])
    with pytest.raises(CheckpointError, match=f"{name} is not a readable torch checkpoint: it ends early") as caught:
        loaded(tmp_path / name)
    assert "again" in caught.value.hint


def test_a_folder_and_a_name_that_lead_nowhere_are_told_what_they_can_be(tmp_path):
    with pytest.raises(CheckpointError, match=r"but .* is a folder") as caught:
        loaded(tmp_path)
    assert f"hf:{tmp_path}" in caught.value.hint
    with pytest.raises(UsageError, match=r"there is no checkpoint file wines, and no bundled model of that name"):
        loaded(Path("wines"))
