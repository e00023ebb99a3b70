r"""Out-of-distribution detection: scores for single images, and how well a score separates two sets of images.

**Scores**, greater = more likely out of distribution, from logits z (for a Gaussian-process head the mean-field logits) with
p = softmax(z), for C classes, and from the head's variances v:

==================  =====================================  ==========================================================
name                score                                  source
==================  =====================================  ==========================================================
``max_softmax``     :math:`1 - \max_c p_c`                 Hendrycks and Gimpel 2017 (arXiv 1610.02136)
``entropy``         :math:`-\sum_c p_c \log p_c`, in nats  as above
``dempster_shafer``  :math:`C / (C + \sum_c e^{z_c})`      Liu et al. 2020 (SNGP, arXiv 2006.10108, equation 13)
``gp_variance``     :math:`\mathrm{mean}_c\, v_c`          the head alone (``relearn.layers.random_feature_gp``)
==================  =====================================  ==========================================================

**Detection**: s(x) >= t means "out of distribution". With out-of-distribution images o_1 … o_m as positives and in-distribution images
i_1 … i_n as negatives:

.. math::
    \mathrm{AUROC} = \frac1{mn} \sum_{j,k} \big([o_j > i_k] + \tfrac12 [o_j = i_k]\big), \qquad
    \mathrm{AUPR} = \sum_t (R_t - R_{t'})\, P_t, \qquad
    \mathrm{FPR}_{95} = \min_t \{\mathrm{FPR}(t) : \mathrm{TPR}(t) \ge 0.95\}

with precision P_t and recall R_t at the thresholds t in descending order and t' the previous threshold (average precision, without
interpolation). A random score has AUROC 1/2 and AUPR m/(m + n), so AUPR is comparable only for equal sizes. Papers that treat the
in-distribution images as positives report different AUPR and FPR values; AUROC is the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

SCORES = ("max_softmax", "entropy", "dempster_shafer", "gp_variance")
TPR = 0.95


class Separation(NamedTuple):
    """How well a score separates out-of-distribution from in-distribution images; fractions."""

    auroc: float
    aupr: float
    fpr95: float


def scores(logits: Tensor, variance: Tensor | None = None) -> dict[str, Tensor]:
    """Return every score that these outputs allow, by name: (n,) float64 on the CPU.

    Args:
        logits: (n, C).
        variance: (n, 1) or (n, C) of a Gaussian-process head; None: no ``gp_variance``.

    Raises:
        ValueError: outputs of a wrong shape, or not finite.
    """
    logits = _finite(logits, "logits")
    p = logits.softmax(1)
    found = {
        # sum over the other classes, because 1 - p would be 0 for every sufficiently confident prediction
        "max_softmax": p.scatter(1, p.argmax(1, keepdim=True), 0.0).sum(1),
        "entropy": entropy(logits),
        "dempster_shafer": torch.sigmoid(np.log(logits.shape[1]) - logits.logsumexp(1)),
    }
    if variance is not None:
        found["gp_variance"] = _finite(variance, "variance").mean(1)
    return found


def entropy(logits: Tensor) -> Tensor:
    """Entropy of softmax(logits) in nats: (n,) float64, between 0 and log C.

    Raises:
        ValueError: logits of another shape than (n, C), or not finite.
    """
    log_p = _finite(logits, "logits").log_softmax(1)
    return -(log_p.exp() * log_p).sum(1).clamp_max(0)  # rounding could make the sum slightly positive


def separation(inside: ArrayLike, outside: ArrayLike) -> Separation:
    """Return AUROC, AUPR and the false positive rate at a true positive rate of at least 95%; see the module.

    Args:
        inside: (n,) scores of in-distribution images.
        outside: (m,) scores of out-of-distribution images.

    Raises:
        ValueError: a set without scores, or scores that are not finite or not one-dimensional.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

    negatives, positives = _row(inside, "inside"), _row(outside, "outside")
    foreign = np.concatenate([np.zeros(len(negatives)), np.ones(len(positives))])
    values = np.concatenate([negatives, positives])
    false_positive, true_positive, _ = roc_curve(foreign, values, drop_intermediate=False)
    return Separation(
        float(roc_auc_score(foreign, values)),
        float(average_precision_score(foreign, values)),
        float(false_positive[np.argmax(true_positive >= TPR)]),
    )


def _row(values: ArrayLike, name: str) -> NDArray[Any]:
    row = np.asarray(values, dtype=np.float64)
    if row.ndim != 1 or not len(row):
        raise ValueError(f"{name}: scores of shape {row.shape} (allowed: (n,) with n > 0)")
    if not np.isfinite(row).all():
        place = int(np.flatnonzero(~np.isfinite(row))[0])
        raise ValueError(f"{name}: score {row[place]} at {place} (allowed: finite numbers)")
    return row


def _finite(values: Tensor, name: str) -> Tensor:
    if values.dim() != 2:
        raise ValueError(f"{name}: shape {tuple(values.shape)} (allowed: (n, C))")
    values = values.detach().cpu().double()
    if not bool(values.isfinite().all()):
        row = int((~values.isfinite().all(dim=1)).nonzero()[0, 0])
        raise ValueError(f"{name}: row {row} is NaN or infinite (allowed: finite numbers)")
    return values
