"""One run made by several processes, one per GPU: ``relearn STUDY STEP --processes N``.

torch's own launcher (``torchrun``) starts this command again N times. Each process works on its share of every batch, and the gradients
are added up (:mod:`relearn.methods.parallel`), so N affects only rounding and the dropout masks. The first process makes the record;
the others are followers. When one process dies, the launcher ends the others; the same command then resumes from the checkpoint.

A step supports this if its module has ``PROCESSES = True``.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

PRINTED = (2, 3, 5)  # exit statuses with which a process has printed what is wrong, and that it has again
SIGNALLED = 128  # exit status of a process that a signal has ended, less the signal's number


def launched() -> bool:
    """Whether this process is one of those that the launcher has started."""
    return "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


def leads() -> bool:
    """Whether this process makes the record and the log."""
    return not launched() or os.environ["RANK"] == "0"


def process_count(step: ModuleType, args: argparse.Namespace) -> int:
    """How many processes shall make the run: those of the command line, as far as ``--device auto`` finds devices for them.

    Raises:
        ValueError: the step does not support several processes.
    """
    from relearn.runs.devices import usable

    if not getattr(step, "PROCESSES", False):
        raise ValueError(
            f"--processes: found {args.processes}, allowed: 1, because {args.study} {args.step} runs in one process"
        )
    return usable(args.device, args.processes)


def launch(args: argparse.Namespace, argv: list[str]) -> int:
    """Start ``relearn *argv`` in ``args.processes`` processes, at least 2, and wait for them; return the exit status.

    Raises:
        ValueError: there are fewer CUDA devices.
        RuntimeError: a process has failed. Its own error is on standard error.
    """
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    from relearn.runs.devices import acquire_several

    logging.getLogger("torch.distributed.elastic").setLevel(logging.ERROR)
    count = args.processes
    with acquire_several(args.device, count) as (device, visible):
        if visible:
            os.environ["CUDA_VISIBLE_DEVICES"] = visible
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=count,
            run_id=str(os.getpid()),
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            max_restarts=0,
        )
        words = ["-m", "relearn", *argv, "--device", device, "--processes", str(count)]
        try:
            elastic_launch(config, sys.executable)(*words)
        except ChildFailedError as error:
            rank, first = error.get_first_failure()
            if first.exitcode in PRINTED:  # the process has said what is wrong
                return int(first.exitcode)
            raise RuntimeError(
                f"process {rank} of {count} ended with status {first.exitcode}; the same command resumes the run"
            ) from None
        except SignalException as signal:
            return SIGNALLED + int(signal.sigval)
    return 0


@contextlib.contextmanager
def group(device: str) -> Iterator[tuple[str, Any]]:
    """Join the processes that the launcher has started; yields this process's device and the operations between processes."""
    from relearn.methods import parallel

    with parallel.launched(device) as own:
        yield own, parallel
