"""What a machine has to offer: cores, CUDA devices and their memory, and which jobs fit on it together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass

from relearn.runs.node.jobs_file import NodeJob

SHARE = 0.9  # of a device's memory that jobs may plan with; the rest is for contexts and fragments
ASK = (
    "import json, torch; c = torch.cuda; "
    "print(json.dumps([c.get_device_properties(i).total_memory for i in range(c.device_count())]))"
)


@dataclass(frozen=True)
class Machine:
    """Limits of jobs at once.

    Args:
        jobs: in all: one a core.
        per_device: on one CUDA device.
        devices_mb: memory of each CUDA device, MB; empty: everything computes on the CPU.
    """

    jobs: int
    per_device: int = 1
    devices_mb: tuple[int, ...] = ()

    def room_for(self, job: NodeJob, running: list[NodeJob]) -> bool:
        """Whether ``job`` may start beside those that run: slots and memory of the devices, then cores.

        A job whose forecast exceeds a whole device starts only where nothing else is on the devices.
        """
        if len(running) >= self.jobs:
            return False
        if not (self.devices_mb and job.gpu):
            return True
        there = [one for one in running if one.gpu]
        if len(there) >= self.per_device * len(self.devices_mb):
            return False
        return not there or sum(one.mem_mb for one in [*there, job]) <= SHARE * sum(self.devices_mb)


def cuda_memory_mb(python: str = sys.executable) -> tuple[int, ...]:
    """Memory of every CUDA device, MB, asked in a process of its own: it would keep a context on each."""
    done = subprocess.run([python, "-c", ASK], capture_output=True, text=True, check=False)
    return tuple(size // 10**6 for size in json.loads(done.stdout)) if done.returncode == 0 else ()


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
