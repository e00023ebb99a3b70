"""Cases of `benchmark_attention`: each builds a network and random tokens and returns the call to be timed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

Call = Callable[[], None]
CURVES = {
    "full": ("full", "length"),
    "long_short": ("long_short", "length"),
    "long_short_window_cache": ("long_short", "window"),
    "long_short_no_cache": ("long_short", ""),
}
"""Name in `benchmark_attention` → attention of the model, and its cache: as long as the input (as in training), a window, none."""


@dataclass(frozen=True)
class CurveCase:
    """A character model that reads ``batch`` sequences of ``length`` characters.

    ``attention`` is a key of :data:`CURVES`, which determines the kind of attention and the number of cached positions.
    """

    SIZES: ClassVar = ("layers", "dim", "heads", "ffn", "window", "segment", "rank", "vocabulary")
    attention: str
    length: int
    batch: int
    layers: int
    dim: int
    heads: int
    ffn: int
    window: int
    segment: int
    rank: int
    vocabulary: int
    device: str = "cpu"
    precision: str = "fp32"

    def make(self) -> Call:
        """Return a call that resets the gradients and runs forward, loss and backward."""
        import torch
        from torch.nn.functional import cross_entropy

        from relearn.models.long_short_lm import create

        torch.manual_seed(0)
        sizes = {key: getattr(self, key) for key in self.SIZES}
        kind, cached = CURVES[self.attention]
        net = create(attention=kind, **sizes, dropout=0.0).to(self.device).train()
        shape = (self.batch, self.length + 1)
        seen = torch.randint(self.vocabulary, shape, device=self.device)
        inputs, targets = seen[:, :-1], seen[:, 1:].flatten()
        cache = None
        past = {"length": self.length, "window": self.window, "": 0}[cached]
        if past:
            rows = (self.batch, past, self.dim)
            cache = [torch.randn(rows, device=self.device) for _ in range(self.layers)]

        def step() -> None:
            net.zero_grad(set_to_none=True)
            with autocast(self.device, self.precision):
                logits, _ = net(inputs, cache=cache)
                loss = cross_entropy(logits.flatten(0, 1).float(), targets)
            loss.backward()

        return step


@dataclass(frozen=True)
class LatencyCase:
    """An LRA encoder on a batch of full length: a forward pass; with ``train`` also loss and backward."""

    SIZES: ClassVar = ("layers", "dim", "heads", "ffn", "vocabulary", "classes")
    task: str
    attention: str
    length: int
    batch: int
    pairs: bool
    train: bool
    layers: int
    dim: int
    heads: int
    ffn: int
    vocabulary: int
    classes: int
    arguments: Mapping[str, Any] = field(default_factory=dict)
    device: str = "cpu"
    precision: str = "fp32"

    def make(self) -> Call:
        """Return the call to be timed."""
        import torch
        from torch.nn.functional import cross_entropy

        from relearn.models.lra_encoder import create

        torch.manual_seed(0)
        sizes = {key: getattr(self, key) for key in self.SIZES}
        net = create(
            self.attention,
            **sizes,
            max_length=self.length,
            pairs=self.pairs,
            attention_arguments=dict(self.arguments),
        )
        net.to(self.device).train(self.train)
        shape = (self.batch, 2, self.length) if self.pairs else (self.batch, self.length)
        tokens = torch.randint(1, self.vocabulary, shape, device=self.device)  # 0 would be padding
        labels = torch.randint(self.classes, (self.batch,), device=self.device)

        def infer() -> None:
            with torch.inference_mode(), autocast(self.device, self.precision):
                net(tokens)

        def learn() -> None:
            net.zero_grad(set_to_none=True)
            with autocast(self.device, self.precision):
                loss = cross_entropy(net(tokens).float(), labels)
            loss.backward()

        return learn if self.train else infer


def autocast(device: str, precision: str) -> contextlib.AbstractContextManager[Any]:
    """bf16 autocast if ``precision`` is bf16, else no autocast."""
    import torch

    if precision != "bf16":
        return contextlib.nullcontext()
    return torch.autocast(torch.device(device).type, dtype=torch.bfloat16)
