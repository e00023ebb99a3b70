"""In-distribution test images with strong corruptions, as out-of-distribution images.

Each of the first ``count`` test images is corrupted by one of the 15 common corruptions of ``relearn.data.corruptions`` at severity 5, the
highest: image i by corruption i mod 15. The content of an image does not change, so this tests whether a network detects low image quality,
not new classes.
"""

from __future__ import annotations

import numpy as np

from relearn.data.corruptions import NAMES, SYNTHESISED, corrupt
from relearn.data.outlier_images import Outliers, Wanted, fit

SEVERITY = 5


def corrupted(wanted: Wanted) -> Outliers:
    """See the module.

    Raises:
        ValueError: no in-distribution data, or fewer test images than asked for.
    """
    if wanted.prepared is None:
        raise ValueError("corrupted: no in-distribution images to corrupt (give prepared)")
    clean = wanted.prepared.test()[0].numpy()
    if wanted.count > len(clean):
        raise ValueError(f"corrupted: {wanted.count} images requested (allowed: at most {len(clean)})")
    images = np.empty_like(clean[: wanted.count])
    for place, name in enumerate(NAMES):
        mine = slice(place, wanted.count, len(NAMES))
        if len(images[mine]):
            images[mine] = corrupt(clean[: wanted.count][mine], name, SEVERITY, seed=wanted.seed)
    fitted, done = fit("corrupted", images, size=wanted.size, channels=wanted.channels)
    words = f"the first {wanted.count} test images, {len(NAMES)} common corruptions in turn at severity {SEVERITY}"
    return Outliers(fitted, f"{words} ({', '.join(SYNTHESISED)} synthesised){done}")
