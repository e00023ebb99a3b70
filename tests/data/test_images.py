"""Image sets: what is refused; channel statistics against a plain float64 computation."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from relearn.data import images as module
from relearn.data.images import Images, channel_statistics, sha256_of


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
