"""Register the vision Transformers of this package with ``timm.create_model``.

    import relearn.models.timm_names
    import timm

    timm.create_model("lipsformer_swin_tiny", img_size=32, num_classes=10)

Importing this file, before or after timm, imports neither timm nor torch. The names are registered when timm is imported (at once if it
already is), and the files of networks are imported when one is built. The package's ``__init__`` does not import this file; otherwise
it would be part of the code version of every run with a network.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

SWIN = "relearn.models.lipsformer:LipsFormer"
CSWIN = "relearn.models.cswin:CSwin"
RESIDUAL = "relearn.models.residual_vit:ResidualViT"
CVT = "relearn.models.cvt:CvT"
VIL = "relearn.models.vil:ViL"
WINDOW = {SWIN: "window", CSWIN: "split", CVT: "window", VIL: "window"}
"""The argument that timm calls ``window_size``."""
_LRFORMER: dict[str, Any] = dict(
    embed_dim=384, num_heads=6, residual="layer_scale", epsilon=1e-4, attention="lrsa", head="gp"
)
_CROSS: dict[str, Any] = dict(windows="cross", window=(1, 2, 7, 7))
_TINY: dict[str, Any] = dict(embed_dim=64, depths=(1, 2, 21, 1), num_heads=(2, 4, 8, 16))
_SMALL: dict[str, Any] = dict(embed_dim=64, depths=(2, 4, 32, 2), num_heads=(2, 4, 8, 16))
_BASE: dict[str, Any] = dict(embed_dim=96, depths=(2, 4, 32, 2), num_heads=(4, 8, 16, 32))


def _swin(embed_dim: int, heads: int, third: int = 18) -> tuple[str, dict[str, Any]]:
    num_heads = tuple(heads * 2**stage for stage in range(4))
    return SWIN, dict(embed_dim=embed_dim, depths=(2, 2, third, 2), num_heads=num_heads)


def _cvt(*depths: int, **given: Any) -> tuple[str, dict[str, Any]]:
    return CVT, dict(embed_dim=64, depths=depths, num_heads=(1, 3, 6)) | given


def _vil(*depths: int, **given: Any) -> tuple[str, dict[str, Any]]:
    return VIL, dict(embed_dim=96, depths=depths, num_heads=(3, 3, 6, 12)) | given


_LONG_SHORT: dict[str, Any] = dict(attention="long_short")
_CVT_LS: dict[str, Any] = _LONG_SHORT | dict(window=4, rank=8, conv_bias=True)
NAMES: dict[str, tuple[str, dict[str, Any]]] = {
    "lipsformer_swin_tiny": _swin(96, 3, 6),
    "lipsformer_swin_small": _swin(96, 3),
    "lipsformer_swin_base": _swin(128, 4),
    "lipsformer_swin_large": _swin(192, 6),
    "lipsformer_swin_large_plus_plus": _swin(288, 6),
    "lipsformer_cswin_tiny": (SWIN, _CROSS | _TINY),
    "lipsformer_cswin_small": (SWIN, _CROSS | _SMALL),
    "lipsformer_cswin_base": (SWIN, _CROSS | _BASE),
    "cswin_tiny": (CSWIN, _TINY),
    "cswin_small": (CSWIN, _SMALL),
    "cswin_base": (CSWIN, _BASE),
    "residual_deit_tiny": (RESIDUAL, dict(embed_dim=192, num_heads=3)),
    "residual_deit_small": (RESIDUAL, dict(embed_dim=384, num_heads=6)),
    "residual_deit_base": (RESIDUAL, dict(embed_dim=768, num_heads=12)),
    "lrformer_depth6": (RESIDUAL, _LRFORMER | dict(depth=6)),
    "lrformer_depth12": (RESIDUAL, _LRFORMER | dict(depth=12)),
    "cvt_13": _cvt(1, 2, 10),
    "cvt_21": _cvt(1, 4, 16),
    "cvt_ls_13": _cvt(1, 2, 10, **_CVT_LS),
    "cvt_ls_17": _cvt(4, 3, 10, embed_dim=48, ratios=(1, 4, 8), strides=(1, 4), **_CVT_LS),
    "cvt_ls_21": _cvt(1, 4, 16, **_CVT_LS),
    "cvt_ls_21s": _cvt(1, 6, 14, embed_dim=48, ratios=(1, 3, 8), strides=(1, 4), **_CVT_LS),
    "vil_small": _vil(1, 2, 8, 1),
    "vil_medium": _vil(1, 4, 16, 1),
    "vil_base": _vil(1, 8, 24, 1),
    "vil_ls_medium": _vil(1, 4, 16, 1, **_LONG_SHORT),
    "vil_ls_base": _vil(1, 8, 24, 1, **_LONG_SHORT),
}
"""Name → its class and the arguments of the published size, all of which can be overridden.

