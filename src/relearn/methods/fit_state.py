"""State of the training loop for exact resuming, as one dict of tensors and plain values."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from relearn.maths.eval_mode import modes_kept


class Checkpoint(Protocol):
    """Storage of a procedure's state: a dict of tensors and plain values, written atomically."""

    def load(self) -> dict[str, Any] | None: ...

    def save(self, state: dict[str, Any]) -> None: ...


def capture(model: nn.Module, stepper: torch.optim.Optimizer) -> dict[str, Any]:
    """Parameters and buffers of the model, and the optimiser's moments."""
    state: dict[str, Any] = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    for index, moments in stepper.state_dict()["state"].items():
        for name, value in moments.items():
            if value is not None:
                state[f"optimizer/{index}/{name}"] = torch.as_tensor(value)
    return state


def restore(state: dict[str, Any], model: nn.Module, stepper: torch.optim.Optimizer) -> None:
    """Restore the state from :func:`capture`."""
    model.load_state_dict({k.removeprefix("model/"): v for k, v in state.items() if k.startswith("model/")})
    moments: dict[int, dict[str, Tensor]] = {}
    for key, value in state.items():
        if key.startswith("optimizer/"):
            _, index, name = key.split("/")
            moments.setdefault(int(index), {})[name] = value
    stepper.load_state_dict({"state": moments, "param_groups": stepper.state_dict()["param_groups"]})


def random_state(device: torch.device, draws: torch.Generator) -> dict[str, Tensor]:
    """States of the loop's own generator, torch's global one, and the device's."""
    state = {"draws": draws.get_state(), "cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["device"] = torch.cuda.get_rng_state(device)
    return state


def set_random_state(state: dict[str, Tensor], device: torch.device, draws: torch.Generator) -> None:
    """Restore the states from :func:`random_state`."""
    draws.set_state(state["draws"].cpu())
    if "cpu" in state:
        torch.set_rng_state(state["cpu"].cpu())
    if device.type == "cuda" and "device" in state:
        torch.cuda.set_rng_state(state["device"].cpu(), device)


def strategy_state(gradient: Any) -> dict[str, Any]:
    """The ``state_dict()`` of a gradient strategy, if it has one."""
    own = getattr(gradient, "state_dict", None)
    return dict(own()) if callable(own) else {}


def restore_strategy(gradient: Any, states: Mapping[str, dict[str, Any]], rank: int, size: int) -> None:
    """Restore the :func:`strategy_state` of each of ``size`` processes; an empty mapping resets the strategy.

    If the number of processes has changed, all processes get the first one's plain values; its tensors belong to other shares of
    the batch.
    """
    take = getattr(gradient, "load_state_dict", None)
    if callable(take):
        take(states[str(rank)] if len(states) == size else _plain(states.get("0", {})))


def _plain(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state without tensors, including those of nested strategies."""
    return {
        key: _plain(value) if isinstance(value, Mapping) else value
        for key, value in state.items()
        if not isinstance(value, Tensor)
    }


@contextlib.contextmanager
def as_before(model: nn.Module) -> Iterator[None]:
    """Context that restores the mode of every module, the parameters' ``grad`` and the state of torch's global generators."""
    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices), modes_kept(model):
        try:
            yield
        finally:
            for parameter, gradient in gradients:
                parameter.grad = gradient
