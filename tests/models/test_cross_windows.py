"""Cross-shaped windows against loops over tokens, for every similarity."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.models.cross_windows import CrossShapedAttention


def made(grid, split, dim=8, heads=4, **more):
    torch.manual_seed(0)
    layer = CrossShapedAttention(dim, heads, grid, split, **more).double()
    for parameter in layer.parameters():
        parameter.data.normal_()
    return layer


def logit(layer, q, k):
    width = len(q)
    if layer.similarity == "cosine":
        return layer.scale * q @ k
    if layer.similarity == "dot_product":
        return q @ k / width**0.5
    return -(q - k).square().sum() / width**0.5


def slow(layer, image):
    """One image (H, W, D), token by token."""
    height, width, dim = image.shape
    heads, split = layer.heads, layer.split
    rows = layer.qkv(image).reshape(height, width, 3, heads, dim // heads)
    if layer.similarity == "cosine":
        rows = rows / (rows.square().sum(-1, keepdim=True) + layer.eps).sqrt()
    q, k, v = rows.unbind(2)
    places = [(i, j) for i in range(height) for j in range(width)]
    full = height <= split and width <= split
    out = torch.zeros(height, width, heads, dim // heads, dtype=image.dtype)
    for head in range(heads):
        across = 0 if full or head < heads // 2 else 1  # which of the convolutions, which direction
        group = head if full or not across else head - heads // 2
        channels = slice(group * dim // heads, (group + 1) * dim // heads)
        weight = layer.lepe[across].weight[channels, 0]
        stripe = [(0, 0) if full else (0, j // split) if not across else (i // split, 0) for i, j in places]
        where = dict(zip(places, stripe))
        for i, j in places:
            seen = [place for place in places if where[place] == where[i, j]]
            weights = torch.stack([logit(layer, q[i, j, head], k[a, b, head]) for a, b in seen]).softmax(0)
            local = sum(
                weight[:, a - i + 1, b - j + 1] * v[a, b, head]
                for a, b in seen
                if abs(a - i) <= 1 and abs(b - j) <= 1
            )
            out[i, j, head] = sum(p * v[a, b, head] for p, (a, b) in zip(weights, seen))
            out[i, j, head] += local + layer.lepe[across].bias[channels]
    factor = 1 / heads if layer.similarity == "cosine" else 1
    return layer.proj(out.flatten(2) * factor)


@settings(max_examples=12, deadline=None)
@given(
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(1, 3),
    st.sampled_from(["cosine", "dot_product", "l2"]),
)
def test_stripes_are_loops_over_tokens(height, width, split, similarity):
    layer = made((height, width), split, similarity=similarity, tau=3.0)
    x = torch.randn(2, height, width, 8, dtype=torch.double)
    torch.testing.assert_close(layer(x), torch.stack([slow(layer, image) for image in x]))


def test_only_the_cosine_forgets_lengths():
    x = torch.randn(1, 4, 4, 8, dtype=torch.double)
    for similarity, forgets in (("cosine", True), ("dot_product", False), ("l2", False)):
        layer = made((4, 4), 2, similarity=similarity, **({"eps": 1e-24} if forgets else {}))
        before = layer(x)
        layer.qkv.weight.data *= 7
        layer.qkv.bias.data *= 7
        assert torch.allclose(before, layer(x), rtol=1e-9) is forgets


def test_the_distance_is_seen_from_anywhere():
    """Adding one vector to all queries and keys changes no distance, but every dot product."""
    x = torch.randn(1, 3, 3, 8, dtype=torch.double)
    for similarity, same in (("l2", True), ("dot_product", False)):
        layer = made((3, 3), 1, similarity=similarity)
        before = layer(x)
        layer.qkv.bias.data[:16] += torch.linspace(-1, 1, 8, dtype=torch.double).repeat(2)
        assert torch.allclose(before, layer(x), rtol=1e-9) is same


def test_a_cross_is_what_a_token_reaches():
    layer = made((6, 6), 2)
    x = torch.randn(1, 6, 6, 8, dtype=torch.double)
    moved = x.clone()
    moved[0, 2, 5] += 1
    changed = ((layer(moved) - layer(x)).abs() > 1e-12).any(-1)[0]
    cross = torch.zeros(6, 6, dtype=torch.bool)
    cross[2:4] = True
    cross[:, 4:6] = True
    assert torch.equal(changed, cross)


@pytest.mark.parametrize("similarity", ["cosine", "dot_product", "l2"])
def test_half_precision_is_near(similarity):
    layer = made((4, 4), 2, similarity=similarity)
    for parameter in layer.parameters():
        parameter.data *= 0.3
    x = torch.randn(1, 4, 4, 8, dtype=torch.double)
    near = layer(x)
    found = layer.bfloat16()(x.bfloat16()).double()
    assert (found - near).abs().max() < 0.05 * near.abs().max()


def test_what_does_not_fit_is_refused():
    for more, said in (
        (dict(heads=3), "heads: 3 of width 8"),
        (dict(heads=1), r"heads: 1 in two directions \(allowed: an even number\)"),
        (dict(similarity="cosin"), "similarity: 'cosin'"),
        (dict(eps=0.0), "eps: 0.0"),
        (dict(split=0), "split: 0"),
    ):
        with pytest.raises(ValueError, match=said):
            made((4, 4), **({"split": 2} | more))
    assert made((2, 2), 2, heads=1).stripes == [(2, 2)]  # one direction: one head will do
    with pytest.raises(ValueError, match="x: shape"):
        made((4, 4), 2)(torch.zeros(1, 4, 5, 8, dtype=torch.double))
