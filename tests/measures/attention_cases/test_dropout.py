"""Appendix H: binary masks have norm 1, inverted dropout 1/keep (erratum K7)."""

from __future__ import annotations

import pytest
import torch

from relearn.measures.attention_cases import dropout
from relearn.measures.inversion import invert


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


def test_what_is_refused():
    for keep in (0.0, 1.0, -1.0):
        with pytest.raises(ValueError, match=f"keep: {keep}"):
            dropout.cases(keep=keep, lengths=(1,), dims=(1,))
