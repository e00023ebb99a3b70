"""evaluate: what a trained network is worth, or whether a proposition holds; one protocol a run (label `protocol`).

`accuracy`: settings calibration_bins; inputs data, network. `hull`: settings dimension, poisons, problems; no inputs.
"""

from __future__ import annotations

from pathlib import Path

NEEDS_TORCH = True


def run(run, settings: dict, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    protocols = {"accuracy": _accuracy, "hull": _hull}
    protocols[settings["protocol"]](run, settings, inputs, device, precision)


def _accuracy(run, settings, inputs, device, precision) -> None:
    import torch

    from relearn.data.arrays import load_prepared
    from relearn.measures.accuracy import accuracy, per_class_accuracy
    from relearn.measures.calibration import calibration
    from relearn.measures.embed import embed
    from relearn.models import files

    data = load_prepared(inputs["data"][0])
    net = files.load(inputs["network"][0], device)
    images, labels = data.test()
    with torch.no_grad():
        logits = net.head(embed(net, images, precision=precision)).cpu()
    found = calibration(logits, labels, bins=settings["calibration_bins"])
    classes = per_class_accuracy(logits, labels, classes=logits.shape[1])
    run.finish(
        {"test_accuracy_frac": accuracy(logits, labels), **found, "test_count": len(labels)},
        trials=(["class", "accuracy_frac"], list(enumerate(classes.tolist()))),
    )


def _hull(run, settings, inputs, device, precision) -> None:
    from relearn.measures.hull import check_proposition

    found = check_proposition(
        dimension=settings["dimension"],
        poisons=settings["poisons"],
        problems=settings["problems"],
        seed=run.seed,
    )
    run.finish(found)
