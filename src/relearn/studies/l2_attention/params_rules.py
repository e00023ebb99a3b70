"""What params.yaml may say of ``l2_attention``: the rules that tie several keys together; see ``schema_rules``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from relearn.params.forecast_memory import DOUBLE, Need, Tensor, attention, jacobian, transformer

Get = Callable[[str], Any]
Conflict = tuple[tuple[str | int, ...], str]

L = "l2_attention"
#: kinds of attention of which a trained layer is looked at in figures 5, 8 and 10
LOOKED_AT = ("dp", "l2_tied")


def _at(key: str) -> tuple[str | int, ...]:
    return tuple(key.split("."))


def _widths(get: Get) -> Iterator[Conflict]:
    """Every width is a multiple of the heads that go with it; a sinusoidal position needs an even one."""
    for section, even in (("network", True), ("figure_8", False), ("inversion", False), ("clock", True)):
        heads, key = get(f"{L}.{section}.heads"), f"{L}.{section}.dim"
        if get(key) % heads or (even and get(key) % 2):
            kind = "an even multiple" if even else "a multiple"
            yield _at(key), f"found {get(key)}, allowed: {kind} of heads = {heads}"
    for section in ("inversion", "examine"):
        heads, key = get(f"{L}.{section}.heads"), f"{L}.{section}.dims"
        for index, dim in enumerate(get(key)):
            if dim % heads:
                yield (*_at(key), index), f"found {dim}, allowed: multiples of heads = {heads}"


def _top(get: Get) -> Iterator[Conflict]:
    for figure in ("figure_2", "figure_7", "figure_8"):
        key, starts = f"{L}.{figure}.top", get(f"{L}.{figure}.starts")
        if get(key) > starts:
            yield _at(key), f"found {get(key)}, allowed: at most starts = {starts}"


def _looked_at(get: Get) -> Iterator[Conflict]:
    """Figures 5, 8 and 10 show layers of the one-layer models of figure 4."""
    for kind in LOOKED_AT:
        key = f"{L}.depths.warmup.{kind}"
        if get(key) and get(key)[0] != 1:
            yield (*_at(key), 0), f"found {get(key)[0]}, allowed: 1 (figures 5, 8 and 10 look at its layer)"


def _evaluations(get: Get) -> Iterator[Conflict]:
    key, steps = f"{L}.train.evaluations", get(f"{L}.train.steps")
    if get(key) > steps:
        yield _at(key), f"found {get(key)}, allowed: at most train.steps = {steps}"


RULES = (_widths, _top, _looked_at, _evaluations)


def _language_memory(get: Get) -> Iterator[Need]:
    key, longest = f"{L}.network.dim", get(f"{L}.characters.max_length") + 1
    sizes = {name: get(f"{L}.network.{name}") for name in ("dim", "ffn", "heads")}
    deepest = max(
        layers
        for recipe in ("warmup", "fixed")
        for depths in get(f"{L}.depths.{recipe}").values()
        for layers in depths or [1]
    )
    tensors = transformer(**sizes, layers=deepest, length=longest, batch=get(f"{L}.train.batch_size"))
    yield Need(_at(key), get(key), tensors)


def _clock_memory(get: Get) -> Iterator[Need]:
    key, longest = f"{L}.clock.dim", get(f"{L}.characters.max_length") + 1
    sizes = {name: get(f"{L}.clock.{name}") for name in ("dim", "ffn", "heads")}
    batch = get(f"{L}.clock.batch_size")
    tensors = transformer(**sizes, layers=max(get(f"{L}.clock.layers")), length=longest, batch=batch)
    yield Need(_at(key), get(key), tensors)


def _ascent_memory(get: Get) -> Iterator[Need]:
    """The inputs of all starts, and one start's attention weights in double precision."""
    for figure in ("figure_7", "figure_8"):
        own, key = get(f"{L}.{figure}"), f"{L}.{figure}.starts"
        longest = own["length"] if "length" in own else own["lengths"][-1]
        width, heads = own.get("dim", 1), own.get("heads", 1)
        inputs = Tensor("inputs", (("starts", get(key)), ("length", longest), ("dim", width)), DOUBLE)
        yield Need(_at(key), get(key), (inputs, attention(1, heads, longest, DOUBLE)))


def _inversion_memory(get: Get) -> Iterator[Need]:
    """All pairs of lengths and widths: the widest layer, the longest inputs and their attention weights."""
    own, key = get(f"{L}.inversion"), f"{L}.inversion.batch"
    longest, widest = max(own["length"], *own["lengths"]), max(own["dim"], *own["dims"])
    inputs = Tensor("inputs", (("batch", get(key)), ("length", longest), ("dim", widest)), DOUBLE)
    weights = attention(get(key), own["heads"], longest, DOUBLE)
    yield Need(_at(key), get(key), (inputs, weights))


def _examine_memory(get: Get) -> Iterator[Need]:
    key = f"{L}.examine.dims"
    longest, widest = get(f"{L}.examine.lengths")[-1], get(key)[-1]
    yield Need((*_at(key), len(get(key)) - 1), widest, (jacobian(longest, widest),))


NEEDS = (_language_memory, _clock_memory, _ascent_memory, _inversion_memory, _examine_memory)
