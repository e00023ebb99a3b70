"""Methods that other installed packages add: their entry points in the groups GROUPS.

A package registers a method in its pyproject.toml::

    [project.entry-points."relearn.defences"]
    my_filter = "my_package.filters:MyFilter"

From then on params.yaml may name ``my_filter`` wherever it may name one of this project's methods of that kind. Jobs that use
it carry a code version that ends in ``+my_package`` (:mod:`relearn.runs.code_version`), so an edit of the package makes them
stale, and only they look for entry points: the search takes about 0.1 s.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

GROUPS = {
    "relearn.attacks": "relearn.methods:ATTACKS",
    "relearn.defences": "relearn.methods:DEFENCES",
    "relearn.initialisations": "relearn.methods:INITIALISATIONS",
    "relearn.models": "relearn.models:MODELS",
    "relearn.attentions": "relearn.layers.efficient.kinds:RIVALS",
}
"""Group of entry points → the registry that its methods join."""

MARK = "+"
"""What separates the packages of plug-ins from the digits of a code version."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@cache
def installed() -> dict[str, dict[str, str]]:
    """``module:attribute`` by group and name, for everything that other installed packages register.

    Raises:
        ValueError: a name that cannot be part of a path, or that two packages or this project have, or a value that is no
            ``module:attribute``, in one line.
    """
    found: dict[str, dict[str, str]] = {group: {} for group in GROUPS}
    for group, names in found.items():
        for entry in entry_points(group=group):
            names[entry.name] = _target(entry, {**_taken(group), **names})
    return found


def register() -> None:
    """Add the installed plug-ins to the registries; a second call changes nothing."""
    for group, methods in installed().items():
        _registry(group).update(methods)
    if installed().get("relearn.attentions"):
        # The package lists its kinds in a tuple when it is imported; its text counts in code versions, so it is not a view.
        kinds = import_module("relearn.layers.efficient.kinds")
        for module in (kinds, import_module("relearn.layers.efficient")):
            vars(module)["KINDS"] = (*kinds.RIVALS, *kinds.LONG_SHORT)


def needed(code: str) -> bool:
    """Whether a run with this code version may use a plug-in; a run by hand, without a version, may."""
    return not code or MARK in code


def source_hash(package: str) -> str:
    """Hash the syntax trees of all Python files of an installed package, which is not imported.

    A package may lack an ``__init__.py``. Of a module that is no package, only its own file counts.

    Raises:
        ValueError: there is no such package, it has no Python file, or a file of it does not parse.
    """
    lines = []
    for place, file in files_of(package):
        if file.suffix != ".py":
            continue
        try:
            text = ast.dump(ast.parse(file.read_bytes()))
        except SyntaxError as error:
            raise ValueError(f"{file}, line {error.lineno}: {error.msg}") from None
        lines.append(f"{place.removeprefix(package + '/')} {text}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def files_of(package: str) -> list[tuple[str, Path]]:
    """Place below the folder of imports, and path, of each file of an installed package, or of a module that is no package.

    Raises:
        ValueError: there is no such package, or it has no Python file.
    """
    spec = find_spec(package)
    found = []
    if spec is not None and spec.submodule_search_locations:
        for folder in map(Path, spec.submodule_search_locations):
            for file in sorted(folder.rglob("*")):
                if file.is_file() and file.suffix != ".pyc":
                    found.append((f"{package}/{file.relative_to(folder).as_posix()}", file))
    elif spec is not None and spec.has_location and spec.origin:
        found = [(Path(spec.origin).name, Path(spec.origin))]
    if not any(file.suffix == ".py" for _, file in found):
        raise ValueError(f"plug-in: found the package {package}, which is not installed here")
    return found


def packed(codes: Iterable[str]) -> dict[str, bytes]:
    """The files by which another machine imports and finds the plug-ins of these code versions: place → content.

    Its metadata names only the entry points of these packages, because it lacks what else their distributions hold.

    Raises:
        ValueError: a package is not installed here.
    """
    packages = sorted({name for code in codes for name in code.split(MARK)[1:]})
    found = {place: file.read_bytes() for name in packages for place, file in files_of(name)}
    names: dict[tuple[str, str], str] = {}
    for group in GROUPS:
        for entry in entry_points(group=group):
            if entry.dist and entry.module.partition(".")[0] in packages:
                lines = names.setdefault((entry.dist.name, entry.dist.version), "")
                head = "" if f"[{group}]\n" in lines else f"[{group}]\n"
                names[entry.dist.name, entry.dist.version] += f"{head}{entry.name} = {entry.value}\n"
    for (name, version), lines in names.items():
        folder = f"{re.sub('[-_.]+', '_', name)}-{version}.dist-info"
        found[f"{folder}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
        found[f"{folder}/entry_points.txt"] = lines.encode()
    return found


def _target(entry: EntryPoint, taken: dict[str, str]) -> str:
    package = entry.dist.name if entry.dist else "a package without metadata"
    if not _NAME.fullmatch(entry.name):
        raise ValueError(
            f"entry point of {package}, group {entry.group}: found the name {entry.name!r}, allowed: letters, digits and _, a letter"
            " first"
        )
    match = EntryPoint.pattern.match(entry.value)
    if match is None or not all((match["attr"] or "").split(".")):
        raise ValueError(
            f"entry point of {package}, group {entry.group}: found {entry.name!r} with the value {entry.value!r}, allowed: module:attribute"
        )
    target = f"{match['module']}:{match['attr']}"  # without spaces and extras
    if taken.get(entry.name, target) != target:
        raise ValueError(
            f"entry point of {package}, group {entry.group}: found the name {entry.name!r}, which {taken[entry.name]} has already"
        )
    return target


def _taken(group: str) -> dict[str, str]:
    """The names that this project has in a group."""
    if group != "relearn.attentions":
        return _registry(group)
    kinds = import_module("relearn.layers.efficient.kinds")
    return {**_registry(group), **dict.fromkeys(kinds.LONG_SHORT, kinds.LAYER)}


def _registry(group: str) -> dict[str, str]:
    module, _, name = GROUPS[group].partition(":")
    registry: dict[str, str] = getattr(import_module(module), name)
    return registry
