"""The predicates of zhu2022, chapter 2, over records: one function a claim of claims.yaml, by its id.

Where a claim speaks of several attacks or several baselines it needs all of them: each is compared by itself
at 95%, and the claim is as good as its weakest comparison. Defence success counts every attack here, also one
that fails without a defence, so that the pairs are not chosen by an outcome.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import numpy as np

from relearn.report.comparisons import DIFFERENCE, Comparison, Exact, Finding, paired_difference, rate
from relearn.report.quantities import Evidence, Key, Trial
from relearn.report.runs import select
from relearn.report.statistics import Interval, clustered_argmax
from relearn.report.verdicts import Above, Within

ATTACKS = ("feature_collision", "convex_polytope")
BASELINES = ("l2_outliers", "one_class_svm", "random_eviction", "adversarial_training")
POINT = 0.01
RECOMMENDED_K = (1.0, 2.0)  # normalised k, prose of 2.3.5.1
CAPTION_K = (0.4, 2.0)  # normalised k, caption of figure 2.11
HULL_SIZE = {
    "dimension": 2048,
    "poisons": 5,
}  # the widest penultimate layer but DPN92's, the published poisons


def _undefended(evidence: Evidence, quantity: str, attack: str) -> list[Trial]:
    return evidence.trials(quantity, {"attack": attack, "defence": "none"})


def _finding(parts: dict[str, Comparison | None]) -> Finding:
    """What could be compared, and by name what could not."""
    return Finding(
        [part for part in parts.values() if part],
        [f"no runs for {name}" for name, part in parts.items() if part is None],
    )


def cp_beats_fc(evidence: Evidence) -> Finding:
    """Mean of success(convex polytope) - success(feature collision) is above 0."""
    name = "convex polytope - feature collision"
    part = paired_difference(
        name,
        _undefended(evidence, "attack_success", "convex_polytope"),
        _undefended(evidence, "attack_success", "feature_collision"),
        Above(0.0),
        bounds=DIFFERENCE,
    )
    return _finding({name: part})


def cp_black_box(evidence: Evidence) -> Finding:
    """On victims that are no substitute, success(convex polytope) - success(unperturbed bases) is above 0."""
    name = "convex polytope - unperturbed bases, black-box victims"
    victims = evidence.black_box_victims("convex_polytope")
    part = paired_difference(
        name,
        [t for t in _undefended(evidence, "attack_success", "convex_polytope") if t.victim in victims],
        _undefended(evidence, "attack_success", "clean"),
        Above(0.0),
        bounds=DIFFERENCE,
        notes=[f"black-box victims: {', '.join(sorted(victims)) or 'none'}"],
        victims_needed=2,
    )
    return _finding({name: part})


def attack_is_invisible(evidence: Evidence) -> Finding:
    """|test accuracy(poisoned) - test accuracy(unperturbed bases)| is within one point, for both attacks."""
    clean = _undefended(evidence, "test_accuracy", "clean")
    return _finding(
        {
            f"{attack} - unperturbed bases": paired_difference(
                f"{attack} - unperturbed bases",
                _undefended(evidence, "test_accuracy", attack),
                clean,
                Within(-POINT, POINT),
            )
            for attack in ATTACKS
        }
    )


def knn_removes_poisons(evidence: Evidence) -> Finding:
    """Share of poisons removed is at least 0.99, averaged over the swept k with normalised k in [1, 2]."""
    normalised = evidence.normalised_k()
    inside = {k for k, ratio in normalised.items() if RECOMMENDED_K[0] <= ratio <= RECOMMENDED_K[1]}
    parts = {}
    for attack in ATTACKS:
        where = {"attack": attack, "defence": "deep_knn"}
        trials = [t for t in evidence.trials("poisons_removed", where, sweep=True) if t.k in inside]
        each: dict[int, list[float]] = defaultdict(list)
        for trial in trials:
            each[trial.k or 0].append(trial.value)
        shares = [f"k = {k}: {100 * np.mean(values):.2f}%" for k, values in sorted(each.items())]
        parts[attack] = rate(attack, trials, Above(0.99, strict=False), shares)
    return _finding(parts)


def knn_keeps_accuracy(evidence: Evidence) -> Finding:
    """|test accuracy(filtered) - test accuracy(unfiltered)| is within one point at the chosen k."""
    return _finding(
        {
            f"{attack}, filtered - unfiltered": paired_difference(
                f"{attack}, filtered - unfiltered",
                evidence.trials("test_accuracy", {"attack": attack, "defence": "deep_knn"}),
                _undefended(evidence, "test_accuracy", attack),
                Within(-POINT, POINT),
            )
            for attack in ATTACKS
        }
    )


def knn_beats_baselines(evidence: Evidence) -> Finding:
    """Defence success(Deep k-NN) - defence success(baseline) is above 0, each baseline and both attacks."""
    parts = {}
    for attack in ATTACKS:
        ours = evidence.trials("defence_success", {"attack": attack, "defence": "deep_knn"})
        for baseline in BASELINES:
            name = f"{attack}: deep_knn - {baseline}"
            theirs = evidence.trials("defence_success", {"attack": attack, "defence": baseline})
            parts[name] = paired_difference(name, ours, theirs, Above(0.0), bounds=DIFFERENCE)
    return _finding(parts)


def k_rule(evidence: Evidence) -> Finding:
    """The normalised k of the greatest mean MCC lies in [1, 2]; also said of the caption's [0.4, 2]."""
    parts: dict[str, Comparison | None] = {}
    normalised = evidence.normalised_k()
    for attack in ATTACKS:
        name = f"{attack}: normalised k of the greatest mean MCC"
        trials = evidence.trials("mcc", {"attack": attack, "defence": "deep_knn"}, sweep=True)
        parts[name] = _best_k(name, trials, normalised)
    return _finding(parts)


