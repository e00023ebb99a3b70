"""YOPO: one inner step is FreeLB, a linear first part is a larger step, a slow loop, the shallow pass."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from relearn.methods.freelb import FreeLB
from relearn.methods.pixel_space import PixelSpace
from relearn.methods.yopo import YOPO, first_block

from .sentences import apart, encoder, sentences, take


class Linear(nn.Module):
    """A network whose first block is linear in the input."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.layers = nn.ModuleList([nn.Linear(5, 6), nn.Linear(6, 3)])
        self.double()

    def forward(self, x):
        return self.layers[1](torch.tanh(self.layers[0](x)))


def vectors():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 5, dtype=torch.float64, generator=generator)
    return x, torch.tensor([0, 2, 1, 2])


@pytest.mark.parametrize("family", ["roberta", "albert"])
@pytest.mark.parametrize("reuse", [True, False])
def test_one_inner_step_is_freelb(family, reuse):
    model, batch = encoder(family), sentences()
    value, ours = take(FreeLB(reuse_masks=reuse), model, batch)
    for step in ("divided", "whole"):
        again, found = take(YOPO(inner=1, step=step, reuse_masks=reuse), model, batch)
        assert again == value and apart(found, ours) < 1e-14


@pytest.mark.parametrize("inner", [2, 3])
def test_with_a_linear_first_part_it_is_freelb_with_a_larger_step(inner):
    """The erratum: n inner steps are one n times as long, unless the ball stops one of them; divided steps are FreeLB's."""
    free = dict(passes=3, start_norm=0.1, space=PixelSpace(None), eps=50.0)
    yopo = YOPO(step_size=0.3, inner=inner, step="whole", **free)
    value, ours = take(yopo, Linear(), vectors())
    larger, expected = take(FreeLB(step_size=0.3 * inner, **free), Linear(), vectors())
    assert value == pytest.approx(larger, rel=1e-12) and apart(ours, expected) < 1e-12
    divided, found = take(YOPO(step_size=0.3, inner=inner, **free), Linear(), vectors())
    plain, same = take(FreeLB(step_size=0.3, **free), Linear(), vectors())
    assert divided == pytest.approx(plain, rel=1e-12) and apart(found, same) < 1e-12
    tight = {**free, "eps": 0.4, "norm": "linf"}  # the control: a block that is not linear
    assert (
        abs(take(YOPO(step_size=0.3, inner=inner, step="whole", **tight), Linear(), vectors())[0] - larger)
        > 1e-3
    )


def test_a_block_that_is_not_linear_moves_another_way():
    model, batch = encoder(dropout=0.0), sentences()
    free = dict(start_norm=0.0, project=False, eps=None)
    _, ours = take(YOPO(step_size=0.6, inner=3, step="whole", **free), model, batch)
    _, larger = take(FreeLB(step_size=1.8, **free), model, batch)
    assert apart(ours, larger) > 1e-3


@pytest.mark.parametrize("family", ["roberta", "albert"])
def test_against_a_slow_loop(family):
    """m whole passes and n steps each, every inner gradient taken through the network's own first block from its tokens."""
    model, ((tokens, real), labels) = encoder(family, dropout=0.0), sentences()
    base, table = model.net.base_model, model.get_input_embeddings()
    layer = base.encoder.layer[0] if family == "roberta" else base.encoder.albert_layer_groups[0]
    store = {}

    def run(delta):
        """Logits and f_0, from whole passes with hooks of the test's own."""
        calls = []
        hooks = [
            table.register_forward_hook(lambda module, given, rows: rows + delta),
            layer.register_forward_hook(lambda module, given, out: calls.append(out)),
        ]
        logits = model(tokens, real)
        for hook in hooks:
            hook.remove()
        store["f0"] = calls[0]
        return logits

    value, ours = take(YOPO(2, 0.5, 0.8, start_norm=0.0, inner=3), model, ((tokens, real), labels))
    delta, total = torch.zeros(*tokens.shape, table.embedding_dim, dtype=torch.float64), 0.0
    model.zero_grad(set_to_none=True)
    for _ in range(2):
        loss = cross_entropy(run(delta), labels) / 2
        (p,) = torch.autograd.grad(loss, store["f0"], retain_graph=True)
        loss.backward()
        total += float(loss.detach())
        for _ in range(3):
            point = delta.clone().requires_grad_()
            run(point)
            (g,) = torch.autograd.grad((p * store["f0"]).sum(), point)
            moved = delta + 0.5 / 3 * g / g.flatten(1).norm(dim=1)[:, None, None]
            delta = moved * (0.8 / moved.flatten(1).norm(dim=1)).clamp(max=1.0)[:, None, None]
    theirs = {name: one.grad for name, one in model.named_parameters() if one.grad is not None}
    assert value == pytest.approx(total, rel=1e-12) and apart(ours, theirs) < 1e-12


