"""Fixed set-ups: shared splits, targets, bases and seeds for comparisons of attacks or defences.

``setups.json`` in this folder is the shared, versioned list. A released entry never changes; a new choice gets a new name. All indices
refer to the data set's own training order (CIFAR-10: data batches 1 to 5 concatenated; digits: scikit-learn's), so other code bases
can use them without this one.

===================  ==================================================================================
key                  meaning
===================  ==================================================================================
dataset              name in ``relearn.data.DATASETS``
split                images of each class: pre-training, fine-tuning set, pool (``relearn.data.split``)
target_class         class of the attacked images
poison_class         class intended by the attacker; the bases' class
targets              indices of the attacked images, in order; a study may use only the first ones
bases                indices of the images replaced by poisons, in order
fine_tune_sha256     of the fine-tuning indices (ascending, little-endian int64), which are too many to list
pixels_sha256        of the uint8 pixels (NCHW) of the targets, then of the bases
eps_255              maximum change of a pixel in the set-up's attacks, in 8-bit levels
seeds                seeds of the networks
===================  ==================================================================================
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relearn.data.arrays import Prepared, Trials

FILE = Path(__file__).with_name("setups.json")
TARGETS = 50


@dataclass(frozen=True)
class Setup:
    """One entry; see the module."""

    name: str
    dataset: str
    split: Mapping[str, int]
    target_class: int
    poison_class: int
    targets: tuple[int, ...]
    bases: tuple[int, ...]
    fine_tune_sha256: str
    pixels_sha256: str
    eps_255: float
    seeds: tuple[int, ...]

    def faults(self, data: Prepared) -> list[str]:
        """Differences of a prepared data set from this entry, one line each; [] if the shared trials can be run on it."""
        if data.dataset != self.dataset:
            return [f"data set: found {data.dataset}, {self.name} has {self.dataset}"]
        own = describe(
            data,
            name=self.name,
            split=self.split,
            target_class=self.target_class,
            poison_class=self.poison_class,
            targets=len(self.targets),
            poisons=len(self.bases),
            eps_255=self.eps_255,
            seeds=self.seeds,
        )
        mine, theirs = asdict(own), asdict(self)
        return [
            f"{key}: found {mine[key]}, {self.name} has {theirs[key]}"
            for key in mine
            if mine[key] != theirs[key]
        ]


def describe(
    data: Prepared,
    *,
    name: str,
    split: Mapping[str, int],
    target_class: int,
    poison_class: int,
    targets: int,
    poisons: int,
    eps_255: float,
    seeds: tuple[int, ...],
) -> Setup:
    """The set-up defined by a prepared data set and the rule of ``relearn.data.split``.

    Raises:
        ValueError: an error of :meth:`relearn.data.arrays.Prepared.trials`.
    """
    trials = data.trials(
        target_class=target_class, targets=targets, poison_class=poison_class, poisons=poisons
    )
    source = data.tensors["source_index"]
    fine_tune = source[data.tensors["fine_tune"]]
    pixels = hashlib.sha256(trials.target_images.numpy().tobytes())
    pixels.update(trials.base_images.numpy().tobytes())
    return Setup(
        name=name,
        dataset=data.dataset,
        split=dict(split),
        target_class=target_class,
        poison_class=poison_class,
        targets=tuple(source[trials.target_index].tolist()),
        bases=tuple(fine_tune[trials.base_positions_in_fine_tune].tolist()),
        fine_tune_sha256=hashlib.sha256(fine_tune.numpy().astype("<i8").tobytes()).hexdigest(),
        pixels_sha256=pixels.hexdigest(),
        eps_255=eps_255,
        seeds=tuple(seeds),
    )


@cache
def load() -> Mapping[str, Setup]:
    """All set-ups by name."""
    entries = json.loads(FILE.read_text(encoding="utf-8"))["setups"]
    return {name: _setup(name, values) for name, values in entries.items()}


def matching(data: Prepared, trials: Trials) -> str | None:
    """The name of the set-up whose first targets and bases these trials of a prepared data set have, or None if there is none."""
    source = data.tensors["source_index"]
    fine_tune = source[data.tensors["fine_tune"]]
    targets = tuple(source[trials.target_index].tolist())
    bases = tuple(fine_tune[trials.base_positions_in_fine_tune].tolist())
    known = hashlib.sha256(fine_tune.numpy().astype("<i8").tobytes()).hexdigest()
    for setup in load().values():
        same = (setup.dataset, setup.bases, setup.fine_tune_sha256) == (data.dataset, bases, known)
        if same and setup.targets[: len(targets)] == targets:
            return setup.name
    return None


def _setup(name: str, values: Mapping[str, Any]) -> Setup:
    lists = {key: tuple(values[key]) for key in ("targets", "bases", "seeds")}
    return Setup(name=name, **{**values, **lists})


def as_json(setups: Mapping[str, Setup]) -> str:
    """The text of ``setups.json``."""
    entries = {}
    for name, setup in setups.items():
        values = asdict(setup)
        del values["name"]
        entries[name] = values
    text = json.dumps({"version": 1, "setups": entries}, indent=1)
    # one line per list, so that lists are easy to compare
    return re.sub(r"\[\s+([^\]]*?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text) + "\n"
