r"""The public poisoning benchmark on CIFAR-10: its protocol, and trials for it.

Schwarzschild et al., "Just How Toxic is Data Poisoning?" (ICML 2021, arXiv 2006.12557), as its repository
``aks2203/poisoning-benchmark`` runs it: ``learning_module.py`` (recipes, training set), ``benchmark_test.py`` (victims) and
``how_to.md`` (number of poisons, ε, form of the trials).

============  =========================================  ============  ===================
key           meaning                                    transfer      from scratch
============  =========================================  ============  ===================
poisons       poisons of one trial                       25            500
train_count   images of the victim's training set        2,500         50,000
eps_255       largest change of a pixel, 8-bit levels    8             8
trials        targets, each with classes of its own      100           100
epochs, …     SGD with momentum 0.9, batches of 128      40, 0.01      200, 0.1
milestones    epochs after which the rate falls to 1/10  30            100, 150
weight_decay  of all trained parameters                  0.0002        0.0002
victims       networks                                   pre-trained   ResNet18,
              (white box: the attacker has it;           on CIFAR-100  MobileNetV2, VGG11
              black box: VGG11 and MobileNetV2)
============  =========================================  ============  ===================

Images are augmented by a crop after a padding of 4 and by a flip. The training set holds, of each class, its first images in the
data set's own order that are no bases; the poisons take the last places of their class. A **transfer** victim keeps its features
(in eval mode) and trains a new linear layer. The score is the share of trials whose target gets the poisons' class.

The grey box (another ResNet18, pre-trained likewise) and end-to-end fine-tuning belong to the first version of June 2020 only.

**Trials.** The repository's own lists are pickle files, which are no part of this package; :func:`read_trials` reads one that the
user has. Without it, :func:`draw` makes 100 trials by the same rule from a seed of ours: two different classes, a test image of the
first, bases of the second. Numbers on them compare with the published ones as two draws of trials do, not trial by trial.

Differs from the repository: ε is checked at 8 levels, where the repository tolerates 9 for rounding; no target occurs twice.
"""

from __future__ import annotations

import hashlib
import itertools
import pickle
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SEED = 2006_12557
SOURCE = "github.com/aks2203/poisoning-benchmark, arXiv 2006.12557"
CLASSES = 10
PADDING = 4
ROLES = ("white_box", "grey_box", "black_box")
TRIAL_KEYS = ("target class", "target index", "base class", "base indices")


@dataclass(frozen=True)
class Protocol:
    """One set-up of the benchmark; see the module."""

    name: str
    from_scratch: bool
    poisons: int
    train_count: int
    epochs: int
    lr: float
    milestones: tuple[int, ...]
    victims: tuple[str, ...]
    pretrained_on: str | None
    published: str
    """Artefact in the study's published.csv."""
    trials_sha256: str
    """:func:`digest` of the trials that :func:`draw` makes from CIFAR-10's labels."""
    trials: int = 100
    eps_255: float = 8.0
    batch_size: int = 128
    momentum: float = 0.9
    weight_decay: float = 2.0e-4
    seed: int = SEED
    source: str = SOURCE


TRANSFER = Protocol(
    name="schwarzschild-transfer-v1",
    from_scratch=False,
    poisons=25,
    train_count=2500,
    epochs=40,
    lr=0.01,
    milestones=(30,),
    victims=ROLES,
    pretrained_on="cifar100",
    published="schwarzschild2021.transfer",
    trials_sha256="04c465f178b4960dd65731059aa2eb4b0038596e9833c7f3136ac24fe1fc577a",
)
SCRATCH = Protocol(
    name="schwarzschild-scratch-v1",
    from_scratch=True,
    poisons=500,
    train_count=50_000,
    epochs=200,
    lr=0.1,
    milestones=(100, 150),
    victims=("ResNet18", "MobileNetV2"),
    pretrained_on=None,
    published="schwarzschild2021.scratch",
    trials_sha256="ff9d29192d40dbe409cdeec4a06b7d0827c45d8aa90c6a2cec396342d545a72b",
)
SETUPS = {one.name: one for one in (TRANSFER, SCRATCH)}


@dataclass(frozen=True)
class Trial:
    """A target (index in the test images) and its bases (indices in the training images), with their classes."""

    target_class: int
    target: int
    base_class: int
    bases: tuple[int, ...]


def draw(protocol: Protocol, train_labels: NDArray[Any], test_labels: NDArray[Any]) -> list[Trial]:
    """The trials of this package's own seed; the stream of ``RandomState`` is frozen, so they never change.

    Raises:
        ValueError: a class with fewer training images than poisons.
    """
    rng = np.random.RandomState(protocol.seed)
    least = int(np.bincount(train_labels, minlength=CLASSES).min())
    if least < protocol.poisons:
        raise ValueError(
            f"{protocol.name}: a class has {least} training images, allowed: {protocol.poisons} or more"
        )
    found: list[Trial] = []
    used: set[int] = set()
    while len(found) < protocol.trials:
        target_class, base_class = (int(one) for one in rng.permutation(CLASSES)[:2])
        target = int(rng.choice(np.flatnonzero(test_labels == target_class)))
        bases = np.sort(
            rng.choice(np.flatnonzero(train_labels == base_class), protocol.poisons, replace=False)
        )
        if target not in used:
            used.add(target)
            found.append(Trial(target_class, target, base_class, tuple(bases.tolist())))
    return found


