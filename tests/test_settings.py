"""A setting is declared once: the command line, the library, their errors and the help are made from it."""

import os
import re
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from reference.program import attrcert as program
from safetensors.torch import save_file
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import attrcert
from attrcert.catalogue import families
from attrcert.cli import options
from attrcert.errors import AttrcertError, UsageError
from attrcert.loading.architectures import softplus_mlp
from attrcert.saved.records import render
from attrcert.settings.commands import COMMANDS, task_of
from attrcert.settings.declared import declared, spelt
from attrcert.settings.presets import PRESETS
from attrcert.settings.reading import FAMILIES
from attrcert.settings.tasks import BoundConfig, settings_of
from attrcert.vocabulary import parse_number

ARGS = {"inputs": 36, "classes": 3, "hidden": 5}


@pytest.fixture
def files(tmp_path) -> tuple[Path, Path]:
    """A model and data."""
    torch.manual_seed(0)
    save_file(softplus_mlp(**ARGS).state_dict(), tmp_path / "net.safetensors")
    images = np.random.default_rng(0).integers(0, 256, (4, 1, 6, 6), dtype=np.uint8)
    np.savez(tmp_path / "data.npz", images=images, labels=np.arange(4) % 3)
    return tmp_path / "net.safetensors", tmp_path / "data.npz"


def as_words(given: dict) -> list[str]:
    words = []
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        words += [option] if value is True else [part for one in _listed(value) for part in (option, str(one))]
    return words


def _listed(value) -> list:
    return list(value) if isinstance(value, tuple | list) else [value]


ASKED = {
    "bound": ("bound", {"eps": ("0.1", "8/255"), "ball": True}),
    "bound linf": ("bound", {"norm": "linf", "linf_method": ("scaled", "corollary"), "seed": 3}),
    "bound proved": ("bound", {"proved": True, "eps": 0.01}),
    "bound smooth": ("bound", {"smooth": "gaussian", "sigma": (0.1, 0.3), "samples": 60}),
    "attack": ("attack", {"attack": ("euclidean", "top-k"), "steps": 2, "transfer": "ixg", "k": 4}),
    "max-eps": ("max-eps", {"max_angle": (20, 40), "corrected": True}),
    "max-eps smooth": ("max-eps", {"smooth": "uniform", "radius": "best", "min_cosine": 0.5, "samples": 60}),
    "score": (
        "score",
        {"metric": ("insertion", "rps"), "eps": (0.05, "8/255"), "shares": 3, "fill": "blur", "random_draws": 2},
    ),
    "min-radius": ("min-radius", {"min_cosine": 0.5, "radii": (0.5, 2.0), "eps": 0.02, "samples": 60}),
}


