"""Predicates for the claims of zhu2022, section 2.3, about Deep k-NN: poisons removed, accuracy kept, baselines beaten.

A claim about several attacks or baselines needs all of them: each is compared separately at 95%, and the weakest
comparison decides the claim. Defence success here counts every attack, including those that fail without a defence, so
that pairs are not selected by outcome. It is net of the clean control: the outcome of the same victim and defence with
unperturbed bases is subtracted.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np

from relearn.report.comparisons import DIFFERENCE, Comparison, Finding, finding, paired_difference, rate
from relearn.report.quantities import Evidence, Key, Trial
from relearn.report.statistics import clustered_argmax, stepped
from relearn.report.verdicts import Above, Within
from relearn.studies.poisoning.claims.attacks import ATTACKS, POINT, undefended
from relearn.studies.poisoning.evidence import normalised_k

NET = (-2.0, 2.0)  # range of the difference of two outcomes that are each net of a control
BASELINES = ("l2_outliers", "one_class_svm", "random_eviction", "adversarial_training")
RECOMMENDED_K = (1.0, 2.0)  # normalised k, prose of 2.3.5.1
CAPTION_K = (0.4, 2.0)  # normalised k, caption of figure 2.11
LEAST_REMOVED = 0.97  # the paper: "about 99%"; the defence's public code reports 98% at k = 50
REPLICATED = ": with replication - without"
SUFFERS_BELOW = 0.7  # class balance n/N, prose of 2.3.5.2


def filtered(
    evidence: Evidence,
    quantity: str,
    attack: str,
    defence: str = "deep_knn",
    setting: str = "transfer",
    sweep: bool = False,
) -> list[Trial]:
    """Trials of one attack against one defence."""
    return evidence.trials(quantity, {"setting": setting, "attack": attack, "defence": defence}, sweep=sweep)


def knn_removes_poisons(evidence: Evidence) -> Finding:
    """The share of poisons removed, averaged over the swept k with normalised k in [1, 2], is at least 0.97 (about 0.99)."""
    normalised = normalised_k(evidence)
    inside = {k for k, ratio in normalised.items() if RECOMMENDED_K[0] <= ratio <= RECOMMENDED_K[1]}
    parts = {}
    for attack in ATTACKS:
        trials = [t for t in filtered(evidence, "poisons_removed", attack, sweep=True) if t.k in inside]
        each: dict[int, list[float]] = defaultdict(list)
        for trial in trials:
            each[trial.k or 0].append(trial.value)
        shares = [f"k = {k}: {100 * np.mean(values):.2f}%" for k, values in sorted(each.items())]
        parts[attack] = rate(attack, trials, Above(LEAST_REMOVED, strict=False), shares)
    return finding(parts)


def knn_keeps_accuracy(evidence: Evidence) -> Finding:
    """At the chosen k, test accuracy(filtered) - test accuracy(unfiltered) is at least minus one percentage point."""
    return finding(
        {
            f"{attack}, filtered - unfiltered": paired_difference(
                f"{attack}, filtered - unfiltered",
                filtered(evidence, "test_accuracy", attack),
                undefended(evidence, "test_accuracy", attack),
                Above(-POINT, strict=False),
            )
            for attack in ATTACKS
        }
    )


def knn_beats_baselines(evidence: Evidence) -> Finding:
    """Net defence success(Deep k-NN) - net defence success(baseline) is above 0 for each baseline and both attacks.

    A baseline whose victims do not fit their sets lacks power and is set aside; the other baselines decide, provisionally.
    """
    parts = {}
    for attack in ATTACKS:
        ours = filtered(evidence, "defence_success_net", attack)
        for baseline in BASELINES:
            name = f"{baseline}: {attack}, deep_knn - baseline"
            theirs = filtered(evidence, "defence_success_net", attack, baseline)
            raw = paired_difference(
                name,
                filtered(evidence, "defence_success", attack),
                filtered(evidence, "defence_success", attack, baseline),
                Above(0.0),
                bounds=DIFFERENCE,
            )
            notes = [f"not net of the control: {100 * raw.interval.estimate:+.1f} points"] if raw else []
            parts[name] = paired_difference(name, ours, theirs, Above(0.0), bounds=NET, notes=notes)
    return finding(parts)


def best_k_is_1_to_2_class_sizes(evidence: Evidence) -> Finding:
    """The normalised k with the greatest mean MCC lies in [1, 2]; the caption's range [0.4, 2] is reported as a note."""
    parts: dict[str, Comparison | None] = {}
    normalised = normalised_k(evidence)
    for attack in ATTACKS:
        name = f"{attack}: normalised k of the greatest mean MCC"
        trials = filtered(evidence, "mcc", attack, sweep=True)
        parts[name] = _best_k(name, trials, normalised)
    return finding(parts)


