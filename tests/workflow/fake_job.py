"""A stand-in for `relearn` on PATH: a step writes a sound record and tiny artefacts at once.

Verbs are the real ones. The artefacts' bytes follow from settings, code, labels, seed and the inputs' bytes,
as those of a real run do. Each step that runs is noted as a line in the file that PRETEND_CALLS names.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from pathlib import Path

ARTEFACTS = {
    "prepare": ["data.safetensors"],
    "prepare_images": ["data.safetensors"],
    "split_overlap": ["data.safetensors"],
    "pretrain": ["weights.safetensors"],
    "adversarial_training": ["weights.safetensors"],
    "craft": ["poisons.safetensors", "gallery.safetensors", "history.csv"],
    "filter": ["kept.safetensors"],
    "train": [],
    "evaluate_networks": ["loss_curves.csv"],
    "feature_plane": [],
    "hull_proposition": [],
    "toy_example": [],
    "list_imagenet": ["listing.json"],
    "prepare_translation": ["corpus.safetensors"],
    "initialise": ["weights.safetensors", "scales.csv", "history.csv"],
    "train_from_init": ["history.csv"],
    "train_translation": ["history.csv", "hypotheses.txt"],
    "gradient_statistics": ["layers.csv"],
    "check_batch_norm": ["cases.csv"],
    "count_params": ["counts.csv"],
    "characters": ["characters.safetensors"],
    "language": ["weights.safetensors", "history.csv"],
    "ascend": ["ascents.csv", "curve.csv"],
    "invert": ["errors.csv", "ranges.csv"],
    "examine": [],
    "clock": ["times.csv"],
    "count": ["counts.csv"],
    "classify": ["history.csv", "layers.csv", "alphas.csv", "model.safetensors"],
    "throughput": ["throughput.csv"],
    "retest": ["retest.csv"],
    "sequences": ["data.safetensors"],
    "understand": ["history.csv", "predictions.csv", "model.safetensors"],
    "stream": ["stream.safetensors"],
    "predict": ["history.csv", "norms.csv", "model.safetensors"],
    "cost": [],
    "similarity": ["similarity.csv"],
    "adapt": ["history.csv", "predictions.csv", "model.safetensors"],
    "withstand": ["sets.csv", "attacks.csv", "bad_images.csv"],
    "acquire": ["history.csv", "encoder.safetensors"],
    "finetune": ["history.csv", "answers.csv", "model.safetensors"],
    "provoke": ["increases.csv"],
    "vote": ["scores.csv", "submission.zip"],
    "contrast": ["history.csv", "answers.csv", "weights.safetensors"],
    "uncertainty": ["calibration.csv", "ood.csv", "distance.csv", "scores.csv"],
}
COSTS = {"curve": "cost.csv", "latency": "latency.csv"}
TRIALS = ("craft", "filter", "train", "evaluate_networks", "feature_plane", "toy_example")


def artefacts(command: str, labels: dict[str, str]) -> list[str]:
    """What a run leaves beside its record and its trials."""
    names = list(ARTEFACTS[command])
    if command == "train" and labels["attack"] == "clean" and labels["setting"] != "end_to_end":
        names.append("features.safetensors")
    if command == "cost":
        names.append(COSTS[labels["protocol"]])
    if labels.get("family") == "gradient":
        names = ["gradients.csv"]
    if labels.get("protocol") == "activations":
        names.append("curves.csv")
    if command == "examine":
        names.append("histogram.csv" if labels["protocol"] == "outputs" else "cases.csv")
    return names


def content(name: str, text: str) -> bytes:
    """A file of its kind that says where it comes from: safetensors without tensors, or a line of text."""
    if not name.endswith(".safetensors"):
        return f"{name} {text}\n".encode()
    header = json.dumps({"__metadata__": {name: text}}).encode()
    return len(header).to_bytes(8, "little") + header


def step(args: argparse.Namespace) -> None:
    from relearn.runs import record

    inputs: dict[str, list[Path]] = {}
    for name, *paths in args.input:  # a name may come again
        inputs.setdefault(name, []).extend(map(Path, paths))
    labels = dict(args.label)
    known = [args.settings, args.code, sorted(labels.items()), args.seed]
    sums = {name: [record.digest(path) for path in paths] for name, paths in inputs.items()}
    text = hashlib.sha256(json.dumps([known, sums], sort_keys=True).encode()).hexdigest()
    run = record.Run(
        args.out,
        study=args.study,
        paper="zhu2022",
        step=args.command,
        labels=labels,
        scale=args.scale,
        seed=args.seed,
        settings=args.settings,
        inputs={name: paths for name, paths in inputs.items() if paths},
        code_version=args.code,
    )
    with run:
        for name in artefacts(args.command, labels):
            run.output(name).write_bytes(content(name, text))
        with_trials = args.command in TRIALS
        run.finish({"test_accuracy_frac": 0.5}, trials=(["target"], [[text]]) if with_trials else None)


def render() -> None:
    """Write whatever the rule promises; the list of it lies in the root of the scratch checkout.

    With PRETEND_PAUSE it stops in the middle, leaves the file of that name and waits to be interrupted.
    """
    promised = [Path(path) for path in json.loads(Path("promised.json").read_text())]
    for number, path in enumerate(promised):
        if number == len(promised) // 2 and "PRETEND_PAUSE" in os.environ:
            Path(os.environ["PRETEND_PAUSE"]).touch()
            time.sleep(600)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text({".json": "{}\n", ".csv": "x,y\n1,2\n"}.get(path.suffix, "rendered\n"))


def main() -> int:
    from relearn import cli

    command = sys.argv[1]
    if command == "track":
        return 0
    if command not in (*ARTEFACTS, "render"):
        return cli.main()
    if "PRETEND_CALLS" in os.environ:
        with open(os.environ["PRETEND_CALLS"], "a") as calls:
            calls.write(" ".join(sys.argv[1:]) + "\n")
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    if command == "render":
        render()
    else:
        cli._step_arguments(parser)
        step(parser.parse_args())
    return 0


if __name__ == "__main__":
    sys.exit(main())
