"""The computation of each step: character models, ascents on norms of Jacobians, and fixed-point inversions."""

from __future__ import annotations

from relearn.studies.work import FORWARD, TRAIN, Counts, Job, Net, Pass, Unknown, Work

CHARACTERS = 52
SIZES = ("attention", "layers", "dim", "heads", "ffn", "norm", "init_scale", "glorot")
RANGES, FEW = 5, 8
"""Further ranges of inputs that `invert_residual` tries, and sequences for each."""
FILLED = 0.4
"""Mean length of a batch of lines over the longest line's."""


def model(job: Job, **other: int) -> Net:
    arguments = {key: job.settings[key] for key in SIZES if key in job.settings} | other
    longest = job.settings["max_length"] + 1
    length = max(8, round(FILLED * longest))
    return Net(
        "relearn.models.character_lm:create",
        {**arguments, "dropout": 0.0, "vocabulary": CHARACTERS, "max_length": longest},
        (length,),
    )


def train_char_lm(job: Job) -> Work:
    given, made = job.settings, job.made("characters")
    if not made:
        raise Unknown(job.folder)
    net = model(job)
    sizes = made[0].settings
    lines = sizes["valid_sentences"] + sizes["test_sentences"] + sizes["valid_sentences"]
    kind = "lstm" if given["attention"] == "lstm" else "attention"
    tested = Pass(net, given["evaluations"] * max(1.0, lines / 64), 64, FORWARD)
    return Work([Pass(net, given["steps"], given["batch_size"], TRAIN), tested], kind)


def attention(length: int, dim: int) -> Counts:
    """Operation counts of a self-attention layer in double precision: four linear maps and two products of size N² D."""
    products = 8 * length * dim**2 + 4 * length**2 * dim
    return Counts(products=2 * products, moved=8 * (16 * length * dim + 10 * length**2), calls=25)


def lipschitz_lower_bound(job: Job) -> Work:
    given = job.settings
    one = attention(given["length"], given["dim"])
    return Work([Pass(one, given["steps"], given["starts"], (6.0, 10.0))], f"p={given['p']}")


def invert_residual(job: Job) -> Work:
    given = job.settings
    one = attention(given["length"], given["dim"])
    steps = given["iterations"] * len(given["c"])
    return Work([Pass(one, steps, given["batch"]), Pass(one, steps * RANGES, FEW)])


def time_training_step(job: Job) -> Work:
    given = job.settings
    nets = [
        Counts(
            products=2
            * given["max_length"]
            * layers
            * (4 * given["dim"] ** 2 + 2 * given["dim"] * given["ffn"]),
            moved=4 * given["max_length"] * layers * 40 * given["dim"],
            calls=30 * layers,
            weights=layers * (4 * given["dim"] ** 2 + 2 * given["dim"] * given["ffn"]),
        )
        for layers in given["layers"]
    ]
    return Work([Pass(net, 2 * given["pairs"] + 2, given["batch_size"], TRAIN) for net in nets])


WORK = {
    "train_char_lm": train_char_lm,
    "lipschitz_lower_bound": lipschitz_lower_bound,
    "invert_residual": invert_residual,
    "time_training_step": time_training_step,
}
