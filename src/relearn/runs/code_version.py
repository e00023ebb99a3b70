"""The code version of a run: a Merkle hash over the definitions that its numbers depend on.

    hash(d)    = sha256( text(d), and for each name that d reads or imports: the name, hash(its definition) )
    version(M) = sha256( hash(all of m) for m in M, hash(effects(m)) for each module m that is imported )

cut to 16 hex digits. A definition is a function, a class or a constant at the top level of a module; its ``text`` is the
syntax tree of :mod:`relearn.runs.code_trees`. All other top-level statements are the module's effects. An edited
formula changes the version of the runs that reach it. An edited comment, an edited definition that a run does not reach, and
a moved or renamed file change nothing, because no module name and no path enters the hash.

- ``from m import name`` includes one definition and everything that it reads in m. An imported module, ``from m import *`` and a
  definition that uses ``globals()`` or the like include all of m.
- Function-level imports count with their function. Imports under ``if TYPE_CHECKING:`` never count.
- The modules M count whole.
- The effects of every imported module count, including those of the ``__init__`` files on each dotted path,
  because Python runs them.
- A module of a plug-in (:mod:`relearn.runs.plugins`) counts with all files of its package, or with its own file if it is in none;
  the version ends in the name of either: ``0123456789abcdef+my_package``.

Two things are left out on purpose.

* Plumbing (``PLUMBING``): modules that move, time or log results and cannot change them.
* Lazy registries: dict literals from names to ``"module:object"`` strings. A new method in a registry
  re-runs nothing; a rule names the module of its own method. So a name that is pointed to another object of the same
  module re-runs nothing either, although it should: a new object needs a new name.

Standard library only: the Snakefile and every ``relearn`` call import this file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import relearn
from relearn.runs import plugins
from relearn.runs.code_trees import Import, Statement, Tree, reflects, tree_of

PACKAGE = "relearn"
ROOT = Path(relearn.__path__[0]).resolve()

# They move results around, or decide where and when a job runs. Apart from costs they compute no number
# of a run, so an edit here must not re-run weeks of training.
PLUMBING = tuple(f"{PACKAGE}.{room}" for room in ("runs", "params", "tracking", "cli"))


def code_version(*modules: str, root: Path | None = None) -> str:
    """Return the 16 hex digits that identify the code behind ``modules``.

    Args:
        modules: dotted names, ``"relearn.methods.deep_knn"``; their order does not matter.
        root: the folder of another copy of the package, which is read at every call. The package itself is read
            once (see :func:`forget`), so that all jobs of a plan get versions of the same moment.

    Raises:
        ValueError: no module given, a name in the package's plumbing, a module that does not exist or parse, or an
            import cycle.
    """
    own = frozenset(name for name in modules if _is_own(name))
    version = (_own() if root is None else Snapshot(root)).whole(own).hash[:16]
    others = sorted({name.partition(".")[0] for name in modules} - {name.partition(".")[0] for name in own})
    if not others:
        return version
    return plugins.MARK.join([_sha256([version, *map(plugins.source_hash, others)])[:16], *others])


def closure(modules: Iterable[str], *, root: Path | None = None) -> tuple[str, ...]:
    """Return the package's modules that contribute to the version of ``modules``, sorted."""
    own = frozenset(name for name in modules if _is_own(name))
    return tuple(sorted((_own() if root is None else Snapshot(root)).whole(own).modules))


@cache
def _own() -> Snapshot:
    return Snapshot(ROOT)


def forget() -> None:
    """Read the package's files again from now on."""
    _own.cache_clear()


class Part(NamedTuple):
    """A hash, and the modules that contribute to it."""

    hash: str
    modules: frozenset[str]


_NOTHING = Part("", frozenset())


