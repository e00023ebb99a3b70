"""LayerNorm's constants case by case (ye2023, appendix A; erratum Y1).

LRSA's derivatives case by case (ye2023, appendix B; errata Y2 to Y5).
"""

import pytest
import torch

from relearn.layers.lrsa import LRSA
from relearn.measures.attention_cases import layer_norm, lrsa


def test_every_case_holds_and_the_printed_step_fails_at_three_numbers_alone():
    rows = layer_norm.cases(dims=(2, 3, 4, 9, 64), eps=1e-3, spreads=(0.01, 1.0))
    assert [tuple(row) for row in rows] == [layer_norm.COLUMNS] * (5 * 3 * 5 * 2)
    assert all(row["holds"] for row in rows)
    for row in rows:
        if row["rank_one"] is not None and row["dim"] > 2:
            assert row["printed_holds"] == (row["rank_one"] <= row["dim"] - 2)
            assert row["printed_holds"] or row["dim"] == 3
        else:
            assert row["printed_holds"] is None
    lone = [row for row in rows if (row["input"], row["dim"], row["p"]) == ("lone", 3, "inf")]
    assert [row["rank_one"] for row in lone] == pytest.approx([4 / 3] * 3)
    assert not any(row["printed_holds"] for row in lone)


def test_the_constants_are_reached_where_they_should_be():
    rows = layer_norm.cases(dims=(3, 64), eps=0.25, spreads=(1.0,))
    for row in rows:
        share = row["norm"] / row["constant"]
        if (row["p"], row["input"]) == ("two", "constant"):
            assert share == pytest.approx(1)
        if (row["p"], row["input"], row["gamma"]) == ("inf", "extremal", "ones"):
            assert share == pytest.approx(1)
            assert row["norm"] == pytest.approx({3: 8 / 3, 64: 2 * 2.031559}[row["dim"]], rel=1e-6)
        if row["input"] == "lone":
            assert share < 0.99
    assert {row["printed"] for row in rows if row["gamma"] == "ones" and row["p"] == "inf"} == {6.0, 128.0}


@pytest.mark.parametrize(("name", "keyword"), [("bound_inf", "inf"), ("bound_two", "two")])
def test_a_constant_that_is_too_small_would_be_seen(monkeypatch, name, keyword):
    true = getattr(layer_norm, name)
    monkeypatch.setattr(layer_norm, name, lambda gamma, eps, *, form: 0.999 * true(gamma, eps, form=form))
    rows = layer_norm.cases(dims=(4,), eps=0.1, spreads=(1.0,))
    failed = {(row["p"], row["input"]) for row in rows if not row["holds"]}
    assert (keyword, "constant") in failed and {p for p, _ in failed} == {keyword}


def test_a_constant_that_is_too_large_would_be_seen(monkeypatch):
    true = layer_norm.bound_inf
    more = {"printed": 2, "corrected": 1.5, "exact": 1.1}
    monkeypatch.setattr(
        layer_norm, "bound_inf", lambda gamma, eps, *, form: more[form] * true(gamma, eps, form=form)
    )
    rows = layer_norm.cases(dims=(16,), eps=0.1, spreads=(1.0,))
    failed = {(row["p"], row["input"], row["gamma"]) for row in rows if not row["holds"]}
    assert ("inf", "extremal", "ones") in failed and all(p == "inf" for p, _, _ in failed)


def test_scales_inputs_and_refusals():
    assert layer_norm.scale("single", 3).tolist() == [1, 0, 0] and layer_norm.scale("ones", 2).tolist() == [
        1,
        1,
    ]
    assert layer_norm.lone(3).tolist() == [2, -1, -1]
    assert layer_norm.rank_one(torch.ones(4)) is None
    with pytest.raises(ValueError, match="gamma: 'zeros'"):
        layer_norm.scale("zeros", 3)
    with pytest.raises(ValueError, match="dims: 1"):
        layer_norm.cases(dims=(1,), eps=0.1, spreads=(1.0,))


def make(dim: int, alpha: float, eps: float) -> LRSA:
    return LRSA(dim, 1, alpha=alpha, eps=eps)


@pytest.fixture(scope="module")
def rows():
    return lrsa.cases(make, lengths=(1, 4), dims=(3,), spreads=(1, 0.1, 1e-4), draws=8)


def test_every_case_of_lrsa_holds(rows):
    assert [tuple(row) for row in rows] == [lrsa.COLUMNS] * (4 + 3 + 2 + 2 * (3 + 3 + 3 * 8))
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


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="spreads:"):
        lrsa.cases(make, lengths=(2,), dims=(2,), spreads=(0.1, 1), draws=1)
