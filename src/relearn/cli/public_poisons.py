"""Poisons in the public benchmark's protocol: its victims and trials, the measurement, and the score beside the published table."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relearn.cli import checkout
from relearn.cli.poison_files import read

if TYPE_CHECKING:
    from relearn.data.images import Images
    from relearn.data.public_benchmark import Protocol, Trial
    from relearn.studies.poisoning.public_benchmark import Score


def measure(args: argparse.Namespace) -> int:
    """Measure poisons in the public benchmark's protocol, print the scores and the published ones, write both files.

    Raises:
        ValueError: an option that the protocol fixes, unusable victims, trials or poisons; one line.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from relearn.data import public_benchmark as benchmark
    from relearn.runs.atomic_files import digest, write
    from relearn.runs.console import Progress
    from relearn.runs.devices import acquire
    from relearn.steps.csv_rows import write_rows
    from relearn.studies.poisoning import public_benchmark as measured

    protocol = benchmark.SETUPS[args.setup]
    seed = args.seed or 0
    refuse_unread(args, protocol)
    victims = victims_of(args, protocol)
    data, trials, origin = trials_of(protocol, args.trials)
    pickled = args.poisons.is_dir() and any(args.poisons.glob("*/poisons.pickle"))
    images = benchmark.read_poisons(args.poisons) if pickled else read(args.poisons)
    measured.check_poisons(images, trials, data, protocol)
    rows: list[measured.Row] = []
    args.out.mkdir(parents=True, exist_ok=True)
    with acquire(args.device) as device:
        for role, network in victims:
            with Progress(f"{role} {Path(network).name}") as progress:
                how: dict[str, Any] = {"seed": seed, "progress": progress}
                if protocol.from_scratch:
                    how |= {"controls": args.controls, "device": device, "precision": args.precision}
                    make = _maker(network, data)
                    made = measured.from_scratch(make, images, trials, data, protocol, **how)
                else:
                    from relearn.models import files

                    net = files.load(Path(network), device)
                    made = measured.transfer(net, images, trials, data, protocol, **how)
            rows += [{"victim": role, "network": _identity(network, protocol), **row} for row in made]
            # after every victim, so that a finished one outlives an interruption
            write_rows(args.out / "benchmark.csv", measured.COLUMNS, rows)
    found = measured.scores(rows)
    known = measured.published_rows(protocol)
    body = {
        "protocol": asdict(protocol),
        "trials": {"count": len(images), "from": origin, "sha256": benchmark.digest(trials)},
        "data": data.source,
        "victims": [
            {"role": role, "network": Path(network).name, "sha256": digest(Path(network))}
            if not protocol.from_scratch
            else {"role": role, "network": network}
            for role, network in victims
        ],
        "scores": [asdict(one) for one in found],
        "published_percent": known,
        "seed": seed,
        "precision": args.precision,
    }
    write(args.out / "benchmark.json", (json.dumps(body, indent=1) + "\n").encode())
    print(f"{protocol.name}: {len(images)} of {protocol.trials} trials, {origin}")
    print("\n".join(lines(found, known)))
    print(f"\nrows and record: {args.out / 'benchmark.csv'}, {args.out / 'benchmark.json'}")
    return 0


def _identity(network: str, protocol: Protocol) -> str:
    """The name of a network; that of a file with its sha256, because files of several folders may have one name."""
    from relearn.runs.atomic_files import digest

    return network if protocol.from_scratch else f"{Path(network).name} {digest(network)[:12]}"


