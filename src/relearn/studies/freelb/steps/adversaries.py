"""The methods of `finetune` and `train_images_adversarially`: their settings, and the gradient strategies that they name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from relearn.runs.settings import plain


@dataclass(frozen=True, kw_only=True)
class Vanilla:
    kind: Literal["vanilla"]
    passes: ClassVar[int] = 1

    def arguments(self) -> dict[str, Any]:
        """The arguments of the strategy."""
        return {}


@dataclass(frozen=True, kw_only=True)
class Adversary:
    passes: int
    step_size: float
    eps: float | None
    start_norm: float
    project: bool

    def arguments(self) -> dict[str, Any]:
        return {key: value for key, value in plain(self).items() if key != "kind"}


@dataclass(frozen=True, kw_only=True)
class OnPixels(Adversary):
    kind: Literal["pgd", "free_at", "freelb"]
    norm: str

    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "space": "pixels"}


@dataclass(frozen=True, kw_only=True)
class OnWords(Adversary):
    mask: str
    reuse_masks: bool = True


@dataclass(frozen=True, kw_only=True)
class Ascent(OnWords):
    kind: Literal["pgd", "free_at"]


@dataclass(frozen=True, kw_only=True)
class FreeLB(OnWords):
    kind: Literal["freelb"]
    clean_first: bool = False


@dataclass(frozen=True, kw_only=True)
class YOPO(OnWords):
    kind: Literal["yopo"]
    inner: int
    inner_step: str

    def arguments(self) -> dict[str, Any]:
        own = super().arguments()
        own["step"] = own.pop("inner_step")
        return own


Method = Vanilla | Ascent | FreeLB | YOPO
ImageMethod = Vanilla | OnPixels


def strategy_of(method: Method | ImageMethod) -> Any:
    """The gradient strategy.

    Raises:
        ValueError: it rejects a setting.
    """
    from relearn.methods.gradient_strategies import strategy

    return strategy(method.kind, **method.arguments())


def passes_of(method: Method | ImageMethod) -> int:
    """Forward and backward passes per step of the training."""
    return method.passes // replays_of(method)


def replays_of(method: Method | ImageMethod) -> int:
    """Repetitions of each minibatch: K with FreeAT, which updates after every pass, otherwise 1."""
    return method.passes if method.kind == "free_at" else 1
