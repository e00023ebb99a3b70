"""train_vision: train a vision network, test it every epoch, and measure its branch-to-trunk ratios.

Settings: ``network`` ({"name": of timm's registry, …: its keyword arguments}); the recipe: optimizer, lr, momentum, betas,
weight_decay (not applied to vectors and to parameters that the network exempts), batch_size, epochs, warmup_epochs, schedule,
label_smoothing, randaugment (null, or magnitude, spread, operations), mixup, cutmix (null, or the α of each; with both, a fair coin
chooses for each batch), ema (null, or the decay of the averaged weights), clip_norm (null: no clipping), crop_padding, flip;
train_images, test_images (0: all; fewer are evenly spaced); ``task``: images | folder (images in folders, randomly cropped
while being read). ``size``, the side in pixels: required for folder; optional for images, which the network then resizes to it.
Optional: ``held_out``, the share of the training images on which the network is tested instead of on the test images;
``average_file``, whether the averaged weights are written as well.
Inputs: data; weights, optional: a network of the same shape whose body initialises this one (its last layer may have other classes);
rates, optional: records of trainings with other learning rates, of which the rate with the best accuracy replaces ``lr``
(diverged ones are excluded; on a tie the lowest rate wins).
Output: history.csv, one row per epoch; layers.csv, what each branch adds before and after training; alphas.csv, for each epoch and stage
the mean and standard deviation of the absolute factors of the branches; model.safetensors (see relearn.models.files; the trained
weights, not the averaged ones); with ``average_file`` averaged.safetensors, the same with the averaged weights.

The learning rate rises during the warm-up and then follows its schedule to the last step. Runs of one suite see the same
images in the same order with the same augmentation, whatever the network. Several processes (``--processes``) share every batch.

Metrics: acc_frac, accbest_frac and ema_acc_frac are accuracies on the test images (last, best, of the averaged weights);
lr is the peak learning rate, rates_count the number of rates among which it was chosen; train_loss_nats is the mean over the last
epoch, with mixtures and label smoothing, loss_first_nats that over the first epoch;
branch_cv_ratio and branch_cv_start_ratio: the coefficient of variation over layers of the ratio of branch to stream, averaged over
attention and MLP; epoch_s: mean time of an epoch of this process without evaluations (CPU time on a CPU, wall time on a GPU).
A run that diverges (loss or outputs not finite, loss beyond 10 ln C) reports its best accuracy before divergence, or the accuracy of
the best constant prediction if there is none. ``not_converged``: neither loss nor accuracy is better than chance, see
:func:`~relearn.steps.trained.chance.learned`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relearn.runs.settings import picked
from relearn.steps.tasks import OnFolder, OnImages

if TYPE_CHECKING:
    from torch import Tensor

    from relearn.models.vision_classifier import VisionClassifier

NEEDS_TORCH = True
PROCESSES = True
PROBED = 64  # test images on which the branches are measured
HISTORY = ("epoch", "step", "loss", "lr", "gradient_norm", "test_accuracy_frac", "ema_accuracy_frac")
WITHOUT = {"gradient_norm": "clip_norm", "ema_accuracy_frac": "ema"}  # no such column without that setting


@dataclass(frozen=True, kw_only=True)
class RandAugment:
    magnitude: float
    spread: float
    operations: int


@dataclass(frozen=True, kw_only=True)
class Training:
    network: Mapping[str, Any]
    optimizer: str
    lr: float
    momentum: float
    betas: tuple[float, float]
    weight_decay: float
    batch_size: int
    epochs: int
    warmup_epochs: float
    schedule: str
    label_smoothing: float
    randaugment: RandAugment | None
    mixup: float | None
    cutmix: float | None
    ema: float | None
    clip_norm: float | None
    train_images: int
    test_images: int
    held_out: float | None = None
    average_file: bool = False


@dataclass(frozen=True, kw_only=True)
class ImagesSettings(Training, OnImages):
    size: int | None = None


@dataclass(frozen=True, kw_only=True)
class FolderSettings(Training, OnFolder):
    pass


Settings = ImagesSettings | FolderSettings


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    import torch

    from relearn.data.evenly_spaced import evenly_spaced
    from relearn.layers.random_feature_gp import RandomFeatureGP
    from relearn.measures.accuracy import accuracy
    from relearn.measures.embed import embed
    from relearn.methods.fit import fit
    from relearn.models import vision
    from relearn.runs.checkpoint import Checkpoint
    from relearn.runs.console import Progress
    from relearn.steps.csv_rows import write_history, write_rows
    from relearn.steps.tasks import vision_recipe as recipe
    from relearn.steps.trained import branches
    from relearn.steps.trained.chance import learned
    from relearn.steps.trained.clock import Clock
    from relearn.steps.trained.seed import seed_of
    from relearn.steps.trained.train import judged

    task = recipe.open_images(
        settings, inputs, device, count=settings.train_images, held_out=settings.held_out
    )
    torch.manual_seed(run.seed)  # the same initialisation after every restart
    net = vision.create(**recipe.describe(settings, task)).to(device)
    notes = []
    if given := inputs.get("weights"):
        notes.append(begin(net, vision.FILE.load(given[0], device)))
    rate = settings.lr
    if rates := inputs.get("rates"):
        rate = best_rate(rates)
        notes.append(f"learning rate {rate:g}, the best of {len(rates)} on held-out training images")
    streamed, size, epochs = settings.task == "folder", settings.batch_size, settings.epochs
    test_images, test_labels = (
        evenly_spaced(rows, settings.test_images) for rows in (task.test_images, task.test_labels)
    )
    probes = evenly_spaced(test_images, PROBED).to(device).float() / 255
    layers = branches.layer_rows("start", net, probes)
    clock = Clock(device)

    def tested(model: VisionClassifier) -> dict[str, float]:
        with torch.no_grad():
            logits = model.head(embed(model, test_images, precision=precision)).cpu()
        # No accuracy if the last step made the weights non-finite, which no loss shows yet.
        return {"accuracy_frac": accuracy(logits, test_labels)} if logits.isfinite().all() else {}

    def evaluate(model: Any) -> dict[str, float]:
        found = {f"test_{key}": value for key, value in tested(model).items()}
        return found | branches.alphas(model)

    with Progress(f"train_vision {' '.join(run.labels.values())}") as progress:
        clock.start()
        fitted = fit(
            net,
            task.source(size, run.processes) if streamed else (task.images, task.labels),
            loss=recipe.smoothed_loss(settings.label_smoothing),
            epochs=epochs,
            batch_size=None if streamed else size,
            lr=rate,
            decay="no_vectors",
            **picked(settings, "optimizer", "momentum", "betas", "weight_decay", "schedule", "clip_norm"),
            warmup_steps=round(settings.warmup_epochs * task.steps_per_epoch(size)),
            augment=recipe.augmentation(settings, task),
            mix=recipe.mixture(settings, task.classes),
            diverged_above=10 * math.log(task.classes),
            evaluate=clock.excluding(evaluate),
            average=settings.ema,
            evaluate_average=None if settings.ema is None else clock.excluding(tested),
            # Studies without suites share one seed per run seed.
            seed=seed_of({"suite": "", **run.labels}, run.seed, "suite"),
            precision=precision,
            log=run.log,
            progress=clock.counting(progress),
            checkpoint=Checkpoint(run.work / "fit"),
            processes=run.processes,
        )
        clock.stop()
    net.eval()
    rows = fitted.history
    ended = judged(fitted, clock, "test_accuracy_frac", "loss not finite, or beyond 10 ln C")
    if ended.outcome == "ok" and not learned(
        rows[-1]["loss"], rows[-1]["test_accuracy_frac"], test_labels, task.classes
    ):
        ended.not_converged("neither loss nor accuracy better than chance")
    head: Any = net.head
    if ended.outcome != "diverged" and isinstance(
        head, RandomFeatureGP
    ):  # its variance needs the training images
        head.fit(embed(net, images, precision=precision) for images in recipe.plain_images(task))
    layers += branches.layer_rows("end", net, probes)
    columns = [
        name for name in HISTORY if name not in WITHOUT or getattr(settings, WITHOUT[name]) is not None
    ]
    write_history(run, columns, rows)
    write_rows(run.output("layers.csv"), branches.LAYERS, layers)
    write_rows(run.output("alphas.csv"), branches.ALPHAS, branches.alpha_rows(rows))
    vision.FILE.save(net, run.output("model.safetensors"))
    if settings.average_file:
        trained = {name: tensor.clone() for name, tensor in net.state_dict().items()}
        if fitted.average is not None:
            net.load_state_dict(fitted.average)
        vision.FILE.save(net, run.output("averaged.safetensors"))
        net.load_state_dict(trained)
    variation = {
        moment: branches.variation(row for row in layers if row["moment"] == moment)
        for moment in ("start", "end")
    }
    per_epoch = task.steps_per_epoch(size)
    epoch = clock.spent / clock.steps * per_epoch if fitted.history and clock.steps else None
    measured = {
        "branch_cv_start_ratio": variation["start"],
        "branch_cv_ratio": variation["end"],
        "epoch_s": epoch,  # none without a finished epoch, or if an earlier process trained all of them
    }
    run.finish(
        {
            **summary(rows, test_labels),
            **{key: value for key, value in measured.items() if value is not None},
            "lr": float(rate),
            "rates_count": float(len(inputs.get("rates") or [None])),
            "steps_count": float(fitted.steps),
            "parameters_count": float(sum(parameter.numel() for parameter in net.parameters())),
        },
        **ended.finish(),
        notes=notes,
    )


def begin(net: VisionClassifier, other: VisionClassifier) -> str:
    """Copy the trunk of another network into ``net``, except its last layer; return a note with the number of tensors.

    The normalisation of the images remains the network's own.

    Raises:
        ValueError: a tensor of the trunk that the other network lacks, or has in another shape.
    """
    mine, theirs = net.state_dict(), other.state_dict()
    last = {f"trunk.{name}" for name, part in net.trunk.named_modules() if part is net.head}
    body = [
        name
        for name in mine
        if name.startswith("trunk.") and not any(name.startswith(f"{one}.") for one in last)
    ]
    for name in body:
        if name not in theirs or theirs[name].shape != mine[name].shape:
            found = tuple(theirs[name].shape) if name in theirs else "nothing"
            raise ValueError(f"weights: {name}: found {found}, allowed: {tuple(mine[name].shape)}")
        mine[name].copy_(theirs[name])
    return f"{len(body)} tensors from other weights"


def best_rate(records: Sequence[Path]) -> float:
    """The learning rate of the record with the best accuracy; the lowest tried if all diverged, to show that no rate trains."""
    import json

    found, tried = [], []
    for path in records:
        record = json.loads(path.read_text(encoding="utf-8"))
        metrics = record["metrics"]
        tried.append(float(metrics["lr"]))
        if record["outcome"] != "diverged" and "acc_frac" in metrics:
            found.append((-float(metrics["acc_frac"]), float(metrics["lr"])))
    return min(found)[1] if found else min(tried)


def summary(rows: Sequence[Mapping[str, float]], labels: Tensor) -> dict[str, float]:
    """Metrics of the history; see the module."""
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
