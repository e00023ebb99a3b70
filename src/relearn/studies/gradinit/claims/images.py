"""The predicates of zhu2022, chapter 4, on trained image networks: one comparison per network, all of which must hold.

Accuracies are fractions. A training run that diverges within its first epoch has the accuracy of a constant prediction; in ``first_steps``,
which is tested ten times within its epoch, that of its last test before.
Only the networks of the tables count (label ``suite`` = grid); but a whole first epoch at the published size decides the claim on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from relearn.report.comparisons import Comparison, Finding, finding
from relearn.report.quantities import Evidence
from relearn.report.runs import Run, select
from relearn.report.seeds import Sample, difference, mean, ratio, sample
from relearn.report.verdicts import Above, Below, Side
from relearn.studies.gradinit.claims import starts

TABLE_4_3 = ("VGG-19", "VGG-19-BN", "ResNet-110", "ResNet-110-BN")
TABLE_4_4 = (*TABLE_4_3, "ResNet-1202-BN")
TABLE_4_5 = ("WRN-28-10", "FixUpResNet-110", "DenseNet-100", "DenseNet-100-BN")
PENALTIES = ("gradinit_penalty_1e-4", "gradinit_penalty_1e-2", "gradinit_penalty_1")
CONTROLS = {
    "gradinit_tuned": "GradInit with a tau chosen on held-out images",
    "gradinit_only_bn": "GradInit of BN's parameters alone",
    "gradinit_fix_bn": "GradInit of all but BN's parameters",
}
"""Look for the cause of a loss in best_accuracy."""
EPOCH_STEPS = 391
"""Steps of an epoch of 50,000 images in batches of 128."""
MARGIN = 0.002  # 0.2 percentage points of accuracy, in constraint_not_penalty


def accuracy(evidence: Evidence, metric: str, network: str, start: str) -> Sample:
    """A metric of training runs with SGD, by seed."""
    where: Mapping[str, Any] = {"suite": "grid", "recipe": "sgd", "network": network, "initialisation": start}
    return sample(evidence, f"train_from_init.{metric}", where, network=network, lost="accbest_frac")


Kind = tuple[str, Mapping[str, Any]]  # a quantity, and the filters of its runs


def of_start(metric: str, network: str, *starts: str) -> Kind:
    """A metric of initialisations."""
    return f"initialise.{metric}", {"suite": "grid", "network": network, "initialisation": [*starts]}


def cost_ratio(
    name: str, evidence: Evidence, ours: Kind, theirs: Kind, claimed: Side, times: float = 1.0
) -> tuple[dict[str, Comparison | None], list[str]]:
    """Ratio of seconds or bytes to ``times`` the other's, paired by seed, of runs with the same processor, precision and threads.

    A side with several such runs of a seed has their mean. Seconds leave out runs that were resumed, of which only the last attempt was
    timed. The notes name what is left out. Returns the part of the claim, or what is missing and why.
    """
    late: list[str] = []
    sides = []
    for kind, where in (ours, theirs):
        found: dict[tuple[int, str], list[Run]] = defaultdict(list)
        for run in evidence.of(kind, where):
            if run.resumed and kind.endswith("initialise_s"):
                late.append(f"{run.labels['initialisation']} seed {run.seed}")
            else:
                found[run.seed, run.machine].append(run)
        sides.append(found)
    pairs = sides[0].keys() & sides[1].keys()
    seeds = {seed for seed, _ in sides[0]} & {seed for seed, _ in sides[1]}
    notes = [f"seconds without {', '.join(late)}: resumed, only the last attempt was timed"] if late else []
    if apart := sorted(seeds - {seed for seed, _ in pairs}):
        listed = ", ".join(map(str, apart))
        seeds_out = f"seed{'s' * (len(apart) > 1)} {listed}"
        notes.append(f"without {seeds_out}: the two sides differ in processor, precision or threads")
    left, right = (
        sample(Evidence(run for pair in pairs for run in found[pair]), kind, network=where["network"])
        for (kind, where), found in zip((ours, theirs), sides)
    )
    right = replace(right, values={seed: times * value for seed, value in right.values.items()})
    part = ratio(name, left, right, claimed, notes=notes)
    if part or not seeds:
        return {name: part}, []
    return {}, [f"{name}: {'; '.join(notes) or 'every pair has a number that is not above 0'}"]


def first_epoch_accuracy(evidence: Evidence) -> Finding:
    """Acc1(GradInit) - Acc1(Kaiming) > 0 on each network of table 4.4, the source of the claim.

    If ``first_steps`` trains any network for an epoch at its published size, the accuracies at its end decide; they must be above
    chance from one of the two. Otherwise the first epoch of the grid decides. Reported in addition: what does not decide, and
    VGG-19 at its published size, as its published accuracies (29.3 ± 0.6% and 29.1 ± 1.5%) do not differ.
    """
    parts: dict[str, Comparison | None] = {}
    more: list[Comparison | None] = []
    full = {network: _trains_an_epoch_at_full_size(evidence, network) for network in TABLE_4_4}
    for network in TABLE_4_4:
        at_full_size = any(full.values())
        decides = full[network] and network != "VGG-19"
        steps = _first_steps(evidence, network, "accfinal_frac", "fraction", Above(0.0), decides)
        loss = _first_steps(evidence, network, "train_loss_nats", "nats", Below(0.0), False)
        ours, theirs = (accuracy(evidence, "acc1_frac", network, s) for s in ("gradinit", "kaiming"))
        name = f"{network}: first epoch, GradInit - Kaiming"
        grid = difference(name, ours, theirs, Above(0.0), decides=not at_full_size)
        if not at_full_size:
            parts[name] = grid
        elif network != "VGG-19":
            parts[f"{network}: first epoch at the published size, GradInit - Kaiming"] = (
                steps if decides else None
            )
        more += [grid if at_full_size else None, None if decides else steps, loss]
    return finding(parts, more)


def _trains_an_epoch_at_full_size(evidence: Evidence, network: str) -> bool:
    """Whether each training of ``first_steps`` has the steps of an epoch, and each of its networks the published width and depth."""
    where = {"suite": "first_steps", "network": network}
    sizes = [run.settings["network"] for run in select(evidence.runs, {"step": "initialise"}, where)]
    steps = [
        run.settings.get("steps") or 0 for run in select(evidence.runs, {"step": "train_from_init"}, where)
    ]
    return (
        bool(sizes and steps)
        and set(steps) == {EPOCH_STEPS}
        and all(size["width"] == size["depth"] == 1 for size in sizes)
    )


def _first_steps(
    evidence: Evidence, network: str, metric: str, unit: str, claimed: Side, decides: bool
) -> Comparison | None:
    where = {"suite": "first_steps", "network": network}
    lost = "accbest_frac" if metric == "accfinal_frac" else None
    ours, theirs = (
        sample(
            evidence,
            f"train_from_init.{metric}",
            {**where, "initialisation": start},
            network=network,
            lost=lost,
        )
        for start in ("gradinit", "kaiming")
    )
    words = "accuracy" if unit == "fraction" else "training loss"
    when = "first epoch at the published size" if decides else f"{words} after the first steps"
    name = f"{network}: {when}, GradInit - Kaiming"
    role = "first_epoch" if decides else ""
    return difference(name, ours, theirs, claimed, unit=unit, role=role, decides=decides)


def best_accuracy(evidence: Evidence) -> Finding:
    """Accbest(GradInit) - Accbest(Kaiming) >= 0 on each network of tables 4.4 and 4.5.

    Reported in addition: the same for GradInit with a tuned tau, and of a part of the scales, where these were trained, with the
    conditions on GradInit that they do not meet.
    """
    parts, more = {}, []
    for network in TABLE_4_4 + TABLE_4_5:
        ours, theirs = (accuracy(evidence, "accbest_frac", network, s) for s in ("gradinit", "kaiming"))
        name = f"{network}: best, GradInit - Kaiming"
        parts[name] = difference(name, ours, theirs, Above(0.0, strict=False))
        for start, words in CONTROLS.items():
            control = accuracy(evidence, "accbest_frac", network, start)
            for rival, other in (("Kaiming", theirs), ("GradInit", ours)):
                name = f"{network}: best, {words} - {rival}"
                if part := difference(name, control, other, Above(0.0, strict=False), decides=False):
                    notes = (*part.notes, *starts.lacking(evidence, part.runs))
                    more.append(replace(part, notes=notes))
    return finding(parts, more)


def beats_metainit(evidence: Evidence) -> Finding:
    """Accbest(GradInit) - Accbest(MetaInit) >= 0 on each network, and GradInit's initialisation takes less CPU or device time and has
    a lower peak memory.

    WRN-28-10 is left out: the paper does not run MetaInit on it but quotes another paper's best accuracy.
    """
    parts: dict[str, Comparison | None] = {}
    missing: list[str] = []
    for network in (*TABLE_4_4, *TABLE_4_5[1:]):
        ours, theirs = (accuracy(evidence, "accbest_frac", network, s) for s in ("gradinit", "metainit"))
        name = f"{network}: best, GradInit - MetaInit"
        parts[name] = difference(name, ours, theirs, Above(0.0, strict=False))
        for metric, words in (("initialise_s", "seconds"), ("peak_memory_bytes", "peak memory")):
            name = f"{network}: {words}, GradInit / MetaInit"
            gradinit, metainit = (of_start(metric, network, one) for one in ("gradinit", "metainit"))
            found, lacks = cost_ratio(name, evidence, gradinit, metainit, Below(1.0))
            parts |= found
            missing += lacks
    return finding(parts, missing=missing)


def depth_1202(evidence: Evidence) -> Finding:
    """Accbest(ResNet-1202) - Accbest(ResNet-110) > 0, both with batch normalisation and initialised by GradInit."""
    deep, shallow = (
        accuracy(evidence, "accbest_frac", network, "gradinit")
        for network in ("ResNet-1202-BN", "ResNet-110-BN")
    )
    name = "GradInit: best, ResNet-1202 - ResNet-110"
    return finding({name: difference(name, deep, shallow, Above(0.0))})


def constraint_not_penalty(evidence: Evidence) -> Finding:
    """The constraint takes less time than the penalty, and its Accbest is at most 0.2 percentage points below the best penalty's.

    The penalty's time is the mean over its strengths. The best strength for a network has the highest mean over seeds; it is chosen by
    the runs that decide, so a contradiction is corrected for the number of strengths. Strengths that table 4.3 lacks are reported in
    addition, against its largest.
    """
    parts: dict[str, Comparison | None] = {}
    missing: list[str] = []
    beside: list[Comparison | None] = []
    for network in TABLE_4_3:
        name = f"{network}: seconds, constraint / penalty"
        bound = of_start("initialise_s", network, "gradinit")
        penalty = of_start("initialise_s", network, *PENALTIES)
        found, lacks = cost_ratio(name, evidence, bound, penalty, Below(1.0))
        parts |= found
        missing += lacks
        penalties = {start: accuracy(evidence, "accbest_frac", network, start) for start in PENALTIES}
        run = {start: one for start, one in penalties.items() if one.values}
        name = f"{network}: best, constraint - best penalty"
        parts[name] = None
        if run:
            best = max(run, key=lambda start: mean(run[start]))
            swept = ", ".join(
                f"{start.rpartition('_')[2]}: {100 * mean(one):.2f}%" for start, one in run.items()
            )
            notes = [f"best strength {best.rpartition('_')[2]}, of {swept}"]
            ours = accuracy(evidence, "accbest_frac", network, "gradinit")
            claimed = Above(-MARGIN, strict=False)
            parts[name] = difference(name, ours, run[best], claimed, notes=notes, among=len(run))
        where = {"step": "train_from_init", "network": network, "initialisation": "gradinit_penalty_*"}
        strengths = {one.labels["initialisation"] for one in select(evidence.runs, where)}
        for start in sorted(strengths - {*PENALTIES}):
            name = f"{network}: best, penalty of strength {start.rpartition('_')[2]} - of 1"
            other = accuracy(evidence, "accbest_frac", network, start)
            beside.append(difference(name, other, penalties[PENALTIES[-1]], Above(0.0), decides=False))
    return finding(parts, beside, missing)


def overlap_half(evidence: Evidence) -> Finding:
    """Acc1(half of the minibatch shared) - Acc1(no overlap) > 0 on VGG-19 without batch normalisation (table 4.1).

    Reported in addition: the best accuracy, and the comparison with complete overlap.
    """
    parts: dict[str, Comparison | None] = {}
    for metric, words in (("acc1_frac", "first epoch"), ("accbest_frac", "best")):
        half = accuracy(evidence, metric, "VGG-19", "gradinit")
        for overlap in ("0", "1"):
            other = accuracy(evidence, metric, "VGG-19", f"gradinit_overlap_{overlap}")
            name = f"VGG-19: {words}, overlap 0.5 - overlap {overlap}"
            decides = (metric, overlap) == ("acc1_frac", "0")
            part = difference(name, half, other, Above(0.0), decides=decides)
            if part or decides:
                parts[name] = part
    return finding(parts)
