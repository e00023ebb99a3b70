"""Spectral initialisation: norms after it, as published and as maps of images; what it leaves alone."""

import pytest
import torch
from torch import Tensor, nn

from relearn.maths.operator_norm import operator_norm
from relearn.methods.spectral_start import spectral_start


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 6, 2, stride=2),
        nn.Conv2d(6, 6, 7, padding=3, groups=6),
        nn.BatchNorm2d(6),
        nn.Conv2d(6, 8, 1),
        nn.GELU(),
        nn.Flatten(),
        nn.Linear(8 * 16, 5),
    )


def images(size: int = 8):
    while True:
        yield torch.rand(2, 3, size, size, generator=torch.Generator().manual_seed(0)), None


def norms(model: nn.Sequential) -> list[float]:
    """Of the four layers as maps."""
    return [float(operator_norm(model[i], (8, 8) if i == 0 else (4, 4)).detach()) for i in (0, 1, 3, 6)]


def flattened(weight: Tensor) -> float:
    return float(torch.linalg.matrix_norm(weight.detach().flatten(1), 2))


def test_as_published_the_flattened_weights_have_norm_one() -> None:
    model = network()
    assert spectral_start(model, seed=2).outcome == "ok"
    assert [flattened(model[i].weight) for i in (0, 1, 3, 6)] == pytest.approx([1.0] * 4, rel=1e-4)
    assert [model[i].bias.abs().max().item() for i in (0, 1, 3, 6)] == [0.0] * 4
    found = norms(model)
    assert [found[i] for i in (0, 2, 3)] == pytest.approx([1.0] * 3, rel=1e-4)
    assert abs(found[1] - 1) > 0.05  # the depth-wise one has another norm


def test_as_maps_of_images_all_have_norm_one() -> None:
    model = network()
    spectral_start(model, None, images(), seed=2, operator=True)
    assert norms(model) == pytest.approx([1.0] * 4, rel=2e-3)
    plain = network()
    spectral_start(plain, seed=2)
    ratio = (model[1].weight / plain[1].weight).detach()  # the same draw, another divisor
    torch.testing.assert_close(ratio, torch.full_like(ratio, float(ratio.mean())))
    assert torch.equal(model[6].weight, plain[6].weight)


def test_the_largest_of_the_sizes_that_a_layer_sees_counts() -> None:
    layer = nn.Conv2d(1, 1, 3, padding=1)

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = layer

        def forward(self, x: Tensor) -> Tensor:
            return self.conv(x).sum() + self.conv(x[..., :2, :2]).sum()

    spectral_start(Twice(), None, [(torch.rand(1, 1, 9, 9),)], operator=True)
    layer.requires_grad_(False)
    assert float(operator_norm(layer, (9, 9))) == pytest.approx(1, rel=2e-3)
    assert float(operator_norm(layer, (2, 2))) < 1


def test_what_it_leaves_alone_and_what_it_refuses() -> None:
    model, before = network(), network()
    model[2].running_mean.fill_(3.0)
    model[4].training = False
    state = torch.get_rng_state()
    spectral_start(model, None, images(), seed=1, operator=True)
    assert torch.equal(torch.get_rng_state(), state)
    assert model[2].running_mean.tolist() == [3.0] * 6 and not model[4].training and model[2].training
    spectral_start(before, None, images(), seed=1, operator=True)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), before.parameters()))
    with pytest.raises(ValueError, match="batches: none"):
        spectral_start(model, operator=True)
    with pytest.raises(ValueError, match="without parameters"):
        spectral_start(nn.GELU())
    one = nn.Linear(4, 4).to(torch.bfloat16)
    spectral_start(one, operator=True)  # nothing here whose size matters
    assert flattened(one.weight.float()) == pytest.approx(1, rel=1e-2)


def test_attention_counts_as_one_linear_layer() -> None:
    layer = nn.MultiheadAttention(8, 2)
    spectral_start(layer)
    assert flattened(layer.in_proj_weight) == pytest.approx(1, rel=1e-4)
    assert flattened(layer.out_proj.weight) == pytest.approx(1, rel=1e-4)
