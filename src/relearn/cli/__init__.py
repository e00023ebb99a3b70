"""The command line: `relearn STUDY STEP …` for the steps of the pipeline, `relearn VERB …` for everything else.

`relearn --help` lists both. One call of a step makes one run. Jobs must start quickly, so each imports only what it needs.
Exit codes: see `relearn.runs.exit_codes`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from relearn import __version__
from relearn.cli import checkout
from relearn.params import SCALES as SCALES
from relearn.runs import exit_codes as exits
from relearn.runs import orphan_guard as parents
from relearn.runs.warm import client as warm_client
from relearn.studies import STUDIES
from relearn.studies.study import Study, all_studies, load

VERBS = (
    *("list", "reproduce", "show", "open"),
    *("render", "publish", "track", "ui", "jobs", "pack", "adopt", "recover"),
    *("compare", "scoreboard", "plan", "power"),
    *("setups", "code", "validate", "dvc", "docs", "warm", "robustness"),
    *("evaluate-filter", "evaluate-poisons", "evaluate-text", "bound", "release-models", "fetch-models"),
)

LAST_SEED = 2**32 - 1


class Parser(argparse.ArgumentParser):
    """A parser that reports wrong use in one line."""

    def print_help(self, file: Any = None) -> None:
        print(self.format_help(), end="", file=file)  # argparse would hide that the disk is full

    def error(self, message: str) -> NoReturn:
        self.exit(exits.USE, f"{self.prog}: {message}; `{self.prog} --help` says more\n")


def main(argv: list[str] | None = None) -> int:
    """Run one step or verb; every error that a user can cause is reported in one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() not in ("utf-8", "utf8"):
            stream.reconfigure(errors="replace")
    try:
        return _main(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:  # while it still imports
        print("relearn: interrupted", file=sys.stderr)
        return exits.SIGINT


def _main(argv: list[str]) -> int:
    name = argv[0] if argv else "--help"
    if name in ("-h", "--help"):
        return exits.run_guarded(name, _help)
    if name == "--version":
        return exits.run_guarded(name, _version)
    options_follow = len(argv) > 1 and argv[1].startswith("-")
    if name in STUDIES and not (name in VERBS and options_follow):  # `robustness` is a study and a verb
        return _step(load(name), argv)
    if name not in VERBS:
        return _unknown(name, (*VERBS, *STUDIES), "no verb or study")
    module = f"relearn.cli.{name.replace('-', '_')}"
    parser = _parser(argv[:1], module)
    import_module(module).add_arguments(parser)
    args = argparse.Namespace(command=name)
    stopped = _parse(name, parser, argv[1:], args)
    if stopped is not None:
        return stopped

    def call() -> int:
        if getattr(args, "scale", None) == "":  # of an unset variable; some verbs would take their default
            raise ValueError(f"--scale: found '', allowed: {', '.join(SCALES)}")
        checkout.enter(args, parser)
        if name != "warm":  # it must stay single-threaded and checks by itself
            parents.watch()
        return import_module(module).main(args)

    return exits.run_guarded(name, call)


def _step(study: Study, argv: list[str]) -> int:
    """`relearn STUDY STEP ...`: make one run."""
    name = argv[1] if len(argv) > 1 else "--help"
    if name in ("-h", "--help"):
        return exits.run_guarded(study.name, lambda: _help(study))
    if name not in study.steps:
        return _unknown(name, tuple(study.steps), f"no step of {study.name}")
    parser = _parser(argv[:2], study.steps[name])
    add_step_arguments(parser)
    args = argparse.Namespace(study=study.name, step=name)
    stopped = _parse(f"{study.name} {name}", parser, argv[2:], args)
    if stopped is not None:
        return stopped

    from relearn.cli import processes
    from relearn.runs import console

    def call() -> int:
        if processes.launched():
            return run_step(study, args)
        if args.processes > 1:
            args.processes = processes.process_count(import_module(study.steps[name]), args)
        if args.processes > 1:
            return processes.launch(args, argv)
        done = warm_client.start(argv, args.threads)
        return run_step(study, args) if done is None else done

    if not processes.leads():
        args.log = None

    def logged() -> int:
        with console.to_log_alone(args.log):
            return exits.run_guarded(f"{study.name} {name}", call)

    return exits.run_guarded(f"{study.name} {name}", logged)


def _parse(
    name: str, parser: argparse.ArgumentParser, words: list[str], args: argparse.Namespace
) -> int | None:
    """Fill ``args``; the exit status if the words were wrong or asked for help."""
    done = False

    def call() -> int:
        nonlocal done
        try:
            parser.parse_args(words, args)
        except SystemExit as end:
            return int(end.code or 0)
        done = True
        return 0

    status = exits.run_guarded(name, call)
    return None if done and status == 0 else status


def _version() -> int:
    print(f"relearn {__version__}")
    return 0


def _parser(words: list[str], module: str) -> argparse.ArgumentParser:
    parser = Parser(prog=" ".join(["relearn", *words]), formatter_class=argparse.RawDescriptionHelpFormatter)
    if {"-h", "--help"} & set(sys.argv):
        from relearn.cli import overview

        parser.description = overview.docstring(module)
    return parser


def _help(study: Study | None = None) -> int:
    from relearn.cli import overview

    print(overview.text(VERBS, [study] if study else all_studies()), end="")
    return 0


def _unknown(name: str, known: tuple[str, ...], what: str) -> int:
    from relearn.params.messages import guess

    meant = guess(name, known)
    hint = f"did you mean {meant}? " if meant else ""
    print(f"relearn: found {name}, {what}; {hint}`relearn --help` lists them", file=sys.stderr)
    return exits.USE


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"found {text!r}, allowed is name=value")
    return name, value


