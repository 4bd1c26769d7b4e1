"""Tables and signals: how they are read, what their inputs can be, and that every command knows them from images."""

import json
from math import inf
from pathlib import Path

import numpy as np
import pytest
import torch
from reference.program import attrcert as program
from safetensors.torch import save_file
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import attrcert
from attrcert.ascent.balls import Ball
from attrcert.errors import DataError, ModelError, SampleError, UsageError
from attrcert.loading.architectures import softplus_mlp
from attrcert.loading.datasets import LoadedData, load_data
from attrcert.networks.classifier import Classifier
from attrcert.settings.sources import DataSpec
from attrcert.types import Box
from attrcert.vocabulary import Kind, Norm

FEATURES = np.random.default_rng(0).normal(size=(24, 4)) * [1, 100, 0.01, 3] + [0, 50, 0, 1]
LABELS = (FEATURES[:, 1] > 50).astype(np.int64)


def load(dataset: Path | object, **spec) -> LoadedData:
    return load_data(DataSpec(str(dataset) if isinstance(dataset, Path) else dataset, **spec))


def signal_network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.Softplus(), nn.Flatten(), nn.Linear(24, 3))


def table_network() -> nn.Module:
    torch.manual_seed(0)
    return softplus_mlp(inputs=4, classes=2, hidden=5)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    told = {
        "arch": "softplus-mlp",
        "arch_args": json.dumps({"inputs": 4, "classes": 2, "hidden": 5}),
        "mean": json.dumps(list(FEATURES.mean(0))),
        "std": json.dumps(list(FEATURES.std(0))),
    }
    save_file(table_network().state_dict(), tmp_path / "net.safetensors", {f"attrcert.{k}": v for k, v in told.items()})
    return tmp_path / "net.safetensors"


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    return table(tmp_path / "data.csv")


def table(path: Path, *, last: str = "target", words: tuple[str, ...] = ("0", "1")) -> Path:
    lines = [
        f"a,b,c,d,{last}",
        *(",".join([*map(repr, map(float, row)), words[y]]) for row, y in zip(FEATURES, LABELS, strict=True)),
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


# reading


def test_a_table_without_rows_and_mean_of_other_columns_are_told(tmp_path, csv, monkeypatch):
    (tmp_path / "empty.csv").write_text("a,b,target\n")
    with pytest.raises(DataError, match=r"empty\.csv must have a row for each sample, and has none"):
        load(tmp_path / "empty.csv")
    with pytest.raises(
        ModelError, match=r"mean and std have 3 values, but the table has 4 features: a, b, c, d"
    ) as caught:
        attrcert.doctor(table_network(), str(csv), mean=(0.0,) * 3, std=(1.0,) * 3)
    assert "--label-column" in caught.value.hint
    with pytest.raises(ModelError, match=r"mean has 3 values, but the data have 4 features"):
        attrcert.bound(table_network(), (FEATURES.astype(np.float32), None), mean=(0.0,) * 3, std=(1.0,) * 3)


def test_every_kind_of_file_gives_the_same_features_and_labels(tmp_path, csv):
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    np.savez(tmp_path / "data.npz", features=FEATURES, labels=LABELS)
    np.save(tmp_path / "x.npy", FEATURES)
    np.save(tmp_path / "y.npy", LABELS)
    parquet.write_table(arrow_csv.read_csv(csv), tmp_path / "data.parquet")
    found = [load(tmp_path / name) for name in ("data.npz", "data.csv", "data.parquet")]
    for data in (*found, load(tmp_path / "x.npy", labels=str(tmp_path / "y.npy"))):
        assert data.form.kind is Kind.TABULAR
        sample, label = data.images[5]
        np.testing.assert_array_equal(sample.numpy(), FEATURES[5])
        assert label == LABELS[5]
    assert load(tmp_path / "x.npy").images[5][1] is None


def test_labels_of_a_table_that_are_words_are_places_among_the_classes(tmp_path):
    path = table(tmp_path / "data.csv", words=("yes", "no"))
    (tmp_path / "names.txt").write_text("maybe\nyes\nno\n")
    by_alphabet, by_file = load(path), load(path, classes=str(tmp_path / "names.txt"))
    first = [data.images[int(LABELS.argmin())][1] for data in (by_alphabet, by_file)]
    assert first == [1, 1]  # no < yes; maybe, yes, no
    assert [data.images[int(LABELS.argmax())][1] for data in (by_alphabet, by_file)] == [0, 2]
    assert by_file.label_name(2) == "no"
    (note,) = by_alphabet.notes
    assert "labels in 'target' of data.csv are words, numbered by the alphabet: no=0, yes=1" in note
    assert "--classes" in note
    assert (by_file.notes, load(table(tmp_path / "numbers.csv")).notes) == ((), ())
    with pytest.raises(DataError, match=r"'yes' is not one of them") as caught:
        load_data(DataSpec(str(path)), of_model=["no", "yess"])
    assert "'yess'" in caught.value.hint


@pytest.mark.parametrize(
    ("last", "spec", "said"),
    [
        ("outcome", {}, "none of label, target, class"),
        ("target", {"label_column": "targt"}, "got 'targt'"),
        ("target", {"labels": "y.npy"}, "--labels goes with an .npy"),
    ],
)
def test_a_table_whose_labels_nobody_knows_says_what_to_do(tmp_path, last, spec, said):
    with pytest.raises(UsageError, match=said):
        load(table(tmp_path / "data.csv", last=last), **spec)


def test_a_table_has_no_labels_where_that_is_said(csv):
    sample, label = load(csv, label_column="none").images[0]
    assert len(sample) == 5
    assert label is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,label\nred,0\n", "'a' of data.csv holds string"),
        ("a,label\n1,\n", "1 in 'label' have none"),
        ("a,a,label\n1,2,0\n", "several of a"),
        ("1.5,2.5\n1,2\n", "line of column names"),
        ("label\n1\n", "columns of features"),
        ("a,label\n1,-1\n", "-1 at index 0"),
    ],
)
def test_a_table_that_is_no_table_of_numbers_is_refused_with_the_reason(tmp_path, text, said):
    (tmp_path / "data.csv").write_text(text)
    with pytest.raises(DataError, match=said):
        load(tmp_path / "data.csv")


