"""Ranges of ``freelb`` in params.yaml and the rules between its keys, by hand; ``test_schema`` tries them."""

from typing import Any

from ...params.rules import (
    BETAS,
    COUNT,
    FLAG,
    NOT_NEGATIVE,
    POSITIVE,
    SEEDS,
    SEVERAL,
    SHARE,
    Range,
    Rule,
    only_with,
    rule,
)

S = "freelb"
RUNS, OWN, COMPARED = f"{S}.finetune.runs", f"{S}.encoders", f"{S}.max_loss_increase.tasks"
D, A = f"{S}.finetune.decisive", f"{S}.finetune.second_encoder"
RUN: dict[str, Any] = {
    "encoder": "roberta",
    "name": "acceptability",
    "task": "acceptability",
    "methods": ["freelb", "pgd", "vanilla"],
    "init_from": "",
    "joint_tasks": [],
    "train_samples": 100,
    "dev_samples": 10,
    "test_samples": 0,
    "max_length": 16,
    "steps": 20,
    "warmup_steps": 2,
    "batch_size": 8,
    "gradient_accumulation_steps": 1,
    "lr": 0.1,
    "weight_decay": 0.01,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "clip_norm": 0.5,
    "passes": 3,
    "step_size": 0.1,
    "start_norm": 0.1,
    "eps": 0.3,
    "project": True,
}


def with_one(**own: Any) -> list[dict[str, Any]]:
    """A run of ALBERT with its own values, and a run of RoBERTa that other keys need."""
    return [{**RUN, "encoder": "albert", **own}, RUN]


