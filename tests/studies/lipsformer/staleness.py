"""What a parameter of ``lipsformer`` and ``lrformer`` touches; see ``test_staleness``."""

from collections.abc import Callable
from typing import Any

Q, Y = "lipsformer", "lrformer"
COUNT, EXAMINE, OF_LRFORMER = f"{Q}/count_params_flops", f"{Q}/check_theorems", f"{Y}/check_theorems"
SEEDED = [f"{Q}/{step}" for step in ("train_vision", "train_constrained", "evaluate_imagenet")]
STEPS = {COUNT, EXAMINE, OF_LRFORMER}
TOUCHES: list[tuple[str, set[str], list[str]]] = [
    (
        f"{Q}.seeds",
        {EXAMINE, *SEEDED, "render"},
        [f"{EXAMINE}/*/seed1", *(f"{step}/*/seed1" for step in SEEDED), "render"],
    ),
    (f"{Q}.count.networks", {COUNT, "render"}, [f"{COUNT}/Swin-S/*", "render"]),
    (f"{Q}.count.rivals", {COUNT}, [f"{COUNT}/rivals/*", "render"]),
    *(
        (f"{Q}.examine.{name}.*", {EXAMINE}, [f"{EXAMINE}/{name}/*", "render"])
        for name in ("theorem_1", "theorem_2", "spectral_start", "activations")
    ),
    (
        f"{Y}.seeds",
        {OF_LRFORMER, f"{Y}/train_vision", f"{Y}/evaluate_uncertainty", "render"},
        [
            *(f"{step}/*/seed1" for step in (OF_LRFORMER, f"{Y}/train_vision", f"{Y}/evaluate_uncertainty")),
            "render",
        ],
    ),
    *(
        (f"{Y}.examine.{name}.*", {OF_LRFORMER}, [f"{OF_LRFORMER}/{name}/*", "render"])
        for name in ("layer_norm", "lrsa")
    ),
]
FLIPS: dict[str, Callable[[Any], Any]] = {
    f"{Q}.seeds": lambda seeds: [*seeds, 1],
    f"{Y}.seeds": lambda seeds: [*seeds, 1],
    f"{Q}.count.networks": lambda names: [*names, "Swin-S"],
    f"{Q}.count.rivals": lambda names: names[:-1],
    f"{Q}.examine.*.heads": lambda n: n // 2,
    f"{Q}.examine.*.dims": lambda values: [*values, 2 * values[-1]],
    f"{Q}.examine.*.tau": lambda tau: tau / 2,
    f"{Q}.examine.activations.*": lambda n: n + 1,
    f"{Q}.examine.*.steps": lambda n: n + 1,
    f"{Q}.examine.*.size": lambda n: n + 1,
    f"{Q}.examine.*.iterations": lambda n: n + 1,
    f"{Q}.examine.*.networks": lambda names: [*names, "LipsFormer-Swin-S"],
    f"{Q}.examine.*": lambda values: [*values, 2 * values[-1]],
    f"{Y}.examine.*.eps": lambda eps: eps / 2,
    f"{Y}.examine.*.draws": lambda n: n + 1,
    f"{Y}.examine.*": lambda values: [*values, 2 * values[-1]],
}
QUICK = {f"{Q}.count.networks", f"{Q}.examine.theorem_2.tau", f"{Y}.examine.lrsa.draws"}
CONSTRAINED = f"{Q}/train_constrained"
# measures of Jacobians take bounds of L2 attention along, so an edit of one reaches these too
BY_A_BOUND = (
    {EXAMINE, OF_LRFORMER, CONSTRAINED},
    [f"{step}/*" for step in (EXAMINE, OF_LRFORMER, CONSTRAINED)],
)
