"""classify: train a vision network on images, test it after every epoch, and see how much each residual branch adds to its stream.

Settings: ``network`` ({"name": of timm's registry, …: its keyword arguments}); the recipe: optimizer, lr, momentum, betas,
weight_decay (vectors and what the network names do not decay), batch_size, epochs, warmup_epochs, schedule, label_smoothing,
randaugment (null, or magnitude, spread, operations), mixup, cutmix (null, or the α of each; both: a coin for each batch), ema (null, or
the decay of the averaged weights), clip_norm (null: without), crop_padding, flip; train_images, test_images (0: all, fewer are evenly
spaced); ``task``: images | folder (images that lie in folders, with ``size``, their side in pixels; cropped at random as they are read).
Input: data.
Output: history.csv, a row an epoch; layers.csv, what each branch adds before and after training; alphas.csv, for each epoch and stage
mean and standard deviation of the modulus of what the branches are multiplied by; model.safetensors (see
relearn.models.files; of the trained weights, not of the averaged ones).

The learning rate rises for the warm-up's epochs and follows its schedule from there to the last step. Runs of one suite see the same
images in the same order with the same augmentation, whatever the network.

Metrics: acc_frac, accbest_frac and ema_acc_frac are accuracies on the test images (last, best, of the averaged weights);
train_loss_nats is the mean over the last epoch, with its mixtures and smoothing, loss_first_nats over the first;
branch_cv_ratio and branch_cv_start_ratio: the coefficient of variation of the ratio of branch to stream over layers, mean of attention's
and MLP's. A run that diverges (loss or outputs not finite, loss beyond 10 ln C) has been as good as it was before; one that never got
so far answers one class. ``not_converged``: it has learned nothing, see :func:`~relearn.steps.trained.chance.learned`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from relearn.models.vision_classifier import VisionClassifier

NEEDS_TORCH = True
PROBED = 64  # test images on which the branches are measured
HISTORY = ("epoch", "step", "loss", "lr", "gradient_norm", "test_accuracy_frac", "ema_accuracy_frac")
WITHOUT = {"gradient_norm": "clip_norm", "ema_accuracy_frac": "ema"}  # no such column without that setting


def run(run, settings: dict, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    import torch

    from relearn.data.evenly_spaced import evenly_spaced
    from relearn.layers.random_feature_gp import RandomFeatureGP
    from relearn.measures.accuracy import accuracy
    from relearn.measures.embed import embed
    from relearn.methods.fit import fit
    from relearn.models import vision
    from relearn.runs.checkpoint import Checkpoint
    from relearn.runs.console import Progress
    from relearn.steps.csv_rows import write_rows
    from relearn.steps.tasks import vision_recipe as recipe
    from relearn.steps.trained import branches
    from relearn.steps.trained.chance import learned
    from relearn.steps.trained.clock import EpochClock
    from relearn.steps.trained.seed import seed_of

    task = recipe.open_images(settings, inputs, device)
    torch.manual_seed(run.seed)  # the same start, however often the run is killed
    net = vision.create(**recipe.describe(settings, task)).to(device)
    streamed, size, epochs = settings["task"] == "folder", settings["batch_size"], settings["epochs"]
    test_images, test_labels = (
        evenly_spaced(rows, settings["test_images"]) for rows in (task.test_images, task.test_labels)
    )
    probes = evenly_spaced(test_images, PROBED).to(device).float() / 255
    layers = branches.layer_rows("start", net, probes)
    seconds = EpochClock(device)

    def tell(model: VisionClassifier) -> dict[str, float]:
        with torch.no_grad():
            logits = model.head(embed(model, test_images, precision=precision)).cpu()
        # Not finite: the last step broke the network, and no loss has told it yet. Then there is no accuracy.
        return {"accuracy_frac": accuracy(logits, test_labels)} if logits.isfinite().all() else {}

    def evaluate(model: Any) -> dict[str, float]:
        seconds.stop()
        found = {f"test_{key}": value for key, value in tell(model).items()}
        found |= branches.alphas(model)
        seconds.start()
        return found

    def evaluate_average(model: Any) -> dict[str, float]:
        found = tell(model)
        seconds.start()  # anew: behind evaluate, which stopped the clock
        return found

    with Progress(f"train_vision {' '.join(run.labels.values())}") as progress:
        fitted = fit(
            net,
            task.source(size) if streamed else (task.images, task.labels),
            loss=recipe.smoothed_loss(settings["label_smoothing"]),
            epochs=epochs,
            batch_size=None if streamed else size,
            lr=settings["lr"],
            optimizer=settings["optimizer"],
            momentum=settings["momentum"],
            betas=settings["betas"],
            weight_decay=settings["weight_decay"],
            decay="no_vectors",
            schedule=settings["schedule"],
            warmup_steps=round(settings["warmup_epochs"] * task.steps_per_epoch(size)),
            clip_norm=settings["clip_norm"],
            augment=recipe.augmentation(settings, task),
            mix=recipe.mixture(settings, task.classes),
            diverged_above=10 * math.log(task.classes),
            evaluate=evaluate,
            average=settings["ema"],
            evaluate_average=None if settings["ema"] is None else evaluate_average,
            # Studies without suites share one seed per run seed.
            seed=seed_of({"suite": "", **run.labels}, run.seed, "suite"),
            precision=precision,
            log=run.log,
            progress=progress,
            checkpoint=Checkpoint(run.work / "fit"),
        )
    rows, outcome, step, reason = fitted.history, fitted.outcome, fitted.outcome_step, None
    if outcome == "diverged":
        reason = "loss not finite, or beyond 10 ln C"
    elif rows and "test_accuracy_frac" not in rows[-1]:
        outcome, step, reason = "diverged", fitted.steps, "outputs not finite"
    elif rows and not learned(rows[-1]["loss"], rows[-1]["test_accuracy_frac"], test_labels, task.classes):
        outcome, reason = "not_converged", "neither loss nor accuracy better than chance"
    head: Any = net.head
    if outcome != "diverged" and isinstance(head, RandomFeatureGP):  # its variance wants the training images
        head.fit(embed(net, images, precision=precision) for images in recipe.plain_images(task))
    layers += branches.layer_rows("end", net, probes)
    columns = [name for name in HISTORY if settings.get(WITHOUT.get(name, ""), True) is not None]
    write_rows(
        run.output("history.csv"), columns, ({name: row.get(name) for name in columns} for row in rows)
    )
    write_rows(run.output("layers.csv"), branches.LAYERS, layers)
    write_rows(run.output("alphas.csv"), branches.ALPHAS, branches.alpha_rows(rows))
    vision.FILE.save(net, run.output("model.safetensors"))
    run.finish(
        {
            **summary(rows, test_labels),
            **{
                key: value
                for key, value in (
                    (
                        "branch_cv_start_ratio",
                        branches.variation(row for row in layers if row["moment"] == "start"),
                    ),
                    ("branch_cv_ratio", branches.variation(row for row in layers if row["moment"] == "end")),
                    ("epoch_s", seconds.mean()),
                )
                if value is not None
            },
            "steps_count": float(fitted.steps),
            "parameters_count": float(sum(parameter.numel() for parameter in net.parameters())),
        },
        outcome=outcome,
        outcome_step=step,
        outcome_reason=reason,
    )


def summary(rows: Sequence[Mapping[str, float]], labels: Tensor) -> dict[str, float]:
    """What the history says; see the module."""
    from relearn.steps.trained.chance import most_frequent

    tested = [row["test_accuracy_frac"] for row in rows if "test_accuracy_frac" in row]
    averaged = [row["ema_accuracy_frac"] for row in rows if "ema_accuracy_frac" in row]
    metrics = {"accbest_frac": max(tested, default=most_frequent(labels))}
    if tested:
        metrics["acc_frac"] = tested[-1]
    if averaged:
        metrics["ema_acc_frac"] = averaged[-1]
    if rows:
        metrics |= {"loss_first_nats": rows[0]["loss"], "train_loss_nats": rows[-1]["loss"]}
    return metrics
