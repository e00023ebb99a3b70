"""relearn evaluate-poisons: measure poisons of your own on the recorded victims, beside the recorded attacks.

    relearn evaluate-poisons my_poisons --setup digits-mini-v1 --defences deep_knn l2_outliers

MY_POISONS is a safetensors or npz file with the array ``poisons`` of uint8, (T, k, C, H, W), for the first T targets of the set-up in
its order, or a folder with one subfolder of k PNG files for each target; shorter names come first, so 2 before 10.
`relearn setups NAME` lists targets and bases.
The threat model is checked first: number and size of the images, and the distance of each to its base.
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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relearn.cli import evaluate_filter as shared
from relearn.cli import output_folder, public_poisons, seed_number
from relearn.cli.poison_files import read

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from relearn.data.setups import Setup


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("poisons", type=Path)
    add("--defences", nargs="*", help="default: deep_knn")
    add(
        "--eps",
        type=float,
        help="largest change of a pixel in [0, 1]; with --setup, at most the set-up's, its default",
    )
    add("--knowledge", help="what your attack knew of the victims, for their records; default: transfer")
    shared.add_shared(parser)
    public = parser.add_argument_group("the public benchmark's set-ups")
    public.add_argument("--trials", type=Path, help="poison_setups/*.pickle of its repository; default: ours")
    public.add_argument(
        "--controls", action="store_true", help="from scratch: train controls too, at twice the cost"
    )
    public.add_argument("--seed", type=seed_number, help="default: 0")


def main(args: argparse.Namespace) -> int:
    """Check the poisons, run their jobs, print the comparison.

    Raises:
        ValueError: poisons outside the threat model or of another shape, an unknown defence, victim or set-up, or
            missing files; one line.
    """
    from relearn.data import public_benchmark, setups
    from relearn.measures.attack_success import KNOWLEDGE
    from relearn.methods import DEFENCES, VOTES
    from relearn.studies.poisoning import own_method

    output_folder.check("--out", args.out)
    if args.setup in public_benchmark.SETUPS:
        return public_poisons.measure(args)
    for name in ("trials", "controls", "seed"):
        value = getattr(args, name)
        if value is not None and value is not False:  # a seed may be 0
            public = " or ".join(public_benchmark.SETUPS)
            raise ValueError(f"--{name}: found {value}, allowed only with --setup {public}")
    defences = ["deep_knn"] if args.defences is None else args.defences
    allowed = [*DEFENCES, *VOTES, "adversarial_training"]
    if unknown := sorted(set(defences) - set(allowed)):
        raise ValueError(f"--defences: found {unknown[0]}, allowed: {', '.join(allowed)}")
    knowledge = args.knowledge or own_method.UNKNOWN
    if knowledge not in KNOWLEDGE:
        raise ValueError(f"--knowledge: found {knowledge}, allowed: {', '.join(KNOWLEDGE)}")
    values, results = shared.load_results(args)
    if args.eps is None and args.setup is None:
        raise ValueError("found neither --setup nor --eps, allowed: one of them, for the size of the ball")
    eps = args.eps if args.setup is None else eps_of(setups.load()[args.setup], args.eps)
    images = read(args.poisons)
    changed = own_method.with_poisons(values, defences, eps)
    own = changed["poisoning"]
    own["craft"]["targets"] = min(len(images), own["craft"]["targets"])
    machine = shared.machine(args)
    jobs = own_method.jobs(changed, values["scale"], results, args.out, machine, args.victims, knowledge)
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
        shared.show(results, args.out, values["scale"], jobs, None)
        balls = {
            name: own["craft"]["attacks"][name]["eps"] for name in values["poisoning"]["studies"]["transfer"]
        }
        if smaller := [f"{name} has {ball:g}" for name, ball in balls.items() if ball < eps]:
            print(f"not comparable: own has eps {eps:g}, {', '.join(smaller)}")
    return code


def eps_of(setup: Setup, given: float | None) -> float:
    """The set-up's, or a smaller one: the recorded attacks are compared in the set-up's ball.

    Raises:
        ValueError: a larger one.
    """
    own = setup.eps_255 / 255
    if given is None:
        return own
    if not 0 <= given <= own:
        raise ValueError(f"--eps: found {given:g}, allowed with {setup.name}: 0 to {own:.4g}, the set-up's")
    return given


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
