"""ResidualViT: timm's networks with the same weights, every scheme by its formula, LRFormer, what is refused."""

import pytest
import torch
from torch import nn

from relearn.layers.lrsa import LRSA
from relearn.layers.random_feature_gp import RandomFeatureGP
from relearn.models import timm_names
from relearn.models.residual_schemes import SCHEMES
from relearn.models.residual_vit import ResidualViT

from .conftest import awake

SIZE = dict(img_size=8, patch_size=2, num_classes=3, embed_dim=12, num_heads=3, depth=3)
EXACT = dict(rtol=1e-10, atol=1e-10)


def made(**more):
    torch.manual_seed(0)
    return ResidualViT(**(SIZE | more)).double()


def images(*more, side=8, channels=3):
    return torch.randn(2, *more, channels, side, side, dtype=torch.double)


@pytest.mark.parametrize("name", ["tiny", "small", "base"])
def test_published_sizes_have_the_parameters_of_deit(timm, parameters, name):
    dim = {"tiny": 192, "small": 384, "base": 768}[name]
    block = 4 * dim * dim + 4 * dim + 8 * dim * dim + 5 * dim + 4 * dim
    arithmetic = 768 * dim + dim + 197 * dim + dim + 12 * block + 2 * dim + 1000 * dim + 1000
    with torch.device("meta"):
        ours = timm.create_model(f"residual_deit_{name}")
        theirs = timm.create_model(f"deit_{name}_patch16_224")
        scaled = timm.create_model(f"residual_deit_{name}", residual="layer_scale", epsilon=0.1)
    assert parameters(ours) == parameters(theirs) == arithmetic
    assert parameters(scaled) == arithmetic + 24 * dim
    shapes = [{key: one.shape for key, one in net.state_dict().items()} for net in (ours, theirs)]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize(("scheme", "rate"), [("linear", 0.0), ("linear", 0.4), ("uniform", 0.4)])
def test_pre_norm_is_timms_vision_transformer(timm, scheme, rate):
    net = awake(made(drop_path_rate=rate, drop_path=scheme))
    names = dict(global_pool="token", **(SIZE | dict(drop_path_rate=rate)))
    theirs = timm.models.VisionTransformer(**names).double()
    theirs.load_state_dict(net.state_dict())
    if scheme == "uniform" and rate:
        for one in theirs.modules():
            if hasattr(one, "drop_path1"):
                one.drop_path1 = one.drop_path2 = timm.layers.DropPath(rate)
    x = torch.randn(16, 3, 8, 8, dtype=torch.double)
    torch.testing.assert_close(net.eval()(x), theirs.eval()(x), **EXACT)
    torch.testing.assert_close(net.forward_features(x), theirs.forward_features(x), **EXACT)
    features = net.forward_features(x)
    before = [one.forward_head(features, pre_logits=True) for one in (net, theirs)]
    torch.testing.assert_close(*before, **EXACT)
    trained = []
    for one in (net.train(), theirs.train()):
        torch.manual_seed(5)
        trained.append(one(x))
    torch.testing.assert_close(*trained, **EXACT)
    assert torch.allclose(trained[0], net.eval()(x)) is (rate == 0)


def test_layer_scale_with_class_attention_is_timms_cait_without_its_talking_heads(timm, parameters):
    from timm.models.cait import Cait

    net = awake(made(residual="layer_scale", class_token="class_attention", epsilon=0.2)).eval()
    plain = Cait(attn_block=timm.layers.Attention, **SIZE).double().eval()
    given = {}
    for key, one in net.state_dict().items():
        for ours, theirs in (
            ("class_blocks", "blocks_token_only"),
            ("join1.alpha", "gamma_1"),
            ("join2.alpha", "gamma_2"),
        ):
            key = key.replace(ours, theirs)
        given[key] = one
    plain.load_state_dict(given)
    x = images()
    torch.testing.assert_close(net(x), plain(x), **EXACT)
    torch.testing.assert_close(net.forward_features(x), plain.forward_features(x), **EXACT)
    talking = Cait(**SIZE).double().eval()
    heads, depth = 3, 3
    assert parameters(talking) - parameters(net) == depth * 2 * (heads * heads + heads)
    rest = talking.load_state_dict(given, strict=False)
    assert not rest.unexpected_keys
    assert {key.split(".", 3)[3] for key in rest.missing_keys} == {
        f"{name}.{kind}" for name in ("proj_l", "proj_w") for kind in ("weight", "bias")
    }
    assert not torch.allclose(talking(x), net(x))
    with torch.no_grad():  # talking heads that say nothing
        for block in talking.blocks:
            for one in (block.attn.proj_l, block.attn.proj_w):
                one.weight.copy_(torch.eye(heads))
                one.bias.zero_()
    torch.testing.assert_close(talking(x), net(x), **EXACT)


