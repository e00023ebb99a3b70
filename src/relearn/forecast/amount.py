"""The work of a job as four numbers, which determine its time given a machine's rates."""

from __future__ import annotations

from typing import NamedTuple

from relearn.forecast import counts
from relearn.studies.work import Pass, Work

ADAM = 28.0
"""Bytes that an update reads and writes for each weight: weight, gradient and two moments."""


class Amount(NamedTuple):
    """Floating point operations in convolutions and in matrix products, bytes moved, and operations started."""

    convolutions: float
    products: float
    moved: float
    calls: float


def amount_of(work: Work) -> Amount | None:
    """The sum over all passes; None if one of the networks has not been counted, or if there is no pass."""
    found = [_amount(one) for one in work.passes]
    known = [one for one in found if one is not None]
    return Amount(*map(sum, zip(*known, strict=True))) if known and len(known) == len(found) else None


def _amount(one: Pass) -> Amount | None:
    net = counts.counts_of(one.net)
    if net is None:
        return None
    arithmetic, calls = one.mode
    size = one.steps * one.samples * arithmetic
    weights = ADAM * net.weights if arithmetic >= 3 else 4 * net.weights * arithmetic
    moved = net.moved * size + one.steps * weights
    return Amount(net.convolutions * size, net.products * size, moved, one.steps * net.calls * calls)
