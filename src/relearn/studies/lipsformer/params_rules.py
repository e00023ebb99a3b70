"""What params.yaml may say of ``lipsformer``: the rule that ties several keys together; see ``schema_rules``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from relearn.params.forecast_memory import DOUBLE, Need, Tensor, first_maps, jacobian

Get = Callable[[str], Any]
Conflict = tuple[tuple[str | int, ...], str]

PATCH, CHANNELS = 4, 96
"""Pixels of a side of a patch, and channels of the first stage, of Swin-T and of the networks that follow it."""


def _widths(get: Get) -> Iterator[Conflict]:
    """Every width is a multiple of the heads that go with it."""
    for theorem in ("theorem_1", "theorem_2"):
        section = f"lipsformer.examine.{theorem}"
        heads = get(f"{section}.heads")
        for index, dim in enumerate(get(f"{section}.dims")):
            if dim % heads:
                place: tuple[str | int, ...] = (*section.split("."), "dims", index)
                yield place, f"found {dim}, allowed: multiples of heads = {heads}"


RULES = (_widths,)


def _theorems_memory(get: Get) -> Iterator[Need]:
    for theorem in ("theorem_1", "theorem_2"):
        key = f"lipsformer.examine.{theorem}.dims"
        longest, widest = get(f"lipsformer.examine.{theorem}.lengths")[-1], get(key)[-1]
        yield Need((*key.split("."), len(get(key)) - 1), widest, (jacobian(longest, widest),))


def _spectral_memory(get: Get) -> Iterator[Need]:
    """A convolution in the frequency domain, where its norm is computed: a matrix for each pixel."""
    key, side = "lipsformer.examine.spectral_start.channels", get("lipsformer.examine.spectral_start.size")
    most = get(key)[-1]
    sizes = (("channels", most), ("channels", most), ("side", side), ("side", side))
    yield Need((*key.split("."), len(get(key)) - 1), most, (Tensor("frequencies", sizes, DOUBLE),))


def _throughput_memory(get: Get) -> Iterator[Need]:
    """Networks of the published size, of which the narrowest is Swin-T."""
    key = "lipsformer.throughput.batch_size"
    tensors = first_maps(get(key), get("lipsformer.throughput.size"), PATCH, CHANNELS)
    yield Need(tuple(key.split(".")), get(key), tensors)


NEEDS = (_theorems_memory, _spectral_memory, _throughput_memory)