# of a key of a run: (allowed, refused)
OF_A_RUN: dict[str, Range] = {
    "encoder": (["albert", "bert"], ["gpt", "", 1]),
    "name": ([], ["Acceptability", "1st", "a-b", "", 1]),
    "task": ([], ["glue", "", 1]),
    "methods": (
        [["vanilla"], ["free_at", "yopo_2_whole"]],
        [[], ["adversarial"], ["pgd", "pgd"], "pgd"],
    ),
    "init_from": ([""], ["A", 1, None]),
    "joint_tasks": ([["cola"], ["cola", "regents"]], [["glue"], ["cola", "cola"], "cola"]),
    "train_samples": ([0, 8], SEVERAL[1]),
    "dev_samples": SEVERAL,
    "test_samples": SEVERAL,
    "max_length": ([8, 32], [7, 16.0]),
    "steps": ([2, 20], [0, 2.0]),
    "warmup_steps": ([0, 20], [-1, 2.0]),
    "batch_size": COUNT,
    "gradient_accumulation_steps": ([1, 8], [0, 1.0]),
    "lr": POSITIVE,
    "weight_decay": NOT_NEGATIVE,
    "dropout": SHARE,
    "attention_dropout": SHARE,
    "clip_norm": NOT_NEGATIVE,
    "passes": COUNT,
    "step_size": NOT_NEGATIVE,
    "start_norm": NOT_NEGATIVE,
    "eps": ([0.5], NOT_NEGATIVE[1]),
    "project": FLAG,
}
RANGES: dict[str, Range] = {
    f"{S}.seeds": SEEDS,
    f"{S}.corpus.dataset": (["imdb", "pydoc_topics"], ["wikipedia", 1]),
    f"{S}.corpus.samples": SEVERAL,
    f"{OWN}.roberta.checkpoint": (["", "FacebookAI/roberta-large"], [None, 1]),
    f"{OWN}.roberta.layers": COUNT,
    f"{OWN}.roberta.heads": ([1, 2, 32], [0, 2.0]),
    f"{OWN}.albert.dim": ([2, 64], [0, 64.0]),
    f"{OWN}.albert.embedding_dim": COUNT,
    f"{OWN}.bert.ffn": COUNT,
    f"{OWN}.bert.dropout": SHARE,
    f"{OWN}.bert.attention_dropout": SHARE,
    f"{OWN}.bert.vocabulary": ([261, 4096], [260, 300.0]),
    f"{OWN}.bert.max_length": ([32, 512], [7, 32.0]),
    f"{S}.pretrain_encoder.mlm_probability": ([0.01, 1], [0, 1.1]),
    f"{S}.pretrain_encoder.steps": ([100], [0, 100.0]),
    f"{S}.pretrain_encoder.warmup_steps": SEVERAL,
    f"{S}.pretrain_encoder.betas": BETAS,
    f"{S}.pretrain_encoder.adam_eps": POSITIVE,
    f"{S}.pretrain_encoder.schedule": (["cosine", "constant"], ["step", 1]),
    f"{S}.pretrain_encoder.clip_norm": NOT_NEGATIVE,
    f"{S}.finetune.schedule": (["cosine", "constant"], ["step", 1]),
    f"{S}.finetune.betas": BETAS,
    f"{S}.finetune.evaluations": COUNT,
    f"{S}.finetune.clean_first": FLAG,
    f"{S}.finetune.free_at_rate": ([0.1, 1], [0, 1.1]),
    f"{S}.finetune.wide": ([1.1, 3], [1, 0.5, float("nan")]),
    f"{D}.tasks": ([[], ["acceptability"]], [["Cola"], ["acceptability", "acceptability"], "acceptability"]),
    f"{D}.other_seeds": ([0, 3], [-1, 1.5]),
    f"{D}.held_out": SEVERAL,
    f"{D}.tuning_seeds": ([[3], [100, 101]], [[], [-1], [5, 5]]),
    f"{D}.rates": ([[], [1.0e-3, 2.0e-3]], [[2.0e-3, 1.0e-3], [0], 1.0]),
    f"{D}.radii": ([[1.0], [0.5, 3.0]], [[], [3.0, 1.0], [0]]),
    f"{A}.tasks": ([[]], [["Cola"], ["acceptability", "acceptability"], "acceptability"]),
    f"{A}.pretrain_seed": ([0, 7], [-1, 1.0]),
    f"{A}.seeds": COUNT,
    f"{A}.rates": ([[1.0e-3], [1.0e-3, 2.0e-3]], [[], [2.0e-3, 1.0e-3], [0], 1.0]),
    f"{A}.methods": ([["vanilla"], ["freelb", "pgd_as_freelb"]], [[], ["pgd_as"], ["pgd", "pgd"], "pgd"]),
    f"{S}.finetune.mask": (["always", "start"], ["never", True]),
    RUNS: (
        [
            [RUN],
            *(with_one(**{key: value}) for key, (allowed, _) in OF_A_RUN.items() for value in allowed),
        ],
        [
            *([], RUN),
            *(with_one(**{key: value}) for key, (_, refused) in OF_A_RUN.items() for value in refused),
        ],
    ),
    COMPARED: ([[], ["acceptability"]], [["Cola"], ["acceptability", "acceptability"], "acceptability"]),
    f"{S}.max_loss_increase.samples": SEVERAL,
    f"{S}.max_loss_increase.steps": COUNT,
    f"{S}.max_loss_increase.step_size": POSITIVE,
    f"{S}.max_loss_increase.eps_frac": POSITIVE,
    f"{S}.max_loss_increase.radius_decay": ([0.01, 0.99], [0, 1, 1.1]),
    f"{S}.max_loss_increase.restarts": COUNT,
    f"{S}.max_loss_increase.batch_size": COUNT,
    f"{S}.ensemble.methods": ([[], ["vanilla", "pgd"]], [["mean"], ["pgd", "pgd"], "pgd"]),
    f"{S}.ensemble.members": ([1, 7, 100], [0, 2.0, 101]),
    f"{S}.ensemble.csqa_members": ([1, 20], [0, 101]),
    f"{S}.images.dataset": (["digits", "cifar10"], ["imagenet", 1]),
    f"{S}.images.train_per_class": ([20, 130], [-1, 20.0]),
    f"{S}.train_images_adversarially.methods": (
        [["vanilla"], ["freelb", "pgd", "free_at"]],
        [[], ["yopo_2"], ["pgd", "pgd"], "pgd"],
    ),
    f"{S}.train_images_adversarially.network.name": (["ResNet18", "SENet18"], ["ResNet-18", 1]),
    f"{S}.train_images_adversarially.network.width": ([0.125, 4], [0, 4.5]),
    f"{S}.train_images_adversarially.network.depth": ([0.125, 4], [0, 4.5]),
    f"{S}.train_images_adversarially.train.momentum": SHARE,
    f"{S}.train_images_adversarially.train.schedule": (["cosine", "step"], ["linear", 1]),
    f"{S}.train_images_adversarially.train.crop_padding": ([0, 16], [-1, 17, 1.0]),
    f"{S}.train_images_adversarially.train.batch_size": ([2, 64], [1, 64.0]),
    f"{S}.train_images_adversarially.perturbation.passes": COUNT,
    f"{S}.train_images_adversarially.perturbation.norm": (["linf", "l2"], ["frobenius", 2]),
    f"{S}.train_images_adversarially.perturbation.eps": ([0.5], NOT_NEGATIVE[1]),
    f"{S}.train_images_adversarially.perturbation.step_size": NOT_NEGATIVE,
    f"{S}.train_images_adversarially.perturbation.start_norm": NOT_NEGATIVE,
    f"{S}.train_images_adversarially.perturbation.project": FLAG,
    f"{S}.train_images_adversarially.attack.eps": POSITIVE,
    f"{S}.train_images_adversarially.attack.step_size": POSITIVE,
    f"{S}.train_images_adversarially.attack.steps": COUNT,
    f"{S}.train_images_adversarially.attack.restarts": COUNT,
    f"{S}.train_images_adversarially.attack.images": ([0, 100], [-1, 100.0]),
}
TRAINED, TESTED = f"{S}.images.train_per_class", f"{S}.train_images_adversarially.attack.images"
BATCH, CIFAR = f"{S}.train_images_adversarially.train.batch_size", {f"{S}.images.dataset": "cifar10"}
ALL = {TESTED: 0}
ALBERT = f"{OWN}.albert"


