"""initialise: a network's start, by GradInit or by one of its rivals.

Settings: task, network, method (a name of ``relearn.methods.INITIALISATIONS``, or null: the network's own start), arguments
of the method, iterations, and the size of a batch. Input: data. Output: weights.safetensors, scales.csv, history.csv.

All methods of one network and seed begin with the same random weights, so that their results can be paired.
"""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from relearn.methods.initialised import Initialised

NEEDS_TORCH = True
SCALED = ("gradinit", "metainit")  # these take so many iterations
ITERATED = (*SCALED, "extra_epoch")  # these step, one batch each
CHECKPOINT_EVERY = 20  # iterations that a kill may cost


def run(run, settings: dict, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    import torch

    from relearn.methods import INITIALISATIONS, load
    from relearn.methods.initialised import Initialised
    from relearn.runs.checkpoint import Checkpoint
    from relearn.runs.console import Progress
    from relearn.steps.tasks import open_task
    from relearn.steps.trained.seed import seed_of

    memory = _memory(device)
    task = open_task(settings, inputs, device)
    torch.manual_seed(seed_of(run.labels, run.seed, "task", "network"))
    model = task.create(settings["network"])
    seed = seed_of(run.labels, run.seed, "task", "network", "initialisation")
    size = settings["max_tokens" if settings["task"] == "translation" else "batch_size"]
    method, arguments = settings["method"], dict(settings["arguments"])
    if arguments.get("gamma", 0) is None:
        arguments["gamma"] = math.inf
    probe = next(task.batches(seed_of(run.labels, run.seed, "task"), size))
    before = _loss_and_norm(model, task.loss, probe)
    batches = (
        task.pools(seed, size, arguments["overlap"]) if method == "gradinit" else task.batches(seed, size)
    )
    with Progress(f"initialise {run.labels['network']} {run.labels['initialisation']}") as progress:
        if method in ITERATED:
            arguments |= {"log": run.log, "progress": progress}
        if method in SCALED:
            arguments["iterations"] = settings["iterations"]
            arguments |= {"checkpoint": Checkpoint(run.work / "scales"), "checkpoint_every": CHECKPOINT_EVERY}
        if method in ("gradinit", "extra_epoch"):
            arguments["precision"] = precision
        if method == "extra_epoch":  # as `learn` trains
            arguments |= {"steps": task.steps_per_epoch(size), "decay": "no_norm"}
        clock = time.perf_counter()
        done: Initialised = Initialised()
        if method not in (None, task.own_start):  # the constructor has drawn that already, as published
            done = load(INITIALISATIONS, method)(model, task.loss, batches, seed=seed, **arguments)
        if device.startswith("cuda"):
            torch.cuda.synchronize(device)
        seconds = time.perf_counter() - clock
    after = _loss_and_norm(model, task.loss, probe)
    task.save(model, run.output("weights.safetensors"))
    kinds = {name: str(list(parameter.shape)) for name, parameter in model.named_parameters()}
    rows = [(name, kinds.get(name, ""), scale) for name, scale in done.scales.items()]
    _table(run.output("scales.csv"), ("name", "shape", "scale"), rows)
    fields = list(dict.fromkeys(key for row in done.history for key in row)) or ["step"]
    _table(run.output("history.csv"), fields, [[row.get(key, "") for key in fields] for row in done.history])
    iterations = float(done.history[-1]["step"]) if method in ITERATED and done.history else 0.0
    run.finish(
        {
            "initialise_s": seconds,
            "peak_memory_bytes": _memory(device) - memory,
            "iterations_count": iterations,
            "constraint_count": float(sum(row.get("kind") == "constraint" for row in done.history)),
            "loss_before_nats": before[0],
            "loss_after_nats": after[0],
            "gradient_norm_before": before[1],
            "gradient_norm_after": after[1],
            "skipped_count": float(len(done.skipped)),
            "parameters_count": float(sum(parameter.numel() for parameter in model.parameters())),
        },
        outcome=done.outcome,
        outcome_step=done.outcome_step,
        outcome_reason=done.outcome_reason,
        notes=[f"no scale, for their norm is zero: {', '.join(done.skipped)}"] if done.skipped else [],
    )


def _loss_and_norm(model: nn.Module, loss: Any, batch: Sequence[Any]) -> tuple[float, float]:
    """Loss and L2 norm of its gradient at a batch, on batch statistics and without dropout; the model stays as it is."""
    import torch

    from relearn.methods.batch_source import outputs
    from relearn.methods.learned_scales import preserve_state

    with preserve_state(model, 0):
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        value = loss(outputs(model, batch[0]), *batch[1:])
        gradients = torch.autograd.grad(value, parameters, allow_unused=True)
    squares = sum(float(g.double().square().sum()) for g in gradients if g is not None)
    return float(value.detach()), math.sqrt(squares) if squares >= 0 else math.nan


def _memory(device: str) -> float:
    """The most memory in use so far, bytes: torch's on an accelerator, the process's elsewhere. The difference to the step's
    beginning is what the data, the network and its initialisation took."""
    import resource
    import sys

    import torch

    if device.startswith("cuda"):
        return float(torch.cuda.max_memory_allocated(device))
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def _table(path: Path, fields: Sequence[str], rows: Sequence[Sequence[Any]] | Sequence[Mapping]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(fields)
        writer.writerows(rows)
