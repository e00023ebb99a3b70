"""Calibration: analytic cases, scikit-learn's losses, invariants of the binning."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, log_loss

from relearn.measures.calibration import (
    brier_score,
    calibration,
    expected_calibration_error,
    negative_log_likelihood,
    reliability,
)


def of_confidence(confidences):
    """Two-class logits whose first class has the given probability."""
    p = torch.tensor(confidences, dtype=torch.float64)
    return torch.stack([(p / (1 - p)).log(), torch.zeros_like(p)], dim=1)


@settings(max_examples=30)
@given(st.floats(0.51, 0.99), st.integers(0, 20), st.integers(1, 40))
def test_one_confidence_for_all_is_off_by_its_distance_from_the_accuracy(confidence, right, bins):
    logits = of_confidence([confidence] * 20)
    labels = torch.tensor([0] * right + [1] * (20 - right))
    assert expected_calibration_error(logits, labels, bins=bins) == pytest.approx(
        abs(confidence - right / 20)
    )


def test_perfect_calibration_is_zero_and_opposite_gaps_in_one_bin_cancel():
    labels = torch.tensor([0] * 6 + [1] * 4 + [0] * 8 + [1] * 2)
    logits = of_confidence([0.6] * 10 + [0.8] * 10)
    assert expected_calibration_error(logits, labels, bins=10) == pytest.approx(0, abs=1e-12)
    swapped = of_confidence([0.8] * 10 + [0.6] * 10)  # over- and underconfident by 0.2
    assert expected_calibration_error(swapped, labels, bins=10) == pytest.approx(0.2)
    assert expected_calibration_error(swapped, labels, bins=1) == pytest.approx(0, abs=1e-12)


def random_samples(seed, n=300, classes=5):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (n,), generator=generator)
    return 2 * torch.randn(n, classes, generator=generator) + torch.eye(classes)[labels], labels


def ece_by_hand(logits, labels, bins):
    p = torch.softmax(logits.double(), 1).numpy()
    confidence, right = p.max(1), p.argmax(1) == labels.numpy()
    total = 0.0
    for b in range(bins):
        inside = (confidence > b / bins) & (confidence <= (b + 1) / bins)
        if inside.any():
            total += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    return total


@pytest.mark.parametrize("bins", [1, 2, 10, 15, 1000])
def test_equals_the_definition(bins):
    logits, labels = random_samples(bins)
    found = expected_calibration_error(logits, labels, bins=bins)
    assert found == pytest.approx(ece_by_hand(logits, labels, bins))
    assert 0 < found < 1


@pytest.mark.parametrize("seed", range(3))
def test_finer_bins_never_hide_a_gap(seed):
    """Halving every bin cannot lower the error (triangle inequality); one bin is |accuracy - confidence|."""
    logits, labels = random_samples(seed)
    errors = [expected_calibration_error(logits, labels, bins=2**b) for b in range(8)]
    assert all(a <= b + 1e-12 for a, b in pairwise(errors))
    p = logits.double().softmax(1)
    gap = (p.argmax(1) == labels).double().mean() - p.amax(1).mean()
    assert errors[0] == pytest.approx(float(gap.abs()))


def test_the_diagram_counts_every_sample_once_and_edges_go_down():
    logits, labels = random_samples(7)
    found = reliability(logits, labels, bins=12)
    assert int(found.samples.sum()) == 300
    full = found.samples > 0
    low, high = torch.arange(12)[full] / 12, torch.arange(1, 13)[full] / 12
    assert bool(((found.confidence[full] > low) & (found.confidence[full] <= high)).all())
    assert bool(found.accuracy[~full].isnan().all())
    edge = reliability(
        torch.zeros(4, 5), torch.zeros(4), bins=5
    )  # confidence 0.2 is the edge of the first bin
    assert edge.samples.tolist() == [4, 0, 0, 0, 0]


def test_likelihood_and_brier_are_scikit_learns():
    logits, labels = random_samples(3)
    p = logits.double().softmax(1).numpy()
    assert negative_log_likelihood(logits, labels) == pytest.approx(log_loss(labels, p))
    one_hot = np.eye(5)[labels.numpy()]
    assert brier_score(logits, labels) == pytest.approx(((p - one_hot) ** 2).sum(1).mean())
    logits, labels = random_samples(4, classes=2)
    p = logits.double().softmax(1).numpy()
    binary = brier_score_loss(labels, p[:, 1], scale_by_half=True)
    assert brier_score(logits, labels) == pytest.approx(2 * binary)


@pytest.mark.parametrize("classes", [2, 10])
def test_knowing_nothing_costs_log_c_and_knowing_all_nothing(classes):
    labels = torch.arange(classes)
    found = calibration(torch.zeros(classes, classes), labels, bins=15)
    assert found["nll_nats"] == pytest.approx(math.log(classes))
    assert found["brier"] == pytest.approx((classes - 1) / classes)
    assert found["ece_frac"] == pytest.approx(0, abs=1e-12)
    sure = calibration(1000 * torch.eye(classes), labels, bins=15)
    assert sure == {"ece_frac": 0, "nll_nats": 0, "brier": 0}
    wrong = calibration(1000 * torch.eye(classes), labels.roll(1), bins=15)
    assert wrong == pytest.approx({"ece_frac": 1, "nll_nats": 1000, "brier": 2})


def test_a_constant_on_all_logits_changes_nothing():
    logits, labels = random_samples(5)
    logits = logits.double()
    assert calibration(logits + 100, labels, bins=9) == pytest.approx(calibration(logits, labels, bins=9))


@pytest.mark.parametrize(
    ("logits", "labels", "bins", "match"),
    [
        (torch.zeros(0, 3), torch.zeros(0), 5, "n > 0"),
        (torch.zeros(4, 3), torch.zeros(5), 5, "allowed are"),
        (torch.zeros(4, 3), torch.full((4,), 3), 5, "labels run from 3 to 3; allowed: 0 to 2"),
        (torch.zeros(4, 3), torch.full((4,), -1), 5, "labels run from -1"),
        (torch.tensor([[0.0, 1.0], [math.nan, 0.0]]), torch.zeros(2), 5, "rows 1"),
        (torch.zeros(4, 3), torch.zeros(4), 0, "bins is 0"),
    ],
)
def test_wrong_arguments_are_refused(logits, labels, bins, match):
    with pytest.raises(ValueError, match=match):
        calibration(logits, labels, bins=bins)
