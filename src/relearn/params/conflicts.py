"""Cross-field checks, written as methods of the section that holds the keys.

A method marked with :func:`check` yields a conflict for each invalid key: its path below the section, and one line that
states what was found and what is allowed. A method marked with :func:`forecast` yields the memory that a job needs. Both may
take the root of the parameters as a second argument. ::

    class Prepare(Section):
        fine_tune_per_class: SampleCount
        pool_per_class: SampleCount

        @check
        def _pool(self) -> Iterator[Conflict]:
            if self.fine_tune_per_class > self.pool_per_class:
                most = self.pool_per_class
                yield "fine_tune_per_class", f"found {self.fine_tune_per_class}, allowed: at most pool_per_class = {most}"

If a key is missing or has a wrong type, checks that read it are skipped: :class:`Unsettled` ends them, and the
other checks still report.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, get_args, get_origin

from relearn.params.forecast_memory import Need, refused
from relearn.params.types import Section, Unsettled

Key = tuple[str | int, ...]
Conflict = tuple[str | Key, str]
"""The key at fault, dotted or as a tuple (a position in a list is a number), and the line."""
Method = TypeVar("Method", bound=Callable[..., Iterator[Any]])


def check(method: Method) -> Method:
    """Mark a method that yields conflicts."""
    method.__conflicts__ = True  # type: ignore[attr-defined]
    return method


def at_most(key: str, bound: str, shown: str = "") -> Callable[[Any], Iterator[Conflict]]:
    """A check that the value of ``key`` is at most that of ``bound``; both are dotted paths below the section.

    Args:
        shown: the name of the bound in the message; "" for its path.
    """

    @check
    def compare(self: Any) -> Iterator[Conflict]:
        found, most = attrgetter(key)(self), attrgetter(bound)(self)
        if found > most:
            yield key, f"found {found}, allowed: at most {shown or bound} = {most}"

    return compare


def multiples_of(key: str, bound: str) -> Callable[[Any], Iterator[Conflict]]:
    """A check that the value of ``key``, or each item of a list, is a multiple of that of ``bound``."""

    @check
    def compare(self: Any) -> Iterator[Conflict]:
        value, whole = attrgetter(key)(self), attrgetter(bound)(self)
        several = isinstance(value, list)
        for index, found in enumerate(value if several else [value]):
            if found % whole:
                at: str | Key = (*key.split("."), index) if several else key
                yield at, f"found {found}, allowed: multiples of {bound.rpartition('.')[2]} = {whole}"

    return compare


def none_or_several(key: str) -> Callable[[Any], Iterator[Conflict]]:
    """A check that the list at ``key`` is empty or has at least two values to choose from."""

    @check
    def compare(self: Any) -> Iterator[Conflict]:
        if len(found := getattr(self, key)) == 1:
            yield key, f"found {found}, allowed: none, or at least two to choose from"

    return compare


def forecast(method: Method) -> Method:
    """Mark a method that yields the needs of jobs; the path of each :class:`Need` is relative to the section."""
    method.__forecasts__ = True  # type: ignore[attr-defined]
    return method


def conflicts(root: Section) -> Iterator[tuple[Key, str]]:
    """Every conflict of a section and its subsections, with the full key path; memory needs beyond the limit come last."""
    for above, section in _sections(root):
        for key, text in _results(section, root, "__conflicts__"):
            yield (*above, *_parts(key)), text
    yield from refused(needs(root))


def needs(root: Section) -> Iterator[Need]:
    """The memory needs of the jobs of a section and its subsections, with full key paths."""
    for above, section in _sections(root):
        for need in _results(section, root, "__forecasts__"):
            yield need._replace(path=(*above, *_parts(need.path)))


def settled(model: type[Section], values: Any, broken: set[Key], at: Key = ()) -> Any:
    """An instance of ``model`` without the keys in ``broken``; reading one of those raises :class:`Unsettled`."""
    if not isinstance(values, Mapping):
        return None
    fields = {}
    for name, field in model.model_fields.items():
        key = (*at, field.alias or name)
        if key[-1] in values and not any(
            bad[: len(key)] == key and _whole(bad, key, field.annotation) for bad in broken
        ):
            fields[name] = _value(field.annotation, values[key[-1]], broken, key)
    return model.model_construct(**fields)


def _value(annotation: Any, value: Any, broken: set[Key], at: Key) -> Any:
    if _is_section(annotation):
        return settled(annotation, value, broken, at)
    if get_origin(annotation) is dict and _is_section(get_args(annotation)[1]) and isinstance(value, Mapping):
        below = get_args(annotation)[1]
        return {name: settled(below, one, broken, (*at, name)) for name, one in value.items()}
    if _is_list_of_sections(annotation) and isinstance(value, list):
        below = get_args(annotation)[0]
        return [settled(below, one, broken, (*at, index)) for index, one in enumerate(value)]
    return value


def _whole(bad: Key, key: Key, annotation: Any) -> bool:
    """Whether a fault at ``bad`` invalidates the whole value of ``key``; a fault below a section invalidates only that part of it.

    An item that is not a section at all invalidates its list or dictionary, since a check reads all items.
    """
    if _is_section(annotation):
        return bad == key
    several = get_origin(annotation) is dict or _is_list_of_sections(annotation)
    return not several or len(bad) <= len(key) + 1


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Section)


def _is_list_of_sections(annotation: Any) -> bool:
    return get_origin(annotation) is list and _is_section(get_args(annotation)[0])


def _sections(section: Any, at: Key = ()) -> Iterator[tuple[Key, Section]]:
    """A section and all its subsections, outermost first."""
    if isinstance(section, Mapping):
        for name, one in section.items():
            yield from _sections(one, (*at, name))
    elif isinstance(section, list):
        for index, one in enumerate(section):
            yield from _sections(one, (*at, index))
    elif isinstance(section, Section):
        yield at, section
        for name, field in type(section).model_fields.items():
            if name in section.__dict__:
                yield from _sections(section.__dict__[name], (*at, field.alias or name))


def _results(section: Section, root: Section, mark: str) -> Iterator[Any]:
    """Everything that the marked methods of a section yield."""
    for method, takes_root in _marked(type(section), mark):
        try:
            yield from method(section, root) if takes_root else method(section)
        except Unsettled:
            continue


@cache
def _marked(model: type[Section], mark: str) -> list[tuple[Callable[..., Iterator[Any]], bool]]:
    """The marked methods of a section in the order of their definition, base classes first, and which take the root."""
    named = {name: None for base in reversed(model.__mro__) for name in vars(base)}
    methods = [inspect.getattr_static(model, name, None) for name in named]
    return [
        (method, len(inspect.signature(method).parameters) > 1)
        for method in methods
        if getattr(method, mark, False)
    ]


def _parts(key: str | Key) -> Key:
    return tuple(key.split(".")) if isinstance(key, str) else key
