"""Class folders: crops by their formula, threads change no bit, validation as torchvision's; the real images."""

import errno
import math
import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import nn

from relearn import torchvision_schema
from relearn.data import class_folders, imagenet_folder
from relearn.data.imagenet_folder import FolderBatches, crop_box, decode_rgb, listing, validation
from relearn.methods import batch_source

SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def folder(path: Path, counts: tuple[int, ...] = (3, 4, 2), side: tuple[int, int] = (24, 18)) -> Path:
    """Class c holds images whose red is 40·c, green 20·number, blue a ramp from left to right."""
    for label, count in enumerate(counts):
        (path / f"n{label:08d}").mkdir(parents=True)
        for number in range(count):
            pixels = np.zeros((side[1], side[0], 3), np.uint8)
            pixels[..., 0], pixels[..., 1] = 40 * label, 20 * number
            pixels[..., 2] = np.linspace(0, 230, side[0]).round()[None]
            Image.fromarray(pixels).save(path / f"n{label:08d}" / f"a_{number}.png")
    return path


@given(
    st.integers(1, 3000),
    st.integers(1, 3000),
    st.integers(0, 10**6),
    st.sampled_from([SCALE, (0.9, 1.0), (1.0, 1.0)]),
)
def test_a_crop_lies_inside_and_has_its_area_and_shape(
    width: int, height: int, seed: int, scale: tuple
) -> None:
    left, top, right, bottom = crop_box(width, height, random.Random(seed), scale=scale, ratio=RATIO)
    w, h = right - left, bottom - top
    assert 0 <= left < right <= width and 0 <= top < bottom <= height
    if max(width, height) <= 4 / 3 * min(width, height) and min(w, h) > 20:
        # Sides are rounded to whole pixels; where no draw fitted, the central crop is the whole image.
        slack = 1 + 1 / min(w, h)
        assert scale[0] / slack**2 <= w * h / (width * height) <= scale[1] * slack**2
        assert RATIO[0] / slack <= w / h <= RATIO[1] * slack


def test_area_and_shape_and_place_are_drawn_as_the_formula_says() -> None:
    """In a regime where every draw fits (area ≤ 0.3, so sides ≤ 0.64): moments of the three distributions."""
    draw, n, side = random.Random(0), 4000, 2000
    boxes = [crop_box(side, side, draw, scale=(0.1, 0.3), ratio=RATIO) for _ in range(n)]
    w, h = (np.array([box[2 + i] - box[i] for box in boxes], float) for i in (0, 1))
    place = np.array([box[0] for box in boxes]) / (side - w)
    uniform = {
        "area": (w * h / side**2, 0.1, 0.3),
        "log ratio": (np.log(w / h), math.log(RATIO[0]), math.log(RATIO[1])),
        "place": (place, 0.0, 1.0),
    }
    for values, low, high in uniform.values():
        sigma = (high - low) / math.sqrt(12)
        assert abs(values.mean() - (low + high) / 2) < 4 * sigma / math.sqrt(n)
        assert abs(values.var() / sigma**2 - 1) < 4 * math.sqrt(0.8 / n)  # variance of (x-μ)²/σ² is 0.8
    assert abs(np.corrcoef(w * h, w / h)[0, 1]) < 4 / math.sqrt(n)


def test_where_no_crop_fits_the_middle_serves() -> None:
    assert crop_box(1000, 10, random.Random(0), scale=(0.9, 1.0), ratio=RATIO) == (493, 0, 506, 10)
    assert crop_box(10, 1000, random.Random(0), scale=(0.9, 1.0), ratio=RATIO) == (0, 493, 10, 506)


