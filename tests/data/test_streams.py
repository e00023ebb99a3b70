"""Streams by name: the official files alone, archives read safely, what short streams leave out.

Lanes of a stream: each goes on where it ended, targets one place on, what stays unread, a source of the loop.
"""

import dataclasses
import hashlib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.data import module_of, text_streams, wikipedia_streams
from relearn.data.stream_batches import StreamBatches
from relearn.data.streams import STREAMS, load_stream
from relearn.methods.batch_source import Source, rows

TEXT = b"anarchism originated as a term of abuse "


def archive(path: Path, **files: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in files.items():
            file.writestr(name, content)
    return path


@pytest.fixture
def small_official(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """As if the official text8 were 40 bytes long; a folder with its archive."""
    packed = archive(tmp_path / "text8.zip", text8=TEXT)
    content = packed.read_bytes()
    told = (len(content), hashlib.sha256(content).hexdigest(), hashlib.sha256(TEXT).hexdigest())
    monkeypatch.setitem(wikipedia_streams.OFFICIAL, "text8", told)
    monkeypatch.setattr(wikipedia_streams, "BYTES", len(TEXT))
    return tmp_path


def test_names_lead_to_loaders() -> None:
    for name in STREAMS:
        assert module_of(name, STREAMS).startswith("relearn.data.")
    with pytest.raises(ValueError, match="stream 'enwik9' is unknown; allowed: enwik8, text8, warandpeace"):
        load_stream("enwik9")


def test_an_archive_and_the_bare_file_give_the_same_text(small_official: Path) -> None:
    packed = load_stream("text8", folder=small_official)
    assert packed.content == TEXT and packed.source["sha256"] == hashlib.sha256(TEXT).hexdigest()
    (small_official / "text8").write_bytes(TEXT)
    (small_official / "text8.zip").unlink()
    assert load_stream("text8", folder=small_official).content == TEXT


def test_only_the_official_text_is_taken(small_official: Path, tmp_path: Path) -> None:
    (small_official / "text8").write_bytes(TEXT[:-1] + b"x")
    with pytest.raises(ValueError, match=r"text8: sha256 \w{64}, expected \w{64}; not the official text"):
        load_stream("text8", folder=small_official)
    (small_official / "text8").write_bytes(TEXT + b"x")
    with pytest.raises(ValueError, match=f"text8: {len(TEXT) + 1} bytes, expected {len(TEXT)}"):
        load_stream("text8", folder=small_official)
    (small_official / "text8").unlink()
    archive(small_official / "text8.zip", text8=TEXT, more=b"x")
    with pytest.raises(ValueError, match=r"text8.zip: \d+ bytes, expected \d+; not the official archive"):
        load_stream("text8", folder=small_official)
    (small_official / "text8.zip").unlink()
    with pytest.raises(ValueError, match=r"has neither text8 nor text8\.zip; allowed: one of them"):
        load_stream("text8", folder=small_official)


def test_an_archive_without_the_text_is_refused(
    small_official: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = archive(small_official / "text8.zip", other=TEXT)
    content = packed.read_bytes()
    official = (len(content), hashlib.sha256(content).hexdigest(), wikipedia_streams.OFFICIAL["text8"][2])
    monkeypatch.setitem(wikipedia_streams.OFFICIAL, "text8", official)
    with pytest.raises(
        ValueError, match=r"text8\.zip: has no text8; allowed: an archive with the file text8"
    ):
        load_stream("text8", folder=small_official)


def test_offline_the_error_says_what_to_fetch(offline: Path) -> None:
    with pytest.raises(OSError, match=r"https://mattmahoney\.net/dc/enwik8\.zip"):
        load_stream("enwik8")


def test_the_novel_lies_between_the_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = (
        b"preamble\r\n*** START OF THIS PROJECT GUTENBERG EBOOK X ***\r\n\r\nWell,\r\nPrince\r\n\r\n"
        b"*** END OF THIS PROJECT GUTENBERG EBOOK X ***\r\nterms"
    )
    assert text_streams.between_marks(content) == b"Well,\nPrince\n"
    assert text_streams.between_marks(b"no marks\n") == b"no marks\n"
    (tmp_path / "warandpeace.txt").write_bytes(content)
    with pytest.raises(ValueError, match=r"warandpeace.txt: \d+ bytes, expected 3293492"):
        load_stream("warandpeace", folder=tmp_path)
    novel = dataclasses.replace(
        text_streams.NOVEL, size=len(content), sha256=hashlib.sha256(content).hexdigest()
    )
    monkeypatch.setattr(text_streams, "NOVEL", novel)
    assert load_stream("warandpeace", folder=tmp_path).content == b"Well,\nPrince\n"
    (tmp_path / "warandpeace.txt").unlink()
    with pytest.raises(ValueError, match=r"lacks warandpeace\.txt"):
        load_stream("warandpeace", folder=tmp_path)


def test_no_line_of_the_documentation_comes_twice() -> None:
    stream = load_stream("pydoc_topics")
    lines = stream.content.decode().splitlines()
    assert len(stream.content) > 200_000 and len(set(lines)) == len(lines)
    assert load_stream("pydoc_topics").content == stream.content


def test_an_own_file_is_the_only_one(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"0 files \*.txt; allowed: exactly one"):
        load_stream("own_text", folder=tmp_path)
    (tmp_path / "a.txt").write_bytes(b"")
    with pytest.raises(ValueError, match=r"a\.txt: empty"):
        load_stream("own_text", folder=tmp_path)
    (tmp_path / "a.txt").write_bytes(b"\xff\x00 any bytes")
    assert load_stream("own_text", folder=tmp_path).content == b"\xff\x00 any bytes"
    (tmp_path / "b.txt").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"2 files \*.txt"):
        load_stream("own_text", folder=tmp_path)
    with pytest.raises(ValueError, match="own_text: no folder"):
        load_stream("own_text")


def test_the_real_novel(mirror: Callable[..., Path]) -> None:
    content = load_stream("warandpeace", folder=mirror("warandpeace")).content
    assert b"Gutenberg" not in content[:2000] and b"Well, Prince" in content[:20_000]
    assert 3_200_000 < len(content) < text_streams.NOVEL.size and b"\r" not in content


@given(st.integers(2, 300), st.integers(1, 5), st.integers(1, 12))
@settings(max_examples=80)
def test_each_lane_is_a_piece_of_the_stream_in_order(count: int, lanes: int, length: int) -> None:
    ids = torch.randperm(count) % 256
    ids = ids.to(torch.uint8)
    lane = (count - 1) // lanes
    if lane < length:
        with pytest.raises(ValueError, match=f"length is {length}; allowed: 1 to {lane}"):
            StreamBatches(ids, length=length, batch_size=lanes)
        return
    batches = StreamBatches(ids.numpy(), length=length, batch_size=lanes)
    epoch = list(batches.epoch(torch.Generator()))
    assert len(epoch) == batches.batches_per_epoch == lane // length
    read = torch.cat([inputs for (inputs, _), _ in epoch], 1)
    following = torch.cat([targets for _, targets in epoch], 1)
    assert read.dtype == following.dtype == torch.int64
    for b in range(lanes):
        kept = lane // length * length
        assert read[b].tolist() == ids[b * lane : b * lane + kept].tolist()
        assert following[b].tolist() == ids[b * lane + 1 : b * lane + kept + 1].tolist()
    assert (
        count - 1 - read.numel() < lanes * length + lanes
    )  # what stays unread is less than a batch and a bit
    assert [fresh.tolist() for (_, fresh), _ in epoch] == [[k == 0] * lanes for k in range(len(epoch))]


def test_the_training_loop_takes_them_as_a_source_and_nothing_is_drawn() -> None:
    batches = StreamBatches(torch.arange(50, dtype=torch.uint8), length=4, batch_size=3)
    assert isinstance(batches, Source)
    generator = torch.Generator().manual_seed(1)
    before = generator.get_state()
    one, two = list(batches.epoch(generator)), list(batches.epoch(generator))
    assert torch.equal(generator.get_state(), before)
    for (a, _), (b, _) in zip((batch[0] for batch in one), (batch[0] for batch in two), strict=True):
        assert torch.equal(a, b)
    assert rows(one[0]) == 3


def test_faults() -> None:
    ids = torch.zeros(9, dtype=torch.uint8)
    with pytest.raises(ValueError, match="length is 0; allowed: 1 or more"):
        StreamBatches(ids, length=0, batch_size=1)
    with pytest.raises(ValueError, match="batch_size is 0; allowed: 1 or more"):
        StreamBatches(ids, length=1, batch_size=0)
    with pytest.raises(
        ValueError, match="length is 9; allowed: 1 to 8, as a stream of 9 characters in 1 lanes"
    ):
        StreamBatches(ids, length=9, batch_size=1)
