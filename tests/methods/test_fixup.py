"""FixUp: its factors, blocks that start as shortcuts, a first update that does not grow with depth."""

import pytest
import torch
from torch import nn

from relearn.methods.fixup import fixup
from relearn.methods.variance_scaling import kaiming
from relearn.models import create


def some(network, depth=0.1, seed=1):
    torch.manual_seed(seed)
    return create(network, width=0.5, depth=depth, classes=4).double()


@pytest.fixture
def images():
    return torch.rand(4, 3, 16, 16, dtype=torch.double, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize(
    ("network", "layers", "branches"),
    [("FixUpResNet-110", 2, 6), ("ResNet-110", 2, 6), ("timm-ResNet-50-FixUp", 3, 4)],
)
def test_weights_are_kaimings_times_the_published_factors(network, layers, branches):
    ours, start = some(network), some(network, seed=2)
    done = fixup(ours, seed=5)
    kaiming(start, seed=5)
    expected = {id(start.head.weight): 0.0}
    assert len(start.branches()) == branches
    for branch in start.branches():
        assert len(branch) == layers
        for layer in branch:
            expected[id(layer.weight)] = branches ** -(1 / (2 * layers - 2))
        expected[id(branch[-1].weight)] = 0.0
    for (name, a), b in zip(ours.named_parameters(), start.parameters()):
        factor = expected.get(id(b), 1.0)
        torch.testing.assert_close(a.detach(), factor * b.detach(), msg=name)
        assert done.scales.get(name, 1.0) == pytest.approx(factor)
    assert not ours.head.bias.any()


def test_fixup_starts_as_its_shortcuts_with_logits_of_zero(images):
    net = some("FixUpResNet-110")
    fixup(net, seed=0)
    with torch.no_grad():
        hidden = net.stem(images)
        for stage in net.body:
            for block in stage:
                hidden = block.shortcut(hidden) if hasattr(block, "shortcut") else hidden
        torch.testing.assert_close(net.stages(images)[-1], hidden)
        assert not net(images).any()
        kaiming(net, seed=0)  # control
        assert net(images).any()


def first_update(depth, images, scaled):
    """-d/dη of the loss at η = 0 within the branches, so their share of the first step's change; a head that is not 0."""
    net = some("FixUpResNet-110", depth)
    fixup(net, seed=0)
    head = torch.randn(net.head.weight.shape, generator=torch.Generator().manual_seed(9), dtype=torch.double)
    net.head.weight.data.copy_(head)
    if not scaled:
        for branch in net.branches():
            branch[0].weight.data *= len(net.branches()) ** 0.5
    nn.functional.cross_entropy(net(images), torch.tensor([0, 1, 2, 3])).backward()
    return sum(branch[-1].weight.grad.square().sum().item() for branch in net.branches())


def test_the_first_update_does_not_grow_with_depth(images):
    shallow, deep = 1 / 18, 12 / 18  # 3 and 36 branches
    ratio = first_update(deep, images, True) / first_update(shallow, images, True)
    assert ratio == pytest.approx(1, rel=0.4)
    control = first_update(deep, images, False) / first_update(shallow, images, False)
    assert control == pytest.approx(12, rel=0.4)


def test_numbers_in_the_place_of_normalisation_let_every_branch_move(images):
    net = some("ResNet-110-SkipInit")
    fixup(net, seed=0)
    net.head.weight.data.normal_()
    net(images).square().sum().backward()
    assert all(branch[-1].weight.grad.any() for branch in net.branches())


class OneLayerBranches(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(2, 2)

    def branches(self):
        return [(self.head,)]


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (nn.Sequential(nn.Linear(2, 2)), "Sequential does not declare its residual branches"),
        (OneLayerBranches(), "fewer than two layers"),
    ],
)
def test_networks_without_residual_branches_are_refused(net, message):
    before = [tensor.clone() for tensor in net.parameters()]
    with pytest.raises(ValueError, match=rf"^fixup: .*{message}.*\(allowed: "):
        fixup(net)
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), before))


@pytest.mark.parametrize("network", ["VGG-19", "ResNet-110-BN", "WRN-28-10", "DenseNet-100"])
def test_networks_that_normalise_or_are_not_residual_are_refused(network):
    with pytest.raises(ValueError, match=r"^fixup: .*\(allowed: "):
        fixup(some(network))
