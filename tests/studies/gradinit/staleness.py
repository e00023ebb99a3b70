"""What a parameter of ``gradinit`` touches; see ``test_staleness``."""

from collections.abc import Callable
from typing import Any

G = "gradinit"
IMAGES_OF, LISTING, CORPUS = (
    f"{G}/{step}" for step in ("prepare_images", "list_imagenet", "prepare_translation")
)
INIT, LEARN, TRANSLATE, STATISTICS = (
    f"{G}/{step}" for step in ("initialise", "train_from_init", "train_translation", "gradient_statistics")
)
CHECK, COUNT = f"{G}/check_batch_norm", f"{G}/count_params"
OF_GRADINIT = {IMAGES_OF, LISTING, CORPUS, INIT, LEARN, TRANSLATE, STATISTICS, CHECK, COUNT}
DATA = IMAGES_OF  # names the stage of all data
VGG, RES, MORE = "VGG-19-BN", "ResNet-110-BN", "ResNet-110"  # the last is in no list of the scratch checkout


def started(suite: str, network: str = "*", *names: str) -> list[str]:
    """Runs of an initialisation, the trainings from it, and the report."""
    runs = [f"{suite}/{network}/{name}" for name in names or ("*",)]
    return [f"{step}/{run}/*" for step in (INIT, LEARN) for run in runs] + ["render"]


# where the scratch checkout looks at gradients: VGG at the size of the first steps, ResNet at that of the grid
SEEN = [f"{STATISTICS}/first_steps/*", f"{STATISTICS}/grid/*"]
GRID, FIRST = [*started("grid"), SEEN[1]], [*started("first_steps"), SEEN[0]]
IMAGES = [*GRID, *FIRST]
TIMM = "timm-ResNet-50-BN"  # on ImageNet alone, from GradInit
IMAGENET = started("imagenet", TIMM, "gradinit")
TRANSLATED = [f"{INIT}/translation/*", f"{TRANSLATE}/*", f"{STATISTICS}/translation/*", "render"]
FORMS = ("gradinit", "gradinit_overlap_*", "gradinit_penalty_*", "gradinit_fix_bn")
SGD_FORM = [
    *started("grid", "*", *FORMS),
    *started("first_steps", "*", "gradinit"),
    f"{STATISTICS}/*/gradinit/*",
]
FREE = started("grid", VGG, "gradinit_free_*")
ADAM = started("grid", RES, "gradinit_adam")


def by_learned_start(*names: str) -> list[str]:
    return [f"{step}/*/{name}/*" for step in (f"{INIT}/translation", TRANSLATE) for name in names] + [
        "render"
    ]


BY_GRADINIT = by_learned_start("gradinit", "gradinit_sgd")
EXTRA = started("grid", "*", "extra_epoch_*")
SGD_RUNS = [f"{LEARN}/*/sgd/*", f"{LEARN}/*/steps/*"]
OTHER_SGD = [f"{LEARN}/*/scalars*/*", f"{LEARN}/*/imagenet/*"]  # with a rate of their own
NEW_RUNS = {INIT, LEARN, "render"}

