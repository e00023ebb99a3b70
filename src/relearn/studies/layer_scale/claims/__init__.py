"""Predicates of touvron2021 on trainings of deep vision Transformers, by the ids of claims.yaml.

The notes give LayerScale an initial value of 1e-4 without stating the depth. The paper behind them makes it depend on the depth:
0.1 up to 18 blocks, 1e-5 at 24 and 1e-6 beyond. The latter values decide, so that no initial value is chosen by its result; results
for other initial values are reported in addition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from relearn.models.layer_scale_start import layer_scale_start
from relearn.report import classified
from relearn.report.artefacts import Where
from relearn.report.comparisons import Comparison, Finding, finding
from relearn.report.quantities import Evidence
from relearn.report.seeds import difference, ratio
from relearn.report.verdicts import Above, Below

DEEP = (24, 36)  # blocks
MIN_RATES = 2
LAYER_SCALE = "layer_scale_"
XAVIER = "xavier_layer_scale"
ALSO = ("pre_norm", "rezero_deit", XAVIER)
"""Shown in addition: the network without a scheme, and ReZero and LayerScale each with the other's initialisation."""
GIVEN = "given_rate"
"""Suite of the trainings at a learning rate that is given instead of chosen."""
RIVALS = ("rezero", "skip_init", "fixup", "fixup_norm", "t_fixup", "t_fixup_norm")


def start(depth: int) -> str:
    """Return the variant of LayerScale that decides at this depth, named by its initial value."""
    return f"{LAYER_SCALE}{layer_scale_start(depth):.0e}".replace("e-0", "e-")


def place(variant: str, depth: int, suite: str = "residual", **labels: str) -> tuple[str, Where]:
    """The name of the variant in a comparison, and the filter for its trainings, which may have further labels."""
    where = {"suite": suite, "variant": variant, "depth": str(depth), **labels}
    return f"{suite}/{variant}/{depth}", where


def depths(evidence: Evidence, suite: str = "residual", variant: str = "*") -> list[int]:
    """The depths at which this variant was trained, in ascending order."""
    runs = classified.trainings(evidence, {"suite": suite, "variant": variant})
    return sorted({int(run.labels["depth"]) for run in runs})


def deeper_is_trainable(evidence: Evidence) -> Finding:
    """At 24 and at 36 blocks LayerScale is more accurate than each rival.

    All seeds count: a training that diverged has its best accuracy before. Pre-norm and the pairs of LayerScale and ReZero that have the
    same initialisation are shown in addition.
    """
    parts: dict[str, Comparison | None] = {}
    for depth in DEEP:
        for rival in RIVALS:
            parts[f"{depth} blocks: {start(depth)} - {rival}"] = _trains_better(
                evidence, depth, start(depth), rival
            )
    fixed = [(XAVIER, "rezero"), (XAVIER, "skip_init")]
    pairs = [
        (depth, *pair) for depth in DEEP for pair in [*((start(depth), other) for other in ALSO), *fixed]
    ]
    beside = [_trains_better(evidence, *pair) for pair in pairs]
    return finding(parts, [part and replace(part, decides=False) for part in beside])


def _trains_better(evidence: Evidence, depth: int, scheme: str, rival: str) -> Comparison | None:
    name = f"{depth} blocks: {scheme} - {rival}"
    (ours, mine), (theirs, other) = place(scheme, depth), place(rival, depth)
    first, second = classified.accuracy(evidence, ours, mine), classified.accuracy(evidence, theirs, other)
    seeds = first.values.keys() & second.values.keys()
    notes = _variant_lines(evidence, depth, (scheme, rival), seeds)
    return difference(name, first, second, Above(0.0), role=classified.STEP, notes=notes)


def small_not_zero(evidence: Evidence) -> Finding:
    """ReZero from a small value is more accurate than from 0, at every depth at which both were run.

    Trainings of both at one given learning rate are reported in addition.
    """
    parts: dict[str, Comparison | None] = {}
    for depth in depths(evidence, variant="rezero"):
        name = f"{depth} blocks: rezero_epsilon - rezero"
        parts[name] = _difference(evidence, name, "rezero_epsilon", "rezero", depth)
    beside = []
    for depth, rate in _given_rates(evidence, "rezero"):
        name = f"{depth} blocks, both at {rate}: rezero_epsilon - rezero"
        part = _difference(evidence, name, "rezero_epsilon", "rezero", depth, GIVEN, rate=rate)
        beside.append(part and replace(part, decides=False))
    return finding(parts or {"a start at 0": None}, beside)


def _given_rates(evidence: Evidence, variant: str) -> list[tuple[int, str]]:
    """The depths and given learning rates at which this variant was trained, in ascending order."""
    runs = classified.trainings(evidence, {"suite": GIVEN, "variant": variant})
    found = {(int(run.labels["depth"]), run.labels["rate"]) for run in runs}
    return sorted(found, key=lambda one: (one[0], float(one[1])))


def _place_at(evidence: Evidence, variant: str, depth: int, rate: str) -> tuple[str, Where]:
    """Trainings at this given rate, or those for which the search has chosen it; the two kinds see the images in different orders."""
    given, chosen = place(variant, depth, GIVEN, rate=rate), place(variant, depth)
    rates = {run.metrics.get("lr") for run in classified.trainings(evidence, chosen[1])}
    return chosen if rates == {float(rate)} and not classified.trainings(evidence, given[1]) else given


