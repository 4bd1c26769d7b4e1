"""The command line: data on stdout, talk on stderr, the verdict in the exit code, and runs that survive being killed."""

import csv
import io
import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from reference.reading import read_rows
from safetensors.torch import save_file

from attrcert.attributions import ATTRIBUTIONS
from attrcert.cli.app import main
from attrcert.columns import COLUMNS
from attrcert.errors import UNEXPECTED
from attrcert.loading.architectures import build, softplus_cnn
from attrcert.networks.classifier import Classifier
from attrcert.running.checks.data import accuracy
from attrcert.running.evaluating.bounding import Bounds

ARGS = {"channels": 1, "size": 8, "classes": 3, "width": 2, "hidden": 4}
ARCHS = """
    import os, time
    import torch
    from torch import nn
    from torch.nn import functional as F

    def dense(*last):
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 6), *last, nn.Linear(6, 3))

    def smooth():
        return dense(nn.Softplus())

    def relu():
        return dense(nn.ReLU(inplace=True))

    def coupled():
        net = dense()
        net.insert(2, nn.BatchNorm1d(6, affine=False, track_running_stats=False))
        net.insert(3, nn.Softplus())
        return net

    def coupled_conv():
        torch.manual_seed(0)
        norm = nn.BatchNorm2d(2, affine=False, track_running_stats=False)
        return nn.Sequential(nn.Conv2d(1, 2, 3), norm, nn.Softplus(), nn.Flatten(), nn.Linear(72, 3))

    class Dropping(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = smooth()
        def forward(self, x):
            return F.dropout(self.net(x), 0.5)  # forgets training=self.training

    class Picky(Dropping):
        def forward(self, x):
            return self.net(x) + x.flatten(1).sum(1, keepdim=True).log()  # -inf for a black image

    class Pooled(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.conv, self.pool, self.head = nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.Linear(18, 3)
        def forward(self, x):
            return self.head(F.softplus(self.pool(self.conv(x))).flatten(1))

    class Single(Dropping):
        def forward(self, x):
            return self.net(x)[:, :1]

    class Pair(Dropping):
        def forward(self, x):
            return self.net(x), x.flatten(1)

    class Slow(Dropping):
        def forward(self, x):
            time.sleep(float(os.environ.get("SECONDS_PER_PASS", "0")))
            return self.net(x)
"""


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(self.out)))


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    """A folder with a small model, its data, and architectures of all kinds with their weights."""
    folder = tmp_path_factory.mktemp("work")
    torch.manual_seed(0)
    metadata = {"attrcert.arch": "softplus-cnn", "attrcert.arch_args": json.dumps(ARGS)}
    save_file(softplus_cnn(**ARGS).state_dict(), folder / "tiny.safetensors", metadata)
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (20, 8, 8), dtype=np.uint8), np.arange(20) % 3
    np.savez(folder / "data.npz", images=images, labels=labels)
    (folder / "archs.py").write_text(textwrap.dedent(ARCHS))
    for name in ("smooth", "relu", "coupled", "coupled_conv", "Dropping", "Picky", "Pooled", "Single", "Pair", "Slow"):
        network = build(f"{folder}/archs.py:{name}", {})
        torch.save(network.state_dict(), folder / f"{name}.pt")
    return folder


