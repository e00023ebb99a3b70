"""The code version of a run: a hash of the syntax trees that its numbers depend on.

    version(M) = sha256( (name, tree(name)) for name in sorted(closure(M)) ), cut to 16 hex digits

``closure(M)`` holds the modules M and all that they import inside the package, transitively: plain,
relative and function-level imports, and the ``__init__`` files on each dotted path, because Python runs
them too. ``tree`` is the module's syntax tree without positions, comments, docstrings and ``__version__``:
an edited formula changes it, an edited comment does not. The dump is our own and not ``ast.dump``, whose
text changes between Python versions.

Three things are left out on purpose.

* Plumbing (``PLUMBING``): modules that move, time or log results and cannot change them.
* Lazy registries: dict literals from names to ``"module:object"`` texts. A new method in the registry
  re-runs nothing; a rule names the module of its own method.
* Imports under ``if TYPE_CHECKING:``, which never run.

Standard library only: the Snakefile and every ``relearn`` call import this file.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

PACKAGE = "relearn"
ROOT = Path(__file__).resolve().parent

# They carry results from place to place, or decide where and when a job runs. None of them computes a number
# of a run other than its cost, so an edit here must not re-run weeks of training.
PLUMBING = frozenset(
    f"{PACKAGE}.{name}"
    for name in (
        *("cli", "console", "exits", "interrupt", "parents", "memory", "devices"),
        *("warm", "warm_server", "warm_job"),
        *("record", "record_file", "spool", "durable", "provenance", "checkpoint", "tensors_file"),
        *("tracked", "tracking", "tracking_store"),
        *(
            "params",
            "spelling",
            "faults",
            "schema",
            "schema_gradinit",
            "schema_l2_attention",
            "schema_lipsformer",
            "schema_layer_scale",
            "schema_lrformer",
            "schema_long_short",
            "schema_robustness",
            "schema_freelb",
            "schema_vision",
            "schema_types",
            "schema_rules",
            "schema_rules_gradinit",
            "schema_rules_l2_attention",
            "schema_rules_lipsformer",
            "schema_rules_long_short",
            "schema_rules_freelb",
            "schema_rules_vision",
            "forecast_memory",
            "code_version",
        ),
    )
)

_SKIPPED_FIELDS = frozenset({"ctx", "kind", "type_comment"})  # syntax that cannot change a value
_SKIPPED_NAMES = frozenset({"__version__", "__author__"})
_REGISTRY_ENTRY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def code_version(*modules: str, root: Path = ROOT) -> str:
    """Return the 16 hex digits that stand for the code behind ``modules``.

    Args:
        modules: dotted names, ``"relearn.methods.deep_knn"``; their order does not matter.
        root: the folder of the package, for tests on a scratch copy.

    Raises:
        ValueError: no module given, a name outside the package, or a module that does not exist or parse.
    """
    if not modules:
        raise ValueError(
            "code_version: no module given; name at least one, such as 'relearn.methods.deep_knn'"
        )
    digest = hashlib.sha256()
    for name in closure(modules, root=root):
        digest.update(f"{name} {_analyse(*_read(name, root))[0]}\n".encode())
    return digest.hexdigest()[:16]


def closure(modules: Iterable[str], *, root: Path = ROOT) -> tuple[str, ...]:
    """Return ``modules`` and all that they import inside the package, sorted, without ``PLUMBING``."""
    found: set[str] = set()
    waiting = [name for module in modules for name in _with_parents(module)]
    while waiting:
        name = waiting.pop()
        if name in found or _is_plumbing(name):
            continue
        found.add(name)
        waiting.extend(imports_of(name, root=root))
    return tuple(sorted(found))


def imports_of(module: str, *, root: Path = ROOT) -> tuple[str, ...]:
    """Return the package's modules that ``module`` itself imports, parents included, sorted.

    Raises:
        ValueError: the module, or one that it imports, does not exist.
    """
    found: set[str] = set()
    for target, names, line in _analyse(*_read(module, root))[1]:
        if _file(target, root) is None:
            raise ValueError(f"{module}, line {line}: imports {target}, which does not exist in {root.name}/")
        found.update(_with_parents(target))
        found.update(f"{target}.{name}" for name in names if _file(f"{target}.{name}", root) is not None)
    found.discard(module)
    return tuple(sorted(found))


def _is_plumbing(name: str) -> bool:
    return ".".join(name.split(".")[:2]) in PLUMBING


def _with_parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


def _file(name: str, root: Path) -> Path | None:
    """Return the file of a dotted name, or None where there is none."""
    for candidate in _candidates(name, root):
        if os.path.isfile(candidate):
            return candidate
    return None


@lru_cache(maxsize=65536)  # a DAG asks a hundred thousand times
def _candidates(name: str, root: Path) -> tuple[Path, ...]:
    """Return where the file of a dotted name may lie; whether it is there is looked up each time."""
    parts = name.split(".")
    if parts[0] != PACKAGE or not all(parts):
        return ()
    base = root.joinpath(*parts[1:])
    return base / "__init__.py", base.with_suffix(".py")


def _read(name: str, root: Path) -> tuple[bytes, str, str]:
    """Return a module's text, its name, and the package from which its relative imports count."""
    path = _file(name, root)
    if path is None:
        raise ValueError(
            f"code version: no module {name!r} in {root.name}/; modules are named '{PACKAGE}.room.file'"
        )
    return path.read_bytes(), name, name if path.name == "__init__.py" else name.rpartition(".")[0]


