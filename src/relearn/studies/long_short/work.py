"""Computational work of the steps: LRA encoders, character models with a cache, converted RoBERTa, vision networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relearn.studies.work import (
    FORWARD,
    TRAIN,
    Counts,
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


def benchmark_attention(job: Job) -> Work:
    """Every case in every round: a warm-up round precedes several rounds, and the memory of a curve's case takes one more call."""
    given = job.settings
    rounds = given["repeats"] + (given["repeats"] > 1)
    if given["protocol"] == "latency":
        passes = [
            Pass(encoder(given, name, task), rounds, task["batch_size"] * (1 + task["pairs"]), mode)
            for task in given["tasks"].values()
            for name in given["attentions"]
            for mode in (FORWARD, TRAIN)
        ]
        return Work(passes, "latency")
    calls = rounds + given["memory"]
    passes = [
        Pass(character_model(given, name, length), calls, batch, TRAIN)
        for name in given["attentions"]
        for batch in given["batches"]
        for length in given["lengths"]
        if length <= given["longest"].get(name, length)
    ]
    return Work(passes, "curve")


def encoder(given: Mapping[str, Any], attention: str, task: Mapping[str, Any]) -> Net:
    """The LRA encoder of protocol ``latency``; its two documents, if it reads pairs, count as two samples."""
    arguments = {
        "attention": attention,
        **{key: given[key] for key in ("layers", "dim", "heads", "ffn", "vocabulary", "classes")},
        "max_length": task["length"],
        "attention_arguments": {
            **given["arguments"].get(attention, {}),
            **task.get("arguments", {}).get(attention, {}),
        },
    }
    return Net("relearn.models.lra_encoder:create", arguments, (task["length"],))


def character_model(given: Mapping[str, Any], name: str, length: int) -> Counts:
    r"""Operation counts of the character model of protocol ``curve`` on one sequence, in closed form.

    .. math:: \mathrm{products} = L \, [4 (2N + P) D^2 + 4 N D F + 2 M D^2 + N (4 K + 2 M) D] + 2 N D V

    N is the length and P the number of cached positions. A query is multiplied with K keys and M position vectors, and averages K
    values. With full attention, K = M = N + P. With long-short attention, K = 2w + r (N + P) / l, those of the window and the
    compressed ones, and M = 2w + (N + P) / l.
    """
    layers, dim, ffn = given["layers"], given["dim"], given["ffn"]
    past = {"full": length, "long_short": length, "long_short_window_cache": given["window"]}.get(name, 0)
    seen = length + past
    keys = places = seen
    if name != "full":
        near = min(seen, 2 * given["window"])
        keys, places = near + given["rank"] * seen / given["segment"], near + seen / given["segment"]
    linear = 4 * (2 * length + past) * dim**2 + 4 * length * dim * ffn + 2 * places * dim**2
    outer = length * given["vocabulary"]
    return Counts(
        products=layers * (linear + length * (4 * keys + 2 * places) * dim) + 2 * outer * dim,
        moved=4 * layers * (length * (14 * dim + 3 * ffn) + 4 * past * dim)
        + MOVED * layers * given["heads"] * length * keys
        + 12 * outer,
        calls=(40 if name == "full" else 80) * layers + 12,
        weights=layers * (5 * dim**2 + 2 * dim * ffn) + dim * given["vocabulary"],
    )


MOVED = 60.0
"""Bytes that attention reads and writes for each pair of query and key: two scores, their sum, mask, softmax, average."""


WORK = {
    "benchmark_attention": benchmark_attention,
    "train_lra": train_lra,
    "train_long_char_lm": train_long_char_lm,
    "convert_roberta": convert_roberta,
    "throughput": throughput,
}
