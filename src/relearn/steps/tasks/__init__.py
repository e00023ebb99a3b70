"""What a network is started, trained and probed on: images (in memory, in a folder) or translation, behind one interface.

A step that works on both asks :func:`open_task`; the module of the other task is not imported. A task knows its
networks (build, load, save), its loss and its batches; what is done with them is the step's business.
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
    """One task, its data on one device. ``own_start``: the initialisation that its networks' constructors draw, as published."""

    own_start: str
    loss: Callable[..., Tensor]

    def create(self, network: Mapping[str, Any]) -> nn.Module:
        """A network from its part of the settings; its start is drawn from torch's global generator."""

    def network(self, path: Path) -> nn.Module:
        """A network as :meth:`save` wrote it, in eval mode."""

    def save(self, model: nn.Module, path: Path) -> None: ...

    def batches(self, seed: int, size: int) -> Iterator[Sequence[Any]]:
        """Endless training batches, augmented as for training; ``size`` in images or in tokens."""

    def pools(self, seed: int, size: int, overlap: float) -> Iterator[Sequence[Any]]:
        """Endless batches that GradInit cuts into S of ``size`` and a second batch with ``overlap`` in common."""

    def steps_per_epoch(self, size: int) -> int: ...


def open_task(settings: Mapping[str, Any], inputs: Mapping[str, list[Path]], device: str) -> Task:
    """The task that ``settings["task"]`` names, on the data of ``inputs["data"]``.

    Raises:
        ValueError: an unknown task.
    """
    name = settings["task"]
    if name not in TASKS:
        raise ValueError(f"task: found {name!r}, allowed: {', '.join(TASKS)}")
    module, _, cls = TASKS[name].partition(":")
    task: Task = getattr(import_module(module), cls)(settings, inputs["data"][0], device)
    return task