def _best_k(name: str, trials: list[Trial], normalised: dict[int, float]) -> Comparison | None:
    table: dict[Key, dict[int, Trial]] = defaultdict(dict)
    for trial in trials:
        if trial.k is not None:
            table[trial.key][trial.k] = trial
    # keep only the k that every trial has, so that all k are compared on the same trials
    ks = sorted(set.intersection(*(set(row) for row in table.values()))) if table else []
    if len(ks) < 2:
        return None
    keys = tuple(sorted(table))
    values = np.array([[table[key][k].value for k in ks] for key in keys])
    networks = [(victim, seed) for victim, seed, _ in keys]
    several = networks if len(set(networks)) > 1 else None
    best, shares = clustered_argmax(values, [target for _, _, target in keys], crossed=several)
    reach = np.cumsum(shares)
    ratios = [normalised[k] for k in ks]
    groups = len({target for _, _, target in keys})
    steps = [(ratio, float(share)) for ratio, share in zip(ratios, reach)]
    interval = stepped(ratios[best], steps, (min(groups, len(set(networks))) if several else groups) - 1)
    notes = [
        f"mean MCC {float(values[:, best].mean()):.3f} at k = {ks[best]}, swept: {', '.join(map(str, ks))}"
    ]
    for words, (least, most) in (("claimed", RECOMMENDED_K), ("the caption's", CAPTION_K)):
        share = float(sum(s for s, ratio in zip(shares, ratios) if least <= ratio <= most))
        inside = "inside" if least <= ratios[best] <= most else "outside"
        notes.append(
            f"{words} range [{least:g}, {most:g}]: estimate {inside}, {100 * share:.1f}% of the draws inside"
        )
    return Comparison(
        name,
        interval,
        Within(*RECOMMENDED_K),
        "ratio",
        "argmax over the swept k of the mean MCC; bootstrap over targets and victims, expanded for few of them",
        keys,
        tuple(sorted({trial.folder for row in table.values() for trial in row.values()})),
        tuple(notes),
    )


def replication_helps(evidence: Evidence) -> Finding:
    """Net defence success, with replication - without, is above 0, averaged over the class sizes with n/N < 0.7.

    Without replication the filter may delete a small class altogether. The victim then cannot predict that class and assigns
    half of its images to the poison class even without an attack. The control does the same, so this effect cancels here.

    The text does not say which attack the study used (the public code: convex polytope only), so every attack
    with runs is compared. All attacks decide. Two more differences are reported: over the attacks that succeed
    undefended on the balanced set, and without subtracting the control.
    """
    parts: dict[str, Comparison | None] = {}
    for attack in ATTACKS:
        for quantity, words in (
            ("defence_success_net", "all attacks"),
            ("defence_success_effective", "effective"),
            ("defence_success", "not net of the control"),
        ):
            name = f"{attack}, {words}{REPLICATED}"
            decides = quantity == "defence_success_net"
            trials = filtered(evidence, quantity, attack, setting="imbalance", sweep=True)
            part = _replicated(name, trials, NET if decides else DIFFERENCE)
            if part:
                parts[name] = part if decides else replace(part, decides=False)
    if not any(part and part.decides for part in parts.values()):
        parts["replication under imbalance"] = None
    return finding(parts)


def _replicated(name: str, trials: list[Trial], bounds: tuple[float, float]) -> Comparison | None:
    few = [trial for trial in trials if trial.balance is not None and trial.balance < SUFFERS_BELOW]
    sides = [trial for trial in few if trial.replicated], [trial for trial in few if not trial.replicated]
    notes = []
    for balance in sorted({trial.balance or 0.0 for trial in few}):
        each = [[t.value for t in side if t.balance == balance] for side in sides]
        shares = " against ".join(f"{100 * np.mean(v):.1f}%" if v else "none" for v in each)
        notes.append(f"n/N = {balance:.2g}: {shares}")
    if any(trial.value > 1 for trial in few):
        notes.append(
            "net of the control, a share can exceed 100%: the control was misled where the attack was not"
        )
    return paired_difference(name, *sides, Above(0.0), bounds=bounds, notes=notes)
