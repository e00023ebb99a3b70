# The study `gradinit` (zhu2022, chapter 4): its grid of runs, the folder, settings and modules of each.
import json

from relearn.studies.gradinit.steps.initialise import SCALED

GRADINIT = PARAMS["gradinit"]
G_RUNS = f"{ROOT}/runs/gradinit"
G_SEEDS = GRADINIT["seeds"]
INITIALISE = GRADINIT["initialise"]
G_TRAIN = GRADINIT["train"]
# label `suite`: the tables' networks, the first steps at another size, or table 4.8 on ImageNet
GRID, FIRST, FOLDER = "grid", "first_steps", "imagenet"
G_SUITES = f"{GRID}|{FIRST}|{FOLDER}"

# prepare, corpus
G_DATASET = GRADINIT["images"]["dataset"]
G_PREPARED = f"{G_RUNS}/prepare/{G_DATASET}"
IMAGENET = GRADINIT["imagenet"]  # read where its images lie: what stands for them is a listing
LISTING_RUN = f"{G_RUNS}/folder/{FOLDER}"
CORPUS = GRADINIT["corpus"]
CORPUS_RUN = f"{G_RUNS}/corpus/{CORPUS['dataset']}"


def prepare_gradinit_settings():
    """All training images are trained on: the parts that poisoning needs are one image a class each, and join the rest."""
    several = GRADINIT["images"]["train_per_class"]
    return {
        "dataset": G_DATASET,
        "pretrain_per_class": several - 1,
        "fine_tune_per_class": 1,
        "pool_per_class": 1,
    }


def folder_settings(wildcards):
    """The hash of the file list; where the images are not at hand, that of the last record, which then stays what it is."""
    from relearn.data import class_folders

    try:
        found = class_folders.sha256_of(class_folders.root_of(FOLDER))
    except ValueError:
        last = Path(LISTING_RUN, "record.json")
        found = json.loads(last.read_text())["settings"]["sha256"] if last.exists() else None
    return {"dataset": FOLDER, "sha256": found}


def images_of(wildcards):
    """What a run of images reads."""
    return f"{LISTING_RUN}/listing.json" if wildcards.suite == FOLDER else f"{G_PREPARED}/data.safetensors"


def minutes(suite, usual):
    """Runtime: ImageNet's runs take a week where others take a day."""
    return 7 * usual if suite == FOLDER else usual


def decoders(suite):
    """Threads: images that are decoded on the way take more than one."""
    return 8 if suite == FOLDER else 1


# initialise: what stands behind the name of an initialisation
START_RUN = f"{G_RUNS}/initialise/{{suite}}/{{network}}/{{initialisation}}/seed{{seed}}"
WITHOUT_NORM = (
    "ResNet-110-SkipInit",
    "VGG-19",
    "ResNet-110",
    "ResNet-1202",
    "FixUpResNet-110",
    "DenseNet-100",
    "timm-ResNet-50-FixUp",
)
FREE = {
    "gradinit_free_0.5": ("half", 0.5),
    "gradinit_free_1": ("same", 1.0),
    "gradinit_free_1_large_tau": ("same_large", 1.0),
}
PENALTY = {
    "gradinit_penalty_" + (f"{value:g}" if value >= 0.1 else f"{value:.0e}".replace("e-0", "e-")): value
    for value in INITIALISE["penalties"]
}
SEVERAL = {
    "gradinit_overlap": ["gradinit_overlap_0", "gradinit_overlap_1"],
    "gradinit_free": list(FREE),
    "gradinit_penalty": list(PENALTY),
}
IMAGE_STARTS = [
    (network, name)
    for group, networks in GRADINIT["networks"].items()
    for network in networks
    for name in SEVERAL.get(group, [group])
]
ADAMW_STARTS = [
    (network, name) for network in GRADINIT["adamw_networks"] for name in ("kaiming", "gradinit_adam")
]
SCALAR_STARTS = [(network, "kaiming") for network in GRADINIT["scalar_networks"]]
FIRST_STEPS = GRADINIT["first_steps"]
FIRST_STARTS = [
    (network, name) for network in FIRST_STEPS["networks"] for name in FIRST_STEPS["initialisations"]
]
FOLDER_STARTS = [(network, name) for name, networks in IMAGENET["networks"].items() for network in networks]


def size_of(suite, network):
    """Width and depth of a network, as factors on the published ones."""
    own = FIRST_STEPS if suite == FIRST else GRADINIT["network"]
    deep = suite == GRID and network.startswith("ResNet-1202")
    return {"width": own["width"], "depth": own["deep_depth" if deep else "depth"]}