TOUCHES: list[tuple[str, set[str], list[str]]] = [
    (f"{G}.seeds", NEW_RUNS | {STATISTICS}, [f"{G}/*/seed1", "render"]),
    (f"{G}.images.dataset", {DATA, INIT, LEARN, STATISTICS, "render"}, [f"{IMAGES_OF}/*", *IMAGES]),
    (f"{G}.images.*", {DATA}, [f"{IMAGES_OF}/*", *IMAGES]),
    (f"{G}.corpus.dataset", {DATA, INIT, LEARN, STATISTICS, "render"}, [f"{CORPUS}/*", *TRANSLATED]),
    (f"{G}.corpus.test_pairs", {DATA, LEARN}, [f"{CORPUS}/*", *TRANSLATED]),
    (f"{G}.corpus.*", {DATA}, [f"{CORPUS}/*", *TRANSLATED]),
    (f"{G}.network.resnet1202_depth", {INIT}, started("grid", "ResNet-1202-BN")),
    (
        f"{G}.network.depth",
        {INIT},
        [*started("grid", VGG), *started("grid", RES), *started("grid", "FixUp*"), SEEN[1], *IMAGENET],
    ),
    (f"{G}.network.*", {INIT}, [*GRID, *IMAGENET]),
    (f"{G}.initialise.batch_size", {INIT}, GRID),
    (
        f"{G}.initialise.iterations",
        {INIT},
        [*started("grid", "*", "gradinit*", "metainit*"), f"{STATISTICS}/grid/*/gradinit/*"],
    ),
    (  # as a penalty the norm has no bound
        f"{G}.initialise.gamma",
        {INIT},
        [pattern for pattern in SGD_FORM if "penalty" not in pattern],
    ),
    (f"{G}.initialise.eta", {INIT}, [*SGD_FORM, *FREE, *IMAGENET]),
    (f"{G}.initialise.normalised", {INIT}, [*SGD_FORM, *FREE]),  # ImageNet has its own
    *((f"{G}.initialise.{key}", {INIT}, [*SGD_FORM, *FREE, *ADAM, *IMAGENET]) for key in ("clip", "moments")),
    (  # a penalty is added to the loss itself
        f"{G}.initialise.divide_by_eta",
        {INIT},
        [pattern for pattern in [*SGD_FORM, *FREE, *ADAM, *IMAGENET] if "penalty" not in pattern],
    ),
    (
        f"{G}.initialise.overlap",  # the variants of table 4.1 and 4.2 have their own
        {INIT},
        [
            *started("grid", "*", "gradinit", "gradinit_penalty_*", "gradinit_fix_bn", "gradinit_adam"),
            *started("first_steps", "*", "gradinit"),
            f"{STATISTICS}/*/gradinit/*",
            *IMAGENET,
            *BY_GRADINIT,
        ],
    ),
    (f"{G}.initialise.min_scale", {INIT}, [*SGD_FORM, *FREE, *ADAM, *IMAGENET]),
    (
        f"{G}.initialise.tau.{VGG}",
        {INIT},
        [
            *started("grid", VGG, *FORMS),
            *started("first_steps", VGG, "gradinit"),
            f"{STATISTICS}/first_steps/*/gradinit/*",
        ],
    ),
    (
        f"{G}.initialise.tau.{RES}",
        {INIT},
        [*started("grid", RES, "gradinit*"), f"{STATISTICS}/grid/*/gradinit/*"],
    ),
    (f"{G}.initialise.tau.{TIMM}", {INIT}, IMAGENET),
    (f"{G}.initialise.tau.*", {INIT}, []),  # networks that GradInit does not meet here
    *(
        (f"{G}.initialise.free_tau.{key}", {INIT}, started("grid", VGG, f"gradinit_free_{name}"))
        for key, name in (("half", "0.5"), ("same", "1"), ("same_large", "1_large_tau"))
    ),
    (f"{G}.initialise.penalties", NEW_RUNS, ["render"]),  # one less
    (f"{G}.initialise.adam.*", {INIT}, ADAM),
    (f"{G}.initialise.metainit.*", {INIT}, started("grid", VGG, "metainit_*")),
    *(
        (f"{G}.initialise.metainit_adam.{key}", {INIT}, started("grid", VGG, "metainit"))
        for key in ("clip", f"tau.{VGG}")
    ),
    (f"{G}.initialise.metainit_adam.tau.*", {INIT}, []),  # networks that it does not meet here
    (f"{G}.initialise.densenet_batch_size", {INIT}, []),  # of networks that are not here
    (f"{G}.train.densenet_batch_size", {LEARN}, []),
    (f"{G}.initialise.lsuv.*", {INIT}, started("grid", VGG, "lsuv")),
    *((f"{G}.train.{key}", {LEARN}, [f"{LEARN}/grid/*", "render"]) for key in ("epochs", "batch_size")),
    (f"{G}.train.lr", {INIT, LEARN}, [*EXTRA, *SGD_RUNS]),
    (f"{G}.train.momentum", {INIT, LEARN}, [*EXTRA, *SGD_RUNS, *OTHER_SGD]),
    (f"{G}.train.weight_decay", {INIT, LEARN}, [*EXTRA, *SGD_RUNS, *OTHER_SGD]),
    *((f"{G}.train.{key}", {INIT, LEARN, STATISTICS}, IMAGES) for key in ("crop_padding", "flip", "cutout")),
    (f"{G}.train.clip_norm", {LEARN}, [f"{LEARN}/grid/FixUp*", "render"]),
    (f"{G}.train.mixup", {LEARN}, []),  # of a network that is not here
    (f"{G}.train.test_images", {LEARN}, [f"{LEARN}/grid/*", f"{LEARN}/first_steps/*", "render"]),
    (f"{G}.adamw.*", {LEARN}, [f"{LEARN}/*/adamw/*", "render"]),
    (f"{G}.scalars.lr", {LEARN}, [f"{LEARN}/*/scalars/*", "render"]),
    (f"{G}.scalars.low_lr", {LEARN}, [f"{LEARN}/*/scalars_low_lr/*", "render"]),
    *((f"{G}.networks.{name}", NEW_RUNS, started("grid", MORE, name)) for name in ("kaiming", "gradinit")),
    *(
        (f"{G}.networks.{name}", NEW_RUNS, started("grid", MORE, f"{name}{rest}"))
        for pattern, rest in (
            ("gradinit_fix_bn gradinit_only_bn gradinit_tuned", ""),
            ("gradinit_overlap gradinit_free gradinit_penalty", "_*"),
        )
        for name in pattern.split()
    ),
    *(
        (f"{G}.networks.{name}", NEW_RUNS, started("grid", MORE, name))
        for name in (
            "metainit",
            "metainit_random_sign",
            "metainit_real_sign",
            "extra_epoch_constant",
            "extra_epoch_warmup",
        )
    ),
    *(
        (f"{G}.networks.{name}", NEW_RUNS, started("grid", MORE, name))
        for name in ("fixup", "xavier", "orthogonal", "lsuv", "none")
    ),
    (f"{G}.adamw_networks", NEW_RUNS, started("grid", MORE, "kaiming", "gradinit_adam")),
    (f"{G}.scalar_networks", NEW_RUNS, started("grid", MORE, "kaiming")),
    (
        f"{G}.first_steps.seeds",
        NEW_RUNS | {STATISTICS},
        [*(f"{step}/first_steps/*/seed1" for step in (INIT, LEARN, STATISTICS)), "render"],
    ),
    (f"{G}.tuning.*", {INIT, LEARN}, []),  # no seeds, nothing to try, or no network to try it on
    (f"{G}.translation.other_seeds", {INIT, LEARN, TRANSLATE, STATISTICS}, []),  # there is one seed
    (f"{G}.first_steps.networks", NEW_RUNS, started("first_steps", MORE)),
    (f"{G}.first_steps.initialisations", NEW_RUNS, started("first_steps", VGG, "metainit")),
    (f"{G}.first_steps.steps", {LEARN}, [f"{LEARN}/first_steps/*", "render"]),
    (f"{G}.first_steps.batch_size", {INIT, LEARN}, FIRST),
    (
        f"{G}.first_steps.iterations",
        {INIT},
        [*started("first_steps", VGG, "gradinit"), f"{STATISTICS}/first_steps/*/gradinit/*"],
    ),
    (f"{G}.first_steps.*", {INIT}, FIRST),
    *(
        (f"{G}.imagenet.networks.{name}", NEW_RUNS, started("imagenet", MORE, name))
        for name in ("kaiming", "fixup", "metainit", "gradinit")
    ),
    (f"{G}.imagenet.size", {INIT, LEARN}, IMAGENET),
    (f"{G}.imagenet.initialise.*", {INIT}, IMAGENET),
    (f"{G}.imagenet.gpus", {LEARN}, []),  # no setting of a run
    (f"{G}.imagenet.mixup", {LEARN}, []),  # of a network that is not here
    (f"{G}.imagenet.*", {LEARN}, [f"{LEARN}/imagenet/*", "render"]),
    (f"{G}.probe.networks", {STATISTICS, "render"}, [f"{STATISTICS}/grid/ResNet-1202-BN/*", "render"]),
    (f"{G}.probe.variance_draws", {CHECK}, [f"{CHECK}/*", "render"]),
    (f"{G}.probe.*", {STATISTICS}, [*SEEN, "render"]),
    (f"{G}.extra_seeds.*", {INIT, LEARN}, []),  # of no network
    (
        f"{G}.translation.seeds",
        NEW_RUNS | {STATISTICS},
        [*(f"{one}/seed1" for one in TRANSLATED[:3]), "render"],
    ),
    (f"{G}.translation.network.*", {INIT}, TRANSLATED),
    (f"{G}.translation.initialise.max_tokens", {INIT, STATISTICS}, TRANSLATED),
    (f"{G}.translation.initialise.*", {INIT}, BY_GRADINIT),
    (f"{G}.translation.adam.*", {INIT}, by_learned_start("gradinit")),
    (f"{G}.translation.sgd.*", {INIT}, by_learned_start("gradinit_sgd")),
    (f"{G}.translation.train.label_smoothing", {INIT, LEARN, STATISTICS}, TRANSLATED),
    (f"{G}.translation.train.short_warmup.*", {LEARN}, []),  # of a recipe that is not here
    (f"{G}.translation.train.warmup_steps", {LEARN}, [f"{TRANSLATE}/*/adam_warmup/*", "render"]),
    (
        f"{G}.translation.train.lr",
        {LEARN},
        [f"{TRANSLATE}/*/adam/*", f"{TRANSLATE}/*/adam_warmup/*", "render"],
    ),
    (f"{G}.translation.train.sgd_lr", {LEARN}, [f"{TRANSLATE}/*/sgd/*", "render"]),
    (
        f"{G}.translation.train.betas",
        {LEARN},
        [*(f"{TRANSLATE}/*/{recipe}/*" for recipe in ("adam", "adam_warmup")), "render"],
    ),
    (
        f"{G}.translation.train.decoupled_decay",
        {LEARN},
        [*(f"{TRANSLATE}/*/{recipe}/*" for recipe in ("adam", "adam_warmup", "adam_lr*")), "render"],
    ),
    (f"{G}.translation.train.*", {LEARN}, [f"{TRANSLATE}/*", "render"]),
    (f"{G}.translation.beam.*", {LEARN}, [f"{TRANSLATE}/*", "render"]),
    (f"{G}.translation.runs", NEW_RUNS, ["render"]),  # one less
    (f"{G}.translation.grid.runs", {LEARN, "render"}, [f"{TRANSLATE}/post_ln/xavier/adam_lr*", "render"]),
    (f"{G}.translation.grid.lr", {LEARN, "render"}, [f"{TRANSLATE}/*/adam_lr0.001_*", "render"]),
    (f"{G}.translation.grid.beta2", {LEARN, "render"}, [f"{TRANSLATE}/*/adam_lr*_b0.99/*", "render"]),
    (
        f"{G}.translation.probe.runs",
        {STATISTICS, "render"},
        [f"{STATISTICS}/translation/*/gradinit/*", "render"],
    ),
    (f"{G}.translation.probe.*", {STATISTICS}, [f"{STATISTICS}/translation/*", "render"]),
]

