"""Every number of params.yaml has an upper bound, far above what is used, and a number beyond it is refused in one line."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from relearn.params import reading as params
from relearn.params.strict_yaml import KeyPath, dotted
from relearn.studies import parameters

ROOT = Path(__file__).resolve().parents[2]
ROOM = 4
"""Times the largest value that is used that a bound is at least."""
SCALES_OF_THEIR_OWN = {"poison_class", "target_class", "severities", "randaugment"}
"""Classes and levels: they end where their scale ends, as shares do at 1."""
NUMBERS = ("integer", "number")
TREE = parameters.json_schema()


def resolved(node: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in node:
        node = TREE["$defs"][node["$ref"].rpartition("/")[2]]
    return node


def nodes(node: dict[str, Any], path: KeyPath = ()) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
    """Every node of the schema with its key path; 0 represents all positions of a list."""
    node = resolved(node)
    yield path, node
    for name, below in node.get("properties", {}).items():
        yield from nodes(below, (*path, name))
    if "items" in node:
        yield from nodes(node["items"], (*path, 0))


NODES = dict(nodes(TREE))
LIMITS: dict[KeyPath, Any] = {
    path: node.get("maximum", node.get("exclusiveMaximum"))
    for path, node in NODES.items()
    if node.get("type") in NUMBERS and "enum" not in node
}


@cache
def used() -> dict[KeyPath, float]:
    """The largest value of every number at any scale."""
    most: dict[KeyPath, float] = {}

    def walk(value: Any, path: KeyPath) -> None:
        if isinstance(value, dict):
            for name, below in value.items():
                walk(below, (*path, name))
        elif isinstance(value, list):
            for below in value:
                walk(below, (*path, 0))
        elif path in LIMITS:
            most[path] = max(value, most.get(path, value))

    for scale in params.SCALES:
        walk(parameters.load(ROOT / "params.yaml", scale=scale), ())
    return most


def test_every_number_and_every_list_has_an_upper_bound() -> None:
    assert len(LIMITS) > 400
    assert [dotted(path) for path, most in LIMITS.items() if most is None] == []
    lists = [path for path, node in NODES.items() if node.get("type") == "array"]
    assert [dotted(path) for path in lists if "maxItems" not in NODES[path]] == []


def test_a_bound_leaves_room_above_what_is_used() -> None:
    narrow = {
        dotted(path): (most, LIMITS[path])
        for path, most in used().items()
        if LIMITS[path] > 1 and not SCALES_OF_THEIR_OWN & set(path) and most * ROOM > LIMITS[path]
    }
    assert narrow == {}


def nested(path: KeyPath, value: Any) -> dict[str, Any]:
    tree = value
    for name in reversed(path):
        tree = {name: tree}
    return tree


@pytest.mark.parametrize("study", [name for name in TREE["properties"] if name != "scale"])
def test_a_number_beyond_its_bound_is_refused_in_one_line(
    study: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its key, what was found and what is allowed: the bound with all its digits."""
    monkeypatch.setattr(params, "read", cache(params.read))
    tried = 0
    for path, most in LIMITS.items():
        if path[0] != study or 0 in path:
            continue
        beyond = most + 1 if NODES[path]["type"] == "integer" else float(most) * 2
        with pytest.raises(params.ParamsError) as caught:
            parameters.load(ROOT / "params.yaml", overrides=nested(path, beyond))
        (line,) = caught.value.problems
        assert line.startswith(f"override: {dotted(path)}: found {beyond}, allowed: "), line
        assert line.endswith((f"<= {most:g}", f"<= {most:.0f}", f"< {most:g}", f"< {most:.0f}")), line
        tried += 1
    assert tried > 4