def by_hand(net, x, residual, norm):
    """Logits by the schemes' formulas, with timm's attention and feed-forward taken as they are."""
    h = torch.cat([net.cls_token.expand(len(x), -1, -1), net.patch_embed(x)], 1) + net.pos_embed
    before = residual in ("pre_norm", "layer_scale") or (norm and residual != "post_norm")

    def normal(part, u):
        layer = part[0] if isinstance(part, nn.Sequential) else part
        return nn.functional.layer_norm(u, u.shape[-1:], layer.weight, layer.bias, 1e-6)

    for block in net.blocks:
        for part, branch, join in (
            (block.norm1, block.attn, block.join1),
            (block.norm2, block.mlp, block.join2),
        ):
            u = normal(part, h) if before else h
            if residual == "fixup":
                u = u + (part[1] if isinstance(part, nn.Sequential) else part).bias
            f = branch(u)
            if residual in ("layer_scale", "rezero", "skip_init", "fixup"):
                f = join.alpha * f
            h = h + f
            if residual == "post_norm":
                h = normal(part, h)
    if before:
        h = normal(net.norm, h)
    token = h[:, 0] + (net.shift.bias if residual == "fixup" else 0)
    return token @ net.head.weight.T + net.head.bias


@pytest.mark.parametrize("norm", [None, True])
@pytest.mark.parametrize("residual", SCHEMES)
def test_every_scheme_is_its_formula(residual, norm):
    net = awake(made(residual=residual, norm=norm))
    x = images()
    torch.testing.assert_close(net(x), by_hand(net, x, residual, norm), **EXACT)
    without = norm is None and residual in ("rezero", "skip_init", "fixup", "t_fixup")
    assert any(isinstance(one, nn.LayerNorm) for one in net.modules()) is not without


@pytest.mark.parametrize("norm", [None, True])
@pytest.mark.parametrize(
    ("residual", "epsilon"),
    [
        ("rezero", None),
        ("skip_init", None),
        ("fixup", None),
        ("layer_scale", 1e-3),
        ("rezero", 1e-3),
        ("layer_scale", 0.0),
    ],
)
def test_the_body_starts_at_the_identity_or_near_it(residual, epsilon, norm):
    net = made(residual=residual, epsilon=epsilon, norm=norm)
    x = torch.randn(2, 17, 12, dtype=torch.double)
    moved = (net.blocks(x) - x).norm() / x.norm()
    assert bool(moved == 0) if not epsilon else 0 < moved < 20 * epsilon
    assert (made(residual="pre_norm").blocks(x) - x).norm() > 0.01 * x.norm()  # others do not


@pytest.mark.parametrize(
    ("residual", "still"),
    [
        ("pre_norm", set()),
        ("rezero", {"attn", "mlp", "norm1", "norm2"}),
        ("skip_init", {"attn", "mlp", "norm1", "norm2"}),
    ],
)
def test_only_the_parameters_behind_zeros_have_no_first_gradient(residual, still):
    net = made(residual=residual, norm=True)
    net(images()).square().sum().backward()
    parts = {
        name.split(".")[2]
        for name, one in net.blocks.named_parameters(prefix="b")
        if one.grad is None or not one.grad.any()
    }
    assert parts == still
    if still:
        assert all(one.join1.alpha.grad.any() and one.join2.alpha.grad.any() for one in net.blocks)


@pytest.mark.parametrize("residual", SCHEMES)
@pytest.mark.parametrize(
    "more",
    [
        dict(img_size=(6, 8), in_chans=1, depth=2, class_token="mean", drop_path_rate=0.1),
        dict(img_size=7, patch_size=7, num_heads=1, depth=1, class_token="class_attention", class_layers=1),
        dict(attention="lrsa", head="gp", gp=dict(features=16), depth=2),
        dict(norm=True, mlp_ratio=0.5, head="gp", class_token="mean"),
    ],
)
def test_every_form_learns(residual, more):
    if residual == "fixup" and "attention" in more:
        more = {name: one for name, one in more.items() if name != "attention"}
    net = awake(made(residual=residual, **more))
    x = torch.randn(3, net.in_chans, *net.img_size, dtype=torch.double)
    y = net(x)
    assert y.shape == (3, 3) and torch.isfinite(y).all()
    y.square().sum().backward()
    silent = {name for name, one in net.named_parameters() if one.grad is None or not one.grad.any()}
    assert {
        name for name in silent if not name.endswith(".k.bias")
    } == set()  # a shift of all keys is no change
    if not isinstance(net.head, RandomFeatureGP):
        assert net.bfloat16()(x.bfloat16()).dtype == torch.bfloat16


