r"""Similarity of the patches of an image after every block of a vision Transformer.

zhu2022, figure 5.6, after Gong et al., "Vision Transformers with Patch Diversification" (2021). For the N patches
:math:`x_1, \dots, x_N` of an image after block l, without class tokens,

.. math:: s_l = \frac1{N(N-1)} \sum_{i \ne j} \frac{x_i \cdot x_j}{\|x_i\| \|x_j\|}
               = \frac{\|\sum_i u_i\|^2 - \sum_i \|u_i\|^2}{N(N-1)}, \qquad u_i = \frac{x_i}{\|x_i\|},

and its mean over images. 1 means that all patches point in the same direction (over-smoothing), 0 that they are unrelated on average.
The paper's figure shows cosine similarity; Gong et al. take each pair's absolute value (``absolute`` here).

Blocks are recognised by their attributes ``norm1``, ``mlp`` and ``attention`` or ``attn``. This covers CvT, ViL, LipsFormer,
CSwin and the residual DeiTs of this package, and timm's ViT, DeiT, CaiT (without class attention) and Swin.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from relearn.maths.eval_mode import eval_mode


@torch.no_grad()
def patch_similarity(
    net: nn.Module, images: Tensor, *, batch_size: int = 64, absolute: bool = False, precision: str = "fp32"
) -> list[float]:
    """Return s of every block in the order of the network, averaged over ``images``; NaN if a patch is not finite.

    The similarity of a zero patch to any other is 0. The network is evaluated in eval mode on its own device, and modes are restored.

    Args:
        net: see the module.
        images: (B, C, H, W), pixels in [0, 1] or ``uint8``.
        batch_size: number of images processed at once.
        absolute: use the absolute value of every pair's cosine.
        precision: "fp32", or "bf16" for the forward pass under autocast.

    Raises:
        ValueError: no images, another precision,
            no such blocks, a block that the forward pass does not reach exactly once, or a layer with a single patch.
    """
    if len(images) == 0:
        raise ValueError("images: none (allowed: at least one)")
    if precision not in ("fp32", "bf16"):
        raise ValueError(f"precision: found {precision!r}, allowed are fp32, bf16")
    blocks = _blocks(net)
    if not blocks:
        raise ValueError(f"net: no block of a Transformer in {type(net).__name__} (allowed: see the module)")
    sums = [0.0] * len(blocks)
    came = [0] * len(blocks)

    def keep(index: int, prefix: int) -> Callable[..., None]:
        def look(_: nn.Module, given: Any, x: Tensor) -> None:
            patches = x.flatten(1, -2)[:, prefix:]
            if patches.shape[1] < 2:
                raise ValueError(
                    f"net: layer {index + 1} has {patches.shape[1]} patch (allowed: at least 2; larger images)"
                )
            sums[index] += float(_pairs(patches, absolute).sum())
            came[index] += len(x)

        return look

    handles = [
        block.register_forward_hook(keep(index, prefix)) for index, (block, prefix) in enumerate(blocks)
    ]
    device = next(net.parameters()).device
    try:
        with eval_mode(net):
            for chunk in images.split(batch_size):
                pixels = chunk.to(device)
                pixels = pixels.float() / 255.0 if pixels.dtype == torch.uint8 else pixels
                with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
                    net(pixels)
    finally:
        for handle in handles:
            handle.remove()
    missed = [index for index, count in enumerate(came) if count != len(images)]
    if missed:
        raise ValueError(f"net: layer {missed[0] + 1}, not reached once by the forward pass")
    return [one / len(images) for one in sums]


@torch.no_grad()
def last_grid(net: nn.Module, image: Tensor) -> tuple[int, int | None]:
    """Return the number of patches in the last block, and the size in patches of its largest window; None without windows.

    If the last window covers all patches, locality cannot keep the patches different. Windows are those of
    :class:`~relearn.layers.long_short_attention_2d.LongShortAttention2d`: (f + 2 reach)² patches for segments of f by f.

    Args:
        net: see the module; ``image``: (1, C, H, W), pixels in [0, 1].

    Raises:
        ValueError: no such blocks.
    """
    blocks = _blocks(net)
    if not blocks:
        raise ValueError(f"net: no block of a Transformer in {type(net).__name__} (allowed: see the module)")
    (block, prefix), found = blocks[-1], []
    handle = block.register_forward_hook(lambda _, given, x: found.append(x.flatten(1, -2).shape[1] - prefix))
    try:
        with eval_mode(net):
            net(image.to(next(net.parameters()).device))
    finally:
        handle.remove()
    parts: list[Any] = [one for one in block.modules() if hasattr(one, "reach") and hasattr(one, "window")]
    sides: list[int] = [one.window + 2 * one.reach for one in parts]
    return found[-1], max(sides) ** 2 if sides else None


def _pairs(patches: Tensor, absolute: bool) -> Tensor:
    """Return the mean over pairs, (B,), of patches (B, N, D)."""
    wide = patches.double() if patches.device.type != "mps" else patches.float()
    count = wide.shape[1]
    unit = normalize(wide, dim=2, eps=torch.finfo(wide.dtype).tiny)
    if absolute:
        # one image at a time, because the first layers have thousands of patches
        total = torch.stack([(one @ one.mT).abs().sum() for one in unit])
    else:
        total = unit.sum(1).square().sum(1)
    return (total - unit.square().sum((1, 2))) / (count * (count - 1))


def _blocks(net: nn.Module) -> list[tuple[nn.Module, int]]:
    """Return the blocks of the network, with the number of class tokens that precede the patches in each."""
    found: list[Any] = [
        one
        for one in net.modules()
        if hasattr(one, "norm1")
        and hasattr(one, "mlp")
        and (hasattr(one, "attention") or hasattr(one, "attn"))
    ]
    patches = [one for one in found if "x_cls" not in inspect.signature(one.forward).parameters]
    trunk: Any = getattr(net, "trunk", net)
    told = getattr(trunk, "num_prefix_tokens", int(getattr(trunk, "class_token", None) == "from_start"))
    # if the blocks have only patches, class attention adds its own token afterwards
    first = 0 if len(patches) < len(found) else int(told)
    return [(one, int(getattr(getattr(one, "attention", None), "class_tokens", first))) for one in patches]
