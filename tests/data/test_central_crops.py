"""Test images as timm's evaluation reads them, in their order, whatever the batches and threads."""

import hashlib
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from relearn import torchvision_schema
from relearn.data.central_crops import INTERPOLATIONS, batches
from relearn.data.imagenet_folder import listing, validation


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory):
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("images")
    for number, (width, height) in enumerate([(60, 47), (47, 60), (40, 40), (33, 90), (101, 36)]):
        (path / f"c{number % 2}").mkdir(exist_ok=True)
        pixels = rng.integers(0, 256, (height, width, 3), np.uint8)
        Image.fromarray(pixels).save(path / f"c{number % 2}" / f"{number}.png")
    return listing(path)


def read(images, **changed):
    settings = {"size": 28, "crop_ratio": 0.875, "interpolation": "bicubic", "batch_size": 2, "workers": 2}
    parts = list(batches(images, **(settings | changed)))
    return torch.cat([pixels for pixels, _ in parts]), torch.cat([labels for _, labels in parts])


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize(("size", "ratio"), [(28, 0.875), (24, 0.9), (30, 1.0)])
def test_they_are_timms(images, interpolation: str, size: int, ratio: float) -> None:
    torchvision_schema.declare()
    made = import_module("timm.data").create_transform(
        size, crop_pct=ratio, interpolation=interpolation, mean=(0, 0, 0), std=(1, 1, 1)
    )
    pixels, _ = read(images, size=size, crop_ratio=ratio, interpolation=interpolation)
    for one, path in zip(pixels, images.files):
        wanted = made(Image.open(path).convert("RGB"))
        assert torch.equal(one, (255 * wanted).round().to(torch.uint8))


def test_bilinear_ones_are_those_of_validation(images) -> None:
    assert torch.equal(
        read(images, interpolation="bilinear")[0], validation(images, size=28, resize=32, workers=2)
    )
    assert not torch.equal(read(images)[0], read(images, interpolation="bilinear")[0])


def test_batches_and_threads_change_nothing(images) -> None:
    pixels, labels = read(images)
    assert pixels.shape == (5, 3, 28, 28) and torch.equal(labels, images.labels)
    for changed in ({"batch_size": 1}, {"batch_size": 9}, {"workers": 1}, {"workers": 5}):
        assert torch.equal(read(images, **changed)[0], pixels)


def test_left_early_its_threads_end(images) -> None:
    import threading

    before = threading.active_count()
    some = batches(images, size=8, crop_ratio=1.0, interpolation="bilinear", batch_size=1)
    next(some)
    some.close()
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"interpolation": "nearest"}, "interpolation is 'nearest'; allowed: bilinear, bicubic, lanczos"),
        ({"crop_ratio": 0.0}, "crop_ratio is 0.0; allowed: above 0, at most 1"),
        ({"crop_ratio": 1.1}, "crop_ratio is 1.1"),
        ({"size": 0}, "size is 0; allowed: 1 or more"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"workers": 0}, "workers is 0"),
    ],
)
def test_wrong_arguments_are_refused(images, changed: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read(images, **changed)


def test_undecodable_images_are_omitted_and_reported(tmp_path) -> None:
    rng = np.random.default_rng(1)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for number in range(3):
            pixels = rng.integers(0, 256, (30, 30, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / name / f"{number}.png")
    whole, _ = read(listing(tmp_path))
    torn = (tmp_path / "a/2.png", tmp_path / "b/0.png", tmp_path / "b/2.png")
    for path in torn:
        path.write_bytes(path.read_bytes()[:60])
    images = listing(tmp_path)
    for size in (1, 2, 6):  # batches that are all bad, half bad, one bad
        faults: dict[int, str] = {}
        pixels, labels = read(images, batch_size=size, faults=faults)
        assert sorted(faults) == [2, 3, 5] and all(
            "not an image that can be decoded" in one for one in faults.values()
        )
        assert torch.equal(pixels, whole[[0, 1, 4]]) and labels.tolist() == [0, 0, 1]
        assert not any(str(tmp_path) in one for one in faults.values())
    with pytest.raises(ValueError, match=r"a/2\.png: not an image that can be decoded"):
        read(images)


def test_squashed_images_are_timms_and_files_are_read_once(tmp_path: Path) -> None:
    """Both sides are resized; the hash of a file comes with its pixels."""
    import_module("relearn.torchvision_schema").declare()
    transforms = import_module("timm.data").create_transform
    rng = np.random.default_rng(0)
    (tmp_path / "a").mkdir()
    path = tmp_path / "a" / "x.png"
    Image.fromarray(rng.integers(0, 256, (20, 50, 3), np.uint8)).save(path)
    digests: dict[Path, str] = {}
    how = {"size": 16, "crop_ratio": 0.8, "interpolation": "bicubic", "batch_size": 1}
    ((pixels, _),) = batches(listing(tmp_path), **how, crop_mode="squash", digests=digests)
    made = transforms(
        16, crop_pct=0.8, interpolation="bicubic", crop_mode="squash", mean=(0,) * 3, std=(1,) * 3
    )
    wanted = made(Image.open(path)) * 255
    torch.testing.assert_close(pixels[0].float(), wanted, rtol=0, atol=1e-3)
    assert digests == {path: hashlib.sha256(path.read_bytes()).hexdigest()}
    with pytest.raises(ValueError, match="crop_mode is 'border'; allowed: center, squash"):
        next(batches(listing(tmp_path), **how, crop_mode="border"))
