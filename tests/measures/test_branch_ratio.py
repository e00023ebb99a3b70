"""Ratios of branches to the stream: every kind of block against its own formula, and what must not change."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn

from relearn.measures.branch_ratio import branch_ratios, residual_weights
from relearn.models import timm_names
from relearn.models.cswin import CSwin
from relearn.models.lipsformer import LipsFormer
from relearn.models.residual_schemes import SCHEMES
from relearn.models.residual_vit import ResidualViT

VIT = dict(img_size=8, patch_size=2, num_classes=3, embed_dim=12, num_heads=3, depth=3)
STAGES = dict(img_size=32, num_classes=3, embed_dim=8, depths=(1, 2), num_heads=(2, 4))


@pytest.fixture(scope="module")
def timm():
    from relearn import torchvision_schema

    torchvision_schema.declare()
    timm_names.register()
    import timm

    return timm


def awake(net):
    generator = torch.Generator().manual_seed(1)
    net = net.double().eval()
    for parameter in net.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.double)
    return net


def images(side=8):
    return torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(2), dtype=torch.double)


def slow(x, branch):
    """Mean over images and tokens of two norms, token by token; channels last."""
    pairs = zip(x.flatten(0, -2), branch.flatten(0, -2))
    return torch.stack([b.square().sum().sqrt() / t.square().sum().sqrt() for t, b in pairs]).mean().item()


def compare(net, x, expected):
    found = branch_ratios(net, x)
    assert [(row["layer"], row["branch"]) for row in found] == [one[:2] for one in expected]
    assert [row["ratio"] for row in found] == pytest.approx([one[2] for one in expected], rel=1e-9)
    assert len({row["ratio"] for row in found}) == len(found)


def residual_blocks(net, h):
    """Stream behind the blocks of a ResidualViT, and what is expected of them."""
    rows = []
    for layer, block in enumerate(net.blocks):
        parts = (
            ("attention", block.norm1, block.attn, block.join1),
            ("mlp", block.norm2, block.mlp, block.join2),
        )
        for name, norm, f, join in parts:
            behind = net.residual == "post_norm"
            branch = f(h if behind else norm(h)) * (1 if join.alpha is None else join.alpha)
            rows.append((layer, name, slow(h, branch)))
            h = norm(h + branch) if behind else h + branch
    return h, rows


def class_blocks(blocks, first, h, token):
    rows = []
    for layer, block in enumerate(blocks, first):
        branch = block.gamma_1 * block.attn(block.norm1(torch.cat([token, h], 1)))
        rows.append((layer, "class_attention", slow(token, branch)))
        token = token + branch
        branch = block.gamma_2 * block.mlp(block.norm2(token))
        rows.append((layer, "class_mlp", slow(token, branch)))
        token = token + branch
    return rows


@pytest.mark.parametrize("residual", SCHEMES)
@torch.no_grad()
def test_ratios_of_residual_vit_are_those_of_a_slow_pass(residual):
    net = awake(
        ResidualViT(residual=residual, class_token="class_attention", drop_path_rate=0.5, **VIT)
    ).train()
    x = images()
    h, rows = residual_blocks(net.eval(), net.patch_embed(x) + net.pos_embed)
    rows += class_blocks(net.class_blocks, 3, h, net.cls_token.expand(2, -1, -1))
    compare(net.train(), x, rows)


@torch.no_grad()
def test_ratios_of_cait_are_those_of_a_slow_pass(timm):
    net = awake(timm.create_model("cait_xxs24_224", **(VIT | dict(num_heads=2))))
    h, rows, x = net.patch_embed(images()) + net.pos_embed, [], images()
    for layer, block in enumerate(net.blocks):
        branch = block.gamma_1 * block.attn(block.norm1(h))
        rows.append((layer, "attention", slow(h, branch)))
        h = h + branch
        branch = block.gamma_2 * block.mlp(block.norm2(h))
        rows.append((layer, "mlp", slow(h, branch)))
        h = h + branch
    rows += class_blocks(net.blocks_token_only, 3, h, net.cls_token.expand(2, -1, -1))
    compare(net, x, rows)


@pytest.mark.parametrize("name", ["deit3_small_patch16_224", "deit_tiny_patch16_224"])
@torch.no_grad()
def test_ratios_of_vit_are_those_of_a_slow_pass(timm, name):
    net = awake(timm.create_model(name, drop_path_rate=0.5, **VIT))
    h, rows = net._pos_embed(net.patch_embed(images())), []
    for layer, block in enumerate(net.blocks):
        branch = block.ls1(block.attn(block.norm1(h)))
        rows.append((layer, "attention", slow(h, branch)))
        h = h + branch
        branch = block.ls2(block.mlp(block.norm2(h)))
        rows.append((layer, "mlp", slow(h, branch)))
        h = h + branch
    compare(net, images(), rows)


@pytest.mark.parametrize("windows", ["square", "cross"])
@torch.no_grad()
def test_ratios_of_lipsformer_are_those_of_a_slow_pass(windows):
    window = dict(windows="cross", window=(1, 2)) if windows == "cross" else dict(window=4)
    net = awake(LipsFormer(drop_path_rate=0.5, **STAGES, **window))
    h, rows, layer = net.patch_embed(images(32)), [], 0
    for stage in net.layers:
        h = stage[0](h)
        for block in list(stage)[1:]:
            for index, (conv, join) in enumerate(zip(block.convs, block.joins)):
                branch = conv(h.permute(0, 3, 1, 2)).permute(0, 2, 3, 1) * join.alpha
                rows.append((layer, f"conv{index + 1}", slow(h, branch)))
                h = h + branch
            for name, f, join, norm in (
                ("attention", block.attention, block.join1, block.norm1),
                ("mlp", block.mlp, block.join2, block.norm2),
            ):
                branch = f(h) * join.alpha
                rows.append((layer, name, slow(h, branch)))
                h = norm(h + branch)
            layer += 1
    assert layer == 3
    compare(net, images(32), rows)


@pytest.mark.parametrize("name", ["swin_tiny_patch4_window7_224", "cswin_tiny"])
@torch.no_grad()
def test_the_networks_that_lipsformer_is_compared_with(timm, name):
    ours = name == "cswin_tiny"
    more = dict(split=(1, 2)) if ours else dict(window_size=4)
    net = awake(timm.create_model(name, drop_path_rate=0.5, **STAGES, **more))
    h, rows, layer = net.patch_embed(images(32)), [], 0
    for stage in net.layers:
        h = stage[0](h) if ours else stage.downsample(h)
        for block in list(stage)[1:] if ours else stage.blocks:
            branch = (block.attention if ours else block._attn)(block.norm1(h))
            rows.append((layer, "attention", slow(h, branch)))
            h = h + branch
            branch = block.mlp(block.norm2(h))
            rows.append((layer, "mlp", slow(h, branch)))
            h, layer = h + branch, layer + 1
    compare(net, images(32), rows)


def test_a_ratio_grows_with_its_weight_alone_and_needs_no_precision():
    """With ε = 1e-6 a float32 network adds nothing that could be found in the sum; the ratio is exact all the same."""
    torch.manual_seed(0)
    nets = [ResidualViT(residual="layer_scale", epsilon=one, **VIT) for one in (1e-6, 1e-3)]
    nets[1].load_state_dict(nets[0].state_dict())
    with torch.no_grad():
        nets[1].blocks[2].join2.alpha.mul_(-1000)
    small, large = ([row["ratio"] for row in branch_ratios(net, images().float())] for net in nets)
    assert large[:5] == small[:5] and large[5] == pytest.approx(1000 * small[5], rel=1e-5)
    assert 0 < small[5] < 1e-5
    double = [row["ratio"] for row in branch_ratios(nets[0].double(), images())]
    assert small == pytest.approx(double, rel=1e-5)
    zero = ResidualViT(residual="rezero", **VIT)
    assert {row["ratio"] for row in branch_ratios(zero, images().float())} == {0.0}


def test_a_stream_of_zeros():
    net = ResidualViT(residual="rezero", class_token="mean", **VIT)
    nn.init.zeros_(net.pos_embed)
    nn.init.zeros_(net.patch_embed.proj.bias)
    blank = torch.zeros(1, 3, 8, 8)
    assert {row["ratio"] for row in branch_ratios(net, blank)} == {0.0}
    nn.init.ones_(net.blocks[0].join1.alpha)
    nn.init.ones_(net.blocks[0].attn.proj.bias)
    assert branch_ratios(net, blank)[0]["ratio"] == float("inf")


@pytest.mark.parametrize("precision", ["bfloat16", "autocast"])
def test_half_precision_is_near(precision):
    torch.manual_seed(0)
    net = ResidualViT(residual="layer_scale", epsilon=1e-4, **VIT)
    expected = [row["ratio"] for row in branch_ratios(net, images().float())]
    x = images().float()
    if precision == "bfloat16":
        net, x = net.bfloat16(), x.bfloat16()
    with torch.autocast("cpu", torch.bfloat16) if precision == "autocast" else nullcontext():
        found = [row["ratio"] for row in branch_ratios(net, x)]
    assert found == pytest.approx(expected, rel=0.05)


def test_the_network_is_left_as_it_was():
    net = ResidualViT(residual="layer_scale", drop_path_rate=0.5, **VIT)
    net.blocks[1].eval()
    modes = [one.training for one in net.modules()]
    state = {name: one.clone() for name, one in net.state_dict().items()}
    wrapped = nn.Sequential(nn.Identity(), net)
    assert branch_ratios(wrapped, images().float()) == branch_ratios(net, images().float())
    assert [one.training for one in net.modules()] == modes
    assert all(torch.equal(one, state[name]) for name, one in net.state_dict().items())
    with pytest.raises(ValueError, match="allowed: \\('B', 3, 8, 8\\)"):
        branch_ratios(net, images(10).float())
    assert [one.training for one in net.modules()] == modes
    assert not any(one._forward_hooks or one._forward_pre_hooks for one in net.modules())
    assert all(one.grad is None for one in net.parameters())


def test_weights_are_those_of_the_branches(timm):
    net = awake(ResidualViT(residual="layer_scale", class_token="class_attention", **VIT))
    rows = residual_weights(net)
    weights = [one for block in net.blocks for one in (block.join1.alpha, block.join2.alpha)]
    weights += [one for block in net.class_blocks for one in (block.gamma_1, block.gamma_2)]
    assert [(row["layer"], row["branch"]) for row in rows] == [
        (row["layer"], row["branch"]) for row in branch_ratios(net, images())
    ]
    assert [row["stage"] for row in rows] == [0] * 6 + [1] * 4
    for row, weight in zip(rows, weights):
        sizes = [abs(value) for value in weight.tolist()]
        mean = sum(sizes) / len(sizes)
        assert row["mean"] == pytest.approx(mean)
        assert row["std"] == pytest.approx((sum((one - mean) ** 2 for one in sizes) / len(sizes)) ** 0.5)
    one = awake(ResidualViT(residual="rezero", **VIT))
    assert [(row["mean"], row["std"]) for row in residual_weights(one)] == [
        (pytest.approx(abs(join.alpha.item())), 0.0)
        for block in one.blocks
        for join in (block.join1, block.join2)
    ]
    assert residual_weights(ResidualViT(**VIT)) == []
    lips = residual_weights(nn.Sequential(LipsFormer(window=4, **STAGES)))
    assert [(row["layer"], row["stage"]) for row in lips] == [(0, 0)] * 4 + [(1, 1)] * 4 + [(2, 1)] * 4
    assert [row["mean"] for row in lips] == pytest.approx([1 / 3] * 12)
    cait = residual_weights(timm.create_model("cait_xxs24_224", **(VIT | dict(num_heads=2))))
    assert [row["mean"] for row in cait] == pytest.approx([1e-5] * 10)
    assert len(residual_weights(timm.create_model("deit3_small_patch16_224", **VIT))) == 6
    assert residual_weights(CSwin(split=(1, 2), **STAGES)) == []


def test_a_network_without_branches_is_refused():
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 3))
    for call in (lambda: branch_ratios(net, images().float()), lambda: residual_weights(net)):
        with pytest.raises(ValueError, match="net: no residual branch in Sequential"):
            call()

    class Half(ResidualViT):
        def forward_features(self, x):
            return self.blocks[0](self.patch_embed(x))

    with pytest.raises(ValueError, match="layer 1, attention, not reached"):
        branch_ratios(Half(class_token="mean", **VIT), images().float())


def test_a_convolutional_network_has_no_branches() -> None:
    import timm

    from relearn.measures.branch_ratio import has_branches

    assert not has_branches(timm.create_model("resnet18", num_classes=2))
    assert has_branches(timm.create_model("swin_tiny_patch4_window7_224", embed_dim=12, depths=(1, 1, 1, 1)))
