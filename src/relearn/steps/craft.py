"""craft: the poisons of one attack for all targets, against all substitutes at once.

Settings: attack (the method's name), eps, lr, iterations, dropout, poison_class, target_class, poisons, targets.
Inputs: data, substitutes (the weights of each). Outputs: poisons.safetensors (8-bit images), trials.csv.
"""

from __future__ import annotations

from pathlib import Path

NEEDS_TORCH = True


def run(run, settings: dict, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    from safetensors.torch import save_file

    from relearn.checkpoint import Checkpoint
    from relearn.console import Progress
    from relearn.data.arrays import load_prepared
    from relearn.measures.attack_success import ThreatModel
    from relearn.methods import ATTACKS, load
    from relearn.methods.crafting import quantise
    from relearn.models import files

    data = load_prepared(inputs["data"][0])
    trials = data.trials(
        **{key: settings[key] for key in ("target_class", "targets", "poison_class", "poisons")}
    )
    bases = trials.base_images.to(device).float() / 255.0
    targets = trials.target_images.to(device).float() / 255.0
    substitutes = [files.load(path, device) for path in inputs["substitutes"]]
    with Progress(f"craft {settings['attack']}") as progress:
        crafted = load(ATTACKS, settings["attack"])(
            substitutes,
            bases,
            targets,
            eps=settings["eps"],
            lr=settings["lr"],
            iterations=settings["iterations"],
            dropout=settings["dropout"],
            seed=run.seed,
            precision=precision,
            progress=progress,
            log=run.log,
            checkpoint=Checkpoint(run.work / "craft"),
        )
    poisons = quantise(crafted.poisons, bases, settings["eps"]).cpu()
    labels = data.fine_tune()[1]
    threat = ThreatModel(
        knowledge="transfer",
        eps=settings["eps"],
        poisons_count=settings["poisons"],
        class_count=int(labels.bincount().max()),
        fine_tune_count=len(labels),
        setting="transfer",
    )
    for crafted_images in poisons:
        threat.check(crafted_images, trials.base_images)
    save_file({"poisons": poisons.contiguous()}, run.output("poisons.safetensors"))
    final = crafted.final_loss.cpu()
    change = (poisons.float() - trials.base_images.float()).abs()
    rows = [
        {
            "target": int(index),
            "loss": float(final[i]),
            "loss_model_mean": float(final[i]) / len(substitutes),
            "linf_255": float(change[i].max()),
            "l1_mean_255": float(change[i].mean()),
        }
        for i, index in enumerate(trials.target_index)
    ]
    run.finish(
        {
            "loss": float(final.mean()),
            "loss_model_mean": float(final.mean()) / len(substitutes),
            "linf_255": float(change.max()),
            "l1_mean_255": float(change.mean()),
            "targets_count": len(rows),
            "substitutes_count": len(substitutes),
        },
        trials=(list(rows[0]), [list(row.values()) for row in rows]),
        outcome=crafted.outcome,
        outcome_step=crafted.outcome_step,
        outcome_reason="loss not finite" if crafted.outcome == "diverged" else None,
        threat_model=threat.to_dict(),
    )
