# The study `l2_attention` (kim2020): its grid of runs, the folder, settings and modules of each.
L2 = PARAMS["l2_attention"]
L_RUNS = f"{ROOT}/runs/l2_attention"
L_SEEDS = L2["seeds"]
ONE = L_SEEDS[:1]  # of what needs no training
L_ATTENTIONS = "lstm|dp|l2|l2_tied|l2_matched|contractive"

# characters
CHARACTERS = L2["characters"]
CHARACTERS_RUN = f"{L_RUNS}/characters/{CHARACTERS['dataset']}"

# language: a recipe's name says its rates, so that the best of several can be shown as one line of a table
LANGUAGE_RUN = f"{L_RUNS}/language/{{attention}}/{{layers}}/{{recipe}}/seed{{seed}}"
WARMUP_RECIPES = {
    f"warmup_g{gamma:g}_w{steps}_d{dropout:g}": {
        "schedule": "inverse_sqrt",
        "gamma": gamma,
        "warmup_steps": steps,
        "dropout": dropout,
    }
    for gamma in L2["warmup"]["gamma"]
    for steps in L2["warmup"]["warmup_steps"]
    for dropout in L2["warmup"]["dropout"]
}
FIXED_RECIPES = {
    f"fixed_lr{lr:g}_d{dropout:g}": {"schedule": "constant", "lr": lr, "warmup_steps": 0, "dropout": dropout}
    for lr in L2["fixed"]["lr"]
    for dropout in L2["fixed"]["dropout"]
}
RECIPES = WARMUP_RECIPES | FIXED_RECIPES
LANGUAGE_RUNS = [
    LANGUAGE_RUN.format(attention=attention, layers=layers, recipe=recipe, seed=seed)
    for kind, recipes in (("warmup", WARMUP_RECIPES), ("fixed", FIXED_RECIPES))
    for attention, depths in L2["depths"][kind].items()
    for layers in depths
    for recipe in recipes
    for seed in L_SEEDS
]
# Figures 5, 8 and 10 look at the attention of one-layer models: those of the first recipe.
TRAINED = [name for name in ("dp", "l2_tied") if L2["depths"]["warmup"][name]]


def language_settings(wildcards):
    own = L2["network"]
    recipe = RECIPES[wildcards.recipe]
    network = {key: own[key] for key in ("dim", "heads", "ffn", "norm", "init_scale", "glorot")}
    return {
        "attention": wildcards.attention,
        "layers": int(wildcards.layers),
        **network,
        "max_length": CHARACTERS["max_length"],
        **L2["train"],
        "clip_norm": None,
        **recipe,
    }


def network_of(wildcards):
    """The trained model whose first layer a run looks at; nothing where weights are drawn or given."""
    if wildcards.weights != "trained":
        return []
    recipe = next(iter(WARMUP_RECIPES))
    run = LANGUAGE_RUN.format(attention=wildcards.attention, layers=1, recipe=recipe, seed=wildcards.seed)
    return f"{run}/weights.safetensors"


def looked_at_size(wildcards, own):
    """Width and heads: of the language model where its weights are looked at, else the study's own."""
    found = L2["network"] if wildcards.weights == "trained" else own
    return {"dim": found["dim"], "heads": found["heads"]}


# ascend: p and size of each figure
ASCEND_RUN = f"{L_RUNS}/ascend/{{suite}}/{{attention}}/{{weights}}/{{length}}/seed{{seed}}"
P_OF = {"fig2": "inf", "fig7": "two", "fig8": "inf"}
ASCENTS = {"fig2": L2["figure_2"], "fig7": L2["figure_7"], "fig8": L2["figure_8"]}
ASCEND_RUNS = [
    *expand(
        ASCEND_RUN,
        suite="fig2",
        attention="l2_tied",
        weights="identity",
        length=ASCENTS["fig2"]["lengths"],
        seed=ONE,
    ),
    *expand(
        ASCEND_RUN,
        suite="fig7",
        attention="l2_tied",
        weights="identity",
        length=ASCENTS["fig7"]["lengths"],
        seed=ONE,
    ),
    *(
        ASCEND_RUN.format(
            suite="fig8", attention=name, weights=weights, length=ASCENTS["fig8"]["length"], seed=seed
        )
        for name in ("dp", "l2_tied")
        for weights in (["random", "trained"] if name in TRAINED else ["random"])
        for seed in ONE
    ),
]


