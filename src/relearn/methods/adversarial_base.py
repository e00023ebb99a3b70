"""Base class of the adversarial strategies of :func:`relearn.methods.fit.fit`: settings, space of δ, count of skipped steps.

A **space** is where δ is added: :class:`~relearn.methods.embedding_space.EmbeddingSpace` (word embeddings) or
:class:`~relearn.methods.pixel_space.PixelSpace`. For each batch it opens a **field**, which runs the network at X + δ and returns ∇_δ.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from relearn.methods.dropout_masks import MaskReplay
from relearn.methods.embedding_space import EmbeddingSpace
from relearn.methods.perturbation import Ball


class Field(Protocol):
    """A batch and its perturbations."""

    samples: int
    real: Tensor | None
    """(rows, n) bool, False on padding; None if there is no padding."""
    device: torch.device
    shape: tuple[int, ...]
    """Shape of δ."""

    @property
    def point(self) -> Tensor:
        """The δ of the last :meth:`output`, a leaf tensor to differentiate with respect to."""

    def start(self, ball: Ball) -> Tensor:
        """The initial perturbation δ_0."""

    def output(self, delta: Tensor) -> Any:
        """The network's output at X + δ."""

    def confine(self, delta: Tensor) -> Tensor:
        """Project δ so that X + δ is a legal input."""

    def gradient(self) -> Tensor:
        """∇_δ of the last :meth:`output`. Call it once after each backward pass that contributes to the parameters' gradient."""

    def finish(self) -> None:
        """Complete the gradient of the parameters below δ after the last pass."""


class Space(Protocol):
    """Where δ is added; ``inside`` opens the field of a batch."""

    def inside(self, model: nn.Module, batch: Sequence[Any]) -> contextlib.AbstractContextManager[Field]: ...


@dataclass
class AdversarialBase:
    """Settings shared by all strategies; a strategy is a subclass with ``__call__(model, loss, batch)``.

    Args:
        passes: K, forward and backward passes per batch.
        step_size, eps, start_norm, project, mask, norm: see :class:`~relearn.methods.perturbation.Ball`.
        reuse_masks: use the dropout masks of the first pass in all passes of a batch (:mod:`relearn.methods.dropout_masks`).
        space: where δ is added.

    If the ball is a point (an active ``eps`` of 0, or ``step_size`` and ``start_norm`` both 0), a strategy makes one pass of plain
    training, bit for bit.

    The defaults are those for RoBERTa-large on MNLI in the authors' scripts.

    Raises:
        ValueError: a setting is out of range.
    """

    passes: int = 3
    step_size: float = 0.1
    eps: float | None = 0.3
    start_norm: float | None = 0.1
    project: bool = True
    mask: str = "always"
    norm: str = "frobenius"
    reuse_masks: bool = True
    space: Space = field(default_factory=EmbeddingSpace)

    def __post_init__(self) -> None:
        require_positive_int("passes", self.passes)
        self.ball = Ball(self.eps, self.step_size, self.start_norm, self.project, self.mask, self.norm)
        self._skipped: Tensor | int = 0

    @property
    def skipped_count(self) -> int:
        """Number of ascent steps (per sample) skipped so far because the gradient was not finite."""
        return int(self._skipped)

    def state_dict(self) -> dict[str, Any]:
        """State for resuming; :func:`~relearn.methods.fit.fit` stores it in its checkpoint."""
        return {"skipped": self.skipped_count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state from :meth:`state_dict`; an empty mapping resets it."""
        self._skipped = int(state.get("skipped", 0))

    def masks(self) -> MaskReplay:
        return MaskReplay(self.reuse_masks)

    def start(self, field: Field) -> Tensor:
        return field.confine(field.start(self.ball))

    def ascend(self, field: Field, delta: Tensor, gradient: Tensor) -> Tensor:
        """δ after one ascent step, projected to legal inputs; counts skipped steps without synchronising with the device."""
        moved, skipped = self.ball.ascend(delta, gradient, field.samples, field.real)
        self._skipped = self._skipped + skipped
        return field.confine(moved)


def require_positive_int(key: str, value: Any) -> None:
    """Check that a setting is an integer of at least 1.

    Raises:
        ValueError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{key}: found {value!r} (allowed: a whole number, 1 or more)")


@contextlib.contextmanager
def frozen_running_statistics(model: nn.Module | None) -> Iterator[None]:
    """Context in which batch normalisation in training mode uses batch statistics but does not update its running statistics.

    The running statistics then move once per step, however many passes a step has. With ``model=None`` nothing is done.
    """
    found: list[nn.Module] = []
    try:
        for module in model.modules() if model is not None else ():
            _freeze(module, found)
        yield
    finally:
        for module in found:
            module.track_running_stats = True  # type: ignore[assignment]


@contextlib.contextmanager
def frozen_wherever_called() -> Iterator[None]:
    """:func:`frozen_running_statistics` for every module called in the context; for losses that do not expose their model."""
    found: list[nn.Module] = []
    handle = register_module_forward_pre_hook(lambda module, given: _freeze(module, found))
    try:
        yield
    finally:
        handle.remove()
        for module in found:
            module.track_running_stats = True  # type: ignore[assignment]


def _freeze(module: nn.Module, found: list[nn.Module]) -> None:
    """Stop a batch normalisation in training mode from updating its running statistics, and add it to ``found``."""
    norm = isinstance(module, nn.modules.batchnorm._BatchNorm)
    if norm and module.training and module.track_running_stats:
        module.track_running_stats = False  # type: ignore[assignment]
        found.append(module)
