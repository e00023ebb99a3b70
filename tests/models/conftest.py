"""What the networks' tests share: sizes of published layers, networks as after training, timm as truth."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn


def _wake(net: nn.Module, seed: int = 0) -> nn.Module:
    """Give batch normalisation values as after training: fresh ones hide wrong or missing normalisation."""
    generator = torch.Generator().manual_seed(seed)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            draw = (torch.rand(module.num_features, generator=generator) for _ in range(4))
            module.weight.data.copy_(0.5 + next(draw))
            module.bias.data.copy_(next(draw) - 0.5)
            module.running_mean.copy_(0.2 * next(draw) - 0.1)
            module.running_var.copy_(0.5 + next(draw))
    return net.double()


@pytest.fixture
def wake():
    return _wake


def awake(net):
    """Every parameter away from the start that could hide it."""
    generator = torch.Generator().manual_seed(1)
    for parameter in net.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.double)
    return net


@pytest.fixture
def give():
    """``give(ours, theirs)``: the tensors of one network in order to another one of the same shapes."""

    def copy(ours: nn.Module, theirs: nn.Module) -> nn.Module:
        values, names = list(ours.state_dict().values()), list(theirs.state_dict())
        assert len(values) == len(names)
        theirs.load_state_dict(dict(zip(names, values)))
        return theirs.double().train(ours.training)

    return copy


@pytest.fixture
def size():
    """Parameters of a convolution (kernel, inputs, outputs), a normalisation, both, a linear layer."""

    def conv(kernel: int, inputs: int, outputs: int, groups: int = 1) -> int:
        return kernel * kernel * inputs * outputs // groups

    def norm(channels: int) -> int:
        return 2 * channels

    return SimpleNamespace(
        conv=conv,
        norm=norm,
        unit=lambda kernel, inputs, outputs, groups=1: conv(kernel, inputs, outputs, groups) + norm(outputs),
        linear=lambda inputs, outputs: inputs * outputs + outputs,
    )


@pytest.fixture
def published():
    """The published network of a name, without memory for its weights."""
    from relearn.models import create

    def build(name: str) -> nn.Module:
        with torch.device("meta"):
            return create(name)

    return build


@pytest.fixture
def parameters():
    return lambda net: sum(tensor.numel() for tensor in net.parameters())


@pytest.fixture(scope="session")
def timm():
    from relearn import torchvision_schema

    torchvision_schema.declare()
    import timm

    return timm
