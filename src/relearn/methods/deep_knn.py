"""Deep k-NN: keep a training point only if its neighbours in feature space share its label.

Zhu 2022, section 2.3, algorithm 2. A poison carries the label of one class, but its features are among those of another. With
k > 2 · (number of poisons) the poisons cannot outvote the clean points around them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relearn.methods.detector import Detector, Features, Labels, as_features, as_labels, signs
from relearn.methods.neighbours import NeighbourSearch


class DeepKNN(Detector):
    r"""Keep x⁽ⁱ⁾ iff its label is a mode of the labels of its k nearest neighbours.

    .. math:: \text{keep } x^{(i)} \iff l(i) \in \mathrm{mode}\{\, l(j) : j \in S_k(x^{(i)}) \,\}

    ======  ==============================================  =======  =======
    symbol  meaning                                         code     shape
    ======  ==============================================  =======  =======
    φ(x)    penultimate features                            ``X``    (n, d)
    l(i)    label of point i                                ``y``    (n,)
    S_k     k points of smallest ‖φ(x⁽ʲ⁾) - φ(x⁽ⁱ⁾)‖₂        -        (k,)
    ======  ==============================================  =======  =======

    Ties among labels: the mode is a set, and a point whose label is in it is kept. Ties among distances: the
    smaller index counts as nearer (the tie rule of ``neighbours``). The search is exact, so block and device do
    not change the result.

    Differs from the paper: as printed, S_k may contain x⁽ⁱ⁾ itself. The text refers to neighbours, so the point itself is excluded
    here. In the published code every point votes for its own label, and ties among labels are broken towards the smallest one:
    ``include_self=True, label_ties="smallest"``.

    Args:
        k: number of neighbours that vote; at most n - 1, or n with ``include_self``. The paper recommends 1 to 2 times the size of
            the largest class (section 2.3.5), which is 50 there.
        include_self: whether a point counts as its own first neighbour, even if it has duplicates.
        label_ties: ``keep`` treats all tied labels as modes, ``smallest`` only the smallest of them.
        block: number of rows searched at a time; None chooses by available memory. Does not change the result.
    """

    def __init__(
        self,
        k: int = 50,
        include_self: bool = False,
        label_ties: Literal["keep", "smallest"] = "keep",
        block: int | None = None,
    ) -> None:
        self.k = k
        self.include_self = include_self
        self.label_ties = label_ties
        self.block = block

    def _keep(self, X: Tensor, y: NDArray[np.int64], member: int) -> NDArray[np.bool_]:
        return self._keep_for(X, y, [self.k])[0]

    def sweep(self, X: Features, y: Labels, ks: Iterable[int]) -> NDArray[np.int64]:
        """``fit_predict`` for many k in one neighbour search; the detector's own k is not used.

        Args:
            X, y: as in ``fit_predict``.
            ks: numbers of neighbours, in any order.

        Returns:
            numpy int64 (len(ks), n), for a stack (T, len(ks), n): 1 keep, -1 drop.

        Raises:
            ValueError: ``ks`` is empty or no list, a k is out of range, or an error of ``fit_predict``.
        """
        if not isinstance(ks, Iterable) or not (ks := tuple(ks)):
            raise ValueError(f"ks is {ks!r}; allowed: a list of one k or more")
        features = as_features(X)
        labels = as_labels(y, features)
        if features.ndim == 2:
            return signs(self._keep_for(features, labels, ks))
        kept = [self._keep_for(one, own, ks) for one, own in zip(features, labels)]
        shape = (len(features), len(ks), features.shape[1])
        return signs(np.stack(kept)) if kept else np.empty(shape, dtype=np.int64)

    def _keep_for(self, X: Tensor, y: NDArray[np.int64], ks: Sequence[int]) -> NDArray[np.bool_]:
        if self.label_ties not in ("keep", "smallest"):
            raise ValueError(f"label_ties is {self.label_ties!r}; allowed: keep, smallest")
        search = NeighbourSearch(X, include_self=self.include_self, block=self.block)
        labels = torch.from_numpy(y).to(X.device)
        return agrees(search, labels, labels, ks, self.label_ties).cpu().numpy()


def agrees(
    search: NeighbourSearch, labels: Tensor, own: Tensor, ks: Sequence[int], label_ties: str
) -> Tensor:
    """Whether each query's own label is a mode of its neighbours' labels, for every k, in one pass.

    Args:
        search: the points and the queries.
        labels: labels of the points (N,), codes 0..C-1.
        own: labels of the queries (n,), codes likewise.
        ks: numbers of neighbours, in any order.
        label_ties: as in :class:`DeepKNN`.

    Returns:
        bool (len(ks), n) on the points' device.
    """
    for k in ks:
        search.check(k)
    ascending = sorted({int(k) for k in ks})
    classes = int(labels.max()) + 1
    labels, own = (
        labels.int(),
        own.long(),
    )  # the labels of all neighbours are gathered; int32 halves the memory
    agree = torch.empty(len(ascending), len(own), dtype=torch.bool, device=labels.device)
    for part in search.blocks(ascending[-1]):
        asked = own[part.start : part.stop, None]
        votes = torch.zeros(len(asked), classes, dtype=torch.int64, device=labels.device)
        counted = 0
        for position, k in enumerate(ascending):
            # Count only the neighbours beyond the previous k, so each neighbour is counted once for all k.
            votes += count_labels(labels[part.order[:, counted:k]], classes)
            counted = k
            rows, members = part.settle(k)
            exact = votes.clone()
            exact[rows] = count_labels(labels[members], classes)
            agree[position, part.start : part.stop] = in_mode(exact, asked, label_ties)
    return agree[[ascending.index(int(k)) for k in ks]]


def count_labels(labels: Tensor, classes: int) -> Tensor:
    """Number of occurrences of each label in each row: (R, m) → (R, classes)."""
    rows = torch.arange(len(labels), dtype=labels.dtype, device=labels.device)[:, None]
    return torch.bincount((labels + rows * classes).flatten(), minlength=len(labels) * classes).view(
        -1, classes
    )


def in_mode(votes: Tensor, own: Tensor, label_ties: str) -> Tensor:
    """Whether each row's own label (R, 1) is a mode of its votes (R, classes)."""
    if label_ties == "smallest":
        return votes.argmax(dim=1) == own[:, 0]
    return votes.gather(1, own)[:, 0] == votes.amax(dim=1)


