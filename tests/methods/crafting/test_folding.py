"""A folded network computes the same features and gradients, and is itself again afterwards."""

import copy
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn

from relearn.maths.eval_mode import frozen
from relearn.methods import convex_polytope
from relearn.methods.crafting import loop
from relearn.methods.crafting.folding import folded
from relearn.models import create

NETWORKS = {"ResNet50": 53, "DPN92": 95, "GoogLeNet": 64, "MobileNetV2": 55, "SENet18": 1, "DenseNet121": 0}


def network(name: str) -> nn.Module:
    """Narrow, in float64, with running statistics and affine parameters as after training."""
    net = create(name, width=0.125)
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                for tensor, low in (
                    (module.running_mean, -0.1),
                    (module.running_var, 0.5),
                    (module.weight, 0.5),
                ):
                    tensor.uniform_(low, low + 1)
    return net.double()


def passes(net: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
    pixels = images.clone().requires_grad_()
    features = net.features(pixels)
    return features.detach(), torch.autograd.grad(features.square().sum(), pixels)[0]


def computing(net: nn.Module) -> int:
    """How many batch normalisations compute something."""
    return sum(isinstance(one, nn.BatchNorm2d) and "forward" not in one.__dict__ for one in net.modules())


@pytest.mark.parametrize(("name", "pairs"), NETWORKS.items())
def test_features_and_gradients_are_those_of_the_network(name: str, pairs: int) -> None:
    torch.manual_seed(0)
    net, images = network(name), torch.rand(2, 3, 32, 32, dtype=torch.float64)
    before = {key: value.clone() for key, value in net.state_dict().items()}
    with frozen(net):
        plain, norms = passes(net, images), computing(net)
        with folded([net, net], "fp32"):
            assert norms - computing(net) == pairs
            for there, whole in zip(passes(net, images), plain, strict=True):
                torch.testing.assert_close(there, whole, rtol=1e-8, atol=1e-10)
        assert computing(net) == norms
        for again, whole in zip(passes(net, images), plain, strict=True):
            assert torch.equal(again, whole)
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
    assert list(before) == list(net.state_dict())


def test_the_folded_weights_are_those_at_the_beginning() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2)).double().eval().requires_grad_(False)
    x = torch.rand(2, 1, 3, 3, dtype=torch.float64)
    with folded([net], "fp32"):
        before = net(x)
        net[1].bias += 1  # the control: without folding it would reach the output
        assert torch.equal(net(x), before)
    torch.testing.assert_close(net(x), before + 1)


def test_an_attack_computes_in_the_folded_network_what_it_computes_in_the_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    net = network("ResNet18")
    bases, targets = torch.rand(3, 3, 32, 32).double(), torch.rand(2, 3, 32, 32).double()
    counted: list[int] = []

    def craft() -> Tensor:
        def watch(done: int, total: int) -> None:
            counted.append(computing(net))

        options = {"iterations": 3, "dropout": False, "progress": watch}
        return convex_polytope.craft([net], bases, targets, **options).poisons

    within = craft()
    monkeypatch.setattr(loop, "folded", lambda *_: nullcontext())
    torch.testing.assert_close(within, craft(), rtol=1e-7, atol=1e-9)
    assert counted == [0, 0, 0, *3 * [computing(net)]] and computing(net) > 0


def test_what_occurs_twice_or_is_watched_is_left_alone() -> None:
    conv, norm = nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)
    alone = nn.Sequential(conv, norm).eval()
    shared = nn.ModuleList([alone, nn.Sequential(conv, nn.ReLU())]).eval()
    watched = copy.deepcopy(alone)
    watched[0].register_forward_hook(lambda *_: None)
    without = nn.Sequential(nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2, track_running_stats=False)).eval()
    apart = nn.Sequential(nn.Conv2d(2, 2, 1), nn.ReLU(), nn.BatchNorm2d(2)).eval()
    pulled = copy.deepcopy(alone)
    pulled[1].register_full_backward_hook(lambda *_: None)
    for net, untouched in (
        (alone, False),
        (shared, True),
        (watched, True),
        (without, True),
        (apart, True),
        (pulled, True),
    ):
        with folded([net], "fp32"):
            assert all("forward" not in one.__dict__ for one in net.modules()) is untouched
    alone[0].forward = own = alone[0].forward  # a caller's, as an adapter's
    with folded([alone], "fp32"):
        assert "forward" not in vars(norm)
    assert vars(alone[0]).pop("forward") is own
    with folded([alone, alone], "bf16"):
        assert conv.forward.__self__.weight.dtype is torch.bfloat16
    assert conv.weight.dtype is torch.float32
