"""Image sets: what is refused; channel statistics against a plain float64 computation.

A prepared data set read back: each part is what the split says of the original images.
"""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from relearn.data import images as module
from relearn.data.arrays import Prepared, load_prepared
from relearn.data.images import Images, channel_statistics, sha256_of
from relearn.data.prepared_file import write
from relearn.data.split import split
from relearn.steps.prepare_images import used_tensors


def some(n: int = 6, shape: tuple[int, ...] = (3, 4, 5), seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, *shape), np.uint8)


def make(**changes: object) -> Images:
    given: dict = {
        "train_images": some(),
        "train_labels": np.array([0, 1, 2, 0, 1, 2]),
        "class_names": ("a", "b", "c"),
        "source": {},
    }
    return Images(**(given | changes))


def test_a_set_without_masks_is_exact_throughout() -> None:
    data = make(test_images=some(2), test_labels=np.array([0, 2]))
    assert data.train_exact.all() and data.train_exact.shape == (6,)
    assert data.test_exact is not None and data.test_exact.all() and data.test_exact.shape == (2,)
    assert make().test_exact is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_labels": np.array([0, 1, 2, 0, 1, 3])}, "train: label 3 at index 5; allowed: 0 to 2"),
        ({"train_labels": np.array([0, 1, -1, 0, 1, 2])}, "label -1 at index 2"),
        ({"train_labels": np.array([0, 1, 2])}, r"labels are int64 \(3,\); allowed: int64 \(6,\)"),
        ({"train_labels": np.array([0, 1, 2, 0, 1, 2], np.int32)}, "labels are int32"),
        ({"train_images": some().astype(np.float32)}, "images are float32"),
        ({"train_images": some()[:, 0]}, "allowed: uint8"),
        ({"train_exact": np.ones(5, bool)}, "exact mask"),
        ({"test_images": some(2)}, r"\(allowed: both or neither\)"),
        ({"test_images": some(2), "test_labels": np.array([0, 4])}, "test: label 4 at index 1"),
        (
            {"test_images": some(2, (3, 4, 4)), "test_labels": np.array([0, 2])},
            r"test: images are \(3, 4, 4\)",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused_in_one_line(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        make(**changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("n", [1, 7, 23])
def test_statistics_equal_the_plain_computation(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 5)  # so that several blocks are summed
    data = some(n)
    mean, std = channel_statistics(data)
    pixels = (data / 255.0).transpose(1, 0, 2, 3).reshape(3, -1)
    # Results are float32: half a unit in the last place of numbers below 1.
    np.testing.assert_allclose(mean, pixels.mean(1), rtol=0, atol=6e-8)
    np.testing.assert_allclose(std, pixels.std(1), rtol=0, atol=6e-8)
    assert mean.dtype == std.dtype == np.float32


def test_normalised_by_its_statistics_a_set_has_mean_0_and_spread_1() -> None:
    data = some(40)
    mean, std = channel_statistics(data)
    normal = (data / 255.0 - mean[:, None, None]) / std[:, None, None]
    np.testing.assert_allclose(normal.mean((0, 2, 3)), 0, atol=1e-6)
    np.testing.assert_allclose(normal.std((0, 2, 3)), 1, atol=1e-6)
    # The negative control: the mean of each image's own spread (a common slip) is smaller.
    own = (data / 255.0).std((2, 3)).mean(0)
    assert (own < std).all()


def test_statistics_need_images_and_more_than_one_value() -> None:
    with pytest.raises(ValueError, match="no images"):
        channel_statistics(some(0))
    flat = some()
    flat[:, 1] = 9
    with pytest.raises(ValueError, match="channel 1 is constant"):
        channel_statistics(flat)


def test_the_digest_is_that_of_the_bytes_whatever_the_memory_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 4)
    last = some(9, (4, 5, 3))
    first = last.transpose(0, 3, 1, 2)  # a view, not contiguous
    assert sha256_of(first) == hashlib.sha256(first.tobytes()).hexdigest()
    assert sha256_of(first) != sha256_of(last)


NAMES = ("a", "b", "c")
SIZES = {"pretrain_per_class": 4, "fine_tune_per_class": 2, "pool_per_class": 5}


def original(official: bool, seed: int = 1) -> Images:
    rng = np.random.default_rng(seed)
    # Class 0 first: its unused images then stand before used ones of every part.
    labels = np.concatenate([np.zeros(14, np.int64), rng.permutation(np.repeat([1, 2], 14))])
    images = rng.integers(0, 256, (42, 3, 4, 4), np.uint8)
    exact = rng.random(42) < 0.7
    test = {"test_images": rng.integers(0, 256, (6, 3, 4, 4), np.uint8), "test_labels": np.arange(6) % 3}
    return Images(images, labels, NAMES, {}, train_exact=exact, **(test if official else {}))


def prepared(tmp_path: Path, data: Images) -> Prepared:
    official = data.test_images is not None
    parts = split(data.train_labels, classes=NAMES, official_test=official, **SIZES)
    write(tmp_path / "data.safetensors", used_tensors(data, parts), {"data set": "toy", "classes": NAMES})
    return load_prepared(tmp_path / "data.safetensors")


@pytest.mark.parametrize("official", [True, False])
def test_every_part_holds_the_original_images(tmp_path: Path, official: bool) -> None:
    data = original(official)
    parts = split(data.train_labels, classes=NAMES, official_test=official, **SIZES)
    got = prepared(tmp_path, data)
    assert (got.dataset, got.classes) == ("toy", NAMES)
    for name in ("pretrain", "pool", "fine_tune"):
        index = getattr(parts, name)
        images, labels = getattr(got, name)()
        np.testing.assert_array_equal(images.numpy(), data.train_images[index])
        np.testing.assert_array_equal(labels.numpy(), data.train_labels[index])
        assert images.dtype == torch.uint8 and labels.dtype == torch.int64
    images, labels = got.test()
    expected = (data.test_images, data.test_labels)
    if parts.test is not None:
        expected = (data.train_images[parts.test], data.train_labels[parts.test])
    np.testing.assert_array_equal(images.numpy(), expected[0])
    np.testing.assert_array_equal(labels.numpy(), expected[1])
    used = got.tensors["source_index"].numpy()
    np.testing.assert_array_equal(got.tensors["exact"].numpy(), data.train_exact[used])
    # Only what is used is stored: 9 of 14 a class where the test images come from elsewhere.
    assert len(used) == (27 if official else 42)
    if official:  # the case would prove nothing if no index had to change
        assert all(
            (used[got.tensors[name]] != got.tensors[name].numpy()).any() for name in ("pretrain", "pool")
        )


def test_statistics_are_those_of_the_pretraining_images(tmp_path: Path) -> None:
    got = prepared(tmp_path, original(True))
    pixels = got.pretrain()[0].double() / 255
    torch.testing.assert_close(got.mean.double(), pixels.mean((0, 2, 3)), rtol=0, atol=6e-8)
    torch.testing.assert_close(got.std.double(), pixels.std((0, 2, 3), unbiased=False), rtol=0, atol=6e-8)
    everything = got.images.double() / 255
    assert not torch.allclose(got.mean.double(), everything.mean((0, 2, 3)), atol=1e-4)


def test_trials_name_images_of_the_original_and_bases_within_the_fine_tuning_set(tmp_path: Path) -> None:
    data = original(False)
    got = prepared(tmp_path, data)
    trials = got.trials(target_class=0, targets=3, poison_class=2, poisons=2)
    source = got.tensors["source_index"][trials.target_index].numpy()
    assert source.tolist() == np.flatnonzero(data.train_labels == 0)[6:9].tolist()
    np.testing.assert_array_equal(trials.target_images.numpy(), data.train_images[source])
    images, labels = got.fine_tune()
    positions = trials.base_positions_in_fine_tune
    assert torch.equal(trials.base_images, images[positions])
    assert (labels[positions] == 2).all()
    with pytest.raises(ValueError, match="targets is 4; allowed: 1 to 3"):
        got.trials(target_class=0, targets=4, poison_class=2, poisons=2)


def test_a_range_of_the_pretraining_images(tmp_path: Path) -> None:
    data = original(True)
    got = prepared(tmp_path, data)
    images, labels = got.pretrain(per_class=(1, 3))
    assert torch.bincount(labels).tolist() == [2, 2, 2]
    for label in range(3):
        wanted = data.train_images[np.flatnonzero(data.train_labels == label)[1:3]]
        np.testing.assert_array_equal(images[labels == label].numpy(), wanted)
    with pytest.raises(ValueError, match="allowed: 0 <= start < stop <= 4"):
        got.pretrain(per_class=(2, 5))


def test_equal_data_give_equal_bytes(tmp_path: Path) -> None:
    contents = set()
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        prepared(tmp_path / name, original(True))
        contents.add((tmp_path / name / "data.safetensors").read_bytes())
    assert len(contents) == 1


def test_the_file_may_be_read_by_whom_the_umask_allows(tmp_path: Path) -> None:
    prepared(tmp_path, original(True))
    (tmp_path / "plain").touch()
    assert (tmp_path / "data.safetensors").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_another_safetensors_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    save_file({"images": np.zeros(3, np.uint8)}, path, {"relearn": "{}"})
    with pytest.raises(
        ValueError, match=r"weights.safetensors: not a prepared data set, data set, classes, labels, "
    ):
        load_prepared(path)
