"""Out of memory: told apart from other errors, and tried again with less."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from relearn.memory import halving, out_of_memory, peak


class Full(MemoryError):
    """As a library's own class."""


def needs(limit: int, sizes: list[int]):
    def run(size: int) -> str:
        sizes.append(size)
        if size > limit:
            raise Full(f"{size} is too much")
        return f"done with {size}"

    return run


@pytest.mark.parametrize(
    ("start", "limit", "tried"), [(16, 16, [16]), (16, 4, [16, 8, 4]), (7, 1, [7, 3, 1])]
)
def test_halves_until_it_fits(start: int, limit: int, tried: list[int]) -> None:
    sizes: list[int] = []
    lines: list[str] = []
    assert halving(needs(limit, sizes), start, lines.append) == f"done with {tried[-1]}"
    assert sizes == tried and len(lines) == len(tried) - 1
    assert all(f"out of memory with {size} at once" in line for size, line in zip(tried, lines))


def test_when_one_is_too_much_it_is_an_error_and_others_are_no_reason() -> None:
    sizes: list[int] = []
    with pytest.raises(Full):
        halving(needs(0, sizes), 4, lambda line: None)
    assert sizes == [4, 2, 1]

    def broken(size: int) -> None:
        sizes.append(size)
        raise ValueError("not memory")

    with pytest.raises(ValueError, match="not memory"):
        halving(broken, 4)
    assert sizes == [4, 2, 1, 4]
    with pytest.raises(ValueError, match="start: found 0"):
        halving(broken, 0)


def test_the_failed_try_has_let_its_tensors_go_before_the_next() -> None:
    held: list[weakref.ref] = []

    def run(size: int) -> int:
        gc.collect()
        assert all(one() is None for one in held)
        tensor = torch.ones(size)
        held.append(weakref.ref(tensor))
        if size > 2:
            raise Full
        return size

    assert halving(run, 8, lambda line: None) == 2 and len(held) == 3


def test_torch_s_own_words_are_known() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**50)
    assert out_of_memory(caught.value)
    assert not out_of_memory(RuntimeError("shape mismatch")) and not out_of_memory(
        ValueError("out of memory")
    )
    assert peak().endswith("MiB of host memory")
