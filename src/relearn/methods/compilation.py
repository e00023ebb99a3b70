"""``torch.compile`` for a training step, where it helps, and plain execution where it fails."""

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
    """Inside, ``model(...)`` runs compiled; gives a function that makes a gradient strategy fall back.

    ``auto`` compiles on CUDA only: on a CPU the first minutes go into the C++ compiler. The model is compiled in place, so that its
    parameters keep their names and a strategy may treat it as the module that it is; afterwards it is as before.

    If the compiler gives up on the model, a warning of one line says so and the same step is done again without it. torch cannot
    compile a second derivative: leave it off with strategies that need one.

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
                text = f"not compiled, running plainly: {said or type(error).__name__}"
                warnings.warn(text, RuntimeWarning, stacklevel=2)
                model._compiled_call_impl = None
                model.zero_grad(set_to_none=True)
                return step(model, loss, batch)

        return guarded

    def call(*inputs: Any) -> Any:
        return model._call_impl(*inputs)

    # As model.compile() does, but through a function of ours, because torch skips its own containers (nn.Sequential, say), and with a
    # code object of its own: torch keeps compiled variants there, and after eight models in one process it would stop compiling.
    fresh = types.FunctionType(call.__code__.replace(), globals(), closure=call.__closure__)
    model._compiled_call_impl = torch.compile(fresh, backend=backend)
    try:
        yield guard
    finally:
        model._compiled_call_impl = None


@contextlib.contextmanager
def plainly(model: nn.Module) -> Iterator[None]:
    """Inside, a compiled model runs as it is written: for an evaluation, whose shapes would each be compiled once more."""
    kept, model._compiled_call_impl = model._compiled_call_impl, None
    try:
        yield
    finally:
        model._compiled_call_impl = kept