def images_recipe(suite=GRID):
    """The task and what is done to its images."""
    if suite == FOLDER:
        return {"task": "folder", "size": IMAGENET["size"]}
    return {key: G_TRAIN[key] for key in ("crop_padding", "flip", "cutout")}


def gradinit_arguments(network, name):
    """Arguments of relearn.methods.gradinit for one variant on the grid's images."""
    arguments = {
        "optimizer": "sgd",
        "tau": INITIALISE["tau"][network],
        **{key: INITIALISE[key] for key in ("eta", "gamma", "overlap", "min_scale", "normalised")},
    }
    if name == "gradinit_adam":
        arguments |= {"optimizer": "adam", "normalised": False, **INITIALISE["adam"]}
    if name.startswith("gradinit_overlap_"):
        arguments["overlap"] = float(name.rpartition("_")[2])
    if name in FREE:
        tau, overlap = FREE[name]
        arguments |= {"tau": INITIALISE["free_tau"][tau], "overlap": overlap, "gamma": None}
    if name in PENALTY:
        arguments |= {"form": "penalty", "penalty": PENALTY[name], "gamma": None}
    scopes = {"gradinit_fix_bn": "fix_norm", "gradinit_only_bn": "only_norm"}
    if name in scopes:
        arguments["scope"] = scopes[name]
    return arguments


def method_of(name):
    """The entry of INITIALISATIONS behind the name of an initialisation; None: the network's own start."""
    for method in ("gradinit", "metainit", "extra_epoch", "t_fixup", "admin"):
        if name == method or name.startswith(f"{method}_"):
            return method
    return None if name == "none" else name


def image_arguments(network, name):
    method = method_of(name)
    if method == "gradinit":
        return gradinit_arguments(network, name)
    if method == "metainit":
        sign = name.endswith("_sign")
        found = {
            "data": "random" if name == "metainit_random_sign" else "real",
            "optimizer": "signsgd" if sign else "adam",
        }
        return {**found, **(INITIALISE["metainit"] if sign else {"tau": INITIALISE["tau"][network]})}
    if method == "extra_epoch":
        rest = {key: G_TRAIN[key] for key in ("lr", "momentum", "weight_decay")}
        clip = G_TRAIN["clip_norm"] if network in WITHOUT_NORM else None
        return {**rest, "clip_norm": clip, "schedule": name.rpartition("_")[2]}
    return dict(INITIALISE["lsuv"]) if method == "lsuv" else {}


def iterations_of(method, own):
    """What a method that does not iterate is made of does not change with the number of iterations."""
    return own["iterations"] if method in SCALED else None


def start_settings(wildcards):
    suite, network, name = wildcards.suite, wildcards.network, wildcards.initialisation
    own = {FIRST: FIRST_STEPS, FOLDER: IMAGENET["initialise"]}.get(suite, INITIALISE)
    arguments = image_arguments(network, name)
    if suite == FOLDER and "gamma" in arguments:
        arguments["gamma"] = own["gamma"]
    return {
        "task": "images",
        "network": {"name": network, **size_of(suite, network)},
        "method": method_of(name),
        "arguments": arguments,
        "batch_size": own["batch_size"],
        "iterations": iterations_of(method_of(name), own),
        **images_recipe(suite),
    }


def task_module(suite):
    return f"relearn.steps.tasks.{'folder' if suite == FOLDER else 'images'}"


def start_modules(wildcards):
    method = method_of(wildcards.initialisation)
    methods = [method_module(INITIALISATIONS, name) for name in {method} - {None, "kaiming"}]
    return [task_module(wildcards.suite), network_module(wildcards.network), *sorted(methods)]


START_RUNS = [
    START_RUN.format(suite=suite, network=network, initialisation=name, seed=seed)
    for suite, starts in (
        (GRID, dict.fromkeys(IMAGE_STARTS + ADAMW_STARTS + SCALAR_STARTS)),
        (FIRST, FIRST_STARTS),
        (FOLDER, FOLDER_STARTS),
    )
    for network, name in starts
    for seed in G_SEEDS
]

