"""What a parameter of ``l2_attention`` touches; see ``test_staleness``."""

from collections.abc import Callable
from typing import Any

L = "l2_attention"
LINES, TRAIN, ASCEND, INVERT, THEOREMS, OUTPUTS, TIMES = (
    f"{L}/{step}"
    for step in (
        *("prepare_ptb_lines", "train_char_lm", "lipschitz_lower_bound", "invert_residual"),
        *("check_theorems", "attention_outputs", "time_training_step"),
    )
)
STEPS = {LINES, TRAIN, ASCEND, INVERT, THEOREMS, OUTPUTS, TIMES}
# runs that examine the attention of a trained model
LOOKS = [f"{ASCEND}/fig8/*/trained/*", f"{INVERT}/fig5/*", f"{OUTPUTS}/*/trained/*"]
LOOKING = {ASCEND, INVERT, OUTPUTS}
MODELS = [f"{TRAIN}/*", *LOOKS, "render"]
TEXT = [f"{LINES}/*", *MODELS, f"{TIMES}/*"]
DRAWN = [f"{INVERT}/*/random/*", f"{OUTPUTS}/*/random/*", "render"]
OF_PROTOCOL = {
    "lengths": ("theorem_3_1", "lemma_f_1", "masks", "dropout"),
    "dims": ("theorem_3_1", "lemma_f_1", "masks", "dropout"),
    "heads": ("theorem_3_1", "masks"),
    "spreads": ("theorem_3_1", "lemma_f_1", "masks"),
    "keep": ("dropout",),
}

