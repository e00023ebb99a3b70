r"""Spectral initialisation: which layers are initialised with Lipschitz constant 1 (qi2023, equation 5 and section 4.2.3).

=============  ==========================================================================================================
case           layer
=============  ==========================================================================================================
linear         C to 4 C
patches        convolution of 3 to C channels, kernel 4, stride 4: patch embedding
merging        C to 2 C, kernel 2, stride 2
point_wise     C to C, kernel 1
depth_wise     C groups, kernel 7, padding 3
dense          C to C, kernel 3, padding 1
equal          depth-wise, one channel, kernels 3 and 7 with equal entries: the worst case, factor k on a large image
=============  ==========================================================================================================

With stride 1 a pixel is in at most :math:`k_h k_w` windows, so the norm of the convolution is at most
:math:`\sqrt{k_h k_w}` times the largest singular value of its flattened kernel.

=============  ==========================================================================================================
column         meaning
=============  ==========================================================================================================
start          flattened | operator: the norm by which the weights were divided (case equal: flattened)
channels ...   C, kernel, size of the image
flattened      largest singular value of the weights as a matrix (outputs, rest)
norm           norm of the layer as a map of images, including borders
limit          :math:`\sqrt{k_h k_w}` times flattened; flattened itself if windows do not overlap
holds          norm <= limit; and norm = 1 for start operator (to 0.2 %) or if windows do not overlap (to 0.01 %)
printed_holds  norm <= 1 (to 0.2 %)
=============  ==========================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from relearn.maths.norms import spectral_norm
from relearn.maths.operator_norm import flattened_is_exact, operator_norm

COLUMNS = (
    *("case", "start", "channels", "kernel", "size"),
    *("flattened", "norm", "limit", "holds", "printed_holds"),
)
STARTS = ("flattened", "operator")
EXACT, SEARCHED = 1e-4, 2e-3  # relative errors of the initialisation, and of the norm of a large convolution
Start = Callable[[nn.Module, int, Tensor | None], object]


def cases(start: Start, *, channels: Sequence[int], size: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return one row (:data:`COLUMNS`) for every layer, number of channels and initialisation.

    Args:
        start: ``start(layer, seed, image)`` draws weights and divides them by the layer's norm as a map of images (1, C,
            size, size) or, if ``image`` is None, by the norm of the flattened weights.
        size: side length of the images, at least 8.

    Raises:
        ValueError: a size below 8.
    """
    if size < 8:
        raise ValueError(f"size: {size} (allowed: at least 8)")
    rows = []
    for count in channels:
        for name, layer in _layers(count).items():
            for kind in STARTS:
                if kind == "operator" and flattened_is_exact(layer):
                    continue
                image = torch.zeros(1, count, size, size, dtype=torch.float64) if kind == "operator" else None
                start(layer.double(), seed, image)
                rows.append(_row(name, kind, count, size, layer))
    for kernel in (3, 7):
        layer = nn.Conv2d(1, 1, kernel, padding=kernel // 2)
        nn.init.constant_(layer.weight, 1 / kernel)
        rows.append(_row("equal", "flattened", 1, size, layer))
    return rows


def _layers(channels: int) -> dict[str, nn.Linear | nn.Conv2d]:
    return {
        "linear": nn.Linear(channels, 4 * channels),
        "patches": nn.Conv2d(3, channels, 4, stride=4),
        "merging": nn.Conv2d(channels, 2 * channels, 2, stride=2),
        "point_wise": nn.Conv2d(channels, channels, 1),
        "depth_wise": nn.Conv2d(channels, channels, 7, padding=3, groups=channels),
        "dense": nn.Conv2d(channels, channels, 3, padding=1),
    }


def _row(name: str, kind: str, channels: int, size: int, layer: nn.Linear | nn.Conv2d) -> dict[str, Any]:
    layer.double()
    with torch.no_grad():
        flattened = float(spectral_norm(layer.weight.flatten(1)))
        norm = float(operator_norm(layer, size))
    exact = flattened_is_exact(layer)
    kernel = 1 if isinstance(layer, nn.Linear) else layer.kernel_size[0]
    limit = flattened if exact else kernel * flattened
    one = abs(norm - 1) <= (EXACT if exact else SEARCHED)
    row = {"case": name, "start": kind, "channels": channels, "kernel": kernel, "size": size}
    row |= {"flattened": flattened, "norm": norm, "limit": limit}
    row["holds"] = norm <= limit * (1 + 1e-9) and (one or not (exact or kind == "operator"))
    row["printed_holds"] = norm <= 1 + SEARCHED
    return {column: row[column] for column in COLUMNS}
