"""Causal long-short attention: a window of recent positions, and a few compressed vectors per earlier segment."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from relearn.layers.causal_windows import Form, Spans
from relearn.layers.long_short_causal_core import CausalCore, mix_values
from relearn.layers.relative_positions import sinusoids
from relearn.layers.self_attention import check_heads


class CausalLongShortAttention(nn.Module):
    r"""Autoregressive long-short attention with a cache (zhu2022, sections 5.2.2 to 5.2.5, equations 5.3, 5.5 and 5.7).

    The positions t = 0 ... m + n - 1 are those of the cache followed by those of ``x``; only the latter have outputs. For head i

    .. math::
        P_{i,s} = \mathop{\mathrm{softmax}}_{t \in s}(x_t W^P_i), \qquad
        \bar K_{i,s} = \mathrm{LN}_G\big(P_{i,s}^\top\, \mathrm{LN}_L(K W^K_i)_{sl : (s+1)l}\big)

    .. math::
        H_{i,t} = \mathrm{softmax}\Big(\tfrac{1}{\sqrt{d}} \big[ q_t \cdot (k_j + \rho_{t-j})_{j \in \mathcal W(t)} ;\;
        q_t \cdot (\bar k_s + \sigma_{\lfloor t/l \rfloor - s})_{s < \lfloor t/l \rfloor} \big]\Big) \big[V_{\mathcal W(t)} ; \bar V\big]

    with :math:`q = x W^Q_i`, :math:`k = \mathrm{LN}_L(x W^K_i)`, the same norms for the values, and the window
    :math:`\mathcal W(t) = \{ w(\lfloor t/w \rfloor - 1), \ldots, t \}`: the current window up to t, and the previous one. A query sees all
    segments before its own; segment s is :math:`sl \ldots (s+1)l - 1` (equation 5.5 prints another index; docs: errata, Z8).

    ============  ===============================================  ==============================  ==============
    symbol        meaning                                          code                            shape
    ============  ===============================================  ==============================  ==============
    W^Q, W^O      queries, output                                  ``q``, ``out``                  (D, D)
    W^K, W^V      keys, then values                                ``kv``                          (2D, D)
    W^P           scores of the dynamic projection                 ``projection``                  (H r, D)
    LN_L, LN_G    DualLN of window and compressed vectors          ``local_norm``, ``global_norm`` (d,) each
    ρ             linear map of sinusoids of the position distance ``window_positions``            (D, D)
    σ             the same of the segment distance, ≥ 1            ``segment_positions``           (D, D)
    ============  ===============================================  ==============================  ==============

    Apart from the maps the cost is :math:`O(n (2w + r (m + n) / l) D)`: linear in n except for the compressed part, which r/l makes
    small. Long calls do not store the weights; what they store between the passes is linear in m + n, also in the released form and
    with dropout, whose probability is rounded to a multiple of 2^-15. With ``fused`` = False (a plain attribute), ordinary tensor
    operations are used, which store the scores.

    Every position before t is visible, through a window or a compressed segment, if and only if :math:`w + \gcd(w, l) \ge l` (the
    printed condition w ≥ l/2 is not sufficient; docs: errata, Z9). Positions after t are never visible. Windows and segments are
    counted from the first position of the cache. If the cache holds the whole past, processing a sequence in parts gives the same
    outputs as processing it at once. A truncated cache should keep a multiple of w and of l, so that the boundaries do not move.

    The dissertation leaves the following open, and the choices are ours: keys and values share each norm, as the symbols in the
    formula suggest; LN acts on the d numbers of a head, as the formula has it, with weights shared by the heads; relative positions
    are a linear map of sinusoids of the distance, without further biases; the maps have no biases. With w = 0 there is only the
    projection: positions of segment 0 see nothing, and their mixture is 0. With r = 0 there is only the window.

    ``as_released`` is the variant of the released code: a window of exactly w keys that ends at the query (hence w ≥ l is required);
    Transformer-XL's two biases in the window scores; biases of W^P and of the map of σ; LN over the full width, (D,).
    σ is evaluated at the number of compressed vectors between a vector and the query's segment (0 for the last vector before it)
    instead of at the segment distance. The compressed vectors of ``x`` are computed from keys and values before LN_L. Those of the
    cache are computed from its hidden states: each head's slice is compressed with that head's weights, and the maps are applied
    afterwards. In this variant, processing a sequence in parts changes the outputs, and the cache must consist of whole segments.

    Args:
        dim: D, a multiple of ``heads``.
        heads: H.
        window: w, 512 in the dissertation; 0 for no window.
        segment: l.
        rank: r; 0 for no compressed part.
        dual_norm: apply LN_L and LN_G.
        relative: use ρ and σ.
        dropout: probability of dropping an attention weight.
        as_released: see above.

    Raises:
        ValueError: sizes out of range; a window that leaves a gap; in a call, no position, wrong shapes, or, in the released
            form, a cache that is not made of whole segments.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        window: int = 512,
        segment: int = 16,
        rank: int = 1,
        dual_norm: bool = True,
        relative: bool = True,
        dropout: float = 0.0,
        as_released: bool = False,
    ) -> None:
        super().__init__()
        check_heads(dim, heads, dropout)
        check_coverage(window, segment, rank, banded=as_released)
        self.dim, self.heads, self.window, self.segment, self.rank = dim, heads, window, segment, rank
        self.dropout, self.as_released, self.fused = dropout, as_released, True
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(dim, 2 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.projection = nn.Linear(dim, heads * rank, bias=as_released) if rank else None
        width = dim if as_released else dim // heads
        self.local_norm = nn.LayerNorm(width) if dual_norm else None
        self.global_norm = nn.LayerNorm(width) if dual_norm and rank else None
        self.window_positions = nn.Linear(dim, dim, bias=False) if relative and window else None
        self.segment_positions = nn.Linear(dim, dim, bias=as_released) if relative and rank else None
        self.biases = nn.Parameter(torch.zeros(2, heads, dim // heads)) if as_released else None

    def forward(self, x: Tensor, *, cache: Tensor | None = None) -> Tensor:
        """Return the outputs (B, n, D).

        Args:
            x: (B, n, D), n ≥ 1.
            cache: the inputs of this layer at the m preceding positions, (B, m, D); None is the same as m = 0. It receives gradients
                if it requires them; Transformer-XL detaches its cache.
        """
        spans = self.spans(x, cache)
        near, far = self.keys_and_values(x, cache=cache)
        q = self.q(x).unflatten(2, (self.heads, -1)) * math.sqrt(self.heads / self.dim)
        tables = self._positions(spans, q)
        near = near.to(q.dtype)
        tensors = (q, near, far.to(q.dtype), *tables, *self._biases(near, tables[0]))
        dropout = self.dropout if self.training else 0.0
        form = Form(self.as_released, self.rank if self.as_released else 1, dropout)
        own = self.fused and not torch.compiler.is_compiling() and len(x) > 0
        mixed = CausalCore.apply(spans, form, *tensors) if own else mix_values(spans, form, *tensors)
        return self.out(mixed.flatten(2))

    def keys_and_values(self, x: Tensor, *, cache: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the keys and values that queries may see, after DualLN: of positions and of compressed segments.

        Shapes: (B, m + n, 2, H, d), keys before values, and (B, C r, 2, H, d) for the C = ⌊(m + n - 1) / l⌋ segments that
        some query sees.
        """
        spans = self.spans(x, cache)
        held = None if cache is None or not cache.shape[1] else cache.to(x.dtype)
        # mapped separately, so that a cache without gradients adds nothing to the backward pass
        parts = [x] if held is None else [held, x]
        plain_rows = _concatenate([self.kv(one) for one in parts])
        near = self._normalise(plain_rows, self.local_norm)
        if self.projection is None or not spans.seen:
            return near, near[:, :0]
        scores = _concatenate([self.projection(one) for one in parts])
        rows = plain_rows.unflatten(2, (2, self.heads, -1)) if self.as_released else near
        length = spans.end // self.segment * self.segment
        if length < spans.end:  # slice only if needed: the gradient of a slice is as long as the whole
            scores, rows = scores[:, :length], rows[:, :length]
        shares = scores.unflatten(2, (self.heads, -1)).unflatten(1, (-1, self.segment)).softmax(2)
        far = _compress(shares, rows)[:, : spans.seen * self.rank]
        if self.as_released and held is not None:
            count = min(spans.past // self.segment, spans.seen)
            states = held[:, : count * self.segment].unflatten(2, (1, self.heads, -1))
            compressed = _compress(shares[:, :count], states).flatten(2)
            far = torch.cat(
                [self.kv(compressed).unflatten(2, (2, self.heads, -1)), far[:, count * self.rank :]], 1
            )
        return near, self._normalise(far.flatten(2), self.global_norm)

    def spans(self, x: Tensor, cache: Tensor | None = None) -> Spans:
        """Return the sizes of a call.

        Raises:
            ValueError: see the class.
        """
        if x.dim() != 3 or x.shape[2] != self.dim or x.shape[1] == 0:
            raise ValueError(f"x: shape {tuple(x.shape)} (allowed: (B, n, {self.dim}) with n >= 1)")
        past = 0 if cache is None else cache.shape[1] if cache.dim() == 3 else -1
        if cache is not None and tuple(cache.shape) != (x.shape[0], past, self.dim):
            raise ValueError(f"cache: shape {tuple(cache.shape)} (allowed: ({x.shape[0]}, m, {self.dim}))")
        if self.as_released and past % self.segment:
            raise ValueError(
                f"cache: {past} positions (allowed as released: a multiple of segment = {self.segment})"
            )
        return Spans(self.window, self.segment, self.rank, past, x.shape[1])

    def _positions(self, spans: Spans, like: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return ρ at distances 2w - 1 ... 0, (2w, H, d), and σ at C ... 0, (C + 1, H, d), or None where unused.

        As released, σ has r rows per segment: vector i at segment distance δ = C ... 0 uses δ r - 1 - i. No query sees δ = 0.
        """
        tables: list[Tensor | None] = []
        for map_, last in (
            (self.window_positions, 2 * self.window - 1),
            (self.segment_positions, spans.seen),
        ):
            if map_ is None or (map_ is self.segment_positions and not spans.seen):
                tables.append(None)
                continue
            distances = torch.arange(last, -1, -1, device=like.device, dtype=torch.float64)
            if self.as_released and map_ is self.segment_positions:
                vectors = torch.arange(self.rank, device=like.device)
                distances = (distances[:, None] * self.rank - 1 - vectors).flatten().clamp_min(0)
            encoded = sinusoids(distances, self.dim).to(map_.weight.dtype)  # bfloat16 counts to 256 only
            tables.append(map_(encoded).to(like.dtype).unflatten(1, (self.heads, -1)))
        return tables[0], tables[1]

    def _biases(self, near: Tensor, table: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """Return the products of Transformer-XL's biases with the keys, (B, m + n, H), and with ρ, (2w, H)."""
        if self.biases is None:
            return None, None
        content, position = self.biases.to(near.dtype)
        return (near[:, :, 0] * content).sum(-1), None if table is None else (table * position).sum(-1)

    def _normalise(self, rows: Tensor, norm: nn.LayerNorm | None) -> Tensor:
        """Reshape keys and values (B, t, 2D) to (B, t, 2, H, d) and normalise them, per head or over all heads."""
        width = self.dim if norm is None else norm.normalized_shape[0]
        rows = rows.unflatten(2, (-1, width))
        rows = rows if norm is None else norm(rows)
        return rows.flatten(2).unflatten(2, (2, self.heads, -1))

    def extra_repr(self) -> str:
        return f"heads={self.heads}, window={self.window}, segment={self.segment}, rank={self.rank}"


def check_coverage(window: int, segment: int, rank: int, *, banded: bool = False) -> None:
    r"""Reject sizes that are out of range or leave some position unseen: :math:`w + \gcd(w, l) < l`, or w < l if ``banded``.

    The relation of w to l does not matter if there is no window (w = 0) or no compressed part (r = 0).

    Raises:
        ValueError: the sizes are rejected.
    """
    for name, value, least in (("window", window, 0), ("segment", segment, 1), ("rank", rank, 0)):
        if value < least:
            raise ValueError(f"{name}: {value} (allowed: at least {least})")
    if not window and not rank:
        raise ValueError("window: 0 with rank 0 (allowed: at least one of the two above 0)")
    if not window and banded:
        raise ValueError("window: 0 (allowed as released: at least segment)")
    if window and rank and banded and window < segment:
        raise ValueError(f"window: {window} of segment {segment} (allowed as released: at least segment)")
    if window and rank and window + math.gcd(window, segment) < segment:
        raise ValueError(
            f"window: {window} of segment {segment} leaves positions unseen (allowed: window + gcd(window, segment) >= segment)"
        )


def _compress(shares: Tensor, rows: Tensor) -> Tensor:
    """Return the means of rows (B, C l, p, H, d) weighted by shares (B, C, l, H, r), (B, C r, p, H, d)."""
    rows = rows.unflatten(1, (-1, shares.shape[2]))
    return torch.einsum("bclhr,bclphd->bcrphd", shares.to(rows.dtype), rows).flatten(1, 2)


def _concatenate(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)
