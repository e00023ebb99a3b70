"""What the tables of ranges share: ranges that many keys of params.yaml have, and how a rule between keys is written."""

from functools import reduce
from operator import getitem
from typing import Any

# (allowed values, refused values), every bound from both sides
Range = tuple[list[Any], list[Any]]
COUNT: Range = ([1, 7], [0, -1, 2.0, "3", 2**64])
SEVERAL: Range = ([0, 7], [-1, 2.0, "3", 2**64])
SHARE: Range = ([0, 0.5], [-0.1, 1, 1.5, "a"])
NOT_NEGATIVE: Range = ([0, 0.5, 1.0e6], [-0.1, 1.1e6, float("nan"), float("inf"), "1"])
POSITIVE: Range = ([1.0e-9, 2, 1.0e6], [0, -0.1, 1.1e6, float("inf"), float("nan"), "1"])
FLAG: Range = ([True, False], [0, "yes"])
SEEDS: Range = ([[0], [1, 0]], [[], [-1], [0, 0], 0])
BETAS: Range = ([[0.0, 0.5]], [[], [0.9], [0.9, 1.0], 0.9])

# (values that are just allowed together, values that are not, the key that the message must name)
Rule = tuple[dict[str, Any], dict[str, Any], str]


def rule(
    key: str,
    allowed: Any,
    refused: Any,
    together: dict[str, Any] | None = None,
    *,
    at: str = "",
    named: str = "",
) -> Rule:
    """With the values ``together``, a key may have the one value and not the other.

    The message names the place ``at`` in the value, or the other key ``named``.
    """
    shared = together or {}
    return {**shared, key: allowed}, {**shared, key: refused}, named or f"{key}{at}"


def only_with(needed: dict[str, Any], key: str, value: Any) -> Rule:
    """A key may have the value only with the values that it needs."""
    return {key: value, **needed}, {key: value}, key


def value_at(values: dict[str, Any], key: str) -> Any:
    """The value at a dotted key; all values at ""."""
    return reduce(getitem, key.split("."), values) if key else values


def laid_over(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The values with changes at dotted keys: a copy down to what is changed."""
    tree = dict(values)
    for key, value in changes.items():
        *above, last = key.split(".")
        branch = tree
        for name in above:
            branch[name] = dict(branch.get(name, {}))
            branch = branch[name]
        branch[last] = value
    return tree
