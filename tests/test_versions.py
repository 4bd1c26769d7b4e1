"""Several softplus versions in one run: the rows of each alone, how close each is to the ReLU network, and everything that reads rows."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from reference.program import attrcert
from safetensors.torch import save_file
from torch import nn

from attrcert import Classifier, attack, bound, gate, max_eps
from attrcert.columns import FIDELITY
from attrcert.errors import UsageError
from attrcert.reporting.pages.content import make_page
from attrcert.reporting.summaries.fidelity import closeness, fidelity_tables, kept_labels

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
BETAS = (2.0, 5.0, 40.0)
OWN = {column.name for column in FIDELITY}
ARCH = """
from torch import nn
def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(9, 16), nn.ReLU(), nn.Linear(16, 10), nn.ReLU(), nn.Linear(10, 4))
"""


@pytest.fixture(scope="module")
def words(relu_mlp, images, tmp_path_factory) -> tuple:
    """A ReLU network and images in files, as the command line takes them."""
    home = tmp_path_factory.mktemp("relu")
    save_file(relu_mlp().state_dict(), home / "mlp.safetensors")
    (home / "arch.py").write_text(ARCH)
    np.savez(home / "data.npz", images=images(3, 1, 3, 3).numpy(), labels=[0, 1, 2])
    return (home / "mlp.safetensors", home / "data.npz", "--arch", f"{home / 'arch.py'}:mlp", "--dtype", "float64")


@pytest.fixture(scope="module")
def table(words, tmp_path_factory) -> Path:
    """The CSV of a run of two softplus versions at two eps."""
    path = tmp_path_factory.mktemp("versions") / "table.csv"
    done = attrcert("bound", *words, "--softplus-beta", "2,40", "--eps", "0.1,0.2", "--out", path, "--format", "json")
    assert done.code == 0, done.err
    path.with_suffix(".said").write_text(done.out)
    return path


@pytest.mark.parametrize(
    ("command", "settings"),
    [
        (bound, {"norm": ["l2", "linf"], "eps": [0.1, 0.2]}),
        (attack, {"steps": 1, "restarts": 0, "random_draws": 2}),
        (max_eps, {"max_angle": 10}),
    ],
    ids=["bound", "attack", "max-eps"],
)
def test_each_has_the_rows_of_a_run_of_it_alone(relu_mlp, images, command, settings):
    network, data = relu_mlp(), images(2, 1, 3, 3)
    exact = {"dtype": "float64", "chunk": 4, **settings}
    together = command(network, data, softplus_beta=BETAS, **exact)
    assert together.manifest["identity"]["softplus_beta"] == [*BETAS]
    for beta in BETAS:
        alone = command(network, data, softplus_beta=beta, **exact)
        of_beta = [row for row in together if row["softplus_beta"] == beta]
        assert {row[name] for row in alone for name in OWN} == {None}
        assert None not in {row[name] for row in of_beta for name in OWN}
        own = dict.fromkeys((*OWN, "seconds"))
        assert [{**row, **own} for row in of_beta] == [{**row, **own} for row in alone]
    given = command(Classifier(network, beta=7.0), data, softplus_beta="2,5,40", **exact)
    timeless = {"seconds": None}
    assert [{**row, **timeless} for row in given] == [{**row, **timeless} for row in together]


@pytest.mark.parametrize(("seed", "labels", "dead"), [(5, {True, False}, {False}), (3, {False}, {True, False})])
def test_fidelity_is_that_of_the_network_with_softplus_written_in(relu_mlp, images, seed, labels, dead):
    network, x = relu_mlp(seed=seed), images(6, 1, 3, 3)
    rows = bound(network, x, softplus_beta=BETAS, attribution="ixg", dtype="float64", eps=0.1)
    for row in rows:
        one = x[row["index"]][None].clone().requires_grad_()
        version = nn.Sequential(
            *(nn.Softplus(row["softplus_beta"], 40.0) if isinstance(part, nn.ReLU) else part for part in network)
        )
        logits = [f(one)[0] for f in (network, version)]
        maps = [(torch.autograd.grad(z[row["target"]], one)[0] * one).flatten().detach() for z in logits]
        assert row["target"] == row["predicted"] == int(logits[1].argmax())
        assert row["same_label"] == (int(logits[0].argmax()) == int(logits[1].argmax()))
        gap = (logits[0] - logits[1]).detach().abs().max()
        assert row["logit_gap"] == pytest.approx(float(gap), rel=1e-9)
        if row["map_cosine"] is None:  # a dead ReLU network has no direction
            assert not maps[0].any()
        else:
            assert row["map_cosine"] == pytest.approx(float(torch.cosine_similarity(*maps, dim=0)), rel=1e-9)
    assert {row["same_label"] for row in rows if row["softplus_beta"] == BETAS[0]} == labels
    assert {row["map_cosine"] is None for row in rows} == dead


def made_rows(kept: dict[float, int], angles: dict[float, list[float | None]]) -> list[dict]:
    """Of three samples at each beta, the first so many keep their label."""
    about = {"status": "ok", "attribution": "saliency", "norm": "l2", "eps": 0.1}
    return [
        {
            **about, "index": i, "softplus_beta": beta, "same_label": i < kept[beta], "logit_gap": i / beta,
            "map_cosine": 1 - i / (10 * beta), **({} if angle is None else {"T_c_deg": angle}),
        }
        for beta in kept for i, angle in enumerate(angles[beta])
    ]  # fmt: skip


def test_the_summary_says_which_beta_keeps_the_labels_beside_its_bound():
    rows = made_rows({5.0: 1, 20.0: 3, 80.0: 3}, {5.0: [1, 2.5, 3], 20.0: [4, 5, 6], 80.0: [7, None, None]})
    (said,) = kept_labels(rows)
    assert "beta 5 on 1 of 3, beta 20 on 3 of 3, beta 80 on 3 of 3 samples" in said
    assert said.endswith("the smallest beta that keeps all is 20.")
    assert kept_labels(made_rows({5.0: 2, 6.0: 1}, {5.0: [1] * 3, 6.0: [1] * 3}))[0].endswith("no beta keeps all.")
    (shown,) = fidelity_tables(rows)
    assert shown.header == ("softplus_beta", "same label", "largest logit gap", "cosine of maps", "T_c_deg, eps 0.1")
    assert [line[0] for line in shown.cells] == ["5", "20", "80"]
    assert [line[-1] for line in shown.cells] == ["2.5", "5", "-"]
    assert shown.cells[0][1:4] == ("1/3", "0.4", "0.98")
    one = made_rows({5.0: 1}, {5.0: [1, 2, 3]})
    assert (closeness(one), fidelity_tables(one), kept_labels(one)) == ((), (), [])


def test_a_file_of_several_is_told_apart_by_resume_gate_and_page(words, table, tmp_path):
    said = json.loads(table.with_suffix(".said").read_text())
    assert [one["softplus_beta"] for one in said["fidelity"]] == [2.0, 40.0]
    close = json.loads(Path(f"{table}.json").read_text())["facts"]["activations"]
    assert [f"beta {beta}: same label on" in close for beta in (2, 40)] == [True, True]
    assert sum("(beta 40)" in sentence for sentence in said["sentences"]) == 2
    lines = table.read_text().splitlines(keepends=True)
    torn = tmp_path / "table.csv"
    torn.write_text("".join(lines[: 1 + 4 + 3]))  # of the second sample three of four rows
    Path(f"{torn}.json").write_text(
        json.dumps({**json.loads(Path(f"{table}.json").read_text()), "state": "running", "rows_sha256": None})
    )
    again = ("bound", *words, "--softplus-beta", "2,40", "--eps", "0.1,0.2", "--out", torn, "--resume", "--quiet")
    done = attrcert(*again)
    assert done.code == 0, done.err
    assert len(torn.read_text().splitlines()) == len(lines)
    other = attrcert(*("2,20" if word == "2,40" else word for word in again))
    assert other.code == 2
    assert "softplus_beta was [2.0, 40.0]" in other.said
    judged = gate([table], "mean(T_e[softplus_beta=40, eps=0.1]) <= 100").judgements[0]
    assert [one.case for one in judged.observations] == ["beta 40, eps 0.1"]
    assert len(gate([table], "fraction(same_label) >= 1%").judgements[0].observations) == 4


def test_a_page_draws_the_bound_against_fidelity(table):
    page = make_page([table], title="", most=5, pictures=0)
    (plot,) = (one for one in page.plots if one.name.startswith("trade-off"))
    drawn = Figure()
    plot.draw(drawn)
    found = closeness([dict(row) for row in json.loads(table.with_suffix(".said").read_text())["rows"]])
    for axes, name in zip(drawn.axes, ("kept", "map_cosine"), strict=True):
        for line, case in zip(axes.lines, ("eps 0.1", "eps 0.2"), strict=True):
            share = [one.kept / one.samples if name == "kept" else one.map_cosine for one in found]
            assert list(line.get_xdata()) == share
            medians = [one.medians[case] for one in found]
            assert list(line.get_ydata()) == [180.0 if median is None else median for median in medians]
        assert [text.get_text() for text in axes.texts] == ["2", "40"] * 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("bound", "--softplus-beta", "5,none"), "several numbers, each once, got 5, none"),
        (("bound", "--softplus-beta", "5,5.0"), "several numbers, each once, got 5, 5"),
        (("bound", "--softplus-beta", "5,-1"), "--softplus-beta must be positive and finite, got -1"),
        (("doctor", "--softplus-beta", "5,20"), "there can be one --softplus-beta here, got 5, 20"),
        (("bound", "--softplus-beta", "5,20", "--smooth", "gaussian"), "--softplus-beta has no effect here"),
        (("bound", "--softplus-beta", "5,20", "--require", "mean(T_e[softplus_beta=7]) <= 1"), "softplus_beta is 5.0, 20.0"),
        (("bound", "--softplus-beta", "5,20", "--save-jacobian", 0, "--out", "never.csv"), "takes one attribution, norm and softplus beta"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name(words, given, said):
    done = attrcert(given[0], *(words[:-2] if given[0] == "doctor" else words), *given[1:])
    assert done.code == 2
    assert said in done.said
    assert not Path("never.csv").exists()


def test_a_network_without_relus_has_no_versions(smooth_cnn, images):
    with pytest.raises(UsageError, match="for networks with ReLUs, and this one has none"):
        bound(smooth_cnn(), images(1, 1, 5, 5), softplus_beta=[5, 20], dtype="float64")


def test_perturbations_of_each_are_kept_apart(words, tmp_path):
    out, kept = tmp_path / "attack.csv", tmp_path / "deltas.safetensors"
    quick = ("--steps", 1, "--restarts", 0, "--random-draws", 2, "--limit", 1, "--quiet")
    run = ("attack", *words, *quick, "--softplus-beta", "2,5", "--out", out, "--save-deltas", kept)
    assert attrcert(*run).code == 0
    page = make_page([out], title="", most=5, pictures=1)
    assert [one.title for one in page.galleries] == ["attack: beta 2: moved most", "attack: beta 5: moved most"]
    assert attrcert(*run, "--resume").code == 0
