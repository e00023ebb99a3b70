"""Read a YAML file in which every value means the same to every YAML reader.

Snakemake reads YAML 1.1 (PyYAML), DVC reads YAML 1.2 (ruamel). They disagree on ``1e-3``, ``yes``, ``010``,
``1:30`` and more, and each treats a repeated key in its own way. This reader therefore accepts only
spellings on which they agree, and reports file, line and key of every other one. It converts the
accepted spellings itself. Nothing is executed: tags, anchors, aliases and merge keys are rejected.
"""

from __future__ import annotations

import copy
import math
import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

KeyPath = tuple[str | int, ...]

INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+([eE][-+][0-9]+)?")
WORD = re.compile(r"[A-Za-z]([A-Za-z0-9_./ +-]*[A-Za-z0-9_+])?")
TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
NOT_TRUTH = {"yes", "no", "on", "off", "y", "n"}
NOTHING = {"", "~", "null"}
ANY_VALUE = "12, 0.5, 1.0e-3, true, false or a word; quote any other text"


def dotted(path: KeyPath) -> str:
    """``("a", "b", 0)`` as ``a.b[0]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


@dataclass(frozen=True)
class Problem:
    """One fault with its place; ``str`` gives a one-line message."""

    file: str
    line: int
    path: KeyPath
    text: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return ": ".join(filter(None, (place, dotted(self.path), self.text)))


@dataclass
class Source:
    """The values of one file, the line of each key path, and problems with their spelling."""

    file: str
    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[KeyPath, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def refuse(self, line: int, path: KeyPath, text: str) -> None:
        self.problems.append(Problem(self.file, line, path, text))


def read(path: str | Path) -> Source:
    """Read one file. Problems of spelling are collected in ``problems``, never raised."""
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        source = Source(str(path))
        source.refuse(0, (), f"cannot be read ({error.strerror}), allowed: a readable YAML file")
        return source
    found = _parsed(str(path), raw)
    return Source(found.file, copy.deepcopy(found.values), dict(found.lines), list(found.problems))


@lru_cache(maxsize=16)  # a Snakefile reads the same bytes three times, 0.1 s each
def _parsed(file: str, raw: bytes) -> Source:
    import yaml

    source = Source(file)
    text = _text(raw, source)
    if text is None:
        return source
    try:
        for token in yaml.scan(text, Loader=yaml.SafeLoader):
            kind = type(token).__name__.removesuffix("Token").lower()
            if kind in ("tag", "anchor", "alias", "directive"):
                source.refuse(token.start_mark.line + 1, (), f"found a YAML {kind}, allowed: plain values")
        if source.problems:
            return source
        node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        found = " ".join(filter(None, (error.context, error.problem)))
        source.refuse(mark.line + 1 if mark else 0, (), f"not readable as YAML: {found}")
        return source
    except yaml.YAMLError as error:
        source.refuse(0, (), f"not readable as YAML: {' '.join(str(error).split())}")
        return source
    except RecursionError:
        source.refuse(0, (), "found brackets nested too deep, allowed: the mappings of the schema")
        return source
    if node is None or (node.id == "scalar" and not node.value):
        source.refuse(0, (), "found an empty file, allowed: a mapping of parameters")
    elif not isinstance(node, yaml.MappingNode):
        source.refuse(node.start_mark.line + 1, (), f"found a {node.id}, allowed: a mapping of parameters")
    else:
        source.values = _value(node, (), source)
    return source


def _text(raw: bytes, source: Source) -> str | None:
    """The file's text, or None after a fault that concerns the whole file."""
    if raw.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        source.refuse(1, (), "found a byte order mark, allowed: plain UTF-8 without one")
        return None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        source.refuse(line, (), f"found the byte 0x{raw[error.start]:02x}, allowed: UTF-8 text")
        return None
    for number, content in enumerate(text.split("\n"), start=1):
        if "\t" in content:
            source.refuse(number, (), "found a tab, allowed: spaces")
    return None if source.problems else text


def _value(node: Any, path: KeyPath, source: Source) -> Any:
    line = node.start_mark.line + 1
    source.lines[path] = line
    if node.id == "sequence":
        return [_value(item, (*path, index), source) for index, item in enumerate(node.value)]
    if node.id == "mapping":
        return _mapping(node, path, source)
    if node.style:  # quoted or a block: a string for every reader
        return node.value
    value, hint = parse_scalar(node.value)
    if hint:
        source.refuse(line, path, f"found {node.value or 'nothing'}, allowed: {hint}")
    return value


def _mapping(node: Any, path: KeyPath, source: Source) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, item in node.value:
        line = key.start_mark.line + 1
        if key.id != "scalar":
            source.refuse(line, path, f"found a {key.id} as a key, allowed: a name")
            continue
        name = key.value
        if name in values:
            first = source.lines[(*path, name)]
            source.refuse(line, (*path, name), f"found a second time (first in line {first}), allowed: once")
            continue
        values[name] = _value(item, (*path, name), source)
        source.lines[(*path, name)] = line
    return values


def parse_scalar(text: str) -> tuple[Any, str]:
    """The value of an unquoted scalar, and what to write instead if readers disagree on it (else "")."""
    if INTEGER.fullmatch(text):
        # int() rejects thousands of digits; such a number is out of every range anyway
        return (int(text), "") if len(text) < 400 else (text, "a number of reasonable length")
    if DECIMAL.fullmatch(text):
        number = float(text)
        return (number, "") if math.isfinite(number) else (text, "a finite number")
    if text in TRUTH:
        return TRUTH[text], ""
    if text.lower() in NOT_TRUTH:
        return text, "true or false (in quotes where text is meant)"
    if text.lower() in NOTHING:
        return text, "a value"
    if WORD.fullmatch(text):
        return text, ""
    return text, _instead(text)


def _instead(text: str) -> str:
    """A replacement for a spelling that readers interpret differently."""
    digits = text.replace("_", "").lstrip("+")
    if text.lower().lstrip("+-") in (".nan", ".inf"):
        return "a finite number"
    if digits != text and parse_scalar(digits)[1] == "" and not WORD.fullmatch(digits):
        return digits
    if match := re.fullmatch(r"(-?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([-+]?)([0-9]+))?", digits):
        sign, whole, fraction, exponent_sign, exponent = match.groups()
        if whole or fraction:
            whole = whole.lstrip("0") or "0"
            if fraction is None and exponent is None:
                return f"{sign}{whole} (no leading zero)"
            return f"{sign}{whole}.{fraction or '0'}" + (
                f"e{exponent_sign or '+'}{exponent}" if exponent else ""
            )
    if re.fullmatch(r"-?0([xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)", digits):
        return str(int(digits, 0))
    return ANY_VALUE
