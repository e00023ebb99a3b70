"""The resources of a machine: cores, CUDA devices and their memory, and which jobs fit on it together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass

from relearn.runs.node.jobs_file import NodeJob

SHARE = 0.9  # usable share of a device's memory; the rest is for contexts and fragmentation
ASK = (
    "import json, torch; c = torch.cuda; "
    "print(json.dumps([c.get_device_properties(i).total_memory for i in range(c.device_count())]))"
)


@dataclass(frozen=True)
class Machine:
    """Limits on concurrent jobs.

    Args:
        jobs: in total: one per core.
        per_device: on one CUDA device.
        devices_mb: memory of each CUDA device, in MB; empty: everything runs on the CPU.
    """

    jobs: int
    per_device: int = 1
    devices_mb: tuple[int, ...] = ()

    def room_for(self, job: NodeJob, running: list[NodeJob]) -> bool:
        """Whether ``job`` may start in addition to the running ones: checks the total, then slots and memory of each device.

        Each job counts on the device with the fewest, as `relearn.runs.devices` assigns them. One whose forecast exceeds the memory of a
        device starts only if nothing else runs on them.
        """
        if len(running) >= self.jobs:
            return False
        if not (self.devices_mb and job.gpu):
            return True
        there = [one for one in running if one.gpu]
        if len(there) >= self.per_device * len(self.devices_mb):
            return False
        held = [there[place :: len(self.devices_mb)] for place in range(len(self.devices_mb))]
        fewest, memory = min(zip(held, self.devices_mb), key=lambda one: len(one[0]))
        return not there or sum(one.mem_mb for one in [*fewest, job]) <= SHARE * memory


def cuda_memory_mb(python: str = sys.executable) -> tuple[int, ...]:
    """Memory of every CUDA device in MB, queried in a separate process, because the query would leave a CUDA context on each."""
    done = subprocess.run([python, "-c", ASK], capture_output=True, text=True, check=False)
    return tuple(size // 10**6 for size in json.loads(done.stdout)) if done.returncode == 0 else ()


def usable_mb(device: str) -> tuple[int, ...]:
    """Memory of the CUDA devices that ``--device`` allows; raises ValueError if it names one that is not here."""
    found = () if device == "cpu" else cuda_memory_mb()
    number = device.removeprefix("cuda:")
    if not number.isdecimal() or not found:  # without CUDA each job says so
        return found
    if int(number) >= len(found):
        raise ValueError(f"--device: found {device}, allowed: cuda:0 to cuda:{len(found) - 1}")
    return (found[int(number)],)


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
