"""The section ``robustness`` of params.yaml (zhu2022, section 5.3.4): types, ranges and cross-field checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from relearn.params.conflicts import Conflict, check
from relearn.params.types import (
    LONGEST_LIST,
    BatchSize,
    Count,
    Distinct0,
    OneOf,
    Rising,
    SamplesOrAll,
    Section,
    Side,
    Unique,
    ascending,
    unique,
)
from relearn.report.derived import CORRUPTIONS
from relearn.studies.vision import LONG_SHORT

Corruption = Annotated[str, OneOf(CORRUPTIONS)]
Fault = Literal["fail", "skip"]
Network = Annotated[str, OneOf(LONG_SHORT)]


class Pgd(Section):
    """Settings of PGD; 0 images disables it."""

    eps: Annotated[
        list[Annotated[float, Field(gt=0, le=1)]], Unique, AfterValidator(unique), AfterValidator(ascending)
    ]
    steps: Count
    restarts: Count
    images: SamplesOrAll
    checks: bool

    @check
    def _steps(self) -> Iterator[Conflict]:
        """The checks need a step size below the diameter of the ball, which a single step exceeds."""
        if self.images and self.checks and self.steps < 2:
            yield "steps", f"found {self.steps}, allowed: at least 2 with checks"


class Protocol(Section):
    size: Annotated[Side, Field(ge=32)]
    crop_ratio: Annotated[float, Field(gt=0, le=1)]
    cropped_ratio: Annotated[float, Field(gt=0, le=1)]
    interpolation: Literal["bilinear", "bicubic", "lanczos"]
    batch_size: BatchSize
    on_bad_image: Fault
    on_missing_class: Fault


class Sets(Section):
    """Folder below RELEARN_MIRROR for each set; an empty name skips the set."""

    val: str
    real: str
    v2: str
    c: str
    a: str
    r: str
    nine: str


class Checkpoint(Section):
    """A released checkpoint that replaces our own training of a network.

    ``file``: path below RELEARN_MIRROR; ``name``: the network's name in timm's registry; ``average``: whether to use the moving
    average stored in the file.
    """

    network: Network
    file: Annotated[str, Field(min_length=1)]
    name: Annotated[str, Field(min_length=1)]
    average: bool


class Withstand(Section):
    networks: Distinct0[Network]
    reference: Network
    checkpoints: Annotated[list[Checkpoint], Field(max_length=LONGEST_LIST)]
    images: SamplesOrAll
    corruptions: Distinct0[Corruption]
    severities: Rising[Annotated[int, Field(ge=1, le=5)]]
    pgd: Pgd
    sets: Sets
    protocol: Protocol


class RobustnessStudy(Section):
    withstand: Withstand

    @check
    def _networks(self, root: Any) -> Iterator[Conflict]:
        """Every evaluated network must be trained by ``long_short``."""
        known = root.long_short.grid.networks
        for index, name in enumerate(self.withstand.networks):
            if name not in known:
                allowed = f"of long_short.grid.networks: {', '.join(known)}"
                yield ("withstand", "networks", index), f"found {name}, allowed: {allowed}"

    @check
    def _checkpoints(self, root: Any) -> Iterator[Conflict]:
        """Checkpoints require ImageNet (1,000 classes) and at least one set; each network has at most one checkpoint."""
        own = self.withstand
        folder, named = root.long_short.images.dataset == "imagenet", set[str]()
        for index, one in enumerate(own.checkpoints):
            key = ("withstand", "checkpoints", index, "network")
            if not folder or not any(own.sets.model_dump().values()):
                yield key, f"found {one.network}, allowed: with long_short.images.dataset = imagenet and sets"
            elif one.network in named:
                yield key, f"found {one.network} twice, allowed: each network once"
            named.add(one.network)

    @check
    def _reference(self) -> Iterator[Conflict]:
        """The reference network for errors on generated corruptions must be evaluated, too."""
        tested, found = self.withstand.networks, self.withstand.reference
        if tested and self.withstand.corruptions and found not in tested:
            allowed = f"of robustness.withstand.networks: {', '.join(tested)}"
            yield "withstand.reference", f"found {found}, allowed: {allowed}"

    @check
    def _images(self, root: Any) -> Iterator[Conflict]:
        """The images are the test images of ``long_short``."""
        yield from root.long_short.images.test_conflicts({"withstand.images": self.withstand.images})

    @check
    def _attacked(self) -> Iterator[Conflict]:
        """The attacked images are a subset of the test images."""
        found, most = self.withstand.pgd.images, self.withstand.images
        if most and found > most:
            allowed = f"at most robustness.withstand.images = {most}"
            yield "withstand.pgd.images", f"found {found}, allowed: {allowed}"


SECTION = RobustnessStudy
