"""From any folder inside a checkout to its root, where params.yaml, the Snakefile and results/ are."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

FILES = ("params.yaml", "Snakefile")  # in the root of every checkout
NEED_ONE = ("list", "reproduce", "show", "open", "render", "validate", "dvc", "plan", "power", "code", "jobs")


def enter(args: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Make the root of the checkout the working directory; paths that were typed keep their meaning.

    Outside of a checkout everything stays as it is.

    Args:
        args: what was parsed; its paths may change.
        parser: knows the defaults, which count from the root.

    Raises:
        ValueError: a verb that needs a checkout, where there is none and no path says where to look.
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