TOUCHES: list[tuple[str, set[str], list[str]]] = [
    (f"{L}.seeds", {TRAIN, "render"}, [f"{TRAIN}/*/seed1", "render"]),
    (f"{L}.characters.dataset", {LINES, TRAIN, TIMES, "render"}, TEXT),  # in the name of a folder
    (f"{L}.characters.max_length", {LINES, TRAIN, TIMES}, TEXT),
    (f"{L}.characters.*", {LINES}, TEXT),
    (f"{L}.network.dim", {TRAIN, "render"} | LOOKING, MODELS),  # a folder of figure 5 has it in its name
    (f"{L}.network.heads", {TRAIN} | LOOKING, MODELS),
    (f"{L}.network.*", {TRAIN}, MODELS),
    (f"{L}.shown_dim", {TRAIN, "render"} | LOOKING, [f"{TRAIN}/shown/*", *LOOKS, "render"]),
    (f"{L}.train.*", {TRAIN}, MODELS),
    (  # one recipe more is tried, so another may be chosen
        f"{L}.warmup.gamma",
        {TRAIN, "render"} | LOOKING,
        [f"{TRAIN}/tuning/*/warmup_g4_*", f"{TRAIN}/*/warmup_chosen/*", *LOOKS, "render"],
    ),
    (f"{L}.warmup.*", {TRAIN, "render"} | LOOKING, [f"{TRAIN}/*/warmup_*", *LOOKS, "render"]),
    (f"{L}.fixed.*", {TRAIN, "render"}, [f"{TRAIN}/*/fixed_*", "render"]),
    *(
        (
            f"{L}.depths.warmup.{kind}",
            {TRAIN, "render"},
            [f"{TRAIN}/{tuned}{kind}/{new}/warmup_*" for tuned in ("", "tuning/")] + ["render"],
        )
        for new, kinds in ((2, ("lstm", "dp", "l2_tied")), (3, ("l2", "l2_matched", "contractive")))
        for kind in kinds
    ),
    *(
        (f"{L}.depths.fixed.{kind}", {TRAIN, "render"}, [f"{TRAIN}/{kind}/3/fixed_*", "render"])
        for kind in ("dp", "dp_l2_start", "l2_tied", "contractive")
    ),
    (f"{L}.figure_2.lengths", {ASCEND, "render"}, [f"{ASCEND}/fig2/*/1001/*", "render"]),
    (f"{L}.figure_7.lengths", {ASCEND, "render"}, [f"{ASCEND}/fig7/*/11/*", "render"]),
    (f"{L}.figure_8.length", {ASCEND, "render"}, [f"{ASCEND}/fig8/*", "render"]),
    *((f"{L}.figure_8.{key}", {ASCEND}, [f"{ASCEND}/fig8/*/random/*", "render"]) for key in ("dim", "heads")),
    *((f"{L}.figure_{number}.*", {ASCEND}, [f"{ASCEND}/fig{number}/*", "render"]) for number in (2, 7, 8)),
    (f"{L}.inversion.attentions", {INVERT, "render"}, [f"{INVERT}/*/contractive/*", "render"]),
    (
        f"{L}.inversion.length",
        {INVERT, OUTPUTS, "render"},
        [f"{INVERT}/fig3/*", f"{INVERT}/fig5/*", f"{OUTPUTS}/*", "render"],
    ),
    (
        f"{L}.inversion.dim",
        {INVERT, OUTPUTS, "render"},
        [f"{INVERT}/fig3/*", f"{OUTPUTS}/*/random/*", "render"],
    ),
    (f"{L}.inversion.lengths", {INVERT, "render"}, [f"{INVERT}/fig6/*/17x*", "render"]),
    (f"{L}.inversion.dims", {INVERT, "render"}, [f"{INVERT}/fig6/*x128/*", "render"]),
    (f"{L}.inversion.heads", {INVERT, OUTPUTS}, DRAWN),
    (f"{L}.inversion.batch", {INVERT, OUTPUTS}, [f"{INVERT}/*", f"{OUTPUTS}/*", "render"]),
    (f"{L}.inversion.*", {INVERT}, [f"{INVERT}/*", "render"]),
    (f"{L}.examine.bins", {OUTPUTS}, [f"{OUTPUTS}/*", "render"]),
    *(
        (f"{L}.examine.{key}", {THEOREMS}, [*(f"{THEOREMS}/{name}/*" for name in names), "render"])
        for key, names in OF_PROTOCOL.items()
    ),
    (f"{L}.clock.*", {TIMES}, [f"{TIMES}/*", "render"]),
]
FLIPS: dict[str, Callable[[Any], Any]] = {
    f"{L}.seeds": lambda seeds: [*seeds, 1],
    f"{L}.characters.dataset": lambda name: "ptb",
    f"{L}.network.norm": lambda name: "no_norm",
    f"{L}.network.glorot": lambda name: "printed",
    f"{L}.*.heads": lambda n: n // 2,
    f"{L}.*.dim": lambda n: 2 * n,
    f"{L}.shown_dim": lambda n: 64,
    f"{L}.train.betas": lambda betas: [betas[0], 0.99],
    f"{L}.warmup.gamma": lambda values: [*values, 4.0],
    f"{L}.warmup.warmup_steps": lambda values: [values[0] + 1],
    f"{L}.*.dropout": lambda values: [0.1],
    f"{L}.fixed.lr": lambda values: [values[0] / 2],
    f"{L}.depths.*": lambda depths: [*depths, depths[-1] + 1],
    f"{L}.*.lengths": lambda values: [*values, values[-1] + 1],
    f"{L}.*.dims": lambda values: [*values, 2 * values[-1]],
    f"{L}.*.top": lambda n: n - 1,
    f"{L}.inversion.attentions": lambda names: [*names, "contractive"],
    f"{L}.inversion.c": lambda values: values[:-1],
    f"{L}.examine.spreads": lambda values: values[:-1],
    f"{L}.clock.layers": lambda values: [*values, values[-1] + 1],
}
QUICK = {
    f"{L}.characters.test_sentences",
    f"{L}.network.dim",
    f"{L}.warmup.gamma",
    f"{L}.warmup.dropout",
    f"{L}.depths.fixed.dp",
    f"{L}.figure_7.lengths",
    f"{L}.inversion.heads",
    f"{L}.examine.spreads",
    f"{L}.clock.pairs",
}
# an edited bound: the stages that it changes itself, and the runs that are made again
BY_A_BOUND = (
    {TRAIN, ASCEND, INVERT, THEOREMS, OUTPUTS, TIMES},
    [f"{TRAIN}/*", f"{ASCEND}/*", f"{INVERT}/*", f"{THEOREMS}/*", f"{OUTPUTS}/*", f"{TIMES}/*", "render"],
)
