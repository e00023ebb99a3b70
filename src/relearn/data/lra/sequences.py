"""The prepared sequences: written by `relearn long_short prepare_lra`, read by every encoder of the arena.

``data.safetensors``; <part> is train, valid, test, and for written texts test_insertion and test_deletion:

===================  =================================================================  =====
tensor               meaning                                                            type
===================  =================================================================  =====
<part>_values        concatenated values of all sequences                               uint8
<part>_offsets       start of each sequence, and end of the last                        int64
<part>_labels        one class per sample; the perturbed parts have those of test       int64
===================  =================================================================  =====

A token is its value + 1: 0 is padding, and no input value is confused with it. (In the code behind most published LRA numbers, a
black pixel has the id of padding and is masked.) Text has 257 tokens, ListOps 16. In a task of pairs, sequences 2i and 2i + 1
form sample i. Sequences longer than ``max_length`` are truncated, as published: a long review or paper loses its end.

The header holds, as one JSON text, so that equal samples give equal bytes: task, data set, the number of tokens (``vocabulary``)
and classes, ``max_length``, whether samples are pairs, whether any sequence is shorter than ``max_length`` (``padded``), and
``version``, 16 digits of the sha256 of everything else: two files with the same version hold the same samples.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relearn.data import prepared_file
from relearn.data.lra import PARTS, TASKS, perturb
from relearn.data.lra.samples import Task

PERTURBED = ("insertion", "deletion")
TOLD = ("task", "dataset", "vocabulary", "classes", "max_length", "pairs", "padded", "version")
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Part:
    """Samples of one part: sequence i is ``values[offsets[i]:offsets[i + 1]]``."""

    values: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    labels: NDArray[np.int64]
    pairs: bool

    def __len__(self) -> int:
        """Samples."""
        return len(self.labels)


@dataclass(frozen=True)
class Sequences:
    """A prepared task; see the module."""

    task: str
    dataset: str
    vocabulary: int
    classes: int
    max_length: int
    pairs: bool
    padded: bool
    version: str
    arrays: Arrays

    @property
    def perturbed(self) -> tuple[str, ...]:
        """insertion and deletion if the test part has these forms, else empty."""
        return tuple(kind for kind in PERTURBED if f"test_{kind}_values" in self.arrays)

    def part(self, name: str) -> Part:
        """train, valid, test, test_insertion or test_deletion.

        Raises:
            ValueError: there is no such part.
        """
        allowed = (*PARTS, *(f"test_{kind}" for kind in self.perturbed))
        if name not in allowed:
            raise ValueError(f"part is {name!r}; allowed for {self.task}: {', '.join(allowed)}")
        labels = self.arrays[f"{'test' if name.startswith('test_') else name}_labels"]
        return Part(self.arrays[f"{name}_values"], self.arrays[f"{name}_offsets"], labels, self.pairs)


def prepare(task: Task, *, max_length: int, seed: int = 0) -> tuple[Sequences, dict[str, float]]:
    """Perturb the test part of a written task, truncate everything to ``max_length``, and count.

    Args:
        task: see :func:`relearn.data.lra.task.make`.
        max_length: maximum number of values of a sequence.
        seed: seed of the insertions; each sample and each side of a pair has its own generator, so its marks do not depend on the
            others.

    Returns:
        the sequences, and metrics with the unit in the name: ``train_samples_count`` etc., ``most_frequent_frac`` (frequency of the most
        frequent test class, the accuracy of the best constant prediction), ``longest_count`` and ``mean_length_count`` (values per
        training sequence after truncation), ``cut_frac`` (fraction of training sequences truncated).

    Raises:
        ValueError: ``max_length`` below 1.
    """
    if max_length < 1:
        raise ValueError(f"max_length is {max_length}; allowed: 1 or more")
    arrays: Arrays = {}
    every = {part: getattr(task, part).rows for part in PARTS}
    if task.written:
        rows = task.test.rows
        every["test_insertion"] = [
            perturb.insert(row, np.random.default_rng([seed, place])) for place, row in enumerate(rows)
        ]
        every["test_deletion"] = [perturb.delete(row) for row in rows]
    for part, rows in every.items():
        kept = [row[:max_length] for row in rows]
        arrays[f"{part}_values"] = np.frombuffer(b"".join(kept), np.uint8)
        arrays[f"{part}_offsets"] = np.cumsum([0, *map(len, kept)], dtype=np.int64)
    for part in PARTS:
        arrays[f"{part}_labels"] = np.array(getattr(task, part).labels, np.int64)
    lengths = np.concatenate([np.diff(array) for name, array in arrays.items() if name.endswith("_offsets")])
    header: dict[str, Any] = {
        "task": task.name,
        "dataset": task.dataset,
        "vocabulary": task.values + 1,
        "classes": task.classes,
        "max_length": max_length,
        "pairs": task.pairs,
        "padded": bool(lengths.min() < max_length),
    }
    header["version"] = version_of(header, arrays)
    trained = np.diff(arrays["train_offsets"])
    metrics = {f"{part}_samples_count": float(len(getattr(task, part).labels)) for part in PARTS}
    metrics |= {
        "most_frequent_frac": float(np.bincount(arrays["test_labels"]).max() / len(arrays["test_labels"])),
        "longest_count": float(trained.max()),
        "mean_length_count": float(trained.mean()),
        "cut_frac": float(np.mean([len(row) > max_length for row in task.train.rows])),
        "vocabulary_count": float(header["vocabulary"]),
        "classes_count": float(task.classes),
    }
    return Sequences(**header, arrays=arrays), metrics


def version_of(header: dict[str, Any], arrays: Arrays) -> str:
    """16 hexadecimal digits of the hash of the header and the bytes of all arrays, in the order of their names."""
    digest = hashlib.sha256(json.dumps({**header, "version": ""}, sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(f"\n{name} {arrays[name].dtype.str} {len(arrays[name])}\n".encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()[:16]


def save(sequences: Sequences, path: Path) -> None:
    """Write ``data.safetensors``, byte for byte the same for the same samples.

    Raises:
        OSError: the file cannot be written.
    """
    prepared_file.write(path, sequences.arrays, {key: getattr(sequences, key) for key in TOLD})


def load(path: Path | str) -> Sequences:
    """Read the file written by `relearn long_short prepare_lra`.

    Raises:
        SafetensorError: the file is damaged.
        ValueError: it does not hold a prepared task.
        OSError: it cannot be read.
    """
    header, arrays = prepared_file.read(
        path,
        "task",
        "long_short prepare_lra",
        fields=TOLD,
        arrays=[f"{part}_{kind}" for part in PARTS for kind in ("values", "offsets", "labels")],
    )
    if header["task"] not in TASKS:
        raise ValueError(f"{path}: found task {header['task']!r}, allowed: {', '.join(TASKS)}")
    return Sequences(**{key: header[key] for key in TOLD}, arrays=arrays)
