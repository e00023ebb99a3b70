"""train_lra: train an encoder on a task of the Long Range Arena; test it, also on perturbed texts.

Settings: ``attention`` (a kind of ``relearn.layers.efficient``) and its ``arguments`` ({} for its defaults); layers, dim, heads, ffn,
dropout, attention_dropout, pooling (class | mean | null: the attention's default); the recipe: steps, batch_size, schedule, lr,
warmup_steps, betas, adam_eps, weight_decay, clip_norm (null: no clipping), evaluations (number, evenly spaced, the last one at the
end), ``trim`` (batches are cut to their longest sequence instead of ``max_length``; padding never affects the outputs, so trimming only
saves time).
Inputs: data (from `relearn long_short prepare_lra`); tried, optional: records of trainings with other seeds that choose lr by their
accuracy on the valid part (:mod:`relearn.steps.trained.tried`). Labels: task (of such a training: of, tried), attention.
Output: history.csv (step, loss, dev_accuracy_frac, lr); predictions.csv, one row per test sample: sample, label, and the predicted class of
the clean sample (none) and of the perturbed ones (insertion, deletion; empty for tasks that are not natural-language text);
model.safetensors (the network with the best dev accuracy, the earliest in case of ties; see relearn.models.files).

AdamW decays all parameters. The schedule ``linear`` rises during the warm-up and then falls to 0. (The released code uses OneCycle,
which rises linearly from lr/25 to lr and then falls linearly to lr/250,000.) Runs with the same task and seed use the same batches for
every attention. In training, an epoch's last batch is dropped if it is smaller; in evaluation, unlike in the released code, it is used.

Metrics: acc_frac, insertion_acc_frac, deletion_acc_frac on the test part and dev_acc_frac on the valid part, of the selected network;
last_acc_frac of the last network; train_loss_nats, the mean loss since the previous row of the history; most_frequent_frac, the test
accuracy of the best constant prediction; parameters_count, steps_count; lr, the peak rate; step_s, the mean time of a training step (CPU
time of this process on a CPU, wall time on a GPU); load_s, the mean time to make a batch, measured separately; data_share_frac =
load_s / step_s.
A diverged run reports its best evaluation, or its initial network if it diverged before the first one. ``not_converged``: see
:func:`learned`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relearn.runs.settings import picked
from relearn.steps.trained.classes import class_error, predict, share
from relearn.steps.trained.recipe import AdamRecipe

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from relearn.data.lra.batches import SequenceBatches
    from relearn.data.lra.sequences import Sequences
    from relearn.models.lra_encoder import LRAEncoder
    from relearn.steps.trained.train import Ended

NEEDS_TORCH = True
HISTORY = ("step", "loss", "dev_accuracy_frac", "lr")
TESTS = ("none", "insertion", "deletion")
LOADED = 20  # number of batches used to time batch creation


@dataclass(frozen=True, kw_only=True)
class Settings(AdamRecipe):
    attention: str
    arguments: Mapping[str, Any]
    layers: int
    dim: int
    heads: int
    ffn: int
    dropout: float
    attention_dropout: float
    pooling: str | None
    batch_size: int
    trim: bool


def run(run: Any, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    from functools import partial

    import torch

    from relearn.data.lra.batches import SequenceBatches
    from relearn.data.lra.sequences import load
    from relearn.models import lra_encoder
    from relearn.steps.trained.best import Best
    from relearn.steps.trained.seed import seed_of
    from relearn.steps.trained.train import train
    from relearn.steps.trained.tried import best_tried

    tried = inputs.get("tried", [])
    if tried:
        settings = replace(settings, lr=best_tried("lr", tried))
    data = load(inputs["data"][0])
    torch.manual_seed(run.seed)  # the same initial weights after every restart
    net = network(settings, data).to(device)
    batches = partial(
        SequenceBatches,
        batch_size=settings.batch_size,
        length=data.max_length,
        trim=settings.trim,
        device=device,
    )
    source = batches(data.part("train"), whole=True)
    valid, labels = batches(data.part("valid")), torch.from_numpy(data.part("test").labels)
    dev_labels = torch.from_numpy(data.part("valid").labels)
    best = Best(run.work, lra_encoder.FILE.save, least=-1.0)

    def evaluate(model: Any) -> dict[str, float]:
        """Dev accuracy; empty if the last step made the outputs non-finite, which the loss does not show yet."""
        predicted = predict(model, valid, precision)
        if predicted is None:
            return {}
        accuracy = share(predicted, dev_labels)
        best.offer(model, accuracy)
        return {"dev_accuracy_frac": accuracy}

    start = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    ended = train(
        run,
        f"train_lra {data.task} {settings.attention}",
        net,
        source,
        recipe=settings,
        evaluate=evaluate,
        judged_by="dev_accuracy_frac",
        device=device,
        diverged="loss not finite, or beyond 10 ln C",
        loss=class_error,
        diverged_above=10 * math.log(data.classes),
        seed=seed_of({"task": data.task}, run.seed, "task"),
        precision=precision,
    )
    history = ended.fitted.history
    last = predict(net, batches(data.part("test")), precision)
    if not best.file.exists():  # diverged before the first evaluation
        net.load_state_dict(start)
        with torch.no_grad():
            history.append({"step": 0.0, **evaluate(net.eval())})
    chosen = lra_encoder.FILE.load(best.file, device)
    found = {"none": predict(chosen, batches(data.part("test")), precision)}
    found |= {kind: predict(chosen, batches(data.part(f"test_{kind}")), precision) for kind in data.perturbed}
    accuracy = {kind: share(one, labels) for kind, one in found.items() if one is not None}
    clean = accuracy["none"]  # the selected network had finite outputs
    if ended.outcome == "ok" and not learned(history[-1]["loss"], clean, source.labels, labels):
        ended.not_converged("neither loss nor accuracy better than a constant answer")
    write(run, history, found, labels)
    best.copy_to(run.output("model.safetensors"))
    metrics = {
        "acc_frac": clean,
        "dev_acc_frac": max(
            (one["dev_accuracy_frac"] for one in history if "dev_accuracy_frac" in one), default=None
        ),
        "last_acc_frac": None if last is None else share(last, labels),
        "insertion_acc_frac": accuracy.get("insertion"),
        "deletion_acc_frac": accuracy.get("deletion"),
        "train_loss_nats": next((one["loss"] for one in reversed(history) if "loss" in one), None),
        "most_frequent_frac": float(labels.bincount().max()) / len(labels),
        "lr": settings.lr,
        "parameters_count": float(sum(parameter.numel() for parameter in net.parameters())),
        **times(ended, load_time(source, device)),
    }
    run.finish(
        {key: value for key, value in metrics.items() if value is not None},
        notes=[
            f"{data.task} of {data.dataset}, version {data.version}",
            *([f"learning rate {settings.lr:g}, the best of {len(tried)} trainings"] if tried else []),
        ],
        **ended.finish(),
    )


def write(
    run: Any, history: list[dict[str, float]], found: Mapping[str, Tensor | None], labels: Tensor
) -> None:
    """Write history.csv and predictions.csv."""
    from relearn.steps.csv_rows import write_history, write_rows

    write_history(run, HISTORY, history)
    columns = [found.get(kind) for kind in TESTS]
    write_rows(
        run.output("predictions.csv"),
        ("sample", "label", *TESTS),
        (
            [place, int(label), *(None if one is None else int(one[place]) for one in columns)]
            for place, label in enumerate(labels)
        ),
    )


def times(ended: Ended, load_s: float) -> dict[str, float]:
    """Steps and times of the training; without step time if a resumed process only writes the results of finished training."""
    clock = ended.clock
    found = {"steps_count": float(ended.fitted.steps), "load_s": load_s, **clock.per_step()}
    if clock.steps and clock.spent:
        found["data_share_frac"] = load_s * clock.steps / clock.spent
    return found


def network(settings: Settings, data: Sequences) -> LRAEncoder:
    """The encoder for a prepared task; its weights are drawn from torch's global generator.

    Raises:
        ValueError: settings that the encoder or its attention rejects.
    """
    from relearn.models.lra_encoder import create

    return create(
        settings.attention,
        **picked(settings, "layers", "dim", "heads", "ffn", "dropout", "attention_dropout", "pooling"),
        vocabulary=data.vocabulary,
        classes=data.classes,
        max_length=data.max_length,
        pairs=data.pairs,
        attention_arguments=settings.arguments,
        padding=0 if data.padded else None,
    )


def learned(train_loss: float, accuracy: float, trained: Tensor, tested: Tensor) -> bool:
    """Whether a network is better than a constant prediction.

    True if the training loss is 2% below the entropy of the training labels, which is the loss of the best constant prediction, or if
    the test accuracy is 2 standard errors above that of the most frequent class.
    """
    from relearn.steps.trained.chance import BELOW, above_chance

    share = trained.bincount().double() / len(trained)
    entropy = -float(share[share > 0] @ share[share > 0].log())
    chance = float(tested.bincount().max()) / len(tested)
    return train_loss < BELOW * entropy or above_chance(accuracy, chance, len(tested))


def load_time(batches: SequenceBatches, device: str | torch.device) -> float:
    """Mean time in seconds to make a training batch, over ``LOADED`` batches after one warm-up batch."""
    import torch

    from relearn.steps.trained.step_time import timed

    generator = torch.Generator().manual_seed(0)

    def endless() -> Iterator[Any]:
        while True:
            yield from batches.epoch(generator)

    source = endless()
    next(source)

    def load() -> None:
        for _ in range(LOADED):
            next(source)

    return timed(load, str(device)) / LOADED