# An import: the module, the names taken from it (perhaps submodules), the line.
_Import = tuple[str, tuple[str, ...], int]


@lru_cache(maxsize=4096)
def _analyse(source: bytes, name: str, package: str) -> tuple[str, tuple[_Import, ...]]:
    """Return a module's tree hash and its imports; cached by content: a process parses once."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"code version: {name} does not parse: {error}") from error
    text: list[str] = []
    imports: list[_Import] = []
    _write(tree, package, text, imports)
    return hashlib.sha256("".join(text).encode("utf-8", "surrogatepass")).hexdigest(), tuple(imports)


def _write(node: object, package: str, text: list[str], imports: list[_Import]) -> None:
    """Append the tree to ``text``, alike under every Python (no empty fields), and to ``imports``."""
    if isinstance(node, ast.AST):
        if isinstance(node, ast.If) and _is_type_checking(node.test):
            return _write(node.orelse, package, text, imports)
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.extend(_inside(node, package))
        text.append(f"({type(node).__name__}")
        for field, value in ast.iter_fields(node):
            if value is None or field in _SKIPPED_FIELDS or (isinstance(value, list) and not value):
                continue
            text.append(f" {field}=")
            _write(value, package, text, imports)
        text.append(")")
    elif isinstance(node, list):
        text.append("[")
        for item in node:
            if not _says_nothing(item):
                _write(item, package, text, imports)
        text.append("]")
    else:
        text.append(repr(node))


def _inside(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[_Import]:
    """Yield what an import statement takes from the package."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.split(".")[0] == PACKAGE:
                yield alias.name, (), node.lineno
        return
    base = node.module or ""
    if node.level:
        parts = package.split(".")
        base = ".".join([*parts[: len(parts) - node.level + 1], *([base] if base else [])])
    if base.split(".")[0] == PACKAGE:
        yield base, tuple(alias.name for alias in node.names), node.lineno


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _says_nothing(node: object) -> bool:
    """Whether a statement cannot change a result: a bare text (docstrings), a version, a lazy registry."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if all(isinstance(target, ast.Name) and target.id in _SKIPPED_NAMES for target in targets):
            return True
        return isinstance(node.value, ast.Dict) and _is_registry(node.value)
    return False


def _is_registry(node: ast.Dict) -> bool:
    """Whether a dict literal leads from names to ``"module:object"`` texts."""
    return bool(node.values) and all(
        isinstance(value, ast.Constant)
        and isinstance(value.value, str)
        and _REGISTRY_ENTRY.fullmatch(value.value) is not None
        for value in node.values
    )
