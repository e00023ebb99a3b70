"""What goes into parts comes out of them, byte for byte; a part too few is seen."""

import os
import random
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from relearn.runs.node import parts, pixels


def written(folder: Path, files: dict[str, bytes], limit: int, most: int | None = None) -> list[str]:
    """The names that found room."""
    with parts.Writer(folder, "home", limit, most) as writer:
        return [name for name, content in files.items() if writer.add(name, content)]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_an_interrupted_writer_leaves_the_parts_that_were_there(tmp_path: Path) -> None:
    written(tmp_path, {"a": os.urandom(5000)}, 2000)
    before = contents(tmp_path)
    (tmp_path / ".home.0.part.1.tmp").write_bytes(b"of a killed writer")
    with pytest.raises(KeyboardInterrupt), parts.Writer(tmp_path, "home", 2000) as writer:
        writer.add("b", os.urandom(2_000_000))
        raise KeyboardInterrupt
    assert contents(tmp_path) == before
    written(tmp_path, {"a": b"short"}, 2000)
    assert list(contents(tmp_path)) == ["home.0.part"]


@pytest.mark.parametrize("limit", [1000, 30_000, 10**6])
def test_files_come_back_whole_from_parts_of_the_size(tmp_path: Path, limit: int) -> None:
    files = {"a/record.json": b"{}" * 500, "a/weights.safetensors": os.urandom(70_000), "empty": b""}
    assert written(tmp_path / "parts", files, limit) == list(files)
    found = sorted((tmp_path / "parts").iterdir())
    assert all(path.stat().st_size <= limit for path in found) and (len(found) > 1) == (limit < 10**5)
    random.Random(0).shuffle(found)
    parts.read(found, tmp_path / "back")
    assert contents(tmp_path / "back") == files


def test_what_has_no_room_is_refused_and_the_rest_stays_below_the_limit(tmp_path: Path) -> None:
    files = {f"{number}": os.urandom(40_000) for number in range(8)} | {"small": b"x" * 3000}
    taken = written(tmp_path, files, 100_000, most=2)
    assert taken[:4] == ["0", "1", "2", "3"] and len(taken) < 8 and taken[-1] == "small"
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 200_000
    assert len(list(tmp_path.iterdir())) <= 2


def test_well_compressed_files_use_the_room_that_they_leave(tmp_path: Path) -> None:
    files = {f"{number}": bytes(60_000) for number in range(20)}  # 1.2 MB before, few bytes behind
    assert written(tmp_path, files, 100_000, most=1) == list(files)


def test_a_missing_or_torn_part_is_one_line(tmp_path: Path) -> None:
    written(tmp_path, {"weights": os.urandom(5000)}, 2000)
    found = sorted(tmp_path.iterdir())
    assert len(found) == 3
    with pytest.raises(ValueError, match=r"home\.1\.part: missing, 2 other parts are here"):
        parts.read([found[0], found[2]], tmp_path / "back")
    with pytest.raises(ValueError, match=r"home\.1\.part: torn, or a part behind it is missing"):
        parts.read(found[:2], tmp_path / "back")
    (tmp_path / "other").mkdir()
    again = tmp_path / "other" / found[1].name
    again.write_bytes(found[1].read_bytes())
    with pytest.raises(
        ValueError, match=r"other/home\.1\.part: found a second part 1 beside .*home\.1\.part"
    ):
        parts.read([*found, again], tmp_path / "back")
    with pytest.raises(ValueError, match="allowed: of one stem"):
        parts.read([found[0], found[1].rename(tmp_path / "other.1.part")], tmp_path / "back")


@pytest.mark.parametrize("name", ["/etc/passwd", "../outside", "a/../../outside"])
def test_no_file_is_written_outside_the_folder(tmp_path: Path, name: str) -> None:
    written(tmp_path / "parts", {name: b"x"}, 10**6)
    with pytest.raises(ValueError, match="allowed: plain files below its folder"):
        parts.read((tmp_path / "parts").iterdir(), tmp_path / "back")


def pictures(channels: int, count: int = 7) -> np.ndarray:
    """Smooth images, as photographs are, with a little noise."""
    rng = np.random.default_rng(0)
    ramps = np.add.outer(np.arange(32.0), 2 * np.arange(32.0))[None, None] + rng.uniform(
        0, 100, (count, channels, 1, 1)
    )
    return (ramps + rng.normal(0, 2, ramps.shape)).astype(np.uint8)


@pytest.mark.parametrize("channels", [1, 3])
def test_residuals_keep_every_pixel_and_compress_better(channels: int) -> None:
    import zlib

    whole = pictures(channels)
    left = pixels.residuals(whole)
    assert np.array_equal(pixels.images(left), whole)
    noise = np.random.default_rng(1).integers(0, 256, (5, channels, 6, 4), dtype=np.uint8)
    assert np.array_equal(pixels.images(pixels.residuals(noise)), noise)
    assert len(zlib.compress(left.tobytes())) < 0.8 * len(zlib.compress(whole.tobytes()))


def test_only_the_image_tensors_of_a_file_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pixels, "CHUNK", 3)
    content = save(
        {"images": pictures(3), "labels": np.arange(7), "mask": np.ones((2, 2), np.uint8)}, {"relearn": "{}"}
    )
    shrunk = pixels.shrunk(content)
    assert len(shrunk) == len(content) and pixels.restore(shrunk) == content
    changed = np.flatnonzero(np.frombuffer(shrunk, np.uint8) != np.frombuffer(content, np.uint8))
    images = 7 * 3 * 32 * 32
    assert 0 < len(changed) <= images and np.ptp(changed) < images
    written(tmp_path / "parts", {"data.safetensors" + parts.PIXELS: shrunk}, 10**6)
    parts.read((tmp_path / "parts").iterdir(), tmp_path / "back")
    assert contents(tmp_path / "back") == {"data.safetensors": content}


def test_images_that_several_files_have_travel_once(tmp_path: Path) -> None:
    shared = np.random.default_rng(0).integers(0, 256, (40, 3, 32, 32), dtype=np.uint8)
    files = {
        "whole/data.safetensors": save({"images": shared, "test_images": shared[:9] + np.uint8(1)}),
        "half/data.safetensors": save({"images": shared, "labels": np.arange(40)}),
        "other/data.safetensors": save({"images": shared[::-1].copy()}),
    }
    with parts.Writer(tmp_path / "parts", "home", 10**6) as writer:
        sizes = []
        for name, content in files.items():
            assert writer.add_images(name, content)
            writer._zipped.flush()
            writer._buffer.flush()
            sizes.append(writer.cut.written)
    alone = np.diff([0, *sizes])
    assert alone[1] < 0.05 * shared.nbytes < 0.9 * shared.nbytes < alone[2]  # noise does not compress
    parts.read((tmp_path / "parts").iterdir(), tmp_path / "back")
    assert contents(tmp_path / "back") == files
