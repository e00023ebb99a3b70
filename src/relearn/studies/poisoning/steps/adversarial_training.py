"""adversarial_training: train a pre-trained network adversarially, as a defence (zhu2022, 2.3.3).

Settings: architecture, training (the recipe), adversarial {eps, steps, step_size}. Inputs: data, start (initial weights).
Output: weights.safetensors.

The training images are those of the pre-training split. The text asks for "an adversarially trained feature extractor". We start from
the trained victim rather than from scratch, so that both victims share their initial weights and a short training suffices.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path

from relearn.runs.settings import plain
from relearn.steps.trained.recipe import SgdOnImages

NEEDS_TORCH = True


@dataclass(frozen=True, kw_only=True)
class Adversarial:
    eps: float
    steps: int
    step_size: float


@dataclass(frozen=True, kw_only=True)
class Settings:
    architecture: str
    training: SgdOnImages
    adversarial: Adversarial


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    import torch
    from torch.nn.functional import cross_entropy

    from relearn.data.arrays import load_prepared
    from relearn.measures.accuracy import accuracy
    from relearn.measures.embed import embed
    from relearn.methods.adversarial_training import AdversarialGradient
    from relearn.methods.fit import fit
    from relearn.models import files
    from relearn.runs.checkpoint import Checkpoint
    from relearn.runs.console import Progress

    data = load_prepared(inputs["data"][0])
    images, labels = (tensor.to(device) for tensor in data.pretrain())
    test_images, test_labels = data.test()
    start = inputs["start"][0]
    description = describe(start)
    if description["name"] != settings.architecture:
        raise ValueError(f"{start}: holds a {description['name']}; allowed: {settings.architecture}")
    net = files.load(start, device)

    def clean_accuracy() -> float:
        with torch.no_grad():
            return accuracy(net.head(embed(net, test_images, precision=precision)).cpu(), test_labels)

    before = clean_accuracy()
    with Progress(f"harden {settings.architecture}") as progress:
        fitted = fit(
            net,
            (images, labels),
            loss=lambda logits, y: cross_entropy(logits.float(), y),
            gradient=AdversarialGradient(**plain(settings.adversarial)),
            seed=zlib.crc32("/".join((*sorted(run.labels.values()), str(run.seed))).encode()),
            precision=precision,
            log=run.log,
            progress=progress,
            checkpoint=Checkpoint(run.work / "fit"),
            **settings.training.fit_arguments(),
        )
    net.eval()
    files.save(net, run.output("weights.safetensors"), description)
    run.finish(
        {
            "test_accuracy_frac": clean_accuracy(),
            "start_test_accuracy_frac": before,
            "adversarial_train_loss_nats": fitted.history[-1]["loss"] if fitted.history else float("nan"),
            "parameters_count": sum(parameter.numel() for parameter in net.parameters()),
            "steps_count": fitted.steps,
        },
        outcome=fitted.outcome,
        outcome_step=fitted.outcome_step,
        outcome_reason="loss not finite" if fitted.outcome == "diverged" else None,
        notes=[
            "the attack of each step: l-infinity, one random start, network in eval mode; zhu2022 loses eps"
        ],
    )


def describe(path: Path) -> dict:
    """Read the arguments of :func:`relearn.models.create` stored in a weights file.

    Raises:
        ValueError: not a weights file, or no arguments stored in it.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            text = (file.metadata() or {}).get("network")
    except SafetensorError as error:
        raise ValueError(f"{path}: not the weights of a network: {str(error).splitlines()[0]}") from None
    if text is None:
        raise ValueError(f"{path}: no description of a network in it (allowed: files written by relearn)")
    return dict(json.loads(text))
