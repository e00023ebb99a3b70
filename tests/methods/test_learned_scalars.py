"""Learnable scalars in training: their gradient, that they change no output when attached or folded, ties and order."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from relearn.methods.fit import fit
from relearn.methods.learned_scalars import attach, fold, learned_scalars

FLOAT = torch.float64


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.b = nn.Linear(4, 4, bias=False)
        self.b.weight = self.a.weight
        self.frozen = nn.Parameter(torch.ones(4), requires_grad=False)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.b(self.norm(self.a(x)).tanh() * self.frozen))


def network():
    torch.manual_seed(0)
    model = Net().to(FLOAT)
    nn.init.zeros_(model.head.bias)
    return model


def data(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(32, 4, generator=generator, dtype=FLOAT), torch.randint(
        0, 3, (32,), generator=generator
    )


def test_attached_and_folded_the_network_is_the_same():
    x, _ = data()
    model = network()
    expected, keys, types = model(x), list(model.state_dict()), [type(m) for m in model.modules()]
    identities = [id(parameter) for parameter in model.parameters()]
    names = attach(model)
    assert names == [
        "a.weight",
        "a.bias",
        "norm.weight",
        "head.weight",
    ]  # not the zero biases, not what is frozen
    assert torch.equal(model(x), expected)
    assert sum(key.endswith(".scale") for key, _ in model.named_parameters()) == 4  # the tied weight has one
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key.endswith(".scale"):
                parameter.mul_(1.5)
    scaled = model(x)
    assert not torch.allclose(scaled, expected)
    assert fold(model) == dict.fromkeys(names, 1.5)
    assert torch.allclose(model(x), scaled, atol=1e-12)
    assert list(model.state_dict()) == keys and [type(m) for m in model.modules()] == types
    assert [id(parameter) for parameter in model.parameters()] == identities
    assert model.a.weight is model.b.weight
    assert fold(model) == {}


def test_the_gradient_of_a_scalar_is_a_product():
    """∂L/∂s = ⟨∂L/∂(sW), W⟩, also over both uses of a tied weight."""
    x, y = data()
    plain, model = network(), network()
    cross_entropy(plain(x), y).backward()
    attach(model)
    cross_entropy(model(x), y).backward()
    expected = (plain.a.weight.grad * plain.a.weight).sum()
    assert model.a.parametrizations.weight[0].scale.grad.item() == pytest.approx(expected.item(), rel=1e-10)
    expected = (plain.norm.weight.grad * plain.norm.weight).sum()
    assert model.norm.parametrizations.weight[0].scale.grad.item() == pytest.approx(
        expected.item(), rel=1e-10
    )


def test_training_with_scalars_differs_from_training_without():
    x, y = data()
    plain, model = network(), network()
    settings = dict(loss=cross_entropy, epochs=3, batch_size=8, lr=0.1)
    fit(plain, (x, y), **settings)
    with learned_scalars(model) as names:
        fitted = fit(model, (x, y), **settings)
        during = copy.deepcopy(model)(x)
        scales = [p.item() for key, p in model.named_parameters() if key.endswith(".scale")]
    assert fitted.outcome == "ok" and len(names) == 4
    assert torch.allclose(model(x), during, atol=1e-12)
    moved = [abs(scale - 1) > 1e-6 for scale in scales]
    assert (
        moved.count(False) <= 1
    )  # the bias before the batch normalisation has no effect, and neither has its scalar
    assert not torch.allclose(model.a.weight, plain.a.weight, atol=1e-4)


def test_folded_after_an_error_too():
    model = network()
    with pytest.raises(RuntimeError, match="stop"), learned_scalars(model):
        raise RuntimeError("stop")
    assert list(model.state_dict()) == list(network().state_dict())


def test_a_folded_copy_leaves_the_network_alone():
    x, model = data()[0], network()
    with learned_scalars(model):
        copied = copy.deepcopy(model)
        fold(copied)
        assert torch.equal(model(x), copied(x))
    assert list(model.state_dict()) == list(copied.state_dict())


def test_bad_input_is_named_in_one_line():
    model = network()
    attach(model)
    with pytest.raises(ValueError, match="carry learnable scalars already"):
        attach(model)
    with pytest.raises(ValueError, match="no trainable parameter"):
        attach(nn.ReLU())