@pytest.fixture
def attrcert(monkeypatch, capsys) -> Callable[..., Done]:
    """Runs a command in this process."""

    def run(*words) -> Done:
        monkeypatch.setattr(sys, "argv", ["attrcert", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Done(ended.value.code or 0, captured.out, captured.err)

    return run


@pytest.fixture
def bound(attrcert, work) -> Callable[..., Done]:
    """`attrcert bound` of the small model, rows on stdout."""

    def run(*words, data: Path | str = work / "data.npz", quiet: bool = True) -> Done:
        shape = () if "--format" in words else ("--format", "csv")
        return attrcert("bound", work / "tiny.safetensors", data, *shape, *["--quiet"][: int(quiet)], *words)

    return run


@pytest.fixture
def bound_of(attrcert, work) -> Callable[..., Done]:
    """`attrcert bound` of one of the architectures of the user's file."""

    def run(name: str, *words, data: Path | str = work / "data.npz") -> Done:
        arch = ("--arch", f"{work}/archs.py:{name}")
        return attrcert("bound", work / f"{name}.pt", data, *arch, "--format", "csv", *words)

    return run


def spoiled(work: Path, tmp_path: Path, places: dict[int, float], name: str = "spoiled.npz") -> Path:
    """The data as floats, with a value in one pixel of some samples."""
    with np.load(work / "data.npz") as arrays:
        images, labels = arrays["images"] / 255, arrays["labels"]
    for index, value in places.items():
        images[index, 3, 3] = value
    np.savez(tmp_path / name, images=images, labels=labels)
    return tmp_path / name


def without_seconds(path: Path) -> list[dict]:
    return [{**row, "seconds": None} for row in read_rows(path, COLUMNS["bound"])]


# start-up and help


def test_help_answers_in_half_a_second_without_importing_torch():
    program = textwrap.dedent("""
        import sys
        sys.argv = ["attrcert", "bound", "--help"]
        from attrcert.cli.app import main
        try:
            main()
        finally:
            print("torch" in sys.modules, "torchvision" in sys.modules, file=sys.stderr)
    """)
    seconds = []
    for _ in range(3):
        before = os.times()
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
        after = os.times()
        seconds.append(after.children_user + after.children_system - before.children_user - before.children_system)
        assert done.returncode == 0
        assert "--proved" in done.stdout
        assert done.stderr.split() == ["False", "False"]
    assert min(seconds) < 0.5  # processor time, the least of three: other processes share the machine


def test_the_commands_are_listed(attrcert):
    done = attrcert("--help")
    assert done.code == 0
    assert all(command in done.out for command in ("bound", "doctor", "catalogue"))


def test_the_version_is_told(attrcert):
    assert re.fullmatch(r"attrcert \d+\.\d+\.\d+(\.dev\d+)?\n", attrcert("--version").out)


def test_the_help_says_that_an_architecture_runs_code_and_that_figures_are_estimates(attrcert):
    text = " ".join(re.sub(r"[│╭╰─╮╯]", " ", attrcert("bound", "--help").out).split())
    assert "run that code" in text
    assert "attacks can exceed" in text


# results on stdout


def test_the_bundled_default_needs_no_argument_but_a_limit(attrcert):
    done = attrcert("bound", "--limit", 3, "--format", "csv")
    assert done.code == 0, done.err
    assert [row["index"] for row in done.rows] == ["0", "1", "2"]
    assert {row["status"] for row in done.rows} <= {"ok", "vacuous"}
    assert all(0 < float(row["xi_lower"]) <= float(row["xi_upper"]) for row in done.rows)


def test_csv_on_stdout_has_every_column_and_nothing_else(bound):
    done = bound("--eps", "8/255", "--eps", "0.1", quiet=False)
    assert done.code == 0
    assert list(done.rows[0]) == [column.name for column in COLUMNS["bound"]]
    assert len(done.rows) == 40
    assert [float(row["eps"]) for row in done.rows[:2]] == [8 / 255, 0.1]
    assert done.out.count("\n") == 41
    assert "bounding" in done.err


@pytest.mark.parametrize("words", [["--json"], ["--format", "json"]])
def test_json_on_stdout_is_strict_json_with_the_same_rows(attrcert, bound, work, words):
    done = attrcert("bound", work / "tiny.safetensors", work / "data.npz", *words)
    found = json.loads(done.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert found["summary"]["per_eps"][0]["samples"] == 20
    assert found["identity"]["attribution"] == "saliency"
    theirs = bound().rows
    assert [str(row["T_e"]) for row in found["rows"]] == [row["T_e"] for row in theirs]


def test_the_markdown_table_has_equally_many_cells_in_every_line(attrcert, work):
    out = attrcert("bound", work / "tiny.safetensors", work / "data.npz", "--format", "markdown").out
    lines = [line for line in out.splitlines() if line.startswith("|")]
    assert len(lines) >= 5
    assert len({line.count("|") for line in lines}) == 1


@pytest.mark.parametrize("format_", ["table", "markdown"])
@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_every_text_calls_the_figures_first_order_estimates(attrcert, work, format_, norm):
    words = ("--norm", norm, "--format", format_)
    out = " ".join(attrcert("bound", work / "tiny.safetensors", work / "data.npz", *words).out.split())
    assert "first-order" in out
    assert "estimate" in out
    assert "certified" not in out
    assert "20 samples" in out


def test_kinks_stand_in_the_table_also_where_nothing_else_is_said(attrcert, work):
    arch = ("--arch", f"{work}/archs.py:Pooled")
    done = attrcert("bound", work / "Pooled.pt", work / "data.npz", *arch, "--limit", 2, "--quiet")
    assert "kinks: max-pooling" in " ".join(done.out.split())


def test_quiet_leaves_stderr_empty(bound, bound_of):
    assert bound().err == ""
    done = bound_of("Pooled")
    assert "max-pooling" in done.err
    assert bound_of("Pooled", "--quiet").err == ""


# rows

COMMON = {
    "index",
    "label",
    "predicted",
    "target",
    "correct",
    "status",
    "guarantee",
    "attribution",
    "norm",
    "eps",
    "g_norm",
}
MEASURED = {"T_e", "T_e_attained", "c", "T_e_corrected", "T_c_deg", "T_c_corrected_deg", "eta", "eta_random", "failure"}
LABEL = {"margin_radius", "margin_classes", "label_kept", "label_kept_linearised"}
SOLVER = {"solver_status", "steps", "residual"}
XI = {"xi_lower", "xi_upper"}
FOLLOWING = {
    f"{name}{of}" for name in ("top_k_bound", "pearson_bound", "mass_centre_bound") for of in ("", "_corrected")
}
EVERY = COMMON | MEASURED | FOLLOWING | {"seconds", "seed"}
LINF = {"linf_method", "linf_lower"}


@pytest.mark.parametrize(
    ("words", "filled", "norm", "attribution"),
    [
        ([], EVERY | LABEL | SOLVER | XI, "l2", "saliency"),
        (["--norm", "lp", "--p", "4"], EVERY | LABEL | SOLVER | XI, "l4", "saliency"),
        (["--attribution", "ixg"], EVERY | LABEL | SOLVER | XI, "l2", "input-x-gradient"),
        (
            ["--attribution", "ig", "--ig-steps", "5"],
            EVERY | LABEL | SOLVER | XI | {"completeness_gap"},
            "l2",
            "integrated-gradients(steps=5, quadrature=gauss-legendre, baseline=0)",
        ),
        (["--norm", "linf"], EVERY | LABEL | SOLVER | LINF | {"T_e_scaled"}, "linf", "saliency"),
        (
            ["--norm", "linf", "--linf-method", "scaled,row-sums,corollary"],
            EVERY | LABEL | LINF | {"T_e_scaled", "T_e_rowsums", "T_e_corollary"},
            "linf",
            "saliency",
        ),
        (["--norm", "linf", "--linf-method", "row-sums"], EVERY | LABEL | LINF | {"T_e_rowsums"}, "linf", "saliency"),
        (["--label-constraint", "off"], EVERY | SOLVER | XI, "l2", "saliency"),
    ],
    ids=["l2", "lp", "ixg", "ig", "linf", "linf by three", "linf by row sums", "without label"],
)
def test_every_cell_that_applies_is_filled_and_no_other(bound, words, filled, norm, attribution):
    done = bound(*words, "--eps", "1e-4", "--limit", 5)
    assert done.code == 0, done.err
    optional = SOLVER if "row-sums" in " ".join(words) else set()  # only where an iteration gave the smallest bound
    for row in done.rows:
        found = {name for name, cell in row.items() if cell}
        assert found - optional == filled - optional
        assert (row["norm"], row["attribution"], row["guarantee"]) == (norm, attribution, "first-order")


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_the_label_constrained_bound_stands_where_both_signs_lose_the_label(bound, norm):
    # hardly trained weights: it takes a perturbation far beyond any image to lose the label
    rows = bound("--label-constraint", "tighten", "--eps", "1000", "--eps", "1e-4", "--norm", norm).rows
    lost = [row for row in rows if row["label_kept_linearised"] == "none"]
    assert lost
    assert all(0 < float(row["T_e_label"]) <= float(row["T_e"]) for row in lost)
    assert all(row["T_e_label"] == "" for row in rows if row["label_kept_linearised"] != "none")


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("eps", ["1e-30", "300", "1e30"])
def test_no_cell_is_ever_nan_or_infinite(bound, norm, eps):
    done = bound("--eps", eps, "--norm", norm)
    assert done.code == 0, done.err
    kinds = {column.name: column.kind for column in COLUMNS["bound"]}
    cells = [(name, cell) for row in done.rows for name, cell in row.items() if cell and kinds[name] is float]
    assert [(name, cell) for name, cell in cells if not math.isfinite(float(cell))] == []


def test_a_bound_beyond_the_gradients_length_is_vacuous_and_has_no_angle(bound):
    rows = bound("--eps", "300").rows
    assert {row["status"] for row in rows} == {"vacuous"}
    assert {row["T_c_deg"] for row in rows} == {""}
    assert all(float(row["T_e"]) >= float(row["g_norm"]) for row in rows)


def test_misclassified_samples_are_kept_and_marked(bound):
    rows = bound("--eps", "1e-4").rows
    wrong = [row for row in rows if row["label"] != row["predicted"]]
    assert 0 < len(wrong) < 20
    assert all((row["correct"] == "False") == (row["label"] != row["predicted"]) for row in rows)


def test_a_vacuous_row_does_not_hide_that_its_sample_is_misclassified(bound):
    rows = bound("--eps", "1e4").rows
    assert {row["status"] for row in rows} == {"vacuous"}
    assert {row["correct"] for row in rows} == {"True", "False"}
    wrong = sum(row["correct"] == "False" for row in rows)
    assert f"20 vacuous; {wrong} misclassified" in " ".join(bound("--eps", "1e4", "--format", "table").out.split())


@pytest.mark.parametrize(("target", "column"), [("label", "label"), ("predicted", "predicted")])
def test_the_target_is_the_asked_class(bound, target, column):
    assert all(row["target"] == row[column] for row in bound("--target", target).rows)
    assert {row["target"] for row in bound("--target", "2").rows} == {"2"}


FIGURES = [column.name for column in COLUMNS["bound"] if column.kind is float and column.name != "seconds"]


def assert_same_rows(first: list[dict[str, str]], second: list[dict[str, str]], rel: float = 1e-5) -> None:
    """Equal words and counts, figures to `rel`, relative; differences of nearly equal numbers to `rel` of what they are of."""
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        assert {k: v for k, v in a.items() if k not in (*FIGURES, "seconds")} == {
            k: v for k, v in b.items() if k not in (*FIGURES, "seconds")
        }
        scales = {"eta": "g_norm", "eta_random": "g_norm", "completeness_gap": "g_norm", "residual": "xi_upper"}
        for name in FIGURES:
            assert (a[name] == "") == (b[name] == "")
            if a[name]:
                scale = float(a[scales[name]] or 1) if name in scales else 0.0
                assert float(a[name]) == pytest.approx(float(b[name]), rel=rel, abs=rel * scale), name


# the last Lanczos coefficients of this network's scaled Jacobian, which is nearly singular, magnify rounding ten thousand times (with
# four passes over the basis as with one): in float32 its upper end moves by 1e-5 and more, within the 1e-4 that bounds allow for it
@pytest.mark.parametrize(
    ("words", "single"),
    [([], 1e-5), (["--norm", "linf"], 1e-4), (["--attribution", "ig", "--ig-steps", "6"], 1e-5)],
    ids=["l2", "linf", "ig"],
)
def test_results_do_not_depend_on_the_batch_size(bound, words, single):
    words = (*words, "--limit", 10)
    for dtype, rel in (("float64", 1e-9), ("float32", single)):
        whole = bound("--batch-size", 64, "--dtype", dtype, *words).rows
        assert_same_rows(bound("--batch-size", 7, "--dtype", dtype, *words).rows, whole, rel)
        assert_same_rows(bound("--batch-size", 1, "--dtype", dtype, *words).rows, whole, rel)


def test_results_of_the_bundled_model_do_not_depend_on_the_batch_size(attrcert):
    one, seven = (
        attrcert("bound", "--limit", 9, "--batch-size", size, "--format", "csv", "--quiet").rows for size in (1, 7)
    )
    assert_same_rows(one, seven)


def test_a_run_in_parts_equals_the_whole(bound):
    whole = bound().rows
    parts = [bound("--skip", skip, "--limit", 8).rows for skip in (0, 8, 16)]
    assert_same_rows([row for part in parts for row in part], whole)
    assert_same_rows(bound("--indices", "17,3-5").rows, [whole[i] for i in (17, 3, 4, 5)])


def test_ig_chunks_do_not_change_the_result(bound):
    words = ("--attribution", "ig", "--ig-steps", 6, "--limit", 4)
    assert_same_rows(bound(*words, "--ig-chunk", 1).rows, bound(*words, "--ig-chunk", 64).rows)


def test_another_seed_changes_the_draws_and_not_the_enclosed_value(bound):
    first, second = bound().rows, bound("--seed", 1).rows
    assert [row["eta_random"] for row in first] != [row["eta_random"] for row in second]
    for a, b in zip(first, second, strict=True):
        assert float(a["xi_lower"]) <= float(b["xi_upper"])
        assert float(b["xi_lower"]) <= float(a["xi_upper"])


# wrong usage: exit 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--eps", "-1"], "positive"),
        (["--eps", "0"], "positive"),
        (["--eps", "abc"], "8/255"),
        (["--eps", "nan"], "8/255"),
        (["--eps", "1/0"], "8/255"),
        (["--eps", "1e400"], "eps|number"),
        (["--eps", "0.1", "--eps", "1/10"], "once"),
        (["--eps", ","], "at least one eps"),
        (["--norm", "l3"], "l2, linf, lp"),
        (["--norm", "lp"], "--p 4"),
        (["--norm", "lp", "--p", "0.5"], "at least 1"),
        (["--norm", "lp", "--p", "inf"], "linf"),
        (["--norm", "l2", "--p", "3"], "lp only"),
        (["--attribution", "salency"], "did you mean 'saliency'"),
        (["--dtype", "float16"], "float32, float64"),
        (["--slack", "1e-9"], "float64"),
        (["--failure", "2"], "from 1e-100 to below 1, got 2"),
        (["--failure", "1e-101"], "from 1e-100 to below 1, got 1e-101"),
        (["--memory", "lots"], "4GB"),
        (["--memory", "1.2.3GB"], "4GB"),
        (["--memory", "0"], "4GB"),
        (["--batch-size", "0"], "at least 1"),
        (["--batch-size", "many"], "at least 1"),
        (["--batch-size", "²"], "at least 1"),
        (["--target", "3"], "below 3"),
        (["--target", "cat"], "class number"),
        (["--target", "99"], "--target must be below"),
        (["--memory", "4"], "--memory must be a size"),
        (["--target", "²"], "class number"),
        (["--max-steps", "0"], "at least 1"),
        (["--linf-method", "rows", "--norm", "linf"], "row-sums"),
        (["--label-constraint", "always"], "tighten"),
        (["--quadrature", "simpson", "--attribution", "ig"], "gauss-legendre"),
        (["--baseline", "grey", "--attribution", "ig"], "number"),
        (["--baseline", "mean", "--attribution", "ig"], "--mean"),
        (["--loss-hessian", "--attribution", "ig"], "loss"),
        (["--softplus-beta", "-1"], "positive"),
        (["--softplus-beta", "soft"], "must be none, a number"),
        (["--mean", "0.5"], "mean and std"),
        (["--mean", "a,b", "--std", "1,1"], "0.49"),
        (["--arch-arg", "width"], "key=value"),
        (["--format", "xml"], "table, json, csv, markdown"),
        (["--json", "--format", "csv"], "--json and --format csv exclude each other"),
        (["--norm", "l3"], r"did you mean 'l[2p]'\?"),
        (["--norm", "lp"], "--norm lp needs a finite --p of at least 1, none was given"),
        (["--resume"], "--out"),
        (["--limit", "0"], "limit"),
        (["--skip", "20"], "no sample is left"),
        (["--indices", "3,20"], "--indices must be below 20"),
        (["--indices", "5-3"], "100-199"),
        (["--indices", "²"], "100-199"),
        (["--indices", "1", "--limit", "1"], "--indices excludes --skip and --limit"),
        (["--device", "tpu9"], "tpu9"),
        (["--seed", "-1"], "seed"),
        (["--max-incomplete", "2"], "max-incomplete"),
        (["--no-such-option"], "no-such-option"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_exits_2_and_says_what_must_hold(bound, words, said):
    done = bound(*words)
    assert done.code == 2
    assert re.search(said, done.err), done.err
    assert done.out == ""
    assert "Traceback" not in done.err


def test_an_unknown_bundled_model_or_sample_exits_2_with_a_suggestion(attrcert):
    for words, near in ((["fashion-natual"], "fashion-natural"), (["fashion-natural", "fashion-tset"], "fashion-test")):
        done = attrcert("bound", *words)
        assert done.code == 2
        assert f"did you mean '{near}'" in done.err


@pytest.mark.parametrize("eps", ["300", "8/255", "1e-12"])
def test_every_positive_eps_is_allowed(bound, eps):
    assert bound("--eps", eps, "--limit", 2).code == 0


# models and data that cannot be used: exit 3


def assert_refused(done: Done, said: str) -> None:
    assert done.code == 3
    assert re.search(said, done.err), done.err
    assert done.out == ""


def test_a_checkpoint_that_is_not_there_exits_3(attrcert, work):
    assert_refused(attrcert("bound", work / "gone.pt", "--arch", "softplus-cnn"), r"no checkpoint file.*gone\.pt")


def test_data_that_are_not_there_exit_3(bound, work):
    assert_refused(bound(data=work / "gone.npz"), r"no data file.*gone\.npz")


def test_a_checkpoint_of_another_architecture_exits_3(bound):
    assert_refused(bound("--arch-arg", "width=3"), "does not fit the architecture")


@pytest.mark.parametrize("shape", [(4, 8, 8, 3), (4, 3, 8, 8), (4, 12, 12), (4, 5, 8)])
def test_images_of_another_shape_than_the_models_exit_3(bound, tmp_path, shape):
    np.savez(tmp_path / "other.npz", images=np.zeros(shape, dtype=np.uint8))
    assert_refused(bound(data=tmp_path / "other.npz"), "rejects images of shape")


@pytest.mark.parametrize("label", [3, -1, 255])
def test_labels_out_of_range_exit_3(bound, tmp_path, label):
    np.savez(tmp_path / "other.npz", images=np.full((4, 8, 8), 9, dtype=np.uint8), labels=np.array([0, 1, label, 2]))
    assert_refused(bound(data=tmp_path / "other.npz"), f"labels must be .*{label}")


def test_data_without_one_usable_sample_exit_3(bound, work, tmp_path):
    bad = spoiled(work, tmp_path, dict.fromkeys(range(20), float("nan")))
    assert_refused(bound(data=bad), "none of the 20 images can be used.*finite")


@pytest.mark.parametrize(("name", "module"), [("coupled_conv", "1"), ("coupled", "2")])
def test_a_model_that_mixes_samples_is_refused_by_the_modules_name(bound_of, name, module):
    """Batch norm without running statistics: over maps, and over vectors, where it rejects a sample alone."""
    assert_refused(bound_of(name), rf"batch coupling: {module} mixes the samples")


def test_a_model_that_draws_random_numbers_is_refused(bound_of):
    assert_refused(bound_of("Dropping"), r"determinism: two passes differ(?s:.*)random numbers")


def test_a_model_with_one_logit_is_refused(bound_of):
    assert_refused(bound_of("Single"), "at least 2 classes")


def test_a_model_with_two_outputs_is_refused_until_one_is_picked(bound_of):
    assert_refused(bound_of("Pair"), "--output 0")
    assert bound_of("Pair", "--output", "0").code == 0


def test_a_relu_network_as_it_is_is_refused_with_two_ways_out(bound_of):
    done = bound_of("relu", "--softplus-beta", "none")
    assert_refused(done, "Hessian is zero")
    assert "--softplus-beta 20" in done.err
    assert "--loss-hessian" in done.err


@pytest.mark.parametrize("beta", ["none", "20"])
def test_the_loss_hessian_bounds_a_relu_network_without_softplus(bound_of, beta):
    done = bound_of("relu", "--loss-hessian", "--softplus-beta", beta, "--quiet")
    assert done.code == 0, done.err
    assert {row["attribution"] for row in done.rows} == {"loss-gradient"}
    assert all(float(row["T_e"]) > 0 for row in done.rows)


@pytest.mark.parametrize(("beta", "code"), [("inf", 2), ("1e30", 3)])
def test_a_beta_that_turns_softplus_back_into_a_relu_is_refused(bound_of, beta, code):
    assert bound_of("relu", "--softplus-beta", beta).code == code


def test_a_relu_network_runs_as_softplus_and_the_summary_says_so(attrcert, work):
    arch = ("--arch", f"{work}/archs.py:relu")
    done = attrcert("bound", work / "relu.pt", work / "data.npz", *arch, "--softplus-beta", "9", "--quiet")
    assert done.code == 0
    assert "ReLUs run as softplus, beta 9" in done.out


# incomplete runs: exit 4


def test_one_bad_sample_is_an_error_row_and_the_others_are_bounded(bound, work, tmp_path):
    done = bound(data=spoiled(work, tmp_path, {1: float("nan")}))
    assert done.code == 4
    assert "1 of 20 samples have no figure" in done.err
    bad = done.rows[1]
    assert (bad["index"], bad["status"], bad["T_e"]) == ("1", "error:non-finite", "")
    assert "finite" in bad["message"]
    good = [row for row in done.rows if row["index"] != "1"]
    assert len(good) == 19
    assert all(row["T_e"] for row in good)
    assert bound("--max-incomplete", "0.5", data=tmp_path / "spoiled.npz").code == 0


def test_the_first_sample_may_be_the_bad_one(bound, work, tmp_path):
    done = bound(data=spoiled(work, tmp_path, {0: 7.0}))
    assert done.code == 4
    assert [row["status"] for row in done.rows].index("error:range") == 0


def test_a_bad_sample_does_not_change_the_others_rows(bound, work, tmp_path):
    clean = bound(data=spoiled(work, tmp_path, {}, "clean.npz")).rows
    rows = bound(data=spoiled(work, tmp_path, {6: float("inf")})).rows
    assert_same_rows([row for row in rows if row["index"] != "6"], [row for row in clean if row["index"] != "6"])


def test_max_incomplete_is_a_share(bound, work, tmp_path):
    data = spoiled(work, tmp_path, dict.fromkeys((2, 4, 8), float("nan")))
    assert bound("--max-incomplete", "0.14", data=data).code == 4
    assert bound("--max-incomplete", "0.15", data=data).code == 0


@pytest.mark.parametrize("black", [1, 12])
def test_an_output_that_is_not_finite_is_its_samples_error(bound_of, work, tmp_path, black):
    with np.load(work / "data.npz") as arrays:
        images, labels = arrays["images"].copy(), arrays["labels"]
    images[black] = 0
    np.savez(tmp_path / "black.npz", images=images, labels=labels)
    done = bound_of("Picky", data=tmp_path / "black.npz")
    assert done.code == 4, done.err
    assert [row["index"] for row in done.rows if row["status"] == "error:non-finite-output"] == [str(black)]
    assert len(done.rows) == 20


def test_a_sample_of_another_size_is_its_own_error(attrcert, work, tmp_path):
    from PIL import Image

    for i in range(3):
        Image.fromarray(np.full((8 + (i == 1), 8), 50 * i, dtype=np.uint8)).save(tmp_path / f"{i}.png")
    done = attrcert("bound", work / "tiny.safetensors", tmp_path, "--format", "csv", "--quiet")
    assert done.code == 4
    assert [row["status"] for row in done.rows] == ["ok", "error:shape", "ok"]
    assert "--resize" in done.rows[1]["message"]


def test_targets_by_label_need_labels(attrcert, work, tmp_path):
    with np.load(work / "data.npz") as arrays:
        np.savez(tmp_path / "bare.npz", images=arrays["images"][:4])
    done = attrcert("bound", work / "tiny.safetensors", tmp_path / "bare.npz", "--target", "label", "--format", "csv")
    assert done.code == 4
    assert [row["status"] for row in done.rows] == ["error:label"] * 4


def test_too_few_steps_are_not_converged_and_incomplete(bound):
    done = bound("--max-steps", "1")
    assert done.code == 4
    assert {row["status"] for row in done.rows} == {"not-converged"}
    assert {row["solver_status"] for row in done.rows} == {"step-limit"}
    exact = bound("--dtype", "float64", "--slack", "1e-6").rows
    assert all(float(a["xi_upper"]) >= float(b["xi_lower"]) for a, b in zip(done.rows, exact, strict=True))


# memory


def out_of_memory_above(most: int, raised: Callable[[], None]) -> Callable:
    real = Bounds.explain

    def limited(self, classifier, batch, logits):
        if len(batch.indices) > most:
            raised()
        return real(self, classifier, batch, logits)

    return limited


def raise_cuda_error() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")


def allocate_too_much() -> None:
    torch.empty(10**15)


@pytest.mark.parametrize("raised", [raise_cuda_error, allocate_too_much], ids=["cuda", "cpu"])
def test_a_batch_that_does_not_fit_is_halved_and_the_result_stays(bound, monkeypatch, raised):
    whole = bound().rows
    monkeypatch.setattr(Bounds, "explain", out_of_memory_above(3, raised))
    done = bound(quiet=False)
    assert done.code == 0, done.err
    assert "out of memory with 20 samples at once; going on with 10" in " ".join(done.err.split())
    assert_same_rows(done.rows, whole)


def test_quiet_is_quiet_about_memory_too(bound, monkeypatch):
    monkeypatch.setattr(Bounds, "explain", out_of_memory_above(3, raise_cuda_error))
    assert bound().err == ""


def test_a_sample_that_does_not_fit_alone_is_an_error_row(bound, monkeypatch):
    monkeypatch.setattr(Bounds, "explain", out_of_memory_above(0, raise_cuda_error))
    done = bound("--limit", 3)
    assert done.code == 4
    assert [row["status"] for row in done.rows] == ["error:memory"] * 3


def test_an_error_that_is_not_about_memory_is_not_hidden(bound, monkeypatch):
    def broken() -> None:
        raise RuntimeError("a mistake of our own")

    monkeypatch.setattr(Bounds, "explain", out_of_memory_above(0, broken))
    done = bound("--traceback")
    assert done.code == UNEXPECTED
    assert "RuntimeError: a mistake of our own" in done.err


def test_little_memory_makes_small_batches_and_the_same_rows(bound, tmp_path):
    whole = bound()
    little = bound("--memory", "60KB", "--out", tmp_path / "out.csv")
    assert json.loads((tmp_path / "out.csv.json").read_text())["batch_size"] < 20
    assert_same_rows(little.rows, whole.rows)


# files


def test_out_holds_the_rows_of_stdout_and_a_manifest_that_tells_the_run(bound, work, tmp_path):
    out = tmp_path / "out.csv"
    done = bound("--out", out, "--eps", "0.1,8/255", "--seed", 5)
    assert out.read_text() == done.out
    manifest = json.loads((tmp_path / "out.csv.json").read_text())
    assert (manifest["schema"], manifest["command"], manifest["state"]) == (5, "bound", "complete")
    assert (manifest["rows"], sum(manifest["status"].values())) == (40, 40)
    assert manifest["device"] in ("cpu", "cuda")
    assert {"python", "torch", "torchvision", "numpy", "scipy", "attrcert"} <= set(manifest["versions"])
    assert manifest["started"] <= manifest["ended"]
    identity = manifest["identity"]
    assert (identity["seed"], identity["dtype"], identity["eps"]) == (5, "float32", [0.1, 8 / 255])
    assert identity["checkpoint"] == str(work / "tiny.safetensors")
    assert len(identity["checkpoint_sha256"]) == len(identity["dataset_sha256"]) == 64


def test_the_manifest_tells_the_softplus_twins_fidelity(bound_of, tmp_path):
    assert bound_of("relu", "--out", tmp_path / "out.csv", "--quiet").code == 0
    manifest = json.loads((tmp_path / "out.csv.json").read_text())
    assert manifest["identity"]["softplus_beta"] == 20
    assert len(manifest["identity"]["arch_sha256"]) == 64
    assert 0 <= manifest["fidelity"]["agreement"] <= 1


def test_an_existing_file_is_not_touched_unasked(bound, tmp_path):
    out = tmp_path / "out.csv"
    bound("--out", out, "--limit", 2)
    before = out.read_text()
    done = bound("--out", out, "--limit", 2)
    assert done.code == 2
    assert "--resume" in done.err
    assert out.read_text() == before
    assert bound("--out", out, "--limit", 3, "--overwrite").code == 0
    assert len(out.read_text().splitlines()) == 4


def test_resuming_another_run_names_what_differs(bound, tmp_path):
    out = tmp_path / "out.csv"
    bound("--out", out, "--limit", 2)
    done = bound("--out", out, "--limit", 2, "--seed", 3, "--resume")
    assert done.code == 2
    assert "seed was 0 and is 3" in done.err


def test_resuming_a_finished_run_computes_nothing_and_shows_it(bound, tmp_path, monkeypatch):
    out = tmp_path / "out.csv"
    first = bound("--out", out)
    monkeypatch.setattr(Bounds, "explain", lambda *_: pytest.fail("computed again"))
    again = bound("--out", out, "--resume")
    assert again.code == 0
    assert again.out == first.out


def test_a_resumed_run_keeps_the_batch_size_of_the_first(bound, tmp_path):
    out = tmp_path / "out.csv"
    whole = bound("--out", out, "--batch-size", 4).rows
    lines = out.read_text().splitlines(keepends=True)
    out.write_text("".join(lines[:7]))
    assert bound("--out", out, "--batch-size", 9, "--resume").code == 0
    strip = [{**row, "seconds": ""} for row in csv.DictReader(out.open())]
    assert strip == [{**row, "seconds": ""} for row in whole]


def test_sizes_that_a_resumed_run_does_not_take_are_told(attrcert, tmp_path):
    words = ("bound", "--limit", 2, "--out", tmp_path / "out.csv")
    assert attrcert(*words, "--batch-size", 1, "--chunk", 2).code == 0
    other = attrcert(*words, "--batch-size", 9, "--chunk", 5, "--resume")
    assert "--batch-size 9 is not used: the run began with 1, and goes on with that" in other.err
    assert "--chunk 5 is not used: the run began with 2, and goes on with that" in other.err
    assert "is not used" not in attrcert(*words, "--batch-size", 1, "--resume").err


def test_a_run_that_was_too_large_goes_on_with_less(attrcert, tmp_path):
    out = tmp_path / "out.csv"
    words = ("bound", "--limit", 6, "--attribution", "ig", "--ig-steps", 4, "--dtype", "float64", "--out", out)
    assert attrcert(*words, "--batch-size", 3).code == 0
    manifest = Path(f"{out}.json")
    whole, told = out.read_text().splitlines(keepends=True), manifest.read_text()
    for less, said in (
        (("--batch-size", 1), "--batch-size: the run began with 3 and goes on with 1"),
        (("--chunk", 2), "and goes on with 2"),
        (("--memory", "400KB"), "--batch-size: the run began with 3 and goes on with 1"),
    ):
        out.write_text("".join(whole[:4]))
        manifest.write_text(told)
        resumed = attrcert(*words, *less, "--resume")
        assert resumed.code == 0, resumed.err
        assert said in " ".join(resumed.err.split())
        assert "is not used" not in resumed.err
        rows = list(csv.DictReader(out.open()))
        for row, first in zip(rows, csv.DictReader(whole), strict=True):
            assert float(row["T_e"]) == pytest.approx(float(first["T_e"]), rel=1e-9)


# killed runs

BATCH, SAMPLES = 4, 20


@pytest.fixture
def slow_run(work, tmp_path) -> Iterator[Callable[[], tuple[subprocess.Popen, list[str]]]]:
    """Starts a run that takes a second or more per batch, and waits until it has written a batch or two."""
    out = tmp_path / "killed.csv"
    words = [
        "bound", str(work / "Slow.pt"), str(work / "data.npz"), "--arch", f"{work}/archs.py:Slow", "--attribution", "ig",
        "--ig-steps", "5", "--eps", "0.1,0.2", "--batch-size", str(BATCH), "--format", "csv", "--out", str(out),
    ]  # fmt: skip
    running: list[subprocess.Popen] = []

    def start() -> tuple[subprocess.Popen, list[str]]:
        process = subprocess.Popen(
            [sys.executable, "-m", "attrcert", *words],
            env={**os.environ, "SECONDS_PER_PASS": "0.1", "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # a parent that ignores Ctrl-C would pass that on
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        running.append(process)
        deadline = time.monotonic() + 90
        while not out.exists() or out.read_bytes().count(b"\n") < 1 + 2 * BATCH:
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline, "the run wrote nothing"
            time.sleep(0.05)
        time.sleep(0.3)  # into the middle of a batch
        return process, words

    yield start
    for process in running:
        process.kill()
        process.communicate()


def test_a_run_killed_with_kill_9_and_cut_in_a_line_resumes_to_the_uninterrupted_result(slow_run, attrcert, tmp_path):
    process, words = slow_run()
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    killed = tmp_path / "killed.csv"
    content = killed.read_bytes()
    assert content.count(b"\n") < 1 + 2 * SAMPLES
    killed.write_bytes(content[:-40])
    resumed = attrcert(*words, "--resume")
    assert resumed.code == 0, resumed.err

    whole = tmp_path / "whole.csv"
    assert attrcert(*words[:-1], whole).code == 0
    assert without_seconds(killed) == without_seconds(whole)
    assert len(without_seconds(whole)) == 2 * SAMPLES
    # what was finished was not computed again: it kept its time
    kept = [row["seconds"] for row in read_rows(killed, COLUMNS["bound"])][: 2 * BATCH - 2]
    assert min(kept) > 0.02


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_an_interrupted_run_leaves_a_valid_csv_and_says_how_to_go_on(slow_run, attrcert, tmp_path, sent):
    process, _ = slow_run()
    process.send_signal(sent)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 4, err
    assert "Traceback" not in err
    assert out == ""
    text = (tmp_path / "killed.csv").read_text()
    assert text.endswith("\n")
    finished = {row["index"] for row in read_rows(tmp_path / "killed.csv", COLUMNS["bound"])}
    assert BATCH <= len(finished) < SAMPLES
    manifest = json.loads((tmp_path / "killed.csv.json").read_text())
    assert (manifest["state"], manifest["rows"]) == ("interrupted", 2 * len(finished))
    assert f"{len(finished)} of {SAMPLES} samples" in " ".join(err.split())
    command = shlex.split(err[err.index("attrcert bound") :])
    done = attrcert(*command[1:])
    assert done.code == 0, done.err
    assert len(done.rows) == 2 * SAMPLES


def test_an_interrupt_without_a_file_says_that_nothing_was_saved(bound, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Bounds, "explain", interrupted)
    done = bound()
    assert done.code == 4
    assert "nothing was saved" in done.err


def test_an_interrupt_while_rows_are_written_counts_them(bound, tmp_path, monkeypatch):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(os, "fsync", lambda _: signal.raise_signal(signal.SIGINT))
    done = bound("--batch-size", BATCH, "--out", tmp_path / "out.csv")
    signal.signal(signal.SIGINT, before)
    assert done.code == 4
    written = read_rows(tmp_path / "out.csv", COLUMNS["bound"])
    assert json.loads((tmp_path / "out.csv.json").read_text())["rows"] == len(written)
    assert f"{len(written)} of 20 samples" in " ".join(done.err.split())


# the other commands


def test_the_loss_hessian_of_a_network_with_curvature_is_refused(bound_of):
    assert_refused(bound_of("smooth", "--loss-hessian"), "piecewise-linear networks only")


def test_an_eps_beyond_every_image_is_warned_of(bound):
    assert "did you mean 8/255" in " ".join(bound("--norm", "linf", "--eps", "8", quiet=False).err.split())


def test_doctor_finds_the_small_model_fit(attrcert, work):
    done = attrcert("doctor", work / "tiny.safetensors", work / "data.npz", "--format", "json")
    assert done.code == 0
    levels = {finding["check"]: finding["level"] for finding in json.loads(done.out)}
    for check in ("outputs", "determinism", "batch coupling", "second derivative", "Hessian against finite difference"):
        assert levels[check] == "ok"


@pytest.mark.parametrize(
    ("hits", "samples", "classes", "level", "said"),
    [
        (0, 8, 10, "warn", "0 of 8 right: guessing among 10 classes gets as many in 100% of such checks"),
        (2, 8, 10, "warn", "2 of 8 right: guessing among 10 classes gets as many in 19% of such checks"),
        (3, 8, 10, "ok", "3 of 8 right (38%)"),
        (0, 64, 10, "warn", "0 of 64 right"),
        (11, 64, 10, "warn", "11 of 64 right: guessing among 10 classes gets as many in 5% of such checks"),
        (12, 64, 10, "ok", "12 of 64 right (19%)"),
        (1, 1, 10, "warn", "1 of 1 right"),
        (40, 64, 2, "ok", "40 of 64 right (62%)"),
        (35, 64, 2, "warn", "35 of 64 right"),
    ],
)
def test_accuracy_is_fine_only_where_guessing_rarely_does_as_well(hits, samples, classes, level, said):
    labels = [i % classes for i in range(samples)]
    seen = [label if i < hits else (label + 1) % classes for i, label in enumerate(labels)]
    images = torch.nn.functional.one_hot(torch.tensor(seen), classes).float().view(samples, 1, 1, classes)
    finding = accuracy(Classifier(torch.nn.Flatten()), images, list(labels))
    assert (finding.level, finding.message[: len(said)]) == (level, said)
    assert ("so few samples cannot tell" in finding.hint) == (samples == 1)


def test_a_run_on_a_few_samples_that_are_all_wrong_is_warned_of(bound, work, tmp_path):
    with np.load(work / "data.npz") as arrays:
        images, labels = arrays["images"], arrays["labels"]
    right = {int(row["index"]): int(row["predicted"]) for row in bound().rows}
    np.savez(tmp_path / "wrong.npz", images=images, labels=[(right[i] + 1) % 3 for i in range(len(labels))])
    done = bound("--limit", 4, data=tmp_path / "wrong.npz", quiet=False)
    assert "warning: accuracy: 0 of 4 right" in " ".join(done.err.split())


def test_doctor_warns_of_max_pooling_by_the_modules_name(attrcert, work):
    words = ("doctor", work / "Pooled.pt", work / "data.npz", "--arch", f"{work}/archs.py:Pooled")
    done = attrcert(*words, "--format", "json")
    (finding,) = [finding for finding in json.loads(done.out) if "max-pooling" in finding["message"]]
    assert finding["level"] == "warn"
    assert "pool" in finding["message"]
    assert "no Jacobian bound can hold" in finding["message"]
    assert "max-pooling" in " ".join(attrcert(*words).out.split())
    assert done.code == 0


@pytest.mark.parametrize(
    ("name", "check", "said"),
    [
        ("coupled_conv", "batch coupling", "1 mixes"),
        ("coupled", "batch coupling", "2 mixes"),
        ("Dropping", "determinism", "differ"),
        ("Single", "outputs", "at least 2 classes"),
    ],
)
def test_doctor_exits_3_and_says_what_is_wrong(attrcert, work, name, check, said):
    words = ("--arch", f"{work}/archs.py:{name}", "--format", "json")
    done = attrcert("doctor", work / f"{name}.pt", work / "data.npz", *words)
    assert done.code == 3
    (finding,) = [finding for finding in json.loads(done.out) if finding["check"] == check]
    assert finding["level"] == "fail"
    assert said in finding["message"]


def test_doctor_finds_a_relu_network_without_curvature(attrcert, work):
    words = ("doctor", work / "relu.pt", work / "data.npz", "--arch", f"{work}/archs.py:relu")
    assert attrcert(*words, "--softplus-beta", "none").code == 3
    done = attrcert(*words)
    assert done.code == 0
    assert "1 relu run as softplus" in " ".join(done.out.split())


def test_the_catalogue_lists_every_attribution_with_its_aliases_and_meaning(attrcert):
    entries = json.loads(attrcert("catalogue", "--format", "json").out)["attributions"]
    by_name = {entry["name"].split(" ")[0]: entry for entry in entries}
    for name in ATTRIBUTIONS:
        assert all(alias in by_name[name]["name"] for alias in ATTRIBUTIONS.aliases(name))
        assert len(by_name[name]["meaning"]) > 20
        assert by_name[name]["reference"]


def test_the_catalogue_shows_one_family_on_request(attrcert):
    out = attrcert("catalogue", "models").out
    assert "fashion-natural" in out
    assert "fashion-adversarial" in out
    assert "saliency" not in out


def test_an_unknown_family_suggests_the_nearest(attrcert):
    done = attrcert("catalogue", "atributions")
    assert done.code == 2
    assert "did you mean 'attributions'" in done.err


@pytest.mark.parametrize("command", ["doctor", "catalogue"])
def test_an_unknown_format_is_wrong_usage(attrcert, command):
    done = attrcert(command, "--format", "xml")
    assert done.code == 2
    assert "table" in done.err
    assert "json" in done.err
