"""relearn evaluate-poisons: measure poisons of your own on the recorded victims, beside the recorded attacks.

    relearn evaluate-poisons my_poisons --setup digits-v1 --defences deep_knn l2_outliers

MY_POISONS is a safetensors or npz file with the array ``poisons`` of uint8, (T, k, C, H, W), for the first T targets of the set-up in
its order, or a folder with one subfolder of k PNG files for each target; names are taken in their order. `relearn setups NAME` lists
targets and bases. The threat model is checked first: number and size of the images, and the distance of each to its base.
Then every victim is trained on each poisoned set, without a defence and behind each of the named ones, and with unperturbed
bases as the control. Prints success less that of the control beside the recorded attacks, with 95% intervals over targets.

    relearn evaluate-poisons my_poisons --setup schwarzschild-transfer-v1 --victims white_box=a.safetensors black_box=b.safetensors
    relearn evaluate-poisons my_poisons --setup schwarzschild-scratch-v1 --victims ResNet18 MobileNetV2 --device cuda

The two set-ups of the public benchmark need no recorded runs. Its trials come from CIFAR-10 and a fixed seed, or from a list of the
benchmark's repository (--trials); `relearn setups NAME --trials` prints them. MY_POISONS may also have the repository's form,
TRIAL/poisons.pickle. Victims are files that relearn wrote, with their role, or names of networks that are trained from scratch. The
verb prints the benchmark's score beside its published table, and writes benchmark.csv and benchmark.json to --out.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relearn.cli import evaluate_filter as shared

if TYPE_CHECKING:
    from numpy.typing import NDArray


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("poisons", type=Path)
    add("--defences", nargs="*", default=["deep_knn"], help="default: deep_knn")
    add("--eps", type=float, help="largest change of a pixel in [0, 1]; default: the set-up's")
    shared.add_shared(parser)
    public = parser.add_argument_group("the public benchmark's set-ups")
    public.add_argument("--trials", type=Path, help="poison_setups/*.pickle of its repository; default: ours")
    public.add_argument(
        "--controls", action="store_true", help="from scratch: train controls too, at twice the cost"
    )
    public.add_argument("--seed", type=int, default=0)


def main(args: argparse.Namespace) -> int:
    """Check the poisons, run their jobs, print the comparison.

    Raises:
        ValueError: poisons outside the threat model or of another shape, an unknown defence, victim or set-up, or
            missing files; one line.
    """
    from relearn.data import public_benchmark, setups
    from relearn.methods import DEFENCES, VOTES
    from relearn.studies.poisoning import own_method

    if args.setup in public_benchmark.SETUPS:
        return _public_benchmark(args)
    allowed = [*DEFENCES, *VOTES, "adversarial_training"]
    if unknown := sorted(set(args.defences) - set(allowed)):
        raise ValueError(f"--defences: found {unknown[0]}, allowed: {', '.join(allowed)}")
    values, results = shared.load_results(args)
    if args.eps is None and args.setup is None:
        raise ValueError("found neither --setup nor --eps, allowed: one of them, for the size of the ball")
    eps = args.eps if args.eps is not None else setups.load()[args.setup].eps_255 / 255
    images = read(args.poisons)
    changed = own_method.with_poisons(values, args.defences, eps)
    own = changed["poisoning"]
    own["craft"]["targets"] = min(len(images), own["craft"]["targets"])
    jobs = own_method.jobs(changed, values["scale"], results, args.out, shared.machine(args), args.victims)
    for seed in own["seeds"]:
        place(
            images,
            args.poisons,
            own,
            results,
            args.out / f"runs/poisoning/craft/{own_method.OWN}/seed{seed}",
            eps,
        )
    code = shared.run(jobs)
    if code == 0:
        shared.show(results, args.out, values["scale"], None)
    return code


def read(path: Path) -> NDArray[Any]:
    """The images (T, k, C, H, W).

    Raises:
        ValueError: no file or folder of a known form.
    """
    import numpy as np

    if path.suffix == ".safetensors":
        from safetensors.numpy import load_file

        held: Any = load_file(path)
    elif path.suffix == ".npz":
        held = np.load(path, allow_pickle=False)
    elif path.is_dir():
        held = {"poisons": _pictures(path)}
    else:
        raise ValueError(
            f"{path}: found no poisons, allowed: a .safetensors or .npz file, or a folder of folders of PNG files"
        )
    if "poisons" not in held:
        raise ValueError(f"{path}: found no array poisons, allowed: uint8 (T, k, C, H, W)")
    images: NDArray[Any] = np.asarray(held["poisons"])
    if images.dtype != np.uint8 or images.ndim != 5:
        raise ValueError(f"{path}: found {images.dtype} {images.shape}, allowed: uint8 (T, k, C, H, W)")
    return images


def _pictures(folder: Path) -> NDArray[Any]:
    import numpy as np
    from PIL import Image

    sets = []
    for target in sorted(one for one in folder.iterdir() if one.is_dir()):
        pixels = [np.asarray(Image.open(file)) for file in sorted(target.glob("*.png"))]
        sets.append([one.transpose(2, 0, 1) if one.ndim == 3 else one[None] for one in pixels])
    shapes = {(len(one), *{image.shape for image in one}) for one in sets}
    if len(shapes) != 1:
        raise ValueError(
            f"{folder}: found {len(sets)} folders with {sorted(map(str, shapes))}, allowed: the same number and size of PNG files in each"
        )
    return np.array(sets)


def place(
    images: NDArray[Any], name: Path, own: dict[str, Any], results: Path, folder: Path, eps: float
) -> None:
    """Check the poisons against the threat model and write them as the step `craft` does.

    Raises:
        ValueError: a poison that the threat model forbids; the message names its target.
    """
    import torch
    from safetensors.torch import save_file

    from relearn.data.arrays import load_prepared
    from relearn.measures.attack_success import ThreatModel, rejections

    (file,) = sorted((results / "runs/poisoning/prepare_images").rglob("data.safetensors"))[:1]
    data = load_prepared(file)
    keys = ("target_class", "targets", "poison_class", "poisons")
    trials = data.trials(**{key: own["craft"][key] for key in keys})
    labels = data.fine_tune()[1]
    count = own["craft"]["targets"]
    if len(images) > count:
        raise ValueError(
            f"{name}: found poisons for {len(images)} targets, allowed: at most {count} at this scale"
        )
    threat = ThreatModel(
        knowledge="transfer",
        eps=eps,
        poisons_count=own["craft"]["poisons"],
        class_count=int(labels.bincount().max()),
        fine_tune_count=len(labels),
        setting="transfer",
    )
    try:
        rejected = rejections(torch.from_numpy(images), trials.base_images, threat)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if rejected:
        target, why = next(iter(rejected.items()))
        raise ValueError(f"{name}: target {target}: {why} ({len(rejected)} of {len(images)} targets)")
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        "poisons": torch.from_numpy(images).contiguous(),
        "rejected": torch.zeros(len(images), dtype=torch.uint8),
    }
    save_file(tensors, folder / "poisons.safetensors")


def _public_benchmark(args: argparse.Namespace) -> int:
    """Measure poisons in the public benchmark's protocol, print the scores and the published ones, write both files.

    Raises:
        ValueError: an option that the protocol fixes, unusable victims, trials or poisons; one line.
    """
    import os

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from dataclasses import asdict

    from relearn.data import public_benchmark as benchmark
    from relearn.runs.atomic_files import digest, write
    from relearn.runs.console import Progress
    from relearn.runs.devices import acquire
    from relearn.steps.csv_rows import write_rows
    from relearn.studies.poisoning import public_benchmark as measured

    protocol = benchmark.SETUPS[args.setup]
    if args.eps is not None:
        raise ValueError(
            f"--eps: found {args.eps}, allowed with {protocol.name}: none, it is part of the set-up"
        )
    victims = public_victims(args.victims, protocol)
    data, trials, origin = public_trials(protocol, args.trials)
    pickled = args.poisons.is_dir() and any(args.poisons.glob("*/poisons.pickle"))
    images = benchmark.read_poisons(args.poisons) if pickled else read(args.poisons)
    measured.check_poisons(images, trials, data, protocol)
    rows: list[measured.Row] = []
    args.out.mkdir(parents=True, exist_ok=True)
    with acquire(args.device) as device:
        for role, network in victims:
            with Progress(f"{role} {Path(network).name}") as progress:
                how = {"seed": args.seed, "progress": progress}
                if protocol.from_scratch:
                    how |= {"controls": args.controls, "device": device, "precision": args.precision}
                    make = _maker(network, data)
                    made = measured.from_scratch(make, images, trials, data, protocol, **how)
                else:
                    from relearn.models import files

                    net = files.load(Path(network), device)
                    made = measured.transfer(net, images, trials, data, protocol, **how)
            rows += [{"victim": role, "network": Path(network).name, **row} for row in made]
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
        "seed": args.seed,
        "precision": args.precision,
    }
    write(args.out / "benchmark.json", (json.dumps(body, indent=1) + "\n").encode())
    print(f"{protocol.name}: {len(images)} of {protocol.trials} trials, {origin}")
    print("\n".join(public_lines(found, known)))
    print(f"\nrows and record: {args.out / 'benchmark.csv'}, {args.out / 'benchmark.json'}")
    return 0


def public_victims(named: list[str], protocol: Any) -> list[tuple[str, str]]:
    """Role and file of each victim, or name twice for one that is trained from scratch.

    Raises:
        ValueError: none, an unknown role or network, or no such file.
    """
    allowed = " ".join(one if protocol.from_scratch else f"{one}=FILE" for one in protocol.victims)
    if not named:
        raise ValueError(f"--victims: found none, allowed with {protocol.name}: {allowed}")
    found = []
    for word in named:
        role, equals, file = word.partition("=")
        if role not in protocol.victims or bool(equals) == protocol.from_scratch:
            raise ValueError(f"--victims: found {word}, allowed with {protocol.name}: {allowed}")
        if equals and not Path(file).is_file():
            raise ValueError(f"--victims: found {word}, no such file")
        found.append((role, file if equals else role))
    return found


def public_trials(protocol: Any, given: Path | None) -> tuple[Any, list[Any], str]:
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


def _maker(name: str, data: Any) -> Any:
    """A function that builds a network with the data's normalisation."""
    from relearn.models import create

    pixels = data.train_images.astype("float32") / 255
    mean, std = (getattr(pixels, how)((0, 2, 3)).tolist() for how in ("mean", "std"))

    def make() -> Any:
        return create(name, mean=mean, std=std)

    return make


def public_lines(found: Any, known: Any) -> list[str]:
    """The scores, and the published table with the same columns."""
    lines = ["success in %, 95% interval over trials, control, test accuracy"]
    for one in found:
        low, rate, high = (100 * end for end in (one.success.low, one.success.estimate, one.success.high))
        control = "-" if one.control is None else f"{100 * one.control:.1f}"
        lines.append(
            f"  {one.victim:12} {rate:5.1f} [{low:.1f}, {high:.1f}]  control {control}"
            f"  accuracy {100 * one.test_accuracy_frac:.1f}  {one.trials} trials x {one.networks} networks"
        )
    columns = list(dict.fromkeys(column for row in known.values() for column in row))
    lines.append("published, in % (the benchmark's own trials and victims): " + ", ".join(columns))
    for attack, row in known.items():
        cells = " ".join(f"{row[column]:6g}" if column in row else "     -" for column in columns)
        lines.append(f"  {attack:28} {cells}")
    return lines
