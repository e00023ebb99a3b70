"""Mixtures of a batch: mixup and CutMix against loops over pixels, their labels, their distributions, label smoothing on top."""

import math
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy, one_hot

from relearn.methods.mixing import cutmix, mixup, mixup_or_cutmix

SEEDS = st.integers(0, 10**6)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_mixup_loss_is_the_weighted_mean_of_the_two_losses():
    """CE(λ e_y + (1-λ) e_y') = λ CE(y) + (1-λ) CE(y'), images mixed with the same λ and partner; label smoothing included."""
    images = torch.rand(8, 1, 3, 3, dtype=torch.float64, generator=generator(1))
    images[:, 0, 0, 0] = torch.arange(8.0)  # so that λ and the partner can be read off the result
    labels = torch.randint(0, 5, (8,), generator=generator(2))
    rest = torch.arange(8)
    mixed, targets, untouched = mixup(0.7, 5)([images, labels, rest], generator(9))
    assert untouched is rest
    for weight, other in _partners(mixed[:, 0, 0, 0]):
        if torch.allclose(mixed, weight * images + (1 - weight) * images[other], rtol=0, atol=1e-12):
            break
    else:
        pytest.fail("no single λ and permutation explains the batch")
    logits = torch.randn(8, 5, dtype=torch.float64, generator=generator(4))
    for smoothing in (0.0, 0.1):
        one = cross_entropy(logits, labels, label_smoothing=smoothing)
        two = cross_entropy(logits, labels[other], label_smoothing=smoothing)
        both = cross_entropy(logits, targets, label_smoothing=smoothing)
        assert float(both) == pytest.approx(float(weight * one + (1 - weight) * two), rel=1e-12)


def _partners(values):
    """Every (λ, permutation) that mixes 0..7 to the values: one λ for each possible partner of the first sample."""
    for partner in range(1, 8):
        weight = 1 - float(values[0]) / partner
        other = [(float(v) - weight * i) / (1 - weight) for i, v in enumerate(values)]
        rounded = [round(o) for o in other]
        if sorted(rounded) == list(range(8)) and all(
            math.isclose(o, r, abs_tol=1e-6) for o, r in zip(other, rounded)
        ):
            yield weight, torch.tensor(rounded)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 4.0])
def test_mixup_weights_follow_the_beta_distribution(alpha):
    """Beta(a, a) has mean 1/2, variance 1/(4(2a+1)); uniform for a = 1."""
    draws, mix, labels = generator(0), mixup(alpha, 2), torch.tensor([0, 1])
    pairs = [mix([torch.zeros(2, 1, dtype=torch.float64), labels], draws)[1] for _ in range(3000)]
    weights = torch.stack([p[0, 0] for p in pairs if p[0, 1] > 0])  # a sample mixed with itself tells nothing
    variance, count = 1 / (4 * (2 * alpha + 1)), len(weights)
    assert 1300 < count < 1700
    assert abs(float(weights.mean()) - 0.5) < 5 * math.sqrt(variance / count)
    assert float(weights.var()) == pytest.approx(variance, rel=0.12)


def test_mixup_takes_probabilities_as_they_are():
    labels = torch.tensor([0, 2, 1, 1])
    images = torch.rand(4, 2)
    hard = mixup(1.0, 3)([images, labels], generator(5))
    soft = mixup(1.0, 3)([images, one_hot(labels, 3).float()], generator(5))
    assert all(torch.equal(a, b) for a, b in zip(hard, soft))
    assert torch.allclose(hard[1].sum(1), torch.ones(4))


