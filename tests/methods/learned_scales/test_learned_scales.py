"""Adam of the factors: against torch's, and what splitting its first moment does.

S and S̃ out of one pool.
"""

import math
from collections import namedtuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy

from relearn.methods.learned_scales import ScaledWeights, halves, samples
from relearn.methods.learned_scales.adam import ScaleAdam

FLOAT = torch.float64


def gradients(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(4, generator=generator, dtype=FLOAT) for _ in range(count)]


@pytest.mark.parametrize("norm", [nn.BatchNorm2d, nn.Identity])
def test_single_precision_has_the_fast_layout_and_the_same_numbers(norm):
    """The control: a network for which the layout is not safe, and bf16, keep theirs. The network's own weights keep it, too."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), norm(8), nn.Tanh(), nn.Conv2d(8, 4, 3), nn.Flatten()).to(FLOAT)
    seen = []
    model[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    batch = (torch.randn(5, 3, 8, 8, dtype=FLOAT), torch.randint(0, 64, (5,)))
    found = {}
    for form in (torch.channels_last, torch.preserve_format):
        weights = ScaledWeights(model)
        assert weights.form is torch.channels_last
        weights.form = form
        theta = weights.at(torch.full((len(weights),), 0.7))
        value = weights.loss(theta, cross_entropy, batch)
        found[form] = weights.by_scale(torch.autograd.grad(value, weights.scaled(theta)))
        fast = form is torch.channels_last
        assert theta[0].is_contiguous(memory_format=torch.channels_last) == fast
        assert seen[-1].is_contiguous(memory_format=torch.channels_last) == fast
    assert torch.allclose(*found.values(), rtol=1e-10, atol=1e-12)
    assert model[0].weight.is_contiguous() and model[3].weight.is_contiguous()
    assert ScaledWeights(model, precision="bf16").form is torch.preserve_format
    unsafe = nn.Sequential(nn.Conv2d(3, 8, 1, stride=2))
    assert ScaledWeights(unsafe).at(torch.ones(2))[0].is_contiguous()


def test_with_one_state_it_is_torchs_adam():
    ours = ScaleAdam(4, 0.02)
    theirs = torch.ones(4, dtype=FLOAT, requires_grad=True)
    optimizer = torch.optim.Adam([theirs], lr=0.02)
    for step, gradient in enumerate(gradients(20)):
        ours.step(gradient, step % 2)  # the kind has no effect here
        theirs.grad = gradient.clone()
        optimizer.step()
        assert torch.allclose(ours.scales, theirs.detach(), atol=1e-12)


def test_with_two_states_each_kind_has_its_own_mean_and_count():
    """By the formulas, kinds in a given order; with one kind only, both forms are the same."""
    kinds = [0, 0, 1, 0, 1, 1, 0]
    ours, tau = ScaleAdam(4, 0.02, moments="split"), 0.02
    first, second, counts, expected = torch.zeros(2, 4, dtype=FLOAT), 0, [0, 0], torch.ones(4, dtype=FLOAT)
    for t, (kind, q) in enumerate(zip(kinds, gradients(7)), 1):
        ours.step(q, kind)
        counts[kind] += 1
        first[kind] = 0.9 * first[kind] + 0.1 * q
        second = 0.999 * second + 0.001 * q**2
        u = first[kind] / (1 - 0.9 ** counts[kind])
        expected = expected - tau * u / ((second / (1 - 0.999**t)).sqrt() + 1e-8)
        assert torch.allclose(ours.scales, expected, atol=1e-12)
    shared = ScaleAdam(4, 0.02)
    for kind, q in zip(kinds, gradients(7)):
        shared.step(q, kind)
    assert not torch.allclose(shared.scales, ours.scales, atol=1e-6)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_the_bounds_hold_and_the_first_step_is_tau(values):
    adam = ScaleAdam(1, 0.3, low=0.2, high=1.5)
    for value in values:
        adam.step(torch.tensor([value], dtype=FLOAT))
        assert 0.2 <= adam.scales.item() <= 1.5
    first = ScaleAdam(1, 0.3)
    first.step(torch.tensor([values[0]], dtype=FLOAT))
    if abs(values[0]) > 1e-3:
        assert abs(first.scales.item() - 1) == pytest.approx(0.3, rel=1e-4)


def test_clipping_is_by_element():
    one, other = ScaleAdam(2, 0.1, clip=1.0), ScaleAdam(2, 0.1)
    for gradient in ([5.0, 0.5], [0.1, -7.0]):
        one.step(torch.tensor(gradient, dtype=FLOAT))
        other.step(torch.tensor(gradient, dtype=FLOAT).clamp(-1, 1))
    assert torch.equal(one.scales, other.scales)


def test_a_state_is_for_one_number_of_factors():
    with pytest.raises(ValueError, match="checkpoint: 4 scale factors, the network has 3"):
        ScaleAdam(3, 0.1).restore(ScaleAdam(4, 0.1).state())


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
def test_halves_have_the_sizes_that_the_overlap_asks_for(count, overlap):
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
    named = namedtuple("Pair", "x y")
    (cut, _), _ = halves((named(x, y), z), 0.5)
    assert isinstance(cut, named) and cut.x.tolist() == [0, 1, 2, 3]


def test_a_batch_without_a_tensor():
    with pytest.raises(TypeError, match="no tensor in a batch"):
        halves((None, 3), 0.5)
