"""The amount of computation of one job, in machine-independent numbers; a study's ``work.py`` defines it for each of its steps.

A job is a set of passes through networks. :class:`Pass` gives the network, the number of passes, the samples per pass,
and whether gradients are computed. `relearn.forecast` counts a network's operations once and converts a pass to seconds.
Computations other than networks are given directly as :class:`Counts`.

Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from relearn.data import facts
from relearn.studies.family import Needs
from relearn.studies.study import SHARED, load

NEEDS = Needs(mem_mb=4000, minutes=60)


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """One planned or recorded run.

    Args:
        study, step, scale, seed, labels, settings: the identity of the run.
        folder: folder of its record.
        inputs: paths by name.
        outputs: names of the files that it writes in addition to its record.
        modules: dotted names of the modules that compute it.
        needs: its resource requirements.
        book: all jobs by folder, in which :meth:`made` looks up the jobs that produce an input.
    """

    study: str
    step: str
    scale: str
    seed: int
    labels: Mapping[str, str]
    settings: Mapping[str, Any]
    folder: str
    inputs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    outputs: Sequence[str] = ()
    modules: Sequence[str] = ()
    needs: Needs = NEEDS
    book: Mapping[str, Job] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """The folder relative to the study's folder: ``train/transfer/…/seed0``."""
        return self.folder.partition(f"/runs/{self.study}/")[2] or self.folder

    @cached_property
    def before(self) -> list[Job]:
        """The jobs that produce its inputs, each once."""
        folders = dict.fromkeys(path.rpartition("/")[0] for paths in self.inputs.values() for path in paths)
        return [self.book[folder] for folder in folders if folder in self.book]

    def made(self, name: str) -> list[Job]:
        """The jobs that produce the files of one input; empty if the job has no such input."""
        folders = (path.rpartition("/")[0] for path in self.inputs.get(name, ()))
        return [self.book[folder] for folder in folders if folder in self.book]


@dataclass(frozen=True)
class Counts:
    """Operation counts of one sample's forward pass, or of any other computation.

    Args:
        convolutions: floating point operations in convolutions; a multiply-add counts as two.
        products: floating point operations in matrix products, counted in the same way.
        moved: bytes that all operations read and write.
        calls: number of operations launched one by one, independent of the number of samples.
        weights: number of parameters.
        features: input width of the classifier; 0 if not needed.
    """

    convolutions: float = 0.0
    products: float = 0.0
    moved: float = 0.0
    calls: float = 0.0
    weights: float = 0.0
    features: int = 0


@dataclass(frozen=True)
class Net:
    """A network whose operations are counted once, on torch's meta device.

    Args:
        build: ``module:function`` that builds the network.
        arguments: arguments of that function, as JSON values.
        shape: shape of one sample: (channels, side, side), or (length,) for token ids.
    """

    build: str
    arguments: Mapping[str, Any]
    shape: tuple[int, ...]


FORWARD, INPUT, TRAIN = (1.0, 1.0), (2.0, 2.5), (3.0, 3.5)
"""Arithmetic and calls of a pass as multiples of the forward pass: no gradient, the inputs' gradients, the weights' too."""


@dataclass(frozen=True)
class Pass:
    """``steps`` passes of ``samples`` samples each.

    Args:
        net: the network, or its operation counts.
        steps: number of passes.
        samples: samples per pass.
        mode: :data:`FORWARD`, :data:`INPUT` or :data:`TRAIN`.
    """

    net: Net | Counts
    steps: float
    samples: float = 1.0
    mode: tuple[float, float] = FORWARD


@dataclass(frozen=True)
class Work:
    """The computation of one job.

    Args:
        passes: the passes, in any order.
        kind: jobs of one step with the same kind are assumed to deviate from the model by the same factor; "" if that
            holds for all jobs of the step.
    """

    passes: Sequence[Pass] = ()
    kind: str = ""


Formula = Callable[[Job], Work]


class Unknown(LookupError):
    """The work of this job cannot be determined from the plan."""


def epochs(
    net: Net | Counts, samples: float, batch: float, count: float = 1.0, mode: tuple[float, float] = TRAIN
) -> Pass:
    """``count`` epochs over ``samples`` samples, in batches of ``batch``."""
    size = max(1.0, min(batch, samples))
    return Pass(net, count * max(1, math.ceil(samples / size)), size, mode)


@dataclass(frozen=True)
class Images:
    """Sizes of a prepared image data set: channels, side, training and fine-tuning images, test images, classes."""

    channels: int
    side: int
    trained: int
    tuned: int
    tested: int
    classes: int = facts.CLASSES

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.channels, self.side, self.side