# learn
LEARN_RUN = f"{G_RUNS}/learn/{{suite}}/{{network}}/{{initialisation}}/{{recipe}}/seed{{seed}}"
LEARN_RUNS = [
    LEARN_RUN.format(suite=suite, network=network, initialisation=name, recipe=recipe, seed=seed)
    for suite, recipe, starts in (
        (GRID, "sgd", IMAGE_STARTS),
        (GRID, "adamw", ADAMW_STARTS),
        (GRID, "scalars", SCALAR_STARTS),
        (GRID, "scalars_low_lr", SCALAR_STARTS),
        (FIRST, "steps", FIRST_STARTS),
        (FOLDER, "imagenet", FOLDER_STARTS),
    )
    for network, name in starts
    for seed in G_SEEDS
]


def learn_settings(wildcards):
    """Optimiser and regularisation of a recipe; clipping where there is no batch normalisation, mixup for WRN alone."""
    network, recipe = wildcards.network, wildcards.recipe
    settings = {
        **images_recipe(),
        **{
            key: G_TRAIN[key]
            for key in ("batch_size", "lr", "momentum", "weight_decay", "epochs", "test_images")
        },
        "optimizer": "sgd",
        "steps": None,
        "clip_norm": G_TRAIN["clip_norm"] if network in WITHOUT_NORM else None,
        "mixup": G_TRAIN["mixup"] if network.startswith("WRN") else None,
        "scalars": recipe.startswith("scalars"),
    }
    if recipe == "adamw":
        settings |= {"optimizer": "adamw", "momentum": None, **GRADINIT["adamw"]}
    if settings["scalars"]:
        settings["lr"] = GRADINIT["scalars"]["low_lr" if recipe.endswith("low_lr") else "lr"]
    if recipe == "steps":
        settings |= {"steps": FIRST_STEPS["steps"], "batch_size": FIRST_STEPS["batch_size"], "epochs": None}
    return imagenet_recipe(network, settings) if recipe == "imagenet" else settings


def imagenet_recipe(network, usual):
    """Steps of the learning rate instead of a cosine, mixup where there is no batch normalisation, nothing clipped."""
    own = {key: IMAGENET[key] for key in ("epochs", "batch_size", "lr", "milestones")}
    own |= {"schedule": "step", "clip_norm": None, "test_images": 0, **images_recipe(FOLDER)}
    own["mixup"] = IMAGENET["mixup"] if network in WITHOUT_NORM else None
    return {key: value for key, value in usual.items() if key not in images_recipe()} | own


def learn_modules(wildcards):
    return [task_module(wildcards.suite), network_module(wildcards.network)]


# translation: the same two steps
TRANSLATION = GRADINIT["translation"]
T_TRAIN = TRANSLATION["train"]
T_START_RUN = f"{G_RUNS}/initialise/translation/{{network}}/{{initialisation}}/seed{{seed}}"
TRANSLATE_RUN = f"{G_RUNS}/translate/{{network}}/{{initialisation}}/{{recipe}}/seed{{seed}}"
T_GRID = TRANSLATION["grid"]
TRANSLATIONS = list(
    dict.fromkeys(
        [
            *TRANSLATION["runs"],
            *(
                f"{start}/adam_lr{lr:g}_b{beta:g}"
                for start in T_GRID["runs"]
                for lr in T_GRID["lr"]
                for beta in T_GRID["beta2"]
            ),
        ]
    )
)
T_STARTS = list(
    dict.fromkeys([*(os.path.dirname(name) for name in TRANSLATIONS), *TRANSLATION["probe"]["runs"]])
)
T_START_RUNS = expand(f"{G_RUNS}/initialise/translation/{{start}}/seed{{seed}}", start=T_STARTS, seed=G_SEEDS)
TRANSLATE_RUNS = expand(f"{G_RUNS}/translate/{{run}}/seed{{seed}}", run=TRANSLATIONS, seed=G_SEEDS)


def translation_arguments(name):
    own = TRANSLATION["initialise"]
    if name.startswith("gradinit"):
        optimizer = "sgd" if name.endswith("_sgd") else "adam"
        shared = {"overlap": INITIALISE["overlap"], "min_scale": own["min_scale"], "tau": own["tau"]}
        return {**shared, **TRANSLATION[optimizer], "optimizer": optimizer, "normalised": False}
    return {"fixed": True} if name == "admin_fixed" else {}


def translation_start_settings(wildcards):
    own = TRANSLATION["network"]
    name = wildcards.initialisation
    method = method_of(name)
    network = {
        "residual": wildcards.network,
        "dim": own["dim"],
        "ffn": own["ffn"],
        "heads": own["heads"],
        "encoder_layers": own["layers"],
        "decoder_layers": own["layers"],
        "dropout": own["dropout"],
    }
    return {
        "task": "translation",
        "network": network,
        "method": "t_fixup" if method == "fixup" else method,
        "arguments": {"form": "fixup"} if method == "fixup" else translation_arguments(name),
        "max_tokens": TRANSLATION["initialise"]["max_tokens"],
        "iterations": iterations_of(method, TRANSLATION["initialise"]),
        "label_smoothing": T_TRAIN["label_smoothing"],
    }


