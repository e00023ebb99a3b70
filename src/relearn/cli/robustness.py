"""relearn robustness: measure how robust your classifier is: a timm network, or a file that relearn wrote.

    relearn robustness --model resnet50 --weights mine.pth --set val=imagenet/val --set a=imagenet-a --pgd-eps 1/255 --out mine

``--set NAME=PLACE`` can be repeated; names: val, real, v2, c, a, r, nine (folders, see
`relearn.studies.robustness.steps.folder_sets`), cifar_c (the released arrays of CIFAR-10-C or CIFAR-100-C), test (a file of a step
``prepare_images``). Of c and cifar_c all corruptions are measured, or those that ``--corruptions`` names. Without these two sets,
``--corruptions`` generates corrupted images from test or val. The command prints a table and writes
robustness.json (all results, each number with its full protocol), sets.csv, attacks.csv and bad_images.csv.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from relearn.cli import checkout, json_object, output_folder, seed_number
from relearn.cli.robustness_table import table
from relearn.steps.csv_rows import write_rows
from relearn.studies.robustness.steps import array_sets, folder_sets
from relearn.studies.robustness.steps import attacks as attack_rows
from relearn.studies.robustness.steps import image_sets as set_rows
from relearn.studies.robustness.steps.folder_pixels import Decoding, Policy
from relearn.studies.robustness.steps.measured import Measured, Measurements, measure

if TYPE_CHECKING:
    from relearn.models.vision_classifier import VisionClassifier

TEST = "test"
SETS = (*folder_sets.NAMES, array_sets.NAME, TEST)
FILE = "robustness.json"
BAD = ("set", "file", "fault")
LEAST = {"images": 0} | dict.fromkeys(
    (
        *("threads", "classes", "size", "batch_size"),
        *("pgd_steps", "pgd_restarts", "pgd_images", "autoattack_images"),
    ),
    1,
)
"""The least value of each option that takes a whole number."""
CROP_RATIO, INTERPOLATION = 0.875, "bicubic"  # defaults if neither an option nor timm sets them


def add_arguments(parser: argparse.ArgumentParser) -> None:
    model = parser.add_argument_group("the network")
    model.add_argument(
        "--model", required=True, help="a name of timm's or relearn's, or a file that relearn wrote"
    )
    model.add_argument(
        "--weights", type=Path, help="a checkpoint of the named network: .safetensors, .pth, .pt, .bin, .tar"
    )
    model.add_argument("--pretrained", action="store_true", help="timm's own weights of the name, downloaded")
    model.add_argument("--classes", type=int, default=1000, help="outputs of the named network")
    model.add_argument(
        "--arguments", type=json_object, default={}, help="more arguments of the named network, as JSON"
    )
    model.add_argument(
        "--average", action="store_true", help="use the moving average in the checkpoint, if it has one"
    )
    images = parser.add_argument_group("images")
    images.add_argument(
        "--set",
        dest="sets",
        type=_set,
        action="append",
        default=[],
        metavar="NAME=PLACE",
        help=", ".join(SETS),
    )
    images.add_argument("--images", type=int, default=0, help="images of each set, evenly spaced (0: all)")
    images.add_argument("--size", type=int, help="side of the crop (default: the network's)")
    images.add_argument(
        "--crop-ratio", type=float, help="crop over resized shorter side (default: timm's, or 0.875)"
    )
    images.add_argument(
        "--cropped-ratio", type=float, default=1.0, help="the same for c and nine, published as crops"
    )
    images.add_argument("--crop-mode", help="center, squash (default: timm's, or center)")
    images.add_argument("--interpolation", help="bilinear, bicubic, lanczos (default: timm's, or bicubic)")
    images.add_argument("--batch-size", type=int, default=128)
    images.add_argument("--real-labels", type=Path, help="labels in ReaL's form (default: the official ones)")
    for name in ("--on-bad-image", "--on-missing-class"):
        images.add_argument(name, choices=get_args(Policy), default="fail")
    made = parser.add_argument_group("corruptions and attacks")
    made.add_argument(
        "--corruptions",
        default="",
        help="all, or names with commas: made by relearn's generator, or read from c and cifar_c (default there: all)",
    )
    made.add_argument("--severities", type=_numbers, default=[1, 2, 3, 4, 5], help="with commas")
    made.add_argument("--reference", type=Path, help="sets.csv of another network: mCE is relative to it")
    made.add_argument(
        "--pgd-eps", type=_radius, nargs="+", default=[], help="such as 1/255 or 0.01, of pixels in [0, 1]"
    )
    made.add_argument("--pgd-steps", type=int, default=20)
    made.add_argument("--pgd-restarts", type=int, default=1)
    made.add_argument("--pgd-images", type=int, default=1000)
    made.add_argument(
        "--pgd-unchecked",
        action="store_true",
        help="skip the check for masked gradients (saves about 3 attacks)",
    )
    made.add_argument("--autoattack-eps", type=_radius, nargs="+", default=[])
    made.add_argument("--autoattack-images", type=int, default=1000)
    parser.add_argument("--out", required=True, type=Path, help="folder of the results")
    parser.add_argument("--device", default="auto", help="auto | cpu | cuda | cuda:N")
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=seed_number, default=0)


def main(args: argparse.Namespace) -> int:
    """Measure, print and write; see the module.

    Raises:
        ValueError: an option, a set or a network that cannot be used; nothing is written.
        FileNotFoundError: no such file or folder.
    """
    check(args)
    if Path(args.model).suffix:
        args.model = checkout.as_typed(args, args.model)
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    import torch

    from relearn.data.arrays import load_prepared
    from relearn.runs.console import Progress
    from relearn.runs.devices import acquire

    torch.set_num_threads(args.threads)
    sets = dict(args.sets)
    place = sets.pop(TEST, None)
    with acquire(args.device) as device, Progress("robustness") as progress:
        data = load_prepared(place) if place else None
        net, protocol = network(args)
        found = measure(
            net.to(device),
            settings_of(args, protocol),
            sets,
            test=None if data is None else data.test(),
            named="" if data is None else data.dataset,
            reference=args.reference,
            real_labels=args.real_labels,
            seed=args.seed,
            precision=args.precision,
            progress=progress,
        )
    args.out.mkdir(parents=True, exist_ok=True)
    _write(args, net, protocol, found, device)
    print(table(found), end="")
    return 0


def check(args: argparse.Namespace) -> None:
    """Check what can be checked before anything is loaded; the message names the option."""
    for name, least in LEAST.items():
        value = getattr(args, name)
        if value is not None and value < least:
            raise ValueError(f"--{name.replace('_', '-')}: found {value}, allowed: at least {least}")
    for name in ("crop_ratio", "cropped_ratio"):
        value = getattr(args, name)
        if value is not None and not 0 < value <= 1:
            raise ValueError(f"--{name.replace('_', '-')}: found {value:g}, allowed: above 0, at most 1")
    for level in args.severities:
        if not 1 <= level <= 5:
            raise ValueError(f"--severities: found {level}, allowed: 1 to 5")
    if not args.sets:
        raise ValueError(
            f"--set: found none, allowed: NAME=PLACE, at least once, with a name of {', '.join(SETS)}"
        )
    if len(dict(args.sets)) < len(args.sets):
        raise ValueError("--set: a name twice; allowed: each once")
    for name, there in args.sets:
        if not there.exists():
            raise FileNotFoundError(f"--set {name}: no folder or file {there}")
        if there.is_dir() == (name == TEST):
            found, allowed = ("a folder", "a file") if name == TEST else ("a file", "a folder")
            raise ValueError(f"--set {name}: found {found} {there}, allowed: {allowed}")
    for option, file in (("--reference", args.reference), ("--real-labels", args.real_labels)):
        if file is not None and not file.is_file():
            raise FileNotFoundError(f"{option} {file}: no such file")
    if args.reference is not None:
        _same_severities(args.reference, args.severities)
    if args.pgd_eps and args.pgd_steps < 2 and not args.pgd_unchecked:
        allowed = "at least 2, or --pgd-unchecked: the checks add larger steps"
        raise ValueError(f"--pgd-steps: found {args.pgd_steps}, allowed: {allowed}")
    output_folder.check("--out", args.out)


def _same_severities(reference: Path, wanted: Sequence[int]) -> None:
    """The summed errors of mCE are only comparable over the same severities."""
    import csv

    levels = set()
    with reference.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        for row in rows:
            if not row.get("severity"):
                continue
            try:
                levels.add(int(row[key := "severity"]))
                float(row.get(key := "accuracy_frac") or "")
            except ValueError:
                where = f"--reference {reference}, line {rows.line_num}: {key}"
                raise ValueError(f"{where}: found {row.get(key)!r}, allowed: a number") from None
    found = sorted(levels)
    if found and found != sorted(set(wanted)):
        numbers, allowed = (",".join(map(str, each)) for each in (found, sorted(set(wanted))))
        raise ValueError(
            f"--reference {reference}: found severities {numbers}, allowed: those of --severities, {allowed}"
        )


def network(args: argparse.Namespace) -> tuple[VisionClassifier, Decoding]:
    """The network in eval mode, and the protocol of its images.

    Raises:
        ValueError: an unknown name or an unusable file, no weights or two sources of weights, or weights that do not fit.
        FileNotFoundError: no such file.
    """
    from relearn.models import checkpoints, vision

    if Path(args.model).suffix in checkpoints.SUFFIXES:
        if args.weights or args.pretrained:
            raise ValueError(f"--model {args.model}: a file, and weights too; allowed: one of them")
        if Path(args.model).suffix != ".safetensors":
            raise ValueError(
                f"--model {args.model}: does not say what it holds; allowed: --model NAME --weights FILE"
            )
        if not Path(args.model).is_file():
            raise FileNotFoundError(f"--model {args.model}: no such file")
        net = vision.FILE.load(Path(args.model))
        return net, protocol_of(args, {"size": net.description["size"]})
    pretrained = of_timm(args.model)
    protocol = protocol_of(args, pretrained)
    made = {"classes": args.classes, "size": protocol.size, **args.arguments}
    if args.pretrained and not args.weights:
        mean, std = checkpoints.normalisation(args.model)
        try:
            net = vision.create(args.model, **made, mean=mean, std=std, pretrained=True)
        except Exception as error:  # hub errors have no common base class
            raise ValueError(
                f"--model {args.model}: no pretrained weights: {' '.join(str(error).split())[:300]}"
            ) from None
        return net.eval(), protocol
    if not pretrained:
        vision.create(args.model, **made)  # raises for an unknown name and suggests the nearest
    if args.weights is None or args.pretrained:
        raise ValueError(f"--model {args.model}: needs weights; allowed: --weights FILE, or --pretrained")
    if not args.weights.is_file():
        raise FileNotFoundError(f"--weights {args.weights}: no such file")
    return checkpoints.load(args.model, args.weights, average=args.average, **made), protocol


def of_timm(name: str) -> dict[str, Any]:
    """size, crop_ratio, crop_mode and interpolation of timm's own evaluation of a network; {} for a name that timm lacks.

    If timm states a separate size or crop ratio for testing, that one is taken, as in timm's validation script.
    """
    from importlib import import_module

    from relearn.models import timm_names

    timm_names.register()
    known = import_module("timm")
    if not known.is_model(name):
        return {}
    pretrained = known.get_pretrained_cfg(name)
    return {
        "size": (pretrained.test_input_size or pretrained.input_size)[-1],
        "crop_ratio": pretrained.test_crop_pct or pretrained.crop_pct,
        "crop_mode": pretrained.crop_mode,
        "interpolation": pretrained.interpolation,
    }


def protocol_of(args: argparse.Namespace, pretrained: dict[str, Any]) -> Decoding:
    """How images are read: each value from the options, else from the network's configuration, else 0.875, center, bicubic."""
    from relearn.data.central_crops import CROP_MODES, INTERPOLATIONS

    chosen: dict[str, Any] = {
        "size": 224,
        "crop_ratio": CROP_RATIO,
        "crop_mode": CROP_MODES[0],
        "interpolation": INTERPOLATION,
    }
    arguments = {name: getattr(args, name) for name in chosen}
    for source in (pretrained, arguments):
        chosen |= {name: value for name, value in source.items() if value}
    if chosen["interpolation"] not in INTERPOLATIONS:
        raise ValueError(f"--interpolation {chosen['interpolation']!r}; allowed: {', '.join(INTERPOLATIONS)}")
    if chosen["crop_mode"] not in CROP_MODES:
        raise ValueError(f"--crop-mode {chosen['crop_mode']!r}; allowed: {', '.join(CROP_MODES)}")
    return Decoding(
        **chosen,
        cropped_ratio=args.cropped_ratio,
        batch_size=args.batch_size,
        on_bad_image=args.on_bad_image,
        on_missing_class=args.on_missing_class,
    )


