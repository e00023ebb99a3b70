"""Split of the images into pre-training, fine-tuning, attack and test (zhu2022, sec. 2.2.8).

Let rank(i) be the number of images of image i's class before it in the data set's order. With a = ``pretrain_per_class``,
f = ``fine_tune_per_class``, p = ``pool_per_class``, s = ``pool_start`` (by default a):

=========  ==========================================  =====================================================
part       images                                      purpose
=========  ==========================================  =====================================================
pretrain   rank < a                                    substitutes and victims learn features
pool       s ≤ rank < s + p                            everything used by the attack and the victim
fine_tune  s ≤ rank < s + f                            the victim's training set; holds the poisons' bases
test       the official test set; if there is          clean accuracy
           none, rank ≥ s + p
=========  ==========================================  =====================================================

Targets are images of the target class in the pool with rank ≥ s + f; bases are the first images of the poison class in fine_tune. No target
is ever used for training. CIFAR-10 in the paper: a = s = 4800, f = 50, p = 200. With s = 4800 and fewer images for pre-training, targets
and bases stay those of the paper, and the images between a and s are left out. All index arrays are ascending, so "first" always refers to
the data set's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """Ascending indices into the training images; ``test`` is None if the official test set is used."""

    pretrain: Index
    pool: Index
    fine_tune: Index
    test: Index | None


@dataclass(frozen=True)
class Picks:
    """``targets``: indices of the attacked images; ``bases``: positions of the bases WITHIN fine_tune."""

    targets: Index
    bases: Index


def rank_in_class(labels: Index) -> Index:
    """Number of images of the same class before each image: [3, 1, 3, 3, 1] gives [0, 0, 1, 2, 1]."""
    rank = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        rank[members] = np.arange(len(members))
    return rank


def split(
    labels: Index,
    *,
    classes: Sequence[str],
    official_test: bool,
    pretrain_per_class: int,
    fine_tune_per_class: int,
    pool_per_class: int,
    pool_start: int | None = None,
) -> Split:
    """Split training images by the rule of this module.

    Args:
        labels: (N,) classes 0 to K-1, in the data set's order.
        classes: the names of all K classes.
        official_test: the data set has its own test set; otherwise the images beyond the pool are the test set.
        pretrain_per_class: a, at least 1.
        fine_tune_per_class: f, at least 1.
        pool_per_class: p, at least f.
        pool_start: s, at least a; by default a.

    Raises:
        ValueError: a number is out of range, or a class has too few images.
    """
    for name, value in (
        ("pretrain_per_class", pretrain_per_class),
        ("fine_tune_per_class", fine_tune_per_class),
    ):
        if value < 1:
            raise ValueError(f"{name} is {value}; allowed: 1 or more")
    if pool_per_class < fine_tune_per_class:
        raise ValueError(
            f"pool_per_class is {pool_per_class}; allowed: at least fine_tune_per_class = "
            f"{fine_tune_per_class}"
        )
    start = pretrain_per_class if pool_start is None else pool_start
    if start < pretrain_per_class:
        raise ValueError(
            f"pool_start is {start}; allowed: at least pretrain_per_class = {pretrain_per_class}"
        )
    needed = start + pool_per_class + (0 if official_test else 1)
    for label, count in enumerate(np.bincount(labels, minlength=len(classes))):
        if count < needed:
            left = "" if official_test else " + 1 left for the test set"
            raise ValueError(
                f"class {label} ({classes[label]}) has {count} images; required: pool_start + "
                f"pool_per_class{left} = {needed}"
            )
    rank = rank_in_class(labels)
    behind = rank - start  # 0 for the first image of the pool
    return Split(
        pretrain=np.flatnonzero(rank < pretrain_per_class),
        pool=np.flatnonzero((behind >= 0) & (behind < pool_per_class)),
        fine_tune=np.flatnonzero((behind >= 0) & (behind < fine_tune_per_class)),
        test=None if official_test else np.flatnonzero(behind >= pool_per_class),
    )


def class_range(labels: Index, start: int, stop: int) -> Index:
    """Ascending positions with start ≤ rank < stop, the same for every class.

    Used for networks that share only a part of their pre-training images (zhu2022, fig. 2.6: images 1 to 2400
    of each class versus 1201 to 3600).

    Raises:
        ValueError: the range is empty or reaches beyond the smallest class.
    """
    smallest = int(np.unique(labels, return_counts=True)[1].min()) if len(labels) else 0
    if not 0 <= start < stop <= smallest:
        raise ValueError(f"images {start} to {stop} of each class; allowed: 0 <= start < stop <= {smallest}")
    rank = rank_in_class(labels)
    return np.flatnonzero((rank >= start) & (rank < stop))


def pick_trials(
    labels: Index,
    pool: Index,
    fine_tune: Index,
    *,
    target_class: int,
    targets: int,
    poison_class: int,
    poisons: int,
) -> Picks:
    """The attacked images and the poisons' bases. Adding targets changes neither the earlier ones nor the split.

    Args:
        labels: (N,) labels of all images that the indices point into.
        pool: ascending indices.
        fine_tune: ascending indices, a subset of the pool.
        target_class: class of the attacked images (paper: frog, 6).
        targets: number of images, each of which is attacked separately.
        poison_class: the class intended by the attacker (paper: ship, 8).
        poisons: number of images of that class that become poisons.

    Raises:
        ValueError: the two classes are equal, a number is below 1, or a class has too few images.
    """
    if target_class == poison_class:
        raise ValueError(
            f"target_class and poison_class are both {target_class}; allowed: two different classes"
        )
    behind = pool[~np.isin(pool, fine_tune)]
    candidates = behind[labels[behind] == target_class]
    bases = np.flatnonzero(labels[fine_tune] == poison_class)
    if not 1 <= targets <= len(candidates):
        raise ValueError(
            f"targets is {targets}; allowed: 1 to {len(candidates)}, the pool's images of class "
            f"{target_class} beyond the fine-tuning set"
        )
    if not 1 <= poisons <= len(bases):
        raise ValueError(
            f"poisons is {poisons}; allowed: 1 to {len(bases)}, the fine-tuning set's images of class "
            f"{poison_class}"
        )
    return Picks(targets=candidates[:targets], bases=bases[:poisons])
