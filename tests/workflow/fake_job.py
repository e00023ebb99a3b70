"""A stand-in for `relearn` on PATH: a step writes a sound record and tiny artefacts at once.

`render` writes what its rule promises, `track` does nothing, and other verbs are the real ones. The artefacts' bytes follow from
settings, code, labels, seed and the inputs' bytes, as those of a real run do. Each step that runs is noted as a line in the file
that PRETEND_CALLS names.
"""

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TRAINED = ["history.csv", "layers.csv", "alphas.csv", "model.safetensors"]
ARTEFACTS = {  # beside the record and the trials; the names of a step mean the same in every study
    "prepare_images": ["data.safetensors"],
    "train_vision": TRAINED,
    "train_constrained": TRAINED,
    "throughput": ["throughput.csv"],
    "count_params_flops": ["counts.csv"],
    "check_theorems": ["cases.csv"],
    # poisoning
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
    # freelb
    "pretrain_encoder": ["history.csv", "encoder.safetensors"],
    "finetune": ["history.csv", "answers.csv", "model.safetensors"],
    "max_loss_increase": ["increases.csv"],
    "ensemble": ["scores.csv", "submission.zip"],
    "train_images_adversarially": ["history.csv", "answers.csv", "weights.safetensors"],
    "check_gradient": ["gradients.csv"],
    # gradinit
    "list_imagenet": ["listing.json"],
    "prepare_translation": ["corpus.safetensors"],
    "initialise": ["weights.safetensors", "scales.csv", "history.csv"],
    "train_from_init": ["history.csv"],
    "train_translation": ["history.csv", "hypotheses.txt"],
    "gradient_statistics": ["layers.csv"],
    "check_batch_norm": ["cases.csv"],
    "count_params": ["counts.csv"],
    # long_short and robustness
    "prepare_lra": ["data.safetensors"],
    "train_lra": ["history.csv", "predictions.csv", "model.safetensors"],
    "prepare_char_stream": ["stream.safetensors"],
    "train_long_char_lm": ["history.csv", "norms.csv", "model.safetensors"],
    "initial_norms": ["norms.csv"],
    "convert_roberta": ["history.csv", "predictions.csv", "model.safetensors"],
    "benchmark_attention": [],
    "patch_similarity": ["similarity.csv"],
    "evaluate_robustness": ["sets.csv", "attacks.csv", "bad_images.csv"],
    # l2_attention
    "prepare_ptb_lines": ["characters.safetensors"],
    "train_char_lm": ["weights.safetensors", "history.csv"],
    "lipschitz_lower_bound": ["ascents.csv", "curve.csv"],
    "invert_residual": ["errors.csv", "ranges.csv"],
    "attention_outputs": ["histogram.csv"],
    "time_training_step": ["times.csv"],
    # lipsformer and lrformer
    "evaluate_imagenet": ["retest.csv"],
    "evaluate_uncertainty": ["calibration.csv", "ood.csv", "distance.csv", "scores.csv"],
}
COSTS = {"curve": "cost.csv", "latency": "latency.csv"}
TRIALS = ("craft", "filter", "train", "evaluate_networks", "feature_plane", "toy_example")


def artefacts(step: str, labels: dict[str, str], settings: dict[str, Any]) -> list[str]:
    """The files that a run leaves besides its record and its trials."""
    names = list(ARTEFACTS[step])
    if step == "train" and labels["attack"] == "clean" and labels["setting"] != "end_to_end":
        names.append("features.safetensors")
    if step == "benchmark_attention":
        names.append(COSTS[labels["protocol"]])
    if settings.get("average_file"):
        names.append("averaged.safetensors")
    if labels.get("protocol") == "activations":
        names.append("curves.csv")
    return names


def content(name: str, text: str) -> bytes:
    """A file of its kind that says where it comes from: safetensors without tensors, or a line of text."""
    if not name.endswith(".safetensors"):
        return f"{name} {text}\n".encode()
    header = json.dumps({"__metadata__": {name: text}}).encode()
    return len(header).to_bytes(8, "little") + header


def step(args: argparse.Namespace) -> None:
    from relearn.runs import record
    from relearn.studies.study import load

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
        paper=load(args.study).paper,
        step=args.step,
        labels=labels,
        scale=args.scale,
        seed=args.seed,
        settings=args.settings,
        inputs={name: paths for name, paths in inputs.items() if paths},
        code_version=args.code,
    )
    with run:
        for name in artefacts(args.step, labels, args.settings):
            run.output(name).write_bytes(content(name, text))
        with_trials = args.step in TRIALS
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


def run(words: list[str]) -> None:
    """Pretend the run behind `relearn STUDY STEP …`; `words` follow `relearn`."""
    from relearn import cli

    parser = argparse.ArgumentParser()
    cli.add_step_arguments(parser)
    step(parser.parse_args(words[2:], argparse.Namespace(study=words[0], step=words[1])))


def main() -> int:
    from relearn import cli

    words = sys.argv[1:]
    if words[0] == "track":
        return 0
    if words[0] not in (*cli.STUDIES, "render"):
        return cli.main()
    if "PRETEND_CALLS" in os.environ:
        with open(os.environ["PRETEND_CALLS"], "a") as calls:
            calls.write(" ".join(words) + "\n")
    if words[0] == "render":
        render()
    else:
        run(words)
    return 0


def lay(values: Mapping[str, Any], params: dict[str, Any]) -> None:
    """Set values by dotted key in what params.yaml says."""
    for key, value in values.items():
        *above, last = key.split(".")
        inside = params
        for part in above:
            inside = inside[part]
        inside[last] = value


if __name__ == "__main__":
    sys.exit(main())