def refuse_unread(args: argparse.Namespace, protocol: Protocol) -> None:
    """Refuse options without effect, so that nobody takes the result for theirs.

    Raises:
        ValueError: --eps, which the set-up fixes, or an option that only other set-ups read.
    """
    if args.eps is not None:
        raise ValueError(
            f"--eps: found {args.eps}, allowed with {protocol.name}: none, it is part of the set-up"
        )
    unread = {name: getattr(args, name) for name in ("defences", "knowledge", "scale", "results")}
    if not protocol.from_scratch:
        unread["controls"] = args.controls or None  # its victims have their controls anyway
        unread["precision"] = None if args.precision == "fp32" else args.precision
    for name, value in unread.items():
        if value is not None:
            shown = " ".join(value) or "none" if isinstance(value, list) else value
            allowed = "fp32" if name == "precision" else f"no --{name}"
            raise ValueError(
                f"--{name}: found {shown}, allowed with {protocol.name}: {allowed}, it has no effect there"
            )


def victims_of(args: argparse.Namespace, protocol: Protocol) -> list[tuple[str, str]]:
    """Role and file of each victim, or name twice for one that is trained from scratch.

    Raises:
        ValueError: none, an unknown role or network, or no such file (FileNotFoundError).
    """
    allowed = " ".join(one if protocol.from_scratch else f"{one}=FILE" for one in protocol.victims)
    if not args.victims:
        raise ValueError(f"--victims: found none, allowed with {protocol.name}: {allowed}")
    found = []
    for word in args.victims:
        role, equals, file = word.partition("=")
        file = checkout.as_typed(args, file)
        if role not in protocol.victims or bool(equals) == protocol.from_scratch:
            raise ValueError(f"--victims: found {word}, allowed with {protocol.name}: {allowed}")
        if equals and not Path(file).is_file():
            raise FileNotFoundError(f"--victims: found {word}, no such file")
        found.append((role, file if equals else role))
    return found


def trials_of(protocol: Protocol, given: Path | None) -> tuple[Images, list[Trial], str]:
    """CIFAR-10, the trials, and where they come from.

    Raises:
        ValueError: a list of trials that does not fit the data. OSError: no data.
    """
    from relearn.data import load, public_benchmark
    from relearn.data.mirror import mirror_of

    data = load("cifar10", folder=mirror_of("cifar10"))
    assert data.test_labels is not None
    if given is None:
        trials = public_benchmark.draw(protocol, data.train_labels, data.test_labels)
        if (own := public_benchmark.digest(trials)) != protocol.trials_sha256:
            raise ValueError(
                f"cifar10: found labels that give trials of sha256 {own[:12]}, allowed: {protocol.trials_sha256[:12]}"
            )
        return data, trials, f"drawn by relearn with seed {protocol.seed}"
    trials = public_benchmark.read_trials(given)
    public_benchmark.check(trials, protocol, data.train_labels, data.test_labels)
    return data, trials, f"read from {given.name}"


def _maker(name: str, data: Images) -> Callable[[], Any]:
    """A function that builds a network with the data's normalisation."""
    from relearn.models import create

    pixels = data.train_images.astype("float32") / 255
    mean, std = (getattr(pixels, how)((0, 2, 3)).tolist() for how in ("mean", "std"))

    def make() -> Any:
        return create(name, mean=mean, std=std)

    return make


def lines(found: Sequence[Score], known: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The scores, and the published table with the same columns."""
    said = ["success in %, 95% interval over trials, control, test accuracy"]
    for one in found:
        low, rate, high = (100 * end for end in (one.success.low, one.success.estimate, one.success.high))
        control = "-" if one.control is None else f"{100 * one.control:.1f}"
        said.append(
            f"  {one.victim:12} {rate:5.1f} [{low:.1f}, {high:.1f}]  control {control}"
            f"  accuracy {100 * one.test_accuracy_frac:.1f}  {one.trials} trials x {one.networks} networks"
        )
    columns = list(dict.fromkeys(column for row in known.values() for column in row))
    said.append("published, in % (the benchmark's own trials and victims): " + ", ".join(columns))
    for attack, row in known.items():
        cells = " ".join(f"{row[column]:6g}" if column in row else "     -" for column in columns)
        said.append(f"  {attack:28} {cells}")
    return said
