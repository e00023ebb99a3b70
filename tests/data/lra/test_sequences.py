"""Prepared sequences and their batches: values come through, versions tell sets apart, padding is where nothing is."""

from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from relearn.data.lra import PARTS, perturb
from relearn.data.lra.batches import SequenceBatches
from relearn.data.lra.samples import Samples, Task
from relearn.data.lra.sequences import Part, Sequences, load, prepare, save

ROWS = [b"Good, really.", b"Bad!", b"\x00\xff so-so; no", b"?!"]


def written(rows: list[bytes] = ROWS, labels: tuple[int, ...] = (0, 1, 0, 1), **more: object) -> Task:
    one = Samples(rows, list(labels))
    return Task("text", "python", 256, 2, one, one, one, written=True, **more)  # type: ignore[arg-type]


def rows_of(part: Part) -> list[bytes]:
    return [part.values[a:b].tobytes() for a, b in zip(part.offsets, part.offsets[1:])]


def test_values_come_through_cut() -> None:
    got, metrics = prepare(written(), max_length=8, seed=3)
    for part in PARTS:
        assert rows_of(got.part(part)) == [row[:8] for row in ROWS]
        assert got.part(part).labels.tolist() == [0, 1, 0, 1]
    assert (got.vocabulary, got.classes, got.pairs, got.padded) == (257, 2, False, True)
    assert metrics["cut_frac"] == 0.5 and metrics["longest_count"] == 8
    assert metrics["mean_length_count"] == (8 + 4 + 8 + 2) / 4
    assert metrics["train_samples_count"] == 4 and metrics["most_frequent_frac"] == 0.5


def test_texts_are_perturbed_before_they_are_cut() -> None:
    got, _ = prepare(written(), max_length=8, seed=3)
    assert got.perturbed == ("insertion", "deletion")
    assert rows_of(got.part("test_deletion")) == [perturb.delete(row)[:8] for row in ROWS]
    assert (
        rows_of(got.part("test_deletion"))[0] == b"Good rea" and rows_of(got.part("test_deletion"))[3] == b" "
    )
    expected = [perturb.insert(row, np.random.default_rng([3, i]))[:8] for i, row in enumerate(ROWS)]
    assert rows_of(got.part("test_insertion")) == expected
    assert (got.part("test_insertion").labels == got.part("test").labels).all()
    # A sample's marks do not depend on the others, and the seed moves them.
    fewer, _ = prepare(written(ROWS[:2], (0, 1)), max_length=8, seed=3)
    assert rows_of(fewer.part("test_insertion")) == expected[:2]
    assert rows_of(prepare(written(), max_length=8, seed=4)[0].part("test_insertion")) != expected


def test_images_are_not_perturbed() -> None:
    one = Samples([b"\x00\x01", b"\x02\x00"], [0, 1])
    got, _ = prepare(Task("image", "digits", 256, 2, one, one, one), max_length=2)
    assert got.perturbed == () and not got.padded
    with pytest.raises(ValueError, match="part is 'test_insertion'; allowed for image: train, valid, test"):
        got.part("test_insertion")
    assert prepare(Task("image", "digits", 256, 2, one, one, one), max_length=3)[0].padded
    with pytest.raises(ValueError, match="max_length is 0"):
        prepare(written(), max_length=0)


def test_the_version_tells_sets_apart() -> None:
    version = prepare(written(), max_length=8)[0].version
    assert prepare(written(source={"from": "elsewhere"}), max_length=8)[0].version == version
    others = [
        prepare(written(labels=(1, 1, 0, 1)), max_length=8),
        prepare(written([*ROWS[:3], b"??"]), max_length=8),
        prepare(written(), max_length=9),
        prepare(written(), max_length=8, seed=1),
        # The same bytes cut elsewhere.
        prepare(written([b"Good, reall", b"y.Bad!", *ROWS[2:]]), max_length=100),
        prepare(written(), max_length=100),
    ]
    assert len({version, *(one.version for one, _ in others)}) == 7


def same(one: Sequences, two: Sequences) -> bool:
    told = [
        (s.task, s.dataset, s.vocabulary, s.classes, s.max_length, s.pairs, s.padded, s.version)
        for s in (one, two)
    ]
    return (
        told[0] == told[1]
        and one.arrays.keys() == two.arrays.keys()
        and all((one.arrays[name] == two.arrays[name]).all() for name in one.arrays)
    )


