"""What timm's tools ask of a network: maps of its layers, checkpoints, groups of parameters, other sizes, pooling."""

import pytest
import torch

from relearn.models import timm_names

STAGES = dict(img_size=32, num_classes=3, embed_dim=8, depths=(1, 2), num_heads=(2, 4))
BLOCKS = dict(img_size=32, num_classes=3, embed_dim=8, depth=3, num_heads=2, patch_size=8)
NETS = {
    "lipsformer_swin_tiny": STAGES | dict(window_size=4),
    "lipsformer_cswin_tiny": STAGES | dict(window_size=(1, 2)),
    "cswin_tiny": STAGES | dict(window_size=(1, 2)),
    "residual_deit_tiny": BLOCKS,
    "residual_deit_small": BLOCKS | dict(class_token="class_attention", residual="layer_scale"),
    "lrformer_depth6": BLOCKS | dict(gp=dict(features=8)),
    "cvt_13": STAGES,
    "vil_ls_medium": STAGES | dict(window_size=2),
}


@pytest.fixture
def made(timm):
    timm_names.register()

    def build(name, **more):
        torch.manual_seed(0)
        return timm.create_model(name, **(NETS[name] | more)).eval()

    return build


@pytest.mark.parametrize("name", NETS)
def test_maps_are_those_of_features_only_channels_first(made, name):
    x = torch.rand(2, 3, 32, 32)
    net, features = made(name), made(name, features_only=True)
    last, maps = net.forward_intermediates(x)
    torch.testing.assert_close(last, net.forward_features(x), rtol=0, atol=0)
    seen = features(x)
    channels_last = features.output_fmt.value == "NHWC"
    assert channels_last == (getattr(net, "output_fmt", "NCHW") == "NHWC")
    for found, other, info in zip(maps, seen, net.feature_info, strict=True):
        side = 32 // info["reduction"]
        assert tuple(found.shape) == (2, info["num_chs"], side, side)
        torch.testing.assert_close(found, other.permute(0, 3, 1, 2) if channels_last else other)
    early, only = net.forward_intermediates(x, indices=[0], stop_early=True)
    torch.testing.assert_close(only[0], maps[0])
    assert early.shape[0] == 2
    (normed,) = net.forward_intermediates(x, indices=1, norm=True, intermediates_only=True)
    tokens = net.forward_features(x)
    if tokens.dim() == 4:
        torch.testing.assert_close(normed, tokens.permute(0, 3, 1, 2))
    else:  # class tokens come first
        torch.testing.assert_close(normed.flatten(2).mT, tokens[:, -normed[0, 0].numel() :])
    with pytest.raises(ValueError, match="output_fmt: 'NHWC'"):
        net.forward_intermediates(x, output_fmt="NHWC")


@pytest.mark.parametrize("name", NETS)
def test_checkpoints_change_no_output_and_no_gradient(made, name):
    x = torch.rand(2, 3, 32, 32)
    gradients, outputs = [], []
    for enable in (False, True):
        net = made(name)
        net.set_grad_checkpointing(enable)
        kept: list[int] = []

        def pack(one, kept=kept):
            kept.append(one.numel())
            return one

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda one: one):
            y = net(x)
        outputs.append((y, sum(kept)))
        y.square().sum().backward()
        gradients.append([one.grad for one in net.parameters() if one.grad is not None])
    (plain, much), (saving, little) = outputs
    torch.testing.assert_close(saving, plain)
    assert little < much / 2
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", NETS)
def test_every_parameter_has_a_group_and_later_blocks_learn_faster(made, name):
    from timm.optim import param_groups_layer_decay

    net = made(name)
    groups = param_groups_layer_decay(net, layer_decay=0.5)
    scales = {id(p): group["lr_scale"] for group in groups for p in group["params"]}
    assert len(scales) == sum(p.requires_grad for p in net.parameters())
    first, last = (
        (net.get_submodule(net.default_cfg[key]).weight for key in ("first_conv", "classifier"))
        if ("lrformer" not in name)
        else (net.patch_embed.proj.weight, net.head.out.weight)
    )
    assert scales[id(first)] == min(scales.values()) < max(scales.values()) == scales[id(last)] == 1
    names = [n for n, _ in net.named_parameters() if ".attention." in n or ".attn." in n]
    by_block = [scales[id(net.get_parameter(n))] for n in names]
    assert by_block == sorted(by_block) and len(set(by_block)) == (5 if hasattr(net, "class_blocks") else 3)


