"""train: one victim, fine-tuned on the sets that an attack has poisoned and a defence has filtered, for all targets at once.

Settings: the recipe (epochs, batch_size, lr, weight_decay, milestones, reset_head), attack, eps, poison_class, target_class, poisons,
targets. Inputs: data, victim, poisons (unless attack is `clean`), kept (unless defence is `none`). Output: trials.csv.
"""

from __future__ import annotations

from pathlib import Path

NEEDS_TORCH = True


def run(run, settings: dict, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    import torch
    from safetensors.torch import load_file

    from relearn.console import Progress
    from relearn.data.arrays import load_prepared
    from relearn.measures.attack_success import ThreatModel, succeeded
    from relearn.measures.embed import embed
    from relearn.methods.transfer import fine_tune, poisoned_sets
    from relearn.models import files

    data = load_prepared(inputs["data"][0])
    trials = data.trials(
        **{key: settings[key] for key in ("target_class", "targets", "poison_class", "poisons")}
    )
    victim = files.load(inputs["victim"][0], device)
    images, labels = data.fine_tune()
    clean = embed(victim, images, precision=precision)
    threat = None
    if "poisons" in inputs:
        poisons = load_file(inputs["poisons"][0])["poisons"]
        threat = ThreatModel(
            knowledge=settings["knowledge"],
            eps=settings["eps"],
            poisons_count=settings["poisons"],
            class_count=int(labels.bincount().max()),
            fine_tune_count=len(labels),
            setting="transfer",
        )
        for crafted in poisons:  # nothing outside the stated threat model is scored
            threat.check(crafted, trials.base_images)
        features = embed(victim, poisons.flatten(0, 1), precision=precision).unflatten(0, poisons.shape[:2])
        sets = poisoned_sets(clean, features, trials.base_positions_in_fine_tune)
    else:
        sets = clean[None]  # one clean set serves all targets
    if "kept" in inputs:
        kept = load_file(inputs["kept"][0])
        keep, ks = kept["keep"].permute(2, 1, 0), [int(k) for k in kept["k"]]  # (n, T, V)
    else:
        keep, ks = torch.ones(len(labels), len(sets), 1, dtype=torch.bool), [0]

    with Progress("train") as progress:
        heads, outcome, outcome_step = fine_tune(
            sets.transpose(0, 1).contiguous(),
            labels.to(device),
            keep.to(device),
            victim.head,
            epochs=settings["epochs"],
            batch_size=settings["batch_size"],
            lr=settings["lr"],
            weight_decay=settings["weight_decay"],
            milestones=tuple(settings["milestones"]),
            reset_head=settings["reset_head"],
            seed=run.seed,
            log=run.log,
            progress=progress,
        )
    test_images, test_labels = data.test()
    accuracy = _accuracies(heads, embed(victim, test_images, precision=precision), test_labels.to(device))
    target_features = embed(victim, trials.target_images, precision=precision)

    rows = []
    base_rows = trials.base_positions_in_fine_tune
    for t, index in enumerate(trials.target_index):
        which = t if len(sets) > 1 else 0
        weight, bias = heads.weight[which], heads.bias[which]  # (V, C, d), (V, C)
        predicted = (weight @ target_features[t] + bias).argmax(-1).tolist()
        for variant, k in enumerate(ks):
            rows.append(
                {
                    "target": int(index),
                    "k": k or "",
                    "chosen": int(variant == 0),
                    "predicted": predicted[variant],
                    "success": int(succeeded(predicted[variant], settings["poison_class"])),
                    "test_accuracy_frac": float(accuracy[which, variant]),
                    "fine_tune_count": int(keep[:, which, variant].sum()),
                    "poisons_count": int(keep[base_rows, which, variant].sum()) if "poisons" in inputs else 0,
                }
            )
    chosen = [row for row in rows if row["chosen"]]
    run.finish(
        {
            "attack_success_frac": sum(row["success"] for row in chosen) / len(chosen),
            "test_accuracy_frac": sum(row["test_accuracy_frac"] for row in chosen) / len(chosen),
            "targets_count": len(chosen),
        },
        trials=(list(rows[0]), [list(row.values()) for row in rows]),
        outcome=outcome,
        outcome_step=outcome_step,
        outcome_reason="loss not finite" if outcome == "diverged" else None,
        threat_model=threat.to_dict() if threat else None,
    )


def _accuracies(heads, features, labels):
    """Test accuracy (T, V) of every head, a block of test images at a time."""
    import torch

    sets, variants, classes, width = heads.weight.shape
    flat, bias = heads.weight.detach().reshape(-1, width), heads.bias.detach().reshape(-1)
    right = torch.zeros(sets * variants, device=features.device)
    for x, y in zip(features.split(1024), labels.split(1024), strict=True):
        logits = (x @ flat.T + bias).reshape(len(x), -1, classes)
        right += (logits.argmax(-1) == y[:, None]).float().sum(0)
    return (right / len(labels)).reshape(sets, variants).cpu()