def translation_start_modules(wildcards):
    method = method_of(wildcards.initialisation)
    method = "t_fixup" if method == "fixup" else method
    methods = [method_module(INITIALISATIONS, name) for name in {method} - {None, "xavier"}]
    return ["relearn.steps.tasks.translation", *sorted(methods)]


def translate_settings(wildcards):
    """A recipe's name says the optimiser, whether there is a warm-up and, in the grid, learning rate and beta2."""
    words = wildcards.recipe.split("_")
    keys = (
        "steps",
        "schedule_steps",
        "max_tokens",
        "lr",
        "betas",
        "weight_decay",
        "label_smoothing",
        "evaluations",
    )
    settings = {**{key: T_TRAIN[key] for key in keys}, "schedule": "linear", "clip_norm": None}
    settings |= {"optimizer": words[0], "warmup_steps": T_TRAIN["warmup_steps"] if "warmup" in words else 0}
    if words[0] == "sgd":
        settings["lr"] = T_TRAIN["sgd_lr"]
        del settings["betas"]
    if len(words) == 3:
        settings |= {"lr": float(words[1][2:]), "betas": [T_TRAIN["betas"][0], float(words[2][1:])]}
    beam = TRANSLATION["beam"]
    decoding = {"beam": beam["size"], **{key: beam[key] for key in ("length_penalty", "extra", "factor")}}
    return {**settings, **decoding, "test_pairs": CORPUS["test_pairs"]}


# probe: gradients at the start, and what holds without training
PROBE = GRADINIT["probe"]
STATISTICS_RUN = f"{G_RUNS}/probe/gradient_statistics/{{suite}}/{{network}}/{{initialisation}}/seed{{seed}}"
T_STATISTICS_RUN = (
    f"{G_RUNS}/probe/gradient_statistics/translation/{{network}}/{{initialisation}}/seed{{seed}}"
)
BATCH_NORM_RUN = f"{G_RUNS}/probe/batch_norm/seed{{seed}}"
COUNTS_RUN = f"{G_RUNS}/probe/parameter_counts/seed{{seed}}"
COUNTED = ("VGG-19", "ResNet-110", "WRN-28-10", "DenseNet-100")  # their modules: tables 4.4 and 4.5
COUNTED_MODULES = sorted({network_module(name) for name in COUNTED})


def probed():
    """(suite, network, initialisation): before and after, at the true size where the first steps have it."""
    suites = {FIRST: FIRST_STARTS, FOLDER: FOLDER_STARTS, GRID: IMAGE_STARTS}
    for network in PROBE["networks"]:
        for name in ("kaiming", "gradinit"):
            for suite in [suite for suite, starts in suites.items() if (network, name) in starts][:1]:
                yield suite, network, name


PROBE_RUNS = [
    *(
        STATISTICS_RUN.format(suite=suite, network=network, initialisation=name, seed=seed)
        for suite, network, name in probed()
        for seed in G_SEEDS
    ),
    *expand(
        f"{G_RUNS}/probe/gradient_statistics/translation/{{start}}/seed{{seed}}",
        start=TRANSLATION["probe"]["runs"],
        seed=G_SEEDS,
    ),
    *expand(BATCH_NORM_RUN, seed=0),
    *expand(COUNTS_RUN, seed=0),
]


def probe_settings(wildcards):
    counts = {"batches": PROBE["batches"], "batch_size": PROBE["batch_size"]}
    recipe = images_recipe(wildcards.suite)
    return {"protocol": "gradient_statistics", "task": "images", **counts, **recipe}


def probe_modules(wildcards):
    return [
        "relearn.measures.gradient_statistics",
        task_module(wildcards.suite),
        network_module(wildcards.network),
    ]


def translation_probe_settings(wildcards):
    shared = {
        "max_tokens": TRANSLATION["initialise"]["max_tokens"],
        "label_smoothing": T_TRAIN["label_smoothing"],
    }
    own = {
        "protocol": "gradient_statistics",
        "task": "translation",
        "batches": TRANSLATION["probe"]["batches"],
    }
    return {**own, **shared}

# render
