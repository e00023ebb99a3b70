"""Predicates of qi2023 on trainings: the ablations of table 3, each compared with the base network.

The base network is trained without warm-up, with CenterNorm, spectral initialisation, cosine attention, alpha = 0.2, convolutions D
and drop path 0.2.
"""

from __future__ import annotations

from collections.abc import Sequence

from relearn.report import classified
from relearn.report.artefacts import Where
from relearn.report.comparisons import Comparison, Finding, finding
from relearn.report.quantities import Evidence
from relearn.report.seeds import difference, sample
from relearn.report.verdicts import Above, Below, Side

BASE = "base"
WIDTH, DEPTH, STEPS = 64, 25, 62_500
"""Channels of the first stage and blocks of LipsFormer-CSwin-T (table 4); steps of 100 epochs (table 3) in batches of 2,048."""
LEAST_WIDTH, LEAST_DEPTH, LEAST_STEPS = 0.5, 0.5, 0.1
"""Shares of these that a training needs for its not failing to count against a claim that it fails."""
ALPHAS = {"0.1": "alpha_0.1", "0.2": BASE, "0.3": "alpha_0.3", "0.4": "alpha_0.4"}


def variant(name: str) -> Where:
    return {"suite": "ablation", "variant": name}


def trains_without_warmup(evidence: Evidence) -> Finding:
    """Accuracy without warm-up minus accuracy with warm-up is >= 0."""
    name = "no warm-up - warm-up"
    return finding({name: _against(evidence, name, BASE, "warmup", Above(0.0, strict=False))})


def layernorm_fails(evidence: Evidence) -> Finding:
    """Every training with LayerNorm diverges or does not converge, and accuracy without norm minus accuracy with CenterNorm is < 0."""
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
    """Alpha = 0.2 is the most accurate of all, and every training with 0.4 diverges or does not converge."""
    parts: dict[str, Comparison | None] = {}
    beside = [
        classified.summary(evidence, f"alpha = {alpha}", variant(name))
        for alpha, name in ALPHAS.items()
        if classified.trainings(evidence, variant(name))
    ]
    for alpha, name in ALPHAS.items():
        if name != BASE:
            words = f"alpha = 0.2 - {alpha}"
            parts[words] = _against(evidence, words, BASE, name, Above(0.0), () if parts else beside)
    words = "alpha = 0.4: share of trainings that diverge or do not converge"
    parts[words] = _all_end(evidence, words, ALPHAS["0.4"], ("diverged", "not_converged"))
    return finding(parts)


def power(comparison: Comparison, evidence: Evidence) -> list[str]:
    """Reasons: too few seeds, a seed without a training above chance, or, for a claim of failure, too small a training.

    If a narrow network does not fail within a few steps, this says nothing about the network of full width trained for all
    steps. The share of failing trainings therefore needs at least :data:`LEAST_WIDTH` of the published channels,
    :data:`LEAST_DEPTH` of the blocks and :data:`LEAST_STEPS` of the steps.
    """
    names = dict.fromkeys([BASE, *(name for name, _, _ in comparison.keys)])
    reasons = classified.lacks(comparison, evidence, {name: variant(name) for name in names})
    return reasons if comparison.difference else [*reasons, *_small(evidence, list(names))]


def _small(evidence: Evidence, names: Sequence[str]) -> list[str]:
    """Which of width, depth and steps are below their required share; a diverged training counts with the steps of the base."""
    runs = [run for name in names for run in classified.trainings(evidence, variant(name))]
    networks = [run.settings.get("network", {}) for run in runs]
    found = {
        "channels": (
            min((float(one.get("embed_dim", 0)) for one in networks), default=0.0),
            WIDTH,
            LEAST_WIDTH,
        ),
        "blocks": (
            min((float(sum(one.get("depths", ()))) for one in networks), default=0.0),
            DEPTH,
            LEAST_DEPTH,
        ),
        "steps": (
            max((run.metrics.get("steps_count") or 0.0 for run in runs), default=0.0),
            STEPS,
            LEAST_STEPS,
        ),
    }
    return [
        f"{value:,.0f} {name}, needs {share:.0%} of the published {published:,}"
        for name, (value, published, share) in found.items()
        if value < share * published
    ]


def _against(
    evidence: Evidence, words: str, left: str, right: str, claimed: Side, notes: Sequence[str] = ()
) -> Comparison | None:
    """Difference of accuracies, paired by seed: of the averaged weights if all trainings keep them, as in the tables."""
    runs = [run for name in (left, right) for run in classified.trainings(evidence, variant(name))]
    averaged = all("ema_acc_frac" in run.metrics for run in runs if not run.diverged)
    metric = "train_vision.ema_acc_frac" if averaged else "train_vision.acc_frac"
    one, other = (
        sample(evidence, metric, variant(name), network=name, lost="accbest_frac") for name in (left, right)
    )
    notes = notes or [classified.summary(evidence, name, variant(name)) for name in (left, right)]
    return difference(words, one, other, claimed, role=classified.STEP, notes=notes)


def _all_end(evidence: Evidence, words: str, name: str, ends: Sequence[str]) -> Comparison | None:
    return classified.all_end(words, evidence, name, variant(name), lambda outcome: outcome in ends)
