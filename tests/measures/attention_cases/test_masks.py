"""Appendix G: the closed form behind a mask that hides tokens from themselves, the bound behind the others (erratum K6).

Appendix H: binary masks have norm 1, inverted dropout 1/keep (erratum K7).
"""

from functools import partial

import pytest
import torch

from relearn.layers.attention_kinds import attention
from relearn.measures.attention_cases import dropout, masks
from relearn.measures.attention_cases.exact import exact
from relearn.measures.inversion import invert

MAKE = partial(attention, "l2_tied")


@pytest.mark.parametrize(
    ("spread", "norm"), [(1.0, 3.0), (10.0, 399.0), (100.0, 4.0e4 - 1), (1000.0, 4.0e6 - 1)]
)
def test_three_tokens_hidden_from_themselves(spread, norm):
    """0, R, -R with weights 1: row 0 is (2R², -R(R...)): largest row sum 4R² - 1, the diagonal entry 2R²; the bound is 2.8522."""
    rows = masks.cases(MAKE, lengths=(3,), dims=(), heads=1, spreads=(spread,))
    row = next(row for row in rows if row["mask"] == "diagonal")
    assert row["norm"] == pytest.approx(norm, rel=1e-9)
    assert row["predicted"] == pytest.approx(2 * spread**2, rel=1e-9)
    assert row["bound"] == pytest.approx(2.8522, abs=1e-4)
    assert row["holds"] and not row["printed_holds"]
    for other in rows:
        if other["self_visible"]:
            assert other["holds"] and other["printed_holds"] is None and other["norm"] <= other["bound"]


def test_the_formula_is_the_slope_of_the_layer():
    torch.manual_seed(3)
    layer = exact(MAKE(4, 2))
    x = torch.randn(4, 4, dtype=torch.float64)
    x[0] = 0
    visible = masks.mask("diagonal", 4)
    found, step = masks.predicted_block(layer, x, visible), 1e-5
    for j in range(4):
        shift = torch.zeros_like(x)
        shift[0, j] = step
        slope = (layer(x + shift, mask=visible)[0] - layer(x - shift, mask=visible)[0]) / (2 * step)
        torch.testing.assert_close(found[:, j], slope, rtol=0, atol=1e-8)


def test_every_case_holds_and_what_is_printed_fails_far_out():
    rows = masks.cases(MAKE, lengths=(2, 3, 6), dims=(2, 4), heads=2, spreads=(0.1, 1.0, 100.0))
    assert [tuple(row) for row in rows] == [masks.COLUMNS] * (3 * 3 * 5 * 3)
    assert all(row["holds"] for row in rows)
    for row in rows:
        assert row["self_visible"] == (row["mask"] != "diagonal")
        if not row["self_visible"] and row["length"] > 2:
            assert row["printed_holds"] == (row["norm"] <= row["bound"])
            assert row["printed_holds"] is (row["spread"] < 100) or row["weights"] == "unit"
    first = [row["row_share"] for row in rows if row["mask"] == "causal" and row["weights"] == "unit"]
    assert first == pytest.approx(
        [1.0] * len(first)
    )  # row 0 sees itself alone: its bound, N = 1, is attained


def test_rows_are_held_to_the_number_of_tokens_that_they_see():
    """The causal row 0 is F_0 = x_0 W, norm 1 at unit weights: below the bound for N, equal to that for one token, above any smaller."""

    class Smaller(type(MAKE(1, 1))):
        def lipschitz_bound(self, length, p="inf", **kw):
            return 0.99 * super().lipschitz_bound(length, p, **kw)

    rows = masks.cases(lambda dim, heads: Smaller(dim, heads), lengths=(5,), dims=(), heads=1, spreads=(1.0,))
    found = {row["mask"]: row["holds"] for row in rows}
    assert found == {"none": True, "causal": False, "neighbours": True, "random": True, "diagonal": True}


