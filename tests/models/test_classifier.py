"""The contract of all eight networks: one interface, independent batch members, where Dropout is."""

import copy

import pytest
import torch
from torch import nn

from relearn.models import create
from relearn.models.classifier import set_dropout

from .test_published_start import NETWORKS, small

TINY = {"width": 0.05, "depth": 0.3}

# (channels, side) after each stage of the published network for 32 × 32, from the papers' tables
STAGES = {
    "ResNet18": ((64, 32), (128, 16), (256, 8), (512, 4)),
    "ResNet50": ((256, 32), (512, 16), (1024, 8), (2048, 4)),
    "SENet18": ((64, 32), (128, 16), (256, 8), (512, 4)),
    "ResNeXt29-2x64d": ((256, 32), (512, 16), (1024, 8)),
    "DPN92": ((256 + 4 * 16, 32), (512 + 5 * 32, 16), (1024 + 21 * 24, 8), (2048 + 4 * 128, 4)),
    "MobileNetV2": ((24, 32), (32, 16), (96, 8), (1280, 4)),
    "GoogLeNet": ((480, 32), (832, 16), (1024, 8)),
    "DenseNet121": ((64 + 6 * 32, 32), (128 + 12 * 32, 16), (256 + 24 * 32, 8), (512 + 16 * 32, 4)),
}

# blocks of the published network; inside a block: whose output Dropout takes, who takes Dropout's output
PLACES = {
    "ResNet18": (2 + 2 + 2 + 2, "conv1.2", "conv2"),
    "ResNet50": (3 + 4 + 6 + 3, "conv2.2", "conv3"),
    "SENet18": (2 + 2 + 2 + 2, "conv1", "norm2"),
    "ResNeXt29-2x64d": (3 + 3 + 3, "conv2.2", "conv3"),
    "DPN92": (3 + 4 + 20 + 3, "conv2.2", "conv3"),
    "MobileNetV2": (1 + 2 + 3 + 4 + 3 + 3 + 1, "filter.2", "project"),
    "GoogLeNet": (2 + 5 + 2, None, None),  # on the block's output
    "DenseNet121": (6 + 12 + 24 + 16, "conv1", "norm2"),
}


@pytest.fixture(params=STAGES)
def name(request):
    return request.param


@pytest.fixture
def tiny(name, wake):
    """A narrow, shallow network of the same code, in float64, with statistics as after training."""
    torch.manual_seed(0)
    return wake(create(name, dropout=0.25, **TINY)).eval()


def made(name, **given):
    return create(name, **TINY, **given) if name in STAGES else small(name, **given)


@pytest.fixture(params=(*STAGES, *NETWORKS))
def any_name(request):
    """Of these networks, and of those of the chapter on initialisation."""
    if request.param.startswith("timm"):
        request.getfixturevalue("timm")
    return request.param


@pytest.fixture
def images():
    return torch.rand(3, 3, 8, 8, dtype=torch.double, generator=torch.Generator().manual_seed(5))


def dropouts(net):
    return [module for module in net.modules() if isinstance(module, nn.Dropout)]


# one interface


def test_full_size_stages_have_the_published_shapes(name, published):
    net = published(name)
    with torch.device("meta"):
        outputs = net.stages(torch.empty(2, 3, 32, 32))
    assert tuple((y.shape[1], y.shape[2]) for y in outputs) == STAGES[name]
    assert net.feature_dim == net.head.in_features == STAGES[name][-1][0]


def test_forward_is_the_head_on_the_pooled_last_stage(any_name, wake, images):
    tiny = wake(made(any_name)).eval()
    last = tiny.stages(images)[-1]
    assert last.shape[1] == tiny.feature_dim
    features = last.flatten(2).sum(2) / (last.shape[2] * last.shape[3])
    torch.testing.assert_close(tiny.features(images), features)
    torch.testing.assert_close(tiny(images), features @ tiny.head.weight.T + tiny.head.bias)


def test_relu_ends_the_published_parts(name, tiny, images):
    # parameter counts cannot see a ReLU; after one, the smallest value of many is exactly 0
    last_of_stage = ["ResNet18", "ResNet50", "ResNeXt29-2x64d", "DPN92", "GoogLeNet"]
    *earlier, last = tiny.stages(images)
    assert (tiny.stem(images).min() == 0) == (name != "DenseNet121")
    assert [stage.min() == 0 for stage in earlier] == [name in last_of_stage] * len(earlier)
    assert (last.min() == 0) == (name != "SENet18")


@pytest.mark.parametrize("side", [8, 9, 32])
@pytest.mark.parametrize("channels", [1, 3])
def test_any_size_from_8_and_any_channels(any_name, side, channels):
    net = made(any_name, in_channels=channels, classes=4).eval()
    logits = net(torch.rand(2, channels, side, side))
    assert logits.shape == (2, 4)
    assert logits.isfinite().all()


