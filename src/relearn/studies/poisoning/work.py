"""Computational work of the steps: passes through the attacked networks, and the linear heads of transfer learning."""

from __future__ import annotations

from relearn.studies.work import FORWARD, INPUT, Counts, Job, Net, Pass, Unknown, Work, epochs, images_of

CORRUPTIONS, LEVELS, CHECKS = 15, 5, 6
CORRUPT = Counts(moved=4 * 60, calls=0.02)
"""One pixel of one corrupted image: NumPy reads and writes it some sixty times."""


def network(job: Job) -> Net:
    """The network written by a run of `pretrain` or `adversarial_training`.

    Raises:
        Unknown: the run does not exist.
    """
    while job.step == "adversarial_training" and job.made("start"):
        (job,) = job.made("start")
    if "architecture" not in job.settings or "width" not in job.settings:
        raise Unknown(job.folder)
    images = images_of(job)
    given = job.settings
    arguments = {"name": given["architecture"], "width": given["width"], "depth": given["depth"]}
    return Net("relearn.models:create", {**arguments, "in_channels": images.channels}, images.shape)


def networks(job: Job, name: str) -> list[Net]:
    return [network(made) for made in job.made(name)]


def pretrain(job: Job) -> Work:
    images, recipe, net = images_of(job), job.settings["training"], network(job)
    passes = [
        epochs(net, images.trained, recipe["batch_size"], recipe["epochs"]),
        epochs(net, images.tested, 500, 1, FORWARD),
    ]
    return Work(passes)


def adversarial_training(job: Job) -> Work:
    images, recipe, net = images_of(job), job.settings["training"], network(job)
    train = epochs(net, images.trained, recipe["batch_size"], recipe["epochs"])
    attack = epochs(
        net,
        images.trained,
        recipe["batch_size"],
        recipe["epochs"] * job.settings["adversarial"]["steps"],
        INPUT,
    )
    return Work([train, attack, epochs(net, images.tested, 500, 2, FORWARD)])


def craft(job: Job) -> Work:
    given = job.settings
    poisons, targets = given["poisons"] * given["targets"], given["targets"]
    iterations = given["iterations"] * given.get("restarts", 1)
    passes = []
    for net in networks(job, "substitutes"):
        passes += [Pass(net, iterations, poisons, INPUT), Pass(net, iterations, targets)]
    for net in networks(job, "watch"):
        passes.append(Pass(net, iterations / given["watch_every"], poisons + targets))
    return Work(passes, given["attack"])


def only(job: Job, name: str) -> Net:
    """The network of an input that consists of one file."""
    for net in networks(job, name):
        return net
    raise Unknown(job.folder)


def variants(job: Job) -> int:
    """Number of filtered sets per poisoned set: one, one per k of a sweep, or two per class size."""
    made = job.made("kept")
    given = made[0].settings if made else {}
    if "class_sizes" in given:
        return 2 * len(given["class_sizes"])
    return len({given["k"], *given["sweep"]}) if "sweep" in given else 1


def filtered(job: Job) -> Work:
    images, given = images_of(job), job.settings
    samples = images.tuned + given["poisons"] * given["targets"]
    return Work([epochs(only(job, "victim"), samples, 500, 1, FORWARD)], given["defence"])


def train(job: Job) -> Work:
    return end_to_end(job) if job.settings["setting"] == "end_to_end" else transfer(job)


def transfer(job: Job) -> Work:
    """Compute features once, then train one linear head per target and filtered set, all in one stack."""
    images, given, net = images_of(job), job.settings, only(job, "victim")
    poisoned = bool(job.made("poisons"))
    sets = 2 * given["targets"] if poisoned and job.made("kept") else given["targets"] + 1 if poisoned else 1
    samples = images.tuned + (given["targets"] * given["poisons"] if poisoned else images.tested)
    heads = sets * variants(job)
    steps = given["epochs"] * max(1, -(-images.tuned // given["batch_size"]))
    width = 512 * net.arguments["width"]
    read = 4 * sets * width * 3 + 4 * heads * images.classes * 12
    one = Counts(products=6 * heads * width * images.classes, moved=read)
    update = Counts(moved=28 * heads * width * images.classes, calls=40)
    stack = [Pass(one, given["epochs"], images.tuned), Pass(update, steps)]
    return Work([epochs(net, samples, 500, 1, FORWARD), *stack], "transfer")


def end_to_end(job: Job) -> Work:
    images, given, net = images_of(job), job.settings, only(job, "victim")
    sets = 2 * given["targets"] if job.made("poisons") else 1
    passes = epochs(net, images.tuned, given["batch_size"], given["epochs"] * sets)
    return Work([passes, epochs(net, given["test_images"], 500, sets, FORWARD)], "end_to_end")


def evaluate(job: Job) -> Work:
    images, given = images_of(job), job.settings
    net = only(job, "network")
    pgd, count = given["pgd"], min(given["corruptions"]["images"], images.tested)
    attacks = (len(pgd["eps"]) + CHECKS) * pgd["steps"] * pgd["restarts"]
    corrupted = CORRUPTIONS * LEVELS
    pixels = corrupted * count * images.side**2 * images.channels
    passes = [
        epochs(net, images.tested, 500, 1, FORWARD),
        epochs(net, min(pgd["images"], images.tested), 500, attacks, INPUT),
        epochs(net, count, 500, corrupted, FORWARD),
        Pass(CORRUPT, pixels),
    ]
    return Work(passes)


WORK = {
    "pretrain": pretrain,
    "adversarial_training": adversarial_training,
    "craft": craft,
    "filter": filtered,
    "train": train,
    "evaluate_networks": evaluate,
}
