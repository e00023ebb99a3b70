"""Adapter from a timm network to the interface of this package's classifiers: input normalisation, features, head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn.functional import interpolate

from relearn.models.classifier import OnPixels


class VisionClassifier(OnPixels):
    r"""Classifier of images with pixels in [0, 1], built around a timm network.

    .. math:: \phi(x) = \mathrm{pool}(\mathrm{trunk}((x - \mu) / \sigma)), \quad f(x) = \mathrm{head}(\phi(x))

    =======  ==============================  =====================  =======================
    symbol   meaning                         code                   shape
    =======  ==============================  =====================  =======================
    x        images, pixels in [0, 1]        ``x``                  (B, in_channels, H, W)
    μ, σ     normalisation, pixel units      ``mean``, ``std``      (1, in_channels, 1, 1)
    φ        input of the head               ``features(x)``        (B, D)
    head     linear or Gaussian-process      ``head``               of ``trunk``
    =======  ==============================  =====================  =======================

    Args:
        trunk: a module with timm's ``forward_features``, ``forward_head(…, pre_logits=True)`` and ``get_classifier``.
        in_channels: channels of the images.
        mean, std: one number per channel; None: 0 and 1.
        description: keyword arguments of :func:`relearn.models.vision.create` that build this network.
        resize: side in pixels to which images of another size are resized first (bicubic, clamped to [0, 1]); None: never.

    Raises:
        ValueError: mean or std of a wrong length, a std that is not positive, a network with several heads.
    """

    def __init__(
        self,
        trunk: nn.Module,
        *,
        in_channels: int,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        description: Mapping[str, Any] | None = None,
        resize: int | None = None,
    ) -> None:
        super().__init__(in_channels, mean, std)
        self.resize = resize
        self.trunk = trunk
        self.description = dict(description or {})
        if not isinstance(self.head, nn.Module) or isinstance(self.head, nn.ModuleList):
            raise ValueError(f"network {type(trunk).__name__}: several heads (allowed: one)")

    @property
    def head(self) -> nn.Module:
        """The last layer, (B, D) → (B, C), which belongs to the trunk."""
        return self.trunk.get_classifier()  # type: ignore[operator]

    def features(self, x: Tensor) -> Tensor:
        """Return the input of the head, (B, D).

        Raises:
            TypeError: the images are not floating point, so they cannot be in [0, 1].
            ValueError: a wrong number of channels (which would broadcast), or no batch axis.
        """
        self.check_images(x)
        if self.resize is not None and tuple(x.shape[2:]) != (self.resize, self.resize):
            side = (self.resize, self.resize)
            x = interpolate(x, side, mode="bicubic", align_corners=False, antialias=True).clamp(0, 1)
        trunk: Any = self.trunk
        return trunk.forward_head(trunk.forward_features((x - self.mean) / self.std), pre_logits=True)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (B, C)."""
        return self.head(self.features(x))

    def no_weight_decay(self) -> set[str]:
        """Return the names of the parameters that the trunk exempts from weight decay (position tables, class tokens, …)."""
        spared: set[str] = getattr(self.trunk, "no_weight_decay", set)()
        return {f"trunk.{name}" for name in spared}
