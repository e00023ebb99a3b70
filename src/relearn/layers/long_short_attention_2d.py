r"""Long-short attention on grids of tokens, the variant for images.

Zhu, Ping, Xiao, Shoeybi, Goldstein, Anandkumar and Catanzaro, "Long-Short Transformer: Efficient Transformers for Language and
Vision" (2021); zhu2022, sections 5.2.2 to 5.2.6 and 5.3.3.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from relearn.layers.image_tiles import Grid, Tiling
from relearn.layers.separable_projection import SeparableProjection


class LongShortAttention2d(nn.Module):
    r"""Attention of every token to the tokens around its segment and to r summaries of the whole grid.

    .. math::
        P_i = \mathrm{softmax}_\text{tokens}(X W^P_i), \quad \bar K_i = \mathrm{LN_G}(P_i^\top \mathrm{LN_L}(K)_i), \quad
        H_{i,t} = \mathrm{softmax}\Big(\tfrac{q_{i,t}}{\sqrt{d_k}}
            [\mathrm{LN_L}(\tilde K_t)_i + T_{i,\Delta}; \bar K_i; \mathrm{LN_L}(K_g)_i]^\top\Big)
            [\mathrm{LN_L}(\tilde V_t)_i; \bar V_i; \mathrm{LN_L}(V_g)_i]

    (5.3 to 5.7, in two dimensions). The grid is cut into segments of f by f tokens. The window of a segment consists of its tokens
    and ⌊f/2⌋ more on each side (1 if f is 1), at most 2f by 2f. Positions outside the grid are masked, and any grid is allowed.
    K_g, V_g belong to the class tokens, which are in no window or summary and see all tokens. Both norms act on
    the full width before it is split into heads, and each is shared by keys and values, as in the released code; the paper leaves
    this open. T is a learned table with one number per head and relative position in a window; it applies to the window only.

    Time and memory are linear in the number of tokens. There are two pure variants: ``window=0`` (only summaries) and ``rank=0``
    (only windows; with ``dual_norm=False`` it is the local attention of ViL if ``reach=f``, and full attention if ``window`` covers
    the grid).

    ======================  ==================================  ==============================================
    \                       here, from the paper                ``as_released`` (their code, ViL-LS)
    ======================  ==================================  ==============================================
    class tokens see        the keys and values of all tokens   their own, and the results H of the others, as
                                                                keys and as values
    ======================  ==================================  ==============================================

    The released table of T indexes 19 differences per side with a stride of 13, so that some share an entry (253 instead of
    361 with f = 7); we do not reproduce this.

    Shapes: x (B, G + H W, D): the G class tokens, then the grid row by row; the output has the same shape.

    Args:
        dim: width D, a multiple of ``heads``.
        heads: number of heads.
        window: f; 0: no windows.
        rank: r; 0: no summaries.
        reach: tokens on each side of a segment; None: half a segment.
        dual_norm: apply LN_L and LN_G.
        conv: kernel size of depth-wise convolutions before all four maps (CvT), odd; 0: none. Class tokens skip them.
        conv_norm, conv_bias: batch normalisation after these convolutions, and their bias (None: a bias only without normalisation).
        relative_bias: whether to use T.
        class_bias: learned logit biases from tokens to class tokens, from class tokens to tokens, and among class tokens (ViL).
        class_tokens: G.
        dropout, attention_dropout: dropout probabilities after the last map and of attention weights, in training mode.
        bias: whether the maps of queries, keys and values have biases.
        as_released: see above.

    Raises:
        ValueError: sizes out of range, neither windows nor summaries, ``class_bias`` without class tokens; in a call, a wrong shape.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        window: int = 7,
        rank: int = 8,
        reach: int | None = None,
        dual_norm: bool = True,
        conv: int = 0,
        conv_norm: bool = True,
        conv_bias: bool | None = None,
        relative_bias: bool = False,
        class_bias: bool = False,
        class_tokens: int = 0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        bias: bool = True,
        as_released: bool = False,
    ) -> None:
        super().__init__()
        _check(dim, heads, window=window, rank=rank, reach=reach or 0, conv=conv, class_tokens=class_tokens)
        if class_bias and not class_tokens:
            raise ValueError("class_bias: True without class tokens (allowed: with at least one)")
        if not 0 <= attention_dropout < 1:
            raise ValueError(f"attention_dropout: {attention_dropout} (allowed: 0 <= p < 1)")
        self.dim, self.heads, self.window, self.rank = dim, heads, window, rank
        self.reach = (max(window // 2, 1) if window else 0) if reach is None else reach
        self.class_tokens, self.as_released = class_tokens, as_released
        self.attention_dropout = attention_dropout

        def map_to(out: int, with_bias: bool) -> nn.Module:
            if conv:
                parts: dict[str, Any] = dict(norm=conv_norm, conv_bias=conv_bias, bias=with_bias)
                return SeparableProjection(dim, out, kernel=conv, **parts)
            return nn.Linear(dim, out, bias=with_bias)

        self.q, self.k, self.v = (map_to(dim, bias) for _ in range(3))
        self.projection = map_to(heads * rank, True) if rank else None
        self.local_norm = nn.LayerNorm(dim) if dual_norm else nn.Identity()
        self.global_norm = nn.LayerNorm(dim) if dual_norm and rank else nn.Identity()
        self.out = nn.Linear(dim, dim)
        self.drop = nn.Dropout(dropout)
        self.relative_position_bias_table: nn.Parameter | None = None
        if relative_bias and window:
            side = 2 * (window + self.reach) - 1
            self.relative_position_bias_table = _small(side * side, heads)
        self.class_bias = _small(heads, class_tokens, 2 + class_tokens) if class_bias else None

    def forward(self, x: Tensor, grid: Grid) -> Tensor:
        count = self.class_tokens
        if x.dim() != 3 or x.shape[1:] != (count + grid[0] * grid[1], self.dim) or min(grid) < 1:
            allowed = f"(B, {count} + H·W, {self.dim}), H and W at least 1"
            raise ValueError(
                f"x: shape {tuple(x.shape)} with a grid of {grid[0]} x {grid[1]} (allowed: {allowed})"
            )
        q = self._map(self.q, x, grid)
        k = self.local_norm(self._map(self.k, x, grid))
        v = self.local_norm(self._map(self.v, x, grid))
        seen = [(self._split(k[:, :count]), self._split(v[:, :count]))] if count else []
        if self.projection is not None:
            seen.append(self.summaries(x[:, count:], k[:, count:], v[:, count:], grid))
        fixed_k, fixed_v = (torch.cat(parts, 2) for parts in zip(*seen)) if seen else (None, None)
        y = self._tokens(q[:, count:], k[:, count:], v[:, count:], fixed_k, fixed_v, grid)
        if count:
            y = torch.cat([self._class(q[:, :count], k, v, y), y], 1)
        return self.drop(self.out(y))

    def summaries(self, x: Tensor, k: Tensor, v: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
        r"""Return \bar K and \bar V, (B, heads, r, D/heads), from the grid's normalised keys and values (B, H W, D)."""
        assert self.projection is not None
        scores = self._map(self.projection, x, grid, 0).unflatten(2, (self.heads, self.rank))
        wide = torch.promote_types(scores.dtype, torch.float32)
        shares = scores.softmax(1, dtype=wide).to(v.dtype).permute(0, 2, 3, 1)

        def summed(rows: Tensor) -> Tensor:
            together = (shares @ self._split(rows)).transpose(1, 2).flatten(2)
            return self._split(self.global_norm(together))

        return summed(k), summed(v)

    def bias(self, tiling: Tiling, device: torch.device) -> Tensor | None:
        """Return T for each segment token and window token, (heads, tokens per segment, tokens per window)."""
        if self.relative_position_bias_table is None:
            return None
        furthest = self.window + self.reach - 1
        down, right = (one + furthest for one in tiling.differences(device))
        return self.relative_position_bias_table[down * (2 * furthest + 1) + right].permute(2, 0, 1)

    def _tokens(
        self, q: Tensor, k: Tensor, v: Tensor, fixed_k: Tensor | None, fixed_v: Tensor | None, grid: Grid
    ) -> Tensor:
        """Return the outputs of the grid's tokens, (B, H W, D), before the last map."""
        fixed = 0 if fixed_k is None else fixed_k.shape[2]
        if not self.window:
            mixed = self._attend(self._split(q), fixed_k, fixed_v, self._added(fixed, 0, None, None))
            return mixed.transpose(1, 2).flatten(2)
        tiling = Tiling.for_grid(grid, self.window, self.reach)
        cells = tiling.cells[0] * tiling.cells[1]

        def around(rows: Tensor, same: Tensor | None) -> Tensor:
            window = self._split(tiling.windows(rows.unflatten(1, grid)).flatten(0, 1))
            if same is None:
                return window
            again = same[:, None].expand(-1, cells, -1, -1, -1).flatten(0, 1)
            return torch.cat([again, window], 2)

        inner = self._split(tiling.segments(q.unflatten(1, grid)).flatten(0, 1))
        keys, values = around(k, fixed_k), around(v, fixed_v)
        added = self._added(
            fixed, keys.shape[2] - fixed, tiling.visible(q.device), self.bias(tiling, q.device)
        )
        if added is not None and added.shape[0] > 1:
            added = added.repeat(q.shape[0], 1, 1, 1)
        mixed = self._attend(inner, keys, values, added)
        return tiling.join(mixed.transpose(1, 2).flatten(2).unflatten(0, (q.shape[0], cells))).flatten(1, 2)

    def _added(self, fixed: int, keys: int, visible: Tensor | None, bias: Tensor | None) -> Tensor | None:
        """Return the additive logits of the grid's tokens, (segments or 1, heads or 1, tokens or 1, fixed + window keys)."""
        if visible is None and bias is None and self.class_bias is None:
            return None
        like = self.out.weight
        first, last = like.new_zeros(1, 1, 1, fixed), like.new_zeros(1, 1, 1, keys)
        if self.class_bias is not None:
            to_class = self.class_bias[None, :, None, :, 0]
            first = torch.cat([to_class, like.new_zeros(1, self.heads, 1, fixed - self.class_tokens)], 3)
        if bias is not None:
            last = last + bias
        if visible is not None:
            hidden = torch.zeros_like(visible, dtype=like.dtype).masked_fill(~visible, float("-inf"))
            last = last + hidden[:, None, None]
        shape = torch.broadcast_shapes(first.shape[:3], last.shape[:3])
        return torch.cat([first.expand(*shape, -1), last.expand(*shape, -1)], 3)

    def _class(self, q: Tensor, k: Tensor, v: Tensor, y: Tensor) -> Tensor:
        """Return the outputs of the class tokens, (B, G, D), before the last map."""
        count, added = self.class_tokens, None
        if self.as_released:
            k, v = torch.cat([k[:, :count], y], 1), torch.cat([v[:, :count], y], 1)
        if self.class_bias is not None:
            away = self.class_bias[:, :, 1:2].expand(-1, -1, k.shape[1] - count)
            added = torch.cat([self.class_bias[:, :, 2:], away], 2)[None]
        mixed = self._attend(self._split(q), self._split(k), self._split(v), added)
        return mixed.transpose(1, 2).flatten(2)

    def _attend(self, q: Tensor, k: Any, v: Any, added: Tensor | None) -> Tensor:
        dropped = self.attention_dropout if self.training else 0.0
        added = None if added is None else added.to(q.dtype)
        return scaled_dot_product_attention(q, k, v, added, dropped)

    def _map(self, layer: nn.Module, x: Tensor, grid: Grid, count: int | None = None) -> Tensor:
        """Map all tokens; convolutions see only the grid, and class tokens pass only through the linear map after them."""
        if not isinstance(layer, SeparableProjection):
            return layer(x)
        count = self.class_tokens if count is None else count
        y = layer(x[:, count:].unflatten(1, grid)).flatten(1, 2)
        return torch.cat([layer.linear(x[:, :count]), y], 1) if count else y

    def _split(self, x: Tensor) -> Tensor:
        """Reshape (B, n, D) to (B, heads, n, D/heads)."""
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)

    def extra_repr(self) -> str:
        return f"heads={self.heads}, window={self.window}, reach={self.reach}, rank={self.rank}"


def _small(*shape: int) -> nn.Parameter:
    return nn.Parameter(nn.init.trunc_normal_(torch.empty(*shape), std=0.02))


def _check(dim: int, heads: int, **sizes: int) -> None:
    if heads < 1 or dim < 1 or dim % heads:
        raise ValueError(f"dim: {dim} with {heads} heads (allowed: a multiple of the number of heads)")
    for name, value in sizes.items():
        if value < 0:
            raise ValueError(f"{name}: {value} (allowed: at least 0)")
    if not sizes["window"] and not sizes["rank"]:
        raise ValueError("window: 0 with rank 0 (allowed: at least one of the two above 0)")
