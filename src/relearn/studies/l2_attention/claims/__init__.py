"""Predicates of kim2020 by the ids of claims.yaml, and the conditions under which a comparison is underpowered.

A comparison needs at least 3 seeds. For each attention, some depth and recipe must reach a test NLL below that of the
bigram model of the training text (``bigram_nats`` of `prepare_ptb_lines`). A network can learn the bigrams even if its
attention does nothing, so a network that is no better than the bigram model says nothing about its attention. Where the test NLL
with the attention switched off is measured, the best networks must also need their attention: it must be 0.01 nats higher.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from relearn.report.comparisons import Comparison, Finding
from relearn.report.quantities import Evidence
from relearn.report.runs import Run, select
from relearn.report.verdicts import too_few
from relearn.studies.l2_attention.claims import exact, trained

MIN_SEEDS = 3
USED = 0.01  # nats
METRIC, WITHOUT = trained.BEST.partition(".")[2], "test_nll_without_attention_nats"

PREDICATES: dict[str, Callable[[Evidence], Finding]] = {
    "dp_not_lipschitz": exact.dp_not_lipschitz,
    "l2_bound_holds": exact.l2_bound_holds,
    "bound_is_tight": exact.bound_is_tight,
    "invertible": exact.invertible,
    "untied_not_lipschitz": exact.untied_not_lipschitz,
    "expressive": trained.expressive,
    "deeper_without_warmup": trained.deeper_without_warmup,
    "same_cost": exact.same_cost,
}


def power(comparison: Comparison, evidence: Evidence) -> list[str]:
    """The reasons why a comparison is underpowered: too few seeds, or an attention that no network of its kind makes use of."""
    reasons = too_few(len(comparison.seeds), "seed", MIN_SEEDS)
    floor = trained.bigram(evidence)
    if floor is None:
        return [*reasons, "bigram NLL not measured"]
    for attention in dict.fromkeys(name for name, _, _ in comparison.keys):
        best, without = _best(evidence, attention)
        if best is None or best >= floor:
            found = "not measured" if best is None else f"{best:.3f} nats"
            reasons.append(f"{attention} at {found}, needs less than {floor:.3f}, the bigram NLL")
        elif without is not None and without < best + USED:
            reasons.append(
                f"{attention} at {best:.3f} nats, and at {without:.3f} with its attention switched off, so it makes no use of it"
            )
    return reasons


def _best(evidence: Evidence, attention: str) -> tuple[float | None, float | None]:
    """The lowest mean NLL over seeds among all depths and recipes of this attention, and that of these networks without attention."""
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in select(evidence.runs, {"step": "train_char_lm", "attention": attention}):
        if run.metrics.get(METRIC) is not None and run.labels["recipe"] not in ("tuning", "shown"):
            groups[run.labels["layers"], run.labels["recipe"]].append(run)
    found = [(_mean(runs, METRIC), _mean(runs, WITHOUT)) for runs in groups.values()]
    return min(found, key=lambda one: one[0] or 0.0, default=(None, None))


def _mean(runs: Sequence[Run], metric: str) -> float | None:
    """The mean over the runs; None if one of them has not measured it."""
    values = [run.metrics.get(metric) for run in runs]
    known = [float(value) for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None
