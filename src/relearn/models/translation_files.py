"""Translation networks as files; see :mod:`relearn.models.described_files`."""

from __future__ import annotations

from pathlib import Path

import torch

from relearn.models import described_files
from relearn.models.post_ln_transformer import PostLNTransformer

HEADER = "translation_network"


def save(net: PostLNTransformer, path: Path) -> None:
    """Write the network's state and its description, the keyword arguments of :class:`PostLNTransformer`."""
    described_files.save(net, path, header=HEADER, description=net.description)


def load(path: Path, device: str | torch.device = "cpu") -> PostLNTransformer:
    """The network of a file written by :func:`save`, in eval mode on ``device``.

    Raises:
        ValueError: see :func:`relearn.models.described_files.load`.
    """
    return described_files.load(
        path, header=HEADER, build=PostLNTransformer, kind="a translation network", device=device
    )
