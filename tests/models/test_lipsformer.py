"""LipsFormer: published counts by arithmetic, the whole network by hand, paper against released form."""

from functools import partial

import pytest
import torch
from torch import nn

from relearn.layers.center_norm import CenterNorm
from relearn.layers.weighted_residual import WeightedResidual
from relearn.models import timm_names
from relearn.models.lipsformer import LipsFormer
from relearn.models.shifted_windows import ShiftedWindowAttention

from .conftest import awake

TINY = dict(img_size=32, num_classes=3, embed_dim=8, depths=(2, 2), num_heads=(2, 4), window=4)


def tiny(**more):
    torch.manual_seed(0)
    return LipsFormer(**(TINY | more)).double()


def swin_count(dim, depths, heads, classes=1000, window=7):
    """Convolutions, attention, feed-forward, two norms and four α in a block; Swin's merging between stages."""
    total = 48 * dim + dim + 2 * dim
    for stage, depth in enumerate(depths):
        if stage:
            total += 2 * 4 * dim + 4 * dim * 2 * dim
            dim *= 2
        convs = 2 * (49 * dim + dim) + dim * dim + dim
        attention = 4 * (dim * dim + dim) + (2 * window - 1) ** 2 * heads * 2**stage
        mlp = 8 * dim * dim + 5 * dim
        total += depth * (convs + attention + mlp + 2 * 2 * dim + 4 * dim)
    return total + 2 * dim + dim * classes + classes


def cswin_count(dim, depths, classes=1000):
    """The same block with a 3 x 3 convolution of the values for the table; a 2 x 2 convolution between stages."""
    total = 48 * dim + dim + 2 * dim
    for stage, depth in enumerate(depths):
        if stage:
            total += 4 * dim * 2 * dim + 2 * dim + 2 * 2 * dim
            dim *= 2
        convs = 2 * (49 * dim + dim) + dim * dim + dim
        attention = 4 * (dim * dim + dim) + 9 * dim + dim
        mlp = 8 * dim * dim + 5 * dim
        total += depth * (convs + attention + mlp + 2 * 2 * dim + 4 * dim)
    return total + 2 * dim + dim * classes + classes


@pytest.mark.parametrize(
    ("name", "expected", "truth"),
    [
        ("lipsformer_swin_tiny", 30_908_578, partial(swin_count, 96, (2, 2, 6, 2), 3)),
        ("lipsformer_swin_small", 54_479_794, partial(swin_count, 96, (2, 2, 18, 2), 3)),
        ("lipsformer_swin_base", 96_011_168, partial(swin_count, 128, (2, 2, 18, 2), 4)),
        ("lipsformer_swin_large", 214_131_580, partial(swin_count, 192, (2, 2, 18, 2), 6)),
        ("lipsformer_swin_large_plus_plus", 478_908_700, partial(swin_count, 288, (2, 2, 18, 2), 6)),
        ("lipsformer_cswin_tiny", 23_781_160, partial(cswin_count, 64, (1, 2, 21, 1))),
        ("lipsformer_cswin_small", 37_506_856, partial(cswin_count, 64, (2, 4, 32, 2))),
        ("lipsformer_cswin_base", 83_053_768, partial(cswin_count, 96, (2, 4, 32, 2))),
    ],
)
def test_published_sizes_have_their_parameters(parameters, name, expected, truth):
    _, size = timm_names.NAMES[name]
    with torch.device("meta"):
        counts = {parameters(LipsFormer(**size))}
        if "cswin" not in name and "large" not in name:
            counts.add(parameters(LipsFormer(**size, as_released=True)))
    assert counts == {expected} == {truth()}


@pytest.mark.parametrize("released", [False, True])
def test_the_network_is_its_parts_in_order(released):
    net = awake(tiny(as_released=released))
    x = torch.randn(2, 3, 32, 32, dtype=torch.double)
    stem = net.patch_embed
    patches = x.reshape(2, 3, 8, 4, 8, 4).permute(0, 2, 4, 1, 3, 5).flatten(3)
    h = stem.norm(patches @ stem.proj.weight.flatten(1).T + stem.proj.bias)
    for index, stage in enumerate(net.layers):
        if index:
            merge = stage[0]
            corners = [h[:, 0::2, 0::2], h[:, 1::2, 0::2], h[:, 0::2, 1::2], h[:, 1::2, 1::2]]
            h = merge.norm(torch.cat(corners, -1)) @ merge.reduction.weight.T
        for block in list(stage)[1:]:
            h = block(h)
    logits = net.norm(h).mean((1, 2)) @ net.head.fc.weight.T + net.head.fc.bias
    torch.testing.assert_close(net(x), logits)
    assert sum(isinstance(one, CenterNorm) for one in net.modules()) == 2 * 4 + 3
    assert not any(isinstance(one, nn.LayerNorm) for one in net.modules())


def test_paper_and_released_form_differ_in_what_the_table_says():
    paper, released = tiny(), tiny(as_released=True)
    shapes = [{name: one.shape for name, one in net.state_dict().items()} for net in (paper, released)]
    assert shapes[0] == shapes[1]
    for net, shifts, tau, values in (
        (paper, [(0, 0), (2, 2), (0, 0), (0, 0)], 12.0, True),
        (released, [(0, 0)] * 4, 10.0, False),
    ):
        windows = [one for one in net.modules() if isinstance(one, ShiftedWindowAttention)]
        assert [one.shift for one in windows] == shifts
        assert {one.attention.tau for one in windows} == {tau}
        assert {one.attention.normalise_values for one in windows} == {values}
        assert [one.attention.gain for one in windows] == ([0.5, 0.5, 0.25, 0.25] if values else [1] * 4)
        alphas = [one.alpha for one in net.modules() if isinstance(one, WeightedResidual)]
        assert len(alphas) == 16 and all(torch.equal(one, torch.full_like(one, 1 / 4)) for one in alphas)