def test_class_tokens_and_poolings():
    x = images()
    for kind, tokens in (("from_start", 17), ("class_attention", 17), ("mean", 16)):
        net = awake(made(class_token=kind))
        found = net.forward_features(x)
        assert found.shape == (2, tokens, 12)
        pooled = found.mean(1) if kind == "mean" else found[:, 0]
        assert torch.equal(net.forward_head(found, pre_logits=True), pooled)
        assert net.no_weight_decay() == ({"pos_embed"} if kind == "mean" else {"pos_embed", "cls_token"})
        assert net.pos_embed.shape[1] == (17 if kind == "from_start" else 16)
    # class attention leaves the patches as the blocks made them
    net = awake(made(class_token="class_attention"))
    body = net.blocks(net.patch_embed(x) + net.pos_embed)
    torch.testing.assert_close(net.forward_features(x)[:, 1:], net.norm(body))
    assert [type(made(residual=one).norm) for one in ("pre_norm", "post_norm", "rezero")] == [
        *(nn.LayerNorm, nn.Identity, nn.Identity)
    ]
    for one in ("post_norm", "rezero"):
        assert isinstance(made(residual=one, class_token="class_attention").norm, nn.LayerNorm)


def test_class_attention_starts_as_the_body_or_by_its_rule():
    for more, start in (
        (dict(residual="layer_scale", epsilon=0.01), 0.01),
        (dict(residual="layer_scale", depth=20), 1e-5),
        (dict(residual="rezero", epsilon=0.5), 0.1),
        (dict(residual="pre_norm", depth=25), 1e-6),
    ):
        net = made(class_token="class_attention", class_layers=3, **more)
        assert len(net.class_blocks) == 3
        for block in net.class_blocks:
            for gamma in (block.gamma_1, block.gamma_2):
                torch.testing.assert_close(gamma.float(), torch.full((12,), start))


def test_class_attention_starts_where_it_is_told():
    net = made(residual="layer_scale", class_token="class_attention", class_epsilon=0.3)
    for block in net.class_blocks:
        for gamma in (block.gamma_1, block.gamma_2):
            torch.testing.assert_close(gamma.float(), torch.full((12,), 0.3))
    assert net.blocks[0].join1.initial == 0.1


@pytest.mark.parametrize("residual", ["pre_norm", "layer_scale"])
def test_only_pooled_patches_without_the_last_norm_move_far_when_the_image_does(residual):
    """LayerNorm is the same for x and t x, up to ε. So behind it, and in a class token that sees no more, features have a limit."""
    start, way = torch.rand(3, 3, 8, 8).double(), torch.randn(3, 3, 8, 8).double()
    for more, bounded in (
        (dict(class_token="from_start"), True),
        (dict(class_token="from_start", final_norm=False), True),
        (dict(class_token="mean"), True),
        (dict(class_token="mean", final_norm=False), False),
    ):
        net = made(residual=residual, start_std=0.3, **more)
        with torch.no_grad():
            near, far, farther = (
                net.forward_head(net.forward_features(start + t * way), pre_logits=True)
                for t in (0, 1e6, 1e7)
            )
        ratio = (farther - near).norm(dim=1) / (far - near).norm(dim=1)
        torch.testing.assert_close(ratio, torch.full_like(ratio, 1.0 if bounded else 10.0), rtol=1e-3, atol=0)


def test_drop_paths_are_uniform_or_grow():
    for kind, expected in (("uniform", [0.3] * 4), ("linear", [0, 0.1, 0.2, 0.3])):
        for residual in ("pre_norm", "layer_scale"):
            net = made(
                depth=4, drop_path_rate=0.3, drop_path=kind, residual=residual, class_token="class_attention"
            )
            for name in ("join1", "join2"):
                assert [getattr(one, name).drop_path for one in net.blocks] == pytest.approx(expected)
            assert all(isinstance(one.drop_path, nn.Identity) for one in net.class_blocks)


@pytest.mark.parametrize(("kind", "tokens"), [("from_start", 17), ("class_attention", 16), ("mean", 16)])
def test_lrformer_is_made_of_lrsa_and_a_gaussian_head(kind, tokens):
    net = awake(made(residual="layer_scale", epsilon=1e-4, attention="lrsa", head="gp", class_token=kind))
    assert all(isinstance(one.attn, LRSA) for one in net.blocks)
    assert {one.attn.alpha for one in net.blocks} == {tokens**0.5}
    assert made(attention="lrsa", lrsa_alpha=0.25).blocks[0].attn.alpha == 0.25
    x = images()
    rows = net.forward_head(net.forward_features(x), pre_logits=True)
    assert isinstance(net.get_classifier(), RandomFeatureGP)
    torch.testing.assert_close(net(x), net.head(rows))
    with pytest.raises(RuntimeError, match="variance: no point in the precision"):
        net.head.variance(rows)
    net.head.fit([rows.detach()])
    assert bool((net.head.variance(rows) > 0).all())