@settings(max_examples=60)
@given(seed=SEEDS, height=st.integers(1, 9), width=st.integers(1, 9), alpha=st.sampled_from([0.2, 1.0, 5.0]))
def test_cutmix_pastes_one_box_of_the_partner_and_the_labels_have_its_true_area(seed, height, width, alpha):
    """Images whose every pixel says whose it is: nothing of the draws need be known."""
    count = 6
    images = torch.arange(1.0, count + 1, dtype=torch.float64).view(-1, 1, 1, 1).expand(-1, 2, height, width)
    labels = torch.arange(count)
    rest = torch.arange(count)
    mixed, targets, untouched = cutmix(alpha, count)([images, labels, rest], generator(seed))
    assert untouched is rest and mixed.shape == images.shape
    boxes = set()
    for i in range(count):
        assert torch.equal(mixed[i, 0], mixed[i, 1])  # every channel alike
        foreign = mixed[i, 0] != i + 1
        if foreign.any():
            owner = mixed[i, 0][foreign].unique()
            rows, columns = foreign.any(1).nonzero()[:, 0], foreign.any(0).nonzero()[:, 0]
            box = (int(rows[0]), int(rows[-1]), int(columns[0]), int(columns[-1]))
            area = (box[1] - box[0] + 1) * (box[3] - box[2] + 1)
            assert len(owner) == 1 and int(foreign.sum()) == area  # a full rectangle of one partner
            boxes.add(box)
            expected = torch.zeros(count, dtype=torch.float64)
            expected[i], expected[int(owner) - 1] = 1 - area / (height * width), area / (height * width)
            torch.testing.assert_close(targets[i], expected, rtol=0, atol=1e-15)
        else:
            torch.testing.assert_close(targets[i], one_hot(labels, count)[i].double(), rtol=0, atol=1e-15)
    assert len(boxes) <= 1  # one box a batch