def number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"found {text!r}, allowed is a whole number of at least 1")
    return int(text)


def seed_number(text: str) -> int:
    """The value of --seed, which NumPy and torch both take."""
    if not (text.isascii() and text.isdigit() and int(text) <= LAST_SEED):
        raise argparse.ArgumentTypeError(f"found {text!r}, allowed is a whole number from 0 to {LAST_SEED}")
    return int(text)


def json_object(text: str) -> dict[str, Any]:
    """The value of an option that takes a JSON object."""
    try:
        settings = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"found {text!r}: {error}") from None
    if not isinstance(settings, dict):
        raise argparse.ArgumentTypeError(f"found {text!r}, allowed is a JSON object")
    return settings


def add_step_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--settings",
        type=json_object,
        required=True,
        help="the part of params.yaml that this run uses, as JSON",
    )
    add(
        "--input",
        nargs="+",
        action="append",
        default=[],
        metavar=("NAME", "PATH"),
        help="files that the step reads under this name",
    )
    add(
        "--label",
        type=_pair,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="labels that distinguish this run from others of its step",
    )
    add("--out", required=True, type=Path, help="the run's folder")
    add("--scale", default=SCALES[0], choices=SCALES)
    add("--seed", type=seed_number, default=0)
    add("--code", default="", help="version of the code, as `relearn code` computes it")
    add("--device", default="auto", help="auto | cpu | cuda | cuda:N")
    add("--precision", default="fp32", choices=("fp32", "bf16"))
    add(
        "--jobs-per-device",
        type=number,
        help="jobs that may share a CUDA device; default: RELEARN_JOBS_PER_DEVICE, or 1",
    )
    add("--compile", default=os.environ.get("RELEARN_COMPILE", "off"), help="off, or a mode of torch.compile")
    add("--threads", type=number, default=1)
    add("--processes", type=number, default=1, help="processes that share the run, one per GPU (trainings)")
    add("--log", type=Path, help="file for the plain lines of this run")


def run_step(study: Study, args: argparse.Namespace) -> int:
    """Make one run: set threads, device and seeds, then call the step inside its record."""
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(args.threads)
    inputs: dict[str, list[Path]] = {}
    for name, *paths in args.input:
        for path in map(Path, paths):  # a name without a path is an input that this run does not use
            if not path.is_file():
                raise FileNotFoundError(f"--input {name}: no file {path}")
            inputs.setdefault(name, []).append(path)
    from relearn.cli import planned_source, processes
    from relearn.cli.step_inputs import Inputs, settings_of
    from relearn.runs import console, plugins, record
    from relearn.runs.code_version import code_version
    from relearn.runs.devices import acquire, jobs_per_device
    from relearn.runs.follower import Follower

    record.install_signal_handlers()
    parents.watch()
    if plugins.needed(args.code):
        plugins.register()
    step, words = import_module(study.steps[args.step]), f"{study.name} {args.step}"
    by_hand = not args.code
    args.code = args.code or code_version(study.steps[args.step])
    jobs, count = args.jobs_per_device or jobs_per_device(), _cuda_devices(args.device)
    with contextlib.ExitStack() as stack:
        stack.enter_context(console.tee(args.log))
        settings = settings_of(step, args.settings, words)
        together = None
        if processes.launched():  # the launcher holds the devices
            device, together = stack.enter_context(processes.group(args.device))
        else:
            asked = "cpu" if args.device.startswith("cuda") and not step.NEEDS_TORCH else args.device
            device = stack.enter_context(acquire(asked, jobs=jobs, count=count))
        if not by_hand:
            planned_source.check(args.out, args.scale, args.code)
        if step.NEEDS_TORCH:
            import torch

            from relearn.methods import acceleration

            torch.set_num_threads(args.threads)
            torch.manual_seed(args.seed)
            torch.backends.cudnn.allow_tf32 = args.precision != "fp32"  # fp32 also in convolutions
            acceleration.use(args.compile)
        run: Any
        if processes.leads():
            run = record.Run(
                args.out,
                study=study.name,
                paper=study.paper,
                step=args.step,
                labels=dict(args.label),
                scale=args.scale,
                seed=args.seed,
                settings=args.settings,
                inputs=inputs,
                code_version=args.code,
                device=device,
                precision=args.precision,
                threads=args.threads,
                processes=together,
            )
        else:
            run = Follower(
                labels=dict(args.label), seed=args.seed, settings=args.settings, processes=together
            )
        stack.enter_context(run)
        done = run.done is not None  # another process finished this very run while this one waited for it
        if together:
            done = together.from_first(done)
        if not done:
            step.run(run, settings, Inputs(inputs, words), device, args.precision)
    return 0


def _cuda_devices(device: str) -> Callable[[], int]:
    def count() -> int:
        if device == "cpu":
            return 0
        import torch

        return torch.cuda.device_count()

    return count
