"""The construction of lemma F.1, the coefficient by hand and in the Jacobian, the printed one's counter-example (errata K4, K5)."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.layers.attention_kinds import attention
from relearn.measures.attention_cases import lemma_f_1 as lemma
from relearn.measures.attention_cases.exact import exact
from relearn.measures.lipschitz.jacobian import jacobian

MAKE = {kind: partial(attention, kind) for kind in lemma.KINDS}


@pytest.mark.parametrize(
    ("length", "right", "printed"), [(3, -2 / 9, -4 / 9), (5, -0.08, -0.32), (10, -0.02, -0.18)]
)
def test_the_coefficient_by_hand(length, right, printed):
    """D = 1, W^Q = 2, W^K = 1, x = (1, 3, ..., 3): y_0 = 1, the others -1. At N = 3 the entry of the Jacobian is -1/9."""
    layer = exact(attention("l2", 1, 1))
    for name, value in (("q", 2.0), ("k", 1.0), ("v", 1.0), ("out", 1.0)):
        getattr(layer, name).weight.fill_(value)
    x, y = lemma.construction(layer.q.weight, layer.k.weight, length, 1.0, torch.ones(1, dtype=torch.float64))
    assert x[:, 0].tolist() == [1.0] + [3.0] * (length - 1) and y.tolist() == [1.0]
    assert float(lemma.coefficient_matrix(layer, x)) == pytest.approx(right, rel=1e-12)
    assert abs(right - printed) > 0.1
    entry = float(jacobian(layer, x)[0, 1])
    assert entry == pytest.approx(2 * right + 1 / length, rel=1e-12)
    if length == 3:
        assert entry == pytest.approx(-1 / 9)


@given(st.integers(1, 4), st.integers(2, 6), st.integers(0, 50), st.floats(0.1, 100))
@settings(deadline=None, max_examples=25)
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
    rows = lemma.cases(MAKE, lengths=(2, 3, 6), dims=(1, 3), spreads=(1.0, 10.0, 100.0))
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
    untied, _ = lemma._layers(MAKE, 3, "rank_one", 0)
    for seed in range(3):
        direction = torch.randn(3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        _, y = lemma.construction(untied.q.weight, untied.k.weight, 4, 7.0, direction)
        assert y[1:].tolist() == [0, 0] and abs(float(y[0])) == pytest.approx(7)


def test_a_layer_whose_norm_does_not_grow_is_no_case():
    def bounded(dim, heads):
        layer = attention("l2", dim, heads)
        layer.forward = torch.tanh  # slope at most 1, whatever its probabilities do
        return layer

    rows = lemma.cases({**MAKE, "l2": bounded}, lengths=(3,), dims=(1,), spreads=(1.0, 10.0))
    assert [row["holds"] for row in rows if row["attention"] == "l2"] == [True, False]
    with pytest.raises(ValueError, match="lengths: 1"):
        lemma.cases(MAKE, lengths=(1,), dims=(1,), spreads=(1.0,))