def images_of(job: Job) -> Images:
    """The sizes of the image data set that a job reads as its input ``data``.

    Raises:
        Unknown: the job has no such input, or the input is not a prepared image data set.
    """
    for made in job.made("data"):
        while made.step == "split_overlap" and made.made("data"):
            part = made.settings["stop"] - made.settings["start"]
            whole = images_of(made)
            return Images(whole.channels, whole.side, round(part * whole.trained), whole.tuned, whole.tested)
        if "pretrain_per_class" in made.settings:
            return prepared(made.settings)
    raise Unknown(f"{job.folder}: no prepared images among its inputs")


def prepared(settings: Mapping[str, Any]) -> Images:
    """The sizes of the data set that `prepare_images` produces with these settings."""
    name = settings["dataset"]
    first, pool = settings["pretrain_per_class"], settings["pool_per_class"]
    tuned = settings["fine_tune_per_class"] * facts.CLASSES
    start = settings.get("pool_start", first)
    tested = facts.images_for_testing(name, (start + pool) * facts.CLASSES)
    return Images(1 if name == "digits" else 3, facts.SIDE[name], first * facts.CLASSES, tuned, tested)


def transformer(
    *,
    layers: float,
    dim: int,
    ffn: int,
    length: float,
    vocabulary: int = 0,
    heads: int = 1,
    calls: float = 28.0,
) -> Counts:
    r"""Operation counts of a Transformer with full attention for one sequence, in closed form.

    .. math:: \mathrm{products} = 2 N L (4 D^2 + 2 D F) + 4 L N^2 D + 2 N D V

    Args:
        layers, dim, ffn, heads: L, D, F and the number of heads.
        length: N, in tokens.
        vocabulary: V if the output layer has one logit per vocabulary unit; 0 if it has only a few outputs.
        calls: operations launched per layer.
    """
    products = 2 * length * layers * (4 * dim**2 + 2 * dim * ffn) + 4 * layers * length**2 * dim
    moved = 4 * length * layers * (14 * dim + 3 * ffn) + 16 * layers * heads * length**2
    return Counts(
        products=products + 2 * length * dim * vocabulary,
        moved=moved + 12 * length * vocabulary,
        calls=calls * layers + 12,
        weights=layers * (4 * dim**2 + 2 * dim * ffn) + dim * vocabulary,
    )


def vision_net(
    job: Job, network: Mapping[str, Any], side: int, channels: int, classes: int = facts.CLASSES
) -> Net:
    """A network from timm's registry, described as in the settings of `train_vision`."""
    arguments = {key: value for key, value in network.items() if not key.startswith("drop_path")}
    size = {"classes": classes, "in_channels": channels, "size": side}
    return Net("relearn.models.vision:create", {**arguments, **size}, (channels, side, side))


def train_vision(job: Job) -> Work:
    """Training of a vision network on a prepared image data set or on an image folder."""
    settings = job.settings
    if settings["task"] == "folder":
        side, channels, trained, tested, classes = settings.get("size") or 224, 3, 1_281_167, 50_000, 1000
    else:
        images = images_of(job)
        side, channels, classes = settings.get("size") or images.side, images.channels, facts.CLASSES
        trained = (
            images.trained + images.tuned
            if settings.get("train_images", 0) == 0
            else settings["train_images"]
        )
        tested = settings["test_images"] or images.tested
    net = vision_net(job, settings["network"], side, channels, classes)
    share = 1 - (settings.get("held_out") or 0)
    passes = [epochs(net, trained * share, settings["batch_size"], settings["epochs"])]
    passes.append(epochs(net, tested, 500, settings["epochs"], FORWARD))
    if settings.get("ema") is not None:
        passes.append(epochs(net, tested, 500, settings["epochs"], FORWARD))
    return Work(passes)


STEPS: Mapping[str, Formula] = {"train_vision": train_vision}


@cache
def formulas(study: str) -> Mapping[str, Formula]:
    """The formulas of a study by step: those of its ``work.py``, and those of steps shared by several studies."""
    known = load(study)
    own: Mapping[str, Formula] = known.part("work").WORK if (SHARED / study / "work.py").is_file() else {}
    return {step: formula for step, formula in STEPS.items() if step in known.steps} | dict(own)


def work_of(job: Job) -> Work | None:
    """The work of a job by its step's formula; None if there is no formula or the plan does not determine it."""
    formula = formulas(job.study).get(job.step)
    try:
        return None if formula is None else formula(job)
    except (Unknown, KeyError):  # a record in an older format may lack a setting
        return None
