"""filter: one defence against one attack on one victim, for all targets.

Settings: defence and its arguments, poison_class, target_class, poisons, targets. Inputs: data, victim, poisons.
Outputs: kept.safetensors — keep (V, T, n) with the chosen variant first, k (V,) for Deep k-NN — and trials.csv.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

NEEDS_TORCH = True


def run(run, settings: dict, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    import numpy as np
    import torch
    from safetensors.torch import load_file, save_file

    from relearn.data.arrays import load_prepared
    from relearn.measures.detection import detection
    from relearn.measures.embed import embed
    from relearn.methods import DEFENCES, load
    from relearn.methods.transfer import poisoned_sets
    from relearn.models import files

    data = load_prepared(inputs["data"][0])
    trials = data.trials(
        **{key: settings[key] for key in ("target_class", "targets", "poison_class", "poisons")}
    )
    victim = files.load(inputs["victim"][0], device)
    poisons = load_file(inputs["poisons"][0])["poisons"]
    images, labels = data.fine_tune()
    poison_features = embed(victim, poisons.flatten(0, 1), precision=precision).unflatten(
        0, poisons.shape[:2]
    )
    features = poisoned_sets(
        embed(victim, images, precision=precision), poison_features, trials.base_positions_in_fine_tune
    )

    defence = load(DEFENCES, settings["defence"])
    if settings["defence"] == "deep_knn":
        ks = [settings["k"], *(k for k in settings["sweep"] if k != settings["k"])]
        detector = defence(k=settings["k"], include_self=settings["include_self"])
        kept = np.stack([detector.sweep(one, labels, ks) for one in features], axis=1)  # (V, T, n)
    else:
        ks = [0]
        arguments = {k: v for k, v in settings.items() if k in defence().get_params()}
        kept = np.stack(
            [_each(defence, arguments, run.seed, t).fit_predict(x, labels) for t, x in enumerate(features)]
        )
        kept = kept[None]
    keep = torch.from_numpy(kept == 1)

    largest_class = int(labels.bincount().max())
    is_poison = np.zeros(len(labels), dtype=bool)
    is_poison[trials.base_positions_in_fine_tune.numpy()] = True
    rows: list[dict[str, Any]] = []
    for variant, k in enumerate(ks):
        for t, index in enumerate(trials.target_index):
            found = detection(~keep[variant, t].numpy(), is_poison)
            rows.append(
                {
                    "target": int(index),
                    "k": k or "",
                    "normalised_k": k / largest_class if k else "",
                    "chosen": int(variant == 0),
                    "poisons": found.poisons,
                    "poisons_removed": found.poisons_removed,
                    "clean": found.clean,
                    "clean_removed": found.clean_removed,
                    "mcc": found.mcc,
                }
            )
    chosen = [row for row in rows if row["chosen"]]
    save_file({"keep": keep.contiguous(), "k": torch.tensor(ks)}, run.output("kept.safetensors"))
    run.finish(
        {
            "poisons_removed_frac": sum(r["poisons_removed"] for r in chosen)
            / sum(r["poisons"] for r in chosen),
            "clean_removed_frac": sum(r["clean_removed"] for r in chosen) / sum(r["clean"] for r in chosen),
            "mcc": sum(r["mcc"] for r in chosen) / len(chosen),
            "targets_count": len(chosen),
        },
        trials=(list(rows[0]), [list(row.values()) for row in rows]),
    )


def _each(defence, arguments: dict, seed: int, target: int):
    """The detector of one target: a random one draws anew for each, the others are the same every time."""
    if "seed" in defence().get_params():
        return defence(**arguments, seed=1000 * seed + target)
    return defence(**arguments)
