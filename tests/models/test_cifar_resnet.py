"""ResNet-110 and its relatives: parameters by arithmetic, a slow forward pass, the branches, kept memory."""

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F

from relearn.layers.scalar import Scale, Shift
from relearn.models import create
from relearn.models.cifar_resnet import Block, FixUpBlock, Shortcut

FAMILY = {  # blocks a stage, normalised, numbers beside the layers, parameters of 10 classes of RGB images
    "ResNet-110": (18, False, 0, 1_723_914),
    "ResNet-110-BN": (18, True, 0, 1_728_058),
    "ResNet-1202": (200, False, 0, 19_376_458),
    "ResNet-1202-BN": (200, True, 0, 19_421_370),
    "ResNet-110-SkipInit": (18, False, 54, 1_723_968),
    "ResNet-110-ReZero": (18, True, 54, 1_728_112),
    "FixUpResNet-110": (18, None, 54 * 5 + 2, 1_720_138),  # neither normalisations nor biases of convolutions
}
TINY = {"ResNet-1202": 0.01, "ResNet-1202-BN": 0.01}  # depth: two blocks a stage, as the others at 0.1


@pytest.fixture(params=FAMILY)
def name(request):
    return request.param


@pytest.fixture
def tiny(name, wake):
    """Two blocks a stage, in float64, every scalar and bias somewhere else than where it starts."""
    torch.manual_seed(3)
    net = wake(create(name, width=0.3, depth=TINY.get(name, 0.1)))
    for module in net.modules():
        if isinstance(module, Scale):
            module.scale.data.uniform_(0.5, 1.5)
        elif isinstance(module, Shift | torch.nn.Conv2d) and module.bias is not None:
            module.bias.data.normal_()
    return net


@pytest.fixture
def images():
    return torch.rand(2, 3, 8, 8, dtype=torch.double, generator=torch.Generator().manual_seed(5))


def test_it_has_the_published_parameters(name, size, published, parameters):
    blocks, normalised, numbers, published_count = FAMILY[name]
    layer = size.conv if normalised is None else (lambda *a: size.conv(*a) + (1 + normalised) * a[2])
    total, channels = layer(3, 3, 16) + size.linear(64, 10) + numbers, 16
    for planes in (16, 32, 64):
        total += size.norm(channels) * bool(normalised and planes > 16)  # the shortcut that halves
        for _ in range(blocks):
            total += layer(3, channels, planes) + layer(3, planes, planes)
            channels = planes
    assert parameters(published(name)) == total == published_count


def slow(net, x):
    """The logits, layer by layer, from the weights alone."""

    def norm(module, h):
        if not isinstance(module, torch.nn.BatchNorm2d):
            return h
        v, m = module.running_var + module.eps, module.running_mean
        shape = (1, -1, 1, 1)
        return (h - m.view(shape)) / v.sqrt().view(shape) * module.weight.view(shape) + module.bias.view(
            shape
        )

    def conv(module, h, stride):
        return F.conv2d(h, module.weight, module.bias, stride=stride, padding=1)

    stem = net.stem
    h = norm(stem[1], conv(stem[0], (x - net.mean) / net.std, 1))
    h = (h + stem[1].bias if isinstance(stem[1], Shift) else h).clamp(min=0)
    for number, stage in enumerate(net.body):
        for index, block in enumerate(one for one in stage if not isinstance(one, Shift)):
            stride = 2 if number and not index else 1
            if isinstance(block, FixUpBlock):
                low = h + block.before1.bias
                inner = (conv(block.conv1, low, stride) + block.after1.bias).clamp(min=0)
                branch = (
                    conv(block.conv2, inner + block.before2.bias, 1) * block.scale.scale + block.after2.bias
                )
            else:
                low = h
                inner = norm(block.norm1, conv(block.conv1, h, stride)).clamp(min=0)
                branch = norm(block.norm2, conv(block.conv2, inner, 1))
                branch = branch * (block.scale.scale if isinstance(block.scale, Scale) else 1)
            if stride == 2:
                low = norm(block.shortcut.norm, low[:, :, ::2, ::2])
                zeros = low.new_zeros(len(low), branch.shape[1] - low.shape[1], *low.shape[2:])
                h = (branch + torch.cat((low, zeros), 1)).clamp(min=0)
            else:
                h = (branch + h).clamp(min=0)
    last = net.body[-1][-1]
    mean = h.mean((2, 3)) + (last.bias if isinstance(last, Shift) else 0)
    return mean @ net.head.weight.T + net.head.bias