def _best_k(name: str, trials: list[Trial], normalised: dict[int, float]) -> Comparison | None:
    table: dict[Key, dict[int, Trial]] = defaultdict(dict)
    for trial in trials:
        if trial.k is not None:
            table[trial.key][trial.k] = trial
    # a k that some trial lacks would be compared on other trials than the rest
    ks = sorted(set.intersection(*(set(row) for row in table.values()))) if table else []
    if len(ks) < 2:
        return None
    keys = tuple(sorted(table))
    values = np.array([[table[key][k].value for k in ks] for key in keys])
    best, shares = clustered_argmax(values, [target for _, _, target in keys])
    reach = np.cumsum(shares)
    ratios = [normalised[k] for k in ks]
    low, high = (ratios[int(np.searchsorted(reach, level - 1e-12))] for level in (0.025, 0.975))
    interval = Interval(ratios[best], min(low, ratios[best]), max(high, ratios[best]))
    notes = [
        f"mean MCC {float(values[:, best].mean()):.3f} at k = {ks[best]}, swept: {', '.join(map(str, ks))}"
    ]
    for words, (least, most) in (("claimed", RECOMMENDED_K), ("caption", CAPTION_K)):
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
        "argmax over the swept k of the mean MCC; bootstrap over targets",
        keys,
        tuple(sorted({trial.folder for row in table.values() for trial in row.values()})),
        tuple(notes),
    )


def hull_proposition(evidence: Evidence) -> Finding:
    """No linear separator for a target inside the poisons' hull, one for every target outside."""
    runs = select(evidence.runs, {"step": "evaluate", "protocol": "hull"})
    if not runs:
        return Finding(missing=["no runs of evaluate with protocol hull"])
    inside = outside = failures = 0
    notes: list[str] = []
    for run in runs:
        counts = {name: int(value or 0) for name, value in run.metrics.items()}
        inside += counts["inside_count"]
        outside += counts["outside_count"]
        failures += counts["inside_separators_count"]
        failures += counts["outside_count"] - counts["outside_separators_count"]
        for name, words in (("constructed", "corrected"), ("printed", "printed")):
            if f"outside_{name}_count" in counts:
                separated = f"{counts[f'outside_{name}_count']} of {counts['outside_count']}"
                notes.append(f"the proof's classifier, as {words}, separates {separated} (erratum Z2)")
    notes.insert(0, f"{inside} targets inside the hull, {outside} outside")
    full = all(run.settings.get(name, 0) >= size for run in runs for name, size in HULL_SIZE.items())
    folders = tuple(run.folder for run in runs)
    return Finding([Exact("linear program", inside + outside, failures, full, folders, tuple(notes))])


PREDICATES: dict[str, Callable[[Evidence], Finding]] = {
    "cp_beats_fc": cp_beats_fc,
    "cp_black_box": cp_black_box,
    "attack_is_invisible": attack_is_invisible,
    "knn_removes_poisons": knn_removes_poisons,
    "knn_keeps_accuracy": knn_keeps_accuracy,
    "knn_beats_baselines": knn_beats_baselines,
    "k_rule": k_rule,
    "hull_proposition": hull_proposition,
}
