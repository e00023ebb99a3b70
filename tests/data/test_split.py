"""The split: dealing images out one by one is the truth; parts are disjoint; targets are never trained on."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relearn.data.split import Split, class_range, pick_trials, rank_in_class, split

NAMES = ("zero", "one", "two", "three")


def shuffled(counts: list[int], seed: int) -> np.ndarray:
    labels = np.repeat(np.arange(len(counts)), counts)
    return np.random.default_rng(seed).permutation(labels)


def walk(labels: np.ndarray, pretrain: int, fine_tune: int, pool: int) -> dict[str, list[int]]:
    """One image after the other, as a person would do it with cards."""
    seen: Counter = Counter()
    parts: dict[str, list[int]] = {"pretrain": [], "pool": [], "fine_tune": [], "rest": []}
    for i, label in enumerate(labels.tolist()):
        turn = seen[label]
        seen[label] += 1
        if turn < pretrain:
            parts["pretrain"].append(i)
        elif turn < pretrain + pool:
            parts["pool"].append(i)
            if turn < pretrain + fine_tune:
                parts["fine_tune"].append(i)
        else:
            parts["rest"].append(i)
    return parts


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, int, int, int]:
    pretrain, fine_tune = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    pool = fine_tune + draw(st.integers(0, 4))
    counts = [pretrain + pool + 1 + draw(st.integers(0, 5)) for _ in NAMES]
    return shuffled(counts, draw(st.integers(0, 99))), pretrain, fine_tune, pool


def make(labels: np.ndarray, pretrain: int, fine_tune: int, pool: int, official: bool = False) -> Split:
    return split(
        labels,
        classes=NAMES,
        official_test=official,
        pretrain_per_class=pretrain,
        fine_tune_per_class=fine_tune,
        pool_per_class=pool,
    )


@given(cases())
def test_equal_to_dealing_the_images_out_one_by_one(case: tuple[np.ndarray, int, int, int]) -> None:
    labels, *sizes = case
    parts, truth = make(labels, *sizes), walk(labels, *sizes)
    assert parts.pretrain.tolist() == truth["pretrain"]
    assert parts.pool.tolist() == truth["pool"]
    assert parts.fine_tune.tolist() == truth["fine_tune"]
    assert parts.test is not None and parts.test.tolist() == truth["rest"]
    assert make(labels, *sizes, official=True).test is None


@given(cases())
def test_disjoint_complete_balanced_and_in_order(case: tuple[np.ndarray, int, int, int]) -> None:
    labels, pretrain, fine_tune, pool = case
    parts = make(labels, pretrain, fine_tune, pool)
    assert parts.test is not None
    everything = np.concatenate([parts.pretrain, parts.pool, parts.test])
    assert sorted(everything.tolist()) == list(range(len(labels)))
    assert set(parts.fine_tune) <= set(parts.pool)
    for index, wanted in ((parts.pretrain, pretrain), (parts.pool, pool), (parts.fine_tune, fine_tune)):
        assert (np.bincount(labels[index], minlength=4) == wanted).all()
        assert (np.diff(index) > 0).all()
    for label in range(4):
        last = [parts.pretrain, parts.pool, parts.test]
        ends = [(part[labels[part] == label].min(), part[labels[part] == label].max()) for part in last]
        assert ends[0][1] < ends[1][0] and ends[1][1] < ends[2][0]


def test_rank_counts_earlier_images_of_the_same_class() -> None:
    assert rank_in_class(np.array([3, 1, 3, 3, 1])).tolist() == [0, 0, 1, 2, 1]
    assert rank_in_class(np.array([], np.int64)).tolist() == []


def test_a_class_with_too_few_images_is_named() -> None:
    labels = shuffled([10, 10, 8, 10], 0)
    make(labels, 4, 2, 4, official=True)  # 8 just suffice, the test set is elsewhere
    with pytest.raises(ValueError, match=r"class 2 \(two\) has 8 images; required: .* = 9"):
        make(labels, 4, 2, 4)
    with pytest.raises(ValueError, match=r"class 2 \(two\) has 8 images"):
        make(labels, 5, 2, 4, official=True)
    with pytest.raises(ValueError, match=r"class 3 \(three\) has 0 images"):
        make(shuffled([10, 10, 10], 0), 4, 2, 4)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 1, 1), "pretrain_per_class is 0"),
        ((1, 0, 1), "fine_tune_per_class is 0"),
        ((1, 3, 2), "pool_per_class is 2; allowed: at least fine_tune_per_class = 3"),
    ],
)
def test_sizes_out_of_range_are_refused(sizes: tuple[int, int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(shuffled([9, 9, 9, 9], 0), *sizes)


def picks(labels: np.ndarray, parts: Split, **changes: int):
    given = {"target_class": 1, "targets": 2, "poison_class": 3, "poisons": 2} | changes
    return pick_trials(labels, parts.pool, parts.fine_tune, **given)


@given(cases())
def test_targets_come_behind_the_fine_tuning_set(
    case: tuple[np.ndarray, int, int, int],
) -> None:
    labels, pretrain, fine_tune, pool = case
    parts = make(labels, pretrain, fine_tune, pool)
    if pool == fine_tune:
        with pytest.raises(ValueError, match="allowed: 1 to 0"):
            picks(labels, parts, targets=1, poisons=1)
        return
    count = pool - fine_tune
    chosen = picks(labels, parts, targets=count, poisons=fine_tune)
    in_class = np.flatnonzero(labels == 1)
    assert chosen.targets.tolist() == in_class[pretrain + fine_tune : pretrain + pool].tolist()
    assert not set(chosen.targets) & set(parts.fine_tune)
    bases = parts.fine_tune[chosen.bases]
    assert bases.tolist() == np.flatnonzero(labels == 3)[pretrain : pretrain + fine_tune].tolist()
    for fewer in range(1, count):  # more targets never change the earlier ones
        assert (
            picks(labels, parts, targets=fewer, poisons=1).targets.tolist() == chosen.targets[:fewer].tolist()
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"targets": 4}, "targets is 4; allowed: 1 to 3"),
        ({"targets": 0}, "targets is 0"),
        ({"poisons": 3}, "poisons is 3; allowed: 1 to 2"),
        ({"poisons": 0}, "poisons is 0"),
        ({"poison_class": 1}, "both 1"),
        ({"target_class": 7}, "allowed: 1 to 0"),
    ],
)
def test_impossible_trials_are_refused(changes: dict[str, int], message: str) -> None:
    labels = shuffled([10] * 4, 1)
    with pytest.raises(ValueError, match=message):
        picks(labels, make(labels, 4, 2, 5), **changes)


@given(cases())
def test_class_ranges_lay_together_are_the_whole(case: tuple[np.ndarray, int, int, int]) -> None:
    labels = case[0]
    smallest = np.bincount(labels).min()
    cut = smallest // 2
    first, second = class_range(labels, 0, cut), class_range(labels, cut, smallest)
    assert not set(first) & set(second)
    assert sorted([*first, *second]) == class_range(labels, 0, smallest).tolist()
    assert (np.bincount(labels[first]) == cut).all()


@pytest.mark.parametrize("ends", [(2, 2), (3, 2), (-1, 2), (0, 11)])
def test_class_ranges_outside_are_refused(ends: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"allowed: 0 <= start < stop <= 10"):
        class_range(shuffled([10, 12, 11, 10], 0), *ends)


def test_a_pool_that_starts_later_is_the_same_with_fewer_images_for_pre_training() -> None:
    labels = shuffled([30] * 4, 3)
    numbers = {"classes": NAMES, "official_test": False, "fine_tune_per_class": 4, "pool_per_class": 9}
    many = split(labels, pretrain_per_class=12, **numbers)
    few = split(labels, pretrain_per_class=5, pool_start=12, **numbers)
    for part in ("pool", "fine_tune", "test"):
        assert np.array_equal(getattr(few, part), getattr(many, part)), part
    assert set(few.pretrain) < set(many.pretrain) and len(few.pretrain) == 4 * 5


def test_a_pool_among_the_pre_training_images_is_refused() -> None:
    numbers = {"classes": NAMES, "official_test": True, "fine_tune_per_class": 1, "pool_per_class": 1}
    with pytest.raises(ValueError, match="pool_start is 4; allowed: at least pretrain_per_class = 5"):
        split(shuffled([30] * 4, 3), pretrain_per_class=5, pool_start=4, **numbers)
    with pytest.raises(ValueError, match="required: pool_start"):
        split(shuffled([30] * 4, 3), pretrain_per_class=5, pool_start=30, **numbers)
