"""Programs of torch.export run as networks, where the user says so."""

import warnings
import zipfile
from pathlib import Path

import pytest
import torch
from reference.program import attrcert
from torch import nn

from attrcert.errors import CheckpointError, ModelError
from attrcert.loading.checkpoints import load_model
from attrcert.networks.classifier import Classifier
from attrcert.settings.sources import ModelSpec


def network() -> nn.Sequential:
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 3, 3, stride=2), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.ReLU6()]
    return nn.Sequential(
        *layers, nn.Linear(3 * 6 * 6, 8), nn.LeakyReLU(), nn.Hardtanh(), nn.Softplus(), nn.Linear(8, 10)
    ).eval()


def export(path: Path, *, batch: bool = True, older: bool = False) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shapes = ({0: torch.export.Dim("batch")},) if batch else None
        program = torch.export.export(network(), (torch.rand(2, 1, 28, 28),), dynamic_shapes=shapes)
        if older:
            as_torch_2_6_does(program, path.with_suffix(".pt2"))
        else:
            torch.export.save(program, path.with_suffix(".pt2"))
    return path.with_suffix(".pt2").rename(path)


def as_torch_2_6_does(program: torch.export.ExportedProgram, path: Path) -> None:
    """Files without a folder, and the version of the schema."""
    from torch._export.serde import schema
    from torch._export.serde.serialize import serialize

    parts = serialize(program)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("serialized_exported_program.json", parts.exported_program)
        archive.writestr("serialized_state_dict.pt", parts.state_dict)
        archive.writestr("serialized_constants.pt", parts.constants)
        archive.writestr("serialized_example_inputs.pt", parts.example_inputs)
        archive.writestr("version", ".".join(map(str, schema.SCHEMA_VERSION)))


def loaded(path: Path, **spec) -> Classifier:
    return load_model(ModelSpec(str(path), **spec), device=torch.device("cpu"), dtype=torch.float64).classifier


@pytest.mark.parametrize("older", [False, True])
def test_a_program_is_not_loaded_unless_the_user_says_so(tmp_path, older):
    with pytest.raises(CheckpointError, match="exported program") as caught:
        loaded(export(tmp_path / "n.pt2", older=older))
    assert caught.value.hint == "if you trust it, give --arch export"


@pytest.mark.parametrize(("beta", "older"), [(None, False), (5.0, False), (5.0, True)])
def test_a_program_computes_what_its_network_does_with_the_same_twins(tmp_path, capfd, beta, older):
    program = loaded(export(tmp_path / "n.anything", older=older), arch="export", softplus_beta=beta)
    assert capfd.readouterr().err == ""
    own, x = Classifier(network().double(), beta=beta), torch.rand(3, 1, 28, 28, dtype=torch.float64)
    with program.prepared(), own.prepared():
        torch.testing.assert_close(program(x), own(x), rtol=1e-12, atol=1e-12)
        assert program.replaced(x) == own.replaced(x)


def test_a_bound_of_a_program_is_that_of_its_network_and_kinks_are_seen(tmp_path):
    export(tmp_path / "n.pt2")
    torch.save(network().state_dict(), tmp_path / "w.pt")
    (tmp_path / "nets.py").write_text(Path(__file__).read_text())
    words = ("--limit", 2, "--format", "csv", "--dtype", "float64")
    program = attrcert("bound", tmp_path / "n.pt2", "--arch", "export", *words)
    own = attrcert("bound", tmp_path / "w.pt", "--arch", f"{tmp_path}/nets.py:network", *words)
    assert program.code == own.code, program.err
    assert [row["T_e"][:8] for row in program.rows] == [row["T_e"][:8] for row in own.rows]
    assert "max-pooling" in program.said


def test_a_program_of_one_batch_size_says_how_to_export_it(tmp_path):
    with pytest.raises(ModelError, match="batches of 2 images only") as caught:
        loaded(export(tmp_path / "n.pt2", batch=False), arch="export")
    assert "dynamic_shapes" in caught.value.hint


def test_a_file_that_is_no_program_is_refused_in_a_line(tmp_path, capfd):
    torch.save(network().state_dict(), tmp_path / "w.pt2")
    with pytest.raises(CheckpointError, match=r"w\.pt2 is not a program that this torch can load: it holds no"):
        loaded(tmp_path / "w.pt2", arch="export")
    assert capfd.readouterr().err == ""
