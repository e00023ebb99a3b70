"""Read the settings of a step into its dataclass, so that a step names no key twice and a misspelt one stops the job.

A step defines ``Settings``: a frozen dataclass, or a union of dataclasses that differ in a ``Literal`` field (``protocol``,
``kind``, …). :func:`read` checks every key at every depth: none is missing, none is unknown, each has its type. Ranges are
checked in params.yaml, by the study's ``params.py``; a step checks what only it can know.

Standard library only: a node without pydantic runs the steps, too.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

REST = "rest"


def rest() -> Any:
    """A field that takes all keys of its level that no other field takes: the arguments of an attack, a network, a method."""
    return dataclasses.field(default_factory=dict, metadata={REST: True})


def plain(settings: Any) -> dict[str, Any]:
    """The fields of a dataclass by name, not of the dataclasses inside; what :func:`rest` took stands beside the others."""
    found = {one.name: getattr(settings, one.name) for one in dataclasses.fields(settings)}
    for one in dataclasses.fields(settings):
        if REST in one.metadata:
            found |= found.pop(one.name)
    return found


def picked(settings: Any, *names: str) -> dict[str, Any]:
    """The named fields of a dataclass, as arguments of what takes them under these names."""
    return {name: getattr(settings, name) for name in names}


def read(kind: Any, values: Any, path: str = "") -> Any:
    """Return ``values`` as an instance of ``kind``.

    Numbers keep their type (an integer may stand for a float), and lists stay lists unless ``kind`` asks for a tuple.

    Args:
        kind: a dataclass, or any type that a field of one may have: ``int``, ``float``, ``bool``, ``str``, ``None``, ``Any``,
            ``Literal``, ``Sequence``, ``list``, ``tuple``, ``Mapping``, ``dict`` and unions of them.
        values: parsed JSON.
        path: dotted place of ``values`` in the settings, for the messages.

    Raises:
        ValueError: a missing key, an unknown key, or a value of another type, each with its dotted place.
        TypeError: a type of a field that this function does not know.
    """
    if dataclasses.is_dataclass(kind):
        return _record(kind, values, path)
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return values
    if origin in (Union, types.UnionType):
        return _one_of(arguments, values, path)
    if origin is Literal:
        if not any(value == values and type(value) is type(values) for value in arguments):
            raise _wrong(path, values, ", ".join(map(str, arguments)))
        return values
    if kind in (None, type(None)):
        if values is not None:
            raise _wrong(path, values, "null")
        return None
    if (origin or kind) in (Sequence, list):
        return _items(arguments, values, path)
    if (origin or kind) is tuple:
        return tuple(_items(arguments, values, path))
    if (origin or kind) in (Mapping, dict):
        if not isinstance(values, Mapping):
            raise _wrong(path, values, "a mapping")
        of = arguments[1] if arguments else Any
        return {key: read(of, value, _below(path, key)) for key, value in values.items()}
    if kind is float:
        fits = isinstance(values, int | float) and not isinstance(values, bool)
    elif kind is int:
        fits = isinstance(values, int) and not isinstance(values, bool)
    elif kind in (bool, str):
        fits = isinstance(values, kind)
    else:
        raise TypeError(f"{path or 'settings'}: fields of the type {kind!r} are not read")
    if not fits:
        raise _wrong(path, values, NAMES[kind])
    return values


NAMES = {float: "a number", int: "an integer", bool: "true or false", str: "text"}


@cache
def _fields(kind: Any) -> tuple[dict[str, tuple[Any, dataclasses.Field[Any]]], str | None]:
    """Type and definition of each field by name, and the name of the field that takes the rest."""
    hints = get_type_hints(kind)
    fields = {one.name: (hints[one.name], one) for one in dataclasses.fields(kind)}
    taking = next((name for name, (_, one) in fields.items() if REST in one.metadata), None)
    return fields, taking


def _record(kind: Any, values: Any, path: str) -> Any:
    if not isinstance(values, Mapping):
        raise _wrong(path, values, "a mapping")
    fields, taking = _fields(kind)
    own = {name: field for name, field in fields.items() if name != taking}
    unknown = [key for key in values if key not in own]
    if unknown and taking is None:
        raise ValueError(
            f"the key {_below(path, unknown[0])} is unknown; allowed{_inside(path)}: {', '.join(own)}"
        )
    found: dict[str, Any] = {}
    for name, (hint, field) in own.items():
        if name in values:
            found[name] = read(hint, values[name], _below(path, name))
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            others = ", ".join(map(str, values)) or "none"
            raise ValueError(f"the key {_below(path, name)} is missing; found{_inside(path)}: {others}")
    if taking is not None:
        found[taking] = {key: values[key] for key in unknown}
    return kind(**found)


def _one_of(kinds: Sequence[Any], values: Any, path: str) -> Any:
    """Of a union: the dataclass whose ``Literal`` fields fit; of other types the first that fits."""
    records: list[Any] = [kind for kind in kinds if dataclasses.is_dataclass(kind)]
    if len(records) == 1 and isinstance(values, Mapping):
        return read(records[0], values, path)
    if records and isinstance(values, Mapping):
        for kind in records:
            literals = _literals(kind)
            if all(values.get(name, field.default) in get_args(hint) for name, hint, field in literals):
                return read(kind, values, path)
        name = _literals(records[0])[0][0]
        allowed = dict.fromkeys(
            str(value) for kind in records for value in get_args(_fields(kind)[0][name][0])
        )
        if name not in values:
            others = ", ".join(map(str, values)) or "none"
            raise ValueError(f"the key {_below(path, name)} is missing; found{_inside(path)}: {others}")
        raise _wrong(_below(path, name), values[name], ", ".join(allowed))
    first: ValueError | None = None
    for kind in kinds:
        try:
            return read(kind, values, path)
        except ValueError as error:
            first = first or error
    if len(kinds) == 2 and type(None) in kinds and first is not None:
        raise first
    raise _wrong(path, values, " or ".join(_name(kind) for kind in kinds))


def _literals(kind: Any) -> list[tuple[str, Any, dataclasses.Field[Any]]]:
    fields = _fields(kind)[0]
    return [(name, hint, field) for name, (hint, field) in fields.items() if get_origin(hint) is Literal]


def _items(arguments: tuple[Any, ...], values: Any, path: str) -> list[Any]:
    if not isinstance(values, list | tuple):
        raise _wrong(path, values, "a list")
    fixed = bool(arguments) and Ellipsis not in arguments and len(arguments) > 1
    if fixed and len(values) != len(arguments):
        raise _wrong(path, values, f"a list of {len(arguments)}")
    kinds = arguments if fixed else [arguments[0] if arguments else Any] * len(values)
    return [
        read(kind, value, f"{path}[{at}]") for at, (kind, value) in enumerate(zip(kinds, values, strict=True))
    ]


def _wrong(path: str, found: Any, allowed: str) -> ValueError:
    return ValueError(f"{path or 'settings'}: found {found!r}, allowed: {allowed}")


def _name(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return ", ".join(map(str, get_args(kind)))
    if (get_origin(kind) or kind) in (Sequence, list, tuple):
        return "a list"
    return "null" if kind is type(None) else NAMES.get(kind, "a mapping")


def _below(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _inside(path: str) -> str:
    return f" in {path}" if path else ""
