"""Split a module into its statements, for :mod:`relearn.runs.code_version`: what each one defines, reads and imports.

A statement's text is its syntax tree without positions, comments, docstrings, ``__version__`` and lazy registries
(dict literals from names to ``"module:object"`` strings). We do not use ``ast.dump``, because its output changes
between Python versions. Names of the package's own modules are left out: they only say where a definition is, and
:mod:`relearn.runs.code_version` inserts the hash of the definition instead. Standard library only.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

_SKIPPED_FIELDS = frozenset({"ctx", "kind", "type_comment"})  # fields that cannot change a value
_SKIPPED_NAMES = frozenset({"__version__", "__author__"})
_REGISTRY_ENTRY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")

# A definition that reads one of these names may use every other definition of its module.
_REFLECTION = frozenset(
    {"globals", "locals", "vars", "eval", "exec", "__import__", "__name__", "__file__", "sys.modules"}
)
# Calls without side effects. Any other call at the top level of a module counts as an effect.
_PURE = frozenset(
    {
        *("bool", "dict", "enumerate", "float", "frozenset", "int", "len", "list", "map", "max", "min"),
        *("range", "reversed", "round", "set", "slice", "sorted", "str", "sum", "tuple", "zip"),
        *("abstractmethod", "classmethod", "property", "staticmethod", "overload", "runtime_checkable"),
        *("cache", "cached_property", "contextmanager", "dataclass", "field", "lru_cache", "partial"),
        *("NewType", "Path", "TypeVar", "namedtuple", "wraps", "re.compile", "torch.no_grad"),
        *("contextlib.contextmanager", "functools.cache", "functools.lru_cache"),
    }
)


@dataclass(frozen=True)
class Import:
    """``from module import name``, or ``import module`` if ``name`` is None, inside the package."""

    module: str
    name: str | None
    line: int


@dataclass(frozen=True)
class Statement:
    """One top-level statement: its dump, the names that it reads, and its imports from the package."""

    text: str
    reads: frozenset[str]
    imports: tuple[Import, ...]


@dataclass
class Tree:
    """A module.

    Attributes:
        definitions: functions, classes and constants, by name; they count where they are used.
        effects: all other statements; they count wherever the module is imported.
        imported: imports from the package, by local name; ``*`` holds star imports.
        foreign: imports from other packages, by local name, as text.
        future: ``from __future__`` imports.
        silent: names whose statements are left out (lazy registries, ``__version__``).
    """

    definitions: dict[str, list[Statement]] = field(default_factory=dict)
    effects: list[Statement] = field(default_factory=list)
    imported: dict[str, list[Import]] = field(default_factory=dict)
    foreign: dict[str, list[str]] = field(default_factory=dict)
    future: list[str] = field(default_factory=list)
    silent: set[str] = field(default_factory=set)

    def statements(self) -> list[Statement]:
        unique = {id(one): one for several in self.definitions.values() for one in several}
        return [*unique.values(), *self.effects]

    def top_imports(self) -> Iterator[Import]:
        """Yield every import that runs when the module is imported."""
        for several in self.imported.values():
            yield from several
        for one in self.effects:
            yield from one.imports


def reflects(statement: Statement) -> bool:
    """Whether a statement may read names that do not occur in its text."""
    return not _REFLECTION.isdisjoint(statement.reads)


@lru_cache(maxsize=4096)
def tree_of(source: bytes, name: str, package: str, root: str) -> Tree:
    """Parse a module; cached by content.

    Args:
        source: its source.
        name: its dotted name, for error messages.
        package: the package to which its relative imports refer.
        root: the package whose imports are followed.

    Raises:
        ValueError: the source does not parse.
    """
    try:
        parsed = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"code version: {name} does not parse: {error}") from error
    return _Reader(package, root).read(_flat(parsed.body))


def _flat(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements; of ``if TYPE_CHECKING:`` only those of the ``else`` branch."""
    for node in body:
        if isinstance(node, ast.If) and _is_type_checking(node.test):
            yield from _flat(node.orelse)
        else:
            yield node


