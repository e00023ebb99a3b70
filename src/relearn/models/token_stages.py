"""A vision Transformer with stages whose attention also handles class tokens; base class of CvT and ViL."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from relearn.models.intermediates import Intermediates
from relearn.models.pyramid import Grid, image_sides
from relearn.models.timm_parts import DropPath, Mlp, calculate_drop_path_rates, trunc_normal_

Pool = Literal["token", "avg"]


class TokenBlock(nn.Module):
    """x ← x + Attention(LN(x)), x ← x + Mlp(LN(x)), with DropPath on both; x is (B, G + H W, D), the class tokens first."""

    def __init__(
        self, dim: int, attention: nn.Module, mlp_ratio: float, drop: float, drop_path: float
    ) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attention = attention
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = Mlp(dim, int(dim * mlp_ratio), drop=drop)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: Tensor, grid: Grid) -> Tensor:
        x = x + self.drop_path(self.attention(self.norm1(x), grid))
        return x + self.drop_path(self.mlp(self.norm2(x)))


class Stage(nn.Module):
    """Images or tokens → embedding → class tokens in front → blocks; (B, H, W, C) → (B, G + H' W', D) and (H', W')."""

    def __init__(self, embed: nn.Module, dim: int, class_tokens: int, blocks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.embed = embed
        self.cls_token = nn.Parameter(torch.empty(1, class_tokens, dim)) if class_tokens else None
        if self.cls_token is not None:
            trunc_normal_(self.cls_token, std=0.02)
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: Tensor, run: Callable[..., Tensor] | None = None) -> tuple[Tensor, Grid]:
        """``run(block, *arguments)`` replaces the call of each block, if given."""
        x = self.embed(x)
        grid = x.shape[1], x.shape[2]
        x = x.flatten(1, 2)
        if self.cls_token is not None:
            x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1)
        for block in self.blocks:
            x = block(x, grid) if run is None else run(block, x, grid)
        return x, grid


class Embed(nn.Module):
    """A convolution, then LayerNorm; (B, H, W, C) → (B, H', W', D). If kernel and stride are equal, odd sides are padded with zeros."""

    def __init__(self, channels: int, dim: int, kernel: int, stride: int, padding: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, dim, kernel, stride, padding)
        self.norm = nn.LayerNorm(dim)
        self.stride = stride if kernel == stride else 1

    def forward(self, x: Tensor) -> Tensor:
        down, right = -x.shape[1] % self.stride, -x.shape[2] % self.stride
        if down or right:
            x = nn.functional.pad(x, (0, 0, 0, right, 0, down))
        return self.norm(self.conv(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1))


class TokenStages(Intermediates):
    """Stages of :class:`TokenBlock`, norm, class token or mean, linear layer; timm's interface.

    =============  ===========================================  =======================
    code           role                                         output
    =============  ===========================================  =======================
    stages[i]      embedding, class tokens, ``depths[i]``       (B, G + H W, D), (H, W)
                   blocks; the next stage gets the grid only
    norm           of the last stage
    head           of the first class token, or of the mean     (B, ``num_classes``)
                   over the grid
    =============  ===========================================  =======================

    Linear layers are initialised with N(0, 0.02²) truncated at ±2, biases with 0; convolutions have torch's initialisation.

    Args:
        embed: (channels, D, stage, stride) → module, images or tokens (B, H, W, C) → tokens (B, ⌈H/stride⌉, ⌈W/stride⌉, D).
        attention: (D, heads, grid, stage, class tokens) → module, called with the tokens and the grid.
        class_tokens: number of class tokens, per stage; they are not passed on to the next stage.
        img_size: side length or (H, W) of the images, multiples of ``patch_size``.
        patch_size: stride of the first embedding.
        strides: strides of the other embeddings.
        in_chans, num_classes: as in timm; with 0 classes there is no linear layer.
        global_pool: "token" (the last stage's first class token) or "avg".
        embed_dim: D of the first stage.
        ratios: ratios of the widths of the stages; None: the ratios of their numbers of heads.
        depths, num_heads: number of blocks and of heads, per stage.
        mlp_ratio: width of the hidden layer divided by the token width.
        drop_rate: dropout in the blocks, after both layers of an MLP, and before the head.
        drop_path_rate: drop probability of the last block; it grows linearly from 0 in the first one.

    Raises:
        ValueError: an image size that is not a multiple of the patch (the message gives the nearest valid ones), a wrong number of
            per-stage values, a width that is not a multiple of the heads, a probability outside [0, 1), an unknown pooling; in a forward
            pass, images of another size.
    """

    def __init__(
        self,
        *,
        embed: Callable[[int, int, int, int], nn.Module],
        attention: Callable[[int, int, Grid, int, int], nn.Module],
        class_tokens: Sequence[int],
        img_size: int | Sequence[int] = 224,
        patch_size: int = 4,
        strides: Sequence[int] | None = None,
        in_chans: int = 3,
        num_classes: int = 1000,
        global_pool: Pool = "token",
        embed_dim: int,
        ratios: Sequence[int] | None = None,
        depths: Sequence[int],
        num_heads: Sequence[int],
        mlp_ratio: float = 4.0,
        drop_rate: float = 0.0,
        drop_path_rate: float = 0.0,
    ) -> None:
        super().__init__()
        sides = image_sides(img_size, patch_size)
        for name, value in {"drop_rate": drop_rate, "drop_path_rate": drop_path_rate}.items():
            if not 0 <= value < 1:
                raise ValueError(f"{name}: {value} (allowed: 0 <= p < 1)")
        shares = num_heads if ratios is None else ratios
        later = [2] * (len(depths) - 1) if strides is None else list(strides)
        _check(depths, num_heads=num_heads, ratios=shares, strides=[patch_size, *later])
        widths = [embed_dim * share // shares[0] for share in shares]
        _check_widths(widths, num_heads)
        self.img_size, self.in_chans, self.num_classes = sides, in_chans, num_classes
        rates: list[Any] = calculate_drop_path_rates(drop_path_rate, list(depths), stagewise=True)
        grid, channels, stages = sides, in_chans, []
        self.feature_info: list[dict[str, Any]] = []
        for stage, (heads, dim) in enumerate(zip(num_heads, widths)):
            stride = [patch_size, *later][stage]
            grid = -(-grid[0] // stride), -(-grid[1] // stride)
            count = class_tokens[stage]
            blocks = [
                TokenBlock(dim, attention(dim, heads, grid, stage, count), mlp_ratio, drop_rate, rate)
                for rate in rates[stage]
            ]
            stages.append(Stage(embed(channels, dim, stage, stride), dim, count, blocks))
            channels = dim
            reduction = math.prod([patch_size, *later][: stage + 1])
            self.feature_info.append({"num_chs": dim, "reduction": reduction, "module": f"stages.{stage}"})
        self.class_tokens = list(class_tokens)
        self.patch_size = patch_size
        self.strides = [patch_size, *later]
        self.stages = nn.ModuleList(stages)
        self.num_features = self.head_hidden_size = channels
        self.norm = nn.LayerNorm(channels)
        self.head_drop = nn.Dropout(drop_rate)
        self._pool(global_pool)
        self.head = nn.Linear(channels, num_classes) if num_classes else nn.Identity()
        for module in self.modules():
            if isinstance(module, nn.Linear):
                trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward_features(self, x: Tensor) -> Tensor:
        """Return the normalised tokens (B, G + H W, D) of the last stage."""
        state = self.embed_images(x)
        for stage in self.stages:
            state = self.run_layer(stage, state)
        return self.last_tokens(state, False)

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Return the logits for the given tokens; with ``pre_logits``, the input of the linear layer."""
        x = x[:, 0] if self.global_pool == "token" else x[:, self.class_tokens[-1] :].mean(1)
        x = self.head_drop(x)
        return x if pre_logits else self.head(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(x))

    def get_classifier(self) -> nn.Module:
        return self.head

    def reset_classifier(self, num_classes: int, global_pool: Pool | None = None) -> None:
        """Replace the linear layer by a new one with torch's initialisation."""
        self.num_classes = num_classes
        if global_pool is not None:
            self._pool(global_pool)
        where = next(self.stages.parameters())
        self.head = nn.Linear(self.num_features, num_classes) if num_classes else nn.Identity()
        self.head.to(where.device, where.dtype)

    def set_input_size(self, img_size: int | Sequence[int]) -> None:
        """Switch to images of another size; the weights are kept.

        Raises:
            ValueError: a size that does not fit; a stage with full attention whose position table is too small for the larger grid.
        """
        sides = image_sides(img_size, self.patch_size)
        grid = sides
        stages: list[Any] = list(self.stages)
        for stage, stride in zip(stages, self.strides):
            grid = -(-grid[0] // stride), -(-grid[1] // stride)
            for block in stage.blocks:
                whole = getattr(block.attention, "rank", 1) == 0 == block.attention.reach
                if whole and max(grid) > block.attention.window:
                    raise ValueError(
                        f"img_size: {img_size} makes a stage of {grid[0]} x {grid[1]} tokens (allowed: at most "
                        f"{block.attention.window} a side, for which it has positions; or build with img_size)"
                    )
        self.img_size = sides

    @torch.jit.ignore
    def group_matcher(self, coarse: bool = False) -> dict[str, Any]:
        """Return the patterns by which timm assigns parameters to layers, e.g. for layer-wise learning-rate decay."""
        blocks = [
            (r"^stages\.(\d+)\.(?:embed|cls_token)", (0,)),
            (r"^stages\.(\d+)\.blocks\.(\d+)", None),
            (r"^norm", (99999,)),
        ]
        return {"stem": r"^stages\.0\.embed", "blocks": r"^stages\.(\d+)" if coarse else blocks}

    def layer_list(self) -> Sequence[nn.Module]:
        return list(self.stages)

    def embed_images(self, x: Tensor) -> tuple[Tensor, Grid, int]:
        if tuple(x.shape[1:]) != (self.in_chans, *self.img_size):
            raise ValueError(f"x: shape {tuple(x.shape)} (allowed: {('B', self.in_chans, *self.img_size)})")
        return x.permute(0, 2, 3, 1).flatten(1, 2), self.img_size, 0

    def run_layer(self, layer: Any, state: tuple[Tensor, Grid, int]) -> tuple[Tensor, Grid, int]:
        tokens, grid, count = state
        image = tokens[:, count:].unflatten(1, grid)
        tokens, grid = layer(image, self.run) if self.grad_checkpointing else layer(image)
        return tokens, grid, 0 if layer.cls_token is None else layer.cls_token.shape[1]

    def to_map(self, state: tuple[Tensor, Grid, int], x: Tensor, norm: bool) -> Tensor:
        tokens, grid, count = state
        tokens = self.norm(tokens) if norm else tokens
        return tokens[:, count:].unflatten(1, grid).permute(0, 3, 1, 2).contiguous()

    def last_tokens(self, state: tuple[Tensor, Grid, int], unfinished: bool) -> Tensor:
        return state[0] if unfinished else self.norm(state[0])

    def keep_layers(self, count: int) -> None:
        self.stages = nn.ModuleList(list(self.stages)[:count])

    def drop_head(self) -> None:
        self.head = nn.Identity()

    @torch.jit.ignore
    def no_weight_decay(self) -> set[str]:
        """Return the names of the class tokens and of the position tables."""
        ends = ("cls_token", "relative_position_bias_table", "class_bias")
        return {name for name, _ in self.named_parameters() if name.endswith(ends)}

    def _pool(self, pool: Pool) -> None:
        if pool not in ("token", "avg") or (pool == "token" and not self.class_tokens[-1]):
            allowed = "token, avg" if self.class_tokens[-1] else "avg, for the last stage has no class token"
            raise ValueError(f"global_pool: {pool!r} (allowed: {allowed})")
        self.global_pool = pool


def _check(depths: Sequence[int], **given: Sequence[int]) -> None:
    for name, numbers in {"depths": depths, **given}.items():
        if len(numbers) != len(depths) or not numbers or min(numbers) < 1:
            raise ValueError(
                f"{name}: {list(numbers)} (allowed: a number >= 1 for each of {len(depths)} stages)"
            )


def _check_widths(widths: Sequence[int], num_heads: Sequence[int]) -> None:
    for stage, (width, heads) in enumerate(zip(widths, num_heads)):
        if width < 1 or width % heads:
            raise ValueError(
                f"num_heads: {heads} at width {width}, stage {stage} (allowed: a divisor of the width)"
            )