def test_a_ramp_stays_a_ramp(tmp_path: Path) -> None:
    """Crop and resize of a linear ramp is the ramp over the box; mirrored, it falls."""
    path = folder(tmp_path, (1, 1), side=(400, 300))
    batches = FolderBatches(listing(path), batch_size=2, size=32, scale=(0.2, 0.8))
    falling = 0
    for seed in range(40):
        pixels = batches.one(0, seed).astype(float)
        draw = random.Random(f"{seed} 0")
        left, _, right, _ = crop_box(400, 300, draw, scale=(0.2, 0.8), ratio=RATIO)
        centres = left + (np.arange(32) + 0.5) * (right - left) / 32 - 0.5
        wanted = 230 * centres / 399
        mirrored = pixels[2, 0, 0] > pixels[2, 0, -1]
        falling += mirrored
        row = pixels[2, 16, ::-1] if mirrored else pixels[2, 16]
        np.testing.assert_allclose(row[2:-2], wanted[2:-2], atol=1.5)
    assert 8 <= falling <= 32  # binomial(40, 1/2), four standard deviations
    still = FolderBatches(listing(path), batch_size=2, size=32, flip=False)
    assert all(still.one(0, seed)[2, 0, 0] < still.one(0, seed)[2, 0, -1] for seed in range(20))


def test_every_image_once_with_its_label(tmp_path: Path) -> None:
    images = listing(folder(tmp_path))
    batches = FolderBatches(images, batch_size=3, size=8, workers=2)
    assert isinstance(batches, batch_source.Source) and batches.batches_per_epoch == 3 and len(batches) == 9
    seen = []
    for pixels, labels in batches.epoch(generator(0)):
        assert pixels.dtype == torch.uint8 and pixels.shape == (3, 3, 8, 8) and labels.dtype == torch.int64
        assert torch.equal(pixels[:, 0].amax((1, 2)), 40 * labels)
        seen += [(int(label), int(green)) for label, green in zip(labels, pixels[:, 1].amax((1, 2)))]
    assert sorted(seen) == [(c, 20 * i) for c, count in enumerate((3, 4, 2)) for i in range(count)]


def test_threads_change_no_bit_and_draws_come_from_the_generator(tmp_path: Path) -> None:
    images = listing(folder(tmp_path))
    before = torch.random.get_rng_state(), random.getstate()
    made = {
        (workers, seed): [
            torch.cat([pixels.flatten(), labels])
            for pixels, labels in FolderBatches(images, batch_size=4, size=8, workers=workers).epoch(
                generator(seed)
            )
        ]
        for workers in (1, 5)
        for seed in (0, 1)
    }
    assert torch.equal(before[0], torch.random.get_rng_state()) and before[1] == random.getstate()
    for seed in (0, 1):
        assert all(map(torch.equal, made[1, seed], made[5, seed]))
    assert not all(map(torch.equal, made[1, 0], made[1, 1]))
    assert [len(one) for one in made[1, 0]] == [4 * (3 * 64 + 1)] * 2, "the ninth image alone is left out"
    shared = generator(0)
    epochs = [next(FolderBatches(images, batch_size=4, size=8).epoch(shared))[0] for _ in range(2)]
    assert not torch.equal(*epochs)


def test_a_source_left_early_ends_its_threads(tmp_path: Path) -> None:
    import threading

    batches = FolderBatches(listing(folder(tmp_path)), batch_size=2, size=8)
    before = threading.active_count()
    epoch = batches.epoch(generator(0))
    next(epoch)
    epoch.close()
    assert threading.active_count() == before


def test_the_training_loop_takes_it(tmp_path: Path) -> None:
    from relearn.methods.fit import fit

    images = listing(folder(tmp_path))
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 3))
    done = fit(
        model,
        FolderBatches(images, batch_size=3, size=8),
        loss=nn.functional.cross_entropy,
        epochs=8,
        lr=0.05,
        schedule="constant",
    )
    assert done.outcome == "ok" and done.history[-1]["loss"] < done.history[0]["loss"]