def replicate(y: Labels, rng: np.random.Generator | None = None) -> NDArray[np.int64]:
    """Indices that repeat every class up to the size N of the largest, for Deep k-NN under class imbalance.

    Class c with n_c points is repeated ceil(N / n_c) times and truncated to N points (Zhu 2022, section 2.3.5: N / n_c times). The
    first n indices are 0..n-1, so with ``i = replicate(y)`` the decisions for the original points are
    ``fit_predict(X[i], y[i])[: len(y)]``. A copy counts as a neighbour like any other point.

    Args:
        y: labels (n,).
        rng: chooses the points of the last, partial repetition at random; None takes the first points of the class.

    Returns:
        numpy int64 (C·N,) with C the number of classes; empty if there are no labels.

    Raises:
        ValueError: labels of another shape, or NaN.
    """
    labels = y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
    if labels.ndim != 1:
        raise ValueError(f"y: shape {labels.shape} (allowed: (n,))")
    if (labels != labels).any():
        raise ValueError("y: holds NaN (allowed: labels that equal themselves)")
    counts = np.unique(labels, return_counts=True)[1]
    copies = [np.arange(len(labels), dtype=np.int64)]
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        rounds, partial = divmod(int(counts.max()), len(rows))
        copies.append(np.tile(rows, rounds - 1))
        copies.append(rows[:partial] if rng is None else np.sort(rng.choice(rows, partial, replace=False)))
    return np.concatenate(copies)
