"""Character models as files; see :mod:`relearn.models.described_files`."""

from __future__ import annotations

from pathlib import Path

import torch

from relearn.models import described_files
from relearn.models.character_lm import CharacterLSTM, CharacterTransformer, create

HEADER = "character_model"


def save(net: CharacterTransformer | CharacterLSTM, path: Path) -> None:
    """Write the network's state and its description, the keyword arguments of :func:`relearn.models.character_lm.create`."""
    described_files.save(net, path, header=HEADER, description=net.description)


def load(path: Path, device: str | torch.device = "cpu") -> CharacterTransformer | CharacterLSTM:
    """The network of a file written by :func:`save`, in eval mode on ``device``.

    Raises:
        ValueError: see :func:`relearn.models.described_files.load`.
    """
    return described_files.load(path, header=HEADER, build=create, kind="a character model", device=device)