def test_columns_of_a_parquet_are_looked_at_before_they_are_read(tmp_path, monkeypatch):
    import pyarrow
    from pyarrow import parquet

    many = pyarrow.array([1.0]).take(pyarrow.array([0] * 5000))
    parquet.write_table(pyarrow.table({"a": many, "b": many}), tmp_path / "many.parquet")
    parquet.write_table(pyarrow.table({"a": [[1, 2]], "label": [0]}), tmp_path / "lists.parquet")
    monkeypatch.setattr(parquet, "read_table", lambda *a, **k: pytest.fail("it was read"))
    with pytest.raises(DataError, match=r"many\.parquet would fill 80 KB"):
        load(tmp_path / "many.parquet", label_column="none", max_input="10KB")
    with pytest.raises(DataError, match=r"'a' of lists\.parquet holds list"):
        load(tmp_path / "lists.parquet")


def test_a_missing_value_spoils_its_own_sample_only(tmp_path):
    (tmp_path / "data.csv").write_text("a,b,label\n1,2,0\n3,,1\n")
    data = load(tmp_path / "data.csv")
    assert data.images[0][0].tolist() == [1, 2]
    with pytest.raises(SampleError, match="finite"):
        data.images[1]


def test_a_pickle_named_npy_is_refused_and_does_not_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return (tmp_path / "ran").touch, ()

    np.save(tmp_path / "x.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="holds objects, not numbers"):
        load(tmp_path / "x.npy")
    assert not (tmp_path / "ran").exists()


def test_two_dimensions_are_signals_by_the_name_of_the_array_the_model_or_the_user(tmp_path):
    signals = np.random.default_rng(0).normal(size=(5, 2, 8))
    np.savez(tmp_path / "named.npz", signals=signals)
    np.savez(tmp_path / "usual.npz", images=signals)
    np.save(tmp_path / "x.npy", signals)
    for data in (
        load(tmp_path / "named.npz"),
        load(tmp_path / "x.npy", data_kind="signals"),
        load_data(DataSpec(str(tmp_path / "x.npy")), plane=Kind.SIGNALS),
        load_data(DataSpec(str(tmp_path / "usual.npz")), plane=Kind.SIGNALS),
    ):
        np.testing.assert_array_equal(data.images[3][0].numpy(), signals[3])
    with pytest.raises(SampleError, match="--data-kind signals"):
        load(tmp_path / "x.npy").images[0]


# ranges and scales


def test_the_range_of_the_data_is_each_features_own_and_attacks_stay_inside():
    data = load((FEATURES, LABELS), input_range="data")
    np.testing.assert_array_equal(data.within.low.numpy(), FEATURES.min(0))
    x = torch.from_numpy(FEATURES)
    delta = Ball.around(x, Norm.parse("linf"), 40.0, data.within).project(40 * torch.randn(x.shape).double().sign())
    moved = (x + delta).numpy()
    assert (moved >= FEATURES.min(0) - 1e-12).all()
    assert (moved <= FEATURES.max(0) + 1e-12).all()
    assert np.abs(moved - FEATURES)[:, 1].max() == pytest.approx(40)


def test_without_a_range_nothing_is_clipped_and_with_one_what_lies_outside_is_refused():
    assert load((FEATURES, LABELS)).within.widest == inf
    with pytest.raises(SampleError, match=r"\[-1, 1\] \(--input-range\)"):
        load((FEATURES, LABELS), input_range="-1,1").images[0]
    image = np.full((1, 1, 2, 2), -0.5)
    assert load((image, None), input_range=(-1, 1)).images[0][0].min() == -0.5


def test_the_largest_distance_of_two_inputs_is_the_diagonal_of_their_range():
    box = Box(torch.tensor([0.0, 1.0]), torch.tensor([3.0, 5.0]))
    assert box.distance(Norm.parse("l2"), 2) == pytest.approx(5)
    assert box.distance(Norm.parse("linf"), 2) == 4
    assert Box.of(0, 1).distance(Norm.parse("l2"), 784) == 28


@pytest.mark.parametrize("how", ["std", "range"])
def test_scaled_features_give_the_logits_and_scaled_maps_of_the_others(how):
    x = torch.from_numpy(FEATURES)
    scale = x.std(0, correction=0) if how == "std" else x.amax(0) - x.amin(0)
    f = Classifier(table_network().double(), tuple(FEATURES.mean(0)), tuple(FEATURES.std(0)))
    data = load((FEATURES, LABELS), feature_scale=how)
    z = torch.stack([data.images[i][0] for i in range(len(x))])
    torch.testing.assert_close(z, x / scale)
    torch.testing.assert_close(f.of_divided(data.scale.tolist())(z), f(x))
    plain, scaled = (
        attrcert.bound(f, (FEATURES, LABELS), limit=2, dtype="float64", eps=1.0, **given)
        for given in ({}, {"feature_scale": how})
    )
    leaf = x[:1].clone().requires_grad_()
    (map_of,) = torch.autograd.grad(f(leaf)[0, int(plain[0]["target"])], leaf)
    assert plain[0]["g_norm"] == pytest.approx(map_of.norm().item())
    assert scaled[0]["g_norm"] == pytest.approx((map_of * scale).norm().item())


def test_signals_are_scaled_by_channel():
    signals = np.random.default_rng(0).normal(size=(9, 2, 8)) * np.array([1, 50])[:, None] + 7
    data = load_data(DataSpec((signals, None), feature_scale="std"), plane=Kind.SIGNALS)
    np.testing.assert_allclose(data.scale.numpy(), signals.std(axis=(0, 2)))
    np.testing.assert_allclose(data.images[4][0].numpy(), signals[4] / signals.std(axis=(0, 2))[:, None])


def test_a_feature_that_does_not_vary_is_left_as_it_is():
    data = load((np.column_stack([FEATURES, np.full(24, 5.0)]), LABELS), feature_scale="std", input_range="data")
    assert data.scale[-1] == 1
    assert data.within.low[-1] == data.within.high[-1] == 5


# runs


def test_an_attack_stays_within_the_range_of_the_data():
    kept: dict[str, torch.Tensor] = {}
    f = Classifier(table_network().double(), tuple(FEATURES.mean(0)), tuple(FEATURES.std(0)))
    given = {"norm": "linf", "eps": 20.0, "dtype": "float64", "limit": 6, "steps": 2, "random_draws": 5}
    attrcert.attack(f, (FEATURES, LABELS), input_range="data", **given, save=kept.update)
    moved = np.stack(
        [(kept[f"index={i}/input"] + kept[f"index={i}/eps=20.0/attack=euclidean"]).numpy() for i in range(6)]
    )
    assert np.abs(moved - FEATURES[:6]).max() > 10
    assert (moved >= FEATURES.min(0) - 1e-9).all()
    assert (moved <= FEATURES.max(0) + 1e-9).all()


def test_datasets_of_tensors_are_read_and_image_figures_are_empty():
    network, x = signal_network(), torch.randn(6, 2, 8, generator=torch.Generator().manual_seed(0))
    labels = network(x).argmax(1)
    rows = attrcert.attack(
        network, DataLoader(TensorDataset(x, labels), batch_size=2), steps=1, random_draws=2, attack="worst"
    )
    assert [row["status"] for row in rows] == ["ok"] * 6
    assert all(row["T_hat_e"] > 0 for row in rows)
    assert {row[name] for row in rows for name in ("mass_centre", "ssim", "mass_centre_bound")} == {None}
    plain = attrcert.bound(table_network(), TensorDataset(torch.from_numpy(FEATURES).float()), limit=2)
    assert [row["label"] for row in plain] == [None, None]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("attack --attack mass-centre", "mass-centre needs images"),
        ("attack --attack manipulate", "manipulate needs images"),
        (
            "smooth --smooth gaussian --sigma 0.1 --samples 60 --certify-pixels 20% --out m.npz",
            "inputs with channels and places",
        ),
        ("smooth --smooth gaussian --sigma 0.1 --samples 60 --png pictures --out m.npz", "--png draws images"),
        ("bound --resize 8", "--resize and --crop are for images"),
        ("bound --attribution ig --ig-steps 2 --baseline mean --proved", "baseline between -1 and 1"),
    ],
)
def test_what_is_for_images_refuses_a_table_by_name(tmp_path, monkeypatch, csv, model, words, said):
    monkeypatch.chdir(tmp_path)
    command, *options = words.split()
    done = program(command, model, csv, *options, "--limit", "2")
    assert (done.code, said in done.err) == (2, True), done.err


