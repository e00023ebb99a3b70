"""FreeLB: the K-fold virtual batch, a slow loop of the algorithm, what must change nothing, what is refused."""

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from relearn.measures.virtual_batch import compare
from relearn.methods.embedding_space import EmbeddingSpace
from relearn.methods.fit import plain_gradient
from relearn.methods.freelb import FreeLB, freelb
from relearn.methods.perturbation import norms

from .sentences import LOSSES, apart, encoder, gradients, sentences, take


def noted(**settings):
    deltas = []
    settings = {"step_size": 0.4, "eps": 0.7, "start_norm": 0.5, **settings}
    return FreeLB(watch=lambda t, delta: deltas.append(delta.clone()), **settings), deltas


@pytest.mark.parametrize("kind", ["classification", "regression", "ranking"])
@pytest.mark.parametrize("family", ["roberta", "albert", "bert"])
@pytest.mark.parametrize("reuse", [True, False])
def test_the_gradient_is_that_of_the_virtual_batch(family, kind, reuse):
    model, batch = encoder(family, kind), sentences(kind)
    strategy, deltas = noted(reuse_masks=reuse)
    torch.manual_seed(3)
    found = compare(strategy, deltas, model, LOSSES[kind], batch, model.get_input_embeddings())
    assert found.difference < 1e-12 and found.loss_difference < 1e-12
    assert found.passes == 3 and found.masks >= 5 and found.reused is reuse
    assert not torch.equal(deltas[0], deltas[1])


def test_the_virtual_batch_sees_a_gradient_that_is_not_its():
    """The control: the sum instead of the mean, and masks that are another pass's."""
    model, batch = encoder(), sentences()
    strategy, deltas = noted()

    def doubled(*arguments):
        return 2 * strategy(arguments[0], lambda *given: 2 * cross_entropy(*given), arguments[2])

    assert (
        compare(doubled, deltas, model, cross_entropy, batch, model.get_input_embeddings()).difference > 0.5
    )
    strategy, deltas = noted()

    def moved(*arguments):
        value = strategy(*arguments)
        deltas.reverse()
        return value

    assert (
        compare(moved, deltas, model, cross_entropy, batch, model.get_input_embeddings()).difference < 1e-12
    )
    strategy, deltas = noted(reuse_masks=False)  # each pass its own masks: then the order counts
    assert compare(moved, deltas, model, cross_entropy, batch, model.get_input_embeddings()).difference > 1e-3


@pytest.mark.parametrize("project", [True, False])
@pytest.mark.parametrize("clean_first", [True, False])
@pytest.mark.parametrize("kind", ["classification", "ranking"])
def test_the_perturbations_are_the_algorithms(kind, project, clean_first):
    """Sample after sample, from gradients of a network without dropout that gets embeddings and nothing of ours."""
    model, batch = encoder("bert", kind, dropout=0.0), sentences(kind)
    strategy, deltas = noted(project=project, passes=4, eps=0.6, clean_first=clean_first)
    take(strategy, model, batch)
    torch.manual_seed(1)
    (tokens, real), labels = batch
    real, table = real.flatten(0, -2), model.get_input_embeddings()
    embeds = table(tokens.flatten(0, -2)).detach()
    samples, rows = len(labels), len(real)
    u = torch.rand(embeds.shape) * 2 - 1
    counts = real.reshape(samples, -1).sum(1) * embeds.shape[2]
    delta = (u.reshape(samples, -1) * (0.5 / counts.sqrt())[:, None]).reshape(embeds.shape) * real[:, :, None]
    delta = delta.double()
    for t in range(4):
        place = torch.zeros_like(delta) if clean_first and t == 0 else delta
        assert torch.allclose(deltas[t], place, rtol=1e-6, atol=1e-9)
        place = place.clone().requires_grad_()
        scores = model.net(inputs_embeds=embeds + place, attention_mask=real).logits
        loss = cross_entropy(scores.reshape(samples, -1), labels)
        g = torch.autograd.grad(loss, place)[0] * real[:, :, None]
        per = rows // samples
        for k in range(samples):
            own = slice(k * per, (k + 1) * per)
            moved = delta[own] + 0.4 * g[own] / g[own].norm()
            delta[own] = moved * min(1.0, 0.6 / float(moved.norm())) if project else moved
    longest = float(norms(deltas[-1], samples).max())
    assert longest <= 0.6 + 1e-6 if project else longest > 0.6


