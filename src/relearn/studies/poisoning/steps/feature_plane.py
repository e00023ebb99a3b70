"""feature_plane: project a poisoned fine-tuning set onto a plane of the features of two classes.

Settings: poison_class, target_class, poisons, targets, target (index of the trial, from 0), attack; k, include_self
and label_ties of Deep k-NN (the last two are optional). Inputs: data, victim, poisons.
Output: trials.csv (target, x, y, kind, kept).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from relearn.studies.poisoning.steps.trials import OnTrials

NEEDS_TORCH = True


@dataclass(frozen=True, kw_only=True)
class Settings(OnTrials):
    attack: str
    target: int
    k: int
    include_self: bool = False
    label_ties: Literal["keep", "smallest"] = "keep"


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    import numpy as np
    import torch
    from safetensors.torch import load_file

    from relearn.data.arrays import load_prepared
    from relearn.measures.detection import detection
    from relearn.measures.embed import embed
    from relearn.measures.feature_plane import project
    from relearn.methods.deep_knn import DeepKNN
    from relearn.methods.transfer import poisoned_sets
    from relearn.models import files

    data = load_prepared(inputs["data"][0])
    trials = settings.of(data)
    number = settings.target
    if not 0 <= number < len(trials.target_index):
        raise ValueError(f"target is {number}; allowed: 0 to {len(trials.target_index) - 1}")
    victim = files.load(inputs["victim"][0], device)
    images, labels = data.fine_tune()
    poisons = embed(victim, load_file(inputs["poisons"][0])["poisons"][number], precision=precision)
    clean = embed(victim, images, precision=precision)
    points = poisoned_sets(clean, poisons[None], trials.base_positions_in_fine_tune)[0].cpu()
    target = embed(victim, trials.target_images[number : number + 1], precision=precision).cpu()
    knn = DeepKNN(settings.k, settings.include_self, settings.label_ties)
    kept = knn.fit_predict(points, labels) == 1

    is_poison = np.zeros(len(labels), dtype=bool)
    is_poison[trials.base_positions_in_fine_tune.numpy()] = True
    names = {settings.target_class: "target_class", settings.poison_class: "poison_class"}
    kinds = ["poison" if p else names.get(c, "other") for c, p in zip(labels.tolist(), is_poison)]
    # The class centroids are those of the clean points: poisons and target are projected but do not shift them.
    classes = np.append(np.where(is_poison, -1, labels.numpy()), -1)
    places = project(
        torch.cat([points, target]).numpy(), classes, settings.target_class, settings.poison_class
    )
    index = int(trials.target_index[number])
    rows = [
        [index, x, y, kind, keep]
        for (x, y), kind, keep in zip(places.tolist(), [*kinds, "target"], [*(int(one) for one in kept), ""])
    ]
    found = detection(~kept, is_poison)
    run.finish(
        {
            "poisons_removed_frac": found.poisons_removed_frac,
            "clean_removed_frac": found.clean_removed_frac,
            "points_count": len(rows),
        },
        trials=(["target", "x", "y", "kind", "kept"], rows),
    )
