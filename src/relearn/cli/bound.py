"""relearn bound: an upper bound on the Lipschitz constant of a network of timm's registry, by layer.

    relearn bound resnet18 --weights mine.pth --image-size 64
    relearn bound lipsformer_swin_tiny
    relearn bound T1 --starts 8 --steps 150

It multiplies the constants of the layers (docs/lipschitz.md says which formulas) and prints the largest factors. The first number is
for standardised images, (pixels - mean) / std; the second, 1 / min(std) times as large, for pixels in [0, 1], with the std that timm's
registry gives for the name. A network with layers that have no Lipschitz constant, such as dot-product attention, or no rule here, has
no bound: then the command lists all of these layers and ends with exit code 1. Without weights the bound is that of a random
initialisation.

K11, T1 and T2 are bounds of attention layers that docs/bounds-with-proofs.md proves. For them the command searches for a violation: ascent
over tokens and weights from random starts. It prints the largest ratio of norm to bound for each number of tokens; a ratio above 1
would be a violation and ends with exit code 1.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

SHOWN = 12
THEOREMS = {
    "K11": "L2 attention, two-norm, no mask",
    "K11-causal": "L2 attention, two-norm, causal mask",
    "T1": "cosine attention, two-norm",
    "T2": "cosine attention, inf-norm",
}
LENGTHS = (1, 2, 4, 8)
NETWORK = {
    "weights": None,
    "classes": 1000,
    "image_size": None,
    "norm": "two",
    "form": "tight",
    "json": False,
}
"""The options that apply to a network, with their defaults."""
SEARCH = {"starts": 6, "steps": 100, "width": 2, "heads": 1}
"""Those of a search for a violation."""
LEAST = {"classes": 1, "image_size": 1, "starts": 1, "steps": 0, "width": 1, "heads": 1}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "model",
        help="a name of timm's registry, which has this project's networks, too; or K11, K11-causal, T1, T2",
    )
    add("--weights", type=Path, help="a checkpoint of the network: .safetensors, .pth, .pt, .bin, .tar")
    add("--classes", type=int, help="default: 1000")
    add("--image-size", type=int, help="default: the network's own, else 224")
    add("--norm", choices=("two", "inf"), help="of images and logits; default: two")
    add("--form", choices=("printed", "corrected", "tight"), help="default: tight")
    add("--json", action="store_true", default=None, help="print all factors as JSON")
    search = parser.add_argument_group("search for a violation of K11, T1 or T2")
    search.add_argument("--starts", type=int, help="random starts for each number of tokens; default: 6")
    search.add_argument("--steps", type=int, help="steps of Adam from each start; default: 100")
    search.add_argument("--width", type=int, help="dimension of a token; default: 2")
    search.add_argument("--heads", type=int, help="default: 1")


def main(args: argparse.Namespace) -> int:
    """Print the bound, or the layers that have none; or what a search for a violation found.

    Raises:
        ValueError: an unknown network, an option that does not apply or has no sense, weights that do not fit, or an input that the
            network does not take.
        FileNotFoundError: no such file of weights.
    """
    _settle(args)
    if args.model in THEOREMS:
        return _search(args)
    from importlib import import_module

    import torch

    from relearn.models import timm_names

    timm_names.register()
    timm = import_module("timm")
    from relearn.models import checkpoints, lipschitz_timm_rules
    from relearn.models.lipschitz_bound import lipschitz_bound

    if any(sign in args.model for sign in "/\\:") or not timm.is_model(args.model):
        from relearn.params.messages import guess

        meant = guess(args.model, [*THEOREMS, *timm.list_models()])
        raise ValueError(
            f"found {args.model}, allowed: a name of timm's registry, {', '.join(THEOREMS)}"
            + (f"; nearest: {meant}" if meant else "")
        )
    if args.weights and not args.weights.is_file():
        raise FileNotFoundError(f"--weights {args.weights}: no such file")
    try:
        torch.manual_seed(0)
        fixed = args.image_size and getattr(timm.get_pretrained_cfg(args.model), "fixed_input_size", False)
        more = {"img_size": args.image_size} if fixed else {}
        network = timm.create_model(args.model, num_classes=args.classes, **more).eval()
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"found {args.model}: {next(iter(str(error).splitlines()), '')}") from None
    configured = getattr(network, "default_cfg", None) or {}
    std = configured.get("std") or (1.0,)
    size = args.image_size or configured.get("input_size", (3, 224, 224))[-1]
    if args.weights:
        whole = checkpoints.load(args.model, args.weights, classes=args.classes, size=size)
        network, std = whole.trunk, whole.std.flatten().tolist()
    if lacking := lipschitz_timm_rules.uncovered(network):
        leaves = sum(not any(module.children()) for module in network.modules())
        print(f"{args.model}: no bound; {len(lacking)} parts are not covered (of {leaves} layers)")
        for (kind, why), count in Counter((one.kind, one.why) for one in lacking).most_common():
            first = next(one.name for one in lacking if (one.kind, one.why) == (kind, why))
            print(f"  {count:4} {kind:28} {why}; the first: {first}")
        return 1
    found = lipschitz_bound(network, (3, size, size), p=args.norm, form=args.form)
    if args.json:
        parts = [{"name": one.name, "kind": one.kind, "log": one.log} for one in found.parts]
        body = {"model": args.model, "norm": found.p, "form": found.form, "log": found.log}
        print(json.dumps(body | {"input": "standardised", "pixels_factor": 1 / min(std), "parts": parts}))
        return 0
    print(
        f"{args.model}: at most {found.value:.4g} (e^{found.log:.2f}), {found.p}-norm, standardised images of {size} x {size}"
    )
    print(
        f"pixels in [0, 1], standardised with a smallest std of {min(std):.3g}: at most {found.value / min(std):.4g}"
    )
    print("largest factors:")
    for one in sorted(found.parts, key=lambda part: -part.log)[:SHOWN]:
        print(f"  e^{one.log:6.2f}  {one.kind:24} {one.name}")
    return 0


def _settle(args: argparse.Namespace) -> None:
    """Set the defaults; refuse options of the other use, and numbers that are too small."""
    proof = args.model in THEOREMS
    mine, others = (SEARCH, NETWORK) if proof else (NETWORK, SEARCH)
    given = {name for name in (*mine, *others) if getattr(args, name) is not None}
    for name in others:
        if name in given:
            whose = "a network" if proof else ", ".join(THEOREMS)
            raise ValueError(f"{_option(name)}: found with {args.model}, allowed only with {whose}")
    for name, least in LEAST.items():
        if name in given and getattr(args, name) < least:
            raise ValueError(f"{_option(name)}: found {getattr(args, name)}, allowed: {least} or more")
    vars(args).update({name: value for name, value in mine.items() if name not in given})


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _search(args: argparse.Namespace) -> int:
    """Print the largest ratio of a Jacobian's norm to a proved bound, for each number of tokens."""
    from functools import partial

    from relearn.layers.cosine_attention import CosineAttention
    from relearn.layers.l2_attention import L2Attention
    from relearn.measures.lipschitz.worst_ratio import worst_ratio

    name, worst = args.model, 0.0
    p = "inf" if name == "T2" else "two"
    causal = name == "K11-causal"

    def made() -> Any:
        if not name.startswith("K11"):
            return CosineAttention(args.width, args.heads, tau=3.0, eps=0.1, fused=False)
        layer = L2Attention(args.width, args.heads, fused=False)
        layer.forward = partial(layer.forward, causal=causal)  # type: ignore[method-assign]
        return layer

    form = "tightest" if name == "K11" else "tight"
    more = {"masked": causal} if name.startswith("K11") else {}
    made()  # refuses a number of heads that does not divide the width, before anything is printed
    print(f"{name}: {THEOREMS[name]}, token dimension {args.width}, heads: {args.heads}")
    print("tokens  largest norm / bound  at the starts")
    for length in LENGTHS:
        layer = made()
        bound = partial(type(layer).lipschitz_bound, length=length, p=p, form=form, **more)
        found = worst_ratio(layer, bound, (length, args.width), p=p, starts=args.starts, steps=args.steps)
        print(f"{length:6}  {found.ratio:20.4f}  {found.first:13.4f}", flush=True)
        worst = max(worst, found.ratio)
    return int(worst > 1 + 1e-9)
