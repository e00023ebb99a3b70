"""Calibration of a network's confidence: calibration error, negative log-likelihood, Brier score.

Guo et al. 2017 (arXiv 1706.04599) for the binned calibration error, Brier 1950 for the score. Everything is
computed in float64 from logits, so that confidences near 1 keep their precision.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Reliability(NamedTuple):
    """Per bin: number of ``samples`` (bins,), and their mean ``confidence`` and ``accuracy``; NaN in an empty bin."""

    samples: Tensor
    confidence: Tensor
    accuracy: Tensor


def calibration(logits: Tensor, labels: Tensor, *, bins: int) -> dict[str, float]:
    """Return all three measures under their record names: ``ece_frac``, ``nll_nats``, ``brier``.

    Args:
        logits: (n, C).
        labels: (n,) integers 0..C-1.
        bins: number of equal bins of confidence for the calibration error.

    Raises:
        ValueError: no samples, shapes or labels that do not match, logits that are not finite, or bins < 1.
    """
    return {
        "ece_frac": expected_calibration_error(logits, labels, bins=bins),
        "nll_nats": negative_log_likelihood(logits, labels),
        "brier": brier_score(logits, labels),
    }


def reliability(logits: Tensor, labels: Tensor, *, bins: int) -> Reliability:
    """Return the reliability diagram: samples binned by the confidence of their prediction, in ((b-1)/B, b/B]."""
    if bins < 1:
        raise ValueError(f"bins is {bins}; allowed: at least 1")
    logits, labels = _check(logits, labels)
    confidence, predicted = logits.softmax(dim=1).max(dim=1)
    # ceil assigns an edge to the lower bin; 1e-9, because the softmax of equal logits can round to just above an edge
    member = ((confidence * bins - 1e-9).ceil().long() - 1).clamp(0, bins - 1)
    count = torch.bincount(member, minlength=bins)
    right = (predicted == labels).double()
    return Reliability(
        count,
        torch.bincount(member, weights=confidence, minlength=bins) / count,
        torch.bincount(member, weights=right, minlength=bins) / count,
    )


def expected_calibration_error(logits: Tensor, labels: Tensor, *, bins: int) -> float:
    r"""Gap between confidence and accuracy, averaged over samples: :math:`\sum_b \frac{n_b}{n} |acc_b - conf_b|`.

    Raises:
        ValueError: as :func:`calibration`.
    """
    found = reliability(logits, labels, bins=bins)
    gap = torch.nan_to_num((found.accuracy - found.confidence).abs())  # an empty bin has weight 0
    return float((gap * found.samples).sum() / found.samples.sum())


def negative_log_likelihood(logits: Tensor, labels: Tensor) -> float:
    r"""Mean of :math:`-\log p_{y}`, in nats."""
    logits, labels = _check(logits, labels)
    return float(torch.nn.functional.cross_entropy(logits, labels))


def brier_score(logits: Tensor, labels: Tensor) -> float:
    r"""Mean over samples of :math:`\sum_c (p_c - [c = y])^2`, summed over all classes: 0 to 2."""
    logits, labels = _check(logits, labels)
    wrong = logits.softmax(dim=1) - torch.nn.functional.one_hot(labels, logits.shape[1])
    return float(wrong.square().sum(dim=1).mean())


def _check(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    if logits.dim() != 2 or labels.shape != logits.shape[:1] or len(labels) == 0:
        shapes = f"logits {tuple(logits.shape)}, labels {tuple(labels.shape)}"
        raise ValueError(f"{shapes}: allowed are (n, C) and (n,) with n > 0")
    logits, labels = logits.detach().cpu().double(), labels.detach().cpu().long()
    if not bool(logits.isfinite().all()):
        rows = (~logits.isfinite().all(dim=1)).nonzero()[:5, 0].tolist()
        raise ValueError(
            f"logits in rows {', '.join(map(str, rows))} are NaN or infinite; all must be finite"
        )
    if int(labels.min()) < 0 or int(labels.max()) >= logits.shape[1]:
        found = f"{int(labels.min())} to {int(labels.max())}"
        raise ValueError(f"labels run from {found}; allowed: 0 to {logits.shape[1] - 1}")
    return logits, labels
