"""Attributions of the user's own, from files and from Captum: the figures of ours where they are the same maps, and what is wrong told."""

import hashlib
import inspect
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from reference import own_maps
from reference.program import attrcert
from torch import nn

from attrcert import bound
from attrcert.attributions.captum_methods import CaptumMethod
from attrcert.attributions.own import Own
from attrcert.draws import Draws
from attrcert.errors import AttributionError
from attrcert.linalg.row_sums import dense
from attrcert.networks.classifier import Classifier
from attrcert.running.checks.findings import Level
from attrcert.running.checks.own_maps import differentiable
from attrcert.running.checks.own_maps import own_maps as checked

FILE = Path(own_maps.__file__)
FEW = ("--limit", 2, "--quiet", "--format", "csv")
DIFFERENTIABLE = {
    "function": own_maps.gradient,
    "coarse": own_maps.coarse,
    "captum:Saliency": CaptumMethod("Saliency", {}),
    "captum:LayerGradCam": CaptumMethod("LayerGradCam", {}),
    "captum:IntegratedGradients": CaptumMethod("IntegratedGradients", {"n_steps": 3}),
}
# of a network with ReLU modules, run as softplus: hooks and detached parts are seen by the checks
VALUES_ONLY = {
    "no gradients": own_maps.occlusion,
    "a detached factor": own_maps.half_detached,
    "a step": own_maps.steps,
    "captum:DeepLift": CaptumMethod("DeepLift", {}),
    "captum:GuidedBackprop": CaptumMethod("GuidedBackprop", {}),
}


@pytest.fixture
def scene(smooth_cnn, images):
    f, x = Classifier(smooth_cnn(), beta=None), images(3, 1, 5, 5)
    return f, x, f(x).argmax(1)


@pytest.fixture
def relu_scene(images):
    torch_seed = torch.Generator().manual_seed(0)
    network = (
        nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(27, 4)).double().requires_grad_(False)
    )
    for part in network.parameters():
        part.copy_(torch.randn(part.shape, generator=torch_seed, dtype=torch.float64))
    return Classifier(network.eval(), beta=5.0), images(3, 1, 5, 5)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_products_are_those_of_the_jacobian_by_differences(scene, name):
    f, x, y = scene
    own, h = Own(DIFFERENTIABLE[name], name, chunk=2), 1e-5
    J = own.explain(f, x, y).jacobian
    steps = h * torch.eye(25, dtype=x.dtype).view(25, 1, 1, 5, 5)
    columns = [(own.value(f, x + step, y) - own.value(f, x - step, y)) / (2 * h) for step in steps]
    matrix = torch.stack(columns, dim=2)
    assert J.shape == tuple(matrix.shape)
    torch.testing.assert_close(dense(J), matrix, rtol=1e-6, atol=1e-7)
    u = Draws(0, (0, 1, 2)).normal("test", J.shape[1], like=x)
    torch.testing.assert_close(J.rmatvec(u), torch.einsum("bmn,bm->bn", dense(J), u))
    assert differentiable(own, f, x).level is Level.OK


@pytest.mark.parametrize("name", VALUES_ONLY)
def test_a_map_whose_graph_does_not_tell_its_derivative_is_not_taken_for_differentiable(relu_scene, name):
    own = Own(VALUES_ONLY[name], name)
    assert checked(own, *relu_scene).level is Level.OK
    seen = differentiable(own, *relu_scene)
    assert seen.level is Level.FAIL
    assert f"{name} cannot be differentiated" in seen.message
    assert "--smooth" in seen.hint


@pytest.mark.parametrize(
    ("own", "arguments"),
    [(f"{FILE}:gradient", {}), ("captum:Saliency", {"abs": False}), ("reference.own_maps:gradient", {})],
)
def test_saliency_of_one_s_own_has_the_bounds_of_saliency(own, arguments, smooth_cnn, images):
    data, common = (images(2, 1, 5, 5).float(), None), {"dtype": "float64", "slack": 1e-7, "eps": (0.1,)}
    ours, theirs = (
        bound(smooth_cnn(), data, attribution=name, **more, **common)
        for name, more in (("saliency", {}), (own, {"attribution_args": arguments}))
    )
    for one, other in zip(ours, theirs, strict=True):
        for column in ("T_e", "T_e_corrected", "g_norm", "eta", "top_k_bound", "mass_centre_bound"):
            assert other[column] == pytest.approx(one[column], rel=1e-6), column


