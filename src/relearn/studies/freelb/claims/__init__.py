"""The predicates of zhu2022, chapter 3, by the ids of claims.yaml.

A score is the task's main metric, measured with the best weights during training. The encoder is RoBERTa. As in the paper, the score
is measured on the dev set; if runs have held-out training samples, it is measured on these instead, because the dev set was then used to
choose learning rate and radius. Runs with the same seed share batches, head initialisation and dropout masks, so the bootstrap resamples
seeds, not runs.

A task counts if most of its vanilla runs and most runs of at least one baseline are better than the majority answer (outcome ok): a lead
over networks that have not learned means nothing. A task that does not count is shown with the claim but does not enter its verdict. If
no task counts, the claim is underpowered. A comparison of loss increases counts only if FreeLB's and PGD's networks have learned,
because the loss of a constant network does not increase.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

from relearn.report import classified
from relearn.report.cases import NOISE, shown
from relearn.report.comparisons import Comparison, Exact, Finding, finding
from relearn.report.quantities import Evidence
from relearn.report.runs import folders, having, select
from relearn.report.seeds import Sample, sample
from relearn.report.verdicts import Above, Below, too_few
from relearn.studies.freelb.claims import medians
from relearn.studies.freelb.claims.scores import (
    AGAIN,
    ENCODER,
    FRESH,
    NATS,
    OURS,
    STEP,
    VANILLA,
    counts,
    failed,
    left_out,
    not_run,
    ordered,
    score,
    summary,
    tasks_with,
    titled,
)

WIDE, FRESH_WIDE = "freelb_wide", "freelb_fresh_wide"  # larger radius
FRESH_AS_OURS = "freelb_fresh_as_freelb"  # fresh masks at the rate and radius that FreeLB chose
RIVALS = ("pgd", "free_at")
FREE_AT_LESS_OFTEN = "free_at_as_often_as_freelb"
UPDATES = (
    (OURS, FREE_AT_LESS_OFTEN),
    ("free_at", FREE_AT_LESS_OFTEN),
    ("vanilla_as_often_as_free_at", VANILLA),
)
"""Comparisons that show what the number of updates does."""
YOPO = ("yopo_2", "yopo_3", "yopo_2_whole", "yopo_3_whole")  # tables 3.4 and 3.6
COMPARED = ("pgd", VANILLA)
CONTROLS = {
    "pgd": (OURS, "pgd"),
    "pgd_as_freelb": (OURS, "pgd_as_freelb"),
    "freelb_as_pgd": ("freelb_as_pgd", "pgd"),
}
"""By the label ``rival`` of the increases on the second encoder: their networks of FreeLB and of PGD, each at its own rate and radius, or
one of them at those of the other."""
REFERENCES = ("freelb", "pgd")
AT_LEAST = Above(0.0, strict=False)
EQUAL = 1e-9  # tolerance for gradients in double precision, relative to the largest entry
TABLE_3_1 = ("mnli", "qnli", "qqp", "rte", "sst2", "mrpc", "cola", "stsb")
TABLES_3_4_AND_3_5 = ("rte", "cola", "mrpc")
RTE = "rte: FreeLB's printed 88.13 was not reproduced: five seeds of the released script gave 85.7 on average (80.6 to 88.8)"


def freelb_beats_pgd(evidence: Evidence) -> Finding:
    """On most tasks that count, FreeLB's median score over seeds minus that of the better rival is at least 0, as table 3.1 has medians.

    The better one of PGD and FreeAT is the one with the better median on the task. It is chosen at the seeds that decide, so a
    contradiction is corrected for two comparisons. FreeAT updates the network after every pass, the others
    once a minibatch; two controls, which do not decide, show what the number of updates does (:data:`UPDATES`). Runs on a second
    encoder, where these controls choose rate and radius themselves, do not decide either.
    """
    pairs: dict[str, tuple[Sample, Sample]] = {}
    missing: list[str] = []
    among = 1
    for task in tasks_with(evidence, OURS):
        rivals = {name: score(evidence, task, name) for name in RIVALS}
        there = [one for one in rivals.values() if one.values]
        if there:
            missing += [f"no runs for {name} on {task}" for name, one in rivals.items() if not one.values]
            better = medians.best(f"{ENCODER}/{task}/{'+'.join(RIVALS)}", there)
            ours = score(evidence, task, OURS)
            if ours.values.keys() & better.values.keys():
                pairs[task], among = (ours, better), max(among, len(there))
            else:
                missing.append(f"no seed with all of {OURS}, {', '.join(RIVALS)} on {task}")
    judged = [task for task in pairs if counts(evidence, task, RIVALS)] or list(pairs)
    lead = f"{OURS} - the better of {' and '.join(RIVALS)}"
    name = f"{lead}, on most of {len(judged)} tasks: {', '.join(judged)}"
    alone = ""  # of a single task the comparison that decides is its own
    if len(judged) == 1:
        (alone,) = judged
        name = f"{alone}: {lead}"
    notes = [summary(evidence, alone, method) for method in (VANILLA, OURS, *RIVALS)] if alone else []
    notes += [RTE] * ("rte" in judged)
    main = medians.most(
        name, {task: pairs[task] for task in judged}, AT_LEAST, role=STEP, notes=notes, among=among
    )
    beside = [
        medians.most(
            f"{task}: {lead}",
            {task: pair},
            AT_LEAST,
            role=STEP,
            decides=False,
            notes=[summary(evidence, task, method) for method in (VANILLA, OURS, *RIVALS)],
            among=among,
        )
        for task, pair in pairs.items()
        if task != alone
    ]
    repeated = [task for task in pairs if score(evidence, task + AGAIN, OURS).values]
    for task in repeated:
        again = [one for name in RIVALS if (one := score(evidence, task + AGAIN, name)).values]
        if not again:
            continue
        both = {task: (score(evidence, task + AGAIN, OURS), medians.best(task + AGAIN, again))}
        notes = [summary(evidence, task + AGAIN, method) for method in (VANILLA, OURS, *RIVALS)]
        name = f"{titled(task + AGAIN)}: {lead}"
        beside.append(medians.most(name, both, AT_LEAST, role=STEP, decides=False, notes=notes, among=among))
    updates = [
        medians.difference(
            f"{titled(task)}: {left} - {right}",
            score(evidence, task, left),
            score(evidence, task, right),
            AT_LEAST,
            role=STEP,
            decides=False,
        )
        for task in (*pairs, *(task + AGAIN for task in repeated))
        for left, right in UPDATES
    ]
    found = finding({"FreeLB, PGD and FreeAT": main})
    idle = [left_out(task) for task in pairs if task not in judged]
    missing += [*idle, *not_run(evidence, TABLE_3_1, (OURS,), "3.1")]
    return Finding(
        [*found.parts, *(part for part in (*beside, *updates) if part)], [*found.missing, *missing]
    )


def mask_reuse(evidence: Evidence) -> Finding:
    """On every task that counts and has runs of both kinds, the median with shared masks exceeds the median with fresh masks.

    If a kind was run with several radii, the radius with the better median counts: the attack with a shared mask is stronger than with
    fresh masks, so at equal radii the comparison would measure the strength of the attack. The runs that decide choose it, so verdicts
    are corrected for the number of radii. The comparison at the usual radius is also shown but does not decide. Where fresh masks were
    also run at the rate and radius that FreeLB chose, shared masks must be ahead there, too: a lead that these settings, chosen for
    shared masks, do not show comes from the choice of the other side's.
    """
    sides: dict[str, tuple[str, str]] = {}
    chosen_from: dict[str, tuple[int, int]] = {}
    for task in tasks_with(evidence, FRESH):
        (ours, own), (fresh, among) = (
            _better(evidence, task, arms) for arms in ((OURS, WIDE), (FRESH, FRESH_WIDE))
        )
        sides[task], chosen_from[task] = (ours, fresh), (own, among)
    words = "FreeLB with shared and with fresh masks"
    main = _apart(evidence, sorted(set(sides.values())), Above(0.0), words, sides, chosen_from)
    control = Finding()
    if tasks_with(evidence, FRESH_AS_OURS):
        control = _apart(evidence, [(OURS, FRESH_AS_OURS)], Above(0.0), words)
    equal = _apart(evidence, [(OURS, FRESH)], Above(0.0), words)
    shown = {part.name for part in main.parts}
    beside = [replace(part, decides=False) for part in equal.parts if isinstance(part, Comparison)]
    others = (part for part in beside if part.name not in shown)
    missing = [*main.missing, *control.missing, *not_run(evidence, TABLES_3_4_AND_3_5, (OURS, FRESH), "3.4")]
    return Finding([*main.parts, *control.parts, *others], missing)


def _better(evidence: Evidence, task: str, arms: Sequence[str]) -> tuple[str, int]:
    """The method with the better median score at the seeds that both have, and the number of arms that were run; else the first."""
    ran = {arm: one for arm in arms if (one := score(evidence, task, arm)).values}
    return (list(ran)[medians.better(list(ran.values()))], len(ran)) if ran else (arms[0], 1)


def yopo_not_better(evidence: Evidence) -> Finding:
    """On every task that counts, the median of FreeLB is at least that of each YOPO variant run on it."""
    found = _apart(evidence, [(OURS, yopo) for yopo in YOPO], AT_LEAST, "FreeLB and YOPO")
    lacking = [yopo for yopo in YOPO if not tasks_with(evidence, yopo)]
    missing = [f"no runs of {', '.join(lacking)} (tables 3.4 and 3.6)"] * bool(lacking)
    return Finding(found.parts, [*found.missing, *missing])


def _apart(
    evidence: Evidence,
    sides: Sequence[tuple[str, str]],
    claimed: Above,
    words: str,
    only: Mapping[str, tuple[str, str]] | None = None,
    chosen_from: Mapping[str, tuple[int, int]] | None = None,
) -> Finding:
    """Differences of medians for each task and pair of methods; only tasks that count decide, or all tasks if none counts.

    ``only`` gives the pair of methods of each task if it differs between tasks, ``chosen_from`` the number of methods of which each is
    the best.
    """
    both = {
        (task, left, right): (score(evidence, task, left), score(evidence, task, right))
        for left, right in sides
        for task in tasks_with(evidence, right)
        if only is None or only.get(task) == (left, right)
    }
    shared = {key: pair for key, pair in both.items() if pair[0].values.keys() & pair[1].values.keys()}
    judged = {key for key in shared if counts(evidence, key[0], key[2:])} or set(shared)
    parts = {}
    for (task, left, right), (ours, theirs) in both.items():
        name = f"{task}: {left} - {right}"
        notes = [summary(evidence, task, method) for method in (VANILLA, left, right)]
        decides = (task, left, right) in judged
        notes += [left_out(task)] * (not decides)
        own, among = (chosen_from or {}).get(task, (1, 1))
        parts[name] = medians.difference(
            *(name, ours, theirs, claimed), role=STEP, decides=decides, notes=notes, among=among, own=own
        )
    alone = dict.fromkeys(task for task, *_ in shared)
    idle = [left_out(task) for task in alone if not any(task == key[0] for key in judged)]
    return finding(parts or {words: None}, missing=idle)


EQUAL_LOSS = ", at equal loss"


def smallest_max_increase(evidence: Evidence) -> Finding:
    """FreeLB's maximal loss increase (median over samples, then over seeds) is smaller than those of PGD and of vanilla training.

    This must hold on every task that counts and with the radii of both references, because a radius favours its own reference. A sample
    with a smaller loss has less to increase, so comparisons at equal loss are shown where they were run; the paper makes none.
    """
    where = {"step": "max_loss_increase", "encoder": ENCODER}
    tasks = ordered({run.labels["task"] for run in select(evidence.runs, where) if "rival" not in run.labels})
    judged = [task for task in tasks if _learned_by_all(evidence, task)] or tasks
    parts = {}
    for task in tasks:
        for reference in REFERENCES:
            ours, *rivals = (
                sample(
                    evidence,
                    f"max_loss_increase.increase_{model}_{reference}_nats",
                    {**where, "task": task},
                    network=f"{ENCODER}/{task}/{model}",
                )
                for model in (OURS, *COMPARED)
            )
            for rival, theirs in zip(COMPARED, rivals):
                name = f"{task}, radii of {reference}: {OURS} - {rival}"
                notes = [
                    f"{one.network.split('/')[2]}: median increase {median(one.values.values()):.3g} nats"
                    for one in (ours, theirs)
                    if one.values
                ]
                notes += [summary(evidence, task, model) for model in (OURS, rival)]
                notes += [left_out(task)] * (task not in judged)
                parts[name] = medians.difference(
                    name,
                    ours,
                    theirs,
                    Below(0.0),
                    unit=NATS,
                    role=STEP,
                    decides=task in judged,
                    notes=notes,
                )
    found = finding(parts or {"the maximal increase of the loss": None})
    again = [one for task in tasks for one in _increases_again(evidence, task)]
    idle = [left_out(task) for task in tasks if task not in judged]
    lacking = [task for task in TABLES_3_4_AND_3_5 if task not in tasks]
    missing = [f"no runs on {', '.join(lacking)} (table 3.5)"] * bool(lacking)
    return Finding([*found.parts, *again], [*found.missing, *idle, *missing])


def _increases_again(evidence: Evidence, task: str) -> Iterator[Comparison]:
    """FreeLB's increase minus PGD's on the second encoder: over all samples, and over those on which both have about the same loss.

    In one comparison each has its own rate and radius, in the others (:data:`CONTROLS`) both have those of one. None of them decides.
    """
    for rival, pair in CONTROLS.items():
        where = {"step": "max_loss_increase", "encoder": ENCODER, "task": task + AGAIN, "rival": rival}
        names = [f"{ENCODER}/{task}{AGAIN}/{one}" for one in pair]
        ended = [summary(evidence, task + AGAIN, one) for one in pair]
        for reference, ball in zip(REFERENCES, pair):
            name = f"{titled(task + AGAIN)}, radii of {ball}: {' - '.join(pair)}"
            ours, theirs = (
                sample(evidence, f"max_loss_increase.increase_{model}_{reference}_nats", where, network=one)
                for model, one in zip((OURS, "pgd"), names)
            )
            whole = medians.difference(
                name, ours, theirs, Below(0.0), unit=NATS, role=STEP, decides=False, notes=ended
            )
            apart = f"max_loss_increase.equal_loss_pgd_{OURS}_{reference}"
            gaps = sample(evidence, f"{apart}_nats", where, network=names[0])
            counted = sample(evidence, f"{apart}_count", where, network=names[0])
            zeros = replace(gaps, network=names[1], values=dict.fromkeys(gaps.values, 0.0))
            notes = [
                f"{sum(counted.values.values()):.0f} samples whose larger loss is at most 1.25 times the smaller"
            ]
            equal = medians.difference(
                name + EQUAL_LOSS, gaps, zeros, Below(0.0), unit=NATS, role=STEP, decides=False, notes=notes
            )
            yield from (one for one in (whole, equal) if one)


def _learned_by_all(evidence: Evidence, task: str) -> bool:
    """Whether the compared networks and the references have learned the task."""
    return counts(evidence, task) and not any(
        failed(evidence, task, one) for one in {OURS, *COMPARED, *REFERENCES}
    )


def gradient_equals_virtual_batch(evidence: Evidence) -> Finding:
    """In every case, FreeLB's gradient equals that of the K-fold virtual batch with the same perturbations and masks.

    This check needs no training.
    """
    runs = having(select(evidence.runs, {"step": "check_gradient"}), "gradients.csv")
    rows = [row for run in runs for row in run.rows("gradients.csv")]
    if not rows:
        return Finding(missing=["no run of check_gradient"])
    apart = [float(row["difference"]) for row in rows]
    notes = [f"{row['case']}, {row['passes']} passes: {shown(gap, '.1e')}" for row, gap in zip(rows, apart)]
    if all(gap < NOISE for gap in apart):  # NaN is not
        kinds = dict.fromkeys(str(row["case"]).partition(",")[0] for row in rows)
        notes = [f"every difference, relative to the largest entry, is below {NOISE:g}: {', '.join(kinds)}"]
    words = f"the accumulated gradient equals the virtual batch's within {EQUAL:g}"
    failures = sum(not gap <= EQUAL for gap in apart)  # NaN fails
    return Finding([Exact(words, len(rows), failures, True, folders(runs), tuple(notes))])


PREDICATES: dict[str, Callable[[Evidence], Finding]] = {
    "freelb_beats_pgd": freelb_beats_pgd,
    "mask_reuse": mask_reuse,
    "yopo_not_better": yopo_not_better,
    "smallest_max_increase": smallest_max_increase,
    "gradient_equals_virtual_batch": gradient_equals_virtual_batch,
}


def power(comparison: Comparison, evidence: Evidence) -> list[str]:
    """The reasons why a comparison is underpowered: fewer than 3 seeds, or no task that counts."""
    reasons = too_few(len(comparison.seeds), "seed", classified.MIN_SEEDS)
    tasks: dict[str, list[str]] = {}
    for _, task, methods in (name.split("/") for name, _, _ in comparison.keys):
        tasks.setdefault(task, []).extend(one for one in methods.split("+") if one not in (OURS, VANILLA))
    names = ", ".join(tasks)
    if not any(counts(evidence, task) for task in tasks):
        reasons.append(f"vanilla training is not above the majority answer on {names}")
    elif comparison.unit == NATS and not any(_learned_by_all(evidence, task) for task in tasks):
        reasons.append(f"FreeLB or PGD is not above the majority answer on {names}")
    elif comparison.unit != NATS and not any(counts(evidence, *one) for one in tasks.items()):
        rivals = dict.fromkeys(rival for each in tasks.values() for rival in each)
        reasons.append(f"{' and '.join(rivals)}: not above the majority answer on {names}")
    return reasons
