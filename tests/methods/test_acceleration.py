"""Compiling is off unless asked for, changes no number beyond rounding, and leaves nothing behind."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from relearn.methods import acceleration, convex_polytope
from relearn.methods.fit import fit


@pytest.fixture
def traced():
    acceleration.use("aot_eager")
    yield
    acceleration.use(acceleration.OFF)


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(64, 3)
        self.calls = 0

    def features(self, x):
        self.calls += not torch.compiler.is_compiling()
        return self.body(x)

    def forward(self, x):
        return self.head(self.features(x))


def trained() -> Small:
    net, generator = Small(), torch.Generator().manual_seed(1)
    x, y = torch.rand(24, 1, 6, 6, generator=generator), torch.randint(0, 3, (24,), generator=generator)
    fit(net, (x, y), loss=cross_entropy, epochs=2, batch_size=8, lr=0.1)
    return net


def crafted() -> tuple[Small, torch.Tensor]:
    net, generator = Small(), torch.Generator().manual_seed(1)
    bases, targets = torch.rand(2, 1, 6, 6, generator=generator), torch.rand(3, 1, 6, 6, generator=generator)
    return net, convex_polytope.craft([net], bases, targets, iterations=3).poisons


def test_a_compiled_training_ends_at_the_same_weights(traced):
    compiled = trained()
    acceleration.use(acceleration.OFF)
    plain = trained()
    assert compiled.calls == 0 < plain.calls  # traced, not called
    for a, b in zip(plain.parameters(), compiled.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    assert "forward" not in vars(compiled)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_compiled_substitutes_craft_the_same_poisons(traced):
    net, poisons = crafted()
    acceleration.use(acceleration.OFF)
    torch.testing.assert_close(poisons, crafted()[1], rtol=1e-4, atol=1e-5)
    assert "features" not in vars(net)


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="compile: found 'fast', allowed are off, default"):
        acceleration.use("fast")


def test_a_network_without_the_method_is_left_alone(traced):
    with acceleration.compiled(nn.Linear(2, 2), "features"):
        pass


def test_a_method_of_the_caller_returns(traced):
    net = nn.Linear(2, 2)
    net.forward = own = net.forward
    with acceleration.compiled(net):
        assert vars(net)["forward"] is not own
    assert vars(net)["forward"] is own
