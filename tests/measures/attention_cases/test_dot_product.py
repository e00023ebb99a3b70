"""The block at a token of zero: closed form at D = 1, finite differences, growth with the square, and what must not pass.

The construction of lemma F.1, the coefficient by hand and in the Jacobian, the printed one's counter-example (errata K4, K5).
"""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.layers.attention_kinds import attention
from relearn.layers.dot_product_attention import DotProductAttention
from relearn.measures.attention_cases import lemma_f_1 as lemma
from relearn.measures.attention_cases import theorem_3_1 as theorem
from relearn.measures.attention_cases.exact import exact
from relearn.measures.lipschitz.jacobian import jacobian, jacobian_norm

MAKE_3_1 = {
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
    rows = theorem.cases(MAKE_3_1, lengths=(2, 5), dims=(2, 4), heads=2, spreads=(1.0, 100.0, 1000.0))
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
    squashed = [
        row for row in theorem.cases({**MAKE_3_1, "dp": Squashed}, **sizes) if row["attention"] == "dp"
    ]
    assert not any(row["holds"] for row in squashed)
    boastful = theorem.cases({**MAKE_3_1, "l2_tied": Boastful}, **sizes)
    assert [row["holds"] for row in boastful if row["attention"] == "l2_tied"] == [True, False, False]


def test_cases_are_those_of_their_seed_and_leave_the_generator_alone():
    sizes = dict(lengths=(3,), dims=(2,), heads=1, spreads=(1.0,))
    torch.manual_seed(5)
    state = torch.get_rng_state()
    one = theorem.cases(MAKE_3_1, **sizes, seed=1)
    assert torch.equal(torch.get_rng_state(), state)
    assert one == theorem.cases(MAKE_3_1, **sizes, seed=1) != theorem.cases(MAKE_3_1, **sizes, seed=2)
    with pytest.raises(ValueError, match=r"lengths: 1 \(allowed: at least 2"):
        theorem.cases(MAKE_3_1, **{**sizes, "lengths": (1,)})


MAKE_F_1 = {kind: partial(attention, kind) for kind in lemma.KINDS}


@pytest.mark.parametrize(
    ("length", "right", "printed"), [(3, -2 / 9, -4 / 9), (5, -0.08, -0.32), (10, -0.02, -0.18)]
)
def test_the_coefficient_by_hand(length, right, printed):
    """D = 1, W^Q = 2, W^K = 1, x = (1, 3, ..., 3): y_0 = 1, the others -1; A = 4. At N = 3 the entry of the Jacobian is -4/9."""
    layer = exact(attention("l2", 1, 1))
    for name, value in (("q", 2.0), ("k", 1.0), ("v", 1.0), ("out", 1.0)):
        getattr(layer, name).weight.fill_(value)
    x, y = lemma.construction(layer.q.weight, layer.k.weight, length, 1.0, torch.ones(1, dtype=torch.float64))
    assert x[:, 0].tolist() == [1.0] + [3.0] * (length - 1) and y.tolist() == [1.0]
    assert float(lemma.coefficient_matrix(layer, x)) == pytest.approx(right, rel=1e-12)
    assert abs(right - printed) > 0.1
    entry = float(jacobian(layer, x)[0, 1])
    assert entry == pytest.approx(4 * (2 * right + 1 / length), rel=1e-12)
    if length == 3:
        assert entry == pytest.approx(-4 / 9)


@given(st.integers(1, 4), st.integers(2, 6), st.integers(0, 50), st.floats(0.1, 100))
@settings(max_examples=25)
def test_the_construction_puts_every_other_token_at_minus_y(dim, length, seed, spread):
    generator = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, dim, dim, generator=generator, dtype=torch.float64)
    direction = torch.randn(dim, generator=generator, dtype=torch.float64)
    x, y = lemma.construction(q, k, length, spread, direction)
    found = (q @ x[0])[None] - x @ k.T
    size = float((x.abs().max() + 1) * torch.linalg.cond(k))
    assert float(torch.linalg.vector_norm(y)) == pytest.approx(spread, rel=1e-9)
    torch.testing.assert_close(found[0], y, rtol=0, atol=1e-12 * size)
    torch.testing.assert_close(found[1:], -y.expand(length - 1, -1), rtol=0, atol=1e-12 * size)


def test_every_case_holds_and_the_printed_coefficient_at_two_tokens_alone():
    rows = lemma.cases(MAKE_F_1, lengths=(2, 3, 6), dims=(1, 3), spreads=(1.0, 10.0, 100.0))
    assert [tuple(row) for row in rows] == [lemma.COLUMNS] * (
        3 * 3 * 3 * 2
    )  # (1 + 2 pairs of weights) for the two widths
    assert all(row["holds"] for row in rows)
    for row in rows:
        if row["attention"] == "l2":
            assert row["printed_holds"] == (row["length"] == 2)
            assert row["coefficient"] == pytest.approx(-2 / row["length"] ** 2, rel=1e-6)
            assert row["rank"] == (1 if row["weights"] == "rank_one" else row["dim"])
        else:
            assert row["norm"] <= row["bound"] and row["printed_holds"] is None
    untied = [row["norm"] for row in rows if row["attention"] == "l2"]
    for low, middle, high in zip(untied[::3], untied[1::3], untied[2::3]):
        assert low < middle and high / middle == pytest.approx(100, rel=0.3)


def test_a_difference_of_rank_one_reaches_a_line_and_is_enough():
    """Erratum K5: y_i is not arbitrary, its second coordinate is always zero."""
    untied, _ = lemma._layers(MAKE_F_1, 3, "rank_one", 0)
    for seed in range(3):
        direction = torch.randn(3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        _, y = lemma.construction(untied.q.weight, untied.k.weight, 4, 7.0, direction)
        assert y[1:].tolist() == [0, 0] and abs(float(y[0])) == pytest.approx(7)


def test_a_layer_whose_norm_does_not_grow_is_no_case():
    def bounded(dim, heads):
        layer = attention("l2", dim, heads)
        layer.forward = torch.tanh  # slope at most 1, whatever its probabilities do
        return layer

    rows = lemma.cases({**MAKE_F_1, "l2": bounded}, lengths=(3,), dims=(1,), spreads=(1.0, 10.0))
    assert [row["holds"] for row in rows if row["attention"] == "l2"] == [True, False]
    with pytest.raises(ValueError, match="lengths: 1"):
        lemma.cases(MAKE_F_1, lengths=(1,), dims=(1,), spreads=(1.0,))
