"""What every initialisation of the registry promises: it sets parameters, and leaves no other trace."""

import copy
import inspect

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from relearn.methods import INITIALISATIONS, load
from relearn.models import create

CLASSES = 4


def plain():
    """Convolution, batch normalisation, Dropout, a linear head."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Conv2d(6, 6, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, CLASSES),
    )


def transformer(residual):
    from relearn.models.post_ln_transformer import PostLNTransformer

    return PostLNTransformer(
        20, dim=8, ffn=12, heads=2, encoder_layers=1, decoder_layers=1, residual=residual
    )


def images():
    generator = torch.Generator().manual_seed(7)
    while True:
        yield (
            torch.rand(12, 1, 8, 8, generator=generator),
            torch.randint(0, CLASSES, (12,), generator=generator),
        )


def sentences():
    generator = torch.Generator().manual_seed(7)

    def words(length):
        return torch.randint(4, 20, (9, length), generator=generator)

    while True:
        yield (words(6), words(5)), words(5)


def tokens_loss(logits, target):
    return cross_entropy(logits.flatten(0, 1), target.flatten())


FEW = {"gradinit": {"iterations": 3}, "metainit": {"iterations": 2}, "extra_epoch": {"steps": 3}}


def setting(name):
    torch.manual_seed(0)
    if name in ("admin", "t_fixup"):
        return transformer("w_skip" if name == "admin" else "no_norm"), tokens_loss, sentences()
    if name == "fixup":
        return create("FixUpResNet-110", in_channels=1, classes=CLASSES, depth=0.05), cross_entropy, images()
    return plain(), cross_entropy, images()


@pytest.mark.parametrize("name", INITIALISATIONS)
def test_it_sets_parameters_and_leaves_no_other_trace(name):
    method, settings = load(INITIALISATIONS, name), FEW.get(name, {})
    results = []
    for _ in range(2):
        model, loss, batches = setting(name)
        list(model.modules())[1].training = False  # a mode of its own, to be kept
        for buffer in model.buffers():
            if buffer.is_floating_point():
                buffer.add_(0.25)
        before = copy.deepcopy(model)
        torch.manual_seed(3 + len(results))  # what the global generator holds has no influence ...
        state = torch.get_rng_state()
        with torch.set_grad_enabled(
            not results or name == "extra_epoch"
        ):  # fit refuses to train under no_grad
            result = method(model, loss, batches, seed=5, **settings)
        assert torch.equal(torch.get_rng_state(), state)  # ... and is as it was
        assert [m.training for m in model.modules()] == [m.training for m in before.modules()]
        for key, buffer in before.named_buffers():
            assert torch.equal(buffer, dict(model.named_buffers())[key]), key
        for key, one in before.named_parameters():
            now = dict(model.named_parameters())[key]
            assert now.shape == one.shape and now.dtype == one.dtype and now.grad is None
            assert now.requires_grad == one.requires_grad or name == "admin"
            assert now.isfinite().all()
        assert any(
            not torch.equal(a, b) for a, b in zip(model.parameters(), before.parameters())
        )  # it did something
        results.append((result, [parameter.clone() for parameter in model.parameters()]))
    (one, weights), (other, others) = results
    assert one == other and all(torch.equal(a, b) for a, b in zip(weights, others))
    assert one.outcome == "ok" and one.outcome_step is None


@pytest.mark.parametrize("name", INITIALISATIONS)
def test_every_initialisation_takes_the_same_first_arguments(name):
    parameters = list(inspect.signature(load(INITIALISATIONS, name)).parameters.values())
    assert [parameter.name for parameter in parameters[:3]] == ["model", "loss", "batches"]
    own = parameters[3:]
    assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in own)
    assert {parameter.name: parameter.default for parameter in own}["seed"] == 0
    assert all(parameter.default is not inspect.Parameter.empty for parameter in own)