def test_in_blocks_as_at_once(monkeypatch):
    sizes = dict(lengths=(5,), dims=(2,), heads=1, spreads=(1.0, 3.0))
    whole = masks.cases(MAKE, **sizes)
    monkeypatch.setattr(masks, "BLOCK", 1)
    for one, other in zip(whole, masks.cases(MAKE, **sizes)):
        assert one["norm"] == pytest.approx(other["norm"], rel=1e-12)
        assert one["row_share"] == pytest.approx(other["row_share"], rel=1e-12)


def test_masks_and_tokens():
    assert masks.mask("causal", 3).tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    assert masks.mask("neighbours", 4).sum().item() == 10 and masks.mask("none", 3).all()
    assert (~masks.mask("diagonal", 3)).equal(torch.eye(3, dtype=torch.bool))
    for seed in range(5):
        assert masks.mask("random", 6, seed).diagonal().all() and not masks.mask("random", 6, seed).all()
    x = masks.tokens(4, 3, 7.0)
    assert float(x.abs().max()) == pytest.approx(7) and x[0].tolist() == [0, 0, 0]
    assert x[1].equal(-x[2]) and x[1].equal(x[3])
    with pytest.raises(ValueError, match="mask: 'future'"):
        masks.mask("future", 3)
    with pytest.raises(ValueError, match="lengths: 1"):
        masks.cases(MAKE, lengths=(1,), dims=(), heads=1, spreads=(1.0,))


@pytest.mark.parametrize("keep", [0.5, 0.75, 0.9])
def test_every_case_holds_and_the_claim_for_binary_masks_alone(keep):
    rows = dropout.cases(keep=keep, lengths=(1, 4), dims=(2, 3))
    assert [tuple(row) for row in rows] == [dropout.COLUMNS] * (2 * 2 * 2 * 2 * 2)
    assert all(row["holds"] for row in rows)
    assert all(row["printed_holds"] == (row["form"] == "binary") for row in rows)
    norms = {(row["form"], row["mode"]): row["norm"] for row in rows}
    assert norms == pytest.approx(
        {
            ("binary", "train"): 1,
            ("binary", "eval"): keep,
            ("inverted", "train"): 1 / keep,
            ("inverted", "eval"): 1,
        }
    )


def test_the_published_number():
    rows = dropout.cases(keep=0.75, lengths=(3,), dims=(2,))
    assert max(row["norm"] for row in rows) == pytest.approx(1.3333, abs=1e-4)


def test_a_draw_is_a_diagonal_map_of_noughts_and_one_factor():
    x = torch.randn(6, 5, dtype=torch.float64)
    for form, factor in (("binary", 1.0), ("inverted", 1 / 0.6)):
        f = dropout.draw(form, "train", 0.6, 6, 5, seed=3)
        ratio = f(x) / x
        assert set(ratio.flatten().round(decimals=9).tolist()) == {0.0, round(factor, 9)}
        assert torch.equal(f(x), f(x)) and torch.allclose(f(2 * x), 2 * f(x))


def test_a_draw_that_drops_all_is_drawn_again():
    for seed in range(20):
        for form in ("binary", "inverted"):
            assert dropout.draw(form, "train", 0.05, 1, 1, seed)(torch.ones(1, 1, dtype=torch.float64)) > 0


def test_what_it_does_to_a_contraction():
    """A branch of constant 0.9, then dropout with keep 0.75: 1.2, the iteration for x + branch(x) runs away; evaluated it converges."""
    x = torch.randn(1, 6, 5, dtype=torch.float64)
    for mode, converges in (("train", False), ("eval", True)):
        drop = dropout.draw("inverted", mode, 0.75, 6, 5)
        f = lambda z, drop=drop: 0.9 * drop(z[0])[None]  # noqa: E731
        found = invert(f, x + f(x), iterations=200, truth=x)
        assert (float(found.errors[-1]) < 1e-8) is converges


def test_wrong_arguments_are_refused():
    for keep in (0.0, 1.0, -1.0):
        with pytest.raises(ValueError, match=f"keep: {keep}"):
            dropout.cases(keep=keep, lengths=(1,), dims=(1,))