def test_padding_is_never_perturbed_and_a_perturbation_does_what_it_says():
    model, batch = encoder(), sentences()
    strategy, deltas = noted()
    take(strategy, model, batch)
    real = batch[0][1]
    for delta in deltas:
        assert not delta[~real].any() and bool(delta[real].any(-1).all())


def test_the_loss_rises_along_the_passes():
    model, batch = encoder(dropout=0.0), sentences()
    losses = []

    def loss(*given):
        value = cross_entropy(*given)
        losses.append(float(value.detach()))
        return value

    value, _ = take(FreeLB(passes=3, step_size=0.05, eps=1.0, start_norm=0.0), model, batch, loss)
    assert losses == sorted(losses) and losses[2] > losses[0]
    assert value == pytest.approx(sum(losses) / 3)


@pytest.mark.parametrize(
    "settings", [{"eps": 0.0}, {"step_size": 0.0, "start_norm": 0.0}, {"passes": 1, "start_norm": 0.0}]
)
def test_without_a_perturbation_it_is_plain_training_bit_for_bit(settings):
    model, batch = encoder(), sentences()
    plain, ours = take(plain_gradient, model, batch)
    random = torch.get_rng_state()
    value, found = take(FreeLB(**settings), model, batch)
    assert value == plain and ours.keys() == found.keys()
    assert torch.equal(random, torch.get_rng_state())
    if settings.get("passes") == 1:  # the same numbers, but the table's gradient goes another way back
        assert apart(found, ours) < 1e-14
    else:
        assert all(torch.equal(ours[name], found[name]) for name in ours)


def test_the_order_of_the_samples_does_not_matter():
    model, ((tokens, real), labels) = encoder(dropout=0.0), sentences()
    order = torch.tensor([3, 0, 4, 1, 2])
    strategy = FreeLB(step_size=0.4, eps=0.7, start_norm=0.0)
    value, ours = take(strategy, model, ((tokens, real), labels))
    again, moved = take(strategy, model, ((tokens[order], real[order]), labels[order]))
    assert again == pytest.approx(value, rel=1e-12) and apart(moved, ours) < 1e-12


@pytest.mark.parametrize("weights", [(0.4, 0.6), (1.0, 1.0)])
def test_shares_of_a_batch_with_their_weights_are_the_batch(weights):
    """Gradient accumulation, and a process's share: parts of the batch, each loss weighted; (1, 1) is the control."""
    model, ((tokens, real), labels) = encoder(dropout=0.0), sentences()
    strategy = FreeLB(step_size=0.4, eps=0.7, start_norm=0.0)
    _, whole = take(strategy, model, ((tokens, real), labels))
    model.zero_grad(set_to_none=True)
    for part, weight in zip((slice(0, 2), slice(2, 5)), weights):
        strategy(
            model,
            lambda *given, w=weight: w * cross_entropy(*given),
            ((tokens[part], real[part]), labels[part]),
        )
    assert (apart(gradients(model), whole) < 1e-12) is (weights == (0.4, 0.6))


def test_a_batch_padded_further_is_the_same_batch():
    model, ((tokens, real), labels) = encoder(dropout=0.0), sentences()
    strategy = FreeLB(step_size=0.4, eps=0.7, start_norm=0.0)
    value, ours = take(strategy, model, ((tokens, real), labels))
    wider = (nn.functional.pad(tokens, (0, 2), value=1), nn.functional.pad(real, (0, 2)))
    again, found = take(strategy, model, (wider, labels))
    assert again == pytest.approx(value, rel=1e-12) and apart(found, ours) < 1e-12


def test_a_frozen_table_and_a_table_with_dropout_behind_its_name():
    model, batch = encoder(), sentences()
    _, ours = take(FreeLB(), model, batch)
    model.get_input_embeddings().weight.requires_grad_(False)
    _, found = take(FreeLB(), model, batch)
    del ours["net.roberta.embeddings.word_embeddings.weight"]
    assert apart(found, ours) < 1e-14


