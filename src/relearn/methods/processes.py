"""Interface of the inter-process operations needed for data parallel training.

:mod:`relearn.methods.parallel` implements it. The training loop imports only this module, so a change of the implementation affects
only the trainings that use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch.distributed as dist
from torch import Tensor, device, nn

Loss = Callable[..., Tensor]


class Processes(Protocol):
    """One method per operation; see :mod:`relearn.methods.parallel` for their documentation and implementation."""

    def world(self) -> tuple[int, int]: ...

    def same_start(self, model: nn.Module) -> None: ...

    def from_first(self, value: Any) -> Any: ...

    def merged(self, values: dict[str, Any]) -> dict[str, Any]: ...

    def add_up(self, tensor: Tensor) -> Tensor: ...

    def weighted(self, loss: Loss, own: Tensor | float, whole: Tensor | float) -> Loss: ...

    def add_gradients(self, parameters: Iterable[nn.Parameter]) -> None: ...

    def synchronised(self, model: nn.Module, device: device) -> AbstractContextManager[None]: ...


def several(processes: Processes | None) -> tuple[int, int, Processes | None]:
    """Return rank, number of processes, and ``processes`` itself if there are at least two.

    Raises:
        ValueError: a process group is open, but ``processes`` is None: every process would train alone.
    """
    if processes is None:
        if dist.is_available() and dist.is_initialized():
            raise ValueError(
                f"processes: found None in a group of {dist.get_world_size()}, allowed: relearn.methods.parallel"
            )
        return 0, 1, None
    rank, size = processes.world()
    return rank, size, processes if size > 1 else None
