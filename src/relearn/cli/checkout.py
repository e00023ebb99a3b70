"""Change from any folder inside a checkout to its root, which holds params.yaml, the Snakefile and results/."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

FILES = ("params.yaml", "Snakefile")  # in the root of every checkout
NEED_ONE = (
    *("list", "reproduce", "show", "open", "render", "validate", "dvc", "plan", "power", "code", "jobs"),
    *("pack", "adopt", "recover", "compare"),
)


def enter(args: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Make the root of the checkout the working directory; paths given by the user keep their meaning.

    So do targets with a slash that exist here. Outside of a checkout nothing changes.

    Args:
        args: the parsed arguments; their paths may change, and ``here`` is added, the folder in which the command was started.
        parser: has the defaults, which are relative to the root.

    Raises:
        ValueError: the verb needs a checkout, but there is none and no path says where to look.
    """
    here = Path.cwd()
    typed = {
        name: value
        for name, value in vars(args).items()
        # A typed path is another object than the default, even if it is the same path.
        if value is not parser.get_default(name) and _paths(value)
    }
    args.here = here
    root = next((one for one in (here, *here.parents) if all((one / name).is_file() for name in FILES)), None)
    if root is None:
        if args.command in NEED_ONE and not typed and not (here / FILES[0]).is_file():
            raise ValueError(
                f"found {here}, in no checkout of relearn (a folder with {' and '.join(FILES)}); allowed: any folder inside one"
            )
    elif root != here:
        for name, value in typed.items():
            setattr(args, name, _below(here, value))
        for name in ("target", "study"):  # their words may be files or folders of runs
            if isinstance(words := getattr(args, name, None), list):
                setattr(args, name, [_from_root(here, root, word) for word in words])
        os.chdir(root)


def as_typed(args: argparse.Namespace, word: str) -> str:
    """A word that may be a path: that path, if it is one in the folder where the command was started; otherwise the word."""
    here = started_in(args)
    return str(here / word) if here != Path.cwd() and word and (here / word).exists() else word


def started_in(args: argparse.Namespace) -> Path:
    """The folder in which the command was started."""
    return getattr(args, "here", None) or Path.cwd()


def _from_root(here: Path, root: Path, word: str) -> str:
    """A target that is a path in ``here``, as the plan names it; any other as it is."""
    there = "/" in word and (here / word).exists()
    return Path(os.path.relpath(here / word, root)).as_posix() if there else word


def _below(here: Path, value: Any) -> Any:
    if isinstance(value, list):
        return [_below(here, one) for one in value]
    return (value[0], here / value[1]) if isinstance(value, tuple) else here / value


def _paths(value: object) -> bool:
    """Whether the values are paths, or pairs of a name and a path."""
    values = value if isinstance(value, list) else [value]
    last = [one[-1] if isinstance(one, tuple) and one else one for one in values]
    return bool(last) and all(isinstance(one, Path) for one in last)