def settings_of(args: argparse.Namespace, protocol: Decoding) -> Measurements:
    """What the options ask for."""
    names = (
        args.corruptions if args.corruptions == "all" else [one for one in args.corruptions.split(",") if one]
    )
    pgd = attack_rows.Pgd(
        eps=args.pgd_eps,
        steps=args.pgd_steps,
        restarts=args.pgd_restarts,
        images=args.pgd_images,
        checks=not args.pgd_unchecked,
    )
    autoattack = attack_rows.AutoAttack(eps=args.autoattack_eps, images=args.autoattack_images)
    return Measurements(
        protocol=protocol,
        images=args.images,
        corruptions=names,
        severities=args.severities,
        pgd=pgd if args.pgd_eps else None,
        autoattack=autoattack if args.autoattack_eps else None,
    )


def _write(args, net: VisionClassifier, protocol: Decoding, found: Measured, device: str) -> None:
    import torch

    from relearn import __version__
    from relearn.runs.atomic_files import digest, write

    file = Path(args.model) if Path(args.model).is_file() else args.weights
    body = {
        "model": {
            "name": net.description["name"],
            "file": None if file is None else file.name,
            "sha256": None if file is None else digest(file),
            "parameters_count": sum(one.numel() for one in net.parameters()),
            "mean": net.mean.flatten().tolist(),
            "std": net.std.flatten().tolist(),
        },
        "protocol": asdict(protocol),
        "seed": args.seed,
        "device": device,
        "precision": args.precision,
        "versions": {"relearn": __version__, "torch": torch.__version__, "python": platform.python_version()},
        "sets": [row.as_dict() for row in found.rows],
        "attacks": [row.as_dict() for row in found.attacks],
        "bad_images": [vars(one) for one in found.bad],
        "metrics": found.metrics,
        "notes": found.notes,
    }
    write_rows(args.out / "sets.csv", set_rows.SETS, (row.cells() for row in found.rows))
    write_rows(args.out / "attacks.csv", attack_rows.ATTACKS, (row.cells() for row in found.attacks))
    write_rows(args.out / "bad_images.csv", BAD, ((one.set, one.file, one.fault) for one in found.bad))
    write(args.out / FILE, (json.dumps(body, indent=1) + "\n").encode())


def _set(text: str) -> tuple[str, Path]:
    name, equals, place = text.partition("=")
    if not equals or not place or name not in SETS:
        raise argparse.ArgumentTypeError(
            f"found {text!r}, allowed is name=place with a name of {', '.join(SETS)}"
        )
    return name, Path(place)


def _radius(text: str) -> float:
    try:
        return float(Fraction(text))
    except (ValueError, ZeroDivisionError):
        raise argparse.ArgumentTypeError(
            f"found {text!r}, allowed is a number such as 8/255 or 0.03"
        ) from None


def _numbers(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"found {text!r}, allowed are whole numbers with commas") from None
