"""Similarity of patches against a loop over pairs, at its extremes, and for the blocks of several networks."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from relearn.measures.patch_similarity import last_grid, patch_similarity
from relearn.models import vision


class Block(nn.Module):
    def __init__(self, prefix: int = 0, factor: float = 1.0) -> None:
        super().__init__()
        self.norm1, self.mlp, self.attention = nn.Identity(), nn.Identity(), nn.Identity()
        self.attention.class_tokens = prefix  # type: ignore[assignment]
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


class Net(nn.Module):
    """Patches are the image's pixels, one channel each direction."""

    def __init__(self, *blocks: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(2).mT
        for block in self.blocks:
            x = block(x)
        return x


def slow(patches: Tensor, absolute: bool = False) -> float:
    """Of one image, (N, D)."""
    count, total = len(patches), 0.0
    for i in range(count):
        for j in range(count):
            if i != j:
                cosine = F.cosine_similarity(patches[i], patches[j], dim=0).item()
                total += abs(cosine) if absolute else cosine
    return total / (count * (count - 1))


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("prefix", [0, 2])
def test_it_is_the_mean_over_pairs_and_images(absolute, prefix):
    torch.manual_seed(0)
    images = torch.randn(5, 3, 2, 4).double()
    net = Net(Block(prefix), Block(prefix, -2.0)).double()
    expected = sum(slow(one.flatten(1).mT[prefix:], absolute) for one in images) / 5
    for size in (2, 5):
        found = patch_similarity(net, images, batch_size=size, absolute=absolute)
        assert found == pytest.approx([expected] * 2, rel=1e-12)


def test_alike_patches_have_similarity_one_and_opposite_ones_minus_one():
    alike = torch.ones(2, 3, 2, 2) * torch.tensor([1.0, 2.0, 3.0, 4.0]).view(1, 1, 2, 2)
    assert patch_similarity(Net(Block()), alike) == pytest.approx([1.0])
    across = torch.eye(4).view(1, 4, 2, 2)
    assert patch_similarity(Net(Block()), across) == pytest.approx([0.0])
    opposite = torch.tensor([1.0, -1.0]).view(1, 1, 1, 2)
    assert patch_similarity(Net(Block()), opposite) == pytest.approx([-1.0])
    assert patch_similarity(Net(Block()), opposite, absolute=True) == pytest.approx([1.0])
    silent = torch.cat([across, torch.zeros(1, 4, 1, 2)], 2)
    assert patch_similarity(Net(Block()), silent) == pytest.approx([0.0])
    broken = patch_similarity(Net(Block(), Block(factor=float("nan"))), across)
    assert broken[0] == 0 and broken[1] != broken[1]


def test_bytes_are_pixels_and_modes_are_found_again():
    images = torch.randint(0, 256, (3, 2, 3, 3), dtype=torch.uint8)
    net = Net(Block()).train()
    net.blocks[0].mlp.eval()
    assert patch_similarity(net, images) == pytest.approx(patch_similarity(net, images.float() / 255))
    assert net.training and not net.blocks[0].mlp.training
    last_grid(net, images[:1].float() / 255)
    assert net.training and not net.blocks[0].mlp.training
    with pytest.raises(ValueError, match="precision: found 'bfloat16', allowed are fp32, bf16"):
        patch_similarity(net, images, precision="bfloat16")
    assert not net.blocks[0]._forward_hooks


SMALL = dict(embed_dim=8, depths=(1, 1), num_heads=(1, 2), patch_size=2)
VIT = dict(embed_dim=8, depth=2, num_heads=2, patch_size=4)


@pytest.mark.parametrize(
    ("name", "given", "layers"),
    [
        ("cvt_ls_13", SMALL | dict(depths=(1, 2)), 3),
        ("cvt_13", SMALL, 2),
        ("vil_ls_medium", SMALL, 2),
        ("lipsformer_swin_tiny", SMALL | dict(window=2), 2),
        ("cswin_tiny", SMALL | dict(split=(1, 2), num_heads=(2, 2)), 2),
        ("swin_tiny_patch4_window7_224", SMALL | dict(window_size=2), 2),
        ("residual_deit_tiny", VIT, 2),
        ("deit_tiny_patch16_224", VIT, 2),
        ("cait_xxs24_224", VIT, 2),
    ],
)
def test_the_blocks_of_networks(name, given, layers):
    """Patches are those of the last layer, class tokens are not: by what the network itself calls its tokens."""
    torch.manual_seed(0)
    net = vision.create(name, classes=3, size=16, **given).eval()
    images = torch.rand(2, 3, 16, 16)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    norm = net.trunk.norm
    streams: list[Tensor] = []
    handle = norm.register_forward_pre_hook(lambda _, given: streams.append(given[0]))
    found = patch_similarity(net, images)
    handle.remove()
    assert len(found) == layers and all(-1 <= one <= 1 for one in found)
    last = streams[0].flatten(1, -2)[:, -16:].detach().double()  # 4 x 4 patches, behind class tokens
    assert found[-1] == pytest.approx(sum(map(slow, last)) / 2, rel=1e-5)


def test_wrong_arguments_are_refused():
    images = torch.rand(2, 3, 4, 4)
    with pytest.raises(ValueError, match="images: none"):
        patch_similarity(Net(Block()), images[:0])
    with pytest.raises(ValueError, match="no block of a Transformer in Conv2d"):
        patch_similarity(nn.Conv2d(3, 3, 1), images)
    with pytest.raises(ValueError, match="layer 1 has 1 patch"):
        patch_similarity(Net(Block()), images[:, :, :1, :1])
    unused = Net(Block())
    unused.spare = Block()
    with pytest.raises(ValueError, match="layer 2, not reached"):
        patch_similarity(unused, images)


@pytest.mark.parametrize(
    ("side", "window", "patches", "held"), [(16, 2, 16, 16), (32, 2, 64, 16), (32, 4, 64, 64)]
)
def test_the_last_grid_and_what_its_window_holds(side: int, window: int, patches: int, held: int) -> None:
    """Three stages of half the side each; a segment of f tokens sees f/2 more on each side."""
    how = {"classes": 3, "size": side, "patch_size": 1, "depths": [1, 1, 1], "window": window, "embed_dim": 8}
    net = vision.create("cvt_ls_13", **how)
    image = torch.rand(1, 3, side, side)
    assert last_grid(net, image) == (patches, held)
    plain = vision.create("cvt_13", **{key: value for key, value in how.items() if key != "window"})
    assert last_grid(plain, image) == (patches, None)