@pytest.mark.parametrize("scale", [{"width": 0.01}, {"width": 0.3, "depth": 0.01}, {"depth": 1.4}])
def test_every_scale_is_a_network_with_the_published_stages(name, scale):
    with torch.device("meta"):
        net = create(name, **scale)
        outputs = net.stages(torch.empty(1, 3, 32, 32))
    assert [y.shape[-1] for y in outputs] == [side for _, side in STAGES[name]]
    assert outputs[-1].shape[1] == net.feature_dim


def test_parameters_grow_with_width_and_depth(name, parameters):
    with torch.device("meta"):
        widths = [parameters(create(name, width=w)) for w in (0.1, 0.25, 0.5, 1.0)]
        depths = [parameters(create(name, depth=d)) for d in (0.3, 1.0, 2.0)]
    assert widths == sorted(set(widths))
    assert depths == sorted(set(depths))
    assert widths[2] / widths[3] == pytest.approx(1 / 4, rel=0.25)  # convolutions shrink with the square


# batch members


def other_images_gradient(net, images):
    """Largest derivative of the first image's logits by any other image."""
    images = images.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(net(images)[0].square().sum(), images)
    assert gradient[0].abs().max() > 0
    return gradient[1:].abs().max().item()


def test_batch_members_are_independent_in_eval_mode_and_not_in_training(tiny, images):
    assert other_images_gradient(tiny, images) == 0
    torch.testing.assert_close(tiny(images)[1:2], tiny(images[1:2]))
    tiny.train()  # control: batch statistics tie the images together
    assert other_images_gradient(tiny, images) > 0


# Dropout


def test_one_dropout_in_each_block_of_the_published_network(name, published):
    assert len(dropouts(published(name))) == PLACES[name][0]


def test_dropout_sits_between_the_published_layers(name, images):
    _, giver, taker = PLACES[name]
    net = create(name, dropout=0.25, **TINY).double().train()
    block = next(module for module in net.modules() if "dropout" in module._modules)
    seen = {}

    def watch(key):
        def hook(module, args, output):
            seen[key] = (args[0], output)

        return hook

    block.dropout.register_forward_hook(watch("dropout"))
    block.register_forward_hook(watch("block"))
    if giver is not None:
        block.get_submodule(giver).register_forward_hook(watch("giver"))
        block.get_submodule(taker).register_forward_hook(watch("taker"))
    net(images)
    taken, given = seen["dropout"]
    assert not torch.equal(taken, given)
    if giver is None:
        assert seen["block"][1] is given
    else:
        assert seen["giver"][1] is taken
        assert seen["taker"][0] is given
        is_relu = isinstance(block.get_submodule(giver), nn.ReLU)
        assert is_relu == (name not in ("SENet18", "DenseNet121"))


def test_dropout_is_elementwise(name, images):
    net = create(name, dropout=0.5, **TINY).double().train()
    zeros = []
    for layer in dropouts(net):
        layer.register_forward_hook(lambda module, args, y: zeros.append((args[0] != 0) & (y == 0)))
    net(images)
    whole = [dropped.flatten(2).all(2) for dropped in zeros if dropped.shape[-1] >= 4]
    some = [dropped.flatten(2).any(2) for dropped in zeros if dropped.shape[-1] >= 4]
    assert torch.cat([y.flatten() for y in some]).float().mean() > 0.5
    assert (
        torch.cat([y.flatten() for y in whole]).float().mean() < 0.05
    )  # channels are not dropped as a whole


def test_dropout_switches_apart_from_batch_normalisation(tiny, images):
    still = tiny(images)
    before = copy.deepcopy(tiny.state_dict())
    set_dropout(tiny, True)
    assert not any(m.training for m in tiny.modules() if isinstance(m, nn.BatchNorm2d))
    assert not torch.equal(tiny(images), tiny(images))
    for key, value in tiny.state_dict().items():
        assert torch.equal(value, before[key]), key
    set_dropout(tiny, False)
    assert torch.equal(tiny(images), still)
    tiny.train()  # control: train mode moves the running statistics
    tiny(images)
    moved = [
        not torch.equal(value, before[key]) for key, value in tiny.state_dict().items() if "running" in key
    ]
    assert all(moved)


def test_dropout_off_in_training_leaves_batch_normalisation_on(tiny, images):
    tiny.train()
    set_dropout(tiny, False)
    assert torch.equal(tiny(images), tiny(images))
    assert all(m.training for m in tiny.modules() if isinstance(m, nn.BatchNorm2d))


def test_dropout_of_zero_disturbs_nothing(any_name, images):
    net = made(any_name).double().eval()
    still = net(images)
    set_dropout(net, True)
    state = torch.get_rng_state()
    assert torch.equal(net(images), still)
    assert torch.equal(torch.get_rng_state(), state)


