"""A vision Transformer of any depth with a choice of residual scheme, attention, class token and head."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from relearn.layers.lrsa import LRSA
from relearn.layers.random_feature_gp import RandomFeatureGP
from relearn.layers.scalar import Shift
from relearn.models.bounded import Bounded
from relearn.models.intermediates import Intermediates
from relearn.models.pyramid import image_sides
from relearn.models.residual_block import ResidualBlock
from relearn.models.residual_schemes import EPS, Joint
from relearn.models.residual_starts import STD, deit, start, start_attention
from relearn.models.timm_parts import (
    Attention,
    LayerScaleBlockClassAttn,
    Mlp,
    PatchEmbed,
    calculate_drop_path_rates,
    resample_abs_pos_embed,
)

CHOICES: dict[str, tuple[str, ...]] = {
    "attention": ("dot_product", "lrsa"),
    "drop_path": ("uniform", "linear"),
    "class_token": ("from_start", "class_attention", "mean"),
    "head": ("dense", "gp"),
    "global_pool": ("token", "avg", ""),
}
GP = ("features", "length_scale", "ridge")


class ResidualViT(Bounded, Intermediates):
    r"""ViT, DeiT, CaiT's body with class attention, and LRFormer in one network; the residual scheme is an argument.

    touvron2021 (sections 2 and 3, as summarised in our notes) compares the schemes:

    ============  ============  ===============  =================  ==================================================
    ``residual``  LayerNorm     a (per branch)   initial a          initial branch; initialisation of the maps
    ============  ============  ===============  =================  ==================================================
    pre_norm      before        1                                   unchanged; DeiT
    post_norm     after x + f   1                                   unchanged; DeiT
    layer_scale   before        one per channel  ``epsilon``        nearly 0; DeiT
    rezero        none*         one number       ``epsilon``, or 0  0 (a = 0), nearly 0 (a = ε); Xavier
    skip_init     none*         one number       0                  0; He
    fixup         none*         one number       1                  0, by the last map; Xavier, scaled; shifts
    t_fixup       none*         1                                   small; Xavier, scaled
    ============  ============  ===============  =================  ==================================================

    \* with ``norm=True`` LayerNorm precedes the branch, as in touvron2021, where these schemes did not converge without it (and
    without warm-up). Otherwise there is no substitute for the norm; the maps of attention and feed-forward have biases. The
    initialisations are documented in :mod:`relearn.models.residual_starts`. As functions, ``rezero`` at 0 and ``skip_init`` are the same
    scheme. ReZero's released Transformer shares one number between both branches of a block; touvron2021 and this class use one each.
    Fixup's shifts are scalars, initially 0, before every linear map and activation of a branch and before the last layer.
    The norm after the last block follows the scheme: none for schemes without norms, no further norm for ``post_norm``, and
    LayerNorm with class attention.

    ===================  ==========================================================================================
    ``class_token``
    ===================  ==========================================================================================
    from_start           a token in addition to the patches in every block, with a position (ViT, DeiT)
    class_attention      added after the blocks, in ``class_layers`` of CaiT's layers, which change no other token; they have
                         LayerNorm, LayerScale (initialised to ``class_epsilon``), and no drop path
    mean                 no class token: the mean of the patches
    ===================  ==========================================================================================

    With the same weights, ``pre_norm`` with ``from_start`` equals timm's ``VisionTransformer``, and ``layer_scale`` with
    ``class_attention`` equals timm's ``Cait`` except for its talking heads (two maps over the heads, before and after the
    softmax). timm's parts are used wherever they are identical.

    LRFormer (ye2023, whose text specifies only the attention, the head, and depths 6 and 12) is ``attention="lrsa"``, ``head="gp"``
    on the body of DeiT III (LayerScale); its training recipe is in the paper's table 1.

    Args:
        img_size: side length or (H, W) of the images, multiples of ``patch_size``.
        patch_size: side length of a token.
        in_chans, num_classes: as in timm; with 0 classes there is no last layer.
        embed_dim: width D.
        depth: number of blocks N, at least 1.
        num_heads: a divisor of D.
        mlp_ratio: width of the hidden layer divided by D.
        residual: see above.
        epsilon: initial a, for ``layer_scale`` (None: 0.1 up to 18 blocks, 1e-5 up to 24, 1e-6 beyond) and ``rezero``.
        norm: see above; None: as in the table.
        attention: "dot_product" (timm's), or "lrsa" (:class:`~relearn.layers.lrsa.LRSA`, maps without biases).
        lrsa_alpha: LRSA's α; None: √(number of tokens), for which the size of its scores does not depend on that number.
        drop_rate: dropout before the last layer, as in timm.
        drop_path_rate: drop probability of the last block.
        drop_path: "uniform": the same probability in all blocks (CaiT); "linear": growing from 0 in the first one (DeiT).
        class_token, class_layers: see above.
        class_epsilon: initial LayerScale of the class-attention layers; None: as in the body, or by CaiT's rule.
        final_norm: whether a norm follows the last block where the scheme has one, as in timm.
        global_pool: input of the last layer, as in timm: "token" (the class token), "avg" (the mean of the patches after the last
            norm, timm's ``fc_norm=False``), "" (every token). None: the class token if there is one, otherwise the mean.
        dynamic_img_size: accept images of any size that is a multiple of the patch; the position table is resampled at every call.
            LRSA's α stays that of ``img_size``.
        head: "dense", or "gp": :class:`~relearn.layers.random_feature_gp.RandomFeatureGP`, whose variance is available
            after its ``fit``.
        gp: its ``features``, ``length_scale`` and ``ridge``; the default length scale is √D, for which two normalised
            uncorrelated tokens have kernel value e^{-1}.
        maps: initialisation of the body's maps. "scheme": that of the residual scheme's authors; "deit": as in DeiT, for
            all but ``fixup`` and ``t_fixup``, which specify it; "xavier": as in ``rezero``, for the schemes with DeiT's own.
        attention_maps: initialisation of the attention's maps for either kind of attention: "xavier" or "deit"; None: Xavier for
            LRSA, and as given by ``maps`` for the dot product.
        start_std: standard deviation of maps initialised as in DeiT. 0.02 is for 192 to 768 channels; a map of D channels has the
            same gain with 0.02 √(384 / D).
        position_std: standard deviation of the position table (T-Fixup has its own). 0.02 assumes hundreds of epochs to learn the
            positions of the patches; shorter training needs a larger value.

    Raises:
        ValueError: an unknown option, a size that does not fit, a number out of range, an argument that the chosen option does not
            support; in a forward pass, images of another size.
    """

    def __init__(
        self,
        *,
        img_size: int | Sequence[int] = 224,
        patch_size: int = 16,
        in_chans: int = 3,
        num_classes: int = 1000,
        embed_dim: int = 192,
        depth: int = 12,
        num_heads: int = 3,
        mlp_ratio: float = 4.0,
        residual: str = "pre_norm",
        epsilon: float | None = None,
        norm: bool | None = None,
        attention: Literal["dot_product", "lrsa"] = "dot_product",
        lrsa_alpha: float | None = None,
        drop_rate: float = 0.0,
        drop_path_rate: float = 0.0,
        drop_path: Literal["uniform", "linear"] = "uniform",
        class_token: Literal["from_start", "class_attention", "mean"] = "from_start",
        class_layers: int = 2,
        class_epsilon: float | None = None,
        final_norm: bool = True,
        global_pool: str | None = None,
        dynamic_img_size: bool = False,
        head: Literal["dense", "gp"] = "dense",
        gp: Mapping[str, Any] | None = None,
        maps: Literal["scheme", "deit", "xavier"] = "scheme",
        attention_maps: Literal["xavier", "deit"] | None = None,
        start_std: float = STD,
        position_std: float = STD,
    ) -> None:
        super().__init__()
        words: dict[str, str] = dict(
            attention=attention, drop_path=drop_path, class_token=class_token, head=head
        )
        for name, word in words.items():
            if word not in CHOICES[name]:
                raise ValueError(f"{name}: {word!r} (allowed: {', '.join(CHOICES[name])})")
        shares = dict(drop_rate=drop_rate, drop_path_rate=drop_path_rate)
        _check(embed_dim, num_heads, mlp_ratio, shares, depth=depth, class_layers=class_layers)
        allowed = ["scheme"] if "fixup" in residual else ["scheme", "deit"]
        allowed += ["xavier"] if residual in ("pre_norm", "post_norm", "layer_scale") else []
        if maps not in allowed:
            raise ValueError(f"maps: {maps!r} with residual {residual!r} (allowed: {', '.join(allowed)})")
        if attention_maps not in (None, "xavier", "deit"):
            raise ValueError(f"attention_maps: {attention_maps!r} (allowed: None, xavier, deit)")
        for name, spread in dict(start_std=start_std, position_std=position_std).items():
            if not 0 < spread < math.inf:
                raise ValueError(f"{name}: {spread} (allowed: a positive number)")
        takes = "0 or a positive number" if class_token == "class_attention" else "None"
        if class_epsilon is not None and not (takes != "None" and 0 <= class_epsilon < math.inf):
            raise ValueError(f"class_epsilon: {class_epsilon} with {class_token!r} (allowed: {takes})")
        if lrsa_alpha is not None and attention != "lrsa":
            raise ValueError(f"lrsa_alpha: {lrsa_alpha} with attention {attention!r} (allowed: None)")
        if attention == "lrsa" and residual == "fixup":
            raise ValueError(
                "attention: 'lrsa' with residual 'fixup' (allowed: dot_product; LRSA has no shift)"
            )
        joint = Joint(residual, embed_dim, depth, epsilon=epsilon, norm=norm)
        self.img_size = image_sides(img_size, patch_size)
        self.in_chans, self.num_classes = in_chans, num_classes
        self.num_features = self.head_hidden_size = self.embed_dim = embed_dim
        self.residual, self.class_token = residual, class_token
        self.head_kind, self.gp = head, _gp_settings(gp, head, embed_dim)

        self.dynamic_img_size, self.num_prefix_tokens = dynamic_img_size, int(class_token != "mean")
        self._pool(global_pool)

        strict = not dynamic_img_size
        self.patch_embed = PatchEmbed(self.img_size, patch_size, in_chans, embed_dim, strict_img_size=strict)
        self.feature_info = [
            {"num_chs": embed_dim, "reduction": patch_size, "module": f"blocks.{index}"}
            for index in range(depth)
        ]
        tokens = self.patch_embed.num_patches + (class_token == "from_start")
        self.pos_embed = nn.Parameter(torch.empty(1, tokens, embed_dim))
        self.cls_token = None if class_token == "mean" else nn.Parameter(torch.empty(1, 1, embed_dim))
        alpha = math.sqrt(tokens) if lrsa_alpha is None else lrsa_alpha

        def mixing() -> nn.Module:
            if attention == "lrsa":
                return LRSA(embed_dim, num_heads, alpha=alpha)
            return Attention(embed_dim, num_heads, qkv_bias=True)

        linear: list[Any] = calculate_drop_path_rates(drop_path_rate, depth)
        rates = linear if drop_path == "linear" else [drop_path_rate] * depth
        hidden = int(embed_dim * mlp_ratio)
        self.blocks = nn.Sequential(
            *(ResidualBlock(mixing(), Mlp(embed_dim, hidden), joint, float(rate)) for rate in rates)
        )
        if class_token == "class_attention":
            norm_layer: Any = partial(nn.LayerNorm, eps=EPS)
            self.class_blocks = nn.ModuleList(
                LayerScaleBlockClassAttn(
                    embed_dim,
                    num_heads,
                    mlp_ratio,
                    qkv_bias=True,
                    norm_layer=norm_layer,
                    init_values=joint.channel_start if class_epsilon is None else class_epsilon,
                )
                for _ in range(class_layers)
            )
        last_norm = joint.norm == "before" or class_token == "class_attention"
        self.norm = nn.LayerNorm(embed_dim, eps=EPS) if last_norm and final_norm else nn.Identity()
        self.shift = Shift() if residual == "fixup" else nn.Identity()
        self.head_drop = nn.Dropout(drop_rate)
        self.head = self._last_layer(num_classes)
        nn.init.trunc_normal_(self.pos_embed, std=position_std)
        if self.cls_token is not None:
            nn.init.trunc_normal_(self.cls_token, std=STD)
        deit(self, start_std)
        if maps != "deit":
            start("rezero" if maps == "xavier" else residual, self)
        if attention_maps is not None:
            start_attention(self.blocks, attention_maps, start_std)

    def forward_features(self, x: Tensor) -> Tensor:
        """Return the tokens after the last norm, (B, N, D), class token first if there is one."""
        tokens = self.embed_images(x)
        for block in self.blocks:
            tokens = self.run(block, tokens)
        return self.last_tokens(tokens, False)

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Return the logits for the given tokens; with ``pre_logits``, the input of the last layer."""
        if self.global_pool:
            x = x[:, 0] if self.global_pool == "token" else x[:, self.num_prefix_tokens :].mean(1)
        x = self.head_drop(self.shift(x))
        return x if pre_logits else self.head(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(x))

    def get_classifier(self) -> nn.Module:
        return self.head

    def reset_classifier(self, num_classes: int, global_pool: str | None = None) -> None:
        """Replace the last layer by a newly initialised one of the same kind; with ``global_pool`` None the pooling is unchanged."""
        if global_pool is not None:
            self._pool(global_pool)
        self.num_classes = num_classes
        self.head = self._last_layer(num_classes).to(self.pos_embed.device, self.pos_embed.dtype)

    def set_input_size(
        self, img_size: int | Sequence[int] | None = None, patch_size: int | None = None
    ) -> None:
        """Switch to images or patches of another size; position table and patch map are resampled, as in timm.

        LRSA's α does not change.

        Raises:
            ValueError: an image size that is not a multiple of the patch.
        """
        patch = self.patch_embed.patch_size[0] if patch_size is None else patch_size
        sides = image_sides(self.img_size if img_size is None else img_size, patch)
        before = self.patch_embed.grid_size
        self.patch_embed.set_input_size(img_size=sides, patch_size=patch)
        self.img_size = sides
        for info in self.feature_info:
            info["reduction"] = patch
        if self.patch_embed.grid_size != before:
            table = self._positions(self.patch_embed.grid_size, before).detach().clone()
            self.pos_embed = nn.Parameter(table, requires_grad=self.pos_embed.requires_grad)

    @torch.jit.ignore
    def group_matcher(self, coarse: bool = False) -> Any:
        """Return a function by which timm assigns parameters to layers, e.g. for layer-wise learning-rate decay."""
        depth = len(self.blocks)

        def number(name: str) -> int:
            first, _, rest = name.partition(".")
            if first in ("blocks", "class_blocks"):
                return 1 + int(rest.partition(".")[0]) + (depth if first == "class_blocks" else 0)
            return 0 if first in ("cls_token", "pos_embed", "patch_embed") else 99999

        return number

    def layer_list(self) -> Sequence[nn.Module]:
        return list(self.blocks)

    def embed_images(self, x: Tensor) -> Tensor:
        wanted = (self.in_chans, *self.img_size)
        grid = self.patch_embed.dynamic_feat_size((x.shape[-2], x.shape[-1]))
        if self.dynamic_img_size and x.dim() == 4:
            rows, columns = self.patch_embed.patch_size
            wanted = (self.in_chans, grid[0] * rows, grid[1] * columns)
        if tuple(x.shape[1:]) != wanted or not min(grid):
            allowed = f"{('B', *wanted)}" if not self.dynamic_img_size else "multiples of the patch"
            raise ValueError(f"x: shape {tuple(x.shape)} (allowed: {allowed})")
        tokens = self.patch_embed(x)
        if self.cls_token is not None and self.class_token == "from_start":
            tokens = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), tokens], 1)
        return tokens + (
            self._positions(grid, self.patch_embed.grid_size) if self.dynamic_img_size else self.pos_embed
        )

    def run_layer(self, layer: nn.Module, state: Tensor) -> Tensor:
        return self.run(layer, state)

    def to_map(self, state: Tensor, x: Tensor, norm: bool) -> Tensor:
        tokens = self.norm(state) if norm else state
        patches = tokens[:, 1:] if self.class_token == "from_start" else tokens
        grid = self.patch_embed.dynamic_feat_size((x.shape[-2], x.shape[-1]))
        return patches.unflatten(1, grid).permute(0, 3, 1, 2).contiguous()

    def last_tokens(self, state: Tensor, unfinished: bool) -> Tensor:
        if self.cls_token is not None and self.class_token == "class_attention":
            token = self.cls_token.expand(state.shape[0], -1, -1)
            for block in self.class_blocks:
                token = block(state, token)
            state = torch.cat([token, state], 1)
        return self.norm(state)

    def keep_layers(self, count: int) -> None:
        self.blocks = nn.Sequential(*list(self.blocks)[:count])

    def drop_head(self) -> None:
        self.reset_classifier(0, "")

    def one_width(self) -> bool:
        return True

    def _positions(self, grid: Any, before: Any) -> Tensor:
        first = int(self.class_token == "from_start")
        return resample_abs_pos_embed(
            self.pos_embed, new_size=list(grid), old_size=list(before), num_prefix_tokens=first
        )

    def _pool(self, pool: str | None) -> None:
        usual = "avg" if self.class_token == "mean" else "token"
        if pool is not None and (pool not in CHOICES["global_pool"] or (pool == "token" and usual == "avg")):
            allowed = [one for one in CHOICES["global_pool"] if one != "token" or usual == "token"]
            raise ValueError(f"global_pool: {pool!r} (allowed: {', '.join(map(repr, allowed))})")
        self.global_pool = usual if pool is None else pool

    @torch.jit.ignore
    def no_weight_decay(self) -> set[str]:
        """Return the names of the position table and the class token, as in timm; branch scales have fewer than two axes anyway."""
        return {"pos_embed"} | ({"cls_token"} if self.cls_token is not None else set())

    @property
    def last(self) -> Tensor | None:
        """The weight of the last linear layer, or None if there is none."""
        layer = self.head.out if isinstance(self.head, RandomFeatureGP) else self.head
        return layer.weight if isinstance(layer, nn.Linear) else None

    def _last_layer(self, classes: int) -> nn.Module:
        if not classes:
            return nn.Identity()
        if self.head_kind == "gp":
            return RandomFeatureGP(self.embed_dim, classes, **self.gp)
        return nn.Linear(self.embed_dim, classes)


def _check(dim: int, heads: int, mlp_ratio: float, shares: Mapping[str, float], **layers: int) -> None:
    for name, count in layers.items():
        if count < 1:
            raise ValueError(f"{name}: {count} (allowed: at least 1)")
    if heads < 1 or dim < 1 or dim % heads:
        raise ValueError(f"num_heads: {heads} of embed_dim {dim} (allowed: a divisor of it)")
    if int(dim * mlp_ratio) < 1:
        raise ValueError(f"mlp_ratio: {mlp_ratio} of embed_dim {dim} (allowed: a hidden layer of width >= 1)")
    for name, share in shares.items():
        if not 0 <= share < 1:
            raise ValueError(f"{name}: {share} (allowed: 0 <= p < 1)")


def _gp_settings(gp: Mapping[str, Any] | None, head: str, dim: int) -> dict[str, Any]:
    if gp is not None and head != "gp":
        raise ValueError(f"gp: {dict(gp)} with head {head!r} (allowed: None)")
    unknown = [name for name in gp or () if name not in GP]
    if unknown:
        raise ValueError(f"gp: {unknown[0]!r} (allowed: {', '.join(GP)})")
    return {"length_scale": math.sqrt(dim)} | dict(gp or {})
