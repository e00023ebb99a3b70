# The study `lipsformer` (qi2023): counts of its networks, its theorems case by case, and training them.
from relearn.models.timm_names import NAMES as TIMM_NAMES

LIPS = PARAMS["lipsformer"]
Q_RUNS = f"{ROOT}/runs/lipsformer"
Q_SEEDS = LIPS["seeds"]

# count
COUNT_RUN = f"{Q_RUNS}/count/{{network}}/seed{{seed}}"
COUNT_RUNS = expand(COUNT_RUN, network=LIPS["count"]["networks"], seed=Q_SEEDS[:1])
OF_OURS = {"LipsFormer-": "relearn.models.lipsformer", "CSwin-": "relearn.models.cswin"}


def count_settings(wildcards):
    return {"network": wildcards.network}


def count_modules(wildcards):
    return [module for start, module in OF_OURS.items() if wildcards.network.startswith(start)]


# examine
LIPS_RUN = f"{Q_RUNS}/examine/{{protocol}}/seed{{seed}}"
ACTIVATIONS_RUN = f"{Q_RUNS}/examine/activations/seed{{seed}}"
LIPS_RUNS = expand(LIPS_RUN, protocol=LIPS["examine"], seed=Q_SEEDS)


def lipsformer_settings(wildcards):
    return {"protocol": wildcards.protocol, **LIPS["examine"][wildcards.protocol]}


def activations_settings(wildcards):
    return {"protocol": "activations", **LIPS["examine"]["activations"]}


# classify: what stands behind the names of table 3 and of the pairs
LIPS_CLASSIFY_RUN = f"{Q_RUNS}/classify/{{suite}}/{{variant}}/seed{{seed}}"
ABLATED = "LipsFormer-CSwin-T"
BASE = {
    "alpha": 0.2,
    "conv": "D",
    "drop_path_rate": 0.2,
    "norm_kind": "center",
    "similarity": "cosine",
    "start": "spectral",
}
CHANGES = {
    "base": {},
    "warmup": {},
    "layer_norm": {"norm_kind": "layer"},
    "no_norm": {"norm_kind": "none"},
    "truncated": {"start": "truncated"},
    "xavier": {"start": "xavier"},
    "dot_product": {"similarity": "dot_product"},
    "l2": {"similarity": "l2"},
    **{f"alpha_{value}": {"alpha": value} for value in (0.1, 0.3, 0.4)},
    **{f"conv_{form}": {"conv": form.upper()} for form in "abc"},
    **{f"drop_{value}": {"drop_path_rate": value} for value in (0.0, 0.1)},
}
LIPS_CLASSIFY_RUNS = expand(
    LIPS_CLASSIFY_RUN, suite="ablation", variant=LIPS["grid"]["ablation"]["variants"], seed=Q_SEEDS
) + expand(LIPS_CLASSIFY_RUN, suite="pairs", variant=LIPS["grid"]["pairs"]["networks"], seed=Q_SEEDS)


def pyramid(network):
    """The network's name and arguments, its published size scaled as params.yaml says."""
    family, size = network.rsplit("-", 1)
    word = {"T": "tiny", "S": "small", "B": "base"}[size]
    cross = family.endswith("CSwin")
    published = TIMM_NAMES[f"lipsformer_{'cswin' if cross else 'swin'}_{word}"][1]
    own = LIPS["network"]
    arguments = {
        "embed_dim": round(published["embed_dim"] * own["width"]),
        "depths": [max(1, round(blocks * own["depth"])) for blocks in published["depths"]],
        "num_heads": list(published["num_heads"]),
        "patch_size": own["patch_size"],
    }
    names = {"LipsFormer-CSwin": "lipsformer_cswin", "LipsFormer-Swin": "lipsformer_swin", "CSwin": "cswin"}
    if family == "Swin":
        return f"swin_{word}_patch4_window7_224", {**arguments, "window_size": 7}
    return f"{names[family]}_{word}", arguments


def network_of_variant(suite, variant):
    return pyramid(ABLATED if suite == "ablation" else variant)


def classify_lipsformer_settings(wildcards):
    suite, variant = wildcards.suite, wildcards.variant
    name, arguments = network_of_variant(suite, variant)
    sized = LIPS["grid"]["sizes"][(ABLATED if suite == "ablation" else variant).rsplit("-", 1)[1]]
    own = {
        "lr": LIPS["train"]["lr"] * sized["lr"],
        "weight_decay": sized["weight_decay"],
        "average": sized["average"],
    }
    if suite == "ablation":
        arguments = {**arguments, **BASE, **CHANGES[variant]}
        own["epochs"] = LIPS["grid"]["ablation"]["epochs"]
        if variant == "warmup":
            own["warmup_epochs"] = LIPS["grid"]["ablation"]["warmup_epochs"]
    else:
        arguments = {**arguments, "drop_path_rate": sized["drop_path"]}
        if not variant.startswith("LipsFormer-"):
            own["warmup_epochs"] = LIPS["grid"]["pairs"]["warmup_epochs"]
    recipe = vision_recipe("lipsformer", LIPS["train"], **own)
    return {"network": {"name": name, **arguments}, **recipe}


def classify_lipsformer_modules(wildcards):
    return classify_modules("lipsformer", network_of_variant(wildcards.suite, wildcards.variant)[0])


# throughput
THROUGHPUT_RUN = f"{Q_RUNS}/throughput/{{network}}/seed{{seed}}"
THROUGHPUT_RUNS = expand(THROUGHPUT_RUN, network=LIPS["throughput"]["networks"], seed=Q_SEEDS[:1])


def throughput_settings(wildcards):
    own = LIPS["throughput"]
    return {
        "network": wildcards.network,
        **{key: own[key] for key in ("batch_size", "size", "pairs")},
    }


# retest
RETEST_RUN = f"{Q_RUNS}/retest/{{variant}}/seed{{seed}}"
RETEST_RUNS = expand(RETEST_RUN, variant=LIPS["retest"]["networks"], seed=Q_SEEDS)


def retest_settings(wildcards):
    own = LIPS["retest"]
    keys = ("size", "crop_ratio", "interpolation", "average", "batch_size", "test_images")
    return {
        "network": {"name": pyramid(wildcards.variant)[0]},
        "classes": 1000,
        "val": "imagenet/val",
        "v2": "imagenetv2-matched-frequency-format-val",
        "real": True,
        **{key: own[key] for key in keys},
    }


def retest_modules(wildcards):
    return modules_behind(pyramid(wildcards.variant)[0])

# render
