"""Strategies by name, and what all of them promise."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from relearn.methods.embedding_space import EmbeddingSpace
from relearn.methods.fit import fit, plain_gradient
from relearn.methods.gradient_strategies import STRATEGIES, strategy
from relearn.methods.pixel_space import PixelSpace

from .sentences import LOSSES, encoder, gradients, sentences, take

ADVERSARIAL = sorted(set(STRATEGIES) - {"vanilla"})


@pytest.mark.parametrize("name", ADVERSARIAL)
@pytest.mark.parametrize("kind", ["classification", "regression", "ranking"])
def test_each_leaves_a_gradient_for_every_task(name, kind):
    model, batch = encoder("bert", kind), sentences(kind)
    (tokens, real), labels = batch
    types = (torch.arange(8) > 3).expand_as(tokens).long()
    value, found = take(strategy(name), model, ((tokens, real, types), labels), LOSSES[kind])
    plain, expected = take(plain_gradient, model, ((tokens, real, types), labels), LOSSES[kind])
    assert found.keys() == expected.keys() and value != plain
    assert all(bool(one.isfinite().all()) for one in found.values())
    assert not value > 10 * plain + 10


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_twice_the_loss_is_twice_the_gradient(name):
    """What data parallel training asks of a strategy."""
    model, batch = encoder(), sentences()
    _, once = take(strategy(name), model, batch)
    _, twice = take(strategy(name), model, batch, lambda *given: 2 * cross_entropy(*given))
    assert all(torch.allclose(twice[key], 2 * once[key], rtol=1e-9, atol=1e-13) for key in once)


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_no_perturbation_is_plain_training_bit_for_bit(name):
    model, batch = encoder(), sentences()
    plain, ours = take(plain_gradient, model, batch)
    value, found = take(strategy(name, eps=0.0), model, batch)
    assert value == plain and all(torch.equal(ours[key], found[key]) for key in ours)


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_the_model_is_left_as_it_was(name):
    model, batch = encoder(), sentences()
    before = {key: one.clone() for key, one in model.state_dict().items()}
    made = strategy(name)
    torch.manual_seed(0)
    made(model, cross_entropy, batch)
    assert all(torch.equal(one, before[key]) for key, one in model.state_dict().items())
    assert model.training and all(one.requires_grad for one in model.parameters())
    assert not any(part._forward_hooks for part in model.modules())
    assert gradients(model)


@pytest.mark.parametrize("name", ["freelb", "free_at"])
def test_in_the_loop_its_loss_falls_and_its_state_is_kept(name):
    batch = sentences(rows=8)

    class One:
        batches_per_epoch = 3

        def epoch(self, generator):
            return iter([batch] * 3)

    class Kept:
        state = None

        def load(self):
            return None

        def save(self, state):
            Kept.state = state

    found = fit(
        encoder(dropout=0.0),
        One(),
        loss=cross_entropy,
        epochs=4,
        lr=0.01,
        optimizer="adam",
        gradient=strategy(name, step_size=0.05),
        checkpoint=Kept(),
    )
    assert found.history[-1]["loss"] < found.history[0]["loss"]
    assert Kept.state["strategy"]["0"]["skipped"] == 0


def test_strategies_by_name():
    assert strategy("vanilla") is plain_gradient
    assert strategy("pgd").space == EmbeddingSpace()
    assert strategy("freelb", space="pixels", norm="linf").space == PixelSpace()
    assert strategy("yopo", passes=2, inner=3).inner == 3


BAD = [
    (
        ("fre_lb", {}),
        r"'fre_lb' is not known; did you mean 'freelb'\? allowed: free_at, freelb, pgd, vanilla, yopo",
    ),
    (("pgd", {"inner": 2}), r"pgd.inner: not known \(allowed: passes, step_size"),
    (("vanilla", {"passes": 2}), r"vanilla.passes: not known \(allowed: no settings\)"),
    (("freelb", {"space": "tokens"}), r"'tokens' is not known"),
    (("yopo", {"passes": 0}), r"passes: found 0"),
]


@pytest.mark.parametrize(("given", "message"), BAD)
def test_bad_settings_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        strategy(given[0], **given[1])
