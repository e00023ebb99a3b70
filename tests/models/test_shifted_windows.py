"""Square windows against loops over tokens, timm's masks, and who sees whom."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.models.shifted_windows import ShiftedWindowAttention


def made(grid, window, shifted, dim=4, heads=2, **cosine):
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


def slow(layer, image, window, shifted):
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


@settings(max_examples=12, deadline=None)
@given(st.integers(3, 7), st.integers(3, 7), st.integers(2, 4), st.booleans())
def test_windows_are_loops_over_tokens(height, width, window, shifted):
    layer = made((height, width), window, shifted)
    x = torch.randn(2, height, width, 4, dtype=torch.double)
    truth = torch.stack([slow(layer, image, window, shifted) for image in x])
    torch.testing.assert_close(layer(x), truth)


def test_the_released_attention_is_loops_as_well():
    more = dict(tau=10.0, eps=1e-24, normalise_values=False, average_heads=False)
    layer = made((4, 4), 2, False, **more)
    x = torch.randn(1, 4, 4, 4, dtype=torch.double)
    torch.testing.assert_close(layer(x)[0], slow(layer, x[0], 2, False))


@pytest.mark.parametrize(("grid", "window"), [((8, 8), 4), ((9, 6), 3), ((10, 5), 5)])
def test_the_mask_is_timms(timm, grid, window):
    from timm.models.swin_transformer import SwinTransformerBlock

    block = SwinTransformerBlock(4, grid, 2, window_size=window, shift_size=window // 2)
    ours = made(grid, window, True)
    assert ours.shift == tuple(block.shift_size) and any(ours.shift)
    assert torch.equal(ours.mask(), block.attn_mask == 0)
    assert made(grid, window, False).mask() is None


def test_filling_changes_nothing():
    """A filled grid is the corner of any image that has it there, as far as no token of the corner sees more."""
    small, large = made((3, 3), 2, False), made((4, 4), 2, False)
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
        layer = made((8, 8), 4, shifted)
        changed = ((layer(moved) - layer(x)).abs() > 1e-12).any(-1)[0].nonzero()
        assert {(int(i) // 4, int(j) // 4) for i, j in changed} == reached


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="window: 0"):
        ShiftedWindowAttention(4, 2, (4, 4), 0, shifted=False)
    with pytest.raises(ValueError, match="heads: 3 of width 4"):
        ShiftedWindowAttention(4, 3, (4, 4), 2, shifted=False)
    with pytest.raises(ValueError, match=r"grid 4 x 5 \(allowed: 4 x 4\)"):
        made((4, 4), 2, False)(torch.zeros(1, 4, 5, 4, dtype=torch.double))