@pytest.mark.parametrize(("command", "given"), ASKED.values(), ids=ASKED)
def test_the_same_settings_give_the_same_rows_in_the_library_and_on_the_command_line(files, command, given):
    model, data = files
    # points that are differentiated together: else chosen by time, and so are last digits
    arch = {"arch": "softplus-mlp", "limit": 3, "mean": "0.4", "std": "0.3", "chunk": 4}
    arguments = [word for key, value in ARGS.items() for word in ("--arch-arg", f"{key}={value}")]
    done = program(command, model, data, *as_words({**arch, **given}), *arguments, "--format", "csv", "--quiet")
    assert done.code == 0, done.err
    theirs = [{key: cell for key, cell in row.items() if cell and key != "seconds"} for row in done.rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call = getattr(attrcert, command.replace("-", "_"))
        rows = call(str(model), str(data), **arch, arch_args=ARGS, **given)
    ours = [{key: render(cell) for key, cell in row.items() if cell is not None and key != "seconds"} for row in rows]
    assert ours == theirs


def test_the_librarys_maps_are_the_command_lines(files, tmp_path):
    model, data = files
    given = {"smooth": "gaussian", "sigma": 0.2, "samples": 60, "limit": 2, "arch": "softplus-mlp"}
    arguments = [word for key, value in ARGS.items() for word in ("--arch-arg", f"{key}={value}")]
    assert program("smooth", model, data, *as_words(given), *arguments, "--out", tmp_path / "m.npz", "-q").code == 0
    maps = attrcert.smooth(str(model), str(data), **given, arch_args=ARGS)
    theirs = np.load(tmp_path / "m.npz")
    assert set(maps) == set(theirs)
    assert all(np.array_equal(maps[name], theirs[name]) for name in maps)


# what means nothing is refused


ONLY_FIRST_ORDER = sorted(set(settings_of(BoundConfig)) - set(settings_of(COMMANDS["bound"].smoothed)))


@pytest.mark.parametrize("name", ONLY_FIRST_ORDER)
@pytest.mark.parametrize("command", ["bound", "max-eps"])
def test_a_setting_of_first_order_bounds_is_refused_beside_smooth(command, name):
    kept = {"min_cosine": 0.9} if command == "max-eps" else {}
    default = BoundConfig().flat()[name]
    value = True if default is False else _listed(default)[0]
    with pytest.raises(UsageError, match=f"--{name.replace('_', '-')} means nothing with --smooth"):
        task_of(command, {"smooth": "uniform", name: value, **kept})
    words = as_words({"smooth": "uniform", name: value, **kept})
    done = program(command, "--limit", 1, *words)
    assert done.code == 2
    assert f"--{name.replace('_', '-')} means nothing with --smooth" in done.said


def test_the_settings_that_used_to_be_dropped_are_among_them():
    dropped = (
        "ball linf_method label_constraint margin_classes eta_draws slack max_steps noise_draws smooth_base smooth_unit"
    )
    assert set(dropped.split()) <= set(ONLY_FIRST_ORDER)


IDLE = [
    ("bound", {"attribution": "sg", "radius": 1}, "uniform-smooth"),
    ("bound", {"attribution": "us", "sigma": 1}, "smooth-grad"),
    ("bound", {"label_constraint": "off", "margin_classes": 5}, "--label-constraint check, tighten and compare"),
    ("bound", {"loss_hessian": True, "softplus_beta": 5}, "bounds that need a Hessian"),
    ("bound", {"smooth": "gaussian", "softplus_beta": 5}, "bounds that need a Hessian"),
    ("smooth", {"smooth": "gaussian", "softplus_beta": 5}, "bounds that need a Hessian"),
    ("bound", {"max_hours": 3}, "--norm linf --linf-method row-sums"),
    ("bound", {"norm": "linf", "linf_method": "row-sums", "loss_hessian": True, "max_hours": 3}, "--norm linf"),
    ("min-radius", {"min_cosine": 0.9, "max_hours": 3}, "--norm linf --linf-method row-sums"),
    ("attack", {"attack": "random", "steps": 5}, "attacks other than random"),
    ("attack", {"attack": "random", "step_size": 0.1}, "attacks other than random"),
    ("attack", {"attack": "random", "restarts": 1}, "attacks other than random"),
    ("attack", {"transfer": "sg", "radius": 2}, "uniform-smooth"),
]


@pytest.mark.parametrize(("command", "given", "use"), IDLE, ids=str)
def test_a_setting_without_effect_is_refused_by_the_command_line_and_the_library(command, given, use):
    said = f"--{list(given)[-1].replace('_', '-')} has no effect here: it is for {use}"
    done = program(command, *as_words(given), "--limit", 1)
    assert (done.code, said in done.said) == (2, True), done.said
    with pytest.raises(UsageError, match=re.escape(said)):
        getattr(attrcert, command.replace("-", "_"))(limit=1, **given)


@pytest.mark.parametrize(
    ("command", "given"),
    [
        ("bound", {"attribution": "sg", "sigma": 0.2}),
        ("bound", {"loss_hessian": True, "softplus_beta": "none"}),
        ("bound", {"norm": "linf", "linf_method": "row-sums", "max_hours": 3}),
        ("attack", {"attack": ("random", "cosine"), "steps": 5}),
        ("attack", {"transfer": "us", "radius": 2}),
        ("attack", {"target_map": "frame"}),
    ],
    ids=str,
)
def test_a_setting_with_an_effect_or_its_default_is_taken(command, given):
    own = COMMANDS[command].asked_of_task(given)
    assert task_of(command, own, beside=given).command == command


@pytest.mark.parametrize("name", ["mean", "std", "softplus_beta"])
def test_settings_beside_a_specification_or_a_classifier_count(name):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(36, 5), nn.ReLU(), nn.Linear(5, 3)).eval()
    data = torch.rand(3, 1, 6, 6)
    usual = {"mean": (0.5,), "std": (0.25,), "softplus_beta": 20.0}
    other = {**usual, name: {"mean": (0.1,), "std": (0.5,), "softplus_beta": 3.0}[name]}
    told = {"mean": usual["mean"], "std": usual["std"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = attrcert.bound(network, data, **other)
        classifier = attrcert.Classifier(network, **told, beta=usual["softplus_beta"])
        spec = attrcert.ModelSpec(network, **usual)
        for model in (classifier, spec):
            rows = attrcert.bound(model, data, **{name: other[name]})
            assert [row["T_e"] for row in rows] == [row["T_e"] for row in expected]
            assert [row["T_e"] for row in rows] != [row["T_e"] for row in attrcert.bound(model, data)]


def test_a_folder_of_grey_images_is_read_as_the_model_takes_them(tmp_path):
    for i in range(2):
        noise = np.random.default_rng(i).integers(0, 256, (8, 8), dtype=np.uint8)
        Image.fromarray(noise).save(tmp_path / f"{i}.png")
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Softplus(), nn.Flatten(), nn.Linear(72, 3))
    rows = attrcert.bound(network, str(tmp_path))
    run = attrcert.open_run(network, str(tmp_path), BoundConfig())
    assert [row["status"] for row in rows] == ["ok", "ok"]
    assert [row["T_e"] for batch in run.rows(warn=print) for row in batch] == [row["T_e"] for row in rows]


def test_a_data_loader_stands_for_its_dataset():
    torch.manual_seed(0)
    network, images, labels = softplus_mlp(**ARGS), torch.rand(5, 1, 6, 6), torch.arange(5) % 3
    loader = DataLoader(TensorDataset(images, labels), batch_size=2, shuffle=True)
    assert [row["T_e"] for row in attrcert.bound(network, loader)] == [
        row["T_e"] for row in attrcert.bound(network, (images, labels))
    ]


def test_one_knob_has_one_default():
    assert attrcert.ModelSpec().softplus_beta == 20.0
    assert "[default: 20" in program("bound", "--help-all").shown.split("--softplus-beta")[1].split("--")[0]


def test_the_metrics_of_an_attack_are_told_in_the_order_of_their_columns():  # as manifests of 0.1 have them
    assert attrcert.AttackConfig().attacking.metric[:3] == ("euclidean", "degrees", "cosine")


def test_a_configuration_is_replaced_like_any_dataclass():
    config = BoundConfig(eps=0.2, norm="linf")
    assert replace(config, eps=(0.3,)) == BoundConfig(eps=0.3, norm="linf")
    assert replace(config) == config
    with pytest.raises(UsageError, match="did you mean 'slack'"):
        BoundConfig(slak=0.1)


def test_public_names_are_listed_and_no_others():
    functions = {
        "audit",
        "bound",
        "attack",
        "max_eps",
        "min_radius",
        "score",
        "smooth",
        "doctor",
        "open_run",
        "gate",
        "report",
    }
    families = {"ATTRIBUTIONS", "ATTACKS", "METRICS"}
    values = {"ModelSpec", "DataSpec", "RunOptions", "Classifier", "Rows"}
    rest = set(dir(attrcert)) - functions - families - values
    assert {name for name in rest if not name.endswith(("Config", "Error"))} == set()
    assert {
        f"{name}Config" for name in ("Bound", "Attack", "MaxEps", "Certify", "CertifiedMaxEps", "MinRadius", "Smooth")
    } <= rest


# help


COMPUTING = ("audit", "bound", "attack", "max-eps", "min-radius", "smooth", "doctor")


@pytest.fixture
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERMINAL_WIDTH", "200")


def shown_options(text: str) -> set[str]:
    return {word.split(",")[0] for line in text.splitlines() for word in line.split()[1:2] if word.startswith("--")}


@pytest.mark.parametrize("command", COMPUTING)
def test_help_shows_the_basic_options_and_help_all_the_others(wide, command):
    basic, everything = program(command, "--help"), program(command, "--help-all")
    assert basic.code == everything.code == 0
    few, all_of_them = shown_options(basic.out), shown_options(everything.out)
    assert 5 <= len(few) <= 32
    assert few < all_of_them
    tasks = COMMANDS[command].tasks
    wanted = {
        how.flags[0] if how.flags else options.option(name) for task in tasks for name, how in settings_of(task).items()
    }
    assert wanted <= all_of_them
    assert basic.out.rstrip().splitlines()[-1].strip().startswith(f"Example: attrcert {command}")


@pytest.mark.parametrize("command", [*COMPUTING, "gate", "report", "merge", "catalogue"])
def test_help_names_no_types_of_python_for_flags_and_keeps_brackets(wide, command):
    text = program(command, "--help-all" if command in COMPUTING else "--help").out
    assert "<bool>" not in text
    assert "list[str]" not in text
    assert "--format" not in text or "[table|json" in text or "[html|markdown]" in text
    if command == "gate":
        assert "p95(T_c_deg[eps=0.1])" in text
    if command == "bound":
        assert "[check|tighten|compare|off]" in text
        assert "pixel units [0,1]" in text


def test_paragraphs_flow(wide):
    lines = program("bound", "--help").out.splitlines()
    assert max(len(line.rstrip()) for line in lines if "linearised attribution" in line) > 130


def test_a_shell_completes_options_and_choices():
    code = "from attrcert.cli.app import main; import sys; sys.argv = ['attrcert']; main()"
    for line, expected in (
        ("attrcert bound --norm l", {"l2", "linf", "lp"}),
        ("attrcert attack --attack top", {"top-k"}),
    ):
        words = line.split()
        env = {
            **os.environ,
            "_ATTRCERT_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
        }
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
        assert set(done.stdout.split()) == expected, done.stderr


def test_the_catalogue_lists_every_setting_with_its_commands():
    listed = families()["settings"]
    found = {entry["name"]: entry for entry in listed}
    assert found["--loss-hessian"]["commands"] == "bound"
    sizes = {entry["commands"]: entry["meaning"].split("Default: ")[1] for entry in listed if entry["name"] == "--eps"}
    assert sizes == {"bound, attack, min-radius": "0.1.", "score": "4/255, 8/255, 16/255."}
    assert "Default: 0." in found["--seed"]["meaning"]
    for command in COMMANDS.values():
        for task in command.tasks:
            assert {spelt(name, how) for name, how in settings_of(task).items()} <= set(found)


def test_the_catalogue_has_the_families_that_its_help_names():
    assert tuple(families()) == FAMILIES


@pytest.mark.parametrize("command", ["audit", "bound", "smooth", "gate", "report", "merge"])
def test_no_option_is_cut_in_a_narrow_terminal(monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    text = program(command, "--help-all" if command in COMPUTING else "--help").out
    assert "…" not in text
    for offer in COMMANDS[command].offers:
        for word in (offer.spelt, *offer.how.flags) if not offer.hidden else ():
            assert word in text


def test_a_list_of_the_commands_makes_no_options():
    code = "import sys; from attrcert.cli.app import main; sys.argv = ['attrcert', '--help']; main()"
    watched = f"import atexit, sys; atexit.register(lambda: print('attrcert.settings.commands' in sys.modules)); {code}"
    done = subprocess.run([sys.executable, "-c", watched], capture_output=True, text=True, check=True)
    assert "catalogue" in done.stdout
    assert done.stdout.split()[-1] == "False"


# what is typed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bound", "--limit", "abc"), "error: --limit must be a whole number, got 'abc'"),
        (("bound", "--failure", "x"), "error: --failure must be a number, got 'x'"),
        (("report", "a.csv", "--worst", "0"), "error: --worst must be at least 1, got 0"),
        (("gate", "a.csv", "--min-samples", "x"), "error: --min-samples must be a whole number, got 'x'"),
        (("bound", "--limit", 2, "--limit", 3), "error: --limit is given twice: 2, 3 hint: give it once"),
        (("attack", "--k", 1, "--k", 2, "--k", 1), "error: --k is given 3 times: 1, 2, 1 hint: give it once"),
        (
            ("merge", "a.csv", "-o", "b.csv", "--out", "c.csv"),
            "error: --out is given twice: b.csv, c.csv hint: give it once",
        ),
    ],
    ids=str,
)
def test_a_value_that_cannot_be_meant_is_refused_in_our_words(words, said):
    done = program(*words)
    assert (done.code, done.said) == (2, said)


