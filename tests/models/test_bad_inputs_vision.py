"""What vision networks meet in practice: flat images and tokens, one head, empty stages, sizes that do not fit."""

import pytest
import torch
from torch import nn

from relearn.layers.center_norm import CenterNorm
from relearn.layers.cosine_attention import CosineAttention
from relearn.layers.lrsa import LRSA
from relearn.models.cswin import CSwin
from relearn.models.lipsformer import LipsFormer
from relearn.models.residual_schemes import SCHEMES
from relearn.models.residual_vit import ResidualViT

STAGES = dict(img_size=32, num_classes=3, embed_dim=8, depths=(1, 1), num_heads=(2, 4))
VIT = dict(img_size=8, patch_size=2, num_classes=3, embed_dim=12, num_heads=3, depth=2)
NETWORKS = {
    "lipsformer_swin": lambda **more: LipsFormer(**(STAGES | dict(window=4) | more)),
    "lipsformer_swin_released": lambda **more: LipsFormer(
        **(STAGES | dict(window=4, as_released=True) | more)
    ),
    "lipsformer_cswin": lambda **more: LipsFormer(**(STAGES | dict(windows="cross", window=(1, 2)) | more)),
    "cswin": lambda **more: CSwin(**(STAGES | dict(split=(1, 2)) | more)),
    **{one: lambda one=one, **more: ResidualViT(**(VIT | dict(residual=one) | more)) for one in SCHEMES},
    "class_attention": lambda **more: ResidualViT(**(VIT | dict(class_token="class_attention") | more)),
    "lrformer": lambda **more: ResidualViT(
        **(VIT | dict(residual="layer_scale", attention="lrsa", head="gp") | more)
    ),
}
VITS = [*SCHEMES, "class_attention", "lrformer"]


def made(name, **more):
    torch.manual_seed(0)
    return NETWORKS[name](**more)


@pytest.mark.parametrize("value", [0.0, 1.0, 1e-20, 1e4])
@pytest.mark.parametrize("name", NETWORKS)
def test_an_image_of_one_value_has_finite_logits_and_gradients(name, value):
    """Every patch alike; with 0 and without biases every token is 0 but for its position."""
    net = made(name)
    x = torch.full((2, net.in_chans, *net.img_size), value, requires_grad=True)
    y = net(x)
    assert torch.isfinite(y).all() and torch.equal(y[0], y[1])
    y.square().sum().backward()
    assert torch.isfinite(x.grad).all()
    assert all(torch.isfinite(one.grad).all() for one in net.parameters() if one.grad is not None)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("value", [0.0, 3.0, 1e-15])
def test_tokens_without_variance_in_every_layer_that_divides(value, dtype):
    """All channels of a token alike: no deviation to divide by; with 0 no length either."""
    torch.manual_seed(0)
    layers = [
        CenterNorm(8),
        nn.LayerNorm(8),
        LRSA(8, 2, alpha=2.0),
        CosineAttention(8, 2),
        CosineAttention(8, 2, normalise_values=False, average_heads=False),
    ]
    for layer in layers:
        x = torch.full((2, 5, 8), value, dtype=dtype, requires_grad=True)
        y = layer.to(dtype)(x)
        assert y.dtype == dtype and torch.isfinite(y).all()
        y.float().sum().backward()
        assert torch.isfinite(x.grad).all(), type(layer)
        assert all(torch.isfinite(one.grad).all() for one in layer.parameters())
        # equal tokens attend to each other alike: outputs are equal, too
        torch.testing.assert_close(y, y[:1, :1].expand_as(y))