def _targets(node: ast.AST) -> list[str] | None:
    """Return the names that a definition binds; None for a statement of another kind."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        return None
    names: list[str] = []
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        for one in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
            if not isinstance(one, ast.Name):
                return None
            names.append(one.id)
    return names


class _Reader:
    """Reads one module; its relative imports refer to ``package``, and ``root`` is the package whose imports are followed."""

    def __init__(self, package: str, root: str) -> None:
        self.package, self.root, self.pure = package, root, _PURE

    def read(self, body: Iterator[ast.stmt]) -> Tree:
        tree, others = Tree(), []
        for node in body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.bind(node, tree)
            elif _says_nothing(node):
                tree.silent.update(_targets(node) or ())
            else:
                others.append(node)
        # A name that the module rebinds is no longer the known pure function.
        own = {name for node in others for name in _targets(node) or ()} | set(tree.imported)
        self.pure = frozenset(name for name in _PURE if name.partition(".")[0] not in own)
        for node in others:
            self.add(node, tree)
        read = frozenset[str]().union(*(one.reads for one in tree.statements()))
        for local, several in tree.foreign.items():
            texts = [text for text in several if re.split("[. ]", text)[0] not in sys.stdlib_module_names]
            if local not in read and texts:  # imported for its side effects, or for re-export
                tree.effects.append(Statement("\n".join(texts), frozenset(), ()))
        return tree

    def bind(self, node: ast.Import | ast.ImportFrom, tree: Tree) -> None:
        """Record the names that a top-level import binds."""
        for local, found in self.imports_in(node):
            if isinstance(found, Import):
                tree.imported.setdefault(local, []).append(found)
            elif found.startswith("__future__ "):
                tree.future.append(local)
            elif found != "typing TYPE_CHECKING":  # its only use is skipped
                tree.foreign.setdefault(local, []).append(found)

    def add(self, node: ast.stmt, tree: Tree) -> None:
        """Record any other top-level statement."""
        text: list[str] = []
        reads: set[str] = set()
        imports: list[Import] = []
        self.write(node, text, reads, imports)
        binds = _targets(node)
        statement = Statement("".join(text), frozenset(reads), tuple(imports))
        if binds is None or "__getattr__" in binds or not self.only_defines(node):
            tree.effects.append(statement)
        else:
            for name in binds:
                tree.definitions.setdefault(name, []).append(statement)

    def only_defines(self, node: ast.AST) -> bool:
        """Whether a statement only defines names when the module is imported, without side effects."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            defaults = [*node.args.defaults, *node.args.kw_defaults]
            return self.decorated_purely(node) and all(map(self.calls_nothing, defaults))
        if isinstance(node, ast.ClassDef):
            inside = all(
                self.only_defines(one) or isinstance(one, ast.Pass) or _says_nothing(one) for one in node.body
            )
            bases = all(map(self.calls_nothing, node.bases))
            return inside and bases and not node.keywords and self.decorated_purely(node)
        return isinstance(node, ast.Assign | ast.AnnAssign) and self.calls_nothing(node.value)

    def decorated_purely(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
        called = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
        return all(ast.unparse(one) in self.pure or ast.unparse(one).endswith(".setter") for one in called)

    def calls_nothing(self, node: ast.AST | None) -> bool:
        """Whether an expression calls only pure functions; the body of a lambda does not run yet."""
        if node is None or isinstance(node, ast.Lambda):
            return True
        if isinstance(node, ast.Call):
            of_text = isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Constant)
            if not of_text and ast.unparse(node.func) not in self.pure:
                return False
        return not isinstance(node, ast.NamedExpr) and all(
            map(self.calls_nothing, ast.iter_child_nodes(node))
        )

    def write(self, node: object, text: list[str], reads: set[str], imports: list[Import]) -> None:
        """Append the tree to ``text``, identically in every Python version (no empty fields), and collect its names and imports."""
        if isinstance(node, ast.AST):
            if isinstance(node, ast.If) and _is_type_checking(node.test):
                return self.write(node.orelse, text, reads, imports)
            if isinstance(node, ast.Import | ast.ImportFrom):
                return self.write_import(node, text, imports)
            if isinstance(node, ast.Name):
                reads.add(node.id)
            elif (
                isinstance(node, ast.Attribute)
                and node.attr == "modules"
                and ast.unparse(node) in _REFLECTION
            ):
                reads.add("sys.modules")
            elif isinstance(node, ast.Global):
                reads.update(node.names)
            text.append(f"({type(node).__name__}")
            for name, value in ast.iter_fields(node):
                if value is None or name in _SKIPPED_FIELDS or (isinstance(value, list) and not value):
                    continue
                text.append(f" {name}=")
                self.write(value, text, reads, imports)
            text.append(")")
        elif isinstance(node, list):
            text.append("[")
            for item in node:
                if not _says_nothing(item):
                    self.write(item, text, reads, imports)
            text.append("]")
        else:
            text.append(repr(node))
        return None

    def write_import(self, node: ast.Import | ast.ImportFrom, text: list[str], imports: list[Import]) -> None:
        """Append only the local names of imports from the package, and the full path of imports from elsewhere."""
        for local, found in self.imports_in(node):
            if isinstance(found, Import):
                imports.append(found)
            text.append(f"(Import {local})" if isinstance(found, Import) else f"(Import {local} {found})")

    def imports_in(self, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Import | str]]:
        """Yield each import's local name and its origin: an :class:`Import` inside the package, or a text."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                local = alias.asname or alias.name.split(".")[0]
                ours = alias.name.split(".")[0] == self.root
                yield local, Import(alias.name, None, node.lineno) if ours else alias.name
            return
        base = node.module or ""
        if node.level:
            parts = self.package.split(".")
            base = ".".join([*parts[: len(parts) - node.level + 1], *([base] if base else [])])
        ours = base.split(".")[0] == self.root
        for alias in node.names:
            local = alias.asname or alias.name
            yield local, Import(base, alias.name, node.lineno) if ours else f"{base} {alias.name}"


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _says_nothing(node: object) -> bool:
    """Whether a statement cannot change a result: a string (docstring), a version, a lazy registry."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if all(isinstance(target, ast.Name) and target.id in _SKIPPED_NAMES for target in targets):
            return True
        return isinstance(node.value, ast.Dict) and _is_registry(node.value)
    return False


def _is_registry(node: ast.Dict) -> bool:
    """Whether a dict literal maps names to ``"module:object"`` strings."""
    return bool(node.values) and all(
        isinstance(value, ast.Constant)
        and isinstance(value.value, str)
        and _REGISTRY_ENTRY.fullmatch(value.value) is not None
        for value in node.values
    )