def test_a_sample_that_is_named_twice_is_taken_once():
    assert attrcert.DataSpec(indices=(2, 0, 2, 1, 0)).indices == (2, 0, 1)
    done = program("bound", "--indices", "2,0,2-3", "--format", "csv", "-q")
    assert [row["index"] for row in done.rows] == ["2", "0", "3"]


def test_no_setting_is_declared_twice_with_another_meaning():
    homes: dict[str, set[str]] = {}
    for command in COMPUTING:
        for part in COMMANDS[command].parts:
            for name, how in declared(part).items():
                homes.setdefault(name, set()).add(how.help)
    assert {name for name, texts in homes.items() if len(texts) > 1} == {"out", "overwrite"}  # of rows, and of maps


# whatever is given


WRONG = [
    ({"arch": "softplus-mlp"}, "arch is for checkpoints"),
    ({"checkpoint": "x"}, "checkpoint is for checkpoints"),
    ({"channels": 3}, "channels is for data that are named"),
    ({"options": attrcert.RunOptions(), "device": "cpu"}, "device is one of the options"),
    ({"batchsize": 3}, "did you mean 'batch_size'"),
    ({"sigma": 0.3}, "--sigma has no effect here: it is for smooth-grad (or add --smooth gaussian)"),
    ({"radius": 2}, "--radius has no effect here: it is for uniform-smooth (or add --smooth uniform)"),
    ({"noise_draws": 3}, "--noise-draws has no effect here: it is for smooth-grad and uniform-smooth"),
    ({"ig_steps": 5}, "--ig-steps has no effect here: it is for integrated-gradients"),
    ({"linf_method": "corollary"}, "--linf-method has no effect here: it is for --norm linf"),
    ({"slack": "x"}, "--slack must be a number, got 'x'"),
    ({"failure": float("nan")}, "--failure must be a number, got nan"),
    ({"ball": "no"}, "--ball must be true or false"),
    ({"margin_classes": 2.5}, "--margin-classes must be a whole number"),
    ({"eps": None, "norm": []}, "--norm must be one of"),
    ({"eps": [None]}, "--eps must have a value"),
    ({"max_input": "much"}, "--max-input must be a size"),
]