Sizes: qi2023, tables 4 and 5; those of DeiT (Touvron et al. 2021), for any residual scheme; LRFormer's depths (ye2023,
table 1) on DeiT III small, whose released code starts LayerScale at 1e-4; zhu2022, table 5.8 (for CvT*-LS windows, ranks and
more were found by search, not printed: relearn.measures.vision_counts).
"""


def register() -> None:
    """Register :data:`NAMES` with timm, now or when timm is imported; a second call does nothing."""
    if "timm" in sys.modules:
        _enter()
    elif not any(isinstance(finder, _WhenTimmComes) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WhenTimmComes())


class _WhenTimmComes(MetaPathFinder):
    """Import hook that runs code before timm's import (because timm imports torchvision) and after it, and then removes itself.

    A mere search for timm, which transformers performs to see whether it is installed, does not remove the hook.
    """

    asking = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "timm" or self.asking:
            return None
        self.asking = True
        try:
            spec = find_spec(fullname)
        finally:
            self.asking = False
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_enter(module: ModuleType) -> None:
                import_module("relearn.torchvision_schema").declare()
                run(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                _enter()

            spec.loader.exec_module = run_and_enter  # type: ignore[method-assign]
        return spec


def _enter() -> None:
    registry = import_module("timm.models")
    if all(registry.is_model(name) for name in NAMES):
        return
    cfg = dict(
        num_classes=1000,
        input_size=(3, 224, 224),
        crop_pct=0.9,
        interpolation="bicubic",
        fixed_input_size=True,
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
        first_conv="patch_embed.proj",
        classifier="head.fc",
    )
    tokens = dict(first_conv="stages.0.embed.conv", classifier="head")
    other = {
        CSWIN: dict(first_conv="patch_embed.conv"),
        RESIDUAL: dict(classifier="head"),
        CVT: tokens,
        VIL: tokens,
    }
    # timm looks for default_cfgs in the module that defines the entry points
    globals()["default_cfgs"] = registry.generate_default_cfgs(
        {name: cfg | other.get(place, {}) for name, (place, _) in NAMES.items()}
    )
    for name in NAMES:
        registry.register_model(_entry(name))


def _entry(name: str) -> Callable[..., Any]:
    place, size = NAMES[name]

    def build(pretrained: bool = False, **given: Any) -> Any:
        module, _, cls = place.partition(":")
        arguments = size | given
        window = WINDOW.get(place)
        if window is not None and "window_size" in arguments:
            if window in given:
                raise ValueError(
                    f"window_size, {window}: both given (allowed: one; they are the same argument)"
                )
            arguments[window] = arguments.pop("window_size")
        # timm's choice for feature extraction: module outputs for networks with stages, forward_intermediates for those with other tokens
        stages = len(arguments["depths"]) if "depths" in arguments else None
        usual = min(3, arguments.get("depth", 12)) if stages is None else tuple(range(stages))
        kind = dict(flatten_sequential=True) if place in (SWIN, CSWIN) else dict(feature_cls="getter")
        arguments["feature_cfg"] = dict(out_indices=arguments.pop("out_indices", usual)) | kind
        return import_module("timm.models").build_model_with_cfg(
            getattr(import_module(module), cls), name, pretrained, **arguments
        )

    build.__name__ = build.__qualname__ = name
    return build


register()
