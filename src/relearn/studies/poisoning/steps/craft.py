"""craft: craft the poisons of one attack for all targets, against all substitutes at once.

Settings: attack (the method's name) and its arguments (eps, lr, iterations, dropout and so on),
poison_class, target_class, poisons, targets; with watched victims also watch_every and watched (their names).
Inputs: data, substitutes (the weights of each), watch (the weights of each watched victim).
Outputs: poisons.safetensors (8-bit images; `rejected` marks invalid poisons; `centres` is present if the ε-ball is not
centred at the bases), gallery.safetensors (images of the first targets, for figures), history.csv, trials.csv.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relearn.runs.settings import rest
from relearn.studies.poisoning.steps.trials import OnTrials

NEEDS_TORCH = True
GALLERY = 2


@dataclass(frozen=True, kw_only=True)
class Settings(OnTrials):
    attack: str
    eps: float
    iterations: int
    arguments: Mapping[str, Any] = rest()
    watch_every: int | None = None
    watched: Sequence[str] = ()


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    import inspect

    import torch
    from safetensors.torch import save_file

    from relearn.data import setups
    from relearn.data.arrays import load_prepared
    from relearn.measures.attack_success import ThreatModel, rejections
    from relearn.methods import ATTACKS, load
    from relearn.methods.crafting import quantise
    from relearn.models import files
    from relearn.runs.checkpoint import Checkpoint
    from relearn.runs.console import Progress

    data = load_prepared(inputs["data"][0])
    trials = settings.of(data)
    bases = trials.base_images.to(device).float() / 255.0
    targets = trials.target_images.to(device).float() / 255.0
    substitutes = [files.load(path, device) for path in inputs["substitutes"]]
    watched = [files.load(path, device) for path in inputs.get("watch", ())]
    if watched and settings.watch_every is None:
        raise ValueError("watch_every: found null, allowed with --input watch: an integer")
    attack = load(ATTACKS, settings.attack)
    arguments = dict(settings.arguments)
    if "poison_class" in inspect.signature(attack).parameters:
        arguments["poison_class"] = settings.poison_class
    with Progress(f"craft {settings.attack}") as progress:
        crafted = attack(
            substitutes,
            bases,
            targets,
            eps=settings.eps,
            iterations=settings.iterations,
            **arguments,
            seed=run.seed,
            precision=precision,
            watch=(settings.watch_every, watched) if watched else None,
            progress=progress,
            log=run.log,
            checkpoint=Checkpoint(run.work / "craft"),
            checkpoint_every=max(1, min(100, settings.iterations // 10)),
        )
    if (found := tuple(crafted.poisons.shape)) != (wanted := (len(targets), *bases.shape)):
        raise ValueError(f"{settings.attack}: found poisons of shape {found}, allowed: {wanted}")
    finite = crafted.poisons.flatten(1).isfinite().all(1)
    sound = torch.where(finite.view(-1, 1, 1, 1, 1), crafted.poisons, crafted.bases)
    poisons = quantise(sound, crafted.bases, settings.eps).cpu()
    centres = (crafted.bases * 255.0).round().byte().cpu()
    moved = not bool((centres == trials.base_images).all())
    if moved and not settings.arguments.get("watermark"):
        raise ValueError(
            f"{settings.attack}: found other bases than the given ones, allowed with a watermark only"
        )
    labels = data.fine_tune()[1]
    known = run.labels.get("attack", settings.attack).startswith("white_box")
    threat = ThreatModel(
        knowledge="white_box" if known else "transfer",
        eps=settings.eps,
        poisons_count=settings.poisons,
        class_count=int(labels.bincount().max()),
        fine_tune_count=len(labels),
        setting="transfer",
    )
    rejected = rejections(poisons, centres, threat)
    for t in (~finite.cpu()).nonzero().flatten().tolist():
        rejected[t] = "not finite"
    numbers = trials.target_index.tolist()
    flags = finite.cpu().logical_not().byte()
    for t in rejected:
        flags[t] = 1
    tensors = {"poisons": poisons.contiguous(), "rejected": flags}
    if moved:
        tensors["centres"] = centres.contiguous()
    save_file(tensors, run.output("poisons.safetensors"))
    gallery = {
        "target": trials.target_images[:GALLERY],
        "base": trials.base_images,
        "poison": poisons[:GALLERY],
    }
    save_file({key: value.contiguous() for key, value in gallery.items()}, run.output("gallery.safetensors"))
    _write_history(run.output("history.csv"), crafted.history, settings.watched)

    final = crafted.final_loss.cpu()
    change = (poisons.float() - trials.base_images.float()).abs()
    rows: list[dict[str, Any]] = []
    for t, index in enumerate(numbers):
        row = {
            "target": int(index),
            "loss": float(final[t]),
            "loss_model_mean": float(final[t]) / len(substitutes),
            "linf_255": float(change[t].max()),
            "l1_mean_255": float(change[t].mean()),
            "rejected": rejected.get(t, ""),
        }
        for v, name in enumerate(settings.watched):
            row[f"victim_loss_{name}"] = float(crafted.watched[v][t])
        rows.append(row)
    run.finish(
        {
            "loss": float(final.mean()),
            "loss_model_mean": float(final.mean()) / len(substitutes),
            "linf_255": float(change.max()),
            "l1_mean_255": float(change.mean()),
            "targets_count": len(rows),
            "substitutes_count": len(substitutes),
            "rejected_count": len(rejected),
        },
        trials=(list(rows[0]), [list(row.values()) for row in rows]),
        outcome=crafted.outcome,
        outcome_step=crafted.outcome_step,
        outcome_reason=crafted.outcome_reason,
        threat_model=threat.to_dict(),
        notes=[
            f"set-up: {setups.matching(data, trials) or 'of its own'}",
            *(f"target {numbers[t]} rejected: {why}" for t, why in rejected.items()),
        ],
    )


def _write_history(path: Path, history: list[dict[str, Any]], watched: Sequence[str]) -> None:
    """Write the columns iteration, loss_mean, and the loss on each watched victim (empty where not measured)."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["iteration", "loss_mean", *(f"watch_{name}" for name in watched)])
        for row in history:
            seen = row.get("watch", [""] * len(watched))
            writer.writerow([row["iteration"], row["loss_mean"], *seen])
