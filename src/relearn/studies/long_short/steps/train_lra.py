"""understand: train an encoder on one task of the Long Range Arena and test it, also on perturbed texts.

Settings: ``attention`` (a kind of ``relearn.layers.efficient``) and ``arguments`` (its own, {} for its defaults); layers, dim, heads, ffn,
dropout, attention_dropout, pooling (class | mean | null: what the kind can); the recipe: steps, batch_size, schedule, lr, warmup_steps,
betas, adam_eps, weight_decay, clip_norm (null: without), evaluations (so many, evenly spaced, the last one at the end), ``trim`` (cut a
batch to its longest sequence instead of ``max_length``: padding changes nothing in any kind, and trimming saves its time).
Input: data (of `relearn sequences`). Labels: task, attention.
Output: history.csv (step, loss, dev_accuracy_frac, lr); predictions.csv, a row a test sample: sample, label, and the predicted class of the
sample as it is (none) and of the perturbed ones (insertion, deletion; empty where the task is not written text); model.safetensors (the
network at its best dev accuracy, the earliest of equals; see relearn.models.files).

AdamW with decoupled decay of all parameters; ``linear`` rises for the warm-up's steps and falls to 0. (The released code: OneCycle, from
lr/25 over lr to lr/250,000, both linear.) Runs of one task and seed see the same batches, whatever the attention. Loaders leave out an
epoch's last batch where it is smaller; unlike the released ones, not in tests.

Metrics: acc_frac, insertion_acc_frac, deletion_acc_frac on the test part and dev_acc_frac on the valid part, of the kept network;
last_acc_frac of the last one; train_loss_nats is the mean since the history's row before the last; most_frequent_frac (the best constant
answer on the test part); parameters_count, steps_count; step_s, the mean time of a training step (CPU time on a CPU, wall time on a GPU,
of this process alone); load_s, the mean time of making a batch, alone, and data_share_frac = load_s / step_s.
A run that diverges keeps what it was at its best evaluation, the start's where there was none. ``not_converged``: see :func:`learned`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from relearn.data.lra.batches import SequenceBatches
    from relearn.data.lra.sequences import Sequences
    from relearn.models.lra_encoder import LRAEncoder

NEEDS_TORCH = True
HISTORY = ("step", "loss", "dev_accuracy_frac", "lr")
TESTS = ("none", "insertion", "deletion")
LOADED = 20  # batches whose making is timed


def run(run, settings: dict, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    from functools import partial

    import torch

    from relearn.data.lra.batches import SequenceBatches
    from relearn.data.lra.sequences import load
    from relearn.methods.fit import fit
    from relearn.models import lra_encoder
    from relearn.runs.atomic_files import write
    from relearn.runs.checkpoint import Checkpoint
    from relearn.runs.console import Progress
    from relearn.steps.csv_rows import write_rows
    from relearn.steps.trained.clock import Clock
    from relearn.steps.trained.seed import seed_of
    from relearn.steps.trained.spacing import spacing

    data = load(inputs["data"][0])
    torch.manual_seed(run.seed)  # the same start, however often the run is killed
    net = network(settings, data).to(device)
    batches = partial(
        SequenceBatches,
        batch_size=settings["batch_size"],
        length=data.max_length,
        trim=settings["trim"],
        device=device,
    )
    train = batches(data.part("train"), whole=True)
    valid, labels = batches(data.part("valid")), torch.from_numpy(data.part("test").labels)
    # They outlive a kill, as the checkpoint does.
    best, kept = run.work / "best.json", run.work / "best.safetensors"

    def evaluate(model: Any) -> dict[str, float]:
        clock.stop()
        found = predict(model, valid, precision)
        right = (
            None
            if found is None
            else float((found == torch.from_numpy(data.part("valid").labels)).double().mean())
        )
        if right is not None and right > (json.loads(best.read_bytes()) if best.exists() else -1.0):
            half = kept.with_suffix(".part")
            lra_encoder.FILE.save(model, half)
            half.replace(kept)
            write(best, json.dumps(right).encode())
        clock.start()
        # Not finite: the last step broke the network, and no loss has told it yet. Then there is no accuracy.
        return {} if right is None else {"dev_accuracy_frac": right}

    start = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    clock = Clock(device)
    row, every = spacing(settings["steps"], settings["evaluations"])
    with Progress(f"understand {data.task} {settings['attention']}") as progress:
        clock.start()
        fitted = fit(
            net,
            train,
            loss=loss,
            steps=settings["steps"],
            lr=settings["lr"],
            optimizer="adamw",
            betas=settings["betas"],
            eps=settings["adam_eps"],
            weight_decay=settings["weight_decay"],
            schedule=settings["schedule"],
            warmup_steps=settings["warmup_steps"],
            clip_norm=settings["clip_norm"],
            diverged_above=10 * math.log(data.classes),
            seed=seed_of({"task": data.task}, run.seed, "task"),
            precision=precision,
            evaluate=evaluate,
            evaluate_every=every,
            history_steps=row,
            log=run.log,
            progress=clock.counting(progress),
            checkpoint=Checkpoint(run.work / "fit"),
            checkpoint_steps=max(50, settings["steps"] // 10),
        )
        clock.stop()
    history, outcome, at, reason = fitted.history, fitted.outcome, fitted.outcome_step, None
    if outcome == "diverged":
        reason = "loss not finite, or beyond 10 ln C"
    elif "dev_accuracy_frac" not in history[-1]:
        outcome, at, reason = "diverged", fitted.steps, "outputs not finite"
    last = predict(net, batches(data.part("test")), precision)
    if not kept.exists():  # diverged before the first evaluation: it has never been better than its start
        net.load_state_dict(start)
        with torch.no_grad():
            history.append({"step": 0.0, **evaluate(net.eval())})
    chosen = lra_encoder.FILE.load(kept, device)
    found = {"none": predict(chosen, batches(data.part("test")), precision)}
    found |= {kind: predict(chosen, batches(data.part(f"test_{kind}")), precision) for kind in data.perturbed}
    accuracy = {
        kind: float((one == labels).double().mean()) for kind, one in found.items() if one is not None
    }
    chance = float(labels.bincount().max()) / len(labels)
    if outcome == "ok" and not learned(history[-1]["loss"], accuracy["none"], train.labels, labels):
        outcome, reason = "not_converged", "neither loss nor accuracy better than a constant answer"
    write_rows(
        run.output("history.csv"), HISTORY, ({key: one.get(key) for key in HISTORY} for one in history)
    )
    columns = [found.get(kind) for kind in TESTS]
    write_rows(
        run.output("predictions.csv"),
        ("sample", "label", *TESTS),
        (
            [place, int(label), *(None if one is None else int(one[place]) for one in columns)]
            for place, label in enumerate(labels)
        ),
    )
    run.output("model.safetensors").write_bytes(kept.read_bytes())
    load_s = load_time(train, device)
    metrics = {
        "acc_frac": accuracy["none"],
        "dev_acc_frac": max(
            (one["dev_accuracy_frac"] for one in history if "dev_accuracy_frac" in one), default=None
        ),
        "last_acc_frac": None if last is None else float((last == labels).double().mean()),
        "insertion_acc_frac": accuracy.get("insertion"),
        "deletion_acc_frac": accuracy.get("deletion"),
        "train_loss_nats": next((one["loss"] for one in reversed(history) if "loss" in one), None),
        "most_frequent_frac": chance,
        "parameters_count": float(sum(parameter.numel() for parameter in net.parameters())),
        "steps_count": float(fitted.steps),
        "load_s": load_s,
    }
    if clock.steps:  # none where a finished training is only written down
        metrics |= {
            "step_s": clock.spent / clock.steps,
            "data_share_frac": load_s * clock.steps / clock.spent if clock.spent else None,
        }
    run.finish(
        {key: value for key, value in metrics.items() if value is not None},
        outcome=outcome,
        outcome_step=at,
        outcome_reason=reason,
        notes=[f"{data.task} of {data.dataset}, version {data.version}"],
    )


def network(settings: Mapping[str, Any], data: Sequences) -> LRAEncoder:
    """The encoder of a run's settings for a prepared task, its start drawn from torch's global generator.

    Raises:
        ValueError: what the encoder or its attention refuses.
    """
    from relearn.models.lra_encoder import create

    words = ("layers", "dim", "heads", "ffn", "dropout", "attention_dropout", "pooling")
    return create(
        settings["attention"],
        **{key: settings[key] for key in words},
        vocabulary=data.vocabulary,
        classes=data.classes,
        max_length=data.max_length,
        pairs=data.pairs,
        attention_arguments=settings["arguments"],
        padding=0 if data.padded else None,
    )


def loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross entropy in nats, in single precision at least."""
    from torch.nn.functional import cross_entropy

    return cross_entropy(logits if logits.element_size() > 2 else logits.float(), labels)


