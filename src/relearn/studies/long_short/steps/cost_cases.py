"""Cases of `benchmark_attention`: each builds a network and random tokens and returns the call to be timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, TypeVar

Call = Callable[[], None]
CURVES = {
    "full": ("full", "length"),
    "long_short": ("long_short", "length"),
    "long_short_window_cache": ("long_short", "window"),
    "long_short_no_cache": ("long_short", ""),
}
"""Name in `benchmark_attention` → attention of the model, and its cache: as long as the input (as in training), a window, none."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Of the network of either protocol."""

    layers: int
    dim: int
    heads: int
    ffn: int
    vocabulary: int


@dataclass(frozen=True, kw_only=True)
class CurveSizes(Sizes):
    window: int
    segment: int
    rank: int


@dataclass(frozen=True, kw_only=True)
class LatencySizes(Sizes):
    classes: int


Kind = TypeVar("Kind", bound=Sizes)


def sizes_of(kind: type[Kind], settings: Sizes) -> Kind:
    """The sizes among the settings of a protocol."""
    return kind(**{one.name: getattr(settings, one.name) for one in fields(kind)})


@dataclass(frozen=True, kw_only=True)
class CurveSettings(CurveSizes):
    protocol: Literal["curve"]
    attentions: Sequence[str]
    lengths: Sequence[int]
    batches: Sequence[int]
    longest: Mapping[str, int]
    repeats: int
    memory: bool


@dataclass(frozen=True, kw_only=True)
class Task:
    length: int
    batch_size: int
    pairs: bool
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class LatencySettings(LatencySizes):
    protocol: Literal["latency"]
    tasks: Mapping[str, Task]
    attentions: Sequence[str]
    arguments: Mapping[str, Mapping[str, Any]]
    repeats: int


@dataclass(frozen=True, kw_only=True)
class CurveCase:
    """A character model that reads ``batch`` sequences of ``length`` characters.

    ``attention`` is a key of :data:`CURVES`, which determines the kind of attention and the number of cached positions.
    """

    attention: str
    length: int
    batch: int
    sizes: CurveSizes
    device: str = "cpu"
    precision: str = "fp32"

    def make(self) -> Call:
        """Return a call that resets the gradients and runs forward, loss and backward."""
        import torch
        from torch.nn.functional import cross_entropy

        from relearn.models.long_short_lm import create

        kind, mixed = torch.device(self.device).type, self.precision == "bf16"
        torch.manual_seed(0)
        sizes = self.sizes
        attention, cached = CURVES[self.attention]
        net = create(attention=attention, **asdict(sizes), dropout=0.0).to(self.device).train()
        shape = (self.batch, self.length + 1)
        seen = torch.randint(sizes.vocabulary, shape, device=self.device)
        inputs, targets = seen[:, :-1], seen[:, 1:].flatten()
        cache = None
        past = {"length": self.length, "window": sizes.window, "": 0}[cached]
        if past:
            rows = (self.batch, past, sizes.dim)
            cache = [torch.randn(rows, device=self.device) for _ in range(sizes.layers)]

        def step() -> None:
            net.zero_grad(set_to_none=True)
            with torch.autocast(kind, torch.bfloat16, enabled=mixed):
                logits, _ = net(inputs, cache=cache)
                loss = cross_entropy(logits.flatten(0, 1).float(), targets)
            loss.backward()

        return step


@dataclass(frozen=True, kw_only=True)
class LatencyCase:
    """An LRA encoder on a batch of full length: a forward pass; with ``train`` also loss and backward."""

    task: str
    attention: str
    length: int
    batch: int
    pairs: bool
    train: bool
    sizes: LatencySizes
    arguments: Mapping[str, Any] = field(default_factory=dict)
    device: str = "cpu"
    precision: str = "fp32"

    def make(self) -> Call:
        """Return the call to be timed."""
        import torch
        from torch.nn.functional import cross_entropy

        from relearn.models.lra_encoder import create

        kind, mixed = torch.device(self.device).type, self.precision == "bf16"
        torch.manual_seed(0)
        sizes = self.sizes
        net = create(
            self.attention,
            **asdict(sizes),
            max_length=self.length,
            pairs=self.pairs,
            attention_arguments=dict(self.arguments),
        )
        net.to(self.device).train(self.train)
        shape = (self.batch, 2, self.length) if self.pairs else (self.batch, self.length)
        tokens = torch.randint(1, sizes.vocabulary, shape, device=self.device)  # 0 would be padding
        labels = torch.randint(sizes.classes, (self.batch,), device=self.device)

        def infer() -> None:
            with torch.inference_mode(), torch.autocast(kind, torch.bfloat16, enabled=mixed):
                net(tokens)

        def learn() -> None:
            net.zero_grad(set_to_none=True)
            with torch.autocast(kind, torch.bfloat16, enabled=mixed):
                loss = cross_entropy(net(tokens).float(), labels)
            loss.backward()

        return learn if self.train else infer