class Snapshot:
    """The package's files, each read once, when it is first needed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._trees: dict[str, Tree] = {}
        self._exists: dict[str, bool] = {}
        self._parts: dict[tuple[str, str | None], Part] = {}
        self._open: list[tuple[str, str | None]] = []
        self._whole: dict[frozenset[str], Part] = {}

    def whole(self, modules: frozenset[str]) -> Part:
        """Hash the modules with everything that they reach and run; see :func:`code_version`."""
        if modules not in self._whole:
            self._whole[modules] = self._hash_all(sorted(modules))
        return self._whole[modules]

    def _hash_all(self, modules: list[str]) -> Part:
        if not modules:
            raise ValueError(
                "code_version: no module given; name at least one, such as 'relearn.methods.deep_knn'"
            )
        for name in modules:
            if is_plumbing(name):
                raise ValueError(f"code version: {name} is plumbing; name the module that computes")
        parts = [self._part(name, None) for name in modules]
        reached = set[str]().union(*(part.modules for part in parts))
        waiting, seen, effects = set(reached), set[str](), list[str]()
        while waiting:
            name = waiting.pop()
            seen.add(name)
            tree = self._tree(name)
            imported = {parent for one in tree.top_imports() for parent in self._modules_of(one, name)}
            if tree.effects:
                part = self._hash(name, (), tree.effects)
                effects.append(part.hash)
                reached |= part.modules
                imported |= part.modules
            waiting |= {*imported, *_parents(name)} - seen
        lines = ["modules", *sorted(part.hash for part in parts), "effects", *sorted(effects)]
        return Part(_sha256(lines), frozenset(reached))

    def _part(self, module: str, name: str | None) -> Part:
        """Hash a name of a module with everything that it reaches; None: all names of the module.

        Raises:
            ValueError: the definition reaches itself through another module.
        """
        key = (module, name)
        if key in self._open:
            circle = " -> ".join(one for one, _ in [*self._open[self._open.index(key) :], key])
            raise ValueError(f"code version: imports go in a circle: {circle}")
        if key not in self._parts:
            tree = self._tree(module)
            names = [*tree.definitions, *tree.imported, *tree.foreign] if name is None else [name]
            self._open.append(key)
            try:
                self._parts[key] = self._hash(module, names)
            finally:
                self._open.pop()
        return self._parts[key]

    def _hash(self, module: str, names: Iterable[str], effects: Sequence[Statement] = ()) -> Part:
        """Hash effects and names of a module, with everything that these read in it.

        The hash needs no edges between definitions of one module: their texts contain the names, and a name is unique in a module.
        """
        tree = self._tree(module)
        lines, modules = [f"future {' '.join(sorted(tree.future))}"], {module}
        waiting, seen = {*names, "*"}, set[str]()  # any name may come from a star import

        def add(kind: str, statement: Statement) -> None:
            parts = [self._resolve(one, module) for one in statement.imports]
            lines.append(" ".join([kind, statement.text, *(part.hash for part in parts)]))
            modules.update(*(part.modules for part in parts))
            waiting.update(statement.reads)
            if reflects(statement):
                waiting.update(tree.definitions, tree.imported, tree.foreign)

        for place, statement in enumerate(effects):
            add(f"effect {place}", statement)
        while waiting:
            name = waiting.pop()
            seen.add(name)
            for place, statement in enumerate(tree.definitions.get(name, ())):
                add(f"{name} {place}", statement)
            for one in tree.imported.get(name, ()):
                part = self._resolve(one, module)
                lines.append(f"{name} {part.hash}")
                modules |= part.modules
            lines += [f"{name} {text}" for text in tree.foreign.get(name, ())]
            waiting -= seen
        return Part(_sha256(sorted(lines)), frozenset(modules))

    def _resolve(self, one: Import, importer: str) -> Part:
        """Hash the definitions that an import refers to."""
        if is_plumbing(one.module):
            return _NOTHING
        tree = self._tree(one.module, f"{importer}, line {one.line}: imports ")
        if one.name in (None, "*"):
            return self._part(one.module, None)
        parts = []
        known = one.name in tree.definitions or one.name in tree.imported or one.name in tree.foreign
        if known and one.module != importer:  # a package's __init__ may import its own modules
            parts.append(self._part(one.module, one.name))
        below = f"{one.module}.{one.name}"
        if self._is_module(below):
            parts.append(_NOTHING if is_plumbing(below) else self._part(below, None))
        if not parts and one.name not in tree.silent:
            parts.append(self._part(one.module, None))  # a name defined by an effect or by __getattr__
        modules = frozenset({one.module}).union(*(part.modules for part in parts))
        return Part(" ".join(part.hash for part in parts), modules)

    def _modules_of(self, one: Import, importer: str) -> Iterator[str]:
        """Yield the modules that an import statement runs, without their parent packages."""
        if is_plumbing(one.module):
            return
        self._tree(one.module, f"{importer}, line {one.line}: imports ")
        yield one.module
        below = f"{one.module}.{one.name}"
        if self._is_module(below) and not is_plumbing(below):
            yield below

    def _tree(self, name: str, importer: str = "") -> Tree:
        if name not in self._trees:
            path = self._file(name)
            if path is None:
                raise ValueError(
                    f"code version: {importer}{name}, which is not a module of {self.root.name}/; "
                    f"modules are named '{PACKAGE}.room.file'"
                )
            package = name if path.name == "__init__.py" else name.rpartition(".")[0]
            self._trees[name] = tree_of(path.read_bytes(), name, package, PACKAGE)
        return self._trees[name]

    def _is_module(self, name: str) -> bool:
        if name not in self._exists:
            self._exists[name] = self._file(name) is not None
        return self._exists[name]

    def _file(self, name: str) -> Path | None:
        """Return the file of a dotted name, or None if there is none."""
        parts = name.split(".")
        if parts[0] != PACKAGE or not all(parts):
            return None
        base = self.root.joinpath(*parts[1:])
        return next((one for one in (base / "__init__.py", base.with_suffix(".py")) if one.is_file()), None)


def _is_own(module: str) -> bool:
    return module.partition(".")[0] == PACKAGE


def is_plumbing(module: str) -> bool:
    """Whether a module belongs to :data:`PLUMBING`."""
    return any(module == one or module.startswith(f"{one}.") for one in PLUMBING)


def _parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def _sha256(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()
