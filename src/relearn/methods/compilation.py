"""``torch.compile`` for the training step, with a fallback to eager execution."""

from __future__ import annotations

import contextlib
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

Step = Callable[[nn.Module, Callable[..., Tensor], Sequence[Any]], Tensor]
CHOICES = (False, True, "auto")


@contextlib.contextmanager
def compiled(
    model: nn.Module, wanted: bool | str, device: torch.device, backend: str | Callable[..., Any] = "inductor"
) -> Iterator[Callable[[Step], Step]]:
    """Context in which ``model(...)`` runs compiled; yields a function that adds the fallback to a gradient strategy.

    ``auto`` compiles on CUDA only, because on a CPU the C++ compiler takes minutes. The model is compiled in place, so its parameters
    keep their names and a strategy can treat it as the original module; on exit it is restored.

    If the compiler fails on the model, a one-line warning is issued and the same step is repeated in eager mode. torch cannot compile
    second derivatives, so do not use it with strategies that need them.

    Raises:
        ValueError: ``wanted`` is none of False, True, ``auto``.
    """
    if wanted not in CHOICES:
        raise ValueError(f"compile: found {wanted!r}, allowed are False, True, 'auto'")
    if not wanted or (wanted == "auto" and device.type != "cuda"):
        yield lambda step: step
        return

    from torch._dynamo.exc import TorchDynamoException

    def guard(step: Step) -> Step:
        def guarded(model: nn.Module, loss: Callable[..., Tensor], batch: Sequence[Any]) -> Tensor:
            try:
                return step(model, loss, batch)
            except TorchDynamoException as error:
                if model._compiled_call_impl is None:
                    raise
                said = " ".join([line.strip() for line in str(error).splitlines() if line.strip()][:2])
                text = f"not compiled, running in eager mode: {said or type(error).__name__}"
                warnings.warn(text, RuntimeWarning, stacklevel=2)
                model._compiled_call_impl = None
                model.zero_grad(set_to_none=True)
                return step(model, loss, batch)

        return guarded

    def call(*inputs: Any) -> Any:
        return model._call_impl(*inputs)

    # Like model.compile(), but through a function of ours, because torch skips its own containers (such as nn.Sequential), and with a
    # new code object: torch stores compiled variants there and stops compiling after eight models in one process.
    fresh = types.FunctionType(call.__code__.replace(), globals(), closure=call.__closure__)
    model._compiled_call_impl = torch.compile(fresh, backend=backend)
    try:
        yield guard
    finally:
        model._compiled_call_impl = None


@contextlib.contextmanager
def plainly(model: nn.Module) -> Iterator[None]:
    """Context in which a compiled model runs in eager mode, for evaluations whose varying shapes would each trigger a compilation."""
    kept, model._compiled_call_impl = model._compiled_call_impl, None
    try:
        yield
    finally:
        model._compiled_call_impl = kept
