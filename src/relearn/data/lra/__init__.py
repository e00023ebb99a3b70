"""The tasks of the Long Range Arena (Tay et al. 2021): listops, text, retrieval, image, pathfinder.

:func:`relearn.data.lra.task.make` returns a task as sequences of small values with labels, in three parts,
:mod:`relearn.data.lra.sequences` prepares, writes and reads them, and :mod:`relearn.data.lra.batches` pads and batches them. These
modules need only numpy, except for the batches, which need torch, and no other part of this package::

    from relearn.data.lra import batches, sequences, task

    made = task.make("listops", "generated", samples={"train": 2000, "valid": 200, "test": 200}, max_length=2000)
    prepared, counts = sequences.prepare(made, max_length=2000)
    for (tokens,), labels in batches.SequenceBatches(prepared.part("train"), batch_size=32).in_order():
        ...
"""

from __future__ import annotations

TASKS = ("listops", "text", "retrieval", "image", "pathfinder")
PARTS = ("train", "valid", "test")
