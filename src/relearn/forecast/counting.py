"""Counts the operations of a network's forward pass on torch's meta device: shapes without values, so any size is cheap."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from relearn.forecast import counts
from relearn.studies.work import Counts, Net

SAMPLES = 2
"""Samples of the counted batch: batch normalisation refuses one."""


class Counter(TorchDispatchMode):
    """Dispatch mode that sums the operations computed and the bytes moved by all operations under it."""

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = self.products = self.moved = self.calls = 0.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.aten._local_scalar_dense.default and without_values(args[0]):
            return False if args[0].dtype == torch.bool else 0.0 if args[0].is_floating_point() else 0
        out = func(*args, **kwargs)
        if func.is_view or func.namespace == "prim":
            return out
        known = flop_registry.get(func._overloadpacket)
        if known is not None:
            done = known(*args, **kwargs, out_val=out)
            if "convolution" in func.name():
                self.convolutions += done
            else:
                self.products += done
        tensors = [one for one in tree_leaves((args, kwargs, out)) if isinstance(one, torch.Tensor)]
        self.moved += sum(one.numel() * one.element_size() for one in tensors)
        self.calls += 1
        return out


def without_values(tensor: torch.Tensor) -> bool:
    """Whether the tensor has no values, so that a query such as a range check cannot be answered."""
    return tensor.is_meta or isinstance(tensor, FakeTensor)


def count(net: Net) -> Counts:
    """The operations of one sample in one forward pass in training mode.

    Raises:
        ValueError: the network can be neither built nor run; a message of one line.
    """
    module, _, name = net.build.partition(":")
    build: Callable[..., torch.nn.Module] = getattr(import_module(module), name)
    fault = ""
    # Some layers query the type of their device, which "meta" does not support; fake CPU tensors have no values either.
    # The last fallback, with real tensors, is for token models that index by a mask; these are small.
    ways: list[Callable[[], Any]] = [lambda: torch.device("meta"), FakeTensorMode, contextlib.nullcontext]
    for without_numbers in ways:
        try:
            with warnings.catch_warnings(), without_numbers():
                warnings.simplefilter("ignore")
                model = build(**net.arguments).train()
                inputs = sample(net.shape)
                weights = sum(one.numel() for one in model.parameters())
                with torch.no_grad(), Counter() as counter:
                    model(*arguments(model, inputs))
            break
        except Exception as error:  # a model may raise anything
            fault = f"{net.build}: {dict(net.arguments)}: {str(error).splitlines()[0]}"
    else:
        raise ValueError(fault)
    each = 4.0 * weights  # the weights are read once per batch, whatever its size
    return Counts(
        convolutions=counter.convolutions / SAMPLES,
        products=counter.products / SAMPLES,
        moved=max(0.0, counter.moved - each) / SAMPLES,
        calls=counter.calls,
        weights=float(weights),
    )


def sample(shape: tuple[int, ...]) -> torch.Tensor:
    if len(shape) == 1:
        return torch.ones(SAMPLES, *shape, dtype=torch.int64)  # 0 may be padding
    return torch.zeros(SAMPLES, *shape)


def arguments(model: torch.nn.Module, inputs: torch.Tensor) -> list[torch.Tensor]:
    """The arguments of the model's forward: the samples, and a mask of all-valid tokens if it requires one."""
    needed = [
        one
        for one in inspect.signature(model.forward).parameters.values()
        if one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    return [inputs, torch.ones_like(inputs, dtype=torch.bool)][: max(1, len(needed))]


def count_missing(nets: Iterable[Net], say: Callable[[str], None]) -> dict[str, Counts]:
    """Count each network that is not in the table; report and skip those that cannot be counted."""
    found: dict[str, Counts] = {}
    known = counts.table()
    for net in nets:
        name = counts.key(net)
        if name in known or name in found:
            continue
        try:
            found[name] = count(net)
        except ValueError as error:
            say(str(error)[:300])
    return found
