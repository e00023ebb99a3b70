"""Deviations: every setting that differs from the published one, with the source of the published value.

params/paper.yaml holds the published settings; the comment after a value names its source (paper and
section, "released code", or "not stated" if the choice is ours). The list of deviations is the difference to
that file, so no second list has to be maintained by hand.

A list of mappings (such as a study's fine-tuning tasks) is compared item by item and key by key. Items are matched by their
``encoder`` and ``name`` if they have them, otherwise by position; an item missing on one side is one deviation.

Deviations that no parameter shows (a solver, masks, an initialisation) are listed in ``deviations.yaml`` of a study's
``reported`` folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from relearn.report import yaml_file
from relearn.report.table_formats import pipes

NOT_STATED = "not stated"
AS_ABOVE = "as above"
ABSENT = object()
SET = "set"  # marks a list item that the other side lacks
NAMING = ("encoder", "name")


class Deviation(NamedTuple):
    """One key whose value differs from the published one; ABSENT marks a side without the key."""

    key: str
    value: Any
    published: Any
    source: str


class Method(NamedTuple):
    """One deviation that is no value of params.yaml; ``setting`` is the key that comes closest to controlling it, if any."""

    study: str
    id: str
    published: str
    here: str
    released: str = ""
    setting: str = ""


def methods(folders: Mapping[str, Path]) -> list[Method]:
    """The entries of each study's ``deviations.yaml``, in the order of the studies; a study without the file has none.

    Raises:
        ValueError: naming file and entry, for a missing or an unknown key.
    """
    found = []
    needed = {"published", "here"}
    for study, folder in folders.items():
        path = folder / "deviations.yaml"
        for name, entry in (yaml_file.read(path) if path.is_file() else {}).items():
            if not isinstance(entry, Mapping) or not needed <= set(entry) <= {*Method._fields[2:]}:
                allowed = ", ".join(Method._fields[2:])
                raise ValueError(f"{path}: {name}: found {entry}, allowed: {allowed} (the first two always)")
            found.append(Method(study, name, **entry))
    return found


@dataclass(frozen=True)
class Published:
    """Published values by dotted key path, and the comment that names the source of each.

    A list of mappings is stored as one value; the source of an item is the comment above it, stored as ``key[item]``.
    """

    values: dict[str, Any]
    sources: dict[str, str]


def read(path: str | Path = "params/paper.yaml") -> Published:
    """Read values and comments of the published settings.

    A comment belongs to the key on its line (or on the line where its value ends); a key without one takes
    the comment of the nearest key above it. A comment continues on the following lines if they contain nothing
    else and their ``#`` is in the same column.

    Raises:
        ValueError: the file is not a mapping.
        OSError: the file cannot be read.
    """
    import yaml

    text = Path(path).read_text(encoding="utf-8")
    tree: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(tree, yaml.MappingNode):
        raise ValueError(f"{path}: found no mapping, allowed: the published settings")
    sources = dict(_sources(tree, _comments(text), text.splitlines(), "", ""))
    return Published(values=_leaves(yaml_file.read(path)), sources=sources)


def deviations(params: Mapping[str, Any], published: Published) -> list[Deviation]:
    """Keys whose values differ from the published ones; the scale itself does not count."""
    values = _leaves(params)
    values.pop("scale", None)
    rows: list[Deviation] = []
    for key in {**values, **published.values}:
        here, there = values.get(key, ABSENT), published.values.get(key, ABSENT)
        if here == there:
            continue
        if _items(here) is None or _items(there) is None:
            rows.append(Deviation(key, here, there, published.sources.get(key, "")))
        else:
            rows += _of_items(key, here, there, published.sources)
    return rows


def _of_items(key: str, here: Any, there: Any, sources: Mapping[str, str]) -> Iterator[Deviation]:
    """The deviations of a list of mappings, in the published order."""
    ours, theirs = _items(here) or {}, _items(there) or {}
    for name in {**theirs, **ours}:
        path = f"{key}[{name}]"
        source = sources.get(path, sources.get(key, "")) if name in theirs else ""
        if name not in ours or name not in theirs:
            yield Deviation(path, SET if name in ours else ABSENT, SET if name in theirs else ABSENT, source)
            continue
        own, published = _leaves(ours[name]), _leaves(theirs[name])
        for part in {**own, **published}:
            if own.get(part, ABSENT) != published.get(part, ABSENT):
                yield Deviation(f"{path}.{part}", own.get(part, ABSENT), published.get(part, ABSENT), source)


def _items(value: Any) -> dict[str, Mapping[str, Any]] | None:
    """The mappings of a list by name; None for anything else."""
    if not isinstance(value, list) or not value or not all(isinstance(one, Mapping) for one in value):
        return None
    names = ["/".join(str(one[word]) for word in NAMING if word in one) for one in value]
    if not all(names) or len(set(names)) < len(names):
        names = [str(place) for place in range(len(value))]
    return dict(zip(names, value))


def markdown(params: Mapping[str, Any], published: Published, others: Sequence[Method] = ()) -> str:
    """The page ``deviations.md``: values that differ, other deviations, then further values that the papers do not state."""
    rows = deviations(params, published)
    scale = params.get("scale", "?")
    lines = [f"# Deviations from the published settings, scale {scale}", ""]
    if rows:
        lines += [
            f"{len(rows)} values differ from params/paper.yaml. Keys go on from those in the headings; the source is that of the"
            " published value.",
            "",
        ]
        cells = {row.key: (yaml_value(row.value), yaml_value(row.published), row.source) for row in rows}
        lines += _grouped(cells, "key", "here", "published", "source")
    else:
        lines.append(f"None: all {len(published.values)} values are those of params/paper.yaml.")
    if others:
        values = _leaves(params)
        lines += ["", "## Other differences from the texts", ""]
        lines += ["| study | published | here | the authors' code | setting |", "|---|---|---|---|---|"]
        lines += [
            pipes(
                f"{one.study}: {one.id.replace('_', ' ')}",
                one.published,
                one.here,
                one.released,
                f"{one.setting}: {yaml_value(values.get(one.setting, ABSENT))}" if one.setting else "",
            )
            for one in others
        ]
    differ = {row.key for row in rows}
    unstated = {key: source for key, source in published.sources.items() if source.startswith(NOT_STATED)}
    ours = {key: source for key, source in unstated.items() if key not in differ}
    if ours:
        values = _leaves(params)
        for key, value in list(values.items()):
            values |= {f"{key}[{name}]": SET for name in _items(value) or ()}
        lines += ["", "## Values that the papers do not state", ""]
        if len(ours) < len(unstated):
            lines += ["Those that differ from params/paper.yaml are above.", ""]
        notes = {key: (yaml_value(values.get(key, ABSENT)), source) for key, source in ours.items()}
        lines += _grouped(notes, "key", "here", "note")
    return "\n".join(lines).rstrip("\n") + "\n"


def _grouped(cells: Mapping[str, Sequence[str]], *head: str) -> Iterator[str]:
    """A table for each section of a study, such as ``poisoning.craft``, whose rows have the rest of their keys.

    A last cell that repeats the one above it is :data:`AS_ABOVE`.
    """
    groups: dict[str, list[str]] = {}
    last: dict[str, str] = {}
    for key, (*row, note) in cells.items():
        study, _, rest = key.partition(".")
        section, dot, own = rest.partition(".")
        above = f"{study}.{section}" if dot else study
        shown = AS_ABOVE if note == last.get(above) and len(note) > len(AS_ABOVE) else note
        last[above] = note
        groups.setdefault(above, []).append(pipes(own if dot else rest or key, *row, shown))
    for above, rows in groups.items():
        yield from (f"### {above}", "", pipes(*head), "|---" * len(head) + "|", *rows, "")


def yaml_value(value: Any) -> str:
    """A value as written in params.yaml, on one line."""
    if value is ABSENT:
        return "not set"
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return f"[{', '.join(value)}]"
    return value if isinstance(value, str) else json.dumps(value)


def _leaves(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        key = f"{above}.{name}" if above else str(name)
        flat.update(_leaves(value, key) if isinstance(value, Mapping) else {key: value})
    return flat


def _comments(text: str) -> dict[int, str]:
    """Maps a line number (from 0) to the comment at its end, including continuation lines."""
    import yaml

    lines = text.splitlines()
    ends: dict[int, int] = {}
    for token in yaml.scan(text, Loader=yaml.SafeLoader):
        start, end = token.start_mark, token.end_mark
        if end.index > start.index:  # block tokens have no length
            ends[end.line] = max(ends.get(end.line, 0), end.column)
    found: dict[int, str] = {}
    owner, column = -1, -1
    for number, line in enumerate(lines):
        rest = line[ends.get(number, 0) :]
        comment = rest.strip()
        at = len(line) - len(rest.lstrip())
        if number in ends:
            owner, column = (number, at) if comment.startswith("#") else (-1, -1)
        if comment.startswith("#") and owner >= 0 and at == column:
            found[owner] = f"{found.get(owner, '')} {comment.lstrip('#').strip()}".strip()
        elif number not in ends:
            owner = -1
    return found


def _above(lines: list[str], number: int) -> str:
    """The comment in the lines directly above a line (numbered from 0)."""
    found: list[str] = []
    while number and lines[number - 1].strip().startswith("#"):
        number -= 1
        found.insert(0, lines[number].strip().lstrip("#").strip())
    return " ".join(found)


def _sources(
    node: Any, comments: dict[int, str], lines: list[str], above: str, inherited: str
) -> Iterator[tuple[str, str]]:
    """Dotted key path and source comment of every leaf; for a list of mappings also those of each item."""
    for name, item in node.value:
        key = f"{above}.{name.value}" if above else name.value
        own = comments.get(name.start_mark.line) or inherited
        if item.id == "mapping":
            yield from _sources(item, comments, lines, key, own)
        else:
            source = comments.get(name.start_mark.line) or comments.get(item.end_mark.line) or inherited
            yield key, source
            if item.id == "sequence" and all(one.id == "mapping" for one in item.value):
                plain = [{word.value: value.value for word, value in one.value} for one in item.value]
                for one, called in zip(item.value, _items(plain) or ()):
                    source = _above(lines, one.start_mark.line) or source
                    yield f"{key}[{called}]", source