def test_one_token_without_variance_among_others():
    """The others are what they would be; the centred token is the shift of CenterNorm."""
    torch.manual_seed(0)
    x = torch.randn(1, 4, 8, dtype=torch.double)
    x[0, 2] = 7.0
    norm = CenterNorm(8).double()
    nn.init.normal_(norm.bias)
    y = norm(x)
    torch.testing.assert_close(y[0, 2], norm.bias.detach())
    torch.testing.assert_close(y[:, :2], norm(x[:, :2]))
    for attention in (LRSA(8, 2, alpha=2.0), CosineAttention(8, 2)):
        y = attention.double()(norm(x))
        assert torch.isfinite(y).all()


@pytest.mark.parametrize("name", ["lipsformer_swin", "lipsformer_swin_released", *VITS])
def test_one_head_will_do(name):
    heads = 1 if name in VITS else (1, 1)
    net = made(name, num_heads=heads)
    y = net(torch.randn(2, net.in_chans, *net.img_size))
    assert y.shape == (2, 3) and torch.isfinite(y).all()


def test_one_head_has_one_direction_too_few_for_a_cross():
    for name in ("lipsformer_cswin", "cswin"):
        with pytest.raises(ValueError, match=r"heads: 1 in two directions \(allowed: an even number\)"):
            made(name, num_heads=(1, 2))


@pytest.mark.parametrize("name", NETWORKS)
def test_no_block_no_head_no_fitting_size_is_one_line(name):
    vit = name in VITS
    cases = [
        (
            dict(depth=0) if vit else dict(depths=(1, 0)),
            "allowed: at least 1" if vit else "a number >= 1 for each",
        ),
        (dict(num_heads=0) if vit else dict(num_heads=(0, 2)), "heads: "),
        (dict(num_heads=5) if vit else dict(num_heads=(3, 4)), "allowed: a divisor"),
        (dict(img_size=9) if vit else dict(img_size=30), "8 and 10 fit" if vit else "28 and 32 fit"),
        (dict(img_size=(8, 0)) if vit else dict(img_size=(32, 0)), "img_size"),
        (dict(patch_size=0), "patch_size: 0"),
    ]
    for more, said in cases:
        with pytest.raises(ValueError) as caught:
            made(name, **more)
        assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", NETWORKS)
def test_images_of_another_size_or_channels_are_one_line(name):
    net = made(name)
    height, width = net.img_size
    for shape in ((3, height, width + 4), (1, height, width), (3, height)):
        with pytest.raises(ValueError, match="allowed") as caught:
            net(torch.zeros(2, *shape))
        assert "\n" not in str(caught.value)


def test_a_grid_that_is_no_multiple_of_the_window_is_filled_up():
    """Windows of 3 on a grid of 8 and one of 4: the filling is seen by nobody (tests/models/test_windows.py)."""
    for name, window in (
        ("lipsformer_swin", dict(window=3)),
        ("lipsformer_cswin", dict(window=(3, 3))),
        ("cswin", dict(split=(3, 3))),
    ):
        y = made(name, **window)(torch.randn(2, 3, 32, 32))
        assert y.shape == (2, 3) and torch.isfinite(y).all()


def test_what_is_not_finite_stays_in_its_own_image():
    for name in NETWORKS:
        net = made(name).eval()
        x = torch.randn(2, net.in_chans, *net.img_size)
        expected = net(x)
        x[0, 0, 0, 0] = float("nan")
        y = net(x)
        torch.testing.assert_close(y[1], expected[1], rtol=1e-4, atol=1e-5)
        assert not torch.isfinite(y[0]).any(), name


def test_no_variance_of_a_gaussian_head_before_its_fit():
    net = made("lrformer").eval()
    rows = net.forward_head(net.forward_features(torch.randn(4, 3, 8, 8)), pre_logits=True).detach()
    with pytest.raises(RuntimeError, match="variance: no point in the precision") as caught:
        net.get_classifier().variance(rows)
    assert "\n" not in str(caught.value)
    with pytest.raises(RuntimeError, match="fit: no point"):
        net.get_classifier().fit([])
    net.get_classifier().fit([rows])
    assert torch.isfinite(net.get_classifier().variance(rows)).all()