def test_a_run_tells_its_units_and_warns_of_features_of_different_scales(csv, model):
    plain = program("bound", model, csv)
    assert "input units, inputs of any size" in " ".join(plain.out.split())
    assert "features differ in scale" in plain.err
    scaled = program("bound", model, csv, "--feature-scale", "std", "--input-range", "data", "--eps", "50")
    assert "units of each feature's standard deviation (maps too), inputs within the data's range" in " ".join(
        scaled.out.split()
    )
    assert "features differ" not in scaled.err
    assert "eps 50 is larger than any difference of two inputs" in scaled.err


@pytest.mark.parametrize(
    "words", ["bound --proved --eps 0.05", "max-eps --max-angle 5 --proved", "attack --steps 1 --random-draws 2"]
)
def test_commands_run_on_a_table_and_their_rows_are_shown_on_a_page(tmp_path, csv, model, words):
    command, *options = words.split()
    arrays = ("--save-deltas", tmp_path / "deltas.safetensors") if command == "attack" else ()
    done = program(
        command, model, csv, *options, "--limit", "3", "--feature-scale", "std", "--out", tmp_path / "rows.csv", *arrays
    )
    assert done.code == 0, done.err
    page = program("report", tmp_path / "rows.csv", "--out", tmp_path / "page.html")
    assert page.code == 0, page.err
    assert ("must be an image with channels" in (tmp_path / "page.html").read_text()) is (command == "attack")


def test_all_predictions_wrong_is_a_warning_of_every_command_also_of_eight_samples(tmp_path, model):
    with torch.no_grad():
        f = Classifier(table_network(), tuple(FEATURES.mean(0)), tuple(FEATURES.std(0)))
        wrong = 1 - f(torch.from_numpy(FEATURES).float()).argmax(1).numpy()
    np.savez(tmp_path / "wrong.npz", features=FEATURES[:8], labels=wrong[:8])
    small = ("--samples", "60", "--sigma", "0.1", "--smooth", "gaussian")
    for command, *options in (
        ("bound",),
        ("attack", "--steps", "1", "--random-draws", "2", "--restarts", "0"),
        ("max-eps", "--max-angle", "5"),
        ("bound", *small),
        ("smooth", *small, "--out", tmp_path / "maps.npz"),
    ):
        done = program(command, model, tmp_path / "wrong.npz", "--feature-scale", "std", *options)
        assert "0 of 8 right" in done.said, command
    assert "0 of 8 right" in program("doctor", model, tmp_path / "wrong.npz").shown
