"""The predicates of zhu2022, chapter 4, by the ids of claims.yaml, and the conditions under which a comparison is underpowered.

A comparison needs at least 3 seeds. For images of the grid, the best accuracy of the network over all initialisations must reach
the required 60% (``MIN_VICTIM_ACCURACY``). A first epoch at the published size must end above chance from one of them. Nothing is
required for translation; we require that some initialisation of the same kind of network reaches a BLEU of 10, because a difference
of half a point between models that cannot translate is meaningless.
GradInit's initialisations must have met their bound in most iterations and must have used the learning rate of the training for the
look-ahead step (:mod:`relearn.studies.gradinit.claims.starts`). Comparisons of time and memory only need enough seeds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

from relearn.report.comparisons import Comparison, Finding
from relearn.report.leaderboard import Board
from relearn.report.quantities import Evidence
from relearn.report.verdicts import MIN_VICTIM_ACCURACY, too_few
from relearn.studies.gradinit.claims import exact, images, starts, translation

MIN_SEEDS = 3
QUALITY = {
    "images": (
        "train_from_init.accbest_frac",
        {"suite": "grid"},
        MIN_VICTIM_ACCURACY,
        "{:.1%} best accuracy",
    ),
    # no constant prediction of one of ten classes reaches 15% on 1,000 test images
    "first_epoch": (
        "train_from_init.accfinal_frac",
        {"suite": "first_steps"},
        0.15,
        "{:.1%} after the first epoch",
    ),
    "translation": ("train_translation.bleu_best", {"task": "translation"}, 10.0, "{:.1f} BLEU"),
}
"""By the role of a comparison: what is measured of its networks, where, the least value, and how a value is written."""

PREDICATES: dict[str, Callable[[Evidence], Finding]] = {
    "first_epoch_accuracy": images.first_epoch_accuracy,
    "best_accuracy": images.best_accuracy,
    "beats_metainit": images.beats_metainit,
    "depth_1202": images.depth_1202,
    "no_warmup_adam": translation.no_warmup_adam,
    "no_warmup_sgd": translation.no_warmup_sgd,
    "lower_gradient_variance": exact.lower_gradient_variance,
    "under_1_percent_of_training": exact.under_1_percent_of_training,
    "constraint_not_penalty": images.constraint_not_penalty,
    "overlap_half": images.overlap_half,
    "bn_magnifies": exact.bn_magnifies,
    "parameter_counts": exact.parameter_counts,
}

BOARDS = (
    Board(
        title="Initialisations of image networks",
        better="higher",
        quantity="train_from_init.accbest_frac",
        where={"step": "train_from_init", "suite": "grid", "recipe": "sgd"},
        method="initialisation",
        cell="network",
        says="Best test accuracy from each initialisation, trained by the same recipe, but for the precision; mean over seeds.",
        protocol=("epochs", "batch_size", "lr"),
    ),
)


def power(comparison: Comparison, evidence: Evidence) -> list[str]:
    """The reasons why a comparison is underpowered: too few seeds, GradInit initialisations that do not follow the method, or a
    network that trains well from no initialisation."""
    reasons = too_few(len(comparison.seeds), "seed", MIN_SEEDS)
    if comparison.unit != "ratio":
        reasons += starts.lacking(evidence, comparison.runs)
    if comparison.role not in QUALITY:
        return reasons
    name, where, least, text = QUALITY[comparison.role]
    needed = f"{least:.0%}" if least < 1 else f"{least:g}"
    for network in dict.fromkeys(network for network, _, _ in comparison.keys):
        best = _best(evidence, name, {**where, "network": network})
        if best is None or best < least:
            found = "not measured" if best is None else text.format(best)
            reasons.append(f"{network} at {found}, needs {needed}")
    return reasons


def _best(evidence: Evidence, name: str, where: Mapping[str, str]) -> float | None:
    """The highest mean over seeds among all initialisations and recipes of a network."""
    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    metric = name.partition(".")[2]
    for run in evidence.of(name, where):
        value = run.metrics.get(metric)
        if value is not None:
            groups[run.labels["initialisation"], run.labels["recipe"]].append(float(value))
    return max((sum(values) / len(values) for values in groups.values()), default=None)
