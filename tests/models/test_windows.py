"""Square windows against loops over tokens, timm's masks, and who sees whom.

Cross-shaped windows against loops over tokens, for every similarity.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.models.cross_windows import CrossShapedAttention
from relearn.models.shifted_windows import ShiftedWindowAttention


def square(grid, window, shifted, dim=4, heads=2, **cosine):
    torch.manual_seed(0)
    layer = ShiftedWindowAttention(dim, heads, grid, window, shifted=shifted, **cosine).double()
    for parameter in layer.parameters():
        parameter.data.normal_()
    return layer


def hat(u, eps):
    return u / (u.square().sum(-1, keepdim=True) + eps).sqrt()


def sees(a, b, side, shift, length):
    """Two places of one axis: in the same window after the shift, and neighbours in the image as well."""
    whole = -(-length // side) * side
    return (a - shift) % whole // side == (b - shift) % whole // side and abs(a - b) < side


def slow_shifted(layer, image, window, shifted):
    """One image (H, W, D), token by token."""
    height, width, dim = image.shape
    sides = [min(window, height), min(window, width)]
    shifts = [side // 2 if shifted and side < length else 0 for side, length in zip(sides, (height, width))]
    attention = layer.attention
    heads = attention.heads
    table = layer.relative_position_bias_table
    rows = attention.qkv(image).reshape(height, width, 3, heads, dim // heads)
    q, k, v = rows.unbind(2)
    q, k = hat(q, attention.eps), hat(k, attention.eps)
    v = hat(v, attention.eps) if attention.normalise_values else v
    out = torch.zeros(height, width, heads, dim // heads, dtype=image.dtype)
    places = [(i, j) for i in range(height) for j in range(width)]
    for i, j in places:
        seen = [
            (a, b)
            for a, b in places
            if sees(i, a, sides[0], shifts[0], height) and sees(j, b, sides[1], shifts[1], width)
        ]
        for head in range(heads):
            logits = [
                attention.tau * q[i, j, head] @ k[a, b, head]
                + table[(i - a + sides[0] - 1) * (2 * sides[1] - 1) + j - b + sides[1] - 1, head]
                for a, b in seen
            ]
            weights = torch.stack(logits).softmax(0)
            out[i, j, head] = sum(p * v[a, b, head] for p, (a, b) in zip(weights, seen))
    return attention.proj(out.flatten(2) * attention.nu / (heads if attention.average_heads else 1))


@settings(max_examples=12)
@given(st.integers(3, 7), st.integers(3, 7), st.integers(2, 4), st.booleans())
def test_windows_are_loops_over_tokens(height, width, window, shifted):
    layer = square((height, width), window, shifted)
    x = torch.randn(2, height, width, 4, dtype=torch.double)
    truth = torch.stack([slow_shifted(layer, image, window, shifted) for image in x])
    torch.testing.assert_close(layer(x), truth)


def test_the_released_attention_is_loops_as_well():
    more = dict(tau=10.0, eps=1e-24, normalise_values=False, average_heads=False)
    layer = square((4, 4), 2, False, **more)
    x = torch.randn(1, 4, 4, 4, dtype=torch.double)
    torch.testing.assert_close(layer(x)[0], slow_shifted(layer, x[0], 2, False))


@pytest.mark.parametrize(("grid", "window"), [((8, 8), 4), ((9, 6), 3), ((10, 5), 5)])
def test_the_mask_is_timms(timm, grid, window):
    from timm.models.swin_transformer import SwinTransformerBlock

    block = SwinTransformerBlock(4, grid, 2, window_size=window, shift_size=window // 2)
    ours = square(grid, window, True)
    assert ours.shift == tuple(block.shift_size) and any(ours.shift)
    assert torch.equal(ours.mask(), block.attn_mask == 0)
    assert square(grid, window, False).mask() is None


def test_filling_changes_nothing():
    """A filled grid is the corner of any image that has it there, as far as no token of the corner sees more."""
    small, large = square((3, 3), 2, False), square((4, 4), 2, False)
    large.load_state_dict(small.state_dict())
    image = torch.randn(1, 4, 4, 4, dtype=torch.double)
    ours, theirs = small(image[:, :3, :3]), large(image)[:, :3, :3]
    torch.testing.assert_close(ours[:, :2, :2], theirs[:, :2, :2])
    assert not torch.isclose(ours[:, 2, 2], theirs[:, 2, 2]).all()  # it had neighbours there
    timms_rule = large(torch.nn.functional.pad(image[:, :3, :3], (0, 0, 0, 1, 0, 1)))[:, :3, :3]
    assert not torch.isclose(ours[:, 2], timms_rule[:, 2]).all()


def test_a_token_reaches_the_next_window_only_through_a_shift():
    x = torch.randn(1, 8, 8, 4, dtype=torch.double)
    moved = x.clone()
    moved[0, 3, 3] += 1
    for shifted, reached in ((False, {(0, 0)}), (True, {(0, 0), (0, 1), (1, 0), (1, 1)})):
        layer = square((8, 8), 4, shifted)
        changed = ((layer(moved) - layer(x)).abs() > 1e-12).any(-1)[0].nonzero()
        assert {(int(i) // 4, int(j) // 4) for i, j in changed} == reached


def test_shifted_windows_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="window: 0"):
        ShiftedWindowAttention(4, 2, (4, 4), 0, shifted=False)
    with pytest.raises(ValueError, match="heads: 3 of width 4"):
        ShiftedWindowAttention(4, 3, (4, 4), 2, shifted=False)
    with pytest.raises(ValueError, match=r"grid 4 x 5 \(allowed: 4 x 4\)"):
        square((4, 4), 2, False)(torch.zeros(1, 4, 5, 4, dtype=torch.double))


def striped(grid, split, dim=8, heads=4, **more):
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


def slow_crossed(layer, image):
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


@settings(max_examples=12)
@given(
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(1, 3),
    st.sampled_from(["cosine", "dot_product", "l2"]),
)
def test_stripes_are_loops_over_tokens(height, width, split, similarity):
    layer = striped((height, width), split, similarity=similarity, tau=3.0)
    x = torch.randn(2, height, width, 8, dtype=torch.double)
    torch.testing.assert_close(layer(x), torch.stack([slow_crossed(layer, image) for image in x]))


def test_only_the_cosine_forgets_lengths():
    x = torch.randn(1, 4, 4, 8, dtype=torch.double)
    for similarity, forgets in (("cosine", True), ("dot_product", False), ("l2", False)):
        layer = striped((4, 4), 2, similarity=similarity, **({"eps": 1e-24} if forgets else {}))
        before = layer(x)
        layer.qkv.weight.data *= 7
        layer.qkv.bias.data *= 7
        assert torch.allclose(before, layer(x), rtol=1e-9) is forgets


def test_the_distance_is_seen_from_anywhere():
    """Adding one vector to all queries and keys changes no distance, but every dot product."""
    x = torch.randn(1, 3, 3, 8, dtype=torch.double)
    for similarity, same in (("l2", True), ("dot_product", False)):
        layer = striped((3, 3), 1, similarity=similarity)
        before = layer(x)
        layer.qkv.bias.data[:16] += torch.linspace(-1, 1, 8, dtype=torch.double).repeat(2)
        assert torch.allclose(before, layer(x), rtol=1e-9) is same


def test_a_cross_is_what_a_token_reaches():
    layer = striped((6, 6), 2)
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
    layer = striped((4, 4), 2, similarity=similarity)
    for parameter in layer.parameters():
        parameter.data *= 0.3
    x = torch.randn(1, 4, 4, 8, dtype=torch.double)
    near = layer(x)
    found = layer.bfloat16()(x.bfloat16()).double()
    assert (found - near).abs().max() < 0.05 * near.abs().max()


def test_cross_windows_what_does_not_fit_is_refused():
    for more, said in (
        (dict(heads=3), "heads: 3 of width 8"),
        (dict(heads=1), r"heads: 1 in two directions \(allowed: an even number\)"),
        (dict(similarity="cosin"), "similarity: 'cosin'"),
        (dict(eps=0.0), "eps: 0.0"),
        (dict(split=0), "split: 0"),
    ):
        with pytest.raises(ValueError, match=said):
            striped((4, 4), **({"split": 2} | more))
    assert striped((2, 2), 2, heads=1).stripes == [(2, 2)]  # one direction: one head will do
    with pytest.raises(ValueError, match="x: shape"):
        striped((4, 4), 2)(torch.zeros(1, 4, 5, 8, dtype=torch.double))
