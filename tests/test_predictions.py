"""Attacks on the prediction: they reach what can be known exactly, are no weaker than a plain PGD, and are counted as they should be."""

import json
import re

import numpy as np
import pytest
import torch
from reference.program import attrcert
from safetensors.torch import load_file
from scipy.stats import binomtest
from torch import Tensor, nn

import attrcert as library
from attrcert.ascent.balls import Ball
from attrcert.ascent.loop import Problem, Reference, ascend, best_of
from attrcert.attacks.prediction import LOGITS, MarginAttack, PredictionAttack, class_first
from attrcert.draws import Draws
from attrcert.errors import UsageError
from attrcert.loading.architectures import build
from attrcert.reporting.pages.figures import plots
from attrcert.reporting.pages.worst import RunRows
from attrcert.reporting.summaries.statistics import binomial_interval
from attrcert.settings.others import others_of
from attrcert.settings.sources import ModelSpec
from attrcert.vocabulary import Norm

ARCHS = """
from torch import nn

def net(hidden=12, seed=0):
    import torch
    torch.manual_seed(seed)
    made = nn.Sequential(nn.Flatten(), nn.Linear(36, hidden), nn.ReLU(), nn.Linear(hidden, 3))
    made[1].weight.data *= 4
    made[1].bias.data -= made[1].weight.data.sum(dim=1) / 2
    return made
"""


def attacked(f, x: Tensor, y: Tensor, norm: str, eps: float, steps: int = 30) -> Tensor:
    """The perturbations of smallest margin."""
    ball, draws = Ball.around(x, Norm.parse(norm), eps), Draws(0, tuple(range(len(x))))
    problem = Problem(LOGITS, f, lambda t: f, x, y, draws, ball, chunk=3)
    starts = torch.stack([torch.zeros_like(ball.low), ball.random(draws, "start")])
    runs = [
        ascend(one, problem, Reference.of(problem), starts, steps=steps) for one in (PredictionAttack(), MarginAttack())
    ]
    delta = best_of(runs).delta
    assert bool((ball.size(delta) <= eps * (1 + 1e-6)).all())
    assert bool(((x.flatten(1) + delta >= 0) & (x.flatten(1) + delta <= 1)).all())
    return delta


def margins(logits: Tensor, y: Tensor) -> Tensor:
    """Slowly."""
    return torch.stack([one[c] - torch.cat([one[:c], one[c + 1 :]]).max() for one, c in zip(logits, y, strict=True)])


@pytest.mark.parametrize("scale", [1.0, 1e5])  # with the second, cross-entropies and their gradients are 0
@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("classes", [2, 5])
def test_the_margin_of_a_linear_network_is_the_least_that_there_is(norm, scale, classes):
    """Of several classes, near enough: the least of several cones may be missed."""
    torch.manual_seed(1)
    W = scale * torch.randn(classes, 9, dtype=torch.float64)
    x = 0.3 + 0.4 * torch.rand(6, 1, 3, 3, dtype=torch.float64)  # so that nothing leaves the pixel range

    def f(z: Tensor) -> Tensor:
        return z.flatten(1) @ W.T

    y, eps = f(x).argmax(dim=1), 0.1
    reached = margins(f(x + attacked(f, x, y, norm, eps).view_as(x)), y)
    q = 2 if norm == "l2" else 1
    for i, c in enumerate(y.tolist()):
        away = [W[c] - W[k] for k in range(classes) if k != c]
        least = min((w @ x[i].flatten() - eps * w.norm(p=q)).item() for w in away)
        assert reached[i].item() >= least - 1e-9 * scale
        assert reached[i].item() == pytest.approx(least, rel=1e-6 if classes == 2 else 0.05)


def test_the_class_stands_first_and_the_others_stay():
    logits = torch.arange(12.0).view(3, 4)
    expected = [[2.0, 0, 1, 3], [4, 5, 6, 7], [11, 8, 9, 10]]
    assert class_first(logits, torch.tensor([2, 0, 3])).tolist() == expected


