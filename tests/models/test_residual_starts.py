"""How the maps start: against the same draws without a scheme's factors, and against the distributions they are of."""

import math

import pytest
import torch
from torch import nn

from relearn.layers.lrsa import LRSA
from relearn.models.residual_vit import ResidualViT

DEPTH, DIM = 6, 48
CLOSE = dict(rtol=1e-6, atol=0.0)


def made(residual, **more):
    torch.manual_seed(0)
    size = dict(img_size=8, patch_size=2, in_chans=1, num_classes=5, embed_dim=DIM, num_heads=3, depth=DEPTH)
    return ResidualViT(residual=residual, **(size | more))


def maps(block):
    if isinstance(block.attn, LRSA):
        named = {name: getattr(block.attn, name).weight for name in ("q", "k", "v", "out")}
    else:
        named = {name: block.attn.qkv.weight[i * DIM : (i + 1) * DIM] for i, name in enumerate("qkv")}
        named["out"] = block.attn.proj.weight
    return named | {"fc1": block.mlp.fc1.weight, "fc2": block.mlp.fc2.weight}


def pooled(net, name):
    return torch.stack([maps(block)[name] for block in net.blocks]).detach()


def uniform_within(weight, bound, rel=0.03):
    assert weight.abs().max() <= bound * (1 + 1e-6)
    assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=rel)


@pytest.mark.parametrize("attention", ["dot_product", "lrsa"])
def test_xavier_takes_every_map_for_itself(attention):
    net = made("rezero", attention=attention)
    for name in ("q", "k", "v", "out"):
        uniform_within(pooled(net, name), math.sqrt(6 / (2 * DIM)))
    for name in ("fc1", "fc2"):
        uniform_within(pooled(net, name), math.sqrt(6 / (5 * DIM)))


def test_the_start_of_deit_and_of_he():
    deit, he = made("pre_norm"), made("skip_init")
    for name in ("q", "k", "v", "out", "fc1", "fc2"):
        assert pooled(deit, name).std().item() == pytest.approx(0.02, rel=0.03)
        inputs = pooled(he, name).shape[-1]
        assert pooled(he, name).std().item() == pytest.approx(math.sqrt(2 / inputs), rel=0.03)
        assert pooled(he, name).abs().max() > 3 * math.sqrt(2 / inputs)  # normal, not uniform
    for net in (deit, he, made("post_norm"), made("layer_scale")):
        assert net.head.weight.std().item() == pytest.approx(0.02, rel=0.2)
        assert net.pos_embed.std().item() == pytest.approx(0.02, rel=0.2)


@pytest.mark.parametrize("norm", [None, True])
def test_fixup_is_xavier_with_its_factors(norm):
    net, plain = made("fixup", norm=norm), made("rezero")
    branches = 2 * DEPTH
    for name, factor in (("q", 1.0), ("k", 1.0), ("v", branches**-0.5), ("fc1", branches**-0.5)):
        torch.testing.assert_close(pooled(net, name), factor * pooled(plain, name), **CLOSE)
    assert not pooled(net, "out").any() and not pooled(net, "fc2").any()
    assert not net.head.weight.any() and not net.head.bias.any()
    assert not made("fixup", head="gp").head.out.weight.any()
    assert all(one.join1.alpha == one.join2.alpha == 1 for one in net.blocks)
    assert net(torch.randn(2, 1, 8, 8)).tolist() == [[0.0] * 5] * 2


@pytest.mark.parametrize("attention", ["dot_product", "lrsa"])
def test_t_fixup_is_xavier_with_its_factors(attention):
    net, plain = made("t_fixup", attention=attention), made("rezero", attention=attention)
    inner, outer = 0.67 * DEPTH**-0.25, (9 * DEPTH) ** -0.25
    for name, factor in (
        ("q", 1.0),
        ("k", 1.0),
        ("v", inner),
        ("out", inner),
        ("fc1", inner),
        ("fc2", inner),
    ):
        torch.testing.assert_close(pooled(net, name), factor * pooled(plain, name), **CLOSE)
    uniform_within(net.patch_embed.proj.weight.detach(), outer * math.sqrt(6 / (4 + DIM)), rel=0.12)
    assert not net.patch_embed.proj.bias.any()
    tables = torch.cat([net.pos_embed, net.cls_token], 1)
    assert tables.std().item() == pytest.approx(outer / math.sqrt(DIM), rel=0.1)
    assert made("t_fixup", class_token="mean").pos_embed.std().item() == pytest.approx(
        outer / math.sqrt(DIM), rel=0.1
    )