def covered(length: int, size: int) -> list[int]:
    """How many pixels a box of so many covers, for each centre."""
    return [sum(0 <= c - size // 2 + k < length for k in range(size)) for c in range(length)]


@pytest.mark.parametrize("alpha", [0.5, 1.0, 4.0])
def test_cutmix_areas_have_the_mean_of_a_clipped_box(alpha):
    """E[area] = E over λ' of the product of the two axes' mean cover; clipping makes it less than E[1 - λ'] = 1/2."""
    height, width, draws = 8, 5, 4000
    rule = [(i + 0.5) / 20000 for i in range(20000)]
    weights = [(x * (1 - x)) ** (alpha - 1) for x in rule]
    cover = [
        sum(covered(height, int(height * math.sqrt(1 - x))))
        / height
        * sum(covered(width, int(width * math.sqrt(1 - x))))
        / width
        for x in (rule[::10])
    ]
    truth = sum(w * c for w, c in zip(weights[::10], cover)) / sum(weights[::10]) / (height * width)
    images, labels, gen = torch.zeros(2, 1, height, width), torch.tensor([0, 1]), generator(3)
    mix = cutmix(alpha, 2)
    pairs = [mix([images.double(), labels], gen)[1][0, 1] for _ in range(draws)]
    # With two images the partner is the image itself half of the time.
    found = 2 * torch.stack(pairs)
    error = float(found.std()) / math.sqrt(draws)
    assert abs(float(found.mean()) - truth) < 5 * error
    assert truth < 0.5 - 10 * error  # the label would be another one without the correction


@settings(max_examples=40)
@given(seed=SEEDS, kind=st.sampled_from(["mixup", "cutmix", "either"]))
def test_a_mixture_moves_mass_but_makes_and_loses_none(seed, kind):
    """Every image is once itself and once a partner, so each pixel and each class keeps its sum over the batch."""
    mix = {"mixup": mixup(0.8, 4), "cutmix": cutmix(1.0, 4), "either": mixup_or_cutmix(0.8, 1.0, 4)}[kind]
    images = torch.rand(7, 3, 6, 5, dtype=torch.float64, generator=generator(seed))
    kept = images.clone()
    labels = torch.randint(0, 4, (7,), generator=generator(seed + 1))
    mixed, targets = mix([images, labels], generator(seed + 2))
    torch.testing.assert_close(mixed.sum(0), images.sum(0), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(targets.sum(0), one_hot(labels, 4).double().sum(0), rtol=0, atol=1e-12)
    torch.testing.assert_close(targets.sum(1), torch.ones(7).double(), rtol=0, atol=1e-12)
    assert targets.min() >= 0
    assert torch.equal(images, kept)  # the batch itself is not written to


@pytest.mark.parametrize("switch", [0.0, 0.3, 0.5, 1.0])
def test_the_coin_chooses_between_the_two_with_the_stated_probability(switch):
    """Black and white: only mixup makes grey; after the coin the draws are those of the chosen mixture."""
    images = torch.zeros(4, 1, 6, 6, dtype=torch.float64)
    images[::2] = 1.0
    labels, count, pasted = torch.arange(4), 600, 0
    mix = mixup_or_cutmix(4.0, 4.0, 4, switch)
    for seed in range(count):
        ours = mix([images, labels], generator(seed))
        draws = generator(seed)
        torch.rand((), generator=draws, dtype=torch.float64)
        state = draws.get_state()
        both = []
        for one in (mixup(4.0, 4), cutmix(4.0, 4)):
            draws.set_state(state)
            both.append(one([images, labels], draws))
        same = [torch.equal(ours[0], each[0]) and torch.equal(ours[1], each[1]) for each in both]
        assert any(same)
        grey = bool(((ours[0] > 0) & (ours[0] < 1)).any())
        assert not (grey and same[1])
        pasted += same[1] and not same[0]
    alike = 1 / 24  # the permutation that leaves all as it is: then nothing tells the two apart
    expected = switch * (1 - alike) * count
    assert abs(pasted - expected) <= (5 * math.sqrt(count / 4) if switch else 0)


@pytest.mark.parametrize("make", [mixup, cutmix, lambda a, k: mixup_or_cutmix(a, a, k)])
def test_the_draws_depend_on_neither_the_values_nor_the_type_of_the_batch(make):
    """What is drawn on the CPU is drawn alike for a batch on any device, of any values and type."""
    labels = torch.arange(5) % 3
    torch.manual_seed(0)
    one = make(1.0, 3)([torch.rand(5, 3, 8, 8), labels], first := generator(4))
    torch.manual_seed(99)  # the global state is not used
    two = make(1.0, 3)([torch.zeros(5, 1, 8, 8, dtype=torch.float64), labels], second := generator(4))
    torch.testing.assert_close(one[1].double(), two[1], rtol=0, atol=1e-6)
    assert torch.equal(first.get_state(), second.get_state())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("make", [mixup, cutmix])
def test_half_precision_is_mixed_too(make, dtype):
    mixed, targets = make(1.0, 3)([torch.rand(4, 1, 5, 5).to(dtype), torch.arange(4) % 3], generator(1))
    assert mixed.dtype == targets.dtype == dtype and bool(mixed.isfinite().all())


@settings(max_examples=40)
@given(seed=SEEDS, smoothing=st.sampled_from([0.0, 0.1, 0.5, 0.9]), mixed=st.booleans())
def test_label_smoothing_of_classes_and_of_mixtures_is_its_formula(seed, smoothing, mixed):
    """-(1/B) Σ_b Σ_k ((1 - ε) q_bk + ε/K) log p_bk, term by term: what `cross_entropy(label_smoothing=ε)` must compute."""
    count, classes = 5, 4
    logits = 3 * torch.randn(count, classes, dtype=torch.float64, generator=generator(seed))
    labels = torch.randint(0, classes, (count,), generator=generator(seed + 1))
    images = torch.zeros(count, 1, 4, 4, dtype=torch.float64)
    q = one_hot(labels, classes).double()
    targets = labels
    if mixed:
        q = targets = mixup_or_cutmix(0.8, 1.0, classes)([images, labels], generator(seed))[1]
    truth = 0.0
    for b, k in product(range(count), range(classes)):
        top = max(float(z) for z in logits[b])
        normaliser = top + math.log(sum(math.exp(float(z) - top) for z in logits[b]))
        smoothed = (1 - smoothing) * float(q[b, k]) + smoothing / classes
        truth -= smoothed * (float(logits[b, k]) - normaliser) / count
    found = cross_entropy(logits, targets, label_smoothing=smoothing)
    assert float(found) == pytest.approx(truth, rel=1e-12)
    if smoothing:
        assert float(cross_entropy(logits, targets)) != pytest.approx(truth, rel=1e-6)


@pytest.mark.parametrize(
    "make,message",
    [
        (lambda: mixup(0.0, 3), "mixup alpha: found 0.0"),
        (lambda: mixup(float("nan"), 3), "mixup alpha: found nan"),
        (lambda: cutmix(-1.0, 3), "cutmix alpha: found -1.0"),
        (lambda: mixup_or_cutmix(1.0, 0.0, 3), "cutmix alpha: found 0.0"),
        (lambda: mixup_or_cutmix(0.0, 1.0, 3), "mixup alpha: found 0.0"),
        (lambda: mixup_or_cutmix(1.0, 1.0, 3, 1.5), "switch: found 1.5, allowed is 0 to 1"),
    ],
)
def test_impossible_settings_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