@pytest.mark.parametrize("name", NETS)
def test_a_network_of_another_size_is_the_one_built_for_it(made, name):
    """After set_input_size the network is the function that the constructor with that size and the same weights builds."""
    size = (64, 32)
    net, other = made(name), made(name, img_size=size, **({"lrsa_alpha": 17**0.5} if "lrf" in name else {}))
    net.set_input_size(img_size=size)
    missing = {n: p.shape for n, p in other.state_dict().items()}
    assert missing == {n: p.shape for n, p in net.state_dict().items()}
    other.load_state_dict(net.state_dict())
    x = torch.rand(2, 3, *size)
    torch.testing.assert_close(net(x), other(x))
    assert tuple(net.forward_intermediates(x, intermediates_only=True)[0].shape[2:]) == tuple(
        side // net.feature_info[0]["reduction"] for side in size
    )
    with pytest.raises(ValueError, match="multiples of the patch"):
        net.set_input_size(img_size=31)


def test_a_table_of_positions_is_resampled_where_its_window_changes(made):
    net = made("lipsformer_swin_tiny")
    attention = net.layers[0][1].attention
    before = attention.relative_position_bias_table.detach().clone()
    net.set_input_size(window_size=2)
    assert attention.window == (2, 2) and attention.relative_position_bias_table.shape == (9, 2)
    # the middle of both tables is the difference 0
    torch.testing.assert_close(attention.relative_position_bias_table[4], before[24], rtol=1e-4, atol=1e-4)
    assert net(torch.rand(1, 3, 32, 32)).shape == (1, 3)
    with pytest.raises(ValueError, match="window_size"):
        net.set_input_size(window_size=0)


def test_a_grid_for_which_a_layer_has_no_weights_is_refused_and_nothing_changes(made):
    net = made("lipsformer_cswin_tiny", window_size=(1, 4))
    with pytest.raises(ValueError, match="2 direction"):
        net.set_input_size(img_size=64)
    assert net.img_size == (32, 32) and net(torch.rand(1, 3, 32, 32)).shape == (1, 3)


@pytest.mark.parametrize("name", ["residual_deit_tiny", "residual_deit_small"])
def test_any_image_size_at_every_call(made, name):
    net, fixed = made(name, dynamic_img_size=True), made(name)
    fixed.load_state_dict(net.state_dict())
    x = torch.rand(2, 3, 32, 32)
    torch.testing.assert_close(net(x), fixed(x))
    fixed.set_input_size(img_size=(64, 32))
    tall = torch.rand(2, 3, 64, 32)
    torch.testing.assert_close(net(tall), fixed(tall))
    for wrong in (torch.rand(1, 3, 33, 32), torch.rand(1, 1, 32, 32), torch.rand(1, 3, 0, 32)):
        with pytest.raises(ValueError, match="multiples of the patch"):
            net(wrong)


def test_pooling_as_in_timms_deit(made, timm):
    ours = made("residual_deit_tiny", global_pool="avg").double()
    theirs = timm.create_model(
        "deit_tiny_patch16_224", **(BLOCKS | dict(global_pool="avg", fc_norm=False))
    ).double()
    theirs.load_state_dict(ours.state_dict())
    x = torch.rand(2, 3, 32, 32, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs.eval()(x))
    for net in (ours, theirs):
        net.reset_classifier(0, "")
    torch.testing.assert_close(ours(x), theirs(x))
    assert ours(x).shape == (2, 17, 8)
    with pytest.raises(ValueError, match=r"global_pool: 'token' \(allowed: 'avg', ''\)"):
        made("residual_deit_tiny", class_token="mean", global_pool="token")
    with pytest.raises(ValueError, match="global_pool: 'max'"):
        ours.reset_classifier(3, "max")


def test_timms_word_for_the_windows(made):
    assert made("lipsformer_swin_tiny").layers[0][1].attention.window == (4, 4)
    assert made("cswin_tiny").layers[1][1].attention.split == 2
    with pytest.raises(ValueError, match="window_size, window: both given"):
        made("lipsformer_swin_tiny", window=4)


@pytest.mark.parametrize("name", NETS)
def test_a_network_is_the_same_when_built_under_autocast(made, name):
    with torch.autocast("cpu", torch.bfloat16):
        net = made(name)
    for one, other in zip(net.parameters(), made(name).parameters(), strict=True):
        assert one.dtype == torch.float32 and torch.equal(one, other)