def test_a_gaussian_heads_numbers():
    net = made(head="gp")
    assert (net.head.length_scale, net.head.ridge, len(net.head.phase)) == (12**0.5, 1.0, 1024)
    net = made(head="gp", gp=dict(features=8, length_scale=3.0, ridge=0.5))
    net.reset_classifier(7)
    assert (net.head.length_scale, net.head.ridge, len(net.head.phase)) == (3.0, 0.5, 8)
    assert net(images()).shape == (2, 7) and net.num_classes == 7


def test_a_new_last_layer():
    net = made()
    net.reset_classifier(5)
    assert net.get_classifier().weight.shape == (5, 12) and net(images()).dtype == torch.double
    net.reset_classifier(0)
    assert net(images()).shape == (2, 12)
    assert made(num_classes=0, residual="fixup").last is None
    net.reset_classifier(5, "avg")
    tokens = net.forward_features(images())
    torch.testing.assert_close(net.forward_head(tokens, pre_logits=True), tokens[:, 1:].mean(1))
    with pytest.raises(ValueError, match="global_pool: 'map'"):
        net.reset_classifier(5, "map")


def test_names_of_lrformers_say_what_they_build(timm):
    for name in (one for one in timm_names.NAMES if one.startswith("lrformer")):
        with torch.device("meta"):
            net = timm.create_model(name)
        assert len(net.blocks) == int(name.removeprefix("lrformer_depth")) and net.embed_dim == 384
        assert all(isinstance(one.attn, LRSA) and one.attn.heads == 6 for one in net.blocks)
        assert isinstance(net.head, RandomFeatureGP) and net.blocks[0].join1.initial == 1e-4
        dense = timm.create_model(name, head="dense", attention="dot_product", **(SIZE | dict(depth=2)))
        assert isinstance(dense.head, nn.Linear) and len(dense.blocks) == 2


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (dict(depth=0), "depth: 0 (allowed: at least 1)"),
        (dict(class_layers=0), "class_layers: 0"),
        (dict(class_epsilon=0.1), "class_epsilon: 0.1 with 'from_start' (allowed: None)"),
        (
            dict(class_epsilon=-1, class_token="class_attention"),
            "class_epsilon: -1 with 'class_attention' (allowed: 0 or",
        ),
        (dict(num_heads=5), "num_heads: 5 of embed_dim 12 (allowed: a divisor of it)"),
        (dict(num_heads=0), "num_heads: 0"),
        (dict(img_size=9), "img_size: 9 (allowed: multiples of the patch, 2; 8 and 10 fit)"),
        (dict(patch_size=0), "patch_size: 0"),
        (dict(residual="post"), "residual: 'post' (allowed: pre_norm, post_norm, layer_scale"),
        (dict(residual="t_fixup", epsilon=0.1), "epsilon: 0.1 with residual 't_fixup'"),
        (dict(attention="l2"), "attention: 'l2' (allowed: dot_product, lrsa)"),
        (dict(drop_path="cosine"), "drop_path: 'cosine' (allowed: uniform, linear)"),
        (dict(class_token="late"), "class_token: 'late' (allowed: from_start, class_attention, mean)"),
        (dict(head="svm"), "head: 'svm' (allowed: dense, gp)"),
        (dict(lrsa_alpha=1.0), "lrsa_alpha: 1.0 with attention 'dot_product'"),
        (dict(attention="lrsa", lrsa_alpha=0.0), "alpha: 0.0"),
        (dict(attention="lrsa", residual="fixup"), "attention: 'lrsa' with residual 'fixup'"),
        (dict(gp=dict(features=8)), "gp: {'features': 8} with head 'dense'"),
        (dict(head="gp", gp=dict(width=8)), "gp: 'width' (allowed: features, length_scale, ridge)"),
        (dict(head="gp", num_classes=1), "classes: 1"),
        (dict(drop_path_rate=1.0), "drop_path_rate: 1.0"),
        (dict(mlp_ratio=0.0), "mlp_ratio: 0.0"),
    ],
)
def test_what_does_not_fit_is_refused(more, said):
    with pytest.raises(ValueError) as caught:
        made(**more)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_images_of_another_size_are_refused():
    for shape in ((3, 10, 8), (1, 8, 8), (3, 8)):
        with pytest.raises(ValueError, match=r"allowed: \('B', 3, 8, 8\)"):
            made()(torch.zeros(2, *shape, dtype=torch.double))
