"""Tasks on which networks are initialised, trained and measured: images (in memory or in a folder) and translation.

A step that works on all of them calls :func:`open_task`, which imports the module of the requested task only. A task builds,
loads and saves its networks, and has a loss and batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor, nn

TASKS = {
    "images": "relearn.steps.tasks.images:Images",
    "folder": "relearn.steps.tasks.folder:Folder",
    "translation": "relearn.steps.tasks.translation:Translation",
}


class Task(Protocol):
    """One task with its data on one device; ``own_start`` names the published initialisation used by its networks' constructors."""

    own_start: str
    loss: Callable[..., Tensor]

    def create(self, network: Mapping[str, Any]) -> nn.Module:
        """Build a network from its part of the settings; its weights are drawn from torch's global generator."""

    def network(self, path: Path) -> nn.Module:
        """Load a network written by :meth:`save`, in eval mode."""

    def save(self, model: nn.Module, path: Path) -> None: ...

    def batches(self, seed: int, size: int) -> Iterator[Sequence[Any]]:
        """Yield training batches forever, augmented as for training; ``size`` is in images or in tokens."""

    def pools(self, seed: int, size: int, overlap: float) -> Iterator[Sequence[Any]]:
        """Yield batches forever that GradInit splits into S of ``size`` and a second batch that shares ``overlap`` of it."""

    def steps_per_epoch(self, size: int) -> int: ...


def open_task(settings: Mapping[str, Any], inputs: Mapping[str, list[Path]], device: str) -> Task:
    """Open the task named in ``settings["task"]`` on the data of ``inputs["data"]``.

    Raises:
        ValueError: an unknown task.
    """
    name = settings["task"]
    if name not in TASKS:
        raise ValueError(f"task: found {name!r}, allowed: {', '.join(TASKS)}")
    module, _, cls = TASKS[name].partition(":")
    task: Task = getattr(import_module(module), cls)(settings, inputs["data"][0], device)
    return task
