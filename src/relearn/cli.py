"""The command line: `relearn <step> …` for the steps of the pipeline, `relearn <verb> …` for everything around them.

Steps (each makes one run): prepare, subset, pretrain, harden, craft, filter, train, evaluate (poisoning);
prepare, folder, corpus, initialise, learn, translate, probe (gradinit);
characters, language, ascend, invert, examine, clock (l2_attention); examine, count (lipsformer); examine (lrformer);
classify (lipsformer, layer_scale, lrformer); throughput, retest (lipsformer); uncertainty (lrformer);
sequences, understand, stream, predict, cost, adapt (long_short); acquire, finetune, provoke, vote, contrast (freelb).
Verbs: render, track, ui, jobs, adopt, recover, code, validate, warm.
Exit codes: see `relearn.exits`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from pathlib import Path

from relearn import exits, parents, warm

STEPS = (
    *("prepare", "subset", "pretrain", "harden", "craft", "filter", "train", "evaluate"),
    *("folder", "corpus", "initialise", "learn", "translate", "probe"),
    *("characters", "language", "ascend", "invert", "examine", "clock", "count"),
    *("classify", "throughput", "retest", "uncertainty", "withstand"),
    *("sequences", "understand", "stream", "predict", "cost", "similarity", "adapt"),
    *("acquire", "finetune", "provoke", "vote", "contrast"),
)
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
    parser = argparse.ArgumentParser(prog="relearn", description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True, metavar="step|verb")
    for name in STEPS:
        _step_arguments(commands.add_parser(name, help="one run of this step"))
    for name in VERBS:
        # Only the verb that is asked for is imported: a job must be cheap to start.
        sub = commands.add_parser(name)
        if argv and argv[0] == name:
            _module(name).add_arguments(sub)
    args = parser.parse_args(argv)

    def call() -> int:
        if args.command not in STEPS:
            if args.command != "warm":  # it must stay a single thread and asks by itself
                parents.watch()
            return _module(args.command).main(args)
        done = warm.start(argv, args.threads)
        return run_step(args) if done is None else done

    return exits.guarded(args.command, call)


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
    parser.add_argument("--input", nargs="+", action="append", default=[], metavar=("NAME", "PATH"))
    parser.add_argument("--label", type=_pair, action="append", default=[], metavar="NAME=VALUE")
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
    from relearn import console, record
    from relearn.devices import acquire

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
                step.run(run, args.settings, inputs, device, args.precision)
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
