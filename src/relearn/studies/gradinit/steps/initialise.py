"""Initialise a network by GradInit or by a baseline method.

Settings: task, network, method (a name of ``relearn.methods.INITIALISATIONS``; null keeps the weights that the network's
constructor draws), arguments of the method, iterations, and batch_size (images) or max_tokens (translation). Inputs: data, tried
(records of trainings that choose tau, :mod:`relearn.steps.trained.tried`). Output: weights.safetensors, scales.csv, history.csv.

initialise_s is CPU time of this process on a CPU and device time on a GPU; a run that resumed from a checkpoint has none, because its
first part was not timed. constraint_frac is the share of iterations in which the norm of the gradient exceeded its bound and was
minimised instead of the loss after a step. tau_iterations is tau times the number of iterations, roughly the distance that a factor can
move.

For the same network and seed, all methods start from the same random weights, so their results can be paired.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relearn.steps.csv_rows import write_history, write_rows
from relearn.steps.tasks import OnFolder, OnImages, OnTranslation, open_task

if TYPE_CHECKING:
    from torch import nn

    from relearn.methods.initialised import Initialised

NEEDS_TORCH = True
SCALED = ("gradinit", "metainit")
"""Methods that take a number of iterations."""
ITERATED = (*SCALED, "extra_epoch")
"""Methods that take one batch per iteration."""
CHECKPOINT_EVERY = 20
"""Iterations between two checkpoints."""


@dataclass(frozen=True, kw_only=True)
class Initialisation:
    network: Mapping[str, Any]
    method: str | None
    arguments: Mapping[str, Any]
    iterations: int | None


@dataclass(frozen=True, kw_only=True)
class ImagesSettings(Initialisation, OnImages):
    batch_size: int


@dataclass(frozen=True, kw_only=True)
class FolderSettings(Initialisation, OnFolder):
    batch_size: int


@dataclass(frozen=True, kw_only=True)
class TranslationSettings(Initialisation, OnTranslation):
    max_tokens: int


Settings = ImagesSettings | FolderSettings | TranslationSettings


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    """See the module."""
    import torch

    from relearn.methods import INITIALISATIONS, load
    from relearn.methods.initialised import Initialised
    from relearn.runs.checkpoint import Checkpoint
    from relearn.runs.console import Progress
    from relearn.steps.trained.clock import Clock
    from relearn.steps.trained.seed import seed_of
    from relearn.steps.trained.tried import best_tried

    if tried := inputs.get("tried"):
        settings = replace(settings, arguments={**settings.arguments, "tau": best_tried("tau", tried)})
    memory = _peak_memory(device)
    task = open_task(settings, inputs, device)
    torch.manual_seed(seed_of(run.labels, run.seed, "task", "network"))
    model = task.create(settings.network)
    seed = seed_of(run.labels, run.seed, "task", "network", "initialisation")
    size = settings.max_tokens if settings.task == "translation" else settings.batch_size
    method, arguments = settings.method, dict(settings.arguments)
    if arguments.get("gamma", 0) is None:
        arguments["gamma"] = math.inf
    probe = next(task.batches(seed_of(run.labels, run.seed, "task"), size))
    before = _loss_and_norm(model, task.loss, probe)
    batches = (
        task.pools(seed, size, arguments["overlap"]) if method == "gradinit" else task.batches(seed, size)
    )
    with Progress(f"initialise {run.labels['network']} {run.labels['initialisation']}") as progress:
        if method in ITERATED:
            arguments |= {"log": run.log, "progress": progress, "precision": precision}
        continued = False
        if method in SCALED:
            arguments["iterations"] = settings.iterations
            checkpoint = Checkpoint(run.work / "scales")
            continued = checkpoint.load() is not None
            arguments |= {"checkpoint": checkpoint, "checkpoint_every": CHECKPOINT_EVERY}
        if method == "extra_epoch":  # as in `train_from_init`
            arguments |= {"steps": task.steps_per_epoch(size), "decay": "no_norm"}
        clock = Clock(device)
        clock.start()
        done: Initialised = Initialised()
        if method not in (None, task.own_start):  # the constructor already draws `own_start`
            done = load(INITIALISATIONS, method)(model, task.loss, batches, seed=seed, **arguments)
        clock.stop()
    after = _loss_and_norm(model, task.loss, probe)
    task.save(model, run.output("weights.safetensors"))
    kinds = {name: str(list(parameter.shape)) for name, parameter in model.named_parameters()}
    rows = [(name, kinds.get(name, ""), scale) for name, scale in done.scales.items()]
    write_rows(run.output("scales.csv"), ("name", "shape", "scale"), rows)
    fields = list(dict.fromkeys(key for row in done.history for key in row)) or ["step"]
    write_history(run, fields, done.history)
    iterations = float(done.history[-1]["step"]) if method in ITERATED and done.history else 0.0
    run.finish(
        {
            **({} if continued else {"initialise_s": clock.spent}),
            "peak_memory_bytes": _peak_memory(device) - memory,
            "iterations_count": iterations,
            **_search(settings, done),
            **({"tau": settings.arguments["tau"]} if tried else {}),
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
        notes=[f"no scale, because their norm is zero: {', '.join(done.skipped)}"] if done.skipped else [],
    )


def _search(settings: Initialisation, done: Initialised) -> dict[str, float]:
    """Number and share of iterations that minimised the gradient norm because it exceeded its bound, and tau times iterations."""
    found = {"constraint_count": float(sum(row.get("kind") == "constraint" for row in done.history))}
    if done.history and settings.arguments.get("gamma"):
        found["constraint_frac"] = found["constraint_count"] / len(done.history)
    if done.history and settings.iterations and settings.arguments.get("tau"):
        found["tau_iterations"] = settings.arguments["tau"] * settings.iterations
    return found


def _loss_and_norm(model: nn.Module, loss: Any, batch: Sequence[Any]) -> tuple[float, float]:
    """Return the loss of a batch and the L2 norm of its gradient, with batch statistics and without dropout.

    The model does not change.
    """
    import torch

    from relearn.methods.batch_source import outputs
    from relearn.methods.learned_scales import preserve_state

    with preserve_state(model, 0):
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        value = loss(outputs(model, batch[0]), *batch[1:])
        gradients = torch.autograd.grad(value, parameters, allow_unused=True)
    squares = sum(float(g.double().square().sum()) for g in gradients if g is not None)
    return float(value.detach()), math.sqrt(squares) if squares >= 0 else math.nan


def _peak_memory(device: str) -> float:
    """Return the peak memory so far, in bytes: allocated by torch on a GPU, otherwise resident memory of this process.

    The difference between the end and the beginning of the step is due to data, network and initialisation.
    """
    import torch

    from relearn.runs.provenance import resident_peak

    cuda = device.startswith("cuda")
    return float(torch.cuda.max_memory_allocated(device) if cuda else resident_peak())
