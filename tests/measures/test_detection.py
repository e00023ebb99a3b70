"""Detection: counts by scikit-learn, MCC as a correlation, the cases without one."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix, matthews_corrcoef, recall_score

from relearn.measures.detection import defence_success, detection, mcc

pairs = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60)


@settings(max_examples=60)
@given(pairs)
def test_counts_and_coefficient_are_scikit_learns(drawn):
    dropped, poison = np.array(drawn).T
    found = detection(dropped, poison)
    (tn, fp), (fn, tp) = confusion_matrix(poison, dropped, labels=[False, True])
    assert (found.poisons_removed, found.poisons_kept) == (tp, fn)
    assert (found.clean_removed, found.clean_kept) == (fp, tn)
    assert (found.poisons, found.clean) == (poison.sum(), (~poison).sum())
    if len(set(drawn) - {(True, True)}) > 0 and len(set(drawn) - {(False, False)}) > 0:  # else it warns
        assert found.mcc == pytest.approx(matthews_corrcoef(poison, dropped))
    if poison.any():
        assert found.poisons_removed_frac == pytest.approx(recall_score(poison, dropped))
    if 0 < poison.sum() < len(poison) and 0 < dropped.sum() < len(poison):
        assert found.mcc == pytest.approx(np.corrcoef(poison, dropped)[0, 1])  # it is Pearson's
    else:
        assert found.mcc == 0


def test_a_case_by_hand():
    """4 of 5 poisons and 20 of 495 clean points dropped."""
    found = detection(np.arange(500) < 24, np.isin(np.arange(500), [0, 1, 2, 3, 499]))
    assert (found.poisons_removed, found.clean_removed) == (4, 20)
    assert found.poisons_removed_frac == 0.8 and found.clean_removed_frac == 20 / 495
    assert found.mcc == pytest.approx((4 * 475 - 20 * 1) / math.sqrt(24 * 5 * 495 * 476))


def test_perfect_useless_and_inverted_detectors():
    poison = np.arange(10) < 3
    assert detection(poison, poison).mcc == 1 and detection(~poison, poison).mcc == -1
    for nothing in (np.zeros(10, bool), np.ones(10, bool)):
        assert detection(nothing, poison).mcc == 0 == detection(poison, nothing).mcc
    clean = detection(poison, np.zeros(10, bool))
    assert math.isnan(clean.poisons_removed_frac) and clean.clean_removed_frac == 0.3
    full = detection(poison, np.ones(10, bool))
    assert math.isnan(full.clean_removed_frac) and full.poisons_removed_frac == 0.3
    empty = detection(np.zeros(0, bool), np.zeros(0, bool))
    assert empty.mcc == 0 and math.isnan(empty.poisons_removed_frac)


def test_counts_too_large_for_64_bits():
    assert mcc(*[np.int64(10**9)] * 2, np.int64(0), np.int64(0)) == 1
    assert mcc(10**9, 10**9, 10**9, 10**9) == 0


@pytest.mark.parametrize(
    ("dropped", "poison", "match"),
    [
        ([1, -1, 1], [True, False, True], "dropped holds int64; allowed: bool"),
        ([True, False], [0, 1], "is_poison holds int64"),
        ([True, False], [True], r"dropped has shape \(2,\), is_poison \(1,\)"),
        ([[True]], [[True]], r"allowed: \(n,\)"),
    ],
)
def test_wrong_arguments_are_refused(dropped, poison, match):
    with pytest.raises(ValueError, match=match):
        detection(dropped, poison)


def test_defence_success_is_the_share_of_attacks_that_fail():
    succeeded = np.array([True, False, False, True, False])
    assert defence_success(succeeded) == pytest.approx(0.6)
    undefended = np.array([True, True, False, True, False])
    assert defence_success(succeeded, among=undefended) == pytest.approx(1 / 3)
    assert math.isnan(defence_success([])) and math.isnan(defence_success(succeeded, among=np.zeros(5, bool)))
    with pytest.raises(ValueError, match=r"among has shape \(2,\); allowed: \(5,\)"):
        defence_success(succeeded, among=[True, False])
    with pytest.raises(ValueError, match="succeeded holds int64"):
        defence_success([1, 0])
