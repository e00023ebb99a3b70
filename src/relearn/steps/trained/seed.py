"""Seeds shared by runs that have some of their labels in common, so that these runs can be paired."""

from __future__ import annotations

import zlib
from collections.abc import Mapping


def seed_of(labels: Mapping[str, str], seed: int, *names: str) -> int:
    """Return a seed computed from the labels ``names`` and the run's own seed.

    Raises:
        ValueError: the run has no such label.
    """
    for name in names:
        if name not in labels:
            raise ValueError(f"seed: found no label {name!r}, allowed: {', '.join(labels) or 'none'}")
    return zlib.crc32("/".join([*(labels[name] for name in names), str(seed)]).encode())