def test_arguments_reach_the_function():
    once, twice = (
        attrcert("bound", *FEW, "--attribution", f"{FILE}:gradient", *more).rows
        for more in ((), ("--attribution-arg", "scale=2.0"))
    )
    assert float(twice[0]["g_norm"]) == pytest.approx(2 * float(once[0]["g_norm"]))
    assert twice[0]["attribution"] == "own_maps.py:gradient(scale=2.0)"


@pytest.mark.parametrize("noise", ["gaussian", "uniform"])
def test_values_alone_are_certified_by_smoothing_in_the_dimension_of_the_noise(noise):
    words = ("--smooth", noise, "--samples", 200, "--attribution", f"{FILE}:occlusion", *FEW)
    (row, _) = attrcert("bound", *words, "--eps", 0.01).rows
    assert 0 < float(row["cosine"]) < 1
    assert row["guarantee"] == "confidence"
    if noise == "uniform":
        sigma = float(row["radius"]) / 28  # the root of 784 pixels, where a map has 28 entries
        assert float(row["gaussian_sigma"]) == pytest.approx(sigma)
    else:
        other = attrcert("bound", "--smooth", noise, "--samples", 200, *FEW, "--eps", 0.01).rows[0]
        assert row["tau"] == other["tau"]


def test_coarser_maps_are_smoothed_attacked_and_drawn(tmp_path):
    own = ("--attribution", f"{FILE}:coarse", "--limit", 1, "--quiet")
    npz, rows = tmp_path / "maps.npz", tmp_path / "rows.csv"
    noise = ("--smooth", "gaussian", "--samples", 100)
    pixels = ("--certify-pixels", "10%", "--out", npz, "--csv", rows, "--png", tmp_path / "png")
    done = attrcert("smooth", *own, *noise, *pixels)
    assert done.code == 0, done.err
    with np.load(npz) as maps:
        assert maps["map"].shape == (1, 1, 14, 14)
        assert maps["pixel_side"].shape == (1, 14, 14)
    turned = attrcert("attack", *own, *noise, "--steps", 2, "--format", "csv")
    assert turned.code == 0, turned.err
    attacks, deltas = tmp_path / "attacks.csv", tmp_path / "deltas.safetensors"
    quick = ("--steps", 3, "--random-draws", 5, "--restarts", 0, "--attack", "euclidean,manipulate", "--transfer", "sm")
    attacked = attrcert("attack", *own, *quick, "--out", attacks, "--save-deltas", deltas, "--format", "csv")
    assert attacked.code == 0, attacked.err
    assert all(float(row["T_hat_e"]) > 0 and 0 < float(row["mass_centre"]) < 20 for row in attacked.rows)
    page = tmp_path / "page.html"
    shown = attrcert("report", attacks, rows, "--deltas", deltas, "-o", page)
    assert shown.code == 0, shown.err
    assert "no pictures" not in shown.err
    assert "data:image/png" in page.read_text()


@pytest.mark.parametrize(
    ("attribution", "said"),
    [
        (f"{FILE}:mixing", "own_maps.py:mixing mixes the samples of a batch"),
        (f"{FILE}:noisy", "two calls of own_maps.py:noisy differ by"),
        (f"{FILE}:not_numbers", "own_maps.py:not_numbers is NaN or infinite at all of the first samples"),
        (f"{FILE}:summed", "own_maps.py:summed must return maps of shape (2, ...), one for each input, got ()"),
        (f"{FILE}:whole", "own_maps.py:whole must return floating-point numbers, got torch.int64"),
        (f"{FILE}:failing", "own_maps.py:failing failed on inputs of shape (2, 1, 28, 28): KeyError: 'layer9'"),
        (
            f"{FILE}:occlusion",
            "own_maps.py:occlusion cannot be differentiated: the graph of its maps does not reach the input",
        ),
        (f"{FILE}:half_detached", "a part of it is detached"),
        (f"{FILE}:absent", "has no callable 'absent'"),
        ("nowhere.py:f", "there is no file nowhere.py"),
        (str(FILE), f"must be {FILE}:FUNCTION"),
        ("captum:Salency", "did you mean 'Saliency'?"),
        ("captum:DeepLift", "--attribution-arg of captum:DeepLift must be one of"),
        ("captum:GradientShap", "e.g. --attribution-arg baselines=0"),
    ],
)
def test_what_is_wrong_with_it_is_told(attribution, said):
    more = ("--attribution-arg", "epsilon=1") if attribution == "captum:DeepLift" else ()
    done = attrcert("bound", *FEW, "--attribution", attribution, *more)
    assert done.code in (2, 3)
    assert said in done.said


