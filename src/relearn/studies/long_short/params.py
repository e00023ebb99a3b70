"""The section ``long_short`` of params.yaml (zhu2022, chapter 5): its subsections and checks across them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

from relearn.data.facts import SIDE
from relearn.data.lra import TASKS
from relearn.params.conflicts import Conflict, Key, check, forecast
from relearn.params.forecast_memory import Need, transformer
from relearn.params.types import Distinct, Section, Seeds
from relearn.params.vision import VisionImages, batches, patches, test_images
from relearn.studies.long_short.networks import DEIT_PATCH, STAGES
from relearn.studies.long_short.params_images import (
    Grid,
    Network,
    PatchSimilarity,
    Pyramids,
    Some,
    Throughput,
    TrainPyramids,
)
from relearn.studies.long_short.params_lra import Latency, PrepareLra, Sizes, TrainLra
from relearn.studies.long_short.params_text import (
    CharLM,
    ConvertRoberta,
    Curve,
    PrepareCharStream,
    TrainCharLM,
)

__all__ = ["SECTION", "LongShort", "Network", "Some"]

Family = Literal["lra", "language", "vision"]


class BenchmarkAttention(Section):
    curve: Curve
    latency: Latency


class CountFamilies(Section):
    families: Distinct[Family]


class LongShort(Section):
    seeds: Seeds
    prepare_lra: PrepareLra
    encoder: Sizes
    train_lra: TrainLra
    prepare_char_stream: PrepareCharStream
    char_lm: CharLM
    train_long_char_lm: TrainCharLM
    benchmark_attention: BenchmarkAttention
    convert_roberta: ConvertRoberta
    count_params_flops: CountFamilies
    images: VisionImages
    network: Pyramids
    train: TrainPyramids
    grid: Grid
    patch_similarity: PatchSimilarity
    throughput: Throughput

    @check
    def _task_batches(self) -> Iterator[Conflict]:
        for task, own in self.train_lra.tasks.items():
            samples = getattr(self.prepare_lra, task).train_samples
            if samples and own.batch_size > samples:
                yield (
                    f"train_lra.tasks.{task}.batch_size",
                    f"found {own.batch_size}, allowed: at most prepare_lra.{task}.train_samples = {samples}",
                )

    @check
    def _windows(self) -> Iterator[Conflict]:
        """Window and rank are not both 0 and do not exceed the sequence; each shared key is reported once."""
        shared, found = self.train_lra, dict[str, str]()
        for task, own in shared.tasks.items():
            longest, below = getattr(self.prepare_lra, task).max_length, f"train_lra.tasks.{task}"
            for kind, section, at in (
                ("long_short", shared, "train_lra"),
                ("long_short_best", own, below),
            ):
                window, rank = section.window, section.rank
                if kind in own.attentions and not window and not rank:
                    found.setdefault(f"{at}.window", "found 0 with rank 0, allowed: one of the two above 0")
                elif kind in own.attentions and 2 * window + rank > longest:
                    text = f"found {rank}, allowed: at most {task}.max_length - 2 x window = {longest - 2 * window}"
                    found.setdefault(f"{at}.rank", text)
            window, rank = shared.window, own.dynamic_rank
            if "window" in own.attentions and not 1 <= window <= longest // 2:
                text = f"found {window}, allowed: 1 to {longest // 2}, half of {task}.max_length"
                found.setdefault("train_lra.window", text)
            if "dynamic" in own.attentions and rank > longest:
                text = f"found {rank}, allowed: at most {task}.max_length = {longest}"
                found.setdefault(f"{below}.dynamic_rank", text)
        yield from found.items()

    @check
    def _phase_lengths(self) -> Iterator[Conflict]:
        """A phase's length is a multiple of window and segment, and fits into a lane of the batch."""
        window, segment = self.char_lm.window, self.char_lm.segment
        whole = math.lcm(window, segment)
        for index, phase in enumerate(self.train_long_char_lm.phases):
            key = ("train_long_char_lm", "phases", index, "length")
            if phase.length % whole:
                yield (
                    key,
                    f"found {phase.length}, allowed: multiples of {whole}, of char_lm.window = {window} "
                    f"and segment = {segment}",
                )
            lane = self.prepare_char_stream.lane(phase.batch_size)
            if lane is not None and phase.length > lane:
                yield (
                    key,
                    f"found {phase.length}, allowed: at most {lane}, characters of one of "
                    f"batch_size = {phase.batch_size} lanes",
                )

    _patches = patches

    @check
    def _deit_patches(self) -> Iterator[Conflict]:
        """DeiT's patches, too, must divide the image."""
        size, side = self.network.patch_size, SIDE[self.images.dataset]
        if "DeiT-S" in self.grid.networks and side % (DEIT_PATCH * size):
            fit = ", ".join(str(n) for n in range(1, side + 1) if side % (DEIT_PATCH * n) == 0)
            yield "network.patch_size", f"found {size}, allowed: {fit} (DeiT-S, images of side {side})"

    _batches = batches("train.batch_size")

    @check
    def _own_batches(self) -> Iterator[Conflict]:
        sizes: dict[str | Key, int] = {
            ("train", "own", at, "batch_size"): one.batch_size for at, one in enumerate(self.train.own)
        }
        yield from self.images.batch_conflicts(sizes)

    _test_images = test_images("train.test_images", "patch_similarity.images")

    @check
    def _similarity(self) -> Iterator[Conflict]:
        """A network whose similarity is measured must be trained and have at least two patches in every layer."""
        known, side = self.grid.networks, SIDE[self.images.dataset]
        for index, name in enumerate(self.grid.similarity):
            key, stages = ("grid", "similarity", index), STAGES.get(name.partition("-")[0])
            wide = self.network.patch_size * (2 ** (stages - 1) if stages else DEIT_PATCH)
            if name not in known:
                yield key, f"found {name}, allowed: of grid.networks: {', '.join(known)}"
            elif name == "ResNet-50":
                yield key, f"found {name}, allowed: networks of patches"
            elif side <= wide:
                yield (
                    key,
                    f"found {name}, allowed: networks with more than one patch in the last layer, "
                    f"here {wide} pixels wide of {side}",
                )

    @forecast
    def _encoder_memory(self) -> Iterator[Need]:
        for task in TASKS:
            longest = getattr(self.prepare_lra, task).max_length
            own = getattr(self.train_lra.tasks, task)
            batch = own.batch_size * (2 if task == "retrieval" else 1)
            full = "full" in own.attentions
            tensors = transformer(**self.encoder.sizes(), length=longest, batch=batch, full=full)
            yield Need(("prepare_lra", task, "max_length"), longest, tensors)

    @forecast
    def _char_lm_memory(self) -> Iterator[Need]:
        """Memory of each phase, and of one layer in evaluation; attention computes its scores in blocks."""
        own, recipe = self.char_lm, self.train_long_char_lm
        sizes = own.sizes()
        if "large" in recipe.variants:
            sizes["layers"] = own.large_layers
        for index, phase in enumerate(recipe.phases):
            tensors = transformer(**sizes, length=phase.length, batch=phase.batch_size, full=False)
            yield Need(("train_long_char_lm", "phases", index, "length"), phase.length, tensors)
        way = recipe.evaluation
        tensors = transformer(**sizes | {"layers": 1}, length=way.context, batch=way.batch_size, full=False)
        yield Need(("train_long_char_lm", "evaluation", "context"), way.context, tensors)

    @forecast
    def _latency_memory(self) -> Iterator[Need]:
        own = self.benchmark_attention.latency
        for task in ("listops", "text", "retrieval"):
            longest = getattr(own.lengths, task)
            batch = own.batch_size * (2 if task == "retrieval" else 1)
            full = "full" in own.attentions
            tensors = transformer(**self.encoder.sizes(), length=longest, batch=batch, full=full)
            yield Need(("benchmark_attention", "latency", "lengths", task), longest, tensors)


SECTION = LongShort
