"""Cosine attention with a learned bias, from projected rows: first derivatives without N x N activations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from relearn.layers.on_device import full_precision, wide

softmax_backward = torch.ops.aten._softmax_backward_data  # one pass over memory instead of three
SCRATCH = 2**18  # logits held at a time; about what fits in a CPU cache


class Form(NamedTuple):
    """Constants of the layer: heads, τ, ε, the factor of the output, and whether values are normalised."""

    heads: int
    tau: float
    eps: float
    gain: float
    normalise_values: bool


class CosineCore(torch.autograd.Function):
    r"""Mixtures :math:`g\, P^h \hat V^h` of :class:`~relearn.layers.cosine_attention.CosineAttention`, heads concatenated.

    torch's fused attention computes no gradient for a bias; if one is needed, it falls back to a kernel that stores the
    probabilities of all windows. Here the forward pass is the fused kernel, and the backward pass holds the logits of a
    few windows at a time. Let :math:`G` be the gradient of a head's output. Then

    .. math:: \bar V = P^\top G, \quad
              \bar S = P \odot (G V^\top - (P \odot G V^\top) \mathbf 1 \mathbf 1^\top), \quad
              \bar Q = \bar S K, \quad \bar K = \bar S^\top Q, \quad \bar b = \textstyle\sum \bar S, \quad
              \bar u = \frac{\bar{\hat u} - \hat u\, \hat u^\top \bar{\hat u}}{\sqrt{\|u\|^2 + \epsilon}}

    Higher derivatives are taken through :func:`cosine_attention`.

    Shapes: rows (B, N, 3D): all queries, then keys, then values; added (W, H, N, N), where W divides B and sequence b uses
    entry b mod W; output (B, N, D).
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(rows: Tensor, added: Tensor, form: Form) -> Tensor:
        found = []
        # torch leaves the fused kernel for a bias that requires a gradient, although none is recorded here
        for u, bias, _ in _pieces(rows, added.detach().contiguous(), form):
            windows = u.shape[1]
            q, k, v = _normalise(u, form)[0].to(rows.dtype).flatten(2, 3)
            mixed = scaled_dot_product_attention(q, k, v, attn_mask=bias.flatten(0, 1)[None], scale=1.0)
            found.append(mixed.unflatten(1, (windows, -1)).transpose(2, 3).flatten(3))
        return torch.cat(found, 1 if len(added) > 1 else 0).view(*rows.shape[:2], -1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        rows, added, ctx.form = inputs
        ctx.save_for_backward(rows, added)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, added = ctx.saved_tensors
        if torch.is_grad_enabled():
            pulled: Any = torch.func.vjp(lambda u, bias: cosine_attention(u, bias, ctx.form), rows, added)
            return *pulled[1](grad), None
        with full_precision(rows):
            return *_gradients(rows, added, grad, ctx.form), None


def cosine_attention(rows: Tensor, added: Tensor | None, form: Form) -> Tensor:
    """Compute :class:`CosineCore` by ordinary operations, differentiable to any order; the bias is optional."""
    count = 1 if added is None else len(added)
    u = rows.unflatten(-1, (3, form.heads, -1)).unflatten(0, (-1, count)).permute(3, 0, 1, 4, 2, 5)
    q, k, v = normalise(u, form.eps) if form.normalise_values else (*normalise(u[:2], form.eps), u[2])
    logits = form.tau * (q @ k.mT)
    mixed = (logits if added is None else logits + added).softmax(-1) @ v
    return (form.gain * mixed).transpose(2, 3).flatten(3).flatten(0, 1)


def normalise(u: Tensor, eps: float) -> Tensor:
    r"""Divide rows by :math:`\sqrt{\|u\|^2 + \epsilon}`; the norm of half-precision rows is computed in float32."""
    full = wide(u)
    return (full * (full.square().sum(-1, keepdim=True) + eps).rsqrt()).to(u.dtype)


def _gradients(rows: Tensor, added: Tensor, grad: Tensor, form: Form) -> tuple[Tensor, Tensor]:
    to_rows = grad.new_empty(rows.shape)
    to_added = []
    own = 1 / form.gain**2 if form.normalise_values else 0.0
    shares = wide(rows).new_tensor([1 / form.tau**2, 1.0, own]).view(3, 1, 1, 1, 1, 1)
    width = grad.shape[-1] // form.heads
    grads = grad.reshape(-1, len(added), grad.shape[1], form.heads, width)
    places = to_rows.view(-1, len(added), *rows.shape[1:])
    for u, bias, piece in _pieces(rows, added, form):
        images, windows = u.shape[:2]
        hats, factors = _normalise(u, form)
        q, k, v = hats.flatten(1, 3)
        ahead = wide(grads.narrow(*piece)).transpose(2, 3).reshape(q.shape)
        logits = torch.bmm(q, k.mT).unflatten(0, (images, -1)) + wide(bias).flatten(0, 1)
        weights = logits.softmax(-1).flatten(0, 1)
        to_logits = softmax_backward(torch.bmm(ahead, v.mT), weights, -1, weights.dtype)
        to_hats = torch.stack(
            [torch.bmm(to_logits, k), torch.bmm(to_logits.mT, q), torch.bmm(weights.mT, ahead)]
        ).view(hats.shape)
        along = (to_hats * hats).sum(-1, keepdim=True) * shares
        to_u = torch.addcmul(to_hats, hats, along, value=-1).permute(1, 2, 4, 0, 3, 5)
        places.narrow(*piece).copy_((to_u * factors).reshape(*u.shape[:3], -1))
        to_added.append(to_logits.view(images, windows, form.heads, *to_logits.shape[1:]).sum(0))
    together = torch.cat(to_added) if len(added) > 1 else torch.cat(to_added).sum(0, keepdim=True)
    return to_rows, together.to(added.dtype)


def _pieces(rows: Tensor, added: Tensor, form: Form) -> Iterator[tuple[Tensor, Tensor, tuple[int, int, int]]]:
    """Yield rows (I', W', N, 3, H, w), their additive logits (W', H, N, N), and the arguments of ``narrow`` that select them.

    If there is only one additive term, the pieces split the images instead of the windows.
    """
    u = _images(rows, added).unflatten(-1, (3, form.heads, -1))
    axis = 1 if len(added) > 1 else 0
    each = added[0].numel() * (1 if axis == 0 else len(u))
    step = max(1, SCRATCH // max(1, each))
    for first in range(0, u.shape[axis], step):
        here = slice(first, first + step)
        piece = (axis, first, min(step, u.shape[axis] - first))
        yield u.narrow(*piece), added[here] if axis else added, piece


def _images(tokens: Tensor, added: Tensor) -> Tensor:
    """Reshape (B, N, ...) to (I, W, N, ...)."""
    return tokens.reshape(-1, len(added), *tokens.shape[1:])


def _normalise(u: Tensor, form: Form) -> tuple[Tensor, Tensor]:
    """Return the normalised and scaled rows (3, I, W, H, N, w) of u (I, W, N, 3, H, w), and their factors (I, W, N, 3, H, 1)."""
    u = wide(u)
    scale = u.new_tensor([form.tau, 1.0, form.gain]).view(3, 1, 1)
    size = torch.linalg.vector_norm(u, dim=-1, keepdim=True)
    factors = (size.square() + form.eps).rsqrt() * scale
    if not form.normalise_values:
        factors = torch.cat([factors[..., :2, :, :], scale[2:].expand_as(factors[..., 2:, :, :])], -3)
    return (u * factors).permute(3, 0, 1, 4, 2, 5).contiguous(), factors