def test_batch_members_get_their_own_masks(tiny, images):
    set_dropout(tiny, True)
    logits = tiny(images[:1].expand(3, -1, -1, -1))
    assert not torch.allclose(logits[0], logits[1])
    assert other_images_gradient(tiny, images) == 0


# normalisation


def test_normalisation_inside_is_normalisation_outside(any_name, wake, images):
    mean, std = torch.tensor([0.49, 0.48, 0.45]), torch.tensor([0.20, 0.19, 0.21])
    inside = wake(made(any_name, mean=mean.tolist(), std=std.tolist())).eval()
    outside = made(any_name).double().eval()
    weights = {k: v for k, v in inside.state_dict().items() if k not in ("mean", "std")}
    outside.load_state_dict(weights, strict=False)
    normalised = (images - mean.double()[:, None, None]) / std.double()[:, None, None]
    torch.testing.assert_close(inside(images), outside(normalised), rtol=1e-6, atol=1e-9)
    assert not torch.allclose(inside(images), outside(images))


# gradients


def test_input_gradient_is_the_finite_difference(tiny, images):
    generator = torch.Generator().manual_seed(9)
    direction = torch.randn(images.shape, dtype=torch.double, generator=generator)
    weight = torch.randn(tiny(images).shape, dtype=torch.double, generator=generator)
    leaf = images.clone().requires_grad_()
    (gradient,) = torch.autograd.grad((tiny(leaf) * weight).sum(), leaf)
    assert all(image.abs().max() > 0 for image in gradient)
    step = 1e-6  # kinks of ReLU and max-pooling within a step: rare, and bounded by the tolerance

    def value(t):
        return (tiny(images + t * direction) * weight).sum()

    with torch.no_grad():
        difference = (value(step) - value(-step)) / (2 * step)
    torch.testing.assert_close((gradient * direction).sum(), difference, rtol=1e-3, atol=1e-6)


def test_every_parameter_gets_a_gradient(tiny, images):
    tiny.train()
    set_dropout(tiny, False)
    tiny(images).square().sum().backward()
    assert [key for key, tensor in tiny.named_parameters() if tensor.grad is None] == []


def test_channels_last_changes_nothing(tiny, images):
    expected = tiny(images)
    moved = copy.deepcopy(tiny).to(memory_format=torch.channels_last)
    torch.testing.assert_close(moved(images.contiguous(memory_format=torch.channels_last)), expected)


# initialisation and state


def test_initialisation_follows_the_seed(name):
    def state(seed):
        torch.manual_seed(seed)
        return create(name, **TINY).state_dict()

    one, same, other = state(1), state(1), state(2)
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert any(not torch.equal(one[key], other[key]) for key in one)


def test_initialisation_is_torchs_default(name):
    torch.manual_seed(0)
    for module in create(name, width=0.25, depth=0.3).modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            bound = module.weight[0].numel() ** -0.5  # uniform within 1 / sqrt(fan-in)
            assert module.weight.abs().max() <= bound
            if module.weight.numel() > 1000:
                assert module.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.1)
        elif isinstance(module, nn.BatchNorm2d):
            assert torch.equal(module.weight, torch.ones_like(module.weight))
            assert torch.equal(module.bias, torch.zeros_like(module.bias))


def test_state_goes_round_with_the_normalisation_in_it(tiny, name, images):
    torch.manual_seed(99)
    other = create(name, mean=(0.3, 0.4, 0.5), std=(0.2, 0.3, 0.4), **TINY).double().eval()
    assert not torch.allclose(other(images), tiny(images))
    other.load_state_dict(tiny.state_dict())
    assert torch.equal(other(images), tiny(images))
    assert {"mean", "std"} <= set(tiny.state_dict())


# what is refused


@pytest.mark.parametrize(
    "wrong",
    [
        {"classes": 0},
        {"in_channels": 0},
        {"width": 0.0},
        {"width": float("nan")},
        {"depth": -1.0},
        {"depth": float("inf")},
        {"dropout": 1.0},
        {"dropout": -0.1},
        {"dropout": float("nan")},
        {"mean": (0.5,)},
        {"std": (0.2, 0.2)},
        {"std": (0.2, 0.0, 0.2)},
        {"std": (float("nan"), 1.0, 1.0)},
    ],
)
def test_values_out_of_range_are_refused_by_name(wrong):
    (key,) = wrong
    with pytest.raises(ValueError, match=rf"^{key}: .*\(allowed: ") as caught:
        create("ResNet18", **wrong)
    assert "\n" not in str(caught.value)


def test_images_of_the_wrong_kind_are_refused():
    net = create("ResNet18", **TINY).eval()
    with pytest.raises(TypeError, match="floating point"):
        net(torch.zeros(1, 3, 8, 8, dtype=torch.uint8))
    for shape in ((1, 1, 8, 8), (3, 8, 8), (2, 4, 8, 8)):
        with pytest.raises(ValueError, match=r"allowed: \(B, 3, H, W\)"):
            net(torch.zeros(shape))
