"""relearn warm: import once what the steps need, and fork jobs from there.

The workflow starts it automatically when it runs many jobs on this machine. By hand::

    relearn warm --socket warm.sock & export RELEARN_WARM=$PWD/warm.sock

It ends with the process that started it, on SIGTERM or on Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import os
import pkgutil
import signal
import sys
from pathlib import Path

from relearn.studies.study import all_studies

NO_TORCH = "this step does not use torch and starts fast"
"""Why such a step is started plainly."""
# Slow imports, in the order in which steps first need them. torch.optim loads torch._dynamo at its first use.
LIBRARIES = (
    *("numpy", "torch", "torch._dynamo", "safetensors.torch", "safetensors.numpy"),
    *("scipy.optimize", "sklearn.svm"),
)
# Imported after the packages in ROOMS, one of which registers torchvision's operators with torch: transformers imports torchvision.
NETWORKS = tuple(
    f"transformers.models.{name}.modeling_{name}" for name in ("roberta", "bert", "albert", "auto")
)
ROOMS = ("data", "layers", "models", "methods", "measures")
# Fork copies only one thread, so no further ones may exist: none for linear algebra, none for the allocator that pyarrow brings.
ALONE = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "GOTO", "NUMEXPR")}
ALONE |= {"JE_ARROW_MALLOC_CONF": "background_thread:false", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--socket."""
    parser.add_argument(
        "--socket", type=Path, required=True, help="where to listen; RELEARN_WARM names it to jobs"
    )


def main(args: argparse.Namespace) -> int:
    """Import, listen, serve.

    Raises:
        ValueError: not on Linux, no place for a socket, or another server is listening.
        FileNotFoundError: no folder for the socket.
        RuntimeError: the engine that started it is gone.
    """
    check_socket(args.socket)
    from relearn import cli
    from relearn.runs import orphan_guard as parents
    from relearn.runs.warm import client as warm
    from relearn.runs.warm import server as warm_server

    parent = os.getppid()
    parents.tie(signal.SIGKILL)  # until it serves: the imports can take longer than it may outlive its engine
    if (pid := parents.first_gone(parents.announced())) is not None:
        raise RuntimeError(f"process {pid}, which started this one, is gone")
    if not sys.platform.startswith("linux"):
        raise ValueError(f"{sys.platform}: warm starts need Linux; every job starts plainly here")
    with contextlib.suppress(PermissionError):  # the clients receive Ctrl-C and pass it on
        os.setpgid(
            0, 0
        )  # not its own session: Linux' scheduler gives each session an equal share of the CPUs
    stamp = warm.stamp()  # before the imports: later edits count as different code
    os.environ.update(ALONE)
    gc.disable()
    for problem in load():
        print(f"relearn warm: {problem}", file=sys.stderr)
    steps = {
        (study.name, name): sys.modules.get(module)
        for study in all_studies()
        for name, module in study.steps.items()
    }

    def refuses(argv: list[str]) -> str:
        step = steps.get((argv[0], argv[1]))
        return "" if getattr(step, "NEEDS_TORCH", False) else NO_TORCH

    server = warm_server.Server(args.socket, cli.main, stamp, parent, refuses)
    print(f"relearn warm: listening at {args.socket}", flush=True)
    server.serve()
    sys.stdout.flush()
    os._exit(0)  # skips the seconds that unloading torch takes


def check_socket(path: Path) -> None:
    """Check the place of the socket before the imports; one line."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"--socket {path}: no folder {path.parent}")
    if os.path.lexists(path) and not path.is_socket():
        found = "a folder" if path.is_dir() else "a file"
        raise ValueError(
            f"--socket {path}: found {found}, allowed: a new path, or a socket that no server listens at"
        )


def load() -> list[str]:
    """Import what the steps need; return one line per failed import (the job itself will report it)."""
    names = ["relearn.runs.console", "relearn.runs.record", "relearn.runs.devices", *LIBRARIES]
    names += sorted({module for study in all_studies() for module in study.steps.values()})
    problems = []
    for name in names:
        problems += _import(name)
    for room in ROOMS:
        problems += _import(f"relearn.{room}")
        package = sys.modules.get(f"relearn.{room}")
        for found in pkgutil.walk_packages(getattr(package, "__path__", []), f"relearn.{room}."):
            problems += _import(found.name)
    for name in NETWORKS:
        problems += _import(name)
    return problems


def _import(name: str) -> list[str]:
    try:
        importlib.import_module(name)
    except Exception as error:
        return [f"{name}: {type(error).__name__}: {error}"]
    return []
