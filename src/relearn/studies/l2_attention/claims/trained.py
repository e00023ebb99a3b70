"""The predicates of kim2020 on trained language models: NLL (negative log-likelihood) in nats per character.

If a model was trained with several recipes, the one with the lowest validation NLL counts, because the paper tunes
them. As in the paper, the best test NLL during training is compared. The test NLL at the step with the best validation NLL,
which is not selected on the test set, is shown in addition.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from relearn.report.classified import ALWAYS
from relearn.report.comparisons import Comparison, Finding
from relearn.report.quantities import Evidence
from relearn.report.runs import Run, folders, select
from relearn.report.seeds import Sample, difference, level, sample
from relearn.report.verdicts import Above, Below, Side
from relearn.report.views.names import plural
from relearn.studies.l2_attention.claims import recipes

BEST, HONEST = "train_char_lm.test_nll_best_nats", "train_char_lm.test_nll_nats"
WORDS = {BEST: "best test NLL", HONEST: "test NLL at the best validation step"}
CONTROL = "dp_l2_start"
NAMES = {
    "dp": "DP",
    CONTROL: "DP with L2's initialisation",
    "l2": "L2",
    "l2_tied": "tied L2",
    "contractive": "contractive L2",
}
WARMUP, FIXED = "warmup_*", "fixed_*"
SHALLOW = 5  # largest number of layers at which table 2 compares DP and L2
TENTH, DEEPEST = (
    10,
    18,
)  # numbers of layers: the deepest DP model that trains at a fixed rate, and the deepest model of table 3
MARGIN = 0.02  # nats


def bigram(evidence: Evidence) -> float | None:
    """The bigram NLL of the text; the lowest if there are several texts."""
    runs = select(evidence.runs, {"step": "prepare_ptb_lines"})
    known = [value for run in runs if (value := run.metrics.get("bigram_nats")) is not None]
    return min(known, default=None)


def language_runs(evidence: Evidence, attention: str, recipe: str) -> dict[int, list[Run]]:
    """The training runs of an attention and recipe by number of layers, in ascending order."""
    found: dict[int, list[Run]] = defaultdict(list)
    for run in select(evidence.runs, {"step": "train_char_lm", "attention": attention, "recipe": recipe}):
        found[int(run.labels["layers"])].append(run)
    return dict(sorted(found.items()))


def sample_of(
    evidence: Evidence, attention: str, layers: int, recipe: str, metric: str = BEST
) -> tuple[str, Sample]:
    """The recipe that counts and a metric of its runs by seed; an empty sample if there are no runs."""
    name, runs = recipes.best(language_runs(evidence, attention, recipe).get(layers, []))
    if not runs:
        return "", Sample(attention, {}, ())
    where = {"attention": attention, "layers": str(layers), "recipe": name or recipe}
    return name, sample(evidence, metric, where, network=attention)


def expressive(evidence: Evidence) -> Finding:
    """With warm-up: L2 - DP < 0.02, tied L2 - L2 > 0, and contractive L2 (deepest) - contractive L2 (5 layers) < 0.

    "L2 matches DP" is read as "less than 0.02 nats worse": an NLL below DP's does not contradict it. The first two comparisons
    use each attention's best depth up to 5 layers, again by validation NLL, because at equal depth the paper's own
    numbers differ by more than 0.02 (at one layer). "Deepest" is the deepest model that was run.
    """
    depth = {name: _best_depth(evidence, name) for name in ("dp", "l2", "l2_tied")}
    deepest = max((n for n in language_runs(evidence, "contractive", WARMUP) if n > SHALLOW), default=0)
    compared: list[tuple[str, int, str, int, Side]] = [
        ("l2", depth["l2"], "dp", depth["dp"], Below(MARGIN)),
        ("l2_tied", depth["l2_tied"], "l2", depth["l2"], Above(0.0)),
        ("contractive", deepest, "contractive", SHALLOW, Below(0.0)),
    ]
    parts: list[Comparison] = []
    missing = []
    for metric in (BEST, HONEST):
        for left, m, right, n, claimed in compared:
            (first, ours), (second, theirs) = (
                sample_of(evidence, kind, k, WARMUP, metric) for kind, k in ((left, m), (right, n))
            )
            name = (
                f"{NAMES[left]} - {NAMES[right]}"
                if left != right
                else f"{NAMES[left]}: deepest - {SHALLOW} layers"
            )
            notes = [
                f"{NAMES[kind]} of {plural(layers, 'layer')}, recipe {recipe or 'unnamed'}"
                for kind, layers, recipe in ((left, m, first), (right, n, second))
            ]
            if left != right and metric == BEST:
                notes += _by_depth(evidence, left, right)
            part = difference(
                *(f"{name}, {WORDS[metric]}", ours, theirs, claimed),
                unit="nats",
                role="language",
                decides=metric == BEST,
                notes=notes,
            )
            if part:
                parts.append(part)
            elif metric == BEST:
                missing.append(f"no runs for {name}")
    return Finding(parts, missing)


def _best_depth(evidence: Evidence, attention: str) -> int:
    """The depth with the lowest validation NLL, up to 5 layers; 0 if nothing was run."""
    means = {
        layers: min(recipes.validation(runs).values(), default=None)
        for layers, runs in language_runs(evidence, attention, WARMUP).items()
        if layers <= SHALLOW
    }
    known = {layers: mean for layers, mean in means.items() if mean is not None}
    return min(known, key=lambda layers: known[layers]) if known else 0


def _by_depth(evidence: Evidence, left: str, right: str) -> list[str]:
    differences = []
    for layers in range(1, SHALLOW + 1):
        ours, theirs = (sample_of(evidence, kind, layers, WARMUP)[1] for kind in (left, right))
        part = difference("", ours, theirs, Above(0.0))
        differences += [f"{layers}: {part.interval.estimate:+.3f}"] if part else []
    return [f"by number of layers: {', '.join(differences)}"] if differences else []


def deeper_without_warmup(evidence: Evidence) -> Finding:
    """At a fixed rate, every DP model deeper than 10 layers fails, and every tied and contractive L2 model of 18 layers trains.

    A DP model fails if none of its recipes ends with outcome ok (validation NLL at least 0.05 nats below the unigram NLL) and
    a test NLL below that of the 10-layer DP model of the same seed. An L2 model trains if one of its recipes ends with outcome
    ok and a test NLL below the bigram NLL; above it, its attention need not do anything. Both are measured as shares over seeds,
    and "every" allows one exception in twenty. The claim is a contrast, so it needs both: no colon sets the kinds of attention apart.

    Shown in addition: the same for DP models whose maps are initialised in L2's range, and the change of the NLL from 10 to 18
    layers.
    """
    parts: list[Comparison | None] = [_all_fail(evidence, "dp", "DP deeper than 10 layers")]
    control = _all_fail(evidence, CONTROL, "DP with L2's initialisation, deeper than 10 layers")
    missing = [] if parts[0] else ["no runs for DP at 10 layers and deeper"]
    for attention in ("l2_tied", "contractive"):
        name = f"{NAMES[attention]} of {DEEPEST} layers, share of trainings below the bigram NLL"
        own = _ended(evidence, attention)
        part = level(name, own, ALWAYS, role="language", notes=_outcomes(evidence, attention))
        parts.append(part)
        missing += [] if part else [f"no runs for {NAMES[attention]} of {DEEPEST} layers"]
    parts += [replace(control, decides=False)] if control else []
    for attention in ("dp", CONTROL, "l2_tied", "contractive"):
        deep, tenth = (sample_of(evidence, attention, layers, FIXED)[1] for layers in (DEEPEST, TENTH))
        name = f"{NAMES[attention]}: {DEEPEST} layers - {TENTH} layers, {WORDS[BEST]}"
        claimed: Side = Above(0.0, strict=False) if attention in ("dp", CONTROL) else Below(0.0)
        parts.append(difference(name, deep, tenth, claimed, unit="nats", role="language", decides=False))
    return Finding([part for part in parts if part], missing)


def _all_fail(evidence: Evidence, attention: str, models: str) -> Comparison | None:
    """The comparison "every training of these models fails"; a share is counted over the depths above 10."""
    depths = sum(layers > TENTH for layers in language_runs(evidence, attention, FIXED))
    name, failed = f"{models}, share of trainings that fail", _failures(evidence, attention)
    notes = _outcomes(evidence, attention)
    return level(name, failed, ALWAYS, role="language", notes=notes, units=float(depths or 1))


def _failures(evidence: Evidence, attention: str) -> Sample:
    """The share of depths above 10 at which this kind of DP fails, by seed; the reference is always plain DP with 10 layers."""
    runs = language_runs(evidence, attention, FIXED)
    _, tenth = sample_of(evidence, "dp", TENTH, FIXED)
    shares, used = {}, list(tenth.runs)
    for seed, floor in tenth.values.items():
        failed = []
        for layers, deeper in runs.items():
            own = [run for run in deeper if run.seed == seed]
            if layers > TENTH and own:
                failed.append(not any(_below(run, floor) for run in own))
                used += [run.folder for run in own]
        if failed:
            shares[seed] = sum(failed) / len(failed)
    return Sample(attention, shares, tuple(used))


def _below(run: Run, floor: float) -> bool:
    value = run.metrics.get(BEST.partition(".")[2])
    return run.record["outcome"] == "ok" and value is not None and value < floor


def _ended(evidence: Evidence, attention: str) -> Sample:
    """For each seed, 1 if some recipe at 18 layers ended with outcome ok and an NLL below the bigram NLL, otherwise 0."""
    runs = language_runs(evidence, attention, FIXED).get(DEEPEST, [])
    floor = bigram(evidence)
    limit = math.inf if floor is None else floor  # without a bigram NLL the claim is underpowered anyway
    ended = {
        seed: float(any(_below(run, limit) for run in runs if run.seed == seed))
        for seed in sorted({run.seed for run in runs})
    }
    return Sample(attention, ended, folders(runs))


def _outcomes(evidence: Evidence, attention: str) -> Sequence[str]:
    """One line per depth: the number of runs, how many diverged or stayed at the unigram NLL, and the best test NLL."""
    lines = []
    for layers, runs in language_runs(evidence, attention, FIXED).items():
        lost = sum(run.diverged for run in runs)
        idle = sum(run.outcome == "not_converged" for run in runs)
        stayed = f", {idle} no better than the unigrams" if idle else ""
        values = [value for run in runs if (value := run.metrics.get(BEST.partition(".")[2])) is not None]
        best = f", best test NLL {min(values):.3f}" if values else ""
        lines.append(f"{layers} layers: {lost} of {len(runs)} diverged{stayed}{best}")
    return lines
