"""Computational work of the steps: LRA encoders, character models with a cache, converted RoBERTa, vision networks."""

from __future__ import annotations

from relearn.studies.work import (
    FORWARD,
    TRAIN,
    Job,
    Net,
    Pass,
    Unknown,
    Work,
    epochs,
    transformer,
    vision_net,
)

SIZES = ("layers", "dim", "heads", "ffn", "pooling")
CHARACTERS = 205
MODEL = (
    "attention",
    "dual_norm",
    "as_released",
    "layers",
    "dim",
    "heads",
    "ffn",
    "window",
    "segment",
    "rank",
)
UNITS = {"listops": 17, "text": 257, "retrieval": 257, "image": 257, "pathfinder": 257}


def train_lra(job: Job) -> Work:
    made = job.made("data")
    if not made:
        raise Unknown(job.folder)
    given, task = job.settings, made[0].settings
    length, name = task["max_length"], task["task"]
    net = Net(
        "relearn.models.lra_encoder:create",
        {
            "attention": given["attention"],
            **{key: given[key] for key in SIZES},
            "dropout": 0.0,
            "attention_dropout": 0.0,
            "vocabulary": UNITS.get(name, 257),
            "classes": 10,
            "max_length": length,
            "attention_arguments": given["arguments"],
        },
        (length,),
    )
    pairs = 2 if name == "retrieval" else 1
    tested = given["evaluations"] * task["valid_samples"] + task["test_samples"]
    passes = [
        Pass(net, given["steps"], pairs * given["batch_size"], TRAIN),
        epochs(net, pairs * tested, given["batch_size"], 1, FORWARD),
    ]
    return Work(passes, given["attention"])


def train_long_char_lm(job: Job) -> Work:
    given = job.settings
    arguments = {key: given[key] for key in MODEL if key in given} | {
        "vocabulary": CHARACTERS,
        "dropout": 0.0,
    }

    def net(length: int) -> Net:
        return Net("relearn.models.long_short_lm:create", arguments, (length,))

    passes = [
        Pass(net(phase["length"]), phase["steps"], phase["batch_size"], TRAIN) for phase in given["phases"]
    ]
    way = given["evaluation"]
    characters = way["characters"] or 5_000_000
    windows = 2 * characters / way["step"] + 2 * characters / way["context"]
    passes.append(Pass(net(way["context"]), max(1.0, windows / way["batch_size"]), way["batch_size"]))
    return Work(passes)


def convert_roberta(job: Job) -> Work:
    given = job.settings
    passes = []
    for key, masked in (("pretrain", True), ("convert_pretrain", True), ("finetune", False)):
        phase = given.get(key)
        if not phase or (key == "pretrain" and given.get("checkpoint")):
            continue
        length = (
            given["config"]["max_length"]
            if key == "pretrain"
            else given["max_length"] or given["config"]["max_length"]
        )
        sizes = {name: given["config"][name] for name in ("layers", "dim", "heads", "ffn")}
        vocabulary = given["config"]["vocabulary"] if masked else 0
        one = transformer(**sizes, length=length, vocabulary=vocabulary, calls=40)
        passes.append(Pass(one, phase["steps"], phase["batch_size"], TRAIN))
        if not masked:
            tested = given["evaluations"] * given["valid_samples"] + given["test_samples"]
            passes.append(epochs(one, tested, phase["batch_size"], 1, FORWARD))
    return Work(passes)


def throughput(job: Job) -> Work:
    given = job.settings
    nets = [vision_net(job, given[key], given["size"], 3, given["classes"]) for key in ("network", "against")]
    return Work([Pass(net, given["pairs"] + 1, given["batch_size"], FORWARD) for net in nets])


WORK = {
    "train_lra": train_lra,
    "train_long_char_lm": train_long_char_lm,
    "convert_roberta": convert_roberta,
    "throughput": throughput,
}
