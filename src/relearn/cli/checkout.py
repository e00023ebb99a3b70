"""Change from any folder inside a checkout to its root, which holds params.yaml, the Snakefile and results/."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

FILES = ("params.yaml", "Snakefile")  # in the root of every checkout
NEED_ONE = (
    *("list", "reproduce", "show", "open", "render", "validate", "dvc", "plan", "power", "code", "jobs"),
    *("pack", "adopt", "recover", "compare"),
)


def enter(args: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Make the root of the checkout the working directory; paths given by the user keep their meaning.

    Outside of a checkout nothing changes.

    Args:
        args: the parsed arguments; their paths may change.
        parser: has the defaults, which are relative to the root.

    Raises:
        ValueError: the verb needs a checkout, but there is none and no path says where to look.
    """
    here = Path.cwd()
    typed = {
        name: value
        for name, value in vars(args).items()
        if value != parser.get_default(name) and _paths(value)
    }
    root = next((one for one in (here, *here.parents) if all((one / name).is_file() for name in FILES)), None)
    if root is None:
        if args.command in NEED_ONE and not typed and not (here / FILES[0]).is_file():
            raise ValueError(
                f"found {here}, in no checkout of relearn (a folder with {' and '.join(FILES)}); allowed: any folder inside one"
            )
    elif root != here:
        for name, value in typed.items():
            setattr(args, name, [here / one for one in value] if isinstance(value, list) else here / value)
        os.chdir(root)


def _paths(value: object) -> bool:
    values = value if isinstance(value, list) else [value]
    return bool(values) and all(isinstance(one, Path) for one in values)
