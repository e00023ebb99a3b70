"""pretrain: train one network from scratch on the pre-training split.

Settings: architecture, dropout, width, depth, training (the recipe). Input: data. Output: weights.safetensors.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relearn.steps.trained.recipe import SgdOnImages

NEEDS_TORCH = True


@dataclass(frozen=True, kw_only=True)
class Training(SgdOnImages):
    label_smoothing: float


@dataclass(frozen=True, kw_only=True)
class Settings:
    architecture: str
    dropout: float
    width: float
    depth: float
    training: Training


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    import torch
    from torch.nn.functional import cross_entropy

    from relearn.data.arrays import load_prepared
    from relearn.measures.accuracy import accuracy
    from relearn.measures.embed import embed
    from relearn.methods.fit import fit
    from relearn.models import create, files
    from relearn.runs.checkpoint import Checkpoint
    from relearn.runs.console import Progress

    recipe = settings.training
    data = load_prepared(inputs["data"][0])
    images, labels = (tensor.to(device) for tensor in data.pretrain())
    description: dict[str, Any] = {
        "name": settings.architecture,
        "classes": len(data.classes),
        "in_channels": images.shape[1],
        "width": settings.width,
        "depth": settings.depth,
        "dropout": settings.dropout,
        "mean": data.mean.tolist(),
        "std": data.std.tolist(),
    }
    # A substitute and a victim of the same architecture need different initial weights, as do two seeds of either.
    seed = zlib.crc32("/".join((*sorted(run.labels.values()), str(run.seed))).encode())
    torch.manual_seed(seed)
    net = create(**description).to(device)
    with Progress(f"pretrain {settings.architecture}") as progress:
        fitted = fit(
            net,
            (images, labels),
            loss=lambda logits, y: cross_entropy(logits.float(), y, label_smoothing=recipe.label_smoothing),
            seed=seed,
            precision=precision,
            log=run.log,
            progress=progress,
            checkpoint=Checkpoint(run.work / "fit"),
            **recipe.fit_arguments(),
        )
    net.eval()
    test_images, test_labels = data.test()
    with torch.no_grad():
        logits = net.head(embed(net, test_images, precision=precision)).cpu()
    files.save(net, run.output("weights.safetensors"), description)
    run.finish(
        {
            "test_accuracy_frac": accuracy(logits, test_labels),
            "train_loss_nats": fitted.history[-1]["loss"] if fitted.history else float("nan"),
            "parameters_count": sum(parameter.numel() for parameter in net.parameters()),
            "steps_count": fitted.steps,
        },
        outcome=fitted.outcome,
        outcome_step=fitted.outcome_step,
        outcome_reason="loss not finite" if fitted.outcome == "diverged" else None,
    )
