"""A checkpoint is data from a stranger: whatever it holds, no code runs, nothing is fetched, and no memory is filled for it."""

import json
import os
import pickle
import socket
import struct
import textwrap
import urllib.request
import zipfile
from pathlib import Path

import pytest
import torch
from reference.program import attrcert
from safetensors.torch import save_file
from torch import Tensor, nn

from attrcert.errors import AttrcertError, CheckpointError, FileError, InputError, ModelError, UsageError
from attrcert.loading.architectures import build, softplus_mlp
from attrcert.loading.checkpoints import load_model
from attrcert.loading.vision import torchvision
from attrcert.networks.classifier import Classifier
from attrcert.settings.sources import ModelSpec

ARGS = {"inputs": 16, "classes": 3, "hidden": 4}
CLASSIFIERS = torchvision("models").list_models(module=torchvision("models"))
FETCHING = sorted(set(torchvision("models").list_models()) - set(CLASSIFIERS))


def weights(**others: Tensor) -> dict[str, Tensor]:
    torch.manual_seed(0)
    return {**softplus_mlp(**ARGS).state_dict(), **{name.replace("_", "."): tensor for name, tensor in others.items()}}


def load(path: Path | str, arch: str | None = None, arch_args: dict | None = None, **spec) -> Classifier:
    named = ModelSpec(str(path), arch, arch_args or {}, **spec)
    return load_model(named, device=torch.device("cpu"), dtype=torch.float32).classifier


@pytest.fixture
def described(tmp_path):
    """Writes weights with this metadata."""

    def write(tensors: dict[str, Tensor] | None = None, **metadata: str) -> Path:
        known = {"arch": "softplus-mlp", "arch_args": json.dumps(ARGS), **metadata}
        save_file(tensors or weights(), tmp_path / "m.safetensors", {f"attrcert.{k}": v for k, v in known.items()})
        return tmp_path / "m.safetensors"

    return write


@pytest.fixture
def offline(monkeypatch):
    """Every way to the network raises what no caller expects."""

    class Reached(BaseException):
        pass

    def reached(*_, **__):
        raise Reached

    monkeypatch.setattr(socket.socket, "connect", reached)
    monkeypatch.setattr(socket, "getaddrinfo", reached)
    monkeypatch.setattr(urllib.request, "urlopen", reached)
    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", reached)
    monkeypatch.setattr(torch.hub, "download_url_to_file", reached)
    monkeypatch.setattr(torchvision("models._api"), "load_state_dict_from_url", reached)


