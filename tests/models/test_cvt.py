"""CvT: parameters by arithmetic, parts in order, names that timm knows."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from relearn.layers.long_short_attention_2d import LongShortAttention2d
from relearn.models import vision
from relearn.models.cvt import ConvolutionalAttention, CvT
from relearn.models.token_stages import Embed

TINY = dict(img_size=16, patch_size=2, num_classes=3, embed_dim=4, depths=(1, 2), num_heads=(1, 2))


def count(depths: tuple[int, ...]) -> int:
    """CvT-13 and -21 by the published sizes, without building them."""
    total, channels = 0, 3
    for depth, dim, kernel in zip(depths, (64, 192, 384), (7, 3, 3)):
        embed = kernel * kernel * channels * dim + dim + 2 * dim
        maps = 3 * (9 * dim + 2 * dim + dim * dim + dim) + dim * dim + dim
        total += embed + depth * (maps + 8 * dim * dim + 5 * dim + 4 * dim)
        channels = dim
    return total + channels + 2 * channels + 1000 * channels + 1000


@pytest.mark.parametrize(("depths", "expected"), [((1, 2, 10), 19_997_480), ((1, 4, 16), 31_622_696)])
def test_published_sizes_have_their_parameters(parameters, depths, expected):
    with torch.device("meta"):
        assert parameters(CvT(depths=depths)) == expected == count(depths)


@pytest.mark.parametrize("attention", ["full", "long_short"])
def test_a_small_one_is_its_parts_in_order(attention):
    torch.manual_seed(0)
    net = CvT(attention=attention, window=3, rank=2, **TINY).double().eval()
    for parameter in net.parameters():
        parameter.data.normal_(0, 0.3)
    x = torch.randn(2, 3, 16, 16).double()
    first, second = net.stages[0].embed.conv, net.stages[1].embed.conv
    h = F.conv2d(x, first.weight, first.bias, 2, 1)  # 3 x 3, as 2p - 1 says
    for index, stage in enumerate(net.stages):
        if index:
            h = F.conv2d(h, second.weight, second.bias, 2, 1)
        grid = tuple(h.shape[2:])
        norm = stage.embed.norm
        h = F.layer_norm(h.flatten(2).mT, norm.normalized_shape, norm.weight, norm.bias)
        if index:
            h = torch.cat([stage.cls_token.expand(2, -1, -1), h], 1)
        for block in stage.blocks:
            h = h + block.attention(block.norm1(h), grid)
            h = h + block.mlp.fc2(F.gelu(block.mlp.fc1(block.norm2(h))))
        if not index:
            assert grid == (8, 8) and stage.cls_token is None
            h = h.mT.unflatten(2, grid)
    torch.testing.assert_close(net(x), net.head(net.norm(h)[:, 0]))
    net.reset_classifier(3, "avg")
    net.double()
    torch.testing.assert_close(net(x), net.head(net.norm(h)[:, 1:].mean(1)))
    kind = {"full": ConvolutionalAttention, "long_short": LongShortAttention2d}[attention]
    assert all(isinstance(block.attention, kind) for stage in net.stages for block in stage.blocks)


def test_attention_with_strided_keys_is_its_formula():
    torch.manual_seed(0)
    layer = ConvolutionalAttention(4, 2, kernel=3, kv_stride=2, class_tokens=1).double().eval()
    for parameter in layer.parameters():
        parameter.data.normal_()
    x = torch.randn(2, 21, 4).double()
    image = x[:, 1:].mT.unflatten(2, (5, 4))
    rows = []
    for part, stride in ((layer.q, 1), (layer.k, 2), (layer.v, 2)):
        mixed = F.conv2d(image, part.conv.weight, None, stride, 1, groups=4) / (1 + part.norm.eps) ** 0.5
        mixed = mixed * part.norm.weight[:, None, None] + part.norm.bias[:, None, None]
        both = torch.cat([x[:, :1], mixed.flatten(2).mT], 1) @ part.linear.weight.T + part.linear.bias
        rows.append(both.view(2, -1, 2, 2).transpose(1, 2))
    q, k, v = rows
    assert q.shape[2] == 21 and k.shape[2] == 1 + 3 * 2
    mixed = ((q @ k.mT) / 2**0.5).softmax(-1) @ v
    torch.testing.assert_close(layer(x, (5, 4)), layer.out(mixed.transpose(1, 2).flatten(2)))


@pytest.mark.parametrize(
    "name", ["cvt_13", "cvt_ls_13", "cvt_ls_17", "cvt_ls_21s", "vil_small", "vil_ls_medium"]
)
@pytest.mark.parametrize("size", [8, 28])
def test_names_build_small_networks_for_small_images(name, size):
    """Reduced width and depth; the loss falls, all parameters get a gradient, halves of a batch do not see each other."""
    torch.manual_seed(0)
    stages = 4 if name.startswith("vil") else 3
    reduced = dict(patch_size=2, embed_dim=12, depths=(1,) * stages)
    net = vision.create(name, classes=5, size=size, **reduced)
    images, labels = torch.rand(4, 3, size, size), torch.tensor([0, 1, 2, 3])
    optimizer = torch.optim.Adam(net.parameters(), 3e-3)
    losses = []
    for _ in range(8):
        loss = F.cross_entropy(net(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
    missing = [key for key, one in net.named_parameters() if one.grad is None]
    assert not missing
    net.eval()
    torch.testing.assert_close(net(images)[:2], net(images[:2]), rtol=1e-4, atol=1e-5)
    assert net.features(images).shape == (4, net.trunk.num_features)
    spared = net.no_weight_decay()
    assert spared <= dict(net.named_parameters()).keys() and any("cls_token" in one for one in spared)


def test_names_and_timm(timm):
    import relearn.models.timm_names as names

    net = timm.create_model("cvt_ls_13", **TINY, attention="full")
    assert isinstance(net, CvT) and f"{type(net).__module__}:{type(net).__name__}" == names.CVT
    first, last = (net.get_submodule(net.default_cfg[key]) for key in ("first_conv", "classifier"))
    assert first.weight.shape[1] == 3 and last.weight.shape[0] == 3
    assert isinstance(
        timm.create_model("cvt_ls_13", **TINY | dict(num_classes=0)).get_classifier(), nn.Identity
    )
    features = timm.create_model("cvt_13", features_only=True, **TINY)
    assert features.feature_info.channels() == [one["num_chs"] for one in net.feature_info]


def test_dropout_is_at_the_documented_places():
    torch.manual_seed(0)
    net = CvT(drop_rate=0.5, drop_path_rate=0.9, **TINY)
    rates = [block.drop_path.drop_prob for stage in net.stages for block in stage.blocks]
    assert rates[0] == 0 and rates[-1] == pytest.approx(0.9) and rates == sorted(rates)
    x = torch.rand(2, 3, 16, 16)
    assert not torch.equal(net(x), net(x))
    net.eval()
    assert torch.equal(net(x), net(x))


def test_odd_sides_are_filled_up_where_nothing_overlaps():
    embed = Embed(3, 4, 2, 2, 0)
    x = torch.rand(1, 5, 4, 3)
    assert embed(x).shape == (1, 3, 2, 4)
    torch.testing.assert_close(embed(x), embed(torch.cat([x, torch.zeros(1, 1, 4, 3)], 1)))
    assert Embed(3, 4, 3, 2, 1)(x).shape == (1, 3, 2, 4)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (dict(attention="linear"), "attention: 'linear'"),
        (dict(window=(7, 7, 7)), "window: "),
        (dict(rank=(8,)), "rank: "),
        (dict(num_heads=(1, 3), ratios=(1, 1)), "num_heads: 3 at width 4"),
        (dict(depths=(1, 0)), "depths"),
        (dict(depths=(1,)), "num_heads"),
        (dict(ratios=(1, 2, 3)), "ratios"),
        (dict(strides=(2, 2)), "strides"),
        (dict(img_size=15), "img_size: 15"),
        (dict(global_pool="max"), "global_pool: 'max'"),
        (dict(drop_path_rate=1.0), "drop_path_rate: 1.0"),
    ],
)
def test_wrong_sizes_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        CvT(**TINY | given)


def test_images_of_another_size_are_refused():
    with pytest.raises(ValueError, match="x: shape"):
        CvT(**TINY)(torch.rand(1, 3, 18, 16))