@pytest.mark.parametrize(("given", "text"), WRONG, ids=str)
def test_what_cannot_be_meant_is_refused_by_the_library(given, text):
    network, images = softplus_mlp(**ARGS), torch.rand(2, 1, 6, 6)
    with pytest.raises(UsageError) as error:
        attrcert.bound(network, images, **given)
    assert text in str(error.value)


@pytest.mark.parametrize("kind", [attrcert.Classifier, lambda network: network], ids=["classifier", "network"])
def test_numbers_of_numpy_and_torch_and_texts_are_what_they_say(kind):
    torch.manual_seed(0)
    network, images = kind(softplus_mlp(**ARGS)), torch.rand(2, 1, 6, 6)
    usual = attrcert.bound(network, images, eps=0.25, seed=3, target=1)
    other = attrcert.bound(network, images, eps=torch.tensor([0.25]), seed=np.int64(3), target="1")
    text = attrcert.bound(network, images, eps="1/4", seed="3", target=np.int32(1), limit="2")
    assert [row["T_e"] for row in usual] == [row["T_e"] for row in other] == [row["T_e"] for row in text]


def test_the_cap_is_a_setting_of_the_library_too(files):
    model, data = files
    given = {"arch": "softplus-mlp", "arch_args": ARGS, "limit": 1}
    assert attrcert.bound(str(model), str(data), **given, max_input="1GB")[0]["status"] == "ok"