class Trap:
    """Unpickling makes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


@pytest.fixture
def poisoned_cache(tmp_path, monkeypatch):
    """A torch cache whose files, under the names that torchvision looks for, make `ran` when they are unpickled."""
    cache = tmp_path / "hub" / "checkpoints"
    cache.mkdir(parents=True)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    models = torchvision("models")
    for weight in (models.ResNet18_Weights.DEFAULT, models.ResNet50_Weights.IMAGENET1K_V1):
        (cache / weight.url.rpartition("/")[2]).write_bytes(pickle.dumps(Trap(tmp_path / "ran")))
    return tmp_path / "ran"


# no code, no network


@pytest.mark.parametrize(
    ("arch", "arguments"),
    [
        ("torchvision:resnet18", {"weights": "DEFAULT"}),
        ("torchvision:resnet18", {"weights": "ResNet18_Weights.IMAGENET1K_V1"}),
        ("torchvision:resnet18", {"pretrained": True}),
        ("torchvision:fcn_resnet50", {}),
        ("torchvision:fcn_resnet50", {"weights_backbone": "DEFAULT"}),
        ("torchvision:fcn_resnet50", {"pretrained_backbone": True}),
        ("torchvision.models:resnet18", {"weights": "DEFAULT"}),
        ("torch.hub:load_state_dict_from_url", {"url": "http://localhost/evil.pt"}),
    ],
)
def test_metadata_reach_neither_the_network_nor_a_cache(described, offline, poisoned_cache, arch, arguments):
    with pytest.raises(CheckpointError):
        load(described(arch=arch, arch_args=json.dumps(arguments)))
    assert not poisoned_cache.exists()


def test_the_poisoned_cache_is_a_trap(poisoned_cache):
    """Without which the tests around it would show nothing."""
    with pytest.raises(RuntimeError, match="magic number"):  # said of what the command gave
        torchvision("models").resnet18(weights="DEFAULT")
    assert poisoned_cache.exists()


def test_weights_of_a_cache_are_read_like_any_other_file(offline, poisoned_cache):
    with pytest.raises(CheckpointError, match=r"resnet18-f37072fd\.pth .*never runs code from a checkpoint"):
        load("torchvision:resnet18")
    assert not poisoned_cache.exists()


def test_a_file_may_not_name_a_model_of_a_library_that_fetches(described, offline):
    for arch in ("timm:resnet10t", "hf:folder", "export"):
        with pytest.raises(CheckpointError, match="A file may name a bundled architecture"):
            load(described(arch=arch, arch_args="{}"))


@pytest.mark.parametrize("key", ["weights", "weights_backbone", "pretrained", "pretrained_backbone"])
def test_weights_that_the_user_asks_torchvision_for_are_refused(offline, poisoned_cache, key):
    with pytest.raises(UsageError, match=f"weights come from the checkpoint: --arch-arg {key} must not"):
        build("torchvision:fcn_resnet50", {key: "DEFAULT"})
    assert not poisoned_cache.exists()


@pytest.mark.parametrize("name", ["fcn_resnet50", "resnet18"])
def test_a_torchvision_model_is_built_without_the_network(offline, poisoned_cache, name):
    assert isinstance(build(f"torchvision:{name}", {}), nn.Module)
    assert not poisoned_cache.exists()


def test_no_builder_of_torchvision_has_another_argument_for_weights():
    builders = [torchvision("models").get_model_builder(name) for name in torchvision("models").list_models()]
    hints = {key for builder in builders for key, hint in builder.__annotations__.items() if "Weights" in str(hint)}
    assert hints == {"weights", "weights_backbone"}


@pytest.mark.parametrize("name", FETCHING)
def test_a_file_may_not_name_what_is_no_classifier(described, name):
    with pytest.raises(
        CheckpointError, match="A file may name a bundled architecture or one of torchvision's classifiers"
    ):
        load(described(arch=f"torchvision:{name}", arch_args="{}"))


def test_a_file_may_name_a_classifier_of_torchvision(described, offline):
    network = build("torchvision:squeezenet1_1", {"num_classes": 3})
    path = described(network.state_dict(), arch="torchvision:squeezenet1_1", arch_args='{"num_classes": 3}')
    assert load(path)(torch.rand(1, 3, 64, 64)).shape == (1, 3)


def test_a_model_that_cannot_be_built_without_memory_is_built_with_it(described):
    network = build("torchvision:regnet_y_400mf", {"num_classes": 3})
    path = described(network.state_dict(), arch="torchvision:regnet_y_400mf", arch_args='{"num_classes": 3}')
    assert load(path).network.fc.out_features == 3


def test_the_hint_for_code_that_a_file_names_can_be_copied_without_harm(described):
    with pytest.raises(CheckpointError) as caught:
        load(described(arch="a:b; rm -rf $HOME"))
    assert caught.value.hint == "if you trust it, give --arch 'a:b; rm -rf $HOME'"


def test_a_files_arguments_are_not_given_to_an_architecture_that_it_does_not_name(described):
    path = described(arch_args=json.dumps({**ARGS, "depth": 3}))
    with pytest.raises(CheckpointError, match="does not fit"):
        load(path, "torch.nn:Identity")  # which takes any argument; it was called without
    with pytest.raises(ModelError, match=r"torch\.nn:Linear with \{\}"):
        load(path, "torch.nn:Linear")


# no memory


@pytest.mark.parametrize(
    ("arch", "arguments"),
    [
        ("softplus-mlp", {**ARGS, "depth": 10**8}),
        ("softplus-mlp", {**ARGS, "hidden": 10**9}),
        ("softplus-mlp", {**ARGS, "hidden": 50_000}),
        ("softplus-cnn", {"size": 10**6}),
        ("wrn-28-10", {}),
        ("torchvision:vit_b_16", {"image_size": 16_000}),
        ("torchvision:resnet18", {"num_classes": 10**9}),
        ("torchvision:regnet_y_128gf", {}),
    ],
)
def test_a_network_that_the_weights_do_not_justify_is_not_built(described, monkeypatch, arch, arguments):
    filled = []
    monkeypatch.setattr(nn.init, "_no_grad_uniform_", lambda t, *_, **__: filled.append(t.numel() * (not t.is_meta)))
    monkeypatch.setattr(nn.init, "_no_grad_normal_", lambda t, *_, **__: filled.append(t.numel() * (not t.is_meta)))
    with pytest.raises(CheckpointError, match=r"m\.safetensors describe a much larger network"):
        load(described(arch=arch, arch_args=json.dumps(arguments)))
    assert sum(filled) < 10**6
    assert softplus_mlp(depth=40)[-1].out_features == 10  # nothing counts any more


@pytest.mark.parametrize(
    "arguments",
    [
        "5",
        '"a"',
        "[1]",
        '{"depth": [[1]]}',
        '{"depth": {"a": 1}}',
        '{"depth": 1e999}',
        '{"depth": NaN}',
        '{"depth": 99999999999}',
        '{"depth": ' + "9" * 5000 + "}",
        '{"a": "' + "a" * 2000 + '"}',
        '{"a": [' + "1," * 100 + "1]}",
        '{"a b": 1}',
        "[" * 100_000,
        '{"a": ' + "[" * 900 + "]" * 900 + "}",
        '"' + "a" * 10**7 + '"',
    ],
    ids=lambda text: text[:20],
)
def test_arguments_that_are_no_plain_values_are_refused_in_a_short_message(described, arguments):
    with pytest.raises(CheckpointError, match=r"attrcert\.arch_args of m\.safetensors must be") as caught:
        load(described(arch_args=arguments))
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("key", ["mean", "std"])
@pytest.mark.parametrize(
    "value",
    ["[NaN]", "[Infinity]", "[1e400]", "[[1]]", "[true]", "[]", '["1"]', "1", "[1, 2]", "{", "[null]", "[" * 10**5],
)
def test_a_normalisation_that_makes_no_sense_is_refused(described, key, value):
    metadata = {"mean": "[0.5]", "std": "[0.5]", key: value}
    with pytest.raises(CheckpointError, match=r"m\.safetensors"):
        load(described(**metadata))
    assert load(described(**metadata), mean=(0.1,), std=(0.2,)).mean == (0.1,)  # the user's own goes before it


@pytest.mark.parametrize("value", ["[0]", "[-1]"])
def test_a_standard_deviation_that_is_not_positive_is_refused(described, value):
    with pytest.raises(CheckpointError, match="positive"):
        load(described(mean="[0.5]", std=value))


@pytest.mark.parametrize("value", ['"abc"', "5", '{"a": 1}', '[["a"]]', "[1.5]", "[null]", '["' + "a" * 5000 + '"]'])
def test_classes_that_are_no_list_of_names_are_refused(described, value):
    with pytest.raises(CheckpointError, match=r"attrcert\.classes of m\.safetensors must be a list of names"):
        load(described(classes=value))


def test_compressed_members_count_with_what_they_unpack_to(tmp_path):
    torch.save(weights(), tmp_path / "w.pt")
    with (
        zipfile.ZipFile(tmp_path / "w.pt") as good,
        zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as bad,
    ):
        for info in good.infolist():
            bad.writestr(info.filename, good.read(info))
        bad.writestr("w/data/9", bytes(3 * 10**6))
    with pytest.raises(
        CheckpointError, match=r"bomb\.pt would fill 3 MB of memory, more than --max-input 3MB"
    ) as caught:
        load(tmp_path / "bomb.pt", "softplus-mlp", ARGS, max_input="3MB")
    assert "--max-input" in caught.value.hint
    assert load(tmp_path / "bomb.pt", "softplus-mlp", ARGS, max_input="4MB").network[1].in_features == 16


@pytest.mark.parametrize(
    "view", [torch.zeros(1).expand(10**6, 10**6), torch.empty(10**9, 10**9, device="meta")], ids=["expanded", "meta"]
)
def test_a_view_counts_with_what_it_shows(tmp_path, view):
    torch.save(weights(**{"1_weight": view}), tmp_path / "w.pt")
    with pytest.raises(CheckpointError, match=r"w\.pt would fill (4|over 1000) TB"):
        load(tmp_path / "w.pt", "softplus-mlp", ARGS)


def test_a_file_as_large_as_its_weights_is_no_bomb(tmp_path):
    torch.save(weights(), tmp_path / "w.pt")
    assert load(tmp_path / "w.pt", "softplus-mlp", ARGS, max_input="1KB").network[1].in_features == 16


def test_a_name_of_many_prefixes_is_not_stripped_for_ever(described):
    with pytest.raises(CheckpointError, match="unexpected") as caught:
        load(described({"module." * 50_000: torch.zeros(2)}))
    assert len(str(caught.value)) < 1000


# tensors of other kinds

WEIGHT = weights()["1.weight"]


ODD = {
    "complex64": lambda: WEIGHT.to(torch.complex64),
    "sparse_coo": lambda: WEIGHT.to_sparse(),
    "qint8": lambda: torch.quantize_per_tensor(WEIGHT, 0.1, 0, torch.qint8),
    "nested": lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
    "meta": lambda: WEIGHT.to("meta"),
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.filterwarnings("ignore")
def test_tensors_that_are_no_plain_numbers_are_refused_by_name(tmp_path, kind):
    torch.save(weights(**{"1_weight": ODD[kind]()}), tmp_path / "w.pt")
    with pytest.raises(CheckpointError, match=rf"plain tensors.*1\.weight \(.*{kind}"):
        load(tmp_path / "w.pt", "softplus-mlp", ARGS)


@pytest.mark.parametrize("dtype", [torch.int8, torch.bool, torch.int64], ids=str)
def test_whole_numbers_are_no_weights(described, dtype):
    with pytest.raises(CheckpointError, match=rf"1 of another kind: 1\.weight {dtype} instead of torch\.float32"):
        load(described(weights(**{"1_weight": WEIGHT.to(dtype)})))


@pytest.mark.parametrize(
    "dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float16, torch.float64], ids=str
)
def test_shorter_and_longer_floats_are_read_as_the_numbers_they_are(described, dtype):
    stored = WEIGHT.to(dtype)
    assert torch.equal(load(described(weights(**{"1_weight": stored}))).network[1].weight, stored.float())


def test_a_nan_of_eight_bits_is_found(described):
    with pytest.raises(CheckpointError, match=r"finite.*1\.weight"):
        load(described(weights(**{"1_weight": torch.full((4, 16), torch.nan).to(torch.float8_e4m3fn)})))


def test_weights_too_large_for_the_runs_precision_are_refused(described):
    with pytest.raises(CheckpointError, match=r"must fit into float32, but .* 1\.weight"):
        load(described(weights(**{"1_weight": WEIGHT.double() + 1e300})))


# what is no checkpoint


@pytest.mark.parametrize(
    "content",
    [
        {1: torch.zeros(2)},
        {"a": torch.zeros(2), 1: torch.zeros(2)},
        None,
        "text",
        {1, 2},
        {"state_dict": {"state_dict": 3}},
    ],
    ids=["numbers as keys", "mixed keys", "None", "text", "set", "no tensors within"],
)
def test_a_torch_file_of_something_else_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "odd.pt")
    with pytest.raises(CheckpointError, match=r"odd\.pt"):
        load(tmp_path / "odd.pt", "softplus-mlp", ARGS)


def test_a_file_that_wraps_itself_is_refused(tmp_path):
    loop: dict = {}
    loop["state_dict"] = loop
    torch.save(loop, tmp_path / "loop.pt")
    with pytest.raises(CheckpointError, match="must hold a state dict"):
        load(tmp_path / "loop.pt", "softplus-mlp", ARGS)


@pytest.mark.parametrize("name", ["w.pt", "w.safetensors", "w.npz", "w"])
def test_a_pipe_as_a_checkpoint_is_not_waited_for(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    os.mkfifo(name)
    with pytest.raises(CheckpointError, match=r"must be a regular file.*is a pipe"):
        load(name, "softplus-mlp")


def test_a_pipe_as_an_architecture_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "nets.py")
    torch.save(weights(), tmp_path / "w.pt")
    with pytest.raises(ModelError, match=r"must be a regular file.*is a pipe"):
        load(tmp_path / "w.pt", f"{tmp_path}/nets.py:make")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("folder.pt", CheckpointError),
        ("gone.pt", CheckpointError),
        ("loop.pt", FileError),
        ("n" * 300 + ".pt", FileError),
        ("a\0.pt", CheckpointError),
    ],
    ids=["folder", "dangling", "loop", "long", "NUL"],
)
def test_a_name_that_leads_to_no_file_is_said(tmp_path, name, kind):
    (tmp_path / "folder.pt").mkdir()
    (tmp_path / "gone.pt").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop.pt").symlink_to(tmp_path / "loop.pt")
    with pytest.raises(kind):
        load(tmp_path / name, "softplus-mlp")


@pytest.mark.parametrize("save", [torch.save, save_file])
def test_a_name_that_is_no_text_is_read_or_said(tmp_path, save):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe"))
    save(weights(), tmp_path / "w")
    (tmp_path / "w").rename(path)
    if save is torch.save:
        assert load(path, "softplus-mlp", ARGS).network[1].in_features == 16
        return
    with pytest.raises(CheckpointError, match="UTF-8") as caught:
        load(path, "softplus-mlp", ARGS)
    assert caught.value.hint == "rename it"


@pytest.mark.parametrize(
    "header",
    [
        b'{"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}}',
        b'{"a":{"dtype":"F32","shape":[99999999999],"data_offsets":[0,4]}}',
        b'{"a":{"dtype":"F4","shape":[8],"data_offsets":[0,4]}}',
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
        b"[" * 10**5,
        b'{"\\ud800":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
        b'{"a\\n\\u001b[2J":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
        b"{}",
    ],
    ids=["unknown dtype", "long shape", "half bytes", "twice", "nested", "surrogate", "control", "empty"],
)
def test_a_header_of_nonsense_is_a_checkpoint_error(tmp_path, header):
    (tmp_path / "s.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    with pytest.raises(CheckpointError):
        load(tmp_path / "s.safetensors", "softplus-mlp", ARGS)


# the order


@pytest.fixture
def telling(tmp_path):
    """An architecture in a file that leaves a trace when it is imported."""
    (tmp_path / "nets.py").write_text(
        textwrap.dedent(f"""
            from pathlib import Path
            Path({str(tmp_path / "ran")!r}).touch()
            from attrcert.loading.architectures import softplus_mlp as make
        """)
    )
    return tmp_path


@pytest.mark.parametrize(
    ("tensors", "spec"),
    [
        ({"1_weight": torch.full((4, 16), torch.nan)}, {}),
        ({"1_weight": WEIGHT.to(torch.complex64)}, {}),
        ({}, {"mean": (0.5,)}),
        ({}, {"softplus_beta": -1.0}),
        ({}, {"mean": (0.5,), "std": (float("nan"),)}),
    ],
    ids=["NaN", "complex", "mean alone", "beta", "std"],
)
def test_code_of_an_architecture_runs_only_after_what_can_be_checked_without_it(telling, tensors, spec):
    torch.save(weights(**tensors), telling / "w.pt")
    with pytest.raises(AttrcertError):
        load(telling / "w.pt", f"{telling}/nets.py:make", ARGS, **spec)
    assert not (telling / "ran").exists()
    torch.save(weights(), telling / "w.pt")
    load(telling / "w.pt", f"{telling}/nets.py:make", ARGS)
    assert (telling / "ran").exists()


@pytest.mark.parametrize("dataset", ["gone.npz", "gone/folder", "notes.txt", "pipe.npz"])
def test_code_of_an_architecture_runs_only_after_the_data_were_found(telling, dataset):
    (telling / "notes.txt").touch()
    os.mkfifo(telling / "pipe.npz")
    torch.save(weights(), telling / "w.pt")
    done = attrcert("bound", telling / "w.pt", telling / dataset, "--arch", f"{telling}/nets.py:make")
    assert done.code == InputError.exit_code, done.err
    assert not (telling / "ran").exists()


def test_the_cap_is_an_option_of_every_command_that_reads(tmp_path):
    for command in ("bound", "attack", "max-eps", "min-radius", "smooth", "doctor"):
        assert "--max-input" in attrcert(command, "--help-all").out
    done = attrcert("bound", "--limit", 1, "--max-input", "4")
    assert done.code == UsageError.exit_code
    assert "--max-input must be a size such as 4GB" in done.said
