"""S and S̃ out of one pool."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from relearn.methods.learned_scales import halves, samples


def test_the_default_of_the_paper():
    x = torch.arange(192)
    (first,), (second,) = halves((x,), 0.5)
    assert len(first) == len(second) == 128
    assert len(set(first.tolist()) & set(second.tolist())) == 64
    assert set(first.tolist()) | set(second.tolist()) == set(x.tolist())


@pytest.mark.parametrize(("overlap", "size", "shared"), [(0.0, 10, 0), (1.0, 20, 20)])
def test_no_and_full_overlap(overlap, size, shared):
    (first,), (second,) = halves((torch.arange(20),), overlap)
    assert len(first) == len(second) == size
    assert len(set(first.tolist()) & set(second.tolist())) == shared


@given(st.integers(1, 500), st.floats(0, 1))
def test_sizes(count, overlap):
    size = math.floor(count / (2 - overlap) + 1e-9)
    try:
        (first,), (second,) = halves((torch.arange(count),), overlap)
    except ValueError as error:
        assert "too small" in str(error)
        assert size < 1 or (overlap > 0 and 2 * size <= count) or (overlap < 1 and size >= count)
        return
    assert len(first) == len(second) == size
    assert first[0] == 0 and second[-1] == count - 1
    assert len(set(first.tolist()) & set(second.tolist())) == max(2 * size - count, 0)


def test_a_pool_made_to_measure_loses_no_sample():
    """n = (2 - r) m for every m: rounding of r must not cost one."""
    for size in range(10, 300, 10):
        for overlap in (0.1, 0.3, 0.7, 0.9):
            (first,), _ = halves((torch.arange(round((2 - overlap) * size)),), overlap)
            assert len(first) == size


def test_nested_members_are_cut_alike():
    x, y, z = torch.arange(6), torch.arange(12).view(6, 2), torch.arange(6)
    first, second = halves(((x, [y]), z, "same"), 0.5)
    assert first[0][0].tolist() == [0, 1, 2, 3] and first[0][1][0].shape == (4, 2)
    assert second[0][0].tolist() == second[1].tolist() == [2, 3, 4, 5] and second[2] == "same"
    assert samples(((x, [y]), z)) == 6


def test_a_batch_without_a_tensor():
    with pytest.raises(TypeError, match="no tensor in a batch"):
        halves((None, 3), 0.5)
