"""Tasks on which networks are initialised, trained and measured: images (in memory or in a folder) and translation.

A step that works on all of them calls :func:`open_task`, which imports the module of the requested task only. A task builds,
loads and saves its networks, and has a loss and batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from torch import Tensor, nn

TASKS = {
    "images": "relearn.steps.tasks.images:Images",
    "folder": "relearn.steps.tasks.folder:Folder",
    "translation": "relearn.steps.tasks.translation:Translation",
}


@dataclass(frozen=True, kw_only=True)
class OnImages:
    """Settings of a step on prepared images.

    Args:
        crop_padding, flip: the augmentation.
        cutout: side of the hole in pixels; 0: none.
    """

    task: Literal["images"] = "images"
    crop_padding: int
    flip: bool
    cutout: int = 0


@dataclass(frozen=True, kw_only=True)
class OnFolder:
    """Settings of a step on images in class folders.

    Args:
        size: side of the network's input in pixels.
    """

    task: Literal["folder"]
    size: int


@dataclass(frozen=True, kw_only=True)
class OnTranslation:
    """Settings of a step on a parallel corpus."""

    task: Literal["translation"]
    label_smoothing: float


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


def open_task(
    settings: OnImages | OnFolder | OnTranslation, inputs: Mapping[str, list[Path]], device: str
) -> Task:
    """Open the task of a step on the data of ``inputs["data"]``."""
    module, _, cls = TASKS[settings.task].partition(":")
    task: Task = getattr(import_module(module), cls)(settings, inputs["data"][0], device)
    return task
