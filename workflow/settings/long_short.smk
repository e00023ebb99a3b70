# The study `long_short` (zhu2022, chapter 5): Long Range Arena, character models, their cost and counts, networks for images.
LS = PARAMS["long_short"]
LS_RUNS = f"{ROOT}/runs/long_short"
LS_SEEDS = LS["seeds"]
LS_DATA_SEED = LS_SEEDS[0]  # of generated samples: the same set whatever the seed of a training

# sequences
SEQUENCES_RUN = f"{LS_RUNS}/sequences/{{task}}/seed{LS_DATA_SEED}"
LS_TASKS = list(LS["sequences"])
LS_TASK = "|".join(LS_TASKS)


def sequences_settings(wildcards):
    return {"task": wildcards.task, "form": {}, **LS["sequences"][wildcards.task]}


def sequences_modules(wildcards):
    """Images come from a data set that is loaded by its name."""
    return [dataset_module(LS["sequences"]["image"]["dataset"])] if wildcards.task == "image" else []


# understand
UNDERSTAND_RUN = f"{LS_RUNS}/understand/{{task}}/{{attention}}/seed{{seed}}"
UNDERSTAND_RUNS = [
    run
    for task in LS_TASKS
    for run in expand(
        UNDERSTAND_RUN,
        task=task,
        attention=LS["understand"]["tasks"][task]["attentions"],
        seed=LS_SEEDS,
    )
]


def attention_arguments(kind, task):
    """Arguments of an attention that has any; ``long_short_best`` and ``dynamic`` have their own for each task (table 5.2)."""
    own = LS["understand"]["tasks"][task]
    if kind in ("long_short", "window"):
        return {"window": LS["understand"]["window"]} | (
            {"rank": LS["understand"]["rank"]} if kind == "long_short" else {}
        )
    if kind == "long_short_best":
        return {"window": own["window"], "rank": own["rank"]}
    if kind == "dynamic":
        return {"rank": own["dynamic_rank"]}
    return dict(LS["understand"]["rivals"].get(kind, {}))


def understand_settings(wildcards):
    common, own = LS["understand"], LS["understand"]["tasks"][wildcards.task]
    return {
        "attention": wildcards.attention,
        "arguments": attention_arguments(wildcards.attention, wildcards.task),
        **LS["encoder"],
        "pooling": None,
        "dropout": own["dropout"],
        "attention_dropout": own["dropout"],
        **{key: own[key] for key in ("steps", "warmup_steps", "batch_size", "lr", "weight_decay")},
        "schedule": "linear",
        "clip_norm": None,
        **{key: common[key] for key in ("betas", "adam_eps", "evaluations", "trim")},
    }


def understand_modules(wildcards):
    """The attention of the run and no other."""
    return [attention_module(wildcards.attention)]


# stream, predict
LS_TEXT = "enwik8|text8|warandpeace|pydoc_topics"
STREAM_RUN = f"{LS_RUNS}/stream/{{dataset}}/seed0"
PREDICT_RUN = f"{LS_RUNS}/predict/{{dataset}}/{{variant}}/seed{{seed}}"
PREDICT_RUNS = expand(
    PREDICT_RUN,
    dataset=LS["stream"]["datasets"],
    variant=LS["predict"]["variants"],
    seed=LS_SEEDS,
)


def stream_settings(wildcards):
    return {"dataset": wildcards.dataset, "characters": LS["stream"]["characters"]}


def predict_settings(wildcards):
    own, model, large = LS["predict"], LS["characters"], wildcards.variant == "large"
    return {
        "attention": "full" if wildcards.variant == "full" else "long_short",
        "dual_norm": wildcards.variant != "no_dual_norm",
        "as_released": False,
        **{key: model[key] for key in ("dim", "heads", "ffn", "window", "segment", "rank")},
        "layers": model["large_layers" if large else "layers"],
        "dropout": model["large_dropout" if large else "dropout"],
        "weight_decay": own["large_weight_decay" if large else "weight_decay"],
        "optimizer": "adamw",
        "clip_norm": None,
        "diverged_above": None,
        **{key: own[key] for key in ("phases", "betas", "adam_eps", "evaluations")},
        **{key: own[key] for key in ("history_characters", "evaluation")},
    }


# adapt
ADAPT_RUN = f"{LS_RUNS}/adapt/{{variant}}/seed{{seed}}"
ADAPT_RUNS = expand(ADAPT_RUN, variant=LS["adapt"]["variants"], seed=LS_SEEDS)


def adapt_settings(wildcards):
    own = {key: value for key, value in LS["adapt"].items() if key != "variants"}
    attention = wildcards.variant.removesuffix("_large")
    large = own.pop("large_checkpoint")
    if attention == "full":  # nothing is converted
        own |= {"convert_pretrain": None, "window": None, "rank": None, "max_length": None}
    return {
        **own,
        "attention": attention,
        "checkpoint": (own["checkpoint"] if wildcards.variant == attention else large) or None,
        "schedule": "linear",
        "clip_norm": None,
    }


# cost
CURVE_RUN, LATENCY_RUN = f"{LS_RUNS}/cost/curve/seed0", f"{LS_RUNS}/cost/latency/seed0"


def curve_settings():
    own = dict(LS["cost"]["curve"])
    longest = {"full": own.pop("full_longest")}
    return {"protocol": "curve", "longest": longest if "full" in own["attentions"] else {}, **own}


