"""relearn setups: list the fixed set-ups on which attacks and defences are compared, or check a data set against one."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="print this set-up as JSON; default: list all")
    parser.add_argument(
        "--check", type=Path, metavar="FILE", help="a data.safetensors of a step `prepare_images`"
    )


def main(args: argparse.Namespace) -> int:
    """List, print or check.

    Raises:
        ValueError: an unknown name, or a data set that differs from the set-up's; one line.
    """
    from relearn.data import setups

    known = setups.load()
    if args.name is None:
        for setup in known.values():
            split = "/".join(str(count) for count in setup.split.values())
            print(
                f"{setup.name}: {setup.dataset}, {split} images per class, {len(setup.targets)} targets of class"
                f" {setup.target_class}, {len(setup.bases)} bases of class {setup.poison_class}, eps {setup.eps_255}/255"
            )
        return 0
    if args.name not in known:
        raise ValueError(f"set-up: found {args.name!r}, allowed: {', '.join(known)}")
    if args.check is None:
        print(json.dumps(asdict(known[args.name]), indent=1))
        return 0
    from relearn.data.arrays import load_prepared

    if faults := known[args.name].faults(load_prepared(args.check)):
        raise ValueError(f"{args.check}: {faults[0][:200]}")
    print(f"{args.check}: the trials of {args.name}")
    return 0
