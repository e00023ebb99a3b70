r"""Perturbations of word embeddings: :math:`f_\theta(X + \delta)` for :math:`X = VZ`, in any network with an embedding table.

zhu2022, section 3.3: δ is added to the word embeddings alone, before position and token-type embeddings, normalisation and dropout. A
forward hook on the embedding module adds it, so the network's code is unchanged and the network still receives token ids. RoBERTa
needs the ids to compute its positions; with ``inputs_embeds`` it would count padding as well.

**One backward pass through the table.** For an ``nn.Embedding`` the gradient with respect to its weight is linear in the gradient g of
the looked-up rows, and all passes look up the same rows:

.. math:: \sum_t \nabla_V\, L(VZ + \delta_t) = \Big(\sum_t g_t\Big) Z^\top + \ldots

so the g's are summed and back-propagated through the look-up once per step: a table of 50,000 words then gets one dense gradient per
step instead of one per pass. Other uses of the same weight (a tied output layer) get their gradient in every pass as usual. Any module
other than ``nn.Embedding`` (one with dropout inside, for example) is differentiated in every pass.

Batches are ``((tokens, real, ...), labels, ...)``: tokens (B, n), or (B, C, n) with C candidates per sample; ``real`` has the same shape
and is False on padding. ``(tokens, labels)`` alone means that there is no padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from relearn.methods.batch_source import outputs
from relearn.methods.perturbation import Ball

SHARDED = {"FullyShardedDataParallel", "FSDPModule"}
"""Classes of a sharded module, of FSDP and FSDP2."""


@dataclass(frozen=True)
class EmbeddingSpace:
    """δ is added to word embeddings.

    Args:
        module: name of the embedding module; by default :func:`word_embeddings` finds it.
    """

    module: str | None = None

    @contextmanager
    def inside(self, model: nn.Module, batch: Sequence[Any]) -> Iterator[EmbeddingField]:
        """Open the field of a batch ``(inputs, *rest)``.

        Raises:
            ValueError: the model has no input embeddings, is compiled (hooks are not called) or sharded (FSDP), or a sample is
                all padding.
        """
        if getattr(model, "_compiled_call_impl", None) is not None:
            raise ValueError(
                "compile: found a compiled model (allowed: False, because δ is added by a hook on its embeddings)"
            )
        refuse_sharded(model)
        field = EmbeddingField(model, batch[0], word_embeddings(model, self.module))
        handle = field.table.register_forward_hook(field.hook)
        try:
            yield field
        finally:
            handle.remove()


def refuse_sharded(model: nn.Module) -> None:
    """Reject FSDP models.

    Raises:
        ValueError: a part of the model is sharded; its parameters are gathered only for one forward and backward pass.
    """
    types = {type(part) for part in model.modules()}
    kinds = {kind.__name__ for one in types for kind in one.__mro__}
    if found := sorted(kinds & SHARDED):
        raise ValueError(f"fsdp: found {found[0]} (allowed: DistributedDataParallel, or one process)")


class Lookup:
    """Looked-up rows X, the δ last added to them, and the sum of gradients for one backward pass.

    Args:
        once: sum the gradients, see the module; False back-propagates to ``rows`` in every pass.
    """

    def __init__(self, once: bool) -> None:
        self.once = once
        self.first: Tensor | None = None
        self.leaf: Tensor | None = None
        self.total: Tensor | None = None

    @property
    def point(self) -> Tensor:
        assert self.leaf is not None
        return self.leaf

    def at(self, rows: Tensor, delta: Tensor) -> Tensor:
        """X + δ for X = ``rows``; δ becomes a new leaf tensor."""
        self.leaf = delta.detach().requires_grad_()
        if self.once and rows.requires_grad:
            self.first = rows if self.first is None else self.first
            rows = rows.detach()
        return rows + self.leaf.to(rows.dtype)

    def gradient(self) -> Tensor:
        """∇_δ of the last pass, which is also added to the sum."""
        found, self.leaf = self.point.grad, None
        if found is None:
            raise ValueError(
                "loss: does not depend on the embeddings (allowed: a loss of the network's output at X + δ)"
            )
        if self.first is not None:
            self.total = found.clone() if self.total is None else self.total.add_(found)
        return found

    def finish(self) -> None:
        """Back-propagate the summed gradient through the look-up."""
        if self.first is not None and self.total is not None:
            self.first.backward(self.total.to(self.first.dtype))
        self.first = self.total = self.leaf = None


def tokens_of(mask: Tensor, name: str = "real") -> Tensor:
    """The mask as booleans.

    Raises:
        ValueError: a value that is neither 0 nor 1, as in a mask that is added to scores.
    """
    if mask.dtype != torch.bool and not bool(((mask == 0) | (mask == 1)).all()):
        found = mask[(mask != 0) & (mask != 1)][0].item()
        raise ValueError(f"{name}: found {found:g} (allowed: 1 for a token, 0 for padding)")
    return mask.bool()


class EmbeddingField(Lookup):
    """A batch in a network whose words are looked up in ``table``."""

    mask_name = "real"  # name of ``real`` in error messages

    def __init__(self, model: nn.Module, inputs: Tensor | Sequence[Tensor], table: nn.Module) -> None:
        super().__init__(once=isinstance(table, nn.Embedding))
        tokens = inputs if isinstance(inputs, Tensor) else inputs[0]
        self.model, self.inputs, self.table = model, inputs, table
        self.samples = len(tokens)
        self.real = (
            None if isinstance(inputs, Tensor) or len(inputs) < 2 else tokens_of(inputs[1]).flatten(0, -2)
        )
        self.shape: tuple[int, ...] = (*tokens.flatten(0, -2).shape, _width(table))
        self.device = tokens.device
        self.dtype = torch.promote_types(torch.float32, _weight(table).dtype)
        self.delta: Tensor | None = None
        self.calls = 0

    def start(self, ball: Ball) -> Tensor:
        delta = ball.start(self.shape, self.samples, self.real, self.device, self.mask_name)
        return delta.to(self.dtype)

    def output(self, delta: Tensor) -> Any:
        """The network's output at X + δ; raises ValueError unless the words are looked up exactly once."""
        self.delta, self.calls = delta, 0
        try:
            found = outputs(self.model, self.inputs)
        finally:
            self.delta = None
        self.looked_up()
        return found

    def looked_up(self) -> None:
        if self.calls != 1:
            raise ValueError(
                f"module: its words are looked up {self.calls} times in a pass (allowed: once; name another module)"
            )

    def hook(self, module: nn.Module, arguments: Any, rows: Any) -> Tensor | None:
        """Add δ to the module's output while :meth:`output` runs."""
        if self.delta is None:
            return None
        self.calls += 1
        if self.calls > 1:
            self.looked_up()
        if not isinstance(rows, Tensor) or tuple(rows.shape) != self.shape:
            found = f"embeddings {tuple(rows.shape)}" if isinstance(rows, Tensor) else type(rows).__name__
            raise ValueError(f"module: returns {found} (allowed: {self.shape}, matching the tokens)")
        return self.at(rows, self.delta)

    def confine(self, delta: Tensor) -> Tensor:
        return delta


