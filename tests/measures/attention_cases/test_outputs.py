"""Histograms count every entry once, each side on its own bins; spreads by hand."""

import itertools
import math

import pytest
import torch

from relearn.measures.attention_cases import outputs


def test_every_entry_is_counted_once_on_the_bins_of_its_side():
    x, y = torch.randn(4, 5, 3), 10 * torch.randn(2, 3)
    rows = outputs.histograms(x, y, 7)
    assert [tuple(row) for row in rows] == [outputs.COLUMNS] * 14
    for name, side in (("input", x), ("output", y)):
        mine = [row for row in rows if row["side"] == name]
        assert sum(row["count"] for row in mine) == side.numel()
        assert all(a["high"] == b["low"] for a, b in itertools.pairwise(mine))
        for row in mine[:-1]:
            flat = side.flatten().double()
            assert row["count"] == int(((flat >= row["low"]) & (flat < row["high"])).sum())
        assert mine[0]["low"] == float(side.min()) and mine[-1]["high"] == pytest.approx(float(side.max()))


def test_counts_agree_with_a_case_by_hand():
    rows = outputs.histograms(torch.tensor([0.0, 1.0, 4.0]), torch.tensor([0.01, 0.02]), 4)
    assert [row["count"] for row in rows] == [1, 1, 0, 1, 1, 0, 0, 1]
    assert [row["high"] for row in rows[:4]] == [1.0, 2.0, 3.0, 4.0]
    found = outputs.spread(torch.tensor([0.0, 2.0]), torch.tensor([-3.0, 0.0, 3.0]))
    assert found == pytest.approx(
        {
            "input_std": 1,
            "input_range": 2,
            "output_std": math.sqrt(6),
            "output_range": 6,
            "output_range_over_input_range": 3,
        }
    )


def test_a_single_value_and_what_is_refused():
    rows = outputs.histograms(torch.zeros(3), torch.zeros(2), 5)
    assert [row["count"] for row in rows] == [3, 2] and all(row["low"] < row["high"] for row in rows)
    rows = outputs.histograms(torch.zeros(3), torch.tensor([0.0, 1.0]), 2)
    assert [row["count"] for row in rows] == [3, 1, 1]
    assert math.isnan(outputs.spread(torch.zeros(3), torch.ones(3))["output_range_over_input_range"])
    with pytest.raises(ValueError, match="bins: 0"):
        outputs.histograms(torch.zeros(1), torch.zeros(1), 0)
    with pytest.raises(ValueError, match="output: 2 entries"):
        outputs.histograms(torch.zeros(1), torch.tensor([1.0, math.nan]), 3)
    with pytest.raises(ValueError, match="input: 0 entries"):
        outputs.histograms(torch.zeros(0), torch.zeros(1), 3)
