# The study `lrformer` (ye2023): LayerNorm and Lipschitz-regularised attention case by case; networks with either attention and head.
LRFORMER = PARAMS["lrformer"]
Y_RUNS = f"{ROOT}/runs/lrformer"
LRFORMER_RUN = f"{Y_RUNS}/examine/{{protocol}}/seed{{seed}}"
LRFORMER_RUNS = expand(LRFORMER_RUN, protocol=LRFORMER["examine"], seed=LRFORMER["seeds"])


def lrformer_settings(wildcards):
    own = dict(LRFORMER["examine"][wildcards.protocol])
    if "scales" in own:
        own["spreads"] = [1.0, *own.pop("scales")]  # what the others are compared with comes first
    return {"protocol": wildcards.protocol, **own}


# classify, uncertainty
Y_CLASSIFY_RUN = f"{Y_RUNS}/classify/{{variant}}/depth{{depth}}/seed{{seed}}"
Y_CLASSIFY_RUNS = expand(
    Y_CLASSIFY_RUN,
    variant=LRFORMER["grid"]["variants"],
    depth=LRFORMER["grid"]["depths"],
    seed=LRFORMER["seeds"],
)
Y_UNCERTAINTY_RUN = f"{Y_RUNS}/uncertainty/{{variant}}/depth{{depth}}/seed{{seed}}"
Y_UNCERTAINTY_RUNS = expand(
    Y_UNCERTAINTY_RUN,
    variant=LRFORMER["grid"]["variants"],
    depth=LRFORMER["grid"]["depths"],
    seed=LRFORMER["seeds"],
)


def classify_lrformer_settings(wildcards):
    own, depth = LRFORMER["network"], wildcards.depth
    attention, head = wildcards.variant.split("_")
    network = {
        "name": f"lrformer_depth{depth}",
        "embed_dim": own["dim"],
        "num_heads": own["heads"],
        **{key: own[key] for key in ("patch_size", "start_std", "position_std")},
        "drop_path_rate": LRFORMER["train"]["drop_path"],
        "attention": {"dot": "dot_product"}.get(attention, attention),
        "head": head,
    }
    if attention == "lrsa":
        network["lrsa_alpha"] = own["lrsa_alpha"]
    if head == "gp":
        network["gp"] = dict(own["gp"])
    recipe = vision_recipe("lrformer", LRFORMER["train"], **LRFORMER["grid"]["optimisers"][f"depth_{depth}"])
    return {"network": network, **recipe}


def uncertainty_settings(wildcards):
    own = LRFORMER["uncertainty"]
    return {
        "sets": own["sets"],
        "bins": own["bins"],
        "test_images": own["images"],
        "distances": own["distances"],
    }


def uncertainty_modules():
    """The out-of-distribution sets of params.yaml and no others."""
    sets = [OUTLIERS[name].partition(":")[0] for name in LRFORMER["uncertainty"]["sets"]]
    return ["relearn.models.residual_vit", *sets]

# render