def test_layers_are_found_by_name_and_the_last_convolution_is_told():
    told = attrcert("bound", "--limit", 1, "--quiet", "--attribution", "captum:LayerGradCam")
    assert "of the layer 2, the last convolution" in told.shown
    other = attrcert("bound", *FEW, "--attribution", "captum:LayerGradCam", "--attribution-arg", "layer=0")
    assert other.rows[0]["attribution"] == "captum:LayerGradCam(layer=0)"
    wrong = attrcert("bound", *FEW, "--attribution", "captum:LayerGradCam", "--attribution-arg", "layer=conv9")
    assert "--attribution-arg layer must be one of 0, 1, 2" in wrong.said


def test_arguments_are_refused_where_nothing_takes_them():
    done = attrcert("bound", *FEW, "--attribution-arg", "scale=2")
    assert "--attribution-arg has no effect here" in done.said


def test_a_changed_file_refuses_to_be_resumed(tmp_path):
    file, out = tmp_path / "mine.py", tmp_path / "rows.csv"
    file.write_text(FILE.read_text())
    run = partial(attrcert, "bound", "--limit", 1, "--quiet", "--attribution", f"{file}:gradient", "--out", out)
    assert run().code == 0
    assert run("--resume").code == 0
    identity = json.loads((tmp_path / "rows.csv.json").read_text())["identity"]
    assert identity["attribution"] == "mine.py:gradient"
    file.write_text(FILE.read_text() + "\n# another\n")
    done = run("--resume")
    assert done.code == 2
    assert "attribution_source was" in done.said


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_a_search_by_values_alone_goes_on_where_sampling_ends(norm):
    words = ("--attribution", f"{FILE}:occlusion", "--norm", norm, "--eps", 0.05, "--random-draws", 10, "--restarts", 0)
    run = partial(attrcert, "attack", *FEW, *words, "--attack", "search,random", "--dtype", "float64")
    short, long = (run("--steps", steps).rows for steps in (3, 25))
    for searched, further, sampled in zip(short[::2], long[::2], long[1::2], strict=True):
        assert float(further["T_hat_e"]) > float(searched["T_hat_e"]) >= float(sampled["T_hat_e"]) > 0
        assert float(further["delta_norm"]) <= 0.05
        assert (further["T_e"], further["tightness"], further["guarantee"]) == ("", "", "empirical")
    again = run("--steps", 25, "--batch-size", 1).rows
    reached, alone = ([float(row["T_hat_e"]) for row in rows] for rows in (long, again))
    assert alone == pytest.approx(reached, rel=1e-6)


def test_what_needs_derivatives_is_refused_by_name_and_no_bound_is_said_to_be_vacuous():
    own = ("--attribution", f"{FILE}:occlusion", "--limit", 1, "--quiet", "--random-draws", 2, "--steps", 1)
    refused = attrcert("attack", *own)
    assert "cannot be differentiated" in refused.said
    assert "--attack search" in refused.said
    assert "--ball needs derivatives" in attrcert("attack", *own, "--attack", "search", "--ball").said
    shown = attrcert("attack", *own, "--attack", "search")
    assert shown.code == 0, shown.err
    assert "have no T_c, since" not in shown.shown


def test_a_differentiable_map_is_bounded_beside_a_search():
    own = ("--attribution", f"{FILE}:coarse", "--limit", 1, "--quiet", "--format", "csv", "--random-draws", 2)
    (row,) = attrcert("attack", *own, "--attack", "search", "--steps", 2, "--restarts", 0).rows
    assert 0 < float(row["T_hat_e"]) <= 1.1 * float(row["T_e"])