def latency_settings():
    own = LS["cost"]["latency"]
    tasks = {
        task: {
            "length": length,
            "batch_size": own["batch_size"],
            "pairs": task == "retrieval",
            "arguments": {},
        }
        for task, length in own["lengths"].items()
    }
    return {
        "protocol": "latency",
        **LS["encoder"],
        "vocabulary": 512,
        "classes": 10,
        "tasks": tasks,
        "attentions": own["attentions"],
        "arguments": {},  # the published sizes
        "repeats": own["repeats"],
    }


# count
LS_COUNT_RUN = f"{LS_RUNS}/count/{{family}}/seed0"
LS_COUNT_RUNS = expand(LS_COUNT_RUN, family=LS["count"]["families"])


LS_COUNTED = {
    "lra": [
        attention_module(kind)
        for kind in ("full", "linformer", "performer", "nystromformer", "reformer", "dynamic")
    ],
    "language": [],
    "vision": ["relearn.models.cvt", "relearn.models.vil", "relearn.models.residual_vit"],
}


def count_family_settings(wildcards):
    return {"family": wildcards.family}


def count_family_modules(wildcards):
    return LS_COUNTED[wildcards.family]


# classify: networks of tables 5.8 and 5.9, their published sizes scaled as params.yaml says
LS_CLASSIFY_RUN = f"{LS_RUNS}/classify/{{network}}/seed{{seed}}"
LS_CLASSIFY_RUNS = expand(LS_CLASSIFY_RUN, network=LS["grid"]["networks"], seed=LS_SEEDS)
LS_NAMES = {
    **{f"CvT-{size}": f"cvt_{size}" for size in ("13", "21")},
    **{f"CvT-LS-{size}": f"cvt_ls_{size.lower()}" for size in ("13", "17", "21", "21S")},
    **{f"ViL-{size}": f"vil_{size.lower()}" for size in ("Medium", "Base")},
    **{f"ViL-LS-{size}": f"vil_ls_{size.lower()}" for size in ("Medium", "Base")},
    "DeiT-S": "residual_deit_small",
    "ResNet-50": "resnet50",
    "Swin-T": "swin_tiny_patch4_window7_224",
    "LipsFormer-Swin-T": "lipsformer_swin_tiny",
}


def scaled_network(network):
    """Arguments of a network: all of ImageNet's size as published, elsewhere narrower, with fewer blocks and smaller patches."""
    name, own = LS_NAMES[network], LS["network"]

    def blocks(depths):
        return [max(1, round(own["depth"] * depth)) for depth in depths]

    if network == "ResNet-50":
        channels = [max(8, round(own["width"] * channels)) for channels in (64, 128, 256, 512)]
        return {"name": name, "channels": channels, "layers": blocks([3, 4, 6, 3])}
    if network == "DeiT-S":
        arguments = {"embed_dim": 6 * max(1, round(own["width"] * 64)), "depth": blocks([12])[0]}
        return {"name": name, **arguments, "num_heads": 6, "patch_size": 4 * own["patch_size"]}
    if network == "Swin-T":
        published = TIMM_NAMES["lipsformer_swin_tiny"][1]
    else:
        published = TIMM_NAMES[name][1]
    heads = published["num_heads"][0]
    arguments = {
        "embed_dim": heads * max(1, round(own["width"] * published["embed_dim"] / heads)),
        "depths": blocks(published["depths"]),
        "patch_size": own["patch_size"],
    }
    if network.endswith("Swin-T"):
        arguments["num_heads"] = list(published["num_heads"])
    if network in ("CvT-13", "CvT-21"):
        arguments["kv_stride"] = 1  # as table 5.8 counts it
    if network.startswith("CvT-LS-") and not from_folder("long_short"):
        arguments["window"] = LS["network"]["window"]
    return {"name": name, **arguments}


def classify_long_short_settings(wildcards):
    network = scaled_network(wildcards.network)
    if wildcards.network != "ResNet-50":
        network["drop_path_rate"] = LS["train"]["drop_path"]
    return {"network": network, **vision_recipe("long_short", LS["train"])}


def classify_long_short_modules(wildcards):
    return classify_modules("long_short", LS_NAMES[wildcards.network])


# similarity
SIMILARITY_RUN = f"{LS_RUNS}/similarity/{{network}}/seed{{seed}}"
SIMILARITY_RUNS = expand(SIMILARITY_RUN, network=LS["grid"]["similarity"], seed=LS_SEEDS)


def similarity_settings(wildcards):
    return {"task": "folder" if from_folder("long_short") else "images", **LS["similarity"]}


def similarity_modules(wildcards):
    task = "folder" if from_folder("long_short") else "images"
    return [f"relearn.steps.tasks.{task}", *modules_behind(LS_NAMES[wildcards.network])]


# throughput: table 5.8's latency
LS_THROUGHPUT_RUN = f"{LS_RUNS}/throughput/{{network}}/seed0"
LS_THROUGHPUT_RUNS = expand(LS_THROUGHPUT_RUN, network=LS["throughput"]["networks"])


def throughput_long_short_settings(wildcards):
    own = LS["throughput"]
    return {
        "network": scaled_network(wildcards.network),
        "against": scaled_network(own["against"]),
        "classes": 1000 if from_folder("long_short") else 10,
        "modes": ["inference"],
        "memory": False,
        **{key: own[key] for key in ("batch_size", "size", "pairs")},
    }


def throughput_long_short_modules(wildcards):
    names = [LS_NAMES[wildcards.network], LS_NAMES[LS["throughput"]["against"]]]
    return sorted({module for name in names for module in modules_behind(name)})

# render
