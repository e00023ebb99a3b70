"""Detection: double loops as truth, ties, analytic cases, invariances; scores against their formulas."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.measures.ood import SCORES, entropy, scores, separation

#: few different values, so that ties are the rule
VALUES = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=25)


def auroc_by_pairs(inside, outside):
    return np.mean([(o > i) + 0.5 * (o == i) for o in outside for i in inside])


def thresholds(inside, outside):
    """(recall, precision, false positive rate) for every threshold, the strictest first."""
    for t in sorted({*inside, *outside}, reverse=True):
        tp, fp = sum(o >= t for o in outside), sum(i >= t for i in inside)
        yield tp / len(outside), tp / (tp + fp), fp / len(inside)


def aupr_by_thresholds(inside, outside):
    area, before = 0.0, 0.0
    for recall, precision, _ in thresholds(inside, outside):
        area += (recall - before) * precision
        before = recall
    return area


def fpr95_by_thresholds(inside, outside):
    return min(false for recall, _, false in thresholds(inside, outside) if recall >= 0.95)


@settings(max_examples=60)
@given(VALUES, VALUES)
def test_all_three_against_loops_with_ties(inside, outside):
    found = separation(inside, outside)
    assert found.auroc == pytest.approx(auroc_by_pairs(inside, outside), abs=1e-12)
    assert found.aupr == pytest.approx(aupr_by_thresholds(inside, outside), abs=1e-12)
    assert found.fpr95 == pytest.approx(fpr95_by_thresholds(inside, outside), abs=1e-12)


def test_apart_alike_and_the_wrong_way_round():
    low, high = np.arange(10.0), np.arange(10.0, 30.0)
    assert separation(low, high) == pytest.approx((1.0, 1.0, 0.0))
    worst = separation(high, low)
    assert (worst.auroc, worst.fpr95) == (0.0, 1.0)
    alike = separation(np.zeros(10), np.zeros(30))
    assert alike == pytest.approx((0.5, 0.75, 1.0))  # 30 of 40 are positives


def test_foreign_images_are_the_positives():
    # one of 100 inside scores highest of all: precision suffers at every threshold
    inside, outside = np.r_[np.zeros(99), 2.0], np.ones(10)
    found = separation(inside, outside)
    assert found.aupr == pytest.approx(10 / 11)
    assert found.fpr95 == pytest.approx(0.01) and found.auroc == pytest.approx(0.99)


def test_the_rate_is_taken_at_95_percent_exactly():
    outside = np.arange(20.0)  # 19 of 20 lie at 1 or above
    assert separation([0.5], outside).fpr95 == 0.0
    assert separation([1.0], outside).fpr95 == 1.0  # the threshold itself counts
    assert separation([0.5], np.arange(19.0)).fpr95 == 1.0  # 18 of 19 are not enough


@settings(max_examples=30)
@given(st.lists(st.floats(-5, 5), min_size=2, max_size=20, unique=True), st.data())
def test_only_the_order_counts(values, data):
    cut = data.draw(st.integers(1, len(values) - 1))
    ranks = np.argsort(np.argsort(values)).astype(float)
    one = separation(values[:cut], values[cut:])
    np.testing.assert_allclose(separation(np.exp(ranks[:cut]), np.exp(ranks[cut:])), one)
    swapped = separation(-np.array(values[cut:]), -np.array(values[:cut]))
    assert swapped.auroc == pytest.approx(one.auroc)  # the other set as positives, by the opposite score


@pytest.mark.parametrize(
    ("inside", "outside", "message"),
    [
        ([], [1.0], r"inside: scores of shape \(0,\)"),
        ([1.0], [[1.0]], r"outside: scores of shape \(1, 1\) \(allowed: \(n,\) with n > 0\)"),
        ([1.0], [0.0, np.nan], r"outside: score nan at 1"),
        ([np.inf], [0.0], r"inside: score inf at 0"),
    ],
)
def test_scores_that_are_none_are_refused(inside, outside, message):
    with pytest.raises(ValueError, match=message):
        separation(inside, outside)


# scores


def test_scores_of_a_uniform_and_of_a_sure_prediction():
    found = scores(torch.tensor([[0.0] * 5, [2000.0, 0, 0, 0, 0]]))
    assert found["entropy"].tolist() == pytest.approx([math.log(5), 0.0])
    assert found["max_softmax"].tolist() == pytest.approx([0.8, 0.0])
    assert found["dempster_shafer"].tolist() == pytest.approx([0.5, 0.0])
    assert float(found["entropy"].min()) >= 0 and "gp_variance" not in found


@settings(max_examples=25)
@given(st.integers(0, 2**31), st.integers(2, 7))
def test_scores_follow_their_formulas(seed, classes):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(6, classes, generator=generator)
    variance = torch.rand(6, classes, generator=generator)
    found = scores(logits, variance)
    assert tuple(found) == SCORES and all(one.dtype == torch.float64 for one in found.values())
    for row in range(6):
        z = logits[row].double().numpy()
        p = np.exp(z) / np.exp(z).sum()
        assert float(found["max_softmax"][row]) == pytest.approx(1 - p.max(), rel=1e-9, abs=1e-12)
        assert float(found["entropy"][row]) == pytest.approx(-(p * np.log(p)).sum())
        assert float(found["dempster_shafer"][row]) == pytest.approx(classes / (classes + np.exp(z).sum()))
        assert float(found["gp_variance"][row]) == pytest.approx(float(variance[row].double().mean()))


def test_a_sure_prediction_still_has_an_order():
    # float32 probabilities would be 1 and 1
    found = scores(torch.tensor([[40.0, 0.0], [60.0, 0.0]]))
    for name in ("max_softmax", "entropy", "dempster_shafer"):
        assert found[name][0] > found[name][1] > 0


def test_the_sum_of_the_logits_moves_dempster_shafer_alone():
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    one, two = scores(logits), scores(logits + 1)
    for name in ("max_softmax", "entropy"):
        torch.testing.assert_close(one[name], two[name])
    assert (two["dempster_shafer"] < one["dempster_shafer"]).all()


def test_outputs_that_are_none_are_refused():
    logits = torch.zeros(3, 2)
    with pytest.raises(ValueError, match=r"logits: shape \(3,\)"):
        entropy(logits[:, 0])
    logits[1, 0] = torch.inf
    with pytest.raises(ValueError, match="logits: row 1 is NaN or infinite"):
        scores(logits)
    with pytest.raises(ValueError, match="variance: row 2 is NaN"):
        scores(torch.zeros(3, 2), torch.tensor([[0.0], [1.0], [math.nan]]))
