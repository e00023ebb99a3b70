r"""The scores of GLUE (Wang et al. 2019, arXiv 1804.07461, section 3 and the site's rules), in [-1, 1] or [0, 1], in float64.

For N samples with true answers y and predicted answers a:

.. math::
    \mathrm{accuracy} = \tfrac1N \sum_i [a_i = y_i] \qquad
    F_1 = \frac{2\,TP}{2\,TP + FP + FN} \qquad
    \mathrm{mcc} = \frac{c\,N - \sum_k p_k t_k}{\sqrt{N^2 - \sum_k p_k^2}\,\sqrt{N^2 - \sum_k t_k^2}} \qquad
    r = \frac{\sum_i (a_i - \bar a)(y_i - \bar y)}{\sqrt{\sum_i (a_i - \bar a)^2}\,\sqrt{\sum_i (y_i - \bar y)^2}}

TP, FP, FN refer to class 1; c is the number of correct answers, p_k and t_k how often class k is predicted and true (for two classes
this is Matthews' formula). Spearman's coefficient is r of the ranks; ties get their mean rank. Like the benchmark's evaluation, we
call scikit-learn and scipy. Undefined cases are defined here: F1 without any true positive is 0, and the three
coefficients are 0 if answers or labels are constant (scipy returns NaN).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

KINDS = {
    "classification": ("accuracy", "f1", "mcc"),
    "regression": ("pearson", "spearman"),
    "ranking": ("accuracy",),
}
RECORD_NAMES = {
    "accuracy": "accuracy_frac",
    "f1": "f1_frac",
    "mcc": "mcc",
    "pearson": "pearson",
    "spearman": "spearman",
}
# The benchmark averages over the scores of each row, then over rows; MNLI's row contains both of its test sets.
OVERALL = (
    (("cola", "mcc"),),
    (("sst2", "accuracy"),),
    (("mrpc", "f1"), ("mrpc", "accuracy")),
    (("stsb", "pearson"), ("stsb", "spearman")),
    (("qqp", "f1"), ("qqp", "accuracy")),
    (("mnli", "accuracy"), ("mnli_mismatched", "accuracy")),
    (("qnli", "accuracy"),),
    (("rte", "accuracy"),),
    (("wnli", "accuracy"),),
)


def scores(kind: str, metrics: Sequence[str], predicted: Tensor, labels: Tensor) -> dict[str, float]:
    """Return each of ``metrics`` under its own name; ``RECORD_NAMES`` has the names with units.

    Args:
        kind: ``classification`` (accuracy, f1, mcc), ``regression`` (pearson, spearman) or ``ranking`` (accuracy).
        metrics: names that are defined for the kind.
        predicted: (N,) classes, values, or indices of the chosen candidates: answers, not logits.
        labels: (N,) true classes, values or indices.

    Raises:
        ValueError: an unknown kind or metric, shapes that differ, no sample (a correlation needs two), f1 of classes other
            than 0 and 1, a value that is not finite.
    """
    if kind not in KINDS:
        raise ValueError(f"kind: {kind} (allowed: {', '.join(KINDS)})")
    for metric in metrics:
        if metric not in KINDS[kind]:
            raise ValueError(f"metrics: {metric} of {kind} (allowed: {', '.join(KINDS[kind])})")
    least = 2 if kind == "regression" else 1
    if predicted.shape != labels.shape or predicted.ndim != 1 or len(labels) < least:
        raise ValueError(
            f"predicted: {tuple(predicted.shape)} with labels {tuple(labels.shape)} (allowed: (N,) both, N at least {least})"
        )
    given, true = predicted.detach().cpu().double(), labels.detach().cpu().double()
    if not (given.isfinite().all() and true.isfinite().all()):
        raise ValueError("predicted: nan or inf (allowed: finite values)")
    return {metric: _score(metric, given, true) for metric in metrics}


def overall(values: Mapping[str, Mapping[str, float]]) -> float:
    """Return the benchmark's overall score: the mean over its nine tasks; a task with two scores contributes their mean.

    Args:
        values: the scores of each task, named as by :func:`scores`; ``mnli`` is the matched part, ``mnli_mismatched`` the other.
            The diagnostics ``ax`` do not count.

    Raises:
        ValueError: a score is missing.
    """
    missing = [
        f"{task} {metric}" for line in OVERALL for task, metric in line if metric not in values.get(task, {})
    ]
    if missing:
        raise ValueError(f"values: without {', '.join(missing)} (allowed: all tasks)")
    lines = [sum(values[task][metric] for task, metric in line) / len(line) for line in OVERALL]
    return sum(lines) / len(lines)


def entailment_answers(
    ids: Sequence[str], candidate_scores: Sequence[Sequence[float]] | Tensor
) -> dict[str, int]:
    """Convert a ranking to answers per pair: the best candidate of a sample is entailed (1), the others are not (0).

    zhu2022, section 3.5.1 (QNLI). Ties go to the earlier candidate. A sample with one candidate cannot be ranked, so its pair is
    answered 0, the majority of WNLI's hidden answers. Candidates borrowed from another part get no answer.

    Args:
        ids: one per sample: the names of its candidates joined by ``+``, borrowed ones with a colon (``12+train:57``), as
            :mod:`relearn.data.glue` writes them.
        candidate_scores: (N, C), or one list per sample; entries beyond a sample's own candidates are ignored.

    Raises:
        ValueError: different numbers of samples, fewer scores than candidates, or a pair in two samples.
    """
    rows = candidate_scores.tolist() if isinstance(candidate_scores, Tensor) else candidate_scores
    if len(ids) != len(rows):
        raise ValueError(f"candidate_scores: {len(rows)} (allowed: {len(ids)}, one per sample)")
    answers: dict[str, int] = {}
    for joined, row in zip(ids, rows):
        names = joined.split("+")
        if len(row) < len(names):
            raise ValueError(f"candidate_scores: {len(row)} of sample {joined} (allowed: {len(names)})")
        best = max(range(len(names)), key=lambda number: (row[number], -number))
        for number, name in enumerate(names):
            if ":" in name:
                continue
            if name in answers:
                raise ValueError(f"ids: pair {name} is in two samples (allowed: one)")
            answers[name] = int(number == best and len(names) > 1)
    return answers


def _score(metric: str, given: Tensor, true: Tensor) -> float:
    if metric == "accuracy":
        return float((given == true).double().mean())
    if metric == "f1" and (odd := set(torch.cat([given, true]).tolist()) - {0.0, 1.0}):
        raise ValueError(f"f1: class {min(odd):g} (allowed: 0 and 1)")
    if metric in ("mcc", "pearson", "spearman") and ((given == given[0]).all() or (true == true[0]).all()):
        return 0.0
    with (
        warnings.catch_warnings()
    ):  # warnings about classes that are never predicted and about nearly constant values
        warnings.simplefilter("ignore")
        if metric in ("pearson", "spearman"):
            from scipy import stats

            found = {"pearson": stats.pearsonr, "spearman": stats.spearmanr}[metric](
                given.numpy(), true.numpy()
            )
            return float(found.statistic)
        from sklearn.metrics import f1_score, matthews_corrcoef

        answers, right = given.long().numpy(), true.long().numpy()
        return float(
            f1_score(right, answers, zero_division=0) if metric == "f1" else matthews_corrcoef(right, answers)
        )