@pytest.mark.parametrize(("hits", "n"), [(0, 7), (7, 7), (3, 7), (1, 1), (40, 64)])
def test_the_interval_is_the_exact_one(hits, n):
    exact = binomtest(hits, n).proportion_ci(0.95, method="exact")
    assert binomial_interval(hits, n) == pytest.approx((exact.low, exact.high), abs=1e-12)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two networks, and images of which the first network gets some wrong."""
    folder = tmp_path_factory.mktemp("predictions")
    (folder / "archs.py").write_text(ARCHS)
    for name, given in (("net", {}), ("other", {"hidden": 9, "seed": 1})):
        torch.save(build(f"{folder}/archs.py:net", given).state_dict(), folder / f"{name}.pt")
    images = torch.rand(8, 1, 6, 6, generator=torch.Generator().manual_seed(2))
    labels = network(folder)(images).argmax(dim=1)
    labels[:2] = (labels[:2] + 1) % 3
    np.savez(folder / "data.npz", images=images.numpy(), labels=labels.numpy())
    np.savez(folder / "bare.npz", images=images.numpy())
    return folder


def network(folder, name: str = "net", **given) -> nn.Module:
    made = build(f"{folder}/archs.py:net", given)
    made.load_state_dict(torch.load(folder / f"{name}.pt"))
    return made.eval()


def asked(folder, *more, data: str = "data", attack: str = "prediction") -> list:
    arch = ("--arch", f"{folder}/archs.py:net", "--attack", attack, "--steps", 20, "--restarts", 1, "--quiet")
    return ["attack", folder / "net.pt", folder / f"{data}.npz", *arch, *more]


OTHER = "{}/other.pt arch-arg=hidden=9"
EPS = ("--eps", "0.3,1.0")


@pytest.fixture(scope="module")
def whole(files):
    """Rows of a run with another checkpoint, its perturbations, and what it printed."""
    run = asked(files, *EPS, "--transfer-from", OTHER.format(files))
    saved = files / "deltas.safetensors"
    done = attrcert(*run, "--out", files / "rows.csv", "--save-deltas", saved, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out), load_file(saved)


def arrays(files):
    with np.load(files / "data.npz") as kept:
        return torch.from_numpy(kept["images"]), torch.from_numpy(kept["labels"])


def test_rows_say_what_the_saved_perturbations_do_to_both_networks(files, whole):
    told, deltas = whole
    x, labels = arrays(files)
    nets = {"net": network(files), "other": network(files, "other", hidden=9)}
    assert {row["attack"] for row in told["rows"]} == {"prediction", "prediction:other"}
    for row in told["rows"]:
        i = row["index"]
        moved = x[i : i + 1] + deltas[f"index={i}/eps={row['eps']!r}/attack={row['attack']}"]
        logits, label = nets["net"](moved), int(labels[i])
        right = nets["net"](x[i : i + 1]).argmax().item() == label
        assert (row["predicted_attacked"], row["correct"]) == (logits.argmax().item(), right)
        assert row["correct_attacked"] == (logits.argmax().item() == label)
        assert row["fooled"] == (None if not right else logits.argmax().item() != label)
        assert row["margin_attacked"] == pytest.approx(margins(logits, labels[i : i + 1]).item(), abs=1e-5)
        assert row["other_correct"] == (nets["other"](x[i : i + 1]).argmax().item() == label)
        assert row["other_correct_attacked"] == (nets["other"](moved).argmax().item() == label)
        assert row["T_hat_e"] is not None
        assert row["T_e"] is None  # no bounds are computed
    assert {row["fooled"] for row in told["rows"]} == {None, True, False}


def pgd(f, x: Tensor, y: Tensor, eps: float) -> Tensor:
    """As anybody would write it: 40 normalised steps of the cross-entropy from x."""
    delta = torch.zeros_like(x)
    for _ in range(40):
        delta.requires_grad_()
        (g,) = torch.autograd.grad(nn.functional.cross_entropy(f(x + delta), y, reduction="sum"), delta)
        delta = delta.detach() + eps / 10 * g / g.flatten(1).norm(dim=1).view(-1, 1, 1, 1).clamp_min(1e-12)
        delta = delta * (eps / delta.flatten(1).norm(dim=1).view(-1, 1, 1, 1)).clamp(max=1)
        delta = (x + delta).clamp(0, 1) - x
    return delta


def test_it_is_no_weaker_than_a_plain_pgd_on_either_network(files, whole):
    x, labels = arrays(files)
    for attack, net in (("prediction", network(files)), ("prediction:other", network(files, "other", hidden=9))):
        for eps in (0.3, 1.0):
            plain = margins(net(x + pgd(net, x, labels, eps)), labels)
            deltas = torch.stack([whole[1][f"index={i}/eps={eps!r}/attack={attack}"] for i in range(8)])
            ours = margins(net(x + deltas), labels)
            assert ours.mean() <= plain.mean() + 1e-3
            assert (ours < 0).sum() >= (plain < 0).sum()


def test_the_summary_counts_what_the_rows_say(files, whole):
    told = whole[0]
    for part in told["attacks"]:
        rows = [row for row in told["rows"] if (row["eps"], row["attack"]) == (part["eps"], part["attack"])]
        right = sum(row["correct_attacked"] for row in rows)
        found = part["predictions"]
        assert (found["accuracy"], found["accuracy_attacked"]) == (6 / 8, right / 8)  # two are wrong at x
        assert (found["low"], found["high"]) == binomial_interval(right, 8)
        assert found["fooled"] == pytest.approx(1 - right / 6)
        elsewhere = sum(row["other_correct_attacked"] for row in rows) / 8
        assert found["elsewhere"]["other"]["accuracy_attacked"] == elsewhere
    shown = attrcert(*asked(files, *EPS, "--transfer-from", OTHER.format(files), "--format", "markdown")).out
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in shown.splitlines() if "|" in line]
    cells = {(line[0], line[1]): line[2:] for line in lines if len(line) == 4}
    for part in told["attacks"]:
        own = part["predictions"]
        source = "other" if ":" in part["attack"] else "CHECKPOINT"
        shares = own["accuracy_attacked"], own["elsewhere"]["other"]["accuracy_attacked"]
        assert cells[f"{part['eps']:g}", source] == [f"{100 * share:.1f}%" for share in shares]


def test_without_labels_the_predicted_class_stands_for_them(files):
    done = attrcert(*asked(files, "--eps", 1, "--json", data="bare"))
    rows = json.loads(done.out)["rows"]
    assert {(row["correct"], row["label"]) for row in rows} == {(None, None)}
    assert all(row["fooled"] is (row["predicted_attacked"] != row["predicted"]) for row in rows)
    assert "no labels" in attrcert(*asked(files, "--eps", 1, data="bare")).shown


def test_beside_attacks_on_maps_the_network_itself_is_attacked_and_no_bound_is_compared(files):
    """Whose softplus version, which the others move, predicts other classes."""
    done = attrcert(*asked(files, "--eps", 1, "--softplus-beta", 0.5, "--json", attack="euclidean,prediction"))
    whole = json.loads(done.out)
    net, (x, _) = network(files), arrays(files)
    rows = {name: [row for row in whole["rows"] if row["attack"] == name] for name in ("euclidean", "prediction")}
    assert [row["predicted"] for row in rows["prediction"]] == net(x).argmax(dim=1).tolist()
    assert [row["predicted"] for row in rows["euclidean"]] != net(x).argmax(dim=1).tolist()
    alone = json.loads(attrcert(*asked(files, "--eps", 1, "--json")).out)["rows"]
    told = ("fooled", "predicted_attacked", "margin_attacked", "correct")
    assert [[row[name] for name in told] for row in rows["prediction"]] == [
        [row[name] for name in told] for row in alone
    ]
    assert all(row["violated"] is None and row["tightness"] is None and row["T_e"] for row in rows["prediction"])
    assert all(row["violated"] is not None and row["fooled"] is None for row in rows["euclidean"])
    sentences = whole["sentences"]
    assert (
        sum("keeps the label" in one for one in sentences) == sum("on the predictions" in one for one in sentences) == 1
    )


def test_rules_are_judged_in_the_cases_that_have_the_column(files, tmp_path):
    both = asked(files, "--eps", 1, "--softplus-beta", 20, "--out", tmp_path / "x.csv", attack="euclidean,prediction")
    done = attrcert(
        *both, "--require", "fraction(fooled) <= 5%", "--require", "count(violated) <= 7", "--format", "csv"
    )
    assert done.code == 1
    verdict = attrcert("gate", tmp_path / "x.csv", "--require", "fraction(correct_attacked) >= 99%", "--json")
    judged = json.loads(verdict.out)["judgements"][0]["observations"]
    assert [("prediction" in one["case"], one["outcome"]) for one in judged] == [(True, "failed")]
    assert "correct_attacked: empirical, what an attack reached: a stronger one may fool more samples." in verdict.out
    refused = attrcert(*asked(files, "--require", "fraction(fooled) <= 5%", attack="euclidean"))
    assert (refused.code, "has no fooled: it was not asked for" in refused.said) == (2, True)


def test_a_page_has_the_accuracy_and_no_points_of_bounds(files, whole):
    rows = RunRows("rows", "attack", whole[0]["rows"])
    assert {plot.name for plot in plots([rows])} == {"accuracy", "status"}
    assert attrcert("report", files / "rows.csv", "-o", files / "page.html").code == 0
    assert "Transfer: accuracy on each checkpoint" in (files / "page.html").read_text()


def test_a_run_goes_on_with_the_same_other_checkpoint_alone(files, tmp_path):
    run = asked(files, "--out", tmp_path / "x.csv", "--transfer-from", OTHER.format(files))
    assert attrcert(*run).code == 0
    changed = [
        word if "other.pt" not in str(word) else OTHER.format(files).replace("other.pt", "moved.pt") for word in run
    ]
    torch.save({name: 2 * tensor for name, tensor in torch.load(files / "other.pt").items()}, files / "moved.pt")
    done = attrcert(*changed, "--resume")
    assert (done.code, "transfer_from" in done.said) == (2, True), done.said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--transfer-from", "nothing.pt"), "--transfer-from nothing: there is no checkpoint file nothing.pt"),
        (("--transfer-from", "other.pt beta=2"), "a setting in --transfer-from must be one of arch"),
        (("--transfer-from", "other.pt std"), "takes a checkpoint and NAME=VALUE behind it, got 'std'"),
        (("--transfer-from", "'other.pt"), "cannot be read: No closing quotation"),
        (("--transfer-from", " "), "must name a checkpoint, got nothing"),
        (("--transfer-from", "a/x-y.pt", "--transfer-from", "b/x_y.pt"), "names two checkpoints 'x-y'"),
        (("--transfer-from", "fashion-natural"), "--transfer-from fashion_natural: outputs: the model rejects images"),
        (("--proved",), "--proved has no effect here: it is for attacks on maps"),
        (("--softplus-beta", "5"), "--softplus-beta has no effect here"),
        (("--norm", "lp", "--p", "4"), "attacks are for l2 and linf"),
        (("--require", "fraction(violated) <= 5%"), "has no violated: it was not asked for"),
    ],
)
def test_what_cannot_be_is_refused_in_plain_words(files, words, said):
    done = attrcert(*asked(files, *words))
    assert done.code in (2, 3)
    assert said in done.said


def test_another_number_of_classes_is_refused(files):
    torch.manual_seed(0)
    wide = nn.Sequential(nn.Flatten(), nn.Linear(36, 4))
    (files / "wide.py").write_text(
        "from torch import nn\ndef net():\n    return nn.Sequential(nn.Flatten(), nn.Linear(36, 4))\n"
    )
    torch.save(wide.state_dict(), files / "wide.pt")
    done = attrcert(*asked(files, "--transfer-from", f"{files}/wide.pt arch={files}/wide.py:net"))
    assert "--transfer-from wide: it must have the 3 classes of CHECKPOINT, got 4" in done.said


def test_transfer_needs_an_attack_on_the_prediction():
    with pytest.raises(
        UsageError, match=re.escape("--transfer-from has no effect here: it is for --attack prediction")
    ):
        library.attack(limit=1, transfer_from="fashion-adversarial")


def test_what_is_not_said_of_another_checkpoint_is_as_with_the_first():
    usual = ModelSpec("a.pt", arch="resnet20", mean=(0.5,), std=(0.2,), arch_args={"classes": 3})
    (same, other) = others_of(["b.pt", "'my file.pt' std=0.1,0.2 mean= arch-arg=classes=4"])
    assert same.spec(usual, inherits=True) == ModelSpec(
        "b.pt", arch="resnet20", mean=(0.5,), std=(0.2,), arch_args={"classes": 3}
    )
    expected = ModelSpec("my file.pt", arch="resnet20", mean=None, std=(0.1, 0.2), arch_args={"classes": 4})
    assert (other.spec(usual, inherits=True), other.column) == (expected, "my_file")
    assert same.spec(usual, inherits=False) == ModelSpec("b.pt")
