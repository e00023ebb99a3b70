"""Edit and move modules of a scratch copy of the package."""

import re
from pathlib import Path


def edit(root: Path, name: str, old: str, new: str) -> None:
    text = (root / name).read_text()
    assert old in text
    (root / name).write_text(text.replace(old, new))


def move(root: Path, old: str, new: str) -> None:
    """Move a module, ``methods.one``, and rewrite what imports it, as a person would."""
    source, target = (root / f"{name.replace('.', '/')}.py" for name in (old, new))
    target.parent.mkdir(parents=True, exist_ok=True)
    for folder in target.relative_to(root).parents:
        (root / folder / "__init__.py").touch()
    source.rename(target)
    here, there = f"relearn.{old}", f"relearn.{new}"
    (room, _, name), (new_room, _, new_name) = here.rpartition("."), there.rpartition(".")
    local = new_name if new_name == name else f"{new_name} as {name}"
    together = re.compile(rf"^( *)from {re.escape(room)} import (.*\b{name}\b.*)$", re.MULTILINE)

    def apart(found: re.Match[str]) -> str:
        """``from room import a, name``: two imports, of ``a`` from here and of ``name`` from there."""
        others = [one for one in re.split(r",\s*", found[2]) if one != name]
        if len(others) == len(found[2].split(",")):
            return found[0]
        lines = [f"from {room} import {', '.join(others)}"] if others else []
        return "\n".join(found[1] + line for line in [*lines, f"from {new_room} import {local}"])

    for path in root.rglob("*.py"):
        text = re.sub(rf"\b{re.escape(here)}\b", there, path.read_text())
        path.write_text(together.sub(apart, text))
