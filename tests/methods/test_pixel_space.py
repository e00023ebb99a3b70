"""Perturbations of images: both constraints, the virtual batch, batch normalisation's statistics."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from relearn.measures.virtual_batch import compare
from relearn.methods.free_at import FreeAT
from relearn.methods.freelb import FreeLB
from relearn.methods.perturbation import norms
from relearn.methods.pgd_training import PGDTraining
from relearn.methods.pixel_space import PixelSpace
from relearn.methods.yopo import YOPO

from .sentences import apart, take


def network(seed=0, dropout=0.3):
    torch.manual_seed(seed)
    layers = [nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Dropout(dropout), nn.Flatten(), nn.Linear(64, 3)]
    return nn.Sequential(*layers).double().train()


def images(seed=0):
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.rand(5, 1, 6, 6, generator=generator, dtype=torch.float64)
    return pixels, torch.randint(0, 3, (5,), generator=generator)


@pytest.mark.parametrize("bounds", [(0.0, 1.0), None])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_the_gradient_is_that_of_the_virtual_batch_and_images_stay_images(norm, bounds):
    (pixels, labels), deltas = images(), []
    settings = dict(step_size=0.2, eps=0.25, start_norm=0.25, norm=norm, space=PixelSpace(bounds))
    strategy = FreeLB(watch=lambda t, delta: deltas.append(delta.clone()), **settings)
    found = compare(strategy, deltas, network(), cross_entropy, (pixels, labels))
    assert found.difference < 1e-13 and found.reused and found.passes == 3
    for delta in deltas:
        assert float(norms(delta, 5, norm).max()) <= 0.25 + 1e-7
        point = pixels + delta
        outside = (point < -1e-15) | (point > 1 + 1e-15)
        assert bool(outside.any()) is (bounds is None)


def test_a_sign_step_is_that_of_each_pixel():
    (pixels, labels), deltas, model = images(), [], network(dropout=0.0)
    strategy = FreeLB(
        watch=lambda t, delta: deltas.append(delta.clone()),
        step_size=0.1,
        eps=0.15,
        start_norm=0.0,
        norm="linf",
        space=PixelSpace(),
    )
    take(strategy, model, (pixels, labels))
    expected = torch.zeros_like(pixels)
    for delta in deltas:
        assert torch.allclose(delta, expected, atol=1e-15)
        point = (pixels + expected).requires_grad_()
        (gradient,) = torch.autograd.grad(cross_entropy(model(point), labels), point)
        expected = (expected + 0.1 * gradient.sign()).clamp(-0.15, 0.15)
        expected = (pixels + expected).clamp(0, 1) - pixels


@pytest.mark.parametrize("strategy", [FreeLB, PGDTraining, YOPO])
def test_running_statistics_move_once_a_step(strategy):
    settings = {"first": "1"} if strategy is YOPO else {}  # its shallow passes go through the normalisation
    pixels, labels = images()
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 3)).double()
    take(strategy(norm="l2", space=PixelSpace(), **settings), model.train(), (pixels, labels))
    assert int(model[1].num_batches_tracked) == 1 and model[1].track_running_stats
    if strategy is not PGDTraining:
        deltas = []
        model[1].reset_running_stats()
        first = FreeLB(norm="l2", space=PixelSpace(), watch=lambda t, delta: deltas.append(delta))
        take(first, model, (pixels, labels))
        with torch.no_grad():
            mean = model[0](pixels + deltas[0]).mean((0, 2, 3))
        assert torch.allclose(model[1].running_mean, 0.1 * mean)


def test_the_order_of_the_images_does_not_matter():
    (pixels, labels), order, model = images(), torch.tensor([2, 4, 0, 1, 3]), network(dropout=0.0)
    for strategy in (
        FreeLB(norm="l2", start_norm=0.0, space=PixelSpace()),
        PGDTraining(norm="linf", start_norm=0.0, space=PixelSpace()),
        FreeAT(norm="l2", start_norm=0.0, space=PixelSpace()),
    ):
        _, ours = take(strategy, model, (pixels, labels))
        strategy.load_state_dict({})
        _, found = take(strategy, model, (pixels[order], labels[order]))
        assert apart(found, ours) < 1e-12


def test_bytes_and_tokens_are_refused():
    pixels, labels = images()
    with pytest.raises(ValueError, match=r"images: found torch.uint8 \(allowed: a tensor of floats\)"):
        FreeLB(space=PixelSpace())(network(), cross_entropy, ((pixels * 255).byte(), labels))
    with pytest.raises(ValueError, match=r"images: found tuple"):
        FreeLB(space=PixelSpace())(network(), cross_entropy, ((pixels, pixels), labels))


@pytest.mark.parametrize("strategy", [FreeLB, PGDTraining, FreeAT])
def test_images_outside_of_the_bounds_are_refused(strategy):
    pixels, labels = images()
    deltas = []
    settings = dict(norm="linf", eps=0.03, watch=lambda t, delta: deltas.append(delta.clone()))
    for given in (2 * pixels, pixels - 0.5, pixels * torch.nan):
        with pytest.raises(ValueError, match=r"images run from .*; allowed: 0 to 1, or bounds=None"):
            strategy(norm="linf", eps=0.03, space=PixelSpace())(network(), cross_entropy, (given, labels))
    take(FreeLB(space=PixelSpace(None), **settings), network(), (2 * pixels, labels))
    take(FreeLB(space=PixelSpace((0.0, 2.0)), **settings), network(), (2 * pixels, labels))
    assert max(float(delta.abs().max()) for delta in deltas) <= 0.03 + 1e-7
    mixed = torch.full_like(pixels, 1 + 2.0**-52)  # the rounding of a mixture of two white images
    take(FreeLB(norm="linf", space=PixelSpace()), network(), (mixed, labels))
