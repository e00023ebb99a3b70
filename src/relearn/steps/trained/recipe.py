"""Training recipes: fields of a step's settings, and the arguments of `fit` that they mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from relearn.runs.settings import picked
from relearn.steps.trained.spacing import spacing

FEWEST_STEPS = 50  # between two checkpoints


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A training of ``steps`` steps that is evaluated ``evaluations`` times, evenly spaced, the last time at its end.

    Args:
        lr: peak learning rate.
        schedule: how the rate falls after ``warmup_steps`` steps, see `fit`.
        clip_norm: largest norm of the gradient; None: no clipping.
    """

    steps: int
    evaluations: int
    lr: float
    weight_decay: float
    schedule: str
    warmup_steps: int
    clip_norm: float | None

    def fit_arguments(self) -> dict[str, Any]:
        """The arguments of `fit`."""
        row, every = spacing(self.steps, self.evaluations)
        return {
            **picked(self, "steps", "lr", "weight_decay", "schedule", "warmup_steps", "clip_norm"),
            "evaluate_every": every,
            "history_steps": row,
            "checkpoint_steps": max(FEWEST_STEPS, self.steps // 10),
        }


@dataclass(frozen=True, kw_only=True)
class AdamRecipe(Recipe):
    """The same with Adam or AdamW; ``betas`` are the decay rates of its moments, ``adam_eps`` is added to its denominator."""

    betas: tuple[float, float]
    adam_eps: float

    def fit_arguments(self) -> dict[str, Any]:
        return {**super().fit_arguments(), "optimizer": "adamw", "betas": self.betas, "eps": self.adam_eps}


@dataclass(frozen=True, kw_only=True)
class SgdEpochs:
    """A training of ``epochs`` epochs with SGD, evaluated after each of them; with the schedule ``step`` the rate falls
    to a tenth after a half and after three quarters of them."""

    epochs: int
    lr: float
    momentum: float
    weight_decay: float
    schedule: str

    def fit_arguments(self) -> dict[str, Any]:
        """The arguments of `fit`."""
        return {
            **picked(self, "epochs", "lr", "momentum", "weight_decay", "schedule"),
            "milestones": (self.epochs / 2, self.epochs * 3 / 4),
            "optimizer": "sgd",
            "checkpoint_every": max(1, self.epochs // 10),
        }


@dataclass(frozen=True, kw_only=True)
class SgdOnImages(SgdEpochs):
    """The same on batches of ``batch_size`` images, shifted by up to ``crop_padding`` pixels and, with ``flip``, mirrored at random."""

    batch_size: int
    crop_padding: int
    flip: bool

    def fit_arguments(self) -> dict[str, Any]:
        from relearn.methods.augmentation import crop_and_flip

        augment = crop_and_flip(self.crop_padding, self.flip)
        return {**super().fit_arguments(), "batch_size": self.batch_size, "augment": augment}