def test_only_the_paper_form_forgets_the_length_of_values():
    x = torch.randn(2, 3, 32, 32, dtype=torch.double)
    for more, forgets in ((dict(eps=1e-24), True), (dict(as_released=True), False)):
        net = tiny(**more)
        before = net(x)
        for one in net.modules():
            if isinstance(one, ShiftedWindowAttention):
                one.attention.qkv.weight.data *= 5
        assert torch.allclose(before, net(x), rtol=1e-8) is forgets


def test_the_released_rows_are_torchs_normalize():
    net = tiny(as_released=True)
    attention = net.layers[0][1].attention.attention
    u = torch.randn(3, 4, dtype=torch.double)
    ours = u / (u.square().sum(-1, keepdim=True) + attention.eps).sqrt()
    torch.testing.assert_close(ours, nn.functional.normalize(u, dim=-1), rtol=1e-14, atol=0)


def test_arguments_reach_the_parts():
    net = tiny(tau=3.0, nu=2.0, eps=0.1, alpha=0.75, window=(4, 2), mlp_ratio=2.0, drop_path_rate=0.3)
    windows = [one for one in net.modules() if isinstance(one, ShiftedWindowAttention)]
    assert {(one.attention.tau, one.attention.nu, one.attention.eps) for one in windows} == {(3.0, 2.0, 0.1)}
    assert [one.window for one in windows] == [(4, 4), (4, 4), (2, 2), (2, 2)]
    joins = [one for one in net.modules() if isinstance(one, WeightedResidual)]
    assert all(torch.equal(one.alpha, torch.full_like(one.alpha, 0.75)) for one in joins)
    assert [one.drop_path for one in joins] == pytest.approx([0] * 4 + [0.1] * 4 + [0.2] * 4 + [0.3] * 4)
    assert net.layers[1][1].mlp.fc1.weight.shape == (32, 16)
    assert net.no_weight_decay() == {
        f"layers.{s}.{i}.attention.relative_position_bias_table" for s in (0, 1) for i in (1, 2)
    }


def test_spectral_start_makes_every_flattened_weight_of_norm_one():
    for more in (dict(), dict(windows="cross", window=(1, 2))):
        for start, is_one in (("spectral", True), ("xavier", False), ("truncated", False)):
            net = tiny(start=start, **more)
            weights = [one for one in net.modules() if isinstance(one, nn.Linear | nn.Conv2d)]
            norms = torch.stack([torch.linalg.matrix_norm(one.weight.flatten(1), 2) for one in weights])
            assert torch.allclose(norms, torch.ones_like(norms), atol=1e-4) is is_one
            assert not any(one.bias.any() for one in weights if one.bias is not None)


def test_the_other_starts_have_their_deviations():
    net = tiny(embed_dim=32, start="xavier")
    for one in (net.layers[1][1].mlp.fc1, net.layers[1][1].convs[0][2]):
        outs, ins = one.weight.shape[:2]
        assert one.weight.std().item() == pytest.approx((2 / (ins + outs)) ** 0.5, rel=0.05)
    depthwise = net.layers[1][1].convs[0][0]  # fan-in 49, fan-out 64 · 49
    assert depthwise.weight.std().item() == pytest.approx((2 / (49 * 65)) ** 0.5, rel=0.05)
    net = tiny(embed_dim=32, start="truncated")
    assert net.layers[1][1].mlp.fc1.weight.std().item() == pytest.approx(0.02, rel=0.05)


@pytest.mark.parametrize(
    "more",
    [
        dict(windows="cross", window=(1, 2)),
        dict(windows="cross", window=(1, 2), similarity="l2", norm_kind="none", conv="C"),
        dict(windows="cross", window=(1, 2), similarity="dot_product", norm_kind="layer", conv="A"),
        dict(img_size=(20, 36), window=3),
        dict(img_size=8, patch_size=1, in_chans=1),
    ],
)
def test_every_form_learns(more):
    net = tiny(**more).float()
    x = torch.randn(2, net.in_chans, *net.img_size)
    net(x).square().sum().backward()
    assert [name for name, one in net.named_parameters() if one.grad is None or not one.grad.any()] == []
    assert net.bfloat16()(x.bfloat16()).dtype == torch.bfloat16


def test_what_does_not_fit_is_refused():
    for more, said in (
        (dict(windows="round"), "windows: 'round'"),
        (dict(start="kaiming"), "start: 'kaiming'"),
        (dict(windows="cross", as_released=True), "as_released: True with cross-shaped"),
        (dict(similarity="l2"), "similarity: 'l2' in square windows"),
        (dict(window=(4, 4, 4)), "one for each of 2 stages"),
        (dict(depths=(0, 0)), "depths"),
        (dict(norm_kind="batch"), "norm: 'batch'"),
        (dict(num_heads=(3, 4)), "heads: 3 of width 8"),
        (dict(img_size=30), "28 and 32 fit"),
    ):
        with pytest.raises(ValueError, match=said) as caught:
            tiny(**more)
        assert "\n" not in str(caught.value)
    assert tiny(num_heads=(1, 1))(torch.zeros(1, 3, 32, 32, dtype=torch.double)).shape == (1, 3)
