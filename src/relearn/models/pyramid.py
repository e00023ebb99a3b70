"""A vision Transformer with stages; each stage has half the resolution and twice the width of the previous one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from relearn.models.bounded import Bounded
from relearn.models.intermediates import Intermediates
from relearn.models.timm_parts import ClassifierHead, calculate_drop_path_rates

Grid = tuple[int, int]


class Pyramid(Bounded, Intermediates):
    """Stem, stages of blocks with downsampling between them, norm, mean over the grid, linear layer; timm's interface.

    =============  ================================  ===========================
    code           role                              output
    =============  ================================  ===========================
    patch_embed    images (B, C, H, W) → tokens      (B, H/p, W/p, D)
    layers[i]      downsampling (except in the       (B, ⌈·/2⌉, ⌈·/2⌉, 2 D)
                   first), then ``depths[i]`` blocks
    norm           of the last stage
    head           timm's ``ClassifierHead``         (B, ``num_classes``)
    =============  ================================  ===========================

    With ``features_only`` timm returns the stages' outputs unchanged, channels last (``output_fmt``);
    :meth:`~relearn.models.intermediates.Intermediates.forward_intermediates` returns them channels first.

    Args:
        stem: (image channels, D, image size, patch) → module.
        halving: (D of the previous stage) → module that halves the grid, rounding up, and doubles the width.
        block: (D, heads, grid, stage, index in the stage, drop-path probability) → module.
        last_norm: (D of the last stage) → module.
        img_size: side length or (H, W) of the images, multiples of ``patch_size``.
        patch_size: p, side length of a token of the first stage.
        in_chans, num_classes, global_pool: as in timm; with 0 classes there is no linear layer.
        embed_dim: D of the first stage.
        depths: number of blocks, per stage.
        num_heads: number of heads, per stage.
        drop_rate: dropout before the linear layer.
        drop_path_rate: drop probability of the last block; it grows linearly from 0 in the first one.

    Raises:
        ValueError: an image size that is not a multiple of the patch (the message gives the nearest valid ones), a stage without
            blocks or without heads, a probability outside [0, 1); in a forward pass, images of another size.
    """

    output_fmt = "NHWC"

    def __init__(
        self,
        *,
        stem: Callable[[int, int, Grid, int], nn.Module],
        halving: Callable[[int], nn.Module],
        block: Callable[[int, int, Grid, int, int, float], nn.Module],
        last_norm: Callable[[int], nn.Module],
        img_size: int | Sequence[int] = 224,
        patch_size: int = 4,
        in_chans: int = 3,
        num_classes: int = 1000,
        global_pool: str = "avg",
        embed_dim: int = 96,
        depths: Sequence[int] = (2, 2, 6, 2),
        num_heads: Sequence[int] = (3, 6, 12, 24),
        drop_rate: float = 0.0,
        drop_path_rate: float = 0.0,
    ) -> None:
        super().__init__()
        sides = image_sides(img_size, patch_size)
        _check_stages(depths, num_heads)
        for name, value in {"drop_rate": drop_rate, "drop_path_rate": drop_path_rate}.items():
            if not 0 <= value < 1:
                raise ValueError(f"{name}: {value} (allowed: 0 <= p < 1)")
        self.img_size, self.in_chans, self.num_classes = sides, in_chans, num_classes
        self.patch_size = patch_size
        self.patch_embed = stem(in_chans, embed_dim, sides, patch_size)
        grid = (sides[0] // patch_size, sides[1] // patch_size)
        rates: list[Any] = calculate_drop_path_rates(drop_path_rate, list(depths), stagewise=True)
        stages, self.feature_info, dim = [], [], embed_dim
        for stage, (depth, heads) in enumerate(zip(depths, num_heads)):
            parts: list[nn.Module] = [nn.Identity()]
            if stage:
                parts, dim, grid = [halving(dim)], 2 * dim, ((grid[0] + 1) // 2, (grid[1] + 1) // 2)
            parts += [block(dim, heads, grid, stage, index, rates[stage][index]) for index in range(depth)]
            stages.append(nn.Sequential(*parts))
            self.feature_info.append(
                {"num_chs": dim, "reduction": patch_size * 2**stage, "module": f"layers.{stage}"}
            )
        self.layers = nn.Sequential(*stages)
        self.num_features = self.head_hidden_size = dim
        self.norm = last_norm(dim)
        self.head = ClassifierHead(
            dim, num_classes, pool_type=global_pool, drop_rate=drop_rate, input_fmt="NHWC"
        )

    def forward_features(self, x: Tensor) -> Tensor:
        """Return the normalised tokens (B, h, w, D) of the last stage."""
        tokens = self.embed_images(x)
        for stage in self.layers:
            tokens = self.run_layer(stage, tokens)
        return self.norm(tokens)

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Return the logits for the given tokens; with ``pre_logits``, the input of the linear layer."""
        return self.head(x, pre_logits=pre_logits)

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(x))

    def get_classifier(self) -> nn.Module:
        return self.head.fc

    def reset_classifier(self, num_classes: int, global_pool: str | None = None) -> None:
        """Replace the linear layer by a new one with torch's initialisation."""
        self.num_classes = num_classes
        self.head.reset(num_classes, pool_type=global_pool)

    def set_input_size(
        self, img_size: int | Sequence[int] | None = None, window_size: int | Sequence[int] | None = None
    ) -> None:
        """Switch to images of another size; the weights are kept.

        The windows keep their sides (as far as the grids allow) unless ``window_size`` is given. If a window changes, its position table
        is resampled (bicubic).

        Args:
            img_size: side length or (H, W); None: the current one.
            window_size: one number, or one per stage.

        Raises:
            ValueError: a size that does not fit, or a block that does not support another grid.
        """
        sides = self.img_size if img_size is None else image_sides(img_size, self.patch_size)
        windows: list[int | None] = [None] * len(self.layers)
        if window_size is not None:
            windows = [window_size] * len(self.layers) if isinstance(window_size, int) else list(window_size)
        if len(windows) != len(self.layers):
            raise ValueError(
                f"window_size: {window_size} (allowed: one number, or one for each of {len(self.layers)} stages)"
            )
        grid = (sides[0] // self.patch_size, sides[1] // self.patch_size)
        plan: list[tuple[Any, Grid, int | None]] = []
        for stage, window in zip(self.layers, windows):
            if plan:
                grid = ((grid[0] + 1) // 2, (grid[1] + 1) // 2)
            plan += [(block.attention, grid, window) for block in list(stage.children())[1:]]
        for step in ("check_input_size", "set_input_size"):  # change nothing if any check fails
            for attention, where, side in plan:
                getattr(attention, step)(where, side)
        stem: Any = self.patch_embed
        if hasattr(stem, "set_input_size"):
            stem.set_input_size(img_size=sides)
        self.img_size = sides

    @torch.jit.ignore
    def group_matcher(self, coarse: bool = False) -> dict[str, Any]:
        """Return the patterns by which timm assigns parameters to layers, e.g. for layer-wise learning-rate decay."""
        blocks = [(r"^layers\.(\d+)\.0\.", (0,)), (r"^layers\.(\d+)\.(\d+)\.", None), (r"^norm", (99999,))]
        return {"stem": r"^patch_embed", "blocks": r"^layers\.(\d+)" if coarse else blocks}

    def layer_list(self) -> Sequence[nn.Module]:
        return list(self.layers)

    def embed_images(self, x: Tensor) -> Tensor:
        if tuple(x.shape[1:]) != (self.in_chans, *self.img_size):
            raise ValueError(f"x: shape {tuple(x.shape)} (allowed: {('B', self.in_chans, *self.img_size)})")
        return self.patch_embed(x).contiguous()

    def run_layer(self, layer: Any, state: Tensor) -> Tensor:
        if not self.grad_checkpointing:
            return layer(state)
        for block in layer:
            state = self.run(block, state)
        return state

    def to_map(self, state: Tensor, x: Tensor, norm: bool) -> Tensor:
        return (self.norm(state) if norm else state).permute(0, 3, 1, 2).contiguous()

    def last_tokens(self, state: Tensor, unfinished: bool) -> Tensor:
        return state if unfinished else self.norm(state)

    def keep_layers(self, count: int) -> None:
        self.layers = nn.Sequential(*list(self.layers)[:count])

    def drop_head(self) -> None:
        self.reset_classifier(0, "")

    @torch.jit.ignore
    def no_weight_decay(self) -> set[str]:
        """Return the names of the position tables, as in timm's Swin."""
        return {name for name, _ in self.named_parameters() if name.endswith("relative_position_bias_table")}


class Downsample(nn.Module):
    """A convolution of stride 2 that rounds odd sides up, then a norm; input and output are tokens (B, H, W, D).

    Args:
        dim: width D of the input; the layer doubles it.
        norm: normalisation over the channels.
        kernel: 2 (no overlap; odd sides are padded with zeros) or 3 (one row of zeros on each side).
    """

    def __init__(self, dim: int, norm: nn.Module, kernel: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(dim, 2 * dim, kernel, 2, (kernel - 1) // 2)
        self.norm = norm
        self.fill = kernel == 2

    def forward(self, x: Tensor) -> Tensor:
        if self.fill:
            x = nn.functional.pad(x, (0, 0, 0, x.shape[2] % 2, 0, x.shape[1] % 2))
        return self.norm(self.conv(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1).contiguous())


def image_sides(img_size: int | Sequence[int], patch: int) -> Grid:
    """Return (H, W) and check that both are multiples of the patch; the error message gives the nearest valid sizes."""
    sides = (img_size, img_size) if isinstance(img_size, int) else tuple(img_size)
    if patch < 1:
        raise ValueError(f"patch_size: {patch} (allowed: at least 1)")
    if len(sides) != 2 or min(sides) < 1 or any(side % patch for side in sides):
        below, above = (max(patch, side // patch * patch) for side in (min(sides), max(sides) + patch))
        raise ValueError(
            f"img_size: {img_size} (allowed: multiples of the patch, {patch}; {below} and {above} fit)"
        )
    return sides[0], sides[1]


def _check_stages(depths: Sequence[int], num_heads: Sequence[int]) -> None:
    for name, numbers in {"depths": depths, "num_heads": num_heads}.items():
        if len(numbers) != len(depths) or not numbers or min(numbers) < 1:
            raise ValueError(
                f"{name}: {list(numbers)} (allowed: a number >= 1 for each of {len(depths)} stages)"
            )
