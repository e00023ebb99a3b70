"""Predicates for the claims of zhu2022, chapter 2, keyed by claim id in claims.yaml."""

from __future__ import annotations

from collections.abc import Callable

from relearn.report.comparisons import Comparison, Finding
from relearn.report.leaderboard import Board
from relearn.report.quantities import Evidence
from relearn.report.verdicts import shortcomings
from relearn.studies.poisoning.claims import attacks, knn
from relearn.studies.poisoning.evidence import unfitted, victim_accuracies

MIN_HIT_TARGETS = 10
"""Targets with an attack that works, for a comparison of such attacks: a bootstrap over fewer has intervals that are too short."""
MIN_ROOM = 0.05
"""Share of attacks that the filter must leave without replication: the smallest effect that the design of `replication_helps` looks for."""

PREDICATES: dict[str, Callable[[Evidence], Finding]] = {
    "cp_beats_fc": attacks.cp_beats_fc,
    "cp_black_box": attacks.cp_black_box,
    "dropout_transfers": attacks.dropout_transfers,
    "overlap_not_needed": attacks.overlap_not_needed,
    "multilayer_end_to_end": attacks.multilayer_end_to_end,
    "attack_is_invisible": attacks.attack_is_invisible,
    "knn_removes_poisons": knn.knn_removes_poisons,
    "knn_keeps_accuracy": knn.knn_keeps_accuracy,
    "knn_beats_baselines": knn.knn_beats_baselines,
    "best_k_is_1_to_2_class_sizes": knn.best_k_is_1_to_2_class_sizes,
    "replication_helps": knn.replication_helps,
    "hull_proposition": attacks.hull_proposition,
}

_TRANSFER = {"step": "train", "setting": "transfer"}
_THREAT = ("poison_class", "target_class", "poisons", "eps")
BOARDS = (
    Board(
        title="Poisoning attacks",
        better="higher",
        quantity="attack_success_net",
        where={**_TRANSFER, "defence": "none"},
        method="attack",
        says="Attacks on victims without a defence: success less that of the unperturbed bases, over targets and victims.",
        protocol=_THREAT,
        bounds=(-1.0, 1.0),
    ),
    Board(
        title="Defences against poisoning",
        better="lower",
        quantity="attack_success_net",
        where=_TRANSFER,
        method="defence",
        cell="attack",
        says="What success of an attack a defence leaves, less that of the unperturbed bases behind the same defence.",
        protocol=_THREAT,
        bounds=(-1.0, 1.0),
    ),
)


def power(comparison: Comparison, evidence: Evidence) -> list[str]:
    """Reasons why a comparison lacks power: too few targets, victims or pairs, inaccurate victims, or victims that underfit.

    A comparison of attacks that work is required to have made enough attacks, and to have enough targets on which one works. Replication
    can only help where attacks get through the filter without it; it can do harm anywhere.
    """
    accuracies = victim_accuracies(evidence, comparison.role)
    found = shortcomings(comparison.pairs_made, accuracies, comparison.victims_needed)
    hit = len({target for _, target in comparison.pairs})
    if comparison.chosen_from and hit < MIN_HIT_TARGETS:
        found.append(f"attacks work on {hit} targets, needs {MIN_HIT_TARGETS}")
    room = comparison.room if comparison.name.endswith(knn.REPLICATED) else None
    if room is not None and room < MIN_ROOM and not comparison.claimed.misses(comparison.interval):
        found.append(
            f"without replication {100 * room:.2g}% of attacks get through the filter (net of the control), needs {100 * MIN_ROOM:g}%"
        )
    return found + unfitted(evidence, comparison.runs)