class Words(nn.Module):
    """A table that is no nn.Embedding: differentiated in every pass."""

    def __init__(self, table):
        super().__init__()
        self.weight = table.weight

    def forward(self, tokens):
        return self.weight[tokens]


def test_any_module_that_looks_words_up_gives_the_same():
    batch, model = sentences(), encoder()
    _, ours = take(FreeLB(), model, batch)
    embeddings = model.net.roberta.embeddings
    embeddings.word_embeddings = Words(embeddings.word_embeddings)
    model.get_input_embeddings = None
    space = EmbeddingSpace("net.roberta.embeddings.word_embeddings")
    _, found = take(FreeLB(space=space), model, batch)
    ours["net.roberta.embeddings.word_embeddings.weight"][1] = found[
        "net.roberta.embeddings.word_embeddings.weight"
    ][1]  # the padding's row, which nn.Embedding leaves out
    assert apart(found, ours) < 1e-13


def test_gradients_are_added_to_what_is_there():
    model, batch = encoder(), sentences()
    _, once = take(FreeLB(), model, batch)
    torch.manual_seed(1)
    FreeLB()(model, cross_entropy, batch)
    assert apart(gradients(model), {name: 2 * one for name, one in once.items()}) < 1e-14


def test_bf16_and_the_function_alone():
    model, ((tokens, real), labels) = encoder("bert"), sentences()
    settings = dict(step_size=0.4, eps=0.7, start_norm=0.5, passes=3)
    value, ours = take(FreeLB(**settings), model, ((tokens, real), labels))
    model.zero_grad(set_to_none=True)
    torch.manual_seed(1)

    def loss(inputs_embeds):
        return cross_entropy(model.net(inputs_embeds=inputs_embeds, attention_mask=real).logits, labels)

    assert float(freelb(loss, model.get_input_embeddings()(tokens), real, **settings)) == pytest.approx(value)
    assert apart(gradients(model), ours) < 1e-13
    model = encoder("bert", seed=0).float()
    with torch.autocast("cpu", torch.bfloat16):
        value16, found = take(FreeLB(**settings), model, ((tokens, real), labels))
    assert value16 == pytest.approx(value, rel=0.05) and all(one.isfinite().all() for one in found.values())