def test_pools_are_floats_and_never_end(tmp_path: Path) -> None:
    batches = FolderBatches(listing(folder(tmp_path)), batch_size=4, size=8)
    pools = batches.pools(seed=0)
    for _ in range(5):
        pixels, labels = next(pools)
        assert pixels.dtype == torch.float32 and 0 <= float(pixels.min()) <= float(pixels.max()) <= 1
        assert torch.allclose(pixels[:, 0].amax((1, 2)) * 255, (40 * labels).float())
    pools.close()


def noise(path: Path, sizes: list[tuple[int, int]]) -> Path:
    rng = np.random.default_rng(0)
    (path / "c").mkdir(parents=True)
    for number, (width, height) in enumerate(sizes):
        Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8)).save(path / "c" / f"{number}.png")
    return path


def as_torchvision(path: Path, size: int, resize: int) -> torch.Tensor:
    torchvision_schema.declare()
    from torchvision.transforms import v2

    both = v2.Compose([v2.Resize(resize), v2.CenterCrop(size), v2.PILToTensor()])
    return both(Image.open(path).convert("RGB"))


def test_validation_is_torchvisions(tmp_path: Path) -> None:
    images = listing(noise(tmp_path, [(60, 47), (47, 60), (40, 40), (33, 90), (101, 36)]))
    got = validation(images, size=28, resize=32)
    for one, path in zip(got, images.files):
        assert torch.equal(one, as_torchvision(path, 28, 32))
    with pytest.raises(ValueError, match="size is 33; allowed: 1 to resize = 32"):
        validation(images, size=33, resize=32)


def test_validation_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, cache = noise(tmp_path / "v", [(40, 40), (50, 40)]), tmp_path / "cache"
    fresh = validation(listing(path), size=28, resize=32)
    first = validation(listing(path), size=28, resize=32, cache=cache)
    assert torch.equal(first, fresh)
    first.zero_()  # what a caller writes stays with the caller

    def never(path: Path) -> Image.Image:
        raise AssertionError("decoded again")

    monkeypatch.setattr(imagenet_folder, "decode_rgb", never)
    assert torch.equal(validation(listing(path), size=28, resize=32, cache=cache), fresh)
    for changed in ({"size": 27, "resize": 32}, {"size": 28, "resize": 33}):
        with pytest.raises(AssertionError, match="decoded again"):
            validation(listing(path), **changed, cache=cache)
    os.utime(path / "c" / "0.png", (1, 1))
    with pytest.raises(AssertionError, match="decoded again"):
        validation(listing(path), size=28, resize=32, cache=cache)
    assert [one.suffix for one in cache.iterdir()] == [".npy"], "what failed leaves nothing"


def test_a_torn_cache_is_made_again_and_a_full_disk_is_named(tmp_path: Path, monkeypatch) -> None:
    images, cache = listing(noise(tmp_path / "v", [(40, 40)])), tmp_path / "cache"
    fresh = validation(images, size=28, resize=32, cache=cache).clone()
    (kept,) = cache.iterdir()
    for torn in (b"", kept.read_bytes()[:900]):
        kept.write_bytes(torn)
        assert torch.equal(validation(images, size=28, resize=32, cache=cache), fresh)

    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(OSError, match=r"full: .*\.part'"):
        validation(images, size=27, resize=32, cache=cache)
    assert list(cache.iterdir()) == [kept]