def predict(net: nn.Module, batches: SequenceBatches, precision: str) -> Tensor | None:
    """The class of each sample (N,) int64 on the CPU, in eval mode; None where a logit is not finite."""
    import contextlib

    import torch

    found = []
    device = next(net.parameters()).device
    mixed = torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()
    with torch.no_grad(), mixed:
        for inputs, _ in batches.in_order():
            logits = net(*inputs)
            if not logits.isfinite().all():
                return None
            found.append(logits.argmax(-1).cpu())
    return torch.cat(found)


def learned(train_loss: float, accuracy: float, trained: Tensor, tested: Tensor) -> bool:
    """Whether the training loss is 2% below the entropy of the training labels, which the best constant answer reaches, or the test
    accuracy 2 standard errors above that of the most frequent class."""
    from relearn.steps.trained.chance import BELOW, above_chance

    share = trained.bincount().double() / len(trained)
    entropy = -float(share[share > 0] @ share[share > 0].log())
    chance = float(tested.bincount().max()) / len(tested)
    return train_loss < BELOW * entropy or above_chance(accuracy, chance, len(tested))


def load_time(batches: SequenceBatches, device: str | torch.device) -> float:
    """Mean seconds of making a training batch, over ``LOADED`` of them after one that is not counted."""
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
