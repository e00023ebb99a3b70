"""Training on the last of K perturbations: analytic on a linear model, a slow loop, the sharing of masks."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from relearn.methods.fit import plain_gradient
from relearn.methods.perturbation import norms
from relearn.methods.pgd_training import PGDTraining
from relearn.methods.pixel_space import PixelSpace

from .sentences import LOSSES, apart, encoder, sentences, take


@pytest.mark.parametrize(
    ("passes", "eps", "length"), [(1, 9.0, 0.0), (2, 9.0, 0.3), (5, 9.0, 1.2), (5, 0.7, 0.7)]
)
def test_on_a_linear_model_the_perturbation_is_known(passes, eps, length):
    """Loss -y w·x: every step goes along -y w/‖w‖; the parameter's gradient is -mean y (x + δ)."""
    torch.manual_seed(0)
    x, y = torch.randn(6, 4, dtype=torch.float64), torch.tensor([1.0, -1, 1, 1, -1, -1], dtype=torch.float64)
    model = nn.Linear(4, 1, bias=False).double()
    strategy = PGDTraining(passes, 0.3, eps, start_norm=0.0, space=PixelSpace(None))
    _, found = take(strategy, model, (x, y), lambda out, y: -(y * out[:, 0]).mean())
    w = model.weight.detach()[0]
    delta = -length * y[:, None] * w / w.norm()
    assert torch.allclose(found["weight"][0], -(y[:, None] * (x + delta)).mean(0), rtol=1e-12)


@pytest.mark.parametrize("kind", ["classification", "ranking", "regression"])
def test_against_a_slow_loop(kind):
    model, batch = encoder("bert", kind, dropout=0.0), sentences(kind)
    loss = LOSSES[kind]
    strategy = PGDTraining(4, 0.4, 0.6, start_norm=0.0)
    value, ours = take(strategy, model, batch, loss)
    (tokens, real), labels = batch
    flat, samples = real.flatten(0, -2), len(labels)
    embeds = model.get_input_embeddings()(tokens.flatten(0, -2))

    def objective(delta):
        scores = model.net(inputs_embeds=embeds + delta, attention_mask=flat).logits
        return loss(scores.squeeze(-1) if kind == "regression" else scores.reshape(samples, -1), labels)

    delta = torch.zeros_like(embeds)
    for _ in range(3):
        point = delta.clone().requires_grad_()
        (g,) = torch.autograd.grad(objective(point), point, retain_graph=True)
        g = (g * flat[:, :, None]).reshape(samples, -1)
        moved = delta.reshape(samples, -1) + 0.4 * g / g.norm(dim=1, keepdim=True)
        delta = (moved * (0.6 / moved.norm(dim=1, keepdim=True)).clamp(max=1.0)).reshape(delta.shape).detach()
    model.zero_grad(set_to_none=True)
    expected = objective(delta)
    expected.backward()
    theirs = {name: one.grad for name, one in model.named_parameters() if one.grad is not None}
    assert value == pytest.approx(float(expected.detach()), rel=1e-12) and apart(ours, theirs) < 1e-12
    assert float(norms(delta, samples).max()) <= 0.6 + 1e-12


def test_the_step_has_the_masks_of_its_ascents():
    """The last pass of a step whose ascents go nowhere is a plain step with the first pass's masks."""
    model, batch = encoder(), sentences()
    plain, ours = take(plain_gradient, model, batch)
    still = dict(passes=3, step_size=1e-12, start_norm=0.0)
    value, found = take(PGDTraining(**still), model, batch)
    assert value == pytest.approx(plain, rel=1e-9) and apart(found, ours) < 1e-9
    fresh, _ = take(PGDTraining(**still, reuse_masks=False), model, batch)
    assert abs(fresh - plain) > 1e-3


def test_without_a_perturbation_it_is_plain_training_bit_for_bit():
    model, batch = encoder(), sentences()
    plain, ours = take(plain_gradient, model, batch)
    for strategy in (PGDTraining(eps=0.0), PGDTraining(step_size=0.0, start_norm=0.0)):
        value, found = take(strategy, model, batch)
        assert value == plain and all(torch.equal(ours[name], found[name]) for name in ours)


def test_an_ascent_asks_for_no_gradient_of_a_parameter():
    model, batch = encoder(dropout=0.0), sentences()
    seen = []
    parameter = model.net.roberta.encoder.layer[1].output.dense.weight
    handle = parameter.register_hook(lambda gradient: seen.append(0))
    take(PGDTraining(4), model, batch)
    handle.remove()
    assert len(seen) == 1


def test_no_pass_at_all_is_refused():
    with pytest.raises(ValueError, match=r"passes: found 0 \(allowed: a whole number, 1 or more\)"):
        PGDTraining(0)
    assert cross_entropy is LOSSES["classification"]
