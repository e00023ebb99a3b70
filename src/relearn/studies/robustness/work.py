"""Computational work of the step: passes over corrupted and attacked images."""

from __future__ import annotations

from relearn.studies.work import (
    FORWARD,
    INPUT,
    Counts,
    Job,
    Pass,
    Unknown,
    Work,
    epochs,
    images_of,
    vision_net,
)

CORRUPT = Counts(moved=4 * 60, calls=0.02)
"""One pixel of one corrupted image: NumPy reads and writes it some sixty times."""


def evaluate_robustness(job: Job) -> Work:
    made, given = job.made("network"), job.settings
    if not made or given["sets"]:
        raise Unknown(job.folder)
    images = images_of(job)
    net = vision_net(job, made[0].settings["network"], images.side, images.channels)
    count = min(given["images"] or images.tested, images.tested)
    corrupted, pgd = len(given["corruptions"]) * len(given["severities"]), given["pgd"]
    passes = [
        epochs(net, count, 100, 1 + corrupted, FORWARD),
        Pass(CORRUPT, corrupted * count * images.side**2 * images.channels),
    ]
    if pgd:
        ascents = len(pgd["eps"]) * pgd["steps"] * pgd["restarts"]
        passes.append(epochs(net, min(pgd["images"], count), 100, ascents, INPUT))
    return Work(passes)


WORK = {"evaluate_robustness": evaluate_robustness}
