"""The timm components used by our vision Transformers; they can also be imported with a CPU-only torch.

Importing this file imports timm, which takes longer than importing torch; files that need it are imported only when one of
their networks is built.
"""

from relearn import torchvision_schema

torchvision_schema.declare()

from timm.layers import (  # noqa: E402
    Attention,
    ClassifierHead,
    DropPath,
    Mlp,
    PatchEmbed,
    calculate_drop_path_rates,
    resample_abs_pos_embed,
    trunc_normal_,
)
from timm.models import checkpoint  # noqa: E402
from timm.models._features import feature_take_indices  # noqa: E402
from timm.models.cait import LayerScaleBlockClassAttn  # noqa: E402
from timm.models.swin_transformer import (  # noqa: E402
    PatchMerging,
    get_relative_position_index,
    window_partition,
    window_reverse,
)

__all__ = [
    "Attention",
    "ClassifierHead",
    "DropPath",
    "LayerScaleBlockClassAttn",
    "Mlp",
    "PatchEmbed",
    "PatchMerging",
    "calculate_drop_path_rates",
    "checkpoint",
    "feature_take_indices",
    "get_relative_position_index",
    "resample_abs_pos_embed",
    "trunc_normal_",
    "window_partition",
    "window_reverse",
]
