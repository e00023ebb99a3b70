"""Vision networks as files; see :mod:`relearn.models.described_files`."""

from __future__ import annotations

from pathlib import Path

import torch

from relearn.models import described_files
from relearn.models.vision import create
from relearn.models.vision_classifier import VisionClassifier

HEADER = "vision_network"


def save(net: VisionClassifier, path: Path) -> None:
    """Write the network's state and its description, the keyword arguments of :func:`relearn.models.vision.create`."""
    described_files.save(net, path, header=HEADER, description=net.description)


def load(path: Path, device: str | torch.device = "cpu") -> VisionClassifier:
    """The network of a file written by :func:`save`, in eval mode on ``device``.

    Raises:
        ValueError: see :func:`relearn.models.described_files.load`, and what :func:`relearn.models.vision.create` refuses.
    """
    return described_files.load(path, header=HEADER, build=create, kind="a vision network", device=device)