def word_embeddings(model: nn.Module, name: str | None = None) -> nn.Module:
    """The module that looks up words: the one called ``name`` if given; else the one returned by ``get_input_embeddings()`` of the
    model or of one of its parts, as in all models of transformers; else the only ``nn.Embedding``. For an encoder-decoder (T5, BART)
    it is the encoder's: the input words are perturbed, the output words are not.

    Raises:
        ValueError: there is no such module.
    """
    if name is not None:
        named = dict(model.named_modules())
        if name not in named:
            raise ValueError(
                f"module: found {name!r}, which {type(model).__name__} does not have (allowed: its modules' names)"
            )
        return named[name]
    for part in model.modules():
        ask = getattr(part, "get_input_embeddings", None)
        try:
            found = ask() if callable(ask) else None
        except (AttributeError, NotImplementedError):
            continue
        if isinstance(found, nn.Module):
            return _of_encoder(part, found)
    tables = [part for part in model.modules() if isinstance(part, nn.Embedding)]
    if len(tables) != 1:
        allowed = "get_input_embeddings(), or one nn.Embedding, or its name as module"
        raise ValueError(f"model: {type(model).__name__} has no input embeddings (allowed: {allowed})")
    return tables[0]


def _of_encoder(model: nn.Module, table: nn.Module) -> nn.Module:
    """The encoder's own module with the weight of ``table``, if the model has one.

    T5 and BART return a module that only holds the weight and is never called.
    """
    ask = getattr(model, "get_encoder", None)
    try:
        own = ask().get_input_embeddings() if callable(ask) else None
    except (AttributeError, NotImplementedError):
        return table
    if isinstance(own, nn.Embedding) and own.weight is getattr(table, "weight", None):
        return own
    return table


def _weight(table: nn.Module) -> Tensor:
    """A weight that gives the width: the module's own; that of the ``nn.Embedding`` inside (adapters wrap one and add matrices of other
    shapes); or the module's first matrix."""
    inner = [part.weight for part in table.modules() if isinstance(part, nn.Embedding)]
    known = [getattr(table, "weight", None), *inner, *table.parameters()]
    weights = [one for one in known if isinstance(one, Tensor) and one.dim() > 1]
    if not weights:
        raise ValueError(f"module: {type(table).__name__} has no weight (allowed: an embedding table)")
    return weights[0]


def _width(table: nn.Module) -> int:
    width = getattr(table, "embedding_dim", None)
    return int(width if isinstance(width, int) else _weight(table).shape[-1])