FLIPS: dict[str, Callable[[Any], Any]] = {
    f"{G}.seeds": lambda seeds: [*seeds, 1],
    f"{G}.extra_seeds.initialisations": lambda names: ["kaiming"],
    f"{G}.extra_seeds.seeds": lambda seeds: [7],
    f"{G}.translation.seeds": lambda seeds: [0, 1],
    f"{G}.first_steps.seeds": lambda seeds: [0, 1],
    f"{G}.tuning.*.seeds": lambda seeds: [7],
    f"{G}.tuning.*": lambda values: [0.5],
    f"{G}.images.dataset": lambda name: "cifar10",
    f"{G}.corpus.dataset": lambda name: "multi30k",
    f"{G}.initialise.moments": lambda name: "shared",
    f"{G}.initialise.penalties": lambda values: values[:-1],
    f"{G}.probe.networks": lambda names: [*names, "ResNet-1202-BN"],
    f"{G}.first_steps.initialisations": lambda names: [*names, "metainit"],
    f"{G}.*networks*": lambda names: [*names, MORE],
    f"{G}.translation.network.dim": lambda n: 2 * n,
    f"{G}.translation.network.heads": lambda n: n // 2,
    f"{G}.translation.train.schedule": lambda name: "cosine",
    f"{G}.translation.train.steps": lambda n: n - 1,
    f"{G}.imagenet.milestones": lambda epochs: epochs[:-1],
    f"{G}.translation.train.betas": lambda betas: [betas[0], 0.99],
    f"{G}.translation.runs": lambda names: names[:-1],
    f"{G}.translation.grid.runs": lambda names: [*names, "post_ln/xavier"],
    f"{G}.translation.grid.lr": lambda values: [*values, 0.001],
    f"{G}.translation.grid.beta2": lambda values: [*values, 0.99],
    f"{G}.translation.probe.runs": lambda names: [*names, "post_ln/gradinit"],
}
QUICK = {
    f"{G}.initialise.eta",
    f"{G}.initialise.tau.{VGG}",
    f"{G}.train.lr",
    f"{G}.networks.gradinit_penalty",
    f"{G}.imagenet.size",
    f"{G}.imagenet.gpus",
    f"{G}.first_steps.width",
    f"{G}.translation.adam.gamma",
    f"{G}.translation.grid.lr",
    f"{G}.probe.variance_draws",
}
