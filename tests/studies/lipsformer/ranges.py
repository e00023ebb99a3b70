"""Ranges of ``lipsformer`` and ``lrformer`` in params.yaml and the rule between their keys, by hand; ``test_schema`` tries them."""

from __future__ import annotations

from typing import Any

Q, Y = "lipsformer", "lrformer"
COUNT = ([1, 7], [0, -1, 2.0, "3", 2**64])
COUNTS = ([[1], [1, 7]], [[], [0], [3, 2], [2, 2], 2])
DIMS = ([[2], [4, 8]], [[], [1], [4, 2], 4])
POSITIVE = ([1.0e-9, 2, 1.0e6], [0, -0.1, 1.1e6, float("inf"), float("nan"), "1"])
POSITIVES = ([[12.0, 1.0], [1]], [[], [0], [1.0, 1.0], 1.0])
RANGES: dict[str, tuple[list[Any], list[Any]]] = {
    f"{Q}.seeds": ([[0], [1, 0]], [[], [-1], [0, 0], 0]),
    f"{Q}.count.networks": (
        [["Swin-T"], ["LipsFormer-Swin-L++", "CSwin-B"]],
        [[], ["ViT-S"], ["Swin-T", "Swin-T"], "Swin-T"],
    ),
    f"{Q}.count.rivals": ([[], ["EffNet-B4"]], [["NAT-T"], ["DeiT-S", "DeiT-S"], "DeiT-S"]),
    f"{Q}.examine.theorem_1.networks": ([[], ["LipsFormer-Swin-B"]], [["LipsFormer-CSwin-T"], "Swin-T"]),
    f"{Q}.examine.theorem_2.iterations": COUNT,
    f"{Q}.examine.spectral_start.networks": ([[], ["LipsFormer-CSwin-T"]], [["Swin-T"], "LipsFormer-Swin-T"]),
    f"{Q}.examine.theorem_1.lengths": COUNTS,
    f"{Q}.examine.theorem_1.dims": DIMS,
    f"{Q}.examine.theorem_1.taus": POSITIVES,
    f"{Q}.examine.theorem_1.spreads": POSITIVES,
    f"{Q}.examine.theorem_1.steps": COUNT,
    f"{Q}.examine.theorem_2.blocks": COUNTS,
    f"{Q}.examine.theorem_2.tau": POSITIVE,
    f"{Q}.examine.theorem_2.eps": POSITIVES,
    f"{Q}.examine.spectral_start.channels": COUNTS,
    f"{Q}.examine.activations.pairs": COUNT,
    f"{Q}.examine.activations.reach": POSITIVE,
    f"{Q}.examine.activations.points": ([50, 161], [11, 49, 50.0, 10_001]),
    f"{Q}.examine.spectral_start.size": ([8, 14], [7, 8.0]),
    f"{Y}.examine.layer_norm.dims": DIMS,
    f"{Y}.examine.layer_norm.eps": POSITIVE,
    f"{Y}.examine.lrsa.scales": POSITIVES,
    f"{Y}.examine.lrsa.draws": COUNT,
}
RULES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (
        {f"{Q}.examine.{name}.dims": [4, 6]},
        {f"{Q}.examine.{name}.dims": [4, 5]},
        f"{Q}.examine.{name}.dims[1]",
    )
    for name in ("theorem_1", "theorem_2")
]
