"""LayerNorm's constants case by case (ye2023, appendix A; erratum Y1)."""

from __future__ import annotations

import pytest
import torch

from relearn.measures.attention_cases import layer_norm


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
