"""Train an image network from the weights of `initialise` and test it every epoch.

Settings: the recipe, i.e. optimizer, lr, momentum, weight_decay, batch_size, epochs or steps, clip_norm and mixup (null turns
either off), scalars (true: each weight has a scalar factor that is trained with it), test_images (the first ones; 0: all), augmentation.
`task: folder` (ImageNet, images decoded from class folders) takes size instead, and evenly spaced test_images, as they are sorted by
class. Optional: schedule, milestones (in epochs), and
held_out, the share of the training images on which the network is tested instead of on the test images.
Inputs: data, start. Output: history.csv with one row per epoch; with ``steps`` at most ten rows, the last of which has an accuracy.

epoch_s is the time of an epoch without its evaluation: CPU time of this process on a CPU, device time on a GPU.

The learning rate follows a cosine schedule to 0 unless a schedule is given. With ``steps`` it is constant, because in the
published runs of 200 epochs the cosine barely changes the rate within the first epoch. As in the released code, normalisation
layers have no weight decay. Biases of residual networks without normalisation, FixUp's included, and FixUp's scalars have a tenth of
the learning rate.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relearn.steps.csv_rows import write_history
from relearn.steps.tasks import OnFolder, OnImages

NEEDS_TORCH = True
PROCESSES = True
FIXUP_RATES = {"*bias": 0.1, "*scale*": 0.1}
RATES = {
    "FixUpResNet-110": FIXUP_RATES,
    "timm-ResNet-50-FixUp": FIXUP_RATES,
    "ResNet-110": {"*bias": 0.1},
    "ResNet-1202": {"*bias": 0.1},
}
"""Factors of the learning rate by network and name of the parameter."""
BLOCKS = 10
"""Rows of the history of a training of ``steps``."""


@dataclass(frozen=True, kw_only=True)
class Training:
    optimizer: str
    lr: float
    momentum: float | None
    weight_decay: float
    batch_size: int
    epochs: int | None
    steps: int | None
    clip_norm: float | None
    mixup: float | None
    scalars: bool
    test_images: int
    schedule: str | None = None
    milestones: Sequence[float] = ()
    held_out: float | None = None


@dataclass(frozen=True, kw_only=True)
class ImagesSettings(Training, OnImages):
    pass


@dataclass(frozen=True, kw_only=True)
class FolderSettings(Training, OnFolder):
    pass


Settings = ImagesSettings | FolderSettings


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    """See the module."""
    import torch

    from relearn.measures.accuracy import accuracy
    from relearn.measures.embed import embed
    from relearn.methods.fit import fit
    from relearn.methods.learned_scalars import learned_scalars
    from relearn.methods.mixing import mixup
    from relearn.runs.checkpoint import Checkpoint
    from relearn.runs.console import Progress
    from relearn.steps.tasks.vision_recipe import open_images
    from relearn.steps.trained.chance import most_frequent
    from relearn.steps.trained.clock import Clock
    from relearn.steps.trained.seed import seed_of

    task = open_images(settings, inputs, device, held_out=settings.held_out)
    model = task.network(inputs["start"][0])
    seed = seed_of(run.labels, run.seed, "task", "network")  # same batches and augmentation for every start
    streamed = settings.task == "folder"  # images are decoded during training
    size = settings.batch_size
    if streamed:
        task.tested = task.tested.evenly_spaced(settings.test_images)
        task.test_labels = task.tested.labels
    count = settings.test_images or len(task.test_labels)
    test_images, test_labels = task.test_images[:count], task.test_labels[:count]
    clock = Clock(device)

    def evaluate(net: Any) -> dict[str, float]:
        with torch.no_grad():
            logits = net.head(embed(net, test_images, precision=precision)).cpu()
        # The last step can make the outputs non-finite before any loss shows it; then there is no accuracy.
        return {"test_accuracy_frac": accuracy(logits, test_labels)} if logits.isfinite().all() else {}

    steps, epochs = settings.steps, settings.epochs
    with (
        Progress(f"train_from_init {run.labels['network']} {run.labels['initialisation']}") as progress,
        learned_scalars(model) if settings.scalars else contextlib.nullcontext(),
    ):
        clock.start()
        fitted = fit(
            model,
            task.source(size, run.processes) if streamed else (task.images, task.labels),
            loss=task.loss,
            epochs=epochs,
            steps=steps,
            batch_size=None if streamed else size,
            lr=settings.lr,
            optimizer=settings.optimizer,
            momentum=settings.momentum or 0.0,  # AdamW has none
            weight_decay=settings.weight_decay,
            decay="no_norm",
            lr_scale=RATES.get(run.labels["network"]),
            clip_norm=settings.clip_norm,
            schedule=settings.schedule or ("constant" if steps else "cosine"),
            milestones=settings.milestones,
            augment=task.augment,
            mix=mixup(settings.mixup, task.classes) if settings.mixup else None,
            evaluate=clock.excluding(evaluate),
            evaluate_every=BLOCKS if steps else 1,
            history_steps=math.ceil(steps / BLOCKS) if steps else None,
            seed=seed,
            precision=precision,
            log=run.log,
            progress=clock.counting(progress),
            checkpoint=Checkpoint(run.work / "fit"),
            processes=run.processes,
        )
        clock.stop()
    rows = fitted.history
    fields = list(dict.fromkeys(key for row in rows for key in row)) or ["epoch"]
    write_history(run, fields, rows)
    tested = [row["test_accuracy_frac"] for row in rows if "test_accuracy_frac" in row]
    reason = "loss not finite" if fitted.outcome == "diverged" else None
    if fitted.outcome == "ok" and rows and "test_accuracy_frac" not in rows[-1]:
        fitted.outcome, fitted.outcome_step, reason = "diverged", fitted.steps, "outputs not finite"
    chance = most_frequent(test_labels)
    # A diverged run keeps its best accuracy before divergence; without one it has that of a constant prediction.
    metrics = {"accbest_frac": max(tested, default=chance), "steps_count": float(fitted.steps)}
    if tested:
        metrics["accfinal_frac"] = tested[-1]
    if epochs and rows and "test_accuracy_frac" in rows[0]:
        metrics["acc1_frac"] = rows[0]["test_accuracy_frac"]
    if epochs and rows and clock.steps:  # measured in this process only, even if the run was resumed
        metrics["epoch_s"] = clock.spent / clock.steps * task.steps_per_epoch(size)
    if rows:
        metrics |= {"loss_first_nats": rows[0]["loss"], "train_loss_nats": rows[-1]["loss"]}
    run.finish(
        metrics,
        outcome=fitted.outcome,
        outcome_step=fitted.outcome_step,
        outcome_reason=reason,
    )