class Unmasked(nn.Module):
    """Reads padding too, so that it counts whether padding is perturbed."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.get_input_embeddings = inner, inner.get_input_embeddings

    def forward(self, tokens, real):
        return self.inner(tokens, torch.ones_like(real))


FURTHER = [
    ("classification", {"clean_first": True}),
    ("classification", {"norm": "linf", "step_size": 0.05, "eps": 0.07, "start_norm": 0.03}),
    ("classification", {"mask": "start"}),
    ("classification", {"project": False, "step_size": 0.6}),
    ("classification", {"reuse_masks": False}),
    ("ranking", {}),
]


@pytest.mark.parametrize(("kind", "more"), FURTHER)
def test_the_function_alone_takes_all_settings_of_the_strategy(kind, more):
    """Each against the strategy with the same; the control: without the setting it is another gradient."""
    model, ((tokens, real), labels) = Unmasked(encoder("bert", kind)), sentences(kind)
    settings = dict(step_size=0.4, eps=0.7, start_norm=0.5, passes=3)
    value, ours = take(FreeLB(**settings | more), model, ((tokens, real), labels))
    flat = real.flatten(0, -2)

    def loss(inputs_embeds):
        ones = torch.ones_like(flat)
        scores = model.inner.net(inputs_embeds=inputs_embeds, attention_mask=ones).logits
        return cross_entropy(scores.reshape(len(labels), -1), labels)

    def alone(**changes):
        model.zero_grad(set_to_none=True)
        torch.manual_seed(1)
        embeds = model.get_input_embeddings()(tokens.flatten(0, -2))
        return float(freelb(loss, embeds, flat, **settings | changes)), gradients(model)

    samples = {"samples": len(labels)} if kind == "ranking" else {}
    again, found = alone(**more | samples)
    assert again == pytest.approx(value, rel=1e-12) and apart(found, ours) < 1e-13
    assert apart(alone()[1], ours) > 1e-4


def test_the_function_alone_without_a_perturbation_is_the_loss():
    weight = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    found = freelb(lambda inputs_embeds: inputs_embeds.square().sum(), weight * 1.0, eps=0.0)
    assert torch.equal(weight.grad, 2 * weight) and float(found) == pytest.approx(
        float(weight.detach().square().sum())
    )


def test_a_gradient_that_is_not_finite_stops_its_sample_and_is_counted():
    model, batch = encoder(dropout=0.0), sentences()
    strategy, deltas = noted(start_norm=0.0)
    calls = []

    def loss(logits, labels):
        calls.append(0)
        each = cross_entropy(logits, labels, reduction="none")
        # Sample 2's gradient, not its value, is not a number in the first pass.
        if len(calls) == 1:
            each = each + (each[2] - each[2].detach()).abs().sqrt() * torch.eye(5)[2]
        return each.mean()

    take(strategy, model, batch, loss)
    assert strategy.skipped_count == 1
    assert not deltas[1][2].any() and bool(deltas[1][[0, 1, 3, 4]].flatten(1).any(1).all())
    assert bool(deltas[2][2].any())  # the next pass is finite
    assert strategy.state_dict() == {"skipped": 1}


BAD = [
    ({"passes": 0}, r"passes: found 0 \(allowed: a whole number, 1 or more\)"),
    ({"passes": 2.5}, r"passes: found 2.5"),
    ({"eps": None}, r"eps: missing"),
    ({"step_size": -1.0}, r"step_size: found -1.0"),
]


@pytest.mark.parametrize(("settings", "message"), BAD)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        FreeLB(**settings)


def test_what_cannot_be_perturbed_is_refused():
    (tokens, real), labels = sentences()
    plain = nn.Sequential(nn.Linear(8, 3))
    with pytest.raises(
        ValueError, match=r"model: Sequential has no input embeddings \(allowed: get_input_emb"
    ):
        FreeLB()(plain, cross_entropy, ((tokens, real), labels))
    model = encoder()
    with pytest.raises(ValueError, match=r"module: found 'words', which SentenceClassifier does not have"):
        FreeLB(space=EmbeddingSpace("words"))(model, cross_entropy, ((tokens, real), labels))
    with pytest.raises(ValueError, match=r"module: its words are looked up 0 times"):
        model.extra = nn.Embedding(40, 16)
        FreeLB(space=EmbeddingSpace("extra"))(model, cross_entropy, ((tokens, real), labels))
    table = model.get_input_embeddings()
    twice = nn.ModuleList([table])  # a network that looks its words up once more
    twice.forward = lambda tokens, real: model(tokens, real) + table(tokens).mean()
    with pytest.raises(
        ValueError, match=r"module: its words are looked up 2 times in a pass \(allowed: once"
    ):
        FreeLB()(twice, cross_entropy, ((tokens, real), labels))
    empty = real.clone()
    empty[3] = False
    with pytest.raises(ValueError, match=r"real: sample 3 is all padding"):
        FreeLB()(model, cross_entropy, ((tokens, empty), labels))
    model._compiled_call_impl = lambda *given: None
    with pytest.raises(ValueError, match=r"compile: found a compiled model \(allowed: False"):
        FreeLB()(model, cross_entropy, ((tokens, real), labels))


def test_the_function_refuses_shapes_that_do_not_fit():
    embeds = torch.zeros(4, 3, 2)
    with pytest.raises(ValueError, match=r"inputs_embeds: found \(4, 3, 2\) for 3 samples"):
        freelb(lambda inputs_embeds: inputs_embeds.sum(), embeds, samples=3)
    with pytest.raises(ValueError, match=r"attention_mask: found shape \(4, 2\) \(allowed: \(4, 3\)\)"):
        freelb(lambda inputs_embeds: inputs_embeds.sum(), embeds, torch.ones(4, 2))


def test_no_hook_is_left_behind():
    model, batch = encoder(), sentences()
    take(FreeLB(), model, batch)
    with pytest.raises(ZeroDivisionError):
        FreeLB()(model, lambda *given: 1 / 0, batch)
    assert not model.get_input_embeddings()._forward_hooks
    assert math.isfinite(take(plain_gradient, model, batch)[0])
