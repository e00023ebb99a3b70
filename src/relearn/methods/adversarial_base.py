"""What all adversarial strategies of :func:`relearn.methods.fit.fit` share: their settings, where δ lives, their count of skipped steps.

A **space** is where δ is added: :class:`~relearn.methods.embedding_space.EmbeddingSpace` (word embeddings) or
:class:`~relearn.methods.pixel_space.PixelSpace`. For one batch it opens a **field**, which runs the network at X + δ and gives ∇_δ.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from relearn.methods.dropout_masks import MaskReplay
from relearn.methods.embedding_space import EmbeddingSpace
from relearn.methods.perturbation import Ball


class Field(Protocol):
    """One batch and its perturbations."""

    samples: int
    real: Tensor | None
    """(rows, n) bool, or None: every entry is real."""
    device: torch.device
    shape: tuple[int, ...]
    """Of δ."""

    @property
    def point(self) -> Tensor:
        """The δ of the last :meth:`output`, a leaf: what to differentiate by."""

    def start(self, ball: Ball) -> Tensor:
        """δ_0."""

    def output(self, delta: Tensor) -> Any:
        """The network's output at X + δ."""

    def confine(self, delta: Tensor) -> Tensor:
        """δ brought back to where X + δ is a legal input."""

    def gradient(self) -> Tensor:
        """∇_δ as the backward pass of the last :meth:`output` left it. Once after each that is meant for the parameters."""

    def finish(self) -> None:
        """After the last pass: what the parameters below δ have still to get."""


class Space(Protocol):
    """Where δ is added."""

    def inside(self, model: nn.Module, batch: Sequence[Any]) -> contextlib.AbstractContextManager[Field]: ...


@dataclass
class AdversarialBase:
    """The settings; a strategy is a subclass with ``__call__(model, loss, batch)``.

    Args:
        passes: forward and backward passes K of a batch.
        step_size, eps, start_norm, project, mask, norm: see :class:`~relearn.methods.perturbation.Ball`.
        reuse_masks: all passes of a batch with the first one's dropout masks (:mod:`relearn.methods.dropout_masks`).
        space: where δ is added.

    With an ``eps`` of 0 that is in use, or a ``step_size`` and a ``start_norm`` of 0, a strategy is plain training, bit for bit,
    of one pass: there is nothing to draw and nothing to average over.

    The defaults are those of MNLI for RoBERTa-large in the authors' scripts.

    Raises:
        ValueError: a setting out of range.
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
        whole("passes", self.passes)
        self.ball = Ball(self.eps, self.step_size, self.start_norm, self.project, self.mask, self.norm)
        self._skipped: Tensor | int = 0

    @property
    def skipped_count(self) -> int:
        """Steps of a sample's δ that were left out so far, because its gradient was not finite."""
        return int(self._skipped)

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs; :func:`~relearn.methods.fit.fit` keeps it in its checkpoint."""
        return {"skipped": self.skipped_count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what :meth:`state_dict` gave; nothing starts anew."""
        self._skipped = int(state.get("skipped", 0))

    def masks(self) -> MaskReplay:
        return MaskReplay(self.reuse_masks)

    def start(self, field: Field) -> Tensor:
        return field.confine(field.start(self.ball))

    def ascend(self, field: Field, delta: Tensor, gradient: Tensor) -> Tensor:
        """δ after one step, legal; counts what was skipped without waiting for the device."""
        moved, skipped = self.ball.ascend(delta, gradient, field.samples, field.real)
        self._skipped = self._skipped + skipped
        return field.confine(moved)


def whole(key: str, value: Any) -> None:
    """Refuse what is no whole number of at least 1.

    Raises:
        ValueError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{key}: found {value!r} (allowed: a whole number, 1 or more)")


@contextlib.contextmanager
def still_statistics(model: nn.Module | None) -> Iterator[None]:
    """Inside, batch normalisation in training mode takes the batch's statistics and leaves its running ones alone.

    So that the running statistics move once a step, however many passes it has. None: nothing is done.
    """
    found = [
        module
        for module in (model.modules() if model is not None else ())
        if isinstance(module, nn.modules.batchnorm._BatchNorm)
        and module.training
        and module.track_running_stats
    ]
    try:
        for module in found:
            module.track_running_stats = False
        yield
    finally:
        for module in found:
            module.track_running_stats = True