def test_a_file_holds_it_all(tmp_path: Path) -> None:
    got, _ = prepare(written(), max_length=8)
    save(got, tmp_path / "a.safetensors")
    save(prepare(written(), max_length=8)[0], tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    assert same(load(tmp_path / "a.safetensors"), got)


def test_other_files_are_refused(tmp_path: Path) -> None:
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    (tmp_path / "a").write_bytes(b"no such file")
    with pytest.raises(SafetensorError, match="`relearn long_short prepare_lra` writes one"):
        load(tmp_path / "a")
    save_file({"train_values": np.zeros(2, np.uint8)}, tmp_path / "b")
    with pytest.raises(ValueError, match=r"task, dataset, .* train_offsets, .*missing"):
        load(tmp_path / "b")


# batches


@st.composite
def parts(draw: st.DrawFn) -> Part:
    pairs = draw(st.booleans())
    samples = draw(st.integers(1, 9))
    rows = draw(
        st.lists(
            st.binary(min_size=1, max_size=7),
            min_size=samples * (1 + pairs),
            max_size=samples * (1 + pairs),
        )
    )
    return Part(
        np.frombuffer(b"".join(rows), np.uint8),
        np.cumsum([0, *map(len, rows)], dtype=np.int64),
        np.arange(samples),
        pairs,
    )


@given(part=parts(), size=st.integers(1, 10), more=st.integers(0, 3), trim=st.booleans())
def test_batches_hold_the_values_and_nothing_else(part: Part, size: int, more: int, trim: bool) -> None:
    rows = rows_of(part)
    longest = max(map(len, rows))
    batches = SequenceBatches(part, batch_size=size, length=longest + more, trim=trim)
    seen: list[int] = []
    for (tokens,), labels in batches.in_order():
        assert tokens.dtype == torch.int64 and len(tokens) == len(labels) <= size
        sides = tokens if part.pairs else tokens[:, None]
        assert sides.shape[1] == 1 + part.pairs
        found = [rows[(1 + part.pairs) * label + side] for label in labels for side in range(1 + part.pairs)]
        expected = max(map(len, found)) if trim else longest + more
        assert tokens.shape[-1] == expected
        for one, row in zip(sides.flatten(0, 1).tolist(), found):
            assert one == [value + 1 for value in row] + [0] * (expected - len(row))
        seen += labels.tolist()
    assert seen == list(range(len(part)))


@given(part=parts(), size=st.integers(1, 9), seed=st.integers(0, 99))
def test_an_epoch_sees_every_sample_at_most_once(part: Part, size: int, seed: int) -> None:
    for whole in (False, True):
        if whole and size > len(part):
            continue
        batches = SequenceBatches(part, batch_size=size, trim=True, whole=whole)
        epoch = [labels.tolist() for _, labels in batches.epoch(torch.Generator().manual_seed(seed))]
        again = [labels.tolist() for _, labels in batches.epoch(torch.Generator().manual_seed(seed))]
        assert epoch == again and len(epoch) == batches.batches_per_epoch
        flat = sorted(chain.from_iterable(epoch))
        if whole:
            assert {len(one) for one in epoch} == {size} and len(set(flat)) == len(flat)
            assert len(part) - len(flat) < size
        else:
            assert flat == list(range(len(part)))


def test_two_epochs_have_different_orders() -> None:
    part = Part(np.arange(40, dtype=np.uint8), np.arange(41), np.arange(40), False)
    batches = SequenceBatches(part, batch_size=40)
    generator = torch.Generator().manual_seed(0)
    one, two = (next(batches.epoch(generator))[1].tolist() for _ in range(2))
    assert one != two and sorted(one) == sorted(two) == list(range(40))


def test_what_cannot_be_batched() -> None:
    part = Part(np.arange(6, dtype=np.uint8), np.array([0, 2, 6]), np.arange(2), False)
    for size, whole in ((0, False), (3, True)):
        with pytest.raises(ValueError, match=f"batch_size is {size}"):
            SequenceBatches(part, batch_size=size, whole=whole)
    with pytest.raises(ValueError, match="length is 3; allowed: at least 4"):
        SequenceBatches(part, batch_size=1, length=3)
