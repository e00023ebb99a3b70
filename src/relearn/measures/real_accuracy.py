"""Accuracy for images with several correct classes, or none (Beyer et al., 2020)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from torch import Tensor


def real_accuracy(predicted: Tensor, allowed: Sequence[Collection[int]]) -> tuple[float, int]:
    r"""Return the fraction of images whose prediction is one of their correct classes, and the number of images with any.

    .. math:: \frac{1}{|S|} \sum_{i \in S} [\hat y_i \in A_i], \quad S = \{i : A_i \neq \emptyset\}

    With one class per image it equals :func:`relearn.measures.accuracy.accuracy`; further classes cannot lower it.

    Args:
        predicted: ŷ (n,), the class with the largest logit.
        allowed: A, the right classes of each image.

    Raises:
        ValueError: predictions of a wrong shape, or no image with a class.
    """
    if predicted.shape != (len(allowed),):
        raise ValueError(
            f"predicted {tuple(predicted.shape)}, {len(allowed)} sets of classes; allowed: one set for each prediction"
        )
    right = [guess in classes for guess, classes in zip(predicted.tolist(), allowed) if classes]
    if not right:
        raise ValueError(f"{len(allowed)} images, none with a class; allowed: at least one")
    return sum(right) / len(right), len(right)
