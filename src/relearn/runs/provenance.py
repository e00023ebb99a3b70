"""Provenance of a run: code, machine and cost. Standard library only; torch is queried only if it is already
loaded.

Nothing here records the host name, the user or an absolute path.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import time
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import relearn

PACKED = "packed.json"  # in the root of a pack, next to src/
PACKAGES = ("relearn", "torch", "numpy", "timm", "scikit-learn")


def code(version: str, folder: Path | None = None) -> dict[str, Any]:
    """Code version, commit and dirty flag of the package's checkout (None without git), and package
    versions.

    `dirty` considers the package's own folder only: an edit of params.yaml is not a change of code and is recorded in
    the settings.
    """
    folder = folder or Path(__file__).resolve().parents[1]
    packed = _packed(folder)
    if packed:
        return {"version": version, **packed, "packages": packages()}
    commit = _git(folder, "rev-parse", "HEAD")
    status = _git(folder, "status", "--porcelain", "--", ".") if commit else None
    dirty = None if status is None else bool(status)
    return {"version": version, "commit": commit or None, "dirty": dirty, "packages": packages()}


def _packed(folder: Path) -> dict[str, Any] | None:
    """Commit and dirty flag of the checkout from which a pack was made (`relearn pack`)."""
    try:
        found = json.loads((folder.parents[1] / PACKED).read_bytes())
        return {"commit": found["commit"], "dirty": found["dirty"]}
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


def packages() -> dict[str, str | None]:
    """Installed versions; None for a missing package."""
    found = {name: _installed(name) for name in PACKAGES}
    torch = sys.modules.get("torch")
    if torch is not None:
        found["torch"] = str(torch.__version__)  # the loaded version, with its +cpu or +cu suffix
    return found


@cache  # saves 10 ms per record; versions do not change within a process
def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return relearn.__version__ if name == "relearn" else None


def _git(folder: Path, *words: str) -> str | None:
    # no optional locks: parallel jobs must not compete for the index
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            text=True,
            timeout=10,
            env=environment,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def machine(device: str, precision: str, threads: int) -> dict[str, Any]:
    """Description of the computer: device and its name, precision, threads, CPU model, platform, Python."""
    return {
        "device": device,
        "device_name": _device_name(device),
        "precision": precision,
        "threads": threads,
        "cpu": _cpu(),
        "platform": " ".join((platform.system(), platform.machine(), *filter(None, platform.libc_ver()))),
        "python": platform.python_version(),
    }


VECTORS = {"amx_bf16": "AMX", "avx512_bf16": "AVX-512 with bf16", "avx512f": "AVX-512", "avx2": "AVX2"}
"""Flag in /proc/cpuinfo → words, the widest first: virtual machines of one model name differ in them, and so in speed."""


@cache
def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    return cpu_name(text) or platform.processor() or platform.machine()


def cpu_name(cpuinfo: str) -> str:
    """Model and widest vector instructions of the first processor in the text of /proc/cpuinfo; empty if it names no model."""
    lines = [line.partition(":") for line in cpuinfo.splitlines()]
    model = next((value.strip() for key, _, value in lines if key.startswith(("model name", "Model"))), "")
    flags = next((value.split() for key, _, value in lines if key.startswith("flags")), [])
    vectors = next((words for flag, words in VECTORS.items() if flag in flags), "")
    return ", ".join(filter(None, (model, vectors))) if model else ""


def _cuda(device: str) -> Any:
    """torch.cuda if the run's device is a CUDA device in use, otherwise None."""
    torch = sys.modules.get("torch")
    return (
        torch.cuda
        if device.startswith("cuda") and torch is not None and torch.cuda.is_initialized()
        else None
    )


def _device_name(device: str) -> str:
    cuda = _cuda(device)
    return str(cuda.get_device_name(device)) if cuda is not None else _cpu()


class Meter:
    """Cost since construction: wall seconds, CPU seconds including finished child processes, device seconds, peak
    memory.
    """

    def __init__(self) -> None:
        self._wall = time.monotonic()
        self._cpu = _cpu_seconds()

    def cpu_s(self) -> float:
        """CPU seconds since construction."""
        return _cpu_seconds() - self._cpu

    def read(self, device: str) -> dict[str, Any]:
        """`device_s` is the time that the run held its CUDA device, in seconds (None on a CPU).
        `peak_memory_bytes` is the peak of the memory the run computes in: allocated bytes of the CUDA device,
        otherwise this process's resident bytes.
        """
        wall = time.monotonic() - self._wall
        cuda = _cuda(device)
        return {
            "wall_s": wall,
            "cpu_s": self.cpu_s(),
            "device_s": wall if cuda is not None else None,
            "peak_memory_bytes": int(cuda.max_memory_allocated(device))
            if cuda is not None
            else resident_peak(),
        }


def _cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def resident_peak() -> int:
    """The peak of resident bytes of this process."""
    # VmHWM is reset at exec; ru_maxrss includes the peak of the process that started us
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
