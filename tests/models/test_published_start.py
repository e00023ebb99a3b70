"""The contract of the networks of the chapter on initialisation: one interface, their start, second derivatives."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.func import functional_call

from relearn.layers.scalar import Scale, Shift
from relearn.models import create
from relearn.models.classifier import set_dropout
from relearn.models.files import load, save

NETWORKS = (
    "VGG-19",
    "VGG-19-BN",
    "ResNet-110",
    "ResNet-110-BN",
    "ResNet-1202",
    "ResNet-1202-BN",
    "FixUpResNet-110",
    "ResNet-110-SkipInit",
    "ResNet-110-ReZero",
    "WRN-28-10",
    "DenseNet-100",
    "DenseNet-100-BN",
    "timm-ResNet-50-BN",
    "timm-ResNet-50-FixUp",
)
DEPTH = {"ResNet-1202": 0.005, "ResNet-1202-BN": 0.005}


def small(name, width=0.05, **arguments):
    return create(name, width=width, depth=DEPTH.get(name, 0.06), **arguments)


@pytest.fixture(params=NETWORKS)
def name(request):
    if request.param.startswith("timm"):
        request.getfixturevalue("timm")
    return request.param


@pytest.fixture
def tiny(name, wake):
    torch.manual_seed(0)
    net = wake(small(name, dropout=0.25)).eval()
    for module in net.modules():
        if isinstance(module, Scale):
            module.scale.data.fill_(0.7)
    return net


@pytest.fixture
def images():
    return torch.rand(3, 3, 8, 8, dtype=torch.double, generator=torch.Generator().manual_seed(5))


# one interface; what the networks of the experiments share with these is in test_classifier


def test_parameters_grow_with_width_and_depth(name, parameters):
    with torch.device("meta"):
        widths = [parameters(create(name, depth=0.02, width=w)) for w in (0.3, 0.5, 1.0, 1.5)]
        depths = [parameters(create(name, width=0.3, depth=d)) for d in (0.1, 0.6, 1.0)]
    assert widths == sorted(set(widths))
    assert depths == sorted(set(depths))


def test_batch_members_are_independent_in_eval_mode(name, tiny, images):
    torch.testing.assert_close(tiny(images)[1:2], tiny(images[1:2]))
    tiny.train()
    set_dropout(tiny, False)
    normalised = any(isinstance(m, nn.BatchNorm2d) for m in tiny.modules())
    together, alone = tiny(images)[1:], tiny(images[1:])
    assert torch.allclose(together, alone) == (not normalised)  # control: batch statistics tie them together


def test_dropout_acts_when_on(tiny, images):
    still = tiny(images)
    assert torch.equal(tiny(images), still)
    set_dropout(tiny, True)
    assert not torch.equal(tiny(images), tiny(images))


def test_files_keep_the_network(name, tmp_path, images):
    description = {"name": name, "width": 0.05, "depth": DEPTH.get(name, 0.06), "mean": [0.1, 0.2, 0.3]}
    torch.manual_seed(0)
    net = create(**description).eval()
    save(net, tmp_path / "n.safetensors", description)
    assert torch.equal(load(tmp_path / "n.safetensors")(images.float()), net(images.float()))


def test_channels_last_changes_nothing(tiny, images):
    moved = copy.deepcopy(tiny).to(memory_format=torch.channels_last)
    torch.testing.assert_close(moved(images.contiguous(memory_format=torch.channels_last)), tiny(images))


# derivatives, as learned initialisations take them


def test_hessian_vector_products_are_finite_differences_of_the_gradient(tiny, images):
    tiny.train()
    set_dropout(tiny, False)
    labels = torch.tensor([0, 1, 2])
    parameters = {key: value.detach() for key, value in tiny.named_parameters()}
    buffers = {key: value.clone() for key, value in tiny.named_buffers()}
    generator = torch.Generator().manual_seed(1)
    vector = {k: torch.randn(p.shape, generator=generator, dtype=p.dtype) for k, p in parameters.items()}

    def gradient(shift, graph=False):
        moved = {k: (p + shift * vector[k]).requires_grad_() for k, p in parameters.items()}
        state = {**moved, **{k: b.clone() for k, b in buffers.items()}}
        loss = nn.functional.cross_entropy(functional_call(tiny, state, (images,)), labels)
        return moved, torch.autograd.grad(loss, list(moved.values()), create_graph=graph)

    moved, exact = gradient(0.0, graph=True)
    inner = sum((g * v).sum() for g, v in zip(exact, vector.values()))
    product = torch.autograd.grad(inner, list(moved.values()), allow_unused=True, materialize_grads=True)
    step = 1e-8  # a kink of ReLU or of a maximum inside the step is rare
    difference = [(a - b) / (2 * step) for a, b in zip(gradient(step)[1], gradient(-step)[1])]
    ours, slow = (torch.cat([t.flatten() for t in ts]) for ts in (product, difference))
    assert slow.norm() > 0
    assert (ours - slow).norm() <= 1e-3 * slow.norm()


# the start


def test_start_follows_the_seed_and_a_generator_of_its_own(name):
    def state(seed):
        torch.manual_seed(seed)
        return small(name).state_dict()

    one, same, other = state(1), state(1), state(2)
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert any(not torch.equal(one[key], other[key]) for key in one)
    nets = [small(name), small(name)]
    before = torch.get_rng_state()
    for net in nets:
        net.draw_start(torch.Generator().manual_seed(7))
    assert torch.equal(torch.get_rng_state(), before)
    first, second = (net.state_dict() for net in nets)
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_start_leaves_the_buffers_and_resets_every_parameter(name, tiny):
    for number, tensor in enumerate(tiny.parameters()):
        tensor.data.fill_(100.0 + number)
    buffers = {key: value.clone() for key, value in tiny.named_buffers()}
    tiny.draw_start()
    assert all(torch.equal(value, buffers[key]) for key, value in tiny.named_buffers())
    assert all(tensor.abs().max() < 50 for tensor in tiny.parameters())


def spread(tensor):
    return tensor.square().mean().sqrt().item()


def test_start_is_the_published_one(name):
    torch.manual_seed(0)
    net = small(name, width=1.0 if name.startswith("DenseNet") else 0.5)
    seen = 0
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            outputs, inputs, *kernel = module.weight.shape
            area = math.prod(kernel)
            uniform = name == "WRN-28-10"
            expected = (1 / (3 * inputs * area)) ** 0.5 if uniform else (2 / (outputs * area)) ** 0.5
            if module.weight.numel() > 2000:
                assert spread(module.weight) == pytest.approx(expected, rel=0.1)
                assert (module.weight.abs().max() <= expected * 3**0.5 * 1.001) == uniform
                seen += 1
            if module.bias is not None:
                assert module.bias.any() == uniform
        elif isinstance(module, nn.BatchNorm2d):
            assert torch.equal(module.weight, torch.ones_like(module.weight))
            assert not module.bias.any()
        elif isinstance(module, Scale):
            zero = name.endswith(("SkipInit", "ReZero"))
            assert module.scale.item() == (0 if zero else 1)
        elif isinstance(module, Shift):
            assert module.bias.item() == 0
    assert seen >= 3
    head, bound = net.head, net.feature_dim**-0.5
    assert head.bias.any() == (name == "WRN-28-10")
    if name.startswith("VGG"):
        assert spread(head.weight) == pytest.approx(0.01, rel=0.1)
    else:
        assert spread(head.weight) == pytest.approx(bound / 3**0.5, rel=0.15)
        assert head.weight.abs().max() <= bound


def test_a_half_precision_network_can_start():
    net = small("ResNet-110-BN").to(torch.bfloat16)
    net.draw_start(torch.Generator().manual_seed(1))
    same = small("ResNet-110-BN")
    same.draw_start(torch.Generator().manual_seed(1))
    assert torch.equal(net.body[0][0].conv1.weight, same.body[0][0].conv1.weight.bfloat16())
