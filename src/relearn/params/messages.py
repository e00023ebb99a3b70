"""Check values against the schema; report each fault in one line: what was found, what is allowed, what was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from relearn.params.strict_yaml import KeyPath

if TYPE_CHECKING:
    from relearn.params.types import Section

BOUNDS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}


def check(
    values: Mapping[str, Any], model: type[Section]
) -> tuple[dict[str, Any], list[tuple[KeyPath, str, bool]]]:
    """The values with their types resolved, and the faults: key path, text, whether the key is missing.

    A mistyped key is one fault: a missing key is left out if an unknown one beside it is most similar to it.
    """
    from pydantic import ValidationError

    from relearn.params import conflicts

    tree = tree_of(model)
    settled = dict(values)
    faults: list[tuple[KeyPath, str, bool]] = []
    mistyped: set[KeyPath] = set()
    try:
        whole = model.model_validate(settled)
        settled = whole.model_dump(by_alias=True)
    except ValidationError as error:
        for item in error.errors(include_url=False):
            path = item["loc"]
            faults.append((path, _explanation(item, tree), item["type"] == "missing"))
            if item["type"] == "extra_forbidden":
                mistyped.add((*path[:-1], guess(str(path[-1]), list(_node(tree, path[:-1])["properties"]))))
    broken = [path for path, _, _ in faults]
    if broken:
        whole = conflicts.settled(model, values, {tuple(path) for path in broken})

    for path, text in conflicts.conflicts(whole):
        faults.append((path, text, False))
    return settled, [fault for fault in faults if not (fault[2] and tuple(fault[0]) in mistyped)]


def format_value(value: Any) -> str:
    """A value as shown in a message."""
    if isinstance(value, str):
        return f"{value[:60]!r} (text)"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a mapping"
    return "nothing" if value is None else str(value)[:60]


def guess(name: str, known: Sequence[str]) -> str:
    """The known name most similar to ``name``, or ""."""
    close = difflib.get_close_matches(name, known, n=1)
    folded = {item.lower(): item for item in known}
    return close[0] if close else folded.get(name.lower(), "")


def nearest(name: str, known: Sequence[str], elsewhere: Sequence[str] = ()) -> str:
    """What an unknown name may have meant (a sibling key, else a key elsewhere), and what is allowed."""
    meant = guess(name, known)
    if not meant:
        last = {key.rpartition(".")[2]: key for key in elsewhere}
        meant = last.get(guess(name, list(last)), "")
    hint = f"nearest known name: {meant}; " if meant else ""
    return f"unknown key, {hint}allowed here: {', '.join(known) or 'nothing below this key'}"


def _explanation(item: Any, tree: dict[str, Any]) -> str:
    path: KeyPath = item["loc"]
    if item["type"] == "extra_forbidden":
        known = list(_node(tree, path[:-1])["properties"])
        # among equal names, prefer the one of the same study
        elsewhere = sorted(_keys(tree, tree), key=lambda key: key.partition(".")[0] == path[0])
        return nearest(str(path[-1]), known, elsewhere)
    node = _node(tree, path)
    if item["type"] == "missing":
        return f"missing, allowed: {describe_allowed(node, tree)}"
    found = f"found {format_value(item['input'])}"
    if item["type"] == "value_error":
        return f"{found}, allowed: {item['ctx']['error']}"
    meant = guess(str(item["input"]), [word for word in node.get("enum", ()) if isinstance(word, str)])
    return f"{found}, allowed: {describe_allowed(node, tree)}" + (f"; nearest: {meant}" if meant else "")


def describe_allowed(node: Mapping[str, Any], tree: Mapping[str, Any]) -> str:
    """A node of the JSON schema in words."""
    node = _resolved(node, tree)
    if "enum" in node or "const" in node:
        return ", ".join(map(str, node.get("enum", [node.get("const")])))
    bounds = " and ".join(f"{sign} {_number(node[name])}" for name, sign in BOUNDS.items() if name in node)
    kind = node["type"]
    if kind == "array":
        least, most = node.get("minItems", 0), node["maxItems"]
        number = f"{least} to {most}" if least < most else f"{most}"
        return f"a list of {number} values, each {describe_allowed(node['items'], tree)}"
    if kind == "object":
        return "a mapping" + (f" of {', '.join(node['properties'])}" if "properties" in node else "")
    words = {"integer": "a whole number", "number": "a number", "boolean": "true or false", "string": "text"}
    form = f"that matches {node['pattern']}" if "pattern" in node else ""
    return " ".join(filter(None, (words[kind], bounds, form)))


def _number(value: float) -> str:
    """A bound with all its digits (no exponent if it is whole)."""
    return f"{value:.0f}" if float(value).is_integer() else f"{value:g}"


def _resolved(node: Mapping[str, Any], tree: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in node:
        node = tree["$defs"][node["$ref"].rpartition("/")[2]]
    return node


def _node(tree: Mapping[str, Any], path: KeyPath) -> Mapping[str, Any]:
    """The schema of the value at a key path."""
    node: Mapping[str, Any] = tree
    for part in path:
        node = _resolved(node, tree)
        node = node["items"] if isinstance(part, int) else node["properties"][part]
    return _resolved(node, tree)


def _keys(node: Mapping[str, Any], tree: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Every dotted key path that the schema knows."""
    for name, below in _resolved(node, tree).get("properties", {}).items():
        key = f"{above}.{name}" if above else name
        yield key
        yield from _keys(below, tree, key)


def known_keys(model: type[Section]) -> list[str]:
    """Every dotted key path that the schema knows, sections included."""
    tree = tree_of(model)
    return list(_keys(tree, tree))


@cache
def tree_of(model: type[Section]) -> dict[str, Any]:
    """The JSON schema of a model; shared by all callers, so it must not be modified."""
    return model.model_json_schema()