def runs(*own: dict[str, Any]) -> dict[str, Any]:
    """The run that other keys need, and some more behind it, RoBERTa's where they say no other."""
    return {RUNS: [RUN, *({**RUN, **one} for one in own)]}


def run_rule(key: str, within: dict[str, Any], beyond: dict[str, Any], **other: Any) -> Rule:
    """A run of another task that is just allowed, and one that is not."""
    second = {"name": "cola", "task": "cola"}
    return (
        {**runs({**second, **within}), **other},
        {**runs({**second, **beyond}), **other},
        f"{RUNS}[1].{key}",
    )


JOINT = {"name": "joint", "joint_tasks": ["sst2"]}
FROM = {"name": "second", "init_from": "acceptability"}
AGAIN = {f"{D}.tasks": ["acceptability"], f"{A}.tasks": ["acceptability"]}
RULES: list[Rule] = [
    rule(f"{ALBERT}.dim", 66, 65),
    only_with({f"{ALBERT}.checkpoint": "a_model"}, f"{ALBERT}.dim", 65),
    run_rule("name", {"encoder": "bert", "name": "cola"}, {"name": "acceptability", "task": "acceptability"}),
    *(run_rule("name", allowed, {"name": allowed["name"]}) for allowed in (JOINT, FROM)),
    run_rule("name", {"name": "qnli_ranking", "task": "qnli"}, {"name": "cola_ranking"}),
    run_rule("warmup_steps", {"steps": 20, "warmup_steps": 20}, {"steps": 20, "warmup_steps": 21}),
    run_rule("max_length", {"max_length": 32}, {"max_length": 33}),
    (
        {**runs({**FROM, "max_length": 33}), f"{OWN}.roberta.checkpoint": "a_model"},
        runs({**FROM, "max_length": 33}),
        f"{RUNS}[1].max_length",
    ),
    run_rule("batch_size", {"train_samples": 50, "batch_size": 50}, {"train_samples": 50, "batch_size": 51}),
    run_rule("batch_size", {"train_samples": 0, "batch_size": 51}, {"train_samples": 50, "batch_size": 51}),
    *(
        run_rule(
            "gradient_accumulation_steps",
            {"batch_size": 12, "gradient_accumulation_steps": 4},
            {"batch_size": 12, "gradient_accumulation_steps": wrong},
        )
        for wrong in (5, 24)
    ),
    run_rule("eps", {"eps": 0.0, "project": False}, {"eps": 0.0, "project": True}),
    # what a run starts from stands above it, is of the same encoder and has the plain method
    *(
        run_rule("init_from", FROM, wrong)
        for wrong in (
            {**FROM, "encoder": "bert"},
            {**FROM, "init_from": "second"},
            {**FROM, "init_from": "third"},
        )
    ),
    (
        runs({"encoder": "bert"}, {**FROM, "encoder": "bert"}),
        runs({"encoder": "bert", "methods": ["freelb"]}, {**FROM, "encoder": "bert"}),
        f"{RUNS}[2].init_from",
    ),
    run_rule("joint_tasks", JOINT, {**JOINT, "joint_tasks": ["sst2", "cola"]}),
    # a compared task was trained by all three methods and has correct answers
    *(
        (
            {**runs({"name": "cola", "task": "cola"}), COMPARED: ["acceptability", "cola"]},
            {**runs({"name": "cola", "task": "cola", **wrong}), COMPARED: ["acceptability", "cola"]},
            f"{COMPARED}[1]",
        )
        for wrong in (
            {"methods": ["freelb", "vanilla"]},
            {"encoder": "albert"},
            {"name": "stsb", "task": "stsb"},
        )
    ),
    (
        {**runs(FROM | {"name": "stsc", "task": "cola"}), COMPARED: ["stsc"]},
        {**runs(FROM | {"name": "stsc", "task": "stsb"}), COMPARED: ["stsc"]},
        f"{COMPARED}[0]",
    ),
    (
        {**runs({**FROM, "methods": ["yopo_2"]}), f"{S}.ensemble.methods": ["vanilla", "yopo_2"]},
        {**runs({**FROM, "methods": ["yopo_3"]}), f"{S}.ensemble.methods": ["vanilla", "yopo_2"]},
        f"{S}.ensemble.methods[1]",
    ),
    rule(f"{S}.pretrain_encoder.warmup_steps", 20, 21, {f"{S}.pretrain_encoder.steps": 20}),
    # what decides the claims is trained from the encoder, and what chooses a rate decides nothing
    rule(f"{D}.tasks", ["acceptability"], [FROM["name"]], runs(FROM), at="[0]"),
    rule(f"{A}.tasks", ["acceptability"], ["cola"], {f"{D}.tasks": ["acceptability"]}, at="[0]"),
    *(
        rule(f"{A}.{key}", *values, AGAIN)
        for key, values in {"pretrain_seed": (1, 0), "seeds": (3, 4)}.items()
    ),
    rule(f"{A}.methods", ["freelb", "pgd_as_freelb"], ["pgd", "pgd_as_freelb"]),
    rule(f"{D}.tuning_seeds", [7, 3], [7, 2], at="[1]"),
    rule(f"{D}.other_seeds", 3, 4),
    rule(f"{D}.other_seeds", 3, 2),  # an ensemble has three members
    rule(TRAINED, 164, 165, ALL),
    rule(TRAINED, 7, 1),
    rule(TRAINED, 5000, 5001, CIFAR),
    rule(BATCH, 1300, 1301),
    rule(TESTED, 497, 498),  # what 10 x 130 leave of 1797
    rule(TESTED, 10_000, 10_001, CIFAR),
    only_with(
        {f"{S}.train_images_adversarially.perturbation.project": False},
        f"{S}.train_images_adversarially.perturbation.eps",
        0.0,
    ),
]
