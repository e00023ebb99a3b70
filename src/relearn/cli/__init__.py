"""The command line: `relearn STEP …` for the steps of the pipeline, `relearn VERB …` for everything around them.

`relearn --help` lists both. A step makes one run; a job must be cheap to start, so only what is asked for is imported.
Exit codes: see `relearn.runs.exit_codes`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from pathlib import Path

from relearn import __version__
from relearn.runs import exit_codes as exits
from relearn.runs import orphan_guard as parents
from relearn.runs.warm import client as warm

STEPS_OF = {
    "of several studies": ("prepare", "examine", "count", "classify", "throughput"),
    "poisoning (zhu2022, chapter 2)": (
        *("subset", "pretrain", "harden", "craft", "filter", "train", "evaluate"),
    ),
    "freelb (zhu2022, chapter 3)": ("acquire", "finetune", "provoke", "vote", "contrast"),
    "gradinit (zhu2022, chapter 4)": ("folder", "corpus", "initialise", "learn", "translate", "probe"),
    "long_short (zhu2022, chapter 5)": (
        *("sequences", "understand", "stream", "predict", "adapt", "cost", "similarity"),
    ),
    "robustness (zhu2022, chapter 5)": ("withstand",),
    "l2_attention (kim2020)": ("characters", "language", "ascend", "invert", "clock"),
    "lipsformer (qi2023)": ("retest",),
    "lrformer (ye2023)": ("uncertainty",),
}
STEPS = tuple(step for steps in STEPS_OF.values() for step in steps)
VERBS = (
    "render",
    "track",
    "ui",
    "jobs",
    "adopt",
    "recover",
    "setups",
    "code",
    "validate",
    "warm",
    "robustness",
)
PAPERS = {
    "poisoning": "zhu2022",
    "gradinit": "zhu2022",
    "l2_attention": "kim2020",
    "lipsformer": "qi2023",
    "layer_scale": "touvron2021",
    "lrformer": "ye2023",
    "long_short": "zhu2022",
    "robustness": "zhu2022",
    "freelb": "zhu2022",
}


def main(argv: list[str] | None = None) -> int:
    """Run one step or verb; every error that a user can cause ends in one line on stderr."""
    argv = sys.argv[1:] if argv is None else argv
    name = argv[0] if argv else "--help"
    if name in ("-h", "--help"):
        return exits.guarded(name, _help)
    if name == "--version":
        print(f"relearn {__version__}")
        return 0
    if name not in STEPS and name not in VERBS:
        return _unknown(name)
    parser = argparse.ArgumentParser(
        prog=f"relearn {name}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if {"-h", "--help"} & set(argv):
        from relearn.cli import overview

        parser.description = overview.docstring(name)
    if name in STEPS:
        _step_arguments(parser)
    else:
        _module(name).add_arguments(parser)
    args = parser.parse_args(argv[1:], argparse.Namespace(command=name))

    def call() -> int:
        if name not in STEPS:
            if name != "warm":  # it must stay a single thread and asks by itself
                parents.watch()
            return _module(name).main(args)
        done = warm.start(argv, args.threads)
        return run_step(args) if done is None else done

    return exits.guarded(name, call)


def _help() -> int:
    from relearn.cli import overview

    print(overview.text(VERBS, STEPS_OF), end="")
    return 0


def _unknown(name: str) -> int:
    from relearn.params.messages import guess

    meant = guess(name, (*VERBS, *STEPS))
    hint = f"did you mean {meant}? " if meant else ""
    print(f"relearn: found {name}, no verb or step; {hint}`relearn --help` lists them", file=sys.stderr)
    return exits.USE


def _module(name: str):
    return importlib.import_module(f"relearn.steps.{name}")


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"found {text!r}, allowed is name=value")
    return name, value


def _json(text: str) -> dict:
    try:
        settings = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"found {text!r}: {error}") from None
    if not isinstance(settings, dict):
        raise argparse.ArgumentTypeError(f"found {text!r}, allowed is a JSON object")
    return settings


def _step_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--settings", type=_json, required=True, help="the part of params.yaml that this run uses, as JSON"
    )
    parser.add_argument(
        "--input",
        nargs="+",
        action="append",
        default=[],
        metavar=("NAME", "PATH"),
        help="files that the step reads under this name",
    )
    parser.add_argument(
        "--label",
        type=_pair,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="what tells this run from others of its step",
    )
    parser.add_argument("--out", required=True, type=Path, help="the run's folder")
    parser.add_argument("--study", default="poisoning", choices=sorted(PAPERS))
    parser.add_argument("--scale", default="mini")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--code", default="", help="version of the code, as `relearn code` computes it")
    parser.add_argument("--device", default="auto", help="auto | cpu | cuda | cuda:N")
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--log", type=Path, help="file for the plain lines of this run")


def run_step(args: argparse.Namespace) -> int:
    """One run: threads, device and seeds set, the step called inside its record."""
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(args.threads)
    inputs: dict[str, list[Path]] = {}
    for name, *paths in args.input:
        for path in map(Path, paths):  # a name without a path is an input that this run does not have
            if not path.is_file():
                raise FileNotFoundError(f"--input {name}: no file {path}")
            inputs.setdefault(name, []).append(path)
    from relearn.cli.step_inputs import Inputs, Settings
    from relearn.runs import console, record
    from relearn.runs.devices import acquire

    record.install_signal_handlers()
    parents.watch()
    step = _module(args.command)
    with console.tee(args.log), acquire(args.device, count=_cuda_devices(args)) as device:
        if step.NEEDS_TORCH:
            import torch

            torch.set_num_threads(args.threads)
            torch.manual_seed(args.seed)
        run = record.Run(
            args.out,
            study=args.study,
            paper=PAPERS[args.study],
            step=args.command,
            labels=dict(args.label),
            scale=args.scale,
            seed=args.seed,
            settings=args.settings,
            inputs=inputs,
            code_version=args.code,
            device=device,
            precision=args.precision,
            threads=args.threads,
        )
        with run:
            if (
                run.done is None
            ):  # otherwise another process finished this very run while this one waited for it
                settings = Settings(args.settings, args.command)
                step.run(run, settings, Inputs(inputs, args.command), device, args.precision)
    return 0


def _cuda_devices(args: argparse.Namespace):
    def count() -> int:
        if args.device == "cpu" or not _module(args.command).NEEDS_TORCH:
            return 0
        import torch

        return torch.cuda.device_count()

    return count


if __name__ == "__main__":
    sys.exit(main())
