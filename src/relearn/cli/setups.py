"""relearn setups: list the fixed set-ups for attacks and defences, or check a data set against one."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relearn.data.public_benchmark import Protocol
    from relearn.data.setups import Setup


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="print this set-up as JSON; default: list all")
    parser.add_argument(
        "--trials", action="store_true", help="of the public benchmark: print its trials, which need CIFAR-10"
    )
    parser.add_argument(
        "--check", type=Path, metavar="FILE", help="a data.safetensors of a step `prepare_images`"
    )


def main(args: argparse.Namespace) -> int:
    """List, print or check.

    Raises:
        ValueError: an unknown name, an option without effect, or a data set that differs from the set-up's; one line.
        FileNotFoundError, SafetensorError: --check names no file, or one that is no data set; one line.
    """
    from relearn.data import public_benchmark, setups

    known, public = setups.load(), public_benchmark.SETUPS
    if args.name is None and args.check is not None:
        names = ", ".join(known)
        raise ValueError(
            f"--check {args.check}: found no set-up to check it against, allowed: one of {names}"
        )
    if args.trials and (args.name is None or args.name in known):
        found = args.name or "no set-up"
        raise ValueError(
            f"--trials: found {found}, allowed: with one of the public benchmark, {', '.join(public)}"
        )
    if args.name is None:
        for setup in known.values():
            split = "/".join(str(count) for count in setup.split.values())
            print(
                f"{setup.name}: {setup.dataset}, {split} images per class, {len(setup.targets)} targets of class"
                f" {setup.target_class}, {len(setup.bases)} bases of class {setup.poison_class}, eps {setup.eps_255}/255"
            )
        for one in public.values():
            victims = "new victims" if one.from_scratch else f"victims pre-trained on {one.pretrained_on}"
            print(
                f"{one.name}: cifar10, {one.trials} trials of the public benchmark, {one.poisons} poisons among"
                f" {one.train_count} images, {victims}, eps {one.eps_255:g}/255"
            )
        return 0
    if args.name in public:
        return _public(public[args.name], args)
    if args.name not in known:
        raise ValueError(f"set-up: found {args.name!r}, allowed: {', '.join([*known, *public])}")
    if args.check is None:
        print(json.dumps(asdict(known[args.name]), indent=1))
        return 0
    if faults := _faults(known[args.name], args.check):
        raise ValueError(f"{args.check}: {faults[0][:200]}")
    print(f"{args.check}: the trials of {args.name}")
    return 0


def _faults(setup: Setup, path: Path) -> list[str]:
    """What distinguishes a file from the data set of a set-up."""
    from safetensors import SafetensorError

    from relearn.data.arrays import load_prepared

    allowed = "allowed: a data.safetensors of a step `prepare_images`"
    if not path.is_file():
        raise FileNotFoundError(f"--check {path}: no file; {allowed}")
    try:
        return setup.faults(load_prepared(path))
    except (SafetensorError, LookupError, RuntimeError, TypeError, ValueError) as error:
        if str(error).startswith(f"{path}: "):
            raise
        raise SafetensorError(f"--check {path}: {type(error).__name__}: {error}; {allowed}") from None


def _public(protocol: Protocol, args: argparse.Namespace) -> int:
    """Print a set-up of the public benchmark, with its trials if asked to."""
    if args.check is not None:
        raise ValueError(f"--check: found {protocol.name}, allowed: a set-up with a data.safetensors")
    body = asdict(protocol)
    if args.trials:
        from relearn.cli.public_poisons import trials_of
        from relearn.data.public_benchmark import digest

        _, trials, origin = trials_of(protocol, None)
        body |= {"origin": origin, "sha256": digest(trials), "list": [asdict(one) for one in trials]}
    print(json.dumps(body, indent=1))
    return 0