class Functional(nn.Module):
    """Three linear layers between which activations are called as functions, or are modules; none of them where there is no name."""

    def __init__(self, function=None, module=None):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)])
        self.function, self.module = function, module

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            x = self.function(x) if self.function else x
            x = self.module(x) if self.module else x
        return x


@pytest.mark.parametrize(
    ("method", "network", "said"),
    [
        ("GuidedBackprop", Functional(torch.relu), "calls functions: relu in the model"),
        ("Deconvolution", Functional(nn.functional.relu, nn.ReLU()), "calls functions: relu in the model"),
        ("NeuronGuidedBackprop", Functional(torch.relu_), "calls functions: relu"),
        ("GuidedBackprop", Functional(None, nn.GELU()), "needs modules of the kind nn.ReLU, and the network has none"),
        ("DeepLiftShap", Functional(torch.sigmoid), "calls functions: sigmoid"),
        ("DeepLift", Functional(nn.functional.gelu), "and the network has none"),
        ("LRP", Functional(torch.tanh), "calls functions: tanh"),
    ],
)
def test_a_method_of_hooks_is_refused_where_activations_are_no_modules(method, network, said):
    f, x = Classifier(network.double().eval(), beta=5.0), torch.rand(2, 4, dtype=torch.float64)
    with pytest.raises(AttributionError) as refused:
        checked(Own(CaptumMethod(method, {}), method), f, x)
    assert said in refused.value.message
    assert f"captum:{method}" in refused.value.message


@pytest.mark.parametrize("method", ["GuidedBackprop", "DeepLift", "Saliency"])
def test_modules_are_hooked_and_other_methods_need_none(method):
    modules = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))
    network = Functional(torch.relu) if method == "Saliency" else modules
    f, x = Classifier(network.double().eval(), beta=5.0), torch.rand(2, 4, dtype=torch.float64)
    own = Own(CaptumMethod(method, {}), method)
    assert checked(own, f, x).level is Level.OK


def test_a_number_is_enough_for_baselines():
    network = nn.Sequential(nn.Linear(4, 4), nn.Softplus(), nn.Linear(4, 3)).double().eval()
    f, x, y = Classifier(network, beta=None), torch.rand(2, 4, dtype=torch.float64), torch.tensor([0, 2])
    method = CaptumMethod("DeepLiftShap", {"baselines": 0.5})
    method.check()
    one = Own(CaptumMethod("DeepLift", {"baselines": 0.5}), "one").value(f, x, y)
    torch.testing.assert_close(Own(method, "shap").value(f, x, y), one)
    assert "seeds them" in checked(Own(CaptumMethod("GradientShap", {"baselines": 0}), "shap"), f, x).hint


def test_a_function_can_be_given_itself(smooth_cnn, images):
    data, common = (images(2, 1, 5, 5).float(), None), {"dtype": "float64", "slack": 1e-7, "eps": (0.1,)}
    mine = bound(smooth_cnn(), data, attribution=[own_maps.gradient, "saliency"], **common)
    assert [row["attribution"] for row in mine[::2]] != ["saliency"] * 2
    by_name = bound(smooth_cnn(), data, attribution="reference.own_maps:gradient", **common)
    told = [row for row in mine if row["attribution"] != "saliency"]
    assert [(row["attribution"], row["T_e"]) for row in told] == [(row["attribution"], row["T_e"]) for row in by_name]
    (source,) = mine.manifest["identity"]["attribution_source"]
    assert source == hashlib.sha256(inspect.getsource(own_maps.gradient).encode()).hexdigest()
    doubled = bound(smooth_cnn(), data, attribution=partial(own_maps.gradient, scale=2.0), **common)
    assert doubled[0]["g_norm"] == pytest.approx(2 * by_name[0]["g_norm"])
    assert doubled.manifest["identity"]["attribution_source"] == ["unknown"]
    smoothed = bound(
        smooth_cnn(),
        data,
        attribution="smooth-grad",
        smooth_base=lambda *given: own_maps.gradient(*given),
        noise_draws=2,
        **common,
    )
    assert "base=test_own_attributions.py:" not in smoothed[0]["attribution"]
    assert "<lambda>" in smoothed[0]["attribution"]
