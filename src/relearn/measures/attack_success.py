"""Success of a poisoning attack, and the threat model that limits the attacker.

Zhu 2022, section 2.2: targeted, clean-label attacks. The threat model is checked on the images used for training,
before any attack is scored.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

KNOWLEDGE = {
    "white_box": "the victim's weights are known",
    "gray_box": "the victim's architecture is among the substitutes, its weights are not known",
    "black_box": "the victim's architecture is not among the substitutes",
    "transfer": "crafted on substitutes before a victim is named",
}
NORMS = ("linf",)
SETTINGS = ("transfer", "end_to_end")


def succeeded(predicted: Tensor | ArrayLike, poison_class: int) -> NDArray[np.bool_]:
    """Return whether the victim assigns the target to the poisons' class; any other class counts as a failure.

    Args:
        predicted: predicted class of the target after fine-tuning, any shape; one entry per victim and target.
        poison_class: the class that the attacker wants.

    Raises:
        ValueError: predictions that are not integers (e.g. logits).
    """
    classes = _numpy(predicted)
    if classes.size and classes.dtype.kind not in "iu":
        raise ValueError(f"predicted holds {classes.dtype}; allowed: whole numbers, the predicted classes")
    return np.asarray(classes == poison_class)


@dataclass(frozen=True)
class ThreatModel:
    """Knowledge and capabilities of the attacker.

    Args:
        knowledge: one of ``KNOWLEDGE``.
        poisons_count: number of images that the attacker adds to the fine-tuning set for one target.
        class_count: number of images of the poisons' class in the fine-tuning set, including poisons.
        fine_tune_count: number of images in the fine-tuning set, including poisons.
        eps: largest change of a pixel, in [0,1] pixel scale.
        norm: ``linf``.
        clean_label: whether a poison keeps the label of its base.
        setting: ``transfer`` (frozen features, linear head) or ``end_to_end``.

    Raises:
        ValueError: a value out of range.
    """

    knowledge: str
    poisons_count: int
    class_count: int
    fine_tune_count: int
    eps: float
    norm: str = "linf"
    clean_label: bool = True
    setting: str = "transfer"

    def __post_init__(self) -> None:
        for name, allowed in (("knowledge", tuple(KNOWLEDGE)), ("norm", NORMS), ("setting", SETTINGS)):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} is {getattr(self, name)!r}; allowed: {', '.join(allowed)}")
        if not (0 <= self.eps <= 1):
            raise ValueError(f"eps is {self.eps}; allowed: 0 to 1, in [0,1] pixel scale")
        if not 0 <= self.poisons_count <= self.class_count <= self.fine_tune_count:
            counts = f"{self.poisons_count}, {self.class_count}, {self.fine_tune_count}"
            raise ValueError(f"poisons_count <= class_count <= fine_tune_count must hold; found {counts}")

    @property
    def eps_255(self) -> float:
        """ε in units of 8-bit pixel values."""
        return self.eps * 255

    @property
    def poisons_of_class_frac(self) -> float:
        """Budget as a fraction of the poisons' class; NaN for an empty class."""
        return self.poisons_count / self.class_count if self.class_count else math.nan

    @property
    def poisons_of_set_frac(self) -> float:
        """Budget as a fraction of the fine-tuning set; NaN for an empty set."""
        return self.poisons_count / self.fine_tune_count if self.fine_tune_count else math.nan

    def check(
        self,
        poisons: Tensor | NDArray[Any],
        bases: Tensor | NDArray[Any],
        *,
        labels: Tensor | ArrayLike | None = None,
        base_labels: Tensor | ArrayLike | None = None,
    ) -> None:
        """Check crafted images against the threat model.

        Args:
            poisons: uint8 (k, C, H, W), or (T, k, C, H, W) for T targets.
            bases: uint8 (k, C, H, W), or shaped like the poisons.
            labels: labels with which the poisons are trained, (k,) or (T, k); checked if given.
            base_labels: labels of the bases, required with ``labels``.

        Raises:
            ValueError: a violation of the threat model; the first one is named.
        """
        crafted, base = _numpy(poisons), _numpy(bases)
        for name, images in (("poisons", crafted), ("bases", base)):
            if images.dtype != np.uint8:
                raise ValueError(f"{name} hold {images.dtype}; allowed: uint8, the images as trained on")
            if images.ndim not in (4, 5):
                raise ValueError(f"{name} have shape {images.shape}; allowed: (k, C, H, W), (T, k, C, H, W)")
        if crafted.shape[-4:] != base.shape[-4:] or (base.ndim == 5 and base.shape != crafted.shape):
            raise ValueError(f"poisons have shape {crafted.shape}, bases {base.shape}; allowed: the same")
        if crafted.shape[-4] != self.poisons_count:
            raise ValueError(f"there are {crafted.shape[-4]} poisons; the budget is {self.poisons_count}")
        change = np.abs(crafted.astype(np.int16) - base.astype(np.int16))
        # 8-bit changes are integers, so this only tolerates the rounding of 255 times eps
        if change.size and change.max() > self.eps_255 + 1e-6:
            where = tuple(int(i) for i in np.unravel_index(change.argmax(), change.shape))
            found = f"{change.max()}/255 = {change.max() / 255:.4g}"
            allowed = f"{self.eps_255:.4g}/255 = {self.eps:.4g}"
            raise ValueError(f"poisons{list(where)} differs from its base by {found}; eps allows {allowed}")
        if self.clean_label and labels is not None:
            if base_labels is None:
                raise ValueError("base_labels is missing; labels are checked against it")
            given, own = np.broadcast_arrays(_numpy(labels), _numpy(base_labels))
            if (given != own).any():
                where = tuple(int(i) for i in np.argwhere(given != own)[0])
                found = f"label {given[where]}, its base {own[where]}"
                raise ValueError(f"poisons{list(where)} has {found}; clean_label allows no other label")

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON values for the record, with derived ones and the unit of ε."""
        return {
            "knowledge": self.knowledge,
            "setting": self.setting,
            "clean_label": self.clean_label,
            "poisons_count": self.poisons_count,
            "class_count": self.class_count,
            "fine_tune_count": self.fine_tune_count,
            "poisons_of_class_frac": _or_none(self.poisons_of_class_frac),
            "poisons_of_set_frac": _or_none(self.poisons_of_set_frac),
            "norm": self.norm,
            "eps": self.eps,
            "eps_unit": "[0,1] pixel scale",
            "eps_255": self.eps_255,
        }


def rejections(
    poisons: Tensor | NDArray[Any], bases: Tensor | NDArray[Any], threat: ThreatModel
) -> dict[int, str]:
    """Return the targets whose poisons violate the threat model, and why; such attacks count as failed.

    Args:
        poisons: uint8 (T, k, C, H, W), the images used for training.
        bases: uint8 (k, C, H, W) for all targets, or shaped like the poisons.
        threat: the threat model.

    Raises:
        ValueError: nothing can be checked (wrong type, shape or number of poisons).
    """
    crafted, base = _numpy(poisons), _numpy(bases)
    if crafted.ndim != 5:
        raise ValueError(f"poisons have shape {crafted.shape}; allowed: (T, k, C, H, W)")
    found = {}
    for t, own in enumerate(crafted):
        clean = base[t] if base.ndim == 5 else base
        if own.dtype != np.uint8 or own.shape != clean.shape or len(own) != threat.poisons_count:
            threat.check(own, clean)
        try:
            threat.check(own, clean)
        except ValueError as error:
            found[t] = str(error)
    return found


def _numpy(values: Any) -> NDArray[Any]:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
