"""Attention, layer norm and GELU: vision transformers, Swin and ConvNeXt of torchvision and timm are bounded, attacked and smoothed."""

import pytest
import torch
from torch import nn
from torch.autograd.functional import hessian
from torch.nn.attention import SDPBackend, sdpa_kernel

import attrcert
from attrcert.errors import ModelError
from attrcert.loading.vision import torchvision

models = torchvision("models")
import timm  # noqa: E402

Swin = torchvision("models.swin_transformer").SwinTransformer
convnext = torchvision("models.convnext")
TOKENS = {"img_size": 8, "patch_size": 4, "num_classes": 3}
BLOCKS = [convnext.CNBlockConfig(8, 16, 1), convnext.CNBlockConfig(16, None, 1)]
STAGES = {"depths": (1, 1), "embed_dim": 8, "num_heads": (2, 2), "window_size": 2}
# how to build each, and what of it the proved bound has no rule for; None where it reads it
NETWORKS = {
    "torchvision ViT": (
        lambda: models.VisionTransformer(8, 4, 1, 2, 16, 32, num_classes=3),
        r"encoder\.layers\.encoder_layer_0\.self_attention \(MultiheadAttention\), after eq",
    ),
    "torchvision Swin": (
        lambda: Swin([2, 2], 8, [1, 1], [2, 2], [2, 2], num_classes=3),
        r"shifted_window_attention in features\.1\.0\.attn",
    ),
    "torchvision ConvNeXt": (lambda: convnext.ConvNeXt(BLOCKS, 0.0, num_classes=3), None),
    "timm ViT": (
        lambda: timm.create_model("vit_tiny_patch16_224", embed_dim=16, depth=1, num_heads=2, **TOKENS),
        r"no rule for a permutation that moves the batch in blocks\.0\.attn",
    ),
    "timm Swin": (
        lambda: timm.create_model("swin_tiny_patch4_window7_224", **{**TOKENS, "patch_size": 2, **STAGES}),
        r"no rule for a reshape to \(4, 2, 2, 8\), which mixes samples in layers\.0\.blocks\.0",
    ),
}


@pytest.fixture(params=NETWORKS)
def name(request) -> str:
    return request.param


@pytest.fixture
def network(name) -> nn.Module:
    """With weights that are large enough for its gradient to change."""
    rng = torch.Generator().manual_seed(0)
    made = NETWORKS[name][0]().double().eval().requires_grad_(False)
    for key, parameter in made.named_parameters():
        spread = torch.randn(parameter.shape, generator=rng, dtype=torch.float64)
        parameter.copy_(1 + 0.1 * spread if parameter.ndim == 1 and "weight" in key else 0.3 * spread)
    return made


@pytest.fixture
def data() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return x, torch.zeros(2, dtype=torch.long)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_xi_encloses_the_norm_of_the_hessian(network, data):
    rows = attrcert.bound(network, data, dtype="float64")
    for row, image in zip(rows, data[0], strict=True):
        with sdpa_kernel(SDPBackend.MATH):  # whose gradient has a derivative
            whole = hessian(lambda x, y=row["target"]: network(x[None])[0, y], image).reshape(192, 192)
        top = torch.linalg.matrix_norm(whole, 2).item()
        assert row["status"] == "ok"
        assert 0 < row["xi_lower"] <= top * (1 + 1e-9)
        assert top <= row["xi_upper"] <= 1.02 * top


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_attacks_and_smoothing_run(network, data):
    attacked = attrcert.attack(network, data, dtype="float64", steps=3, restarts=0, random_draws=5)
    assert all(row["T_hat_e"] > 0 for row in attacked)
    smoothed = attrcert.bound(network, data, smooth="uniform", radius=1.0, samples=50, dtype="float64")
    assert all(row["C_hat"] > 0 for row in smoothed)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", [name for name, (_, refused) in NETWORKS.items() if refused], indirect=True)
def test_the_proved_bound_refuses_them_by_operation_and_place(network, name, data):
    with pytest.raises(ModelError, match=NETWORKS[name][1]):
        attrcert.bound(network, data, proved=True, dtype="float64")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ["torchvision ConvNeXt"], indirect=True)
def test_the_proved_bound_of_convnext_is_close_where_the_ball_is_small(network, data):
    eps = [1e-5, 1e-4]
    rows = attrcert.attack(network, data, proved=True, proved_effort=0, eps=eps, attack="euclidean", dtype="float64")
    for row in rows:
        assert row["status"] == "ok"
        assert row["T_hat_e"] <= row["T_proved"] <= (1.02 if row["eps"] == 1e-5 else 1.2) * row["T_hat_e"]