def test_forward_is_the_formula(tiny, images):
    tiny.eval()
    torch.testing.assert_close(tiny(images), slow(tiny, images))


def test_shortcut_takes_every_second_pixel_and_adds_zero_channels():
    x = torch.randn(2, 3, 5, 4)
    y = Shortcut(3, 7, 2, False)(x)
    assert torch.equal(y[:, :3], torch.nn.AvgPool2d(1, stride=2)(x))  # as published
    assert y.shape == (2, 7, 3, 2) and not y[:, 3:].any()
    assert Shortcut(3, 3, 1, True)(x) is x
    assert [p.shape for p in Shortcut(3, 7, 2, True).parameters()] == [(3,), (3,)]
    assert not list(Shortcut(3, 3, 1, True).parameters())


def test_a_normalised_shortcut_has_batch_statistics_in_training():
    layer, x = Shortcut(3, 5, 2, True).double().train(), 2 + torch.randn(8, 3, 6, 6, dtype=torch.double)
    y = layer(x)[:, :3]
    torch.testing.assert_close(y.mean((0, 2, 3)), torch.zeros(3, dtype=torch.double), atol=1e-12, rtol=0)
    torch.testing.assert_close(
        y.var((0, 2, 3), correction=0), torch.ones(3, dtype=torch.double), atol=1e-4, rtol=0
    )


@pytest.mark.parametrize("rescaled", ["ResNet-110-SkipInit", "ResNet-110-ReZero"])
def test_branches_that_start_at_zero_leave_the_shortcuts_and_move_by_their_number_alone(rescaled, images):
    torch.manual_seed(0)
    net = create(rescaled, depth=0.1).double().train()
    with torch.no_grad():
        h = net.stem((images - net.mean) / net.std)
        for stage in net.body:
            for block in stage:
                h = F.relu(block.shortcut(h))
        torch.testing.assert_close(net.stages(images)[-1], h)
    net(images).square().sum().backward()
    for key, tensor in net.named_parameters():
        inside = key.startswith("body") and "shortcut" not in key
        assert (tensor.grad.abs().max() == 0) == (inside and not key.endswith("scale")), key


def test_fixup_with_its_first_numbers_is_the_block_without_them(images):
    block, plain = FixUpBlock(3, 5, 2, 0.0).double(), Block(3, 5, 2, 0.0, False, None).double()
    plain.conv1.weight, plain.conv2.weight = block.conv1.weight, block.conv2.weight
    torch.nn.init.zeros_(plain.conv1.bias), torch.nn.init.zeros_(plain.conv2.bias)
    torch.testing.assert_close(block(images), plain(images))
    block.before1.bias.data.fill_(0.3)  # control
    assert not torch.allclose(block(images), plain(images))


def test_branches_are_the_convolutions_in_their_order(tiny, images):
    order = []
    for module in tiny.modules():
        if isinstance(module, torch.nn.Conv2d):
            module.register_forward_hook(lambda module, *_: order.append(module))
    tiny(images)
    assert [layer for branch in tiny.branches() for layer in branch] == order[1:]  # all but the stem
    assert len(tiny.branches()) == 6


def test_published_networks_have_as_many_branches_as_blocks(name, published):
    assert len(published(name).branches()) == 3 * FAMILY[name][0]


def kept_maps(name, depth):
    """Bytes that one training pass keeps for the backward pass, without parameters, in full maps of stage 1."""
    torch.manual_seed(0)
    net = create(name, depth=depth).train()
    known = {tensor.data_ptr() for tensor in net.parameters()}
    kept = {}

    def note(tensor):
        if tensor.dim() == 4 and tensor.data_ptr() not in known:
            kept[tensor.data_ptr()] = (tensor, tensor.numel())  # holds it: an address must not come twice
        return tensor

    with saved_tensors_hooks(note, lambda tensor: tensor):
        loss = net(torch.rand(2, 3, 16, 16)).sum()
    del loss
    return sum(count for _, count in kept.values()) / (2 * 16 * 16 * 16)


@pytest.mark.parametrize(("network", "maps"), [("ResNet-1202", 2), ("ResNet-1202-BN", 4)])
def test_training_keeps_no_more_maps_a_block_than_its_layers_read(network, maps):
    one, two = kept_maps(network, 1 / 200), kept_maps(network, 2 / 200)
    assert two - one == maps * (1 + 1 / 2 + 1 / 4)  # the maps of stages 2 and 3 are half and a quarter
