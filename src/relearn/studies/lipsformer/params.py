"""The section ``lipsformer`` of params.yaml (qi2023): types, ranges, and cross-field checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from relearn.params.conflicts import Conflict, at_most, check, forecast, multiples_of
from relearn.params.forecast_memory import DOUBLE, Need, Tensor, first_maps, jacobian
from relearn.params.types import (
    BatchSize,
    Count,
    Distinct,
    Distinct0,
    EpochCount,
    Heads,
    Layers,
    Length,
    Multiple,
    NotNegative,
    OneOf,
    OwnSeeds,
    Positive,
    Rising,
    SamplesOrAll,
    Section,
    Seeds,
    Share,
    Side,
    Width,
)
from relearn.params.vision import Betas, Optimised, VisionImages, batches, patches, test_images
from relearn.studies.lipsformer.networks import CHANGES

SWIN, CSWIN = ("Swin-T", "Swin-S", "Swin-B"), ("CSwin-T", "CSwin-S", "CSwin-B")
OURS = {name: f"LipsFormer-{name}" for name in (*CSWIN, *SWIN, "Swin-L")}
"""Name of each network that LipsFormer follows to that of the LipsFormer."""
Network = Annotated[str, OneOf((*SWIN, "Swin-L", *CSWIN, *OURS.values(), "LipsFormer-Swin-L++"))]
Rival = Literal[
    "RegNetY-4G",
    "RegNetY-8G",
    "RegNetY-16G",
    "EffNet-B4",
    "EffNet-B5",
    "EffNet-B7",
    "ConvNeXt-T",
    "ConvNeXt-S",
    "ConvNeXt-B",
    "DeiT-S",
    "DeiT-B",
    "TNT-T",
    "TNT-B",
    "CvT-13",
    "CvT-21",
    "NesT-T",
    "NesT-S",
    "NesT-B",
    "XCiT-S12",
    "XCiT-S24",
    "XCiT-M24",
    "CrossViT-15",
    "CrossViT-18",
    "DeiT-III-S",
    "DeiT-III-B",
]
"""Networks of table 2 that are counted and not trained; the others of its rivals are in no package here."""
Variant = Annotated[str, OneOf(CHANGES)]
SWIN_OURS = tuple(OURS[name] for name in SWIN)
Paired = Annotated[
    str, OneOf((*SWIN, *SWIN_OURS, "Swin-L", OURS["Swin-L"], *CSWIN, *(OURS[name] for name in CSWIN)))
]
Timed = Annotated[str, OneOf(SWIN_OURS)]
Windowed = Annotated[str, OneOf((*SWIN_OURS, OURS["Swin-L"]))]
"""Networks whose attention has a bound: that of the cross-shaped windows has a convolution beside it."""
Started = Annotated[str, OneOf((*OURS.values(),))]
Lengths = Rising[Length]
Dims = Rising[Annotated[Width, Field(ge=2)]]
Positives = Distinct[Positive]


PATCH, CHANNELS = 4, 96
"""Pixels of a side of a patch, and channels of the first stage, of Swin-T and of the networks that follow it."""
FIRST_STAGE = {
    "Swin-T": (96, 3),
    "Swin-S": (96, 3),
    "Swin-B": (128, 4),
    "Swin-L": (192, 6),
    "CSwin-T": (64, 2),
    "CSwin-S": (64, 2),
    "CSwin-B": (96, 4),
}
"""Channels and heads of the first stage; LipsFormer has those of the network that it follows."""


class NetworkCounts(Section):
    networks: Distinct[Network]
    rivals: Distinct0[Rival]


class Widths(Section):
    """Layer sizes for the cases of a theorem: every width is a multiple of the number of heads."""

    lengths: Lengths
    dims: Dims
    heads: Heads

    _dims = multiples_of("dims", "heads")

    @forecast
    def _jacobian(self) -> Iterator[Need]:
        widest = self.dims[-1]
        yield Need(("dims", len(self.dims) - 1), widest, (jacobian(self.lengths[-1], widest),))


class Theorem1(Widths):
    taus: Positives
    spreads: Positives
    steps: Count
    networks: Distinct0[Windowed]
    iterations: Count


class Theorem2(Widths):
    blocks: Rising[Layers]
    tau: Positive
    eps: Positives
    networks: Distinct0[Windowed]
    iterations: Count


class SpectralStart(Section):
    channels: Rising[Width]
    size: Annotated[Side, Field(ge=8)]
    networks: Distinct0[Started]

    @forecast
    def _frequencies(self) -> Iterator[Need]:
        """The norm of a convolution is computed in the frequency domain, with one matrix per pixel."""
        most = self.channels[-1]
        sizes = (("channels", most), ("channels", most), ("side", self.size), ("side", self.size))
        place = ("channels", len(self.channels) - 1)
        yield Need(place, most, (Tensor("frequencies", sizes, DOUBLE),))


class Activations(Section):
    pairs: Count
    reach: Positive
    points: Annotated[Count, Field(ge=50)]


class Examine(Section):
    theorem_1: Theorem1
    theorem_2: Theorem2
    spectral_start: SpectralStart
    activations: Activations


class SizedNetwork(Section):
    width: Multiple
    depth: Multiple
    patch_size: Side


class OfSize(Section):
    lr: Multiple
    drop_path: Share
    weight_decay: NotNegative
    average: Share
    betas: Betas


class Sizes(Section):
    T: OfSize
    S: OfSize
    B: OfSize
    L: OfSize


class AblationBase(Section):
    alpha: Positive
    drop_path: Share


class MoreSeeds(Section):
    variants: Distinct0[Variant]
    seeds: OwnSeeds


class Ablation(Section):
    epochs: EpochCount
    warmup_epochs: Positive
    base: AblationBase
    variants: Distinct0[Variant]
    extra_seeds: MoreSeeds

    _warmup = at_most("warmup_epochs", "epochs")


class Pairs(Section):
    networks: Distinct0[Paired]
    warmup_epochs: NotNegative


class Constrained(Section):
    networks: Distinct0[Started]
    bound: Positive
    kind: Literal["spectral", "bjorck"]
    method: Literal["upper", "power"]


class Throughput(Section):
    networks: Distinct0[Timed]
    batch_size: BatchSize
    size: Annotated[Side, Field(ge=32)]
    pairs: Count

    @forecast
    def _first_stage(self) -> Iterator[Need]:
        """Networks have their published size; the narrowest is Swin-T."""
        tensors = first_maps(self.batch_size, self.size, PATCH, CHANNELS)
        yield Need(("batch_size",), self.batch_size, tensors)


class Retest(Section):
    networks: Distinct0[Paired]
    size: Annotated[Side, Field(ge=8)]
    crop_ratio: Annotated[float, Field(gt=0, le=1)]
    interpolation: Literal["bilinear", "bicubic", "lanczos"]
    average: bool
    batch_size: BatchSize
    test_images: SamplesOrAll


class Grid(Section):
    sizes: Sizes
    ablation: Ablation
    pairs: Pairs
    constrained: Constrained

    @property
    def trained(self) -> list[str]:
        """The networks of the pairs and those that are compared with constrained ones."""
        return [*self.pairs.networks, *self.constrained.networks]


class LipsFormer(Section):
    seeds: Seeds
    count: NetworkCounts
    examine: Examine
    images: VisionImages
    network: SizedNetwork
    train: Optimised
    grid: Grid
    throughput: Throughput
    retest: Retest

    _patches = patches

    @check
    def _width(self) -> Iterator[Conflict]:
        """The scaled channels of the first stage stay a multiple of its heads."""
        ablated = ["CSwin-T"] if self.grid.ablation.variants else []
        names = {name.removeprefix("LipsFormer-") for name in (*self.grid.trained, *ablated)}
        width = self.network.width
        for channels, heads in {FIRST_STAGE[name] for name in names}:
            if width * channels % heads:
                allowed = f"factors that leave {channels} channels a multiple of {heads} heads"
                yield "network.width", f"found {width:g}, allowed: {allowed}"
                return

    _batches = batches("train.batch_size")

    _warmup_of_pairs = at_most("grid.pairs.warmup_epochs", "train.epochs", "epochs")

    @check
    def _extra_seeds(self) -> Iterator[Conflict]:
        for place, seed in enumerate(self.grid.ablation.extra_seeds.seeds):
            if seed in self.seeds:
                yield (
                    ("grid", "ablation", "extra_seeds", "seeds", place),
                    f"found {seed}, allowed: none of seeds",
                )

    @check
    def _averages(self) -> Iterator[Conflict]:
        """Averaged weights are written only if all sizes use averaging."""
        lacking = [name for name, size in self.grid.sizes if not size.average]
        if self.retest.average and self.retest.networks and lacking:
            yield "retest.average", f"found true, allowed: false, for grid.sizes.{lacking[0]}.average is 0"

    @check
    def _retested(self) -> Iterator[Conflict]:
        """A network that is tested again is one of those that are trained."""
        for index, name in enumerate(self.retest.networks):
            if name not in self.grid.pairs.networks:
                allowed = f"of grid.pairs.networks: {', '.join(self.grid.pairs.networks) or 'none'}"
                yield ("retest", "networks", index), f"found {name}, allowed: {allowed}"

    _test_images = test_images("train.test_images")


SECTION = LipsFormer
