"""Victims by deep partition aggregation: one head for each part of the fine-tuning set, and their vote (frozen features).

Beside the columns of the other transfer victims a row has ``certified_count``: this many images that are added to the poisoned set or
removed from it cannot change the prediction of the target; ``control_certified_count`` is the same of the set with unperturbed
bases. ``certified_accuracy_<r>_frac``: share of the test images that the control classifies correctly and that r images cannot
change. A poison replaces its base, which is one image removed and one added.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relearn.studies.poisoning.steps.train import Vote

LEVELS = (0, 1, 2, 5)


def heads_of_parts(run, settings: Vote, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    """Train an ensemble for the poisoned set of each target and one for the set with unperturbed bases, their control."""
    import torch
    from safetensors.torch import load_file

    from relearn.measures.attack_success import succeeded
    from relearn.measures.embed import embed
    from relearn.methods import VOTES, load
    from relearn.methods.partition_aggregation import certified, digest, votes
    from relearn.models import files
    from relearn.runs.console import Progress
    from relearn.studies.poisoning.steps.victim_set import VictimSet, finish

    given = VictimSet(settings, inputs)
    trials, labels, count = given.trials, given.labels.to(device), len(given.trials.target_index)
    assert given.poisons is not None  # the clean set is the control of every run
    victim = files.load(inputs["victim"][0], device)
    if settings.reset_head:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(run.seed)
            victim.head.reset_parameters()
    clean, names = embed(victim, given.images, precision=precision), [digest(one) for one in given.images]
    poisons = embed(victim, given.poisons.flatten(0, 1), precision=precision)
    sets: list[tuple[list[bytes], Any, Any]] = []
    for t, features in enumerate(poisons.unflatten(0, given.poisons.shape[:2])):
        own, points = list(names), clean.clone()
        points[given.bases.to(device)] = features
        for row, image in zip(given.bases.tolist(), given.poisons[t], strict=True):
            own[row] = digest(image)
        sets.append((own, points, labels))
    sets.append((names, clean, labels))
    with Progress("train parts") as progress:
        found = load(VOTES, settings.defence)(
            sets,
            victim.head,
            parts=settings.parts,
            **settings.recipe(),
            progress=progress,
        )
    test_images, test_labels = given.data.test()
    if "features" in inputs:
        test = load_file(inputs["features"][0])["test"].to(device)
    else:
        test = embed(victim, test_images, precision=precision)
    test_labels, targets = test_labels.to(device), embed(victim, trials.target_images, precision=precision)

    def answer(t: int, features) -> tuple[Any, Any]:
        return certified(votes(found.weight[t], found.bias[t], features))

    twin, twin_radius = (one.tolist() for one in answer(-1, targets))
    of_test, radius = answer(-1, test)
    right = of_test == test_labels
    levels = {f"certified_accuracy_{r}_frac": float((right & (radius >= r)).float().mean()) for r in LEVELS}
    rows: list[dict[str, Any]] = []
    for t in range(count):
        predicted, certificate = (int(one) for one in answer(t, targets[t : t + 1]))
        learned = answer(t, sets[t][1])[0] == labels
        rows.append(
            {
                "target": int(trials.target_index[t]),
                "k": "",
                "chosen": 1,
                "predicted": predicted,
                "success": int(succeeded(predicted, settings.poison_class) and t not in given.rejected),
                "test_accuracy_frac": float((answer(t, test)[0] == test_labels).float().mean()),
                "train_accuracy_frac": float(learned.float().mean()),
                "fine_tune_count": len(labels),
                "poisons_count": settings.poisons,
                "poisons_fitted_frac": float(learned[given.bases.to(device)].float().mean()),
                "control_predicted": twin[t],
                "control_success": int(succeeded(twin[t], settings.poison_class)),
                "certified_count": certificate,
                "control_certified_count": twin_radius[t],
                **levels,
            }
        )
    finish(run, rows, given, found.outcome, found.outcome_step, own=("certified_count", *levels))