def digest(trials: Sequence[Trial]) -> str:
    """sha256 of a list of trials: (target class, target, base class, bases) as little-endian int64."""
    numbers = [
        one for trial in trials for one in (trial.target_class, trial.target, trial.base_class, *trial.bases)
    ]
    return hashlib.sha256(np.array(numbers, "<i8").tobytes()).hexdigest()


def check(
    trials: Sequence[Trial], protocol: Protocol, train_labels: NDArray[Any], test_labels: NDArray[Any]
) -> None:
    """Check trials against the labels of the data.

    Raises:
        ValueError: a wrong number of bases, an index out of range, or a class that is not the image's; the message names the trial.
    """
    for place, one in enumerate(trials):
        bases = np.array(one.bases)
        if len(set(one.bases)) != protocol.poisons or one.target_class == one.base_class:
            found = f"{len(set(one.bases))} bases, classes {one.target_class} and {one.base_class}"
            raise ValueError(
                f"trial {place}: found {found}, allowed: {protocol.poisons} bases, two different classes"
            )
        inside = 0 <= one.target < len(test_labels) and bases.min() >= 0 and bases.max() < len(train_labels)
        if not inside or test_labels[one.target] != one.target_class:
            raise ValueError(
                f"trial {place}: found target {one.target}, allowed: an image of class {one.target_class}"
            )
        if (train_labels[bases] != one.base_class).any():
            raise ValueError(
                f"trial {place}: found bases of other classes, allowed: images of class {one.base_class}"
            )


def training_rows(trial: Trial, protocol: Protocol, train_labels: NDArray[Any]) -> NDArray[np.int64]:
    """Training images of a trial, by class, ``train_count`` / 10 of each; the bases stand where the poisons go.

    Raises:
        ValueError: a class with too few images.
    """
    each = protocol.train_count // CLASSES
    rows = []
    for label in range(CLASSES):
        free = np.setdiff1d(np.flatnonzero(train_labels == label), trial.bases)
        own = np.array(trial.bases if label == trial.base_class else (), dtype=np.int64)
        clean = free[: each - len(own)]
        if len(clean) + len(own) != each:
            raise ValueError(
                f"class {label}: found {len(clean)} images besides the bases, allowed: {each - len(own)}"
            )
        rows.append(np.concatenate([clean, own]))
    return np.concatenate(rows).astype(np.int64)


def poison_places(trial: Trial, protocol: Protocol) -> slice:
    """Where the poisons stand in the rows of :func:`training_rows`."""
    end = (trial.base_class + 1) * (protocol.train_count // CLASSES)
    return slice(end - protocol.poisons, end)


def read_trials(path: Path) -> list[Trial]:
    """The trials of a pickle file of the repository (``poison_setups/cifar10_*.pickle``); only plain data and arrays are unpickled.

    Raises:
        ValueError: not such a file.
    """
    entries = _unpickled(path)
    try:
        values = [[entry[key] for key in TRIAL_KEYS] for entry in entries]
        return [
            Trial(int(a), int(b), int(c), tuple(int(one) for one in np.asarray(d).ravel()))
            for a, b, c, d in values
        ]
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(
            f"{path}: found no list of trials ({error}), allowed: dictionaries with {', '.join(TRIAL_KEYS)}"
        ) from None


def consecutive(folder: Path, names: Sequence[str]) -> None:
    """ValueError if names end in numbers of which some are missing: the sets behind the gap would count for other targets."""
    numbers = [int(found[0]) for one in names if (found := re.search(r"\d+$", one))]
    if len(numbers) == len(names) and any(b - a != 1 for a, b in itertools.pairwise(numbers)):
        raise ValueError(f"{folder}: found folders {', '.join(names[:8])}, allowed: numbers without a gap")


def read_poisons(folder: Path) -> NDArray[np.uint8]:
    """Poisons (T, k, 3, 32, 32) of a folder in the repository's form: ``<trial>/poisons.pickle``, in the order of the trials' numbers.

    Raises:
        ValueError: no such folder, a file of another form, or trials of different sizes.
    """
    files = sorted(
        folder.glob("*/poisons.pickle"), key=lambda file: (len(file.parent.name), file.parent.name)
    )
    if not files:
        raise ValueError(f"{folder}: found no */poisons.pickle, allowed: one for each trial")
    consecutive(folder, [file.parent.name for file in files])
    sets = []
    for file in files:
        try:
            pairs = [*_unpickled(file)]
            sets.append(np.stack([np.asarray(image.convert("RGB")) for image, _ in pairs]))
            labels = sorted({int(label) for _, label in pairs})
        except (TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"{file}: found no pairs of image and label ({error})") from None
        if len(labels) > 1:
            raise ValueError(f"{file}: found the labels {labels}, allowed: that of the trial's base class")
    if len({one.shape for one in sets}) != 1:
        raise ValueError(
            f"{folder}: found {sorted({one.shape for one in sets})}, allowed: one size for all trials"
        )
    return np.ascontiguousarray(np.stack(sets).transpose(0, 1, 4, 2, 3))


ALLOWED = {
    *(("numpy._core.multiarray", name) for name in ("_reconstruct", "scalar")),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy._core.numeric", "_frombuffer"),
    ("PIL.Image", "Image"),
    ("_codecs", "encode"),
}


class _PlainData(pickle.Unpickler):
    """Unpickles arrays and pictures, and calls nothing else that a file may name."""

    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("numpy.core", "numpy._core")  # the name before numpy 2
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return super().find_class(module, name)


def _unpickled(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            return _PlainData(file).load()
    except OSError:
        raise
    except Exception as error:  # of any class, depending on which byte is damaged
        raise ValueError(f"{path}: {error}; allowed: a pickle of plain data, arrays and pictures") from None
