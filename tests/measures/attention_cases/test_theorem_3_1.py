"""The block at a token of zero: closed form at D = 1, finite differences, growth with the square, and what must not pass."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from relearn.layers.attention_kinds import attention
from relearn.layers.dot_product_attention import DotProductAttention
from relearn.measures.attention_cases import theorem_3_1 as theorem
from relearn.measures.attention_cases.exact import exact
from relearn.measures.lipschitz.jacobian import jacobian_norm

MAKE = {
    "dp": partial(attention, "dp"),
    "dp_bias": partial(DotProductAttention, bias=True),
    "l2_tied": partial(attention, "l2_tied"),
}


def unit(layer):
    layer = exact(layer)
    for one in layer.parameters():
        one.fill_(1.0)
    return layer


@pytest.mark.parametrize("spread", [1.0, 10.0, 100.0])
def test_closed_form_of_three_tokens(spread):
    """D = H = 1, weights 1, tokens 0, R, -R: dF_0/dx_0 = Var + 1/3 = 2R²/3 + 1/3 by hand."""
    x = torch.tensor([[0.0], [spread], [-spread]], dtype=torch.float64)
    layer = unit(attention("dp", 1, 1))
    assert float(theorem.predicted_block(layer, x)) == pytest.approx(2 * spread**2 / 3 + 1 / 3, rel=1e-12)
    assert jacobian_norm(layer, x, "inf").value >= 2 * spread**2 / 3
    assert jacobian_norm(unit(attention("l2_tied", 1, 1)), x, "inf").value <= 2


def test_the_formula_is_the_slope_of_the_layer():
    """Finite differences, which know neither the formula nor autograd; several heads."""
    torch.manual_seed(1)
    layer = exact(DotProductAttention(6, 3))
    x = torch.cat([torch.zeros(1, 6), torch.randn(4, 6)]).double()
    found = theorem.predicted_block(layer, x)
    step = 1e-5
    for j in range(6):
        shift = torch.zeros_like(x)
        shift[0, j] = step
        slope = (layer(x + shift)[0] - layer(x - shift)[0]) / (2 * step)
        torch.testing.assert_close(found[:, j], slope, rtol=0, atol=1e-8)


def test_the_row_attends_uniformly_with_biases_too():
    torch.manual_seed(2)
    layer = exact(DotProductAttention(4, 2, bias=True))
    torch.nn.init.normal_(layer.q.bias)
    torch.nn.init.normal_(layer.k.bias)
    token = theorem._zero_logits("dp_bias", layer)
    assert float(token.abs().max()) > 0.1
    x = torch.cat([token, 50 * torch.randn(3, 4, dtype=torch.float64)])
    row = layer.probabilities(x)[0, :, 0]
    torch.testing.assert_close(row, torch.full_like(row, 0.25), rtol=1e-10, atol=0)
    zero = torch.cat([torch.zeros_like(token), x[1:]])  # with a bias, zero is not the place
    assert float(layer.probabilities(zero)[0, :, 0].max()) > 0.9


def test_every_case_holds_and_dot_product_grows_with_the_square():
    rows = theorem.cases(MAKE, lengths=(2, 5), dims=(2, 4), heads=2, spreads=(1.0, 100.0, 1000.0))
    assert [tuple(row) for row in rows] == [theorem.COLUMNS] * (2 * 2 * 3 * 3)
    assert all(row["holds"] for row in rows)
    for kind in theorem.KINDS:
        for length in (2, 5):
            for dim in (2, 4):
                norm = [
                    row["norm"]
                    for row in rows
                    if (row["attention"], row["length"], row["dim"]) == (kind, length, dim)
                ]
                if kind == "l2_tied":
                    assert max(norm) < 5
                else:
                    assert norm[2] / norm[1] == pytest.approx(100, rel=0.2)
    for row in rows:
        assert row["block_norm"] <= row["norm"] * (1 + 1e-12)
        if row["attention"] != "l2_tied":
            assert row["predicted"] == pytest.approx(row["block_norm"], rel=1e-8) and row["bound"] is None
        else:
            assert row["predicted"] is None and row["norm"] <= row["bound"]


class Squashed(DotProductAttention):
    """Dot-product attention behind tanh: bounded inputs, so it is Lipschitz and must not pass as a case of the theorem."""

    def forward(self, x, **more):
        return super().forward(torch.tanh(x), **more)


class Boastful(DotProductAttention):
    """Dot-product attention that claims a bound: it must not pass as the control."""

    def lipschitz_bound(self, length):
        return torch.tensor(10.0)


def test_what_is_lipschitz_is_no_case_and_what_is_not_is_no_control():
    sizes = dict(lengths=(4,), dims=(2,), heads=1, spreads=(1.0, 10.0, 100.0))
    squashed = [row for row in theorem.cases({**MAKE, "dp": Squashed}, **sizes) if row["attention"] == "dp"]
    assert not any(row["holds"] for row in squashed)
    boastful = theorem.cases({**MAKE, "l2_tied": Boastful}, **sizes)
    assert [row["holds"] for row in boastful if row["attention"] == "l2_tied"] == [True, False, False]


def test_cases_are_those_of_their_seed_and_leave_the_generator_alone():
    sizes = dict(lengths=(3,), dims=(2,), heads=1, spreads=(1.0,))
    torch.manual_seed(5)
    state = torch.get_rng_state()
    one = theorem.cases(MAKE, **sizes, seed=1)
    assert torch.equal(torch.get_rng_state(), state)
    assert one == theorem.cases(MAKE, **sizes, seed=1) != theorem.cases(MAKE, **sizes, seed=2)
    with pytest.raises(ValueError, match=r"lengths: 1 \(allowed: at least 2"):
        theorem.cases(MAKE, **{**sizes, "lengths": (1,)})
