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
from pathlib import Path

ARTEFACTS = {
    "prepare": ["data.safetensors"],
    "pretrain": ["weights.safetensors"],
    "craft": ["poisons.safetensors"],
    "filter": ["kept.safetensors"],
    "train": [],
    "evaluate": [],
}
TRIALS = ("craft", "filter", "train")


def step(args: argparse.Namespace) -> None:
    from relearn import record

    inputs = {name: [Path(path) for path in paths] for name, *paths in args.input}
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
        for name in ARTEFACTS[args.command]:
            run.output(name).write_text(f"{name} {text}\n")
        with_trials = args.command in TRIALS or labels.get("protocol") == "accuracy"
        run.finish({"test_accuracy_frac": 0.5}, trials=(["target"], [[text]]) if with_trials else None)


def render() -> None:
    """Write whatever the rule promises; the list of it lies in the root of the scratch checkout."""
    for path in map(Path, json.loads(Path("promised.json").read_text())):
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
