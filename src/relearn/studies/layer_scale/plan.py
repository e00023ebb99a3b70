"""The runs of the study: residual schemes at several depths, drop-path rates, and the layer at which the class token enters.

With `tuning.rates` each of these networks has its own learning rate: the best one of a shorter training, judged on
held-out training images. As a control, `grid.given_rates` trains a scheme at a rate that is given instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from relearn.models.layer_scale_start import layer_scale_start
from relearn.studies import vision
from relearn.studies.family import Family

NETWORK = "residual_deit_small"
SUITES = "residual|drop_path|class_token"
DECIMAL = "[0-9.e+-]+"
LONGER = 4
"""How many times the epochs the variants `*_longer` of the class token train, in the search for their rate, too."""
LARGER = "_1e-1"
"""Behind the name of a variant whose class-attention layers have LayerScale from 0.1, CaiT's value for up to 18 blocks."""
SMALLEST = 1.0e-6
"""The smallest of LayerScale's initial values; `rezero_epsilon` starts there instead of at 0."""


def plan(params: Mapping[str, Any], scale: str) -> dict[str, Family]:
    """The families of runs, by step."""
    own = params["layer_scale"]
    modules = vision.modules_behind(params, "layer_scale", NETWORK)
    trainings = partial(vision.trainings, params, scale, "layer_scale", modules=modules)
    grid = own["grid"]
    drop_paths, class_tokens = grid["drop_paths"], grid["class_tokens"]

    def settings(suite: str, variant: str, depth: str) -> dict[str, Any]:
        blocks, sizes = int(depth), own["network"]
        scheme: dict[str, Any] = {"residual": "layer_scale", "epsilon": layer_scale_start(blocks)}
        warm, rate = True, own["train"]["drop_path"]
        if suite == "residual":
            scheme, warm = residual(variant)
        elif suite == "drop_path":
            scheme, rate = {**scheme, "drop_path": variant}, drop_paths["rate"]
        elif suite == "class_token":
            scheme["class_token"], _, pixels = (
                variant.removesuffix("_longer").removesuffix(LARGER).partition("_patch")
            )
            if scheme["class_token"] == "class_attention":
                scheme["class_layers"] = class_tokens["layers"]
                scheme |= {"class_epsilon": float(LARGER[1:])} if LARGER in variant else {}
            if pixels:
                sizes = {**sizes, "patch_size": int(pixels)}
        network = {
            "name": NETWORK,
            "embed_dim": sizes["dim"],
            "num_heads": sizes["heads"],
            **{key: sizes[key] for key in ("patch_size", "start_std", "position_std")},
            "depth": blocks,
            "drop_path_rate": rate,
            **scheme,
        }
        changed = {"epochs": own["train"]["epochs"] * longer(variant)} | (
            {} if warm else {"warmup_epochs": 0}
        )
        return {"network": network, **vision.recipe(params, "layer_scale", own["train"], **changed)}

    tuning = own["tuning"]

    def tried(of: str, variant: str, depth: str, rate: str) -> dict[str, Any]:
        found = settings(of, variant, depth)
        return {
            **found,
            "lr": float(rate),
            "epochs": tuning["epochs"] * longer(variant),
            "held_out": tuning["held_out"],
        }

    cells = [
        *(_cell("residual", name, depth) for name in grid["residuals"] for depth in grid["depths"]),
        *(_cell("drop_path", name, drop_paths["depth"]) for name in drop_paths["variants"]),
        *(_cell("class_token", name, class_tokens["depth"]) for name in class_tokens["variants"]),
    ]
    tune = trainings(
        folder="tuning/{of}/{variant}/depth{depth}/rate{rate}",
        cells=[
            {"of": cell["suite"], "variant": cell["variant"], "depth": cell["depth"], "rate": f"{rate:g}"}
            for cell in cells
            for rate in tuning["rates"]
        ],
        seeds=own["seeds"][:1],
        labels={"suite": "tuning"},
        settings=tried,
        constraints={"of": SUITES, "depth": r"\d+", "rate": DECIMAL},
    )

    def rates(suite: str, variant: str, depth: str, seed: str) -> list[str]:
        """The paths are the same for every seed: rates are tried with the first seed only."""
        return tune.paths(of=suite, variant=variant, depth=depth)

    def seeds(suite: str, variant: str, depth: str) -> list[int]:
        more = [
            seed
            for group in own["extra_seeds"]
            if suite != "drop_path" and variant in group["variants"] and int(depth) in group["depths"]
            for seed in group["seeds"]
        ]
        return [*own["seeds"], *more]

    train = trainings(
        folder="{suite}/{variant}/depth{depth}",
        cells=cells,
        cell_seeds=seeds,
        inputs={"rates": rates},
        settings=settings,
        constraints={"suite": SUITES, "depth": r"\d+"},
    )

    def given_seeds(variant: str, depth: str, rate: str) -> list[int]:
        wanted = (variant, int(depth), float(rate))
        groups = [one for one in grid["given_rates"] if (one["residual"], one["depth"], one["lr"]) == wanted]
        return [seed for group in groups for seed in group["seeds"]]

    given = trainings(
        folder="given_rate/{variant}/depth{depth}/rate{rate}",
        cells=[
            {"variant": one["residual"], "depth": str(one["depth"]), "rate": str(one["lr"])}
            for one in grid["given_rates"]
        ],
        cell_seeds=given_seeds,
        labels={"suite": "given_rate"},
        settings=lambda variant, depth, rate: {**settings("residual", variant, depth), "lr": float(rate)},
        constraints={"depth": r"\d+", "rate": DECIMAL},
    )
    return {
        "prepare_images": vision.prepare_images(params, scale, "layer_scale"),
        "tune_vision": tune,
        "train_vision": train,
        "train_at_given_rate": given,
    }


def longer(variant: str) -> int:
    """How many times the epochs of the recipe a variant trains."""
    return LONGER if variant.endswith("_longer") else 1


def _cell(suite: str, variant: str, depth: int) -> dict[str, str]:
    return {"suite": suite, "variant": variant, "depth": str(depth)}


def residual(variant: str) -> tuple[dict[str, Any], bool]:
    """The residual scheme for a name of params.yaml, and whether it is trained with warm-up."""
    if variant == "xavier_layer_scale":
        return {"residual": "layer_scale", "maps": "xavier"}, True
    if variant.startswith("layer_scale_"):
        return {"residual": "layer_scale", "epsilon": float(variant.removeprefix("layer_scale_"))}, True
    if variant == "rezero_epsilon":
        return {"residual": "rezero", "epsilon": SMALLEST}, False
    if variant.endswith("_deit"):
        return {"residual": variant.removesuffix("_deit"), "maps": "deit"}, False
    if variant.endswith("fixup_norm"):
        return {"residual": variant.removesuffix("_norm"), "norm": True}, True
    return {"residual": variant}, variant in ("pre_norm", "post_norm")