def ascend_settings(wildcards):
    own = ASCENTS[wildcards.suite]
    size = {"dim": 1, "heads": 1} if wildcards.suite != "fig8" else looked_at_size(wildcards, own)
    return {
        "attention": wildcards.attention,
        "weights": wildcards.weights,
        "p": P_OF[wildcards.suite],
        "length": int(wildcards.length),
        **size,
        **{key: own[key] for key in ("starts", "row_steps", "steps", "lr", "spread", "top") if key in own},
    }


# invert
INVERSION = L2["inversion"]
INVERT_RUN = f"{L_RUNS}/invert/{{suite}}/{{attention}}/{{weights}}/{{length}}x{{dim}}/seed{{seed}}"
INVERT_RUNS = [
    INVERT_RUN.format(suite=suite, attention=name, weights=weights, length=length, dim=dim, seed=seed)
    for suite, names, weights, lengths, dims in (
        ("fig3", INVERSION["attentions"], "random", [INVERSION["length"]], [INVERSION["dim"]]),
        ("fig5", TRAINED, "trained", [INVERSION["length"]], [L2["network"]["dim"]]),
        (
            "fig6",
            [name for name in INVERSION["attentions"] if name != "contractive"],  # figure 3 shows it
            "random",
            INVERSION["lengths"],
            INVERSION["dims"],
        ),
    )
    for name in names
    for length in lengths
    for dim in dims
    for seed in ONE
]


def invert_settings(wildcards):
    trained = wildcards.weights == "trained"
    return {
        "attention": wildcards.attention,
        "weights": wildcards.weights,
        "length": int(wildcards.length),
        "dim": int(wildcards.dim),
        "heads": L2["network"]["heads"] if trained else INVERSION["heads"],
        **{key: INVERSION[key] for key in ("batch", "c", "iterations")},
    }


# examine
EXAMINE = L2["examine"]
EXAMINE_RUN = f"{L_RUNS}/examine/{{protocol}}/seed{{seed}}"
OUTPUTS_RUN = f"{L_RUNS}/examine/outputs/{{attention}}/{{weights}}/seed{{seed}}"
PROTOCOLS = {
    "theorem_3_1": ("lengths", "dims", "heads", "spreads"),
    "lemma_f_1": ("lengths", "dims", "spreads"),
    "masks": ("lengths", "dims", "heads", "spreads"),
    "dropout": ("keep", "dims", "lengths"),
}
EXAMINE_RUNS = [
    *expand(EXAMINE_RUN, protocol=PROTOCOLS, seed=ONE),
    *(
        OUTPUTS_RUN.format(attention=name, weights=weights, seed=seed)
        for name in ("dp", "l2_tied")
        for weights in (["random", "trained"] if name in TRAINED else ["random"])
        for seed in ONE
    ),
]


def examine_settings(wildcards):
    keys = PROTOCOLS[wildcards.protocol]
    return {"protocol": wildcards.protocol, **{key: EXAMINE[key] for key in keys}}


def outputs_settings(wildcards):
    own = {"protocol": "outputs", "attention": wildcards.attention, "weights": wildcards.weights}
    size = {"length": INVERSION["length"], "batch": INVERSION["batch"], "bins": EXAMINE["bins"]}
    return {**own, **size, **looked_at_size(wildcards, INVERSION)}


# clock
CLOCK = L2["clock"]
CLOCK_RUN = f"{L_RUNS}/clock/{{attention}}/seed{{seed}}"
CLOCK_RUNS = expand(CLOCK_RUN, attention=["dp", "l2", "l2_tied", "contractive"], seed=ONE)


def clock_settings(wildcards):
    keys = ("layers", "pairs", "dim", "heads", "ffn", "batch_size")
    return {
        "attention": wildcards.attention,
        "max_length": CHARACTERS["max_length"],
        **{key: CLOCK[key] for key in keys},
    }

# render