def test_classes_are_the_sorted_names_of_the_folders(tmp_path: Path) -> None:
    train = listing(folder(tmp_path / "train"))
    assert train.classes == ("n00000000", "n00000001", "n00000002")
    assert train.labels.tolist() == [0] * 3 + [1] * 4 + [2] * 2
    (tmp_path / "train" / "n00000000" / "notes.txt").write_text("no image")
    hidden = tmp_path / "train" / ".ipynb_checkpoints"
    hidden.mkdir()
    (hidden / "a.png").write_bytes(train.files[0].read_bytes())
    assert torch.equal(listing(tmp_path / "train").labels, train.labels), "a hidden folder is no class"
    assert list(map(len, class_folders.files_of(tmp_path / "train").values())) == [3, 4, 2]
    part = train.take([8, 0])
    assert part.labels.tolist() == [2, 0] and part.files == (train.files[8], train.files[0])
    val = folder(tmp_path / "val", (1, 1, 1))
    assert listing(val, classes=train.classes[::-1]).labels.tolist() == [0, 1, 2]
    assert listing(val, classes=train.classes[::-1]).files[0].parent.name == "n00000002"
    (val / "n00000009").mkdir()
    with pytest.raises(ValueError, match="class 'n00000009' is unknown; allowed: the 3 given classes"):
        listing(val, classes=train.classes)
    with pytest.raises(ValueError, match=r"n00000009: no images; allowed: at least one of .jpeg"):
        listing(val)
    with pytest.raises(ValueError, match=r"no class folders; required: c/<class>/\*.JPEG"):
        listing(noise(tmp_path / "flat", [(9, 9)]) / "c")


def test_faults(tmp_path: Path) -> None:
    path = folder(tmp_path)
    images = listing(path)
    broken = path / "n00000001" / "a_2.png"
    broken.write_bytes(broken.read_bytes()[:60])
    with pytest.raises(ValueError, match=r"a_2.png: not an image that can be decoded"):
        list(FolderBatches(images, batch_size=4, size=8).epoch(generator(0)))
    with pytest.raises(ValueError, match=r"a_2.png: not an image that can be decoded"):
        validation(images, size=8, resize=8)
    broken.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\5IHDR" + bytes(9))
    with pytest.raises(ValueError, match=r"a_2.png: not an image that can be decoded \(Truncated IHDR"):
        decode_rgb(broken)
    for changes, said in (
        ({"batch_size": 1}, "batch_size is 1; allowed: 2 or more"),
        ({"workers": 0}, "workers is 0; allowed: 1 or more"),
        ({"scale": (0.0, 1.0)}, r"scale is \(0.0, 1.0\); allowed: 0 < smallest"),
        ({"ratio": (2.0, 1.0)}, r"ratio is \(2.0, 1.0\); allowed: 0 < smallest"),
    ):
        with pytest.raises(ValueError, match=said):
            FolderBatches(images, **({"batch_size": 2} | changes))
    for size in (2, 7):  # the last of nine images alone is dropped
        with pytest.raises(ValueError, match="the last batch has 2 rows for 3 processes"):
            FolderBatches(images, batch_size=size, part=(1, 3))
    with pytest.raises(ValueError, match="images: 1; allowed: 2 or more"):
        FolderBatches(images.take([0]), batch_size=2)


def test_grey_and_transparent_images_become_rgb(tmp_path: Path) -> None:
    for mode in ("L", "RGBA", "CMYK", "P"):
        path = tmp_path / f"{mode}.{'jpg' if mode == 'CMYK' else 'png'}"
        Image.new(mode, (5, 4)).save(path)
        assert decode_rgb(path).mode == "RGB" and decode_rgb(path).size == (5, 4)


def test_real_images_are_listed_and_decoded(mirror: Callable[..., Path]) -> None:
    images = listing(mirror("imagenet_sample_derived"))
    assert (
        len(images.classes) == 1000 and images.classes[0] == "n01440764" and images.classes[-1] == "n15075141"
    )
    some = images.take(range(0, len(images), 50))
    pixels = validation(some, size=224, resize=256, workers=2)
    for i in (0, 7, 19):
        assert torch.equal(pixels[i], as_torchvision(some.files[i], 224, 256))
    seen = 0
    for batch, labels in FolderBatches(some, batch_size=8, workers=2).epoch(generator(0)):
        assert batch.shape[1:] == (3, 224, 224) and float(batch.float().std()) > 10
        seen += len(labels)
    assert seen == len(some)
