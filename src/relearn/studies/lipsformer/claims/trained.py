"""Predicates of qi2023 over trainings: the ablations of table 3, each compared with the base network.

The base has no warm-up, CenterNorm, spectral start, cosine attention, alpha = 0.2, convolutions D and drop path 0.2.
"""

from __future__ import annotations

from collections.abc import Sequence

from relearn.report import classified
from relearn.report.artefacts import Where
from relearn.report.comparisons import Comparison, Finding, finding
from relearn.report.quantities import Evidence
from relearn.report.seeds import difference
from relearn.report.verdicts import Above, Below, Side

BASE = "base"
ALPHAS = {"0.1": "alpha_0.1", "0.2": BASE, "0.3": "alpha_0.3", "0.4": "alpha_0.4"}


def variant(name: str) -> Where:
    return {"suite": "ablation", "variant": name}


def trains_without_warmup(evidence: Evidence) -> Finding:
    """Accuracy without warm-up - with >= 0."""
    name = "no warm-up - warm-up"
    return finding({name: _against(evidence, name, BASE, "warmup", Above(0.0, strict=False))})


def layernorm_fails(evidence: Evidence) -> Finding:
    """Every training with LayerNorm diverges or does not converge, and accuracy without norm - with CenterNorm < 0."""
    fails, worse = "LayerNorm: share of trainings that fail", "no norm - CenterNorm"
    return finding(
        {
            fails: _all_end(evidence, fails, "layer_norm", ("diverged", "not_converged")),
            worse: _against(evidence, worse, "no_norm", BASE, Below(0.0)),
        }
    )


def dot_product_fails(evidence: Evidence) -> Finding:
    """Every training with dot-product attention diverges."""
    name = "dot product: share of trainings that diverge"
    return finding({name: _all_end(evidence, name, "dot_product", ("diverged",))})


def alpha_has_a_limit(evidence: Evidence) -> Finding:
    """Alpha = 0.2 is more accurate than each other alpha, so that it is the argmax, and every training with 0.4 diverges."""
    parts: dict[str, Comparison | None] = {}
    beside = [
        classified.said(evidence, f"alpha = {alpha}", variant(name))
        for alpha, name in ALPHAS.items()
        if classified.trainings(evidence, variant(name))
    ]
    for alpha, name in ALPHAS.items():
        if name != BASE:
            words = f"alpha = 0.2 - {alpha}"
            parts[words] = _against(evidence, words, BASE, name, Above(0.0), () if parts else beside)
    words = "alpha = 0.4: share of trainings that diverge"
    parts[words] = _all_end(evidence, words, ALPHAS["0.4"], ("diverged",))
    return finding(parts)


def power(comparison: Comparison, evidence: Evidence) -> list[str]:
    """Reasons: too few seeds, or a seed without a training above chance, of the base or of the compared variants."""
    names = dict.fromkeys([BASE, *(name for name, _, _ in comparison.keys)])
    return classified.lacks(comparison, evidence, {name: variant(name) for name in names})


def _against(
    evidence: Evidence, words: str, left: str, right: str, claimed: Side, notes: Sequence[str] = ()
) -> Comparison | None:
    """Difference of accuracies by seed."""
    one, other = (classified.accuracy(evidence, name, variant(name)) for name in (left, right))
    notes = notes or [classified.said(evidence, name, variant(name)) for name in (left, right)]
    return difference(words, one, other, claimed, role=classified.STEP, notes=notes)


def _all_end(evidence: Evidence, words: str, name: str, ends: Sequence[str]) -> Comparison | None:
    return classified.all_end(words, evidence, name, variant(name), lambda outcome: outcome in ends)