def uniform_branch_ratio(evidence: Evidence) -> Finding:
    """The coefficient of variation over layers of the branch-to-trunk ratio, LayerScale / pre-norm, is < 1 after training.

    It is judged at every depth at which pre-norm was run. Other initial values of LayerScale, and the ratio before training, are reported
    in addition, and so is pre-norm at a given learning rate.
    """
    parts: dict[str, Comparison | None] = {}
    beside: list[Comparison | None] = []
    for depth in depths(evidence, variant="pre_norm"):
        starts = {run.labels["variant"] for run in classified.trainings(evidence, {"suite": "residual"})}
        for variant in sorted({start(depth), *(one for one in starts if one.startswith(LAYER_SCALE))}):
            for metric, words in (("branch_cv_ratio", "after"), ("branch_cv_start_ratio", "before")):
                decides = (variant, words) == (start(depth), "after")
                name = f"{depth} blocks: variation {words} training, {variant} / pre_norm"
                ours, theirs = (
                    classified.metric_of(evidence, metric, *place(one, depth))
                    for one in (variant, "pre_norm")
                )
                part = ratio(name, ours, theirs, Below(1.0), decides=decides)
                if decides:
                    parts[name] = part
                else:
                    beside.append(part)
    for depth, rate in _given_rates(evidence, "pre_norm"):
        variant = start(depth)
        name = f"{depth} blocks, both at {rate}: variation after training, {variant} / pre_norm"
        ours, theirs = (
            classified.metric_of(evidence, "branch_cv_ratio", *_place_at(evidence, one, depth, rate))
            for one in (variant, "pre_norm")
        )
        beside.append(ratio(name, ours, theirs, Below(1.0), decides=False))
    return finding(parts or {"pre-norm": None}, beside)


def class_attention_helps(evidence: Evidence) -> Finding:
    """Accuracy with class attention minus accuracy with a class token from the start is > 0, at every depth at which either was run.

    Reported in addition: smaller patches, four times the epochs, and class attention whose LayerScale starts at a larger value.
    """
    suite = "class_token"
    parts: dict[str, Comparison | None] = {}
    beside: list[Comparison | None] = []
    for control, words in (
        ("", ""),
        ("_patch4", ", patches of 4 pixels"),
        ("_longer", ", four times the epochs"),
        ("_1e-1", ", LayerScale from 0.1 in class attention"),
        ("_1e-1_longer", ", LayerScale from 0.1 in class attention, four times the epochs"),
    ):
        ours, theirs = f"class_attention{control}", f"from_start{control.replace('_1e-1', '')}"
        for depth in sorted({*depths(evidence, suite, ours), *depths(evidence, suite, theirs)}):
            name = f"{depth} blocks: class attention - class token from the start{words}"
            part = _difference(evidence, name, ours, theirs, depth, suite)
            if control:
                beside.append(part and replace(part, decides=False))
            else:
                parts[name] = part
    return finding(parts or {"class tokens": None}, beside)


PREDICATES: dict[str, Callable[[Evidence], Finding]] = {
    "deeper_is_trainable": deeper_is_trainable,
    "small_not_zero": small_not_zero,
    "uniform_branch_ratio": uniform_branch_ratio,
    "class_attention_helps": class_attention_helps,
}


def power(comparison: Comparison, evidence: Evidence) -> list[str]:
    """Reasons: too few seeds, a seed without a compared training above chance, or a single learning rate for all schemes.

    The best learning rates of the schemes differ by factors, and the ranking depends on them. Each scheme therefore needs its own, chosen
    on held-out training images.
    """
    variants = {}
    for key, _, _ in comparison.keys:
        for name in key.split():
            suite, variant, depth = name.split("/")
            variants[f"{variant} of {depth} blocks"] = place(variant, int(depth), suite)[1]
    runs = [run for where in variants.values() for run in classified.trainings(evidence, where)]
    rates = min((run.metrics.get("rates_count") or 1 for run in runs), default=1)
    reasons = [] if rates >= MIN_RATES else [f"learning rate chosen of {rates:g}, needs {MIN_RATES} a scheme"]
    return [*classified.lacks(comparison, evidence, variants), *reasons]


def _difference(
    evidence: Evidence, name: str, left: str, right: str, depth: int, suite: str = "residual", **labels: str
) -> Comparison | None:
    one, other = (
        classified.accuracy(evidence, *place(variant, depth, suite, **labels)) for variant in (left, right)
    )
    seeds = one.values.keys() & other.values.keys()
    notes = _variant_lines(evidence, depth, (left, right), seeds, suite, **labels)
    return difference(name, one, other, Above(0.0), role=classified.STEP, notes=notes)


def _variant_lines(
    evidence: Evidence,
    depth: int,
    variants: Sequence[str],
    seeds: Collection[int],
    suite: str = "residual",
    **labels: str,
) -> Sequence[str]:
    """One line per variant, of the compared seeds, and one for the other initial values of LayerScale if LayerScale is a variant."""
    lines = [
        classified.summary(evidence, one, place(one, depth, suite, **labels)[1], seeds) for one in variants
    ]
    if any(one.startswith(LAYER_SCALE) for one in variants):
        runs = classified.trainings(evidence, place(f"{LAYER_SCALE}*", depth, suite)[1])
        starts = sorted({run.labels["variant"] for run in runs} - set(variants))
        others = [classified.summary(evidence, one, place(one, depth, suite)[1], seeds) for one in starts]
        lines += [f"other starts: {', '.join(others)}"] if others else []
    return lines
