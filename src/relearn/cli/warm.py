"""`relearn warm`: import once what the steps need and start jobs from there; `relearn.runs.warm.client` tells how.

The workflow starts it by itself where it runs many jobs on this machine. By hand::

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

# What takes long, in the order in which steps come to need it. torch.optim loads torch._dynamo at its first use.
LIBRARIES = (
    *("numpy", "torch", "torch._dynamo", "safetensors.torch", "safetensors.numpy"),
    *("scipy.optimize", "sklearn.svm"),
)
# Behind the rooms, of which one has told torch what torchvision would have: transformers imports torchvision.
NETWORKS = tuple(
    f"transformers.models.{name}.modeling_{name}" for name in ("roberta", "bert", "albert", "auto")
)
ROOMS = ("data", "layers", "models", "methods", "measures")
# A second thread could not be forked: none for linear algebra, and none for the allocator that pyarrow brings.
ALONE = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "GOTO", "NUMEXPR")}
ALONE |= {"JE_ARROW_MALLOC_CONF": "background_thread:false", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--socket."""
    parser.add_argument(
        "--socket", type=Path, required=True, help="where to listen; RELEARN_WARM names it to jobs"
    )


def main(args: argparse.Namespace) -> int:
    """Import, listen, serve.

    Raises ValueError where this cannot be: no Linux, or another server is there; RuntimeError where its engine is gone.
    """
    from relearn import cli
    from relearn.runs import orphan_guard as parents
    from relearn.runs.warm import client as warm
    from relearn.runs.warm import server as warm_server

    parent = os.getppid()
    parents.tie(signal.SIGKILL)  # until it serves: an import takes longer than it may outlive its engine
    if (pid := parents.gone(parents.announced())) is not None:
        raise RuntimeError(f"process {pid}, which started this one, is gone")
    if not sys.platform.startswith("linux"):
        raise ValueError(f"{sys.platform}: warm starts need Linux; every job starts plainly here")
    with contextlib.suppress(PermissionError):  # a Ctrl-C is for the clients, who hand it on
        os.setpgid(
            0, 0
        )  # no session of its own: the scheduler of Linux gives each session a share of the processors
    stamp = warm.stamp()  # before the imports: what is edited from here on is other code
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
        return "" if getattr(step, "NEEDS_TORCH", False) else "this step does without torch, and starts fast"

    server = warm_server.Server(args.socket, cli.main, stamp, parent, refuses)
    print(f"relearn warm: listening at {args.socket}", flush=True)
    server.serve()
    sys.stdout.flush()
    os._exit(0)  # without the seconds that unloading torch takes


def load() -> list[str]:
    """Import what the steps need and return what could not be imported, a line each: the job will tell."""
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