def test_a_preset_is_a_setting_of_the_library_too():
    few = {"steps": 1, "limit": 1, "restarts": 0, "random_draws": 0}
    done = program("attack", "--preset", "wang-kong-l2", *as_words(few), "--format", "csv", "-q")
    rows = attrcert.attack(preset="wang-kong-l2", **few)
    assert [row["eps"] for row in rows] == [float(row["eps"]) for row in done.rows] == [0.1, 0.2, 0.3, 0.4, 0.5]


@pytest.mark.parametrize("name", ["ball", "eta_draws", "label_constraint", "margin_classes"])
def test_max_eps_refuses_what_none_of_its_figures_depends_on(name):
    with pytest.raises(UsageError, match="no figure of max-eps depends on it"):
        attrcert.MaxEpsConfig(max_angle=30, **{name: True})


def test_a_closed_form_refuses_what_it_does_not_use():
    done = program("max-eps", "--smoothgrad-lipschitz", 0.5, "--max-deviation", 0.1, "--proved")
    assert (done.code, "--proved means nothing with --smoothgrad-lipschitz" in done.said) == (2, True)
    done = program("min-radius", "--published", 0.5, "--min-cosine", 0.9, "--samples", 100)
    assert (done.code, "--samples means nothing with --published" in done.said) == (2, True)


