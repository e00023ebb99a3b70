"""Two-dimensional long-short attention against loops over tokens, with the sets of visible tokens written out."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from relearn.layers.image_tiles import Tiling
from relearn.layers.long_short_attention_2d import LongShortAttention2d
from relearn.layers.separable_projection import SeparableProjection


def layer_of(seed: int = 0, **given) -> LongShortAttention2d:
    torch.manual_seed(seed)
    layer = LongShortAttention2d(**({"dim": 6, "heads": 2} | given)).double().eval()
    for parameter in layer.parameters():
        parameter.data.normal_(0, 0.7)
    for buffer in layer.buffers():
        if buffer.is_floating_point():
            buffer.uniform_(0.5, 1.5)
    return layer


def mapped(map_: nn.Module, rows: Tensor, image: Tensor | None) -> Tensor:
    """A map of one sample: class tokens (G, D), grid (H, W, D) → (n, M), class tokens first."""
    if isinstance(map_, nn.Linear):
        assert image is not None
        return torch.cat([rows, image.flatten(0, 1)]) @ map_.weight.T + map_.bias
    conv, norm, linear = map_.conv, map_.norm, map_.linear
    height, width, dim = image.shape
    side = conv.kernel_size[0]
    mixed = torch.zeros_like(image)
    for row in range(height):
        for column in range(width):
            for down in range(side):
                for right in range(side):
                    at = row + down - side // 2, column + right - side // 2
                    if 0 <= at[0] < height and 0 <= at[1] < width:
                        mixed[row, column] += conv.weight[:, 0, down, right] * image[at]
    if conv.bias is not None:
        mixed = mixed + conv.bias
    if isinstance(norm, nn.BatchNorm2d):
        mixed = (mixed - norm.running_mean) / (norm.running_var + norm.eps).sqrt() * norm.weight + norm.bias
    both = torch.cat([rows, mixed.reshape(-1, dim)])
    return both @ linear.weight.T + linear.bias


def truth(layer: LongShortAttention2d, x: Tensor, grid: tuple[int, int], reach: int) -> Tensor:
    """Token by token, head by head."""
    height, width = grid
    count, heads, window, rank = layer.class_tokens, layer.heads, layer.window, layer.rank
    dk = layer.dim // heads
    answers = []
    for sample in x:
        rows, image = sample[:count], sample[count:].view(height, width, -1)
        q, k, v = (mapped(one, rows, image) for one in (layer.q, layer.k, layer.v))
        if isinstance(layer.local_norm, nn.LayerNorm):
            norm = layer.local_norm
            k, v = (F.layer_norm(one, (layer.dim,), norm.weight, norm.bias) for one in (k, v))
        low_k, low_v = torch.zeros(rank, layer.dim).double(), torch.zeros(rank, layer.dim).double()
        if rank:
            scores = mapped(layer.projection, rows[:0], image)
            for head in range(heads):
                part = slice(head * dk, (head + 1) * dk)
                shares = scores[:, head * rank : (head + 1) * rank].exp()
                shares = shares / shares.sum(0)
                low_k[:, part], low_v[:, part] = shares.T @ k[count:, part], shares.T @ v[count:, part]
            if isinstance(layer.global_norm, nn.LayerNorm):
                norm = layer.global_norm
                low_k, low_v = (
                    F.layer_norm(one, (layer.dim,), norm.weight, norm.bias) for one in (low_k, low_v)
                )
        result = torch.zeros_like(q)
        for t in range(height * width):
            row, column = divmod(t, width)
            for head in range(heads):
                part = slice(head * dk, (head + 1) * dk)
                logits, values = [], []
                for g in range(count):
                    own = 0.0 if layer.class_bias is None else layer.class_bias[head, g, 0]
                    logits.append(q[count + t, part] @ k[g, part] / math.sqrt(dk) + own)
                    values.append(v[g, part])
                for one in range(rank):
                    logits.append(q[count + t, part] @ low_k[one, part] / math.sqrt(dk))
                    values.append(low_v[one, part])
                for other in range(height * width if window else 0):
                    there = divmod(other, width)
                    if all(
                        here // window * window - reach <= at < (here // window + 1) * window + reach
                        for here, at in zip((row, column), there)
                    ):
                        logit = q[count + t, part] @ k[count + other, part] / math.sqrt(dk)
                        if layer.relative_position_bias_table is not None:
                            most = window + reach - 1
                            place = (there[0] - row + most) * (2 * most + 1) + there[1] - column + most
                            logit = logit + layer.relative_position_bias_table[place, head]
                        logits.append(logit)
                        values.append(v[count + other, part])
                weights = torch.stack(logits).softmax(0)
                result[count + t, part] = weights @ torch.stack(values)
        for g in range(count):
            for head in range(heads):
                part = slice(head * dk, (head + 1) * dk)
                keys, values = k[:, part], v[:, part]
                if layer.as_released:
                    keys = torch.cat([k[:count, part], result[count:, part]])
                    values = torch.cat([v[:count, part], result[count:, part]])
                logits = keys @ q[g, part] / math.sqrt(dk)
                if layer.class_bias is not None:
                    logits = logits + torch.cat(
                        [layer.class_bias[head, g, 2:], layer.class_bias[head, g, 1].expand(height * width)]
                    )
                result[g, part] = logits.softmax(0) @ values
        answers.append(result @ layer.out.weight.T + layer.out.bias)
    return torch.stack(answers)


@settings(max_examples=20)
@given(
    st.tuples(st.integers(1, 6), st.integers(1, 5)),
    st.integers(0, 4),
    st.sampled_from([0, 1, 3, 40]),
    st.sampled_from([None, 0, 2, 4]),
    st.sampled_from([(0, False), (1, False), (1, True), (2, True)]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 1, 3]),
)
def test_it_is_its_definition(grid, window, rank, reach, tokens, dual, relative, released, conv):
    if not window and not rank:
        rank = 2
    layer = layer_of(
        window=window,
        rank=rank,
        reach=reach,
        class_tokens=tokens[0],
        class_bias=tokens[1],
        dual_norm=dual,
        relative_bias=relative,
        as_released=released,
        conv=conv,
        conv_norm=relative,
    )
    x = torch.randn(2, tokens[0] + grid[0] * grid[1], 6).double()
    expected_reach = max(window // 2, 1) if reach is None else reach
    torch.testing.assert_close(layer(x, grid), truth(layer, x, grid, expected_reach))


@pytest.mark.parametrize(
    ("grid", "window", "reach", "cells"),
    [
        ((6, 4), 3, 3, (1, 1)),
        ((6, 7), 3, 3, (1, 3)),
        ((6, 5), 2, 4, (1, 1)),
        ((6, 7), 4, 2, (2, 2)),
        ((7, 7), 3, 6, (1, 1)),
    ],
)
def test_an_axis_that_all_segments_see_whole_is_one_segment(grid, window, reach, cells):
    """It computes no positions outside the grid then, and the result is the same."""
    assert Tiling.for_grid(grid, window, reach).cells == cells
    layer = layer_of(window=window, rank=0, reach=reach, relative_bias=True)
    x = torch.randn(1, grid[0] * grid[1], 6).double()
    torch.testing.assert_close(layer(x, grid), truth(layer, x, grid, reach))


def seen_by(
    layer: LongShortAttention2d, grid: tuple[int, int], token: tuple[int, int]
) -> list[tuple[int, int]]:
    """The tokens whose change moves the result of one."""
    x = torch.randn(1, grid[0] * grid[1], layer.dim).double().requires_grad_()
    at = token[0] * grid[1] + token[1]
    (slope,) = torch.autograd.grad(layer(x, grid)[0, at].sum(), x)
    return [divmod(int(one), grid[1]) for one in slope[0].abs().sum(1).nonzero()]


def test_a_window_is_at_most_twice_the_segment():
    layer = layer_of(window=4, rank=0)
    rows = {row for row, _ in seen_by(layer, (16, 20), (5, 9))}
    columns = {column for _, column in seen_by(layer, (16, 20), (5, 9))}
    assert rows == set(range(2, 10)) and columns == set(range(6, 14))  # 8 by 8: 4 and 2 on each side
    corner = seen_by(layer, (16, 20), (0, 0))
    assert corner == [(row, column) for row in range(6) for column in range(6)]
    odd = {row for row, _ in seen_by(layer_of(window=7, rank=0), (21, 7), (10, 3))}
    assert odd == set(range(4, 17))  # 7 and ⌊7/2⌋ on each side
    one = seen_by(layer_of(window=1, rank=0), (5, 5), (2, 2))
    assert len(one) == 9
    # with summaries every token moves every result
    assert len(seen_by(layer_of(window=4, rank=1), (16, 20), (5, 9))) == 320


def test_a_window_as_large_as_the_grid_is_full_attention():
    layer = layer_of(window=5, rank=0, reach=0, dual_norm=False)
    x = torch.randn(3, 20, 6).double()
    q, k, v = (
        (x @ one.weight.T + one.bias).view(3, 20, 2, 3).transpose(1, 2) for one in (layer.q, layer.k, layer.v)
    )
    full = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    torch.testing.assert_close(layer(x, (5, 4)), layer.out(full))
    assert (
        layer_of(window=4, rank=0, reach=0, dual_norm=False)(x, (5, 4)) - layer.out(full)
    ).abs().max() > 1e-3


def test_summaries_know_no_places():
    """Tokens in another order give the same results in that order: a control with windows does not."""
    order = torch.randperm(12)
    x = torch.randn(1, 12, 6).double()
    only = layer_of(window=0, rank=3)
    torch.testing.assert_close(only(x[:, order], (3, 4)), only(x, (3, 4))[:, order])
    both = layer_of(window=2, rank=3)
    assert (both(x[:, order], (3, 4)) - both(x, (3, 4))[:, order]).abs().max() > 1e-3


def test_gradients_are_those_of_finite_differences():
    layer = layer_of(window=2, rank=2, class_tokens=1, relative_bias=True, class_bias=True, conv=3)
    x = torch.randn(1, 13, 6).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda rows: layer(rows, (4, 3)), (x,))


def test_the_number_of_products_is_linear_in_the_tokens():
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    def products(side: int, window: int) -> int:
        with torch.device("meta"), FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
            LongShortAttention2d(8, 2, window=window, rank=4)(torch.empty(1, side * side, 8), (side, side))
        return counter.get_total_flops()

    assert products(64, 4) == 4 * products(32, 4)
    assert products(64, 64) > 7 * products(32, 32)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves_do_not_crash(dtype):
    layer = LongShortAttention2d(8, 2, window=3, rank=4, class_tokens=1, relative_bias=True, class_bias=True)
    x = torch.randn(2, 21, 8)
    whole = layer(x, (4, 5))
    half = layer.to(dtype)(x.to(dtype), (4, 5))
    assert half.dtype == dtype and torch.allclose(half.float(), whole, atol=0.1)
    layer.float()
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.allclose(layer(x, (4, 5)).float(), whole, atol=0.1)


def test_dropout_acts_in_training_only():
    layer = layer_of(dropout=0.5, attention_dropout=0.5, window=2)
    x = torch.randn(2, 12, 6).double()
    assert torch.equal(layer(x, (3, 4)), layer(x, (3, 4)))
    layer.train()
    assert (layer(x, (3, 4)) == 0).any() and not torch.equal(layer(x, (3, 4)), layer(x, (3, 4)))


def test_strides_of_a_projection_are_every_other_result():
    torch.manual_seed(0)
    one, two = SeparableProjection(4, 3, norm=False), SeparableProjection(4, 3, stride=2, norm=False)
    two.load_state_dict(one.state_dict())
    x = torch.randn(2, 7, 6, 4)
    torch.testing.assert_close(two(x), one(x)[:, ::2, ::2])
    assert one.conv.bias is not None and SeparableProjection(4, 3).conv.bias is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (dict(heads=4), "dim: 6 with 4 heads"),
        (dict(window=-1), "window: -1"),
        (dict(rank=-1), "rank: -1"),
        (dict(reach=-1), "reach: -1"),
        (dict(window=0, rank=0), "window: 0 with rank 0"),
        (dict(class_bias=True), "class_bias"),
        (dict(conv=2), "kernel: 2"),
    ],
)
def test_wrong_sizes_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        layer_of(**given)
    with pytest.raises(ValueError, match="stride"):
        SeparableProjection(4, 4, stride=0)


@pytest.mark.parametrize(
    ("shape", "grid"), [((1, 11, 6), (3, 4)), ((1, 12, 5), (3, 4)), ((1, 0, 6), (0, 4)), ((12, 6), (3, 4))]
)
def test_wrong_inputs_are_refused(shape, grid):
    with pytest.raises(ValueError, match=r"x: shape .* \(allowed: \(B, 0 \+ H·W, 6\), H and W at least 1\)$"):
        layer_of()(torch.zeros(shape).double(), grid)


@pytest.mark.parametrize("share", [-0.1, 1.0, 2.0, math.nan])
def test_a_share_of_dropped_weights_that_is_none_is_refused(share):
    with pytest.raises(ValueError, match=r"attention_dropout: .* .allowed: 0 <= p < 1"):
        LongShortAttention2d(4, 2, attention_dropout=share)
