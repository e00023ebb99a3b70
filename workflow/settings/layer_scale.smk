# The study `layer_scale` (touvron2021): residual schemes at several depths, drop-path rates, where the class token enters.
from relearn.models.layer_scale_start import layer_scale_start

DEEP = PARAMS["layer_scale"]
T_RUNS_ROOT = f"{ROOT}/runs/layer_scale"
DEEP_RUN = f"{T_RUNS_ROOT}/classify/{{suite}}/{{variant}}/depth{{depth}}/seed{{seed}}"
DEEP_RUNS = (
    expand(
        DEEP_RUN,
        suite="residual",
        variant=DEEP["grid"]["residuals"],
        depth=DEEP["grid"]["depths"],
        seed=DEEP["seeds"],
    )
    + expand(
        DEEP_RUN,
        suite="drop_path",
        variant=DEEP["grid"]["drop_paths"]["variants"],
        depth=DEEP["grid"]["drop_paths"]["depth"],
        seed=DEEP["seeds"],
    )
    + expand(
        DEEP_RUN,
        suite="class_token",
        variant=DEEP["grid"]["class_tokens"]["variants"],
        depth=DEEP["grid"]["class_tokens"]["depth"],
        seed=DEEP["seeds"],
    )
)
DEIT = "residual_deit_small"
SMALLEST = 1.0e-6  # of the starts of LayerScale; where ReZero starts in the place of 0


def scheme_of(variant, depth):
    """Arguments of the network, and whether it has a warm-up."""
    if variant.startswith("layer_scale_"):
        return {"residual": "layer_scale", "epsilon": float(variant.removeprefix("layer_scale_"))}, True
    if variant == "rezero_epsilon":
        return {"residual": "rezero", "epsilon": SMALLEST}, False
    if variant.endswith("_deit"):
        return {"residual": variant.removesuffix("_deit"), "maps": "deit"}, False
    if variant.endswith("fixup_norm"):
        return {"residual": variant.removesuffix("_norm"), "norm": True}, True
    return {"residual": variant}, variant in ("pre_norm", "post_norm")


def classify_layer_scale_settings(wildcards):
    suite, variant, depth = wildcards.suite, wildcards.variant, int(wildcards.depth)
    own, warm, rate = (
        {"residual": "layer_scale", "epsilon": layer_scale_start(depth)},
        True,
        DEEP["train"]["drop_path"],
    )
    if suite == "residual":
        own, warm = scheme_of(variant, depth)
    if suite == "drop_path":
        own, rate = {**own, "drop_path": variant}, DEEP["grid"]["drop_paths"]["rate"]
    if suite == "class_token":
        own["class_token"] = variant
        if variant == "class_attention":
            own["class_layers"] = DEEP["grid"]["class_tokens"]["layers"]
    network = {
        "name": DEIT,
        "embed_dim": DEEP["network"]["dim"],
        "num_heads": DEEP["network"]["heads"],
        **{key: DEEP["network"][key] for key in ("patch_size", "start_std", "position_std")},
        "depth": depth,
        "drop_path_rate": rate,
        **own,
    }
    recipe = vision_recipe("layer_scale", DEEP["train"], **({} if warm else {"warmup_epochs": 0}))
    return {"network": network, **recipe}


# render
