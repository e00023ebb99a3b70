"""LRSA's derivatives case by case (ye2023, appendix B; errata Y2 to Y5)."""

from __future__ import annotations

import pytest
import torch

from relearn.layers.lrsa import LRSA
from relearn.measures.attention_cases import lrsa


def make(dim: int, alpha: float, eps: float) -> LRSA:
    return LRSA(dim, 1, alpha=alpha, eps=eps)


@pytest.fixture(scope="module")
def rows():
    return lrsa.cases(make, lengths=(1, 4), dims=(3,), spreads=(1, 0.1, 1e-4), draws=8)


def test_every_case_holds(rows):
    assert [tuple(row) for row in rows] == [lrsa.COLUMNS] * (4 + 3 + 1 + 2 * (3 + 3 + 3 * 8))
    assert all(row["holds"] for row in rows)
    assert {row["case"] for row in rows} == {
        *("reversed", "probability", "score", "row_sum", "output", "scale", "eps", "random", "published"),
    }


@pytest.mark.parametrize(
    ("case", "norm", "printed"),
    [
        ("reversed", 35.3553, 9.7978),
        ("probability", 196.7936, 24.0),
        ("score", 10000.0, 1200.0),
        ("row_sum", 10.0562, 8.4430),
    ],
)
def test_what_is_printed_fails(rows, case, norm, printed):
    row = next(row for row in rows if row["case"] == case)
    assert row["norm"] == pytest.approx(norm, rel=1e-5) and row["printed"] == pytest.approx(printed, rel=1e-4)
    assert row["printed_holds"] is False


def test_the_derivative_of_the_probabilities_goes_with_the_inverse_of_scale(rows):
    for length, expected in ((1, [0, 0, 0]), (4, [1, 10, 10_000])):
        found = [row["norm"] for row in rows if (row["case"], row["length"]) == ("scale", length)]
        assert found == pytest.approx([found[0] * one for one in expected])
        smoothed = [row for row in rows if (row["case"], row["length"]) == ("eps", length)]
        assert len({row["bound"] for row in smoothed}) == 1
        if length > 1:
            assert smoothed[-1]["norm"] < 100 * found[0] and found[-1] > smoothed[0]["bound"]


def test_the_output_depends_on_the_ratio_of_the_denominators(rows):
    found = [row for row in rows if row["case"] == "output"]
    assert [row["norm"] for row in found] == pytest.approx([1.0840, 5.2845, 5901.9134], rel=1e-4)
    assert [row["bound"] * row["q"] / row["m"] for row in found] == pytest.approx([10.12] * 3, rel=0.3)


def test_a_bound_that_is_too_small_would_be_seen(monkeypatch):
    """The printed forms in the place of the corrected ones: the cases that they fail turn."""
    for name in ("score_bound", "probability_bound"):
        true = getattr(lrsa, name)
        monkeypatch.setattr(
            lrsa, name, lambda *args, true=true, **kw: true(*args, **{**kw, "form": "printed"})
        )
    failed = {row["case"] for row in lrsa.counter_examples(make) if not row["holds"]}
    assert failed == {"probability", "score"}


def test_a_layer_whose_probabilities_change_with_scale_would_be_seen():
    class Fixed(LRSA):
        def _roots(self, queries, x):
            return tuple(torch.ones_like(one) for one in super()._roots(queries, x))

    found = lrsa.cases(
        lambda dim, alpha, eps: Fixed(dim, 1, alpha=alpha, eps=eps),
        lengths=(3,),
        dims=(2,),
        spreads=(1, 0.1),
        draws=0,
    )
    assert [row["holds"] for row in found if row["case"] == "scale"][1] is False


def test_refusals():
    with pytest.raises(ValueError, match="spreads:"):
        lrsa.cases(make, lengths=(2,), dims=(2,), spreads=(0.1, 1), draws=1)
