"""filter: apply one defence against one attack on one victim, for all targets.

Settings: defence and its arguments, poison_class, target_class, poisons, targets. Arguments of deep_knn: k, include_self, label_ties,
sweep (more values of k); in the imbalance study class_sizes instead of sweep. Inputs: data, victim, poisons. Outputs: trials.csv and
kept.safetensors with

* keep (V, T, n): bool, or in the imbalance study int64, the number of copies of each point to train on; the chosen variant
  comes first;
* control: the same as keep, for the clean set;
* k (V,).

Control: the same defence filters the set with unperturbed bases, once for all targets, or once per target if the
defence is random. A victim that errs behind this filter errs by itself; that is no success of the attack.

Variants: for Deep k-NN every k of its sweep; in the imbalance study (zhu2022, 2.3.5.2) every size to which the target
class is cut (its first images are kept), without and with replication of small classes; otherwise one.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from relearn.runs.settings import rest
from relearn.studies.poisoning.steps.trials import OnTrials

NEEDS_TORCH = True


@dataclass(frozen=True, kw_only=True)
class Neighbours(OnTrials):
    defence: Literal["deep_knn"]
    k: int
    include_self: bool
    label_ties: Literal["keep", "smallest"]
    sweep: Sequence[int] = ()
    class_sizes: Sequence[int] = ()


@dataclass(frozen=True, kw_only=True)
class Other(OnTrials):
    defence: str
    arguments: Mapping[str, Any] = rest()


Settings = Neighbours | Other


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    import numpy as np
    import torch
    from safetensors.torch import load_file, save_file

    from relearn.data.arrays import load_prepared
    from relearn.measures.detection import detection
    from relearn.measures.embed import embed
    from relearn.methods import DEFENCES, load
    from relearn.methods.transfer import poisoned_sets
    from relearn.models import files

    data = load_prepared(inputs["data"][0])
    trials = settings.of(data)
    victim = files.load(inputs["victim"][0], device)
    poisons = load_file(inputs["poisons"][0])["poisons"]
    images, labels = data.fine_tune()
    poison_features = embed(victim, poisons.flatten(0, 1), precision=precision).unflatten(
        0, poisons.shape[:2]
    )
    clean = embed(victim, images, precision=precision)
    features = poisoned_sets(clean, poison_features, trials.base_positions_in_fine_tune)
    features, targets = torch.cat([features, clean[None]]), len(features)  # the clean set is the last one
    defence = load(DEFENCES, settings.defence)
    largest = int(labels.bincount().max())
    ks: list[int] = [0]
    extra: list[dict[str, Any]] = [{}]
    present = np.ones((1, len(labels)), dtype=bool)
    tensors: dict[str, Any] = {}
    if isinstance(settings, Neighbours):
        detector = defence(k=settings.k, include_self=settings.include_self, label_ties=settings.label_ties)
    if isinstance(settings, Neighbours) and settings.class_sizes:
        keep, present, extra, tensors = _imbalance(detector, settings, features, labels)
        ks = [settings.k] * len(extra)
    elif isinstance(settings, Neighbours):
        ks = [settings.k, *(k for k in settings.sweep if k != settings.k)]
        keep = np.stack([detector.sweep(one, labels, ks) == 1 for one in features], axis=1)  # (V, T + 1, n)
        extra = [{} for _ in ks]
        present = np.ones((len(ks), len(labels)), dtype=bool)
    else:
        known = inspect.signature(defence).parameters
        if unknown := [name for name in settings.arguments if name not in known]:
            raise ValueError(
                f"{settings.defence}: found the argument {unknown[0]}, allowed: {', '.join(known)}"
            )
        draws = "seed" in known
        twins = clean.expand(targets, *clean.shape) if draws else clean[None]
        answers = [
            _each(defence, settings.arguments, f"{run.labels.get('victim', '')}/{run.seed}/{t}").fit_predict(
                x.clone(),
                labels.clone(),  # a filter may change what it is given
            )
            for sets in (features[:targets], twins)
            for t, x in enumerate(sets)
        ]
        for one in map(np.asarray, answers):
            if one.shape != labels.shape or not np.isin(one, (1, -1)).all():
                raise ValueError(
                    f"{settings.defence}: found shape {one.shape}, values {np.unique(one)[:4].tolist()}, allowed: 1 or -1"
                    f" for each of {len(labels)} points"
                )
        keep = np.stack(answers)[None] == 1

    is_poison = np.zeros(len(labels), dtype=bool)
    is_poison[trials.base_positions_in_fine_tune.numpy()] = True
    rows: list[dict[str, Any]] = []
    for variant, k in enumerate(ks):
        here = present[variant]
        for t, index in enumerate(trials.target_index):
            found = detection(keep[variant, t][here] == 0, is_poison[here])
            rows.append(
                {
                    "target": int(index),
                    "k": k or "",
                    "normalised_k": k / largest if k else "",
                    **extra[variant],
                    "chosen": int(variant == 0),
                    "poisons": found.poisons,
                    "poisons_removed": found.poisons_removed,
                    "clean": found.clean,
                    "clean_removed": found.clean_removed,
                    "mcc": found.mcc,
                }
            )
    chosen = [row for row in rows if row["chosen"]]
    kept, control = (
        torch.from_numpy(np.ascontiguousarray(part)) for part in (keep[:, :targets], keep[:, targets:])
    )
    tensors |= {"keep": kept, "control": control, "k": torch.tensor(ks)}
    save_file(tensors, run.output("kept.safetensors"))
    run.finish(
        {
            "poisons_removed_frac": sum(r["poisons_removed"] for r in chosen)
            / sum(r["poisons"] for r in chosen),
            "clean_removed_frac": sum(r["clean_removed"] for r in chosen) / sum(r["clean"] for r in chosen),
            "mcc": sum(r["mcc"] for r in chosen) / len(chosen),
            "control_removed_frac": 1
            - float((control[0] > 0).float()[:, torch.from_numpy(present[0])].mean()),
            "targets_count": len(chosen),
        },
        trials=(list(rows[0]), [list(row.values()) for row in rows]),
    )


def _imbalance(detector, settings: Neighbours, features, labels):
    """Run Deep k-NN on sets with a reduced target class: copies kept (V, T, n), points present (V, n), extra columns, tensors."""
    import numpy as np
    import torch

    from relearn.methods import REPLICATIONS, load

    own = labels.numpy()
    rank = np.flatnonzero(own == settings.target_class)
    sizes = sorted({*settings.class_sizes, len(rank)}, reverse=True)  # the balanced set first
    replicate = load(REPLICATIONS, settings.defence)
    keeps, presents, extra = [], [], []
    for size in sizes:
        there = np.ones(len(own), dtype=bool)
        there[rank[size:]] = False
        points = np.flatnonzero(there)
        for copies in (False, True):
            rows = points[replicate(own[points])] if copies else points
            kept = np.zeros((len(features), len(own)), dtype=np.int64)
            for t, one in enumerate(features):
                answer = detector.fit_predict(one[torch.from_numpy(rows)], own[rows]) == 1
                np.add.at(kept[t], rows[answer], 1)
            keeps.append(kept)
            presents.append(there)
            extra.append({"class_size": size, "class_size_frac": size / len(rank), "replicated": int(copies)})
    tensors = {key: torch.tensor([one[key] for one in extra]) for key in ("class_size", "replicated")}
    return np.stack(keeps), np.stack(presents), extra, tensors


def _each(defence, arguments: Mapping[str, Any], whose: str):
    """The detector for one target; a random detector gets a separate random seed for each victim, seed and target."""
    if "seed" in inspect.signature(defence).parameters:
        return defence(**arguments, seed=zlib.crc32(whose.encode()))
    return defence(**arguments)
