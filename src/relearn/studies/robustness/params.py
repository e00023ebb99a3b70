"""What params.yaml may say of ``robustness`` (zhu2022, section 5.3.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from relearn.params.conflicts import Conflict, check
from relearn.params.types import (
    BatchSize,
    Count,
    SamplesOrAll,
    Section,
    Side,
    Unique,
    Unique0,
    ascending,
    unique,
)
from relearn.studies.long_short.params_images import Network, Some

Corruption = Literal[
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "defocus_blur",
    "glass_blur",
    "motion_blur",
    "zoom_blur",
    "snow",
    "frost",
    "fog",
    "brightness",
    "contrast",
    "elastic_transform",
    "pixelate",
    "jpeg_compression",
]
Fault = Literal["fail", "skip"]


class Pgd(Section):
    """0 images: without."""

    eps: Annotated[
        list[Annotated[float, Field(gt=0, le=1)]], Unique, AfterValidator(unique), AfterValidator(ascending)
    ]
    steps: Count
    restarts: Count
    images: SamplesOrAll
    checks: bool


class Protocol(Section):
    size: Annotated[Side, Field(ge=32)]
    crop_ratio: Annotated[float, Field(gt=0, le=1)]
    cropped_ratio: Annotated[float, Field(gt=0, le=1)]
    interpolation: Literal["bilinear", "bicubic", "lanczos"]
    batch_size: BatchSize
    on_bad_image: Fault
    on_missing_class: Fault


class Sets(Section):
    """Folders of RELEARN_MIRROR, by the set that they hold; an empty name: without."""

    val: str
    real: str
    v2: str
    c: str
    a: str
    r: str
    nine: str


class Withstand(Section):
    networks: Some
    reference: Network
    images: SamplesOrAll
    corruptions: Annotated[list[Corruption], Unique0, AfterValidator(unique)]
    severities: Annotated[list[Annotated[int, Field(ge=1, le=5)]], Unique, AfterValidator(ascending)]
    pgd: Pgd
    sets: Sets
    protocol: Protocol


class RobustnessStudy(Section):
    withstand: Withstand

    @check
    def _networks(self, root: Any) -> Iterator[Conflict]:
        """Every evaluated network is trained by ``long_short``."""
        known = root.long_short.grid.networks
        for index, name in enumerate(self.withstand.networks):
            if name not in known:
                allowed = f"of long_short.grid.networks: {', '.join(known)}"
                yield ("withstand", "networks", index), f"found {name}, allowed: {allowed}"

    @check
    def _reference(self) -> Iterator[Conflict]:
        """Errors on our own corruptions are relative to those of a network that is evaluated, too."""
        tested, found = self.withstand.networks, self.withstand.reference
        if tested and self.withstand.corruptions and found not in tested:
            allowed = f"of robustness.withstand.networks: {', '.join(tested)}"
            yield "withstand.reference", f"found {found}, allowed: {allowed}"

    @check
    def _images(self, root: Any) -> Iterator[Conflict]:
        """The images are those that ``long_short`` keeps for testing."""
        yield from root.long_short.images.test_conflicts({"withstand.images": self.withstand.images})

    @check
    def _attacked(self) -> Iterator[Conflict]:
        """Attacked images are some of the tested ones."""
        found, most = self.withstand.pgd.images, self.withstand.images
        if most and found > most:
            allowed = f"at most robustness.withstand.images = {most}"
            yield "withstand.pgd.images", f"found {found}, allowed: {allowed}"


SECTION = RobustnessStudy
