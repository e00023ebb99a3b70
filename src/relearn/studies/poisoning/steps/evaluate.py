"""evaluate: what a trained network is worth, or whether a proposition holds; one protocol a run (label `protocol`).

`robustness`: settings calibration_bins, pgd {eps, steps, restarts, images}, corruptions {images, names (all where left out)}; inputs
data, network. Clean accuracy, calibration and accuracy class by class on the whole test set; PGD with its checks for masked gradients
and the common corruptions on its first images. Outputs: trials.csv (kind, name, level, accuracy_frac, error_frac, count),
loss_curves.csv (eps, restart, step, loss_nats).
`hull`: settings dimension, poisons, problems; no inputs.
`toy`: no settings, no inputs. Output: trials.csv (panel, kind, x, y).
`feature_plane`: settings poison_class, target_class, poisons, targets, target (number of the trial, from 0), k (of Deep k-NN),
include_self (false where left out), attack; inputs data, victim, poisons. Output: trials.csv (target, x, y, kind, kept).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

NEEDS_TORCH = True
COLUMNS = ("kind", "name", "level", "accuracy_frac", "error_frac", "count")
EXTRA_ATTACKS = 2  # besides one for each ε: the stronger one and the unbounded one
BATCH = {"cpu": 100}  # images attacked at once; elsewhere 500


def run(run, settings: dict, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    protocols = {
        "robustness": _robustness,
        "hull": _hull,
        "toy": _toy,
        "feature_plane": _feature_plane,
    }
    if settings["protocol"] not in protocols:
        raise ValueError(f"protocol is {settings['protocol']!r}; allowed: {', '.join(protocols)}")
    protocols[settings["protocol"]](run, settings, inputs, device, precision)


def _robustness(run, settings, inputs, device, precision) -> None:
    from itertools import count

    import torch

    from relearn.data.arrays import load_prepared
    from relearn.data.corruptions import NAMES
    from relearn.measures.accuracy import accuracy, per_class_accuracy
    from relearn.measures.calibration import calibration
    from relearn.measures.embed import embed
    from relearn.models import files
    from relearn.runs.console import Progress

    data = load_prepared(inputs["data"][0])
    net = files.load(inputs["network"][0], device)
    images, labels = data.test()
    with torch.no_grad():
        logits = net.head(embed(net, images, precision=precision)).float().cpu()
    if not bool(logits.isfinite().all()):
        run.finish(
            {"test_count": len(labels)},
            trials=(COLUMNS, []),
            outcome="diverged",
            outcome_reason="logits of the test images are not finite",
        )
        return
    clean = accuracy(logits, labels)
    rows = [_row("clean", "test", "", clean, len(labels))]
    counts = torch.bincount(labels, minlength=logits.shape[1]).tolist()
    each = per_class_accuracy(logits, labels, classes=logits.shape[1]).tolist()
    rows += [_row("class", c, "", value, n) for c, (value, n) in enumerate(zip(each, counts)) if n]
    names = list(settings["corruptions"].get("names", NAMES))
    total = len(settings["pgd"]["eps"]) + EXTRA_ATTACKS + len(names)
    ticks = count(1)
    with Progress("evaluate") as progress:

        def tick() -> None:
            progress(next(ticks), total)

        attacked, notes = _attacks(run, net, images, labels, settings["pgd"], precision, rows, tick)
        first = settings["corruptions"]["images"]
        corrupted, more = _corruptions(run, net, images[:first], labels[:first], names, precision, rows, tick)
    run.finish(
        {
            "test_accuracy_frac": clean,
            **calibration(logits, labels, bins=settings["calibration_bins"]),
            "test_count": len(labels),
            **attacked,
            **corrupted,
        },
        trials=(COLUMNS, rows),
        notes=[*notes, *more],
    )


def _attacks(run, net, images, labels, settings, precision, rows, tick):
    """PGD at every ε on the first images: metrics and notes; rows are added, the loss curves written."""
    import csv
    from functools import partial

    from relearn.measures.robustness import STEP, robustness
    from relearn.methods.pgd import attack_mode, forward, pgd

    device = next(net.parameters()).device
    count = min(settings["images"], len(images))
    images, labels = images[:count].to(device).float() / 255.0, labels[:count].to(device)
    eps, steps, restarts = settings["eps"], settings["steps"], settings["restarts"]
    batch = BATCH.get(device.type, 500)

    def attack(*, eps, **how):
        found = pgd(net, images, labels, eps=eps, **how, batch=batch, precision=precision)
        tick()
        return found

    with attack_mode(net):
        found = robustness(
            attack,
            partial(forward, net, precision=precision),
            images,
            labels,
            eps=eps,
            steps=steps,
            restarts=restarts,
            seed=run.seed,
            batch=batch,
        )
    rows += [_row("pgd", "linf", radius, value, count) for radius, value in zip(found.eps, found.accuracy)]
    rows.append(_row("noise", "uniform", found.checked_eps, found.noise_accuracy, count))
    rows.append(_row("check", "unbounded", 1.0, found.unbounded_accuracy, count))
    with run.output("loss_curves.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["eps", "restart", "step", "loss_nats"])
        for radius, curves in found.curves.items():
            for restart, curve in enumerate(curves.tolist()):
                table.writerows([radius, restart, step, loss] for step, loss in enumerate(curve))
    notes = [
        f"pgd: l-infinity, untargeted, cross-entropy, first {count} test images, eps in [0,1] pixel scale {eps}, {steps} steps of "
        f"{STEP:g} eps/steps, {restarts} random starts, worst visited point, clean errors count as broken, network in eval mode",
        f"masked gradients, checked at eps {found.checked_eps:g}: " + "; ".join(map(str, found.checks)),
    ]
    if found.masked:
        notes.append("the PGD accuracies are NOT to be trusted: a check for masked gradients failed")
    return found.metrics(), notes


def _corruptions(run, net, images, labels, names, precision, rows, tick):
    """Accuracy under each corruption and severity: metrics and notes; rows are added."""
    import torch

    from relearn.data.corruptions import LEVELS, SYNTHESISED, corrupt
    from relearn.measures.accuracy import accuracy
    from relearn.measures.corruption_error import mean_corruption_accuracy
    from relearn.measures.embed import embed

    count, pixels = len(images), images.numpy()
    found: dict[str, list[float]] = {}
    for name in names:
        found[name] = []
        for level in LEVELS:
            changed = torch.from_numpy(corrupt(pixels, name, level, seed=run.seed))
            with torch.no_grad():
                logits = net.head(embed(net, changed, precision=precision)).float().cpu()
            found[name].append(accuracy(logits, labels))
            rows.append(_row("corruption", name, level, found[name][-1], count))
        tick()
    mean = mean_corruption_accuracy(found)
    metrics = {f"corruption_{name}_accuracy_frac": sum(row) / len(row) for name, row in found.items()}
    metrics |= {
        "corruption_accuracy_frac": mean,
        "corruption_error_frac": 1 - mean,
        "corruption_count": float(count),
    }
    notes = [
        f"corruptions: {len(names)} x {len(LEVELS)} severities with the constants of CIFAR-10-C, made from the first {count} test "
        "images by our own generator, not the released arrays; plain mean of accuracy, not mCE, which needs a reference network",
    ]
    side = min(images.shape[2:])
    if side != 32:
        notes.append(f"corruptions: images of {side} pixels; lengths are multiples of side/32")
    notes += [
        f"corruptions: {name} is synthesised, not the published photographs"
        for name in SYNTHESISED
        if name in found
    ]
    return metrics, notes


def _row(kind: str, name: Any, level: Any, accuracy: float, count: int) -> list[Any]:
    return [kind, name, level, accuracy, 1 - accuracy, count]


def _hull(run, settings, inputs, device, precision) -> None:
    from relearn.measures.hull import check_proposition

    found = check_proposition(
        dimension=settings["dimension"],
        poisons=settings["poisons"],
        problems=settings["problems"],
        seed=run.seed,
    )
    run.finish(found)


def _toy(run, settings, inputs, device, precision) -> None:
    import numpy as np

    from relearn.measures.toy_svm import on_the_right, panels

    rows = panels()
    taken = {}
    for panel in dict.fromkeys(row["panel"] for row in rows):
        points = {
            kind: np.array([[r["x"], r["y"]] for r in rows if (r["panel"], r["kind"]) == (panel, kind)])
            for kind in ("target", "boundary_after")
        }
        taken[f"{panel}_targets_taken_count"] = int(
            on_the_right(points["target"][0], points["boundary_after"])
        )
    run.finish(taken, trials=(list(rows[0]), [list(row.values()) for row in rows]))


def _feature_plane(run, settings, inputs, device, precision) -> None:
    import numpy as np
    import torch
    from safetensors.torch import load_file

    from relearn.data.arrays import load_prepared
    from relearn.measures.detection import detection
    from relearn.measures.embed import embed
    from relearn.measures.feature_plane import project
    from relearn.methods.deep_knn import DeepKNN
    from relearn.methods.transfer import poisoned_sets
    from relearn.models import files

    data = load_prepared(inputs["data"][0])
    trials = data.trials(
        **{key: settings[key] for key in ("target_class", "targets", "poison_class", "poisons")}
    )
    number = settings["target"]
    if not 0 <= number < len(trials.target_index):
        raise ValueError(f"target is {number}; allowed: 0 to {len(trials.target_index) - 1}")
    victim = files.load(inputs["victim"][0], device)
    images, labels = data.fine_tune()
    poisons = embed(victim, load_file(inputs["poisons"][0])["poisons"][number], precision=precision)
    clean = embed(victim, images, precision=precision)
    points = poisoned_sets(clean, poisons[None], trials.base_positions_in_fine_tune)[0].cpu()
    target = embed(victim, trials.target_images[number : number + 1], precision=precision).cpu()
    knn = DeepKNN(k=settings["k"], include_self=settings.get("include_self", False))
    kept = knn.fit_predict(points, labels) == 1

    is_poison = np.zeros(len(labels), dtype=bool)
    is_poison[trials.base_positions_in_fine_tune.numpy()] = True
    names = {settings["target_class"]: "target_class", settings["poison_class"]: "poison_class"}
    kinds = ["poison" if p else names.get(c, "other") for c, p in zip(labels.tolist(), is_poison)]
    # The plane is that of the clean classes: poisons and target are projected, but shift no centroid.
    classes = np.append(np.where(is_poison, -1, labels.numpy()), -1)
    places = project(
        torch.cat([points, target]).numpy(), classes, settings["target_class"], settings["poison_class"]
    )
    index = int(trials.target_index[number])
    rows = [
        [index, x, y, kind, keep]
        for (x, y), kind, keep in zip(places.tolist(), [*kinds, "target"], [*(int(one) for one in kept), ""])
    ]
    found = detection(~kept, is_poison)
    run.finish(
        {
            "poisons_removed_frac": found.poisons_removed_frac,
            "clean_removed_frac": found.clean_removed_frac,
            "points_count": len(rows),
        },
        trials=(["target", "x", "y", "kind", "kept"], rows),
    )
