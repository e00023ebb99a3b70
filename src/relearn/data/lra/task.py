"""Builds any task of the arena from its name and that of its data set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relearn.data.lra import PARTS, TASKS, images, listops, pathfinder, pathfinder_files, retrieval, text
from relearn.data.lra.samples import Task

DATASETS: dict[str, tuple[str, ...]] = {
    "listops": listops.DATASETS,
    "text": text.DATASETS,
    "retrieval": retrieval.DATASETS,
    "image": images.DATASETS,
    "pathfinder": pathfinder_files.DATASETS,
}


def make(
    name: str,
    dataset: str,
    *,
    samples: Mapping[str, int],
    max_length: int,
    seed: int = 0,
    folder: Path | None = None,
    form: Mapping[str, Any] | None = None,
) -> Task:
    """One task.

    Args:
        name: one of :data:`relearn.data.lra.TASKS`.
        dataset: one of ``DATASETS[name]``.
        samples: numbers for train, valid and test; 0 is all available, or the published number.
        max_length: maximum length of a network's input: the bytes of a passage, for tasks that split documents into passages.
        seed: seed of the random draws.
        folder: folder of the data set, if its files are available locally.
        form: parameters of generated samples: keyword arguments of :func:`relearn.data.lra.listops.make`, or of
            :class:`relearn.data.lra.pathfinder.Form`; the default is the published generator's of listops (with closing brackets), or
            that class's defaults. ``closing`` is also allowed for the released tables of listops.

    Raises:
        ValueError: an unknown name, or an error of the task.
        OSError: a file can neither be read nor downloaded.
    """
    if name not in TASKS:
        raise ValueError(f"task is {name!r}; allowed: {', '.join(TASKS)}")
    if dataset not in DATASETS[name]:
        raise ValueError(f"dataset is {dataset!r}; allowed for {name}: {', '.join(DATASETS[name])}")
    if set(samples) != set(PARTS):
        raise ValueError(f"samples: found {', '.join(samples)}; allowed: {', '.join(PARTS)}, all of them")
    if max_length < 1:
        raise ValueError(f"max_length is {max_length}; allowed: 1 or more")
    read = "closing" if name == "listops" else ""  # the only key that also applies to the released trees
    if dataset != "generated" and (odd := sorted(set(form or {}) - {read})):
        raise ValueError(f"form: found {', '.join(odd)}; allowed: nothing, {dataset} is not generated")
    if dataset == "lra_release" and folder is None:
        raise ValueError(
            "dataset lra_release: no folder; required: $RELEARN_MIRROR/lra_release, with the files of the arena's archive"
        )
    if dataset == "lra_release" and folder is not None:
        if name == "listops":
            return listops.released(samples, folder, **(form or {}))
        if name == "pathfinder":
            return pathfinder_files.released(samples, folder)
    try:
        if name == "listops":
            return listops.make(samples, seed=seed, **(form or {}))
        if name == "pathfinder":
            return pathfinder.make(samples, seed=seed, form=pathfinder.Form(**(form or {})))
    except TypeError as fault:
        raise ValueError(
            f"form: {str(fault).rpartition(') ')[2]}; allowed for {name}: its own keys"
        ) from None
    if name == "text":
        return text.make(dataset, samples, max_length=max_length, folder=folder)
    if name == "retrieval":
        return retrieval.make(dataset, samples, max_length=max_length, seed=seed, folder=folder)
    return images.make(dataset, samples, folder=folder)