@pytest.mark.parametrize("residual", ["pre_norm", "rezero", "skip_init", "fixup", "t_fixup"])
def test_no_bias_of_a_map_starts_off_zero_and_class_attention_is_deits(residual):
    net = made(residual, class_token="class_attention")
    linear = [one for one in net.modules() if isinstance(one, nn.Linear)]
    assert not any(one.bias.any() for one in linear)
    weights = torch.cat(
        [
            one.weight.flatten()
            for block in net.class_blocks
            for one in block.modules()
            if isinstance(one, nn.Linear)
        ]
    )
    assert weights.std().item() == pytest.approx(0.02, rel=0.03)


def test_lrsa_and_a_gaussian_head_keep_their_own_start_beside_deits():
    net = made("layer_scale", attention="lrsa", head="gp", gp=dict(features=64))
    uniform_within(pooled(net, "q"), math.sqrt(6 / (2 * DIM)))
    assert pooled(net, "fc1").std().item() == pytest.approx(0.02, rel=0.03)
    bound = math.sqrt(6 / (64 + 5))
    assert 0.9 * bound < net.head.out.weight.abs().max() <= bound


@pytest.mark.parametrize("residual", ["pre_norm", "layer_scale"])
def test_the_spreads_are_those_asked_for(residual):
    net = made(residual, embed_dim=96, start_std=0.1, position_std=0.4)
    drawn = torch.cat([block.mlp.fc1.weight.flatten() for block in net.blocks])
    assert drawn.std().item() == pytest.approx(0.1, rel=0.02)
    assert net.pos_embed.std().item() == pytest.approx(0.4, rel=0.05)
    usual = made(residual, embed_dim=96)
    assert usual.pos_embed.std().item() == pytest.approx(0.02, rel=0.05)
    assert usual.blocks[0].mlp.fc1.weight.std().item() == pytest.approx(0.02, rel=0.02)
    for name in ("start_std", "position_std"):
        with pytest.raises(ValueError, match=f"{name}: 0 "):
            made(residual, **{name: 0})


@pytest.mark.parametrize("residual", ["rezero", "skip_init"])
def test_the_maps_may_start_as_deits(residual):
    own, other = made(residual), made(residual, maps="deit")
    assert own.blocks[0].mlp.fc1.weight.std().item() > 0.08
    assert other.blocks[0].mlp.fc1.weight.std().item() == pytest.approx(0.02, rel=0.05)
    for scheme in ("fixup", "t_fixup"):
        with pytest.raises(ValueError, match="maps: 'deit' with residual"):
            made(scheme, maps="deit")


@pytest.mark.parametrize("residual", ["pre_norm", "post_norm", "layer_scale"])
def test_the_maps_may_start_as_rezeros(residual):
    """Every map of the branches is ReZero's, with the same draws; nothing else differs from the scheme's own start."""
    other, own = made(residual, maps="xavier"), dict(made(residual).named_parameters())
    rezero = dict(made("rezero").named_parameters())
    for name, weight in other.named_parameters():
        drawn = name.startswith("blocks.") and weight.ndim == 2
        torch.testing.assert_close(weight, rezero[name] if drawn else own[name], rtol=0, atol=0)
        assert not drawn or not torch.equal(weight, own[name])
    for scheme in ("rezero", "skip_init", "fixup", "t_fixup"):
        with pytest.raises(ValueError, match="maps: 'xavier' with residual"):
            made(scheme, maps="xavier")


@pytest.mark.parametrize("kind", ["xavier", "deit"])
def test_both_attentions_start_alike_where_they_are_compared(kind: str) -> None:
    """The deviation of each map: that of Xavier's uniform entries, or DeiT's."""
    from relearn.models.residual_vit import ResidualViT

    sizes = dict(img_size=8, patch_size=4, in_chans=1, num_classes=3, embed_dim=48, depth=2, num_heads=3)
    spread = (2 / 96) ** 0.5 if kind == "xavier" else 0.05
    for attention in ("dot_product", "lrsa"):
        torch.manual_seed(0)
        net = ResidualViT(**sizes, attention=attention, attention_maps=kind, start_std=0.05)
        layer = net.blocks[1].attn
        if attention == "lrsa":
            maps = [getattr(layer, name).weight for name in ("q", "k", "v", "out")]
        else:
            maps = [*layer.qkv.weight.chunk(3), layer.proj.weight]
        for weight in maps:
            assert float(weight.detach().std()) == pytest.approx(spread, rel=0.05)
        mlp = float(net.blocks[1].mlp.fc1.weight.detach().std())  # the rest stays DeiT's
        assert mlp == pytest.approx(0.05, rel=0.05)
    with pytest.raises(ValueError, match=r"attention_maps: 'he' \(allowed: None, xavier, deit\)"):
        ResidualViT(**sizes, attention_maps="he")
