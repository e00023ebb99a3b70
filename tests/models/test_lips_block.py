"""The block by its formula; what each configuration adds."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from relearn.models.lips_block import CONVOLUTIONS, LipsBlock, norm


class Rows(nn.Module):
    """An attention that is a linear map."""

    def __init__(self, dim):
        super().__init__()
        self.map = nn.Linear(dim, dim)

    def forward(self, x):
        return self.map(x)


def made(conv="D", **more):
    torch.manual_seed(0)
    block = LipsBlock(6, Rows(6), alpha=0.3, conv=conv, **more).double()
    for parameter in block.parameters():
        parameter.data.normal_()
    return block


def centre(x, weight, bias):
    return weight * 6 / 5 * (x - x.mean(-1, keepdim=True)) + bias


@pytest.mark.parametrize("conv", CONVOLUTIONS)
def test_the_block_is_its_formula(conv):
    block = made(conv)
    x = torch.randn(2, 5, 4, 6, dtype=torch.double)
    image = x.permute(0, 3, 1, 2)
    for index, pointwise in enumerate({"A": [], "B": [False], "C": [True], "D": [True, False]}[conv]):
        first = block.convs[index][0]
        h = F.gelu(F.conv2d(image, first.weight, first.bias, padding=3, groups=6))
        if pointwise:
            h = F.gelu(F.conv2d(h, block.convs[index][2].weight, block.convs[index][2].bias))
        image = image + block.joins[index].alpha.view(6, 1, 1) * h
    y = image.permute(0, 2, 3, 1)
    y = y + block.join1.alpha * (y @ block.attention.map.weight.T + block.attention.map.bias)
    y = centre(y, block.norm1.weight, block.norm1.bias)
    hidden = F.gelu(y @ block.mlp.fc1.weight.T + block.mlp.fc1.bias)
    y = y + block.join2.alpha * (hidden @ block.mlp.fc2.weight.T + block.mlp.fc2.bias)
    torch.testing.assert_close(block(x), centre(y, block.norm2.weight, block.norm2.bias))


def test_each_convolution_has_its_parameters():
    depthwise, pointwise, alpha = 49 * 6 + 6, 36 + 6, 6
    count = {conv: sum(one.numel() for one in made(conv).parameters()) for conv in CONVOLUTIONS}
    assert count["B"] - count["A"] == depthwise + alpha
    assert count["C"] - count["B"] == pointwise
    assert count["D"] - count["C"] == depthwise + alpha


def test_alpha_starts_at_the_given_value():
    block = LipsBlock(6, Rows(6), alpha=0.25)
    alphas = [one for name, one in block.named_parameters() if name.endswith("alpha")]
    assert len(alphas) == 4 and all(torch.equal(one, torch.full((6,), 0.25)) for one in alphas)


def test_dropped_branches_leave_the_norms():
    block = made(drop_path=1 - 1e-12).train()
    x = torch.randn(2, 5, 4, 6, dtype=torch.double)
    torch.testing.assert_close(block(x), block.norm2(block.norm1(x)))
    assert not torch.allclose(block.eval()(x), block.norm2(block.norm1(x)))


def test_every_norm_is_its_formula():
    x = torch.randn(3, 6, dtype=torch.double)
    assert torch.equal(norm("none", 6)(x), x)
    torch.testing.assert_close(norm("layer", 6).double()(x), F.layer_norm(x, (6,)))
    torch.testing.assert_close(norm("center", 6, dtype=torch.double)(x), 1.2 * (x - x.mean(-1, keepdim=True)))
    with pytest.raises(ValueError, match="norm: 'centre'"):
        norm("centre", 6)
    with pytest.raises(ValueError, match="conv: 'E'"):
        made("E")