def test_doctor_takes_what_it_uses(wide):
    assert shown_options(program("doctor", "--help-all").out) & {"--seed", "--failure", "--batch-size"} == set()
    torch.manual_seed(0)
    images = torch.rand(4, 1, 6, 6)
    findings = attrcert.doctor(softplus_mlp(**ARGS), images, limit=2, dtype="float64")
    assert {finding.check for finding in findings} >= {"outputs"}


def test_a_preset_s_settings_are_not_refused_where_others_are_said():
    task_of("attack", {"attribution": "saliency"}, PRESETS["singh"].settings)


def test_a_run_of_objects_is_not_resumed_with_others(tmp_path):
    def opened(seed, images):
        torch.manual_seed(seed)
        return attrcert.open_run(softplus_mlp(**ARGS), images, BoundConfig())

    images = torch.rand(3, 1, 6, 6)
    run = opened(0, images)
    with run.file(tmp_path / "b.csv") as file:
        file.append(next(run.rows(warn=print)))
        file.write_manifest(run.environment())
    with opened(0, images.clone()).file(tmp_path / "b.csv", resume=True) as file:
        assert len(file.finished) == 3
    for other in (opened(1, images), opened(0, images.flip(0)), opened(0, images[:2])):
        with pytest.raises(AttrcertError, match="another run"):
            other.file(tmp_path / "b.csv", resume=True)


@pytest.mark.parametrize(
    ("text", "value"), [("0.5/255", 0.5 / 255), ("8 / 255", 8 / 255), ("1e-3", 1e-3), ("1/0.5", 2.0), ("-3/4", -0.75)]
)
def test_numbers_may_be_fractions_of_decimals(text: str, value: float) -> None:
    assert parse_number(text) == value


@pytest.mark.parametrize("text", ["8/", "/255", "1/2/4", "1/0", "a/b", "", "1e999/2"])
def test_what_is_no_number_is_said(text: str) -> None:
    with pytest.raises(UsageError, match=r"--eps must be a number or a fraction such as 8/255, got"):
        parse_number(text, "--eps")
