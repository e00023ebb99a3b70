"""What params.yaml may say of the studies that train vision Transformers, where they do: rules that tie several keys together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from relearn.data.facts import CLASSES, SIDE, images_for_testing
from relearn.params.forecast_memory import Need, jacobian, transformer

Get = Callable[[str], Any]
Conflict = tuple[tuple[str | int, ...], str]

STUDIES = ("lipsformer", "lrformer")
LOOKS = {
    "lrformer": ("lrformer.uncertainty.images",),
}
"""What asks for test images of a study after it has trained."""
CHANNELS = {"Swin-T": (96, 3), "Swin-S": (96, 3), "Swin-B": (128, 4), "CSwin-T": (64, 2)}
"""Of the first stage, and its heads; LipsFormer has those of the network that it follows."""


def _at(key: str) -> tuple[str | int, ...]:
    return tuple(key.split("."))


def _test_images_of(get: Get, study: str) -> int:
    dataset = get(f"{study}.images.dataset")
    return images_for_testing(dataset, CLASSES * get(f"{study}.images.train_per_class"))


def _patches(get: Get) -> Iterator[Conflict]:
    for study in STUDIES:
        key, side = f"{study}.network.patch_size", SIDE[get(f"{study}.images.dataset")]
        if side % get(key):
            fit = ", ".join(str(n) for n in range(1, side + 1) if side % n == 0)
            yield _at(key), f"found {get(key)}, allowed: what divides the images' side of {side}: {fit}"


def _heads(get: Get) -> Iterator[Conflict]:
    for study in ("lrformer",):
        key, heads = f"{study}.network.dim", get(f"{study}.network.heads")
        if get(key) % heads:
            yield _at(key), f"found {get(key)}, allowed: multiples of heads = {heads}"


def _width(get: Get) -> Iterator[Conflict]:
    key = "lipsformer.network.width"
    names = [
        *get("lipsformer.grid.pairs.networks"),
        *(["CSwin-T"] if get("lipsformer.grid.ablation.variants") else []),
    ]
    for channels, heads in {CHANNELS[name.removeprefix("LipsFormer-")] for name in names}:
        if get(key) * channels % heads:
            yield (
                _at(key),
                f"found {get(key):g}, allowed: factors that leave {channels} channels a multiple of {heads} heads",
            )
            return


def _batches(get: Get) -> Iterator[Conflict]:
    keys = {
        "lipsformer": ("train",),
        "lrformer": ("grid.optimisers.depth_6", "grid.optimisers.depth_12"),
    }
    for study, places in keys.items():
        images = CLASSES * get(f"{study}.images.train_per_class")
        for place in places:
            key = f"{study}.{place}.batch_size"
            if images and get(key) > images:
                yield (
                    _at(key),
                    f"found {get(key)}, allowed: at most {images} images (10 x images.train_per_class)",
                )


def _warmup(get: Get) -> Iterator[Conflict]:
    pairs = {}
    pairs["lipsformer.grid.ablation.warmup_epochs"] = "lipsformer.grid.ablation.epochs"
    pairs["lipsformer.grid.pairs.warmup_epochs"] = "lipsformer.train.epochs"
    for key, length in pairs.items():
        if get(key) > get(length):
            yield _at(key), f"found {get(key)}, allowed: at most epochs = {get(length)}"


def _test_images(get: Get) -> Iterator[Conflict]:
    for study in STUDIES:
        most = _test_images_of(get, study)
        for key in (f"{study}.train.test_images", *LOOKS.get(study, ())):
            if get(key) > most:
                what = f"the {most} test images of {get(f'{study}.images.dataset')}"
                yield _at(key), f"found {get(key)}, allowed: at most {what}"


RULES = (_patches, _heads, _width, _batches, _warmup, _test_images)


def _vit_memory(get: Get) -> Iterator[Need]:
    """The residual networks: as many tokens as patches and one more, a feed-forward four times as wide as the stream."""
    cases = {
        **{
            f"lrformer {depth}": (depth, get(f"lrformer.grid.optimisers.depth_{depth}.batch_size"))
            for depth in (6, 12)
        },
    }
    for case, (layers, batch) in cases.items():
        study = case.partition(" ")[0]
        own, key = get(f"{study}.network"), f"{study}.network.dim"
        length = (SIDE[get(f"{study}.images.dataset")] // own["patch_size"]) ** 2 + 1
        dim, heads = own["dim"], own["heads"]
        tensors = transformer(layers=layers, dim=dim, ffn=4 * dim, heads=heads, length=length, batch=batch)
        yield Need(_at(key), dim, tensors)


def _examine_memory(get: Get) -> Iterator[Need]:
    key = "lrformer.examine.lrsa.dims"
    longest, widest = get("lrformer.examine.lrsa.lengths")[-1], get(key)[-1]
    yield Need((*_at(key), len(get(key)) - 1), widest, (jacobian(longest, widest),))


NEEDS = (_vit_memory, _examine_memory)
