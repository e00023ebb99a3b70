"""Predicates for the claims of zhu2022, section 2.2: the effect of the attacks on undefended victims.

A claim about several attacks needs all of them: each is compared separately at 95%, and the weakest comparison
decides the claim.
"""

from __future__ import annotations

from dataclasses import replace

from relearn.report.comparisons import DIFFERENCE, Comparison, Exact, Finding, finding, paired_difference
from relearn.report.quantities import Evidence, Trial
from relearn.report.runs import folders, select
from relearn.report.verdicts import Above, Below, Within
from relearn.studies.poisoning.claims.victim_loss import victim_losses
from relearn.studies.poisoning.evidence import black_box_victims

ATTACKS = ("feature_collision", "convex_polytope")
POINT = 0.01
HULL_SIZE = {
    "dimension": 2048,
    "poisons": 5,
}  # the widest penultimate layer apart from DPN92's, and the paper's number of poisons


def undefended(evidence: Evidence, quantity: str, attack: str, setting: str = "transfer") -> list[Trial]:
    """Trials of one attack on undefended victims; attack ``clean`` uses the same bases unperturbed."""
    return evidence.trials(quantity, {"setting": setting, "attack": attack, "defence": "none"})


def cp_beats_fc(evidence: Evidence) -> Finding:
    """Mean of success(convex polytope) - success(feature collision) is above 0; black-box victims alone are shown, too."""
    name = "convex polytope - feature collision"
    ours, theirs = (
        undefended(evidence, "attack_success", attack) for attack in ("convex_polytope", "feature_collision")
    )
    part = paired_difference(name, ours, theirs, Above(0.0), bounds=DIFFERENCE)
    unseen = black_box_victims(evidence, "convex_polytope")
    apart = paired_difference(
        f"{name}, black-box victims",
        [trial for trial in ours if trial.victim in unseen],
        theirs,
        Above(0.0),
        bounds=DIFFERENCE,
        decides=False,
        victims_needed=2,
    )
    return finding({name: part}, [apart])


def cp_black_box(evidence: Evidence) -> Finding:
    """On victims whose architecture no substitute has, success(convex polytope) - success(unperturbed bases) is above 0."""
    name = "convex polytope - unperturbed bases, black-box victims"
    victims = black_box_victims(evidence, "convex_polytope")
    part = paired_difference(
        name,
        [t for t in undefended(evidence, "attack_success", "convex_polytope") if t.victim in victims],
        undefended(evidence, "attack_success", "clean"),
        Above(0.0),
        bounds=DIFFERENCE,
        notes=[f"black-box victims: {', '.join(sorted(victims)) or 'none'}"],
        victims_needed=2,
    )
    return finding({name: part})


def attack_is_invisible(evidence: Evidence) -> Finding:
    """|test accuracy(poisoned) - test accuracy(unperturbed bases)| is within one point, for the convex polytope attack.

    The paper says this of its own attack only; feature collision is shown.
    Judged on attacks that succeed while their control does not, because an attack without effect is trivially invisible.
    How many succeed is a result, so the required number of targets, victims and pairs is that of the attacks made; those
    that succeed must be on at least ``MIN_HIT_TARGETS`` targets, over which their interval is resampled. The comparison
    over all attacks is reported as well but does not decide.
    """
    clean = undefended(evidence, "test_accuracy", "clean")
    parts: dict[str, Comparison | None] = {}
    for attack in ATTACKS:
        trials = undefended(evidence, "test_accuracy", attack)
        works = evidence.effective("transfer", attack)
        for words, chosen in (("that work", [t for t in trials if t.key in works]), ("all", trials)):
            name = (
                f"{attack} - unperturbed bases, attacks {words}"
                if words != "all"
                else f"{attack}, all attacks"
            )
            decides = (attack, words) == ("convex_polytope", "that work")
            part = paired_difference(name, chosen, clean, Within(-POINT, POINT), decides=decides)
            if part and words != "all":
                made = sorted({trial.key for trial in trials})
                part = replace(part, chosen_from=tuple(made))
            if part or decides:
                parts[name] = part
    return finding(parts)


def dropout_transfers(evidence: Evidence) -> Finding:
    """The victim's loss at the final poisons, crafted with Dropout - without, is below 0 for both attacks.

    For feature collision the paper speaks of the lowest loss that an attack reaches (figure 2.3); here it is the final one for both.
    The loss is the attack's own objective. The step ``craft`` evaluates it on the watched victims with their Dropout off;
    these evaluations do not influence the attack.
    """
    parts = {}
    for attack in ATTACKS:
        name = f"{attack}: victim loss with Dropout - without"
        with_dropout = victim_losses(evidence, attack)
        without = victim_losses(evidence, f"{attack}_no_dropout")
        means = [
            f"mean loss {words}: {sum(t.value for t in trials) / len(trials):.4g}"
            for words, trials in (("with", with_dropout), ("without", without))
            if trials
        ]
        parts[name] = paired_difference(name, with_dropout, without, Below(0.0), notes=means, unit="loss")
    return finding(parts)


def overlap_not_needed(evidence: Evidence) -> Finding:
    """With disjoint training images, success(convex polytope) - success(unperturbed bases) is above 0; black-box victims are shown, too."""
    name = "convex polytope - unperturbed bases, no training image shared"
    setting = "overlap_disjoint"
    attacked = undefended(evidence, "attack_success", "convex_polytope_half", setting)
    clean = undefended(evidence, "attack_success", "clean", setting)
    part = paired_difference(name, attacked, clean, Above(0.0), bounds=DIFFERENCE, role="victim_disjoint")
    unseen = black_box_victims(evidence, "convex_polytope_half", setting)
    apart = paired_difference(
        f"{name}, black-box victims",
        [trial for trial in attacked if trial.victim in unseen],
        clean,
        Above(0.0),
        bounds=DIFFERENCE,
        decides=False,
        role="victim_disjoint",
        victims_needed=2,
    )
    return finding({name: part}, [apart])


def multilayer_end_to_end(evidence: Evidence) -> Finding:
    """Against end-to-end victims, success(several layers) - success(last layer) is above 0.

    Judged on the objective as printed in the paper. The released code computes a different one (the pooled
    features enter as feature collision); it is also reported but does not decide.
    """
    last = undefended(evidence, "attack_success", "convex_polytope", "end_to_end")
    parts = {}
    for attack, words in (("multi_layer", "paper"), ("multi_layer_as_released", "as released")):
        name = f"several layers ({words}) - last layer"
        several = undefended(evidence, "attack_success", attack, "end_to_end")
        part = paired_difference(
            name, several, last, Above(0.0), bounds=DIFFERENCE, decides=attack == "multi_layer"
        )
        if part or attack == "multi_layer":
            parts[name] = part
    return finding(parts)


def hull_proposition(evidence: Evidence) -> Finding:
    """A linear separator exists for every target outside the poisons' hull and for none inside."""
    runs = select(evidence.runs, {"step": "hull_proposition"})
    if not runs:
        return Finding(missing=["no runs of hull_proposition"])
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
    return Finding([Exact("linear program", inside + outside, failures, full, folders(runs), tuple(notes))])
