"""NVIDIA's MPS: a server that runs the kernels of several processes side by side on one device, instead of in slices of time.

With 14 small trainings on one H100, all together made 2.1 times as many steps with it (``benchmarks/gpu_sharing.py``).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator

CONTROL = "nvidia-cuda-mps-control"  # comes with the driver
DRIVER = "/usr/local/nvidia/bin"  # where containers have it, outside PATH
START_S = 20.0


@contextlib.contextmanager
def served() -> Iterator[None]:
    """MPS for all processes that start inside this context.

    Raises:
        OSError: it is not installed, or did not start; one line.
    """
    control = shutil.which(CONTROL, path=os.pathsep.join((os.environ.get("PATH", ""), DRIVER)))
    if control is None:
        raise OSError(f"{CONTROL}: not found; MPS needs the programs of NVIDIA's driver")
    with tempfile.TemporaryDirectory(prefix="relearn-mps-") as folder:
        names = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        before = {name: os.environ.get(name) for name in names}
        os.environ.update(names)
        try:
            if status := subprocess.run([control, "-d"], timeout=START_S, check=False).returncode:
                raise OSError(f"{CONTROL}: did not start (status {status})")
            try:
                yield
            finally:
                subprocess.run([control], input="quit -t 1\n", text=True, timeout=START_S, check=False)
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value