def test_a_shallow_pass_stops_behind_the_first_block_and_has_the_masks():
    model, batch = encoder(), sentences()
    calls = {"first": 0, "second": 0}
    layers = model.net.roberta.encoder.layer
    layers[0].register_forward_hook(lambda *given: calls.__setitem__("first", calls["first"] + 1))
    layers[1].register_forward_hook(lambda *given: calls.__setitem__("second", calls["second"] + 1))
    value, _ = take(YOPO(3, inner=4), model, batch)
    assert calls == {"first": 3 + 2 * 3, "second": 3}
    state = torch.get_rng_state()
    take(FreeLB(), model, batch)
    assert torch.equal(state, torch.get_rng_state())  # the generator stands where one pass leaves it
    assert take(YOPO(3, inner=4), model, batch)[0] == value


def test_the_first_block_is_found_or_named():
    model = encoder()
    assert first_block(model) is model.net.roberta.encoder.layer[0]
    assert first_block(encoder("albert")).__class__.__name__ == "AlbertLayerGroup"
    vision = nn.ModuleDict({"stem": nn.Conv2d(1, 1, 1), "blocks": nn.Sequential(nn.Tanh(), nn.ReLU())})
    assert isinstance(first_block(vision), nn.Tanh)
    assert first_block(vision, "stem") is vision["stem"]


BAD = [
    (lambda: YOPO(inner=0), r"inner: found 0 \(allowed: a whole number, 1 or more\)"),
    (lambda: YOPO(step="half"), r"step: found 'half' \(allowed: divided, whole\)"),
    (lambda: first_block(nn.Linear(2, 2)), r"first: Linear has no list of blocks \(allowed: the name"),
    (lambda: first_block(nn.Linear(2, 2), "block"), r"first: found 'block', which Linear does not have"),
    (
        lambda: take(YOPO(first="unused"), _unused(), sentences()),
        r"first: its module is not called in a forward pass",
    ),
]


def _unused():
    model = encoder()
    model.unused = nn.Linear(1, 1).double()
    return model


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_settings_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


class Outside(Linear):
    """The residual sum of its first block is outside the block, so the network cannot be cut at the block's output."""

    def __init__(self, around):
        super().__init__()
        self.around = around
        self.layers[0] = nn.Linear(5, 5).double()
        self.layers[1] = nn.Linear(5, 3).double()

    def forward(self, x):
        first = torch.tanh(self.layers[0](x))
        return self.layers[1](x + first if self.around else first)


@pytest.mark.parametrize("around", [True, False])
def test_a_first_block_that_the_input_gets_around_is_refused(around):
    space = PixelSpace(bounds=None)
    strategy = YOPO(passes=2, inner=2, step_size=0.1, start_norm=0.1, space=space, norm="linf")
    model = Outside(around)
    if not around:
        take(strategy, model, vectors())
        return
    with pytest.raises(ValueError, match=r"^first: its module is no cut, .* \(allowed: .*\)$"):
        take(strategy, model, vectors())
