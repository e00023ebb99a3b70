"""RoBERTa networks, converted or not, as files of this package; see :mod:`relearn.models.described_files`.

For other programs there is ``save_pretrained``, and :func:`relearn.models.long_short_roberta.load`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from relearn.models import described_files
from relearn.models.long_short_roberta import build

HEADER = "roberta"
LEFT_OUT = ("_name_or_path", "transformers_version")  # where and by what it was made


def save(model: Any, path: Path) -> None:
    """Write the model's state and its description, the arguments of :func:`relearn.models.long_short_roberta.build`.

    Raises:
        ValueError: a model with tied weights, as one with a head of masked language modelling.
    """
    if model.config.tie_word_embeddings and model.get_output_embeddings() is not None:
        raise ValueError(
            f"model: {type(model).__name__} has tied weights (allowed: one without; save_pretrained writes it)"
        )
    config = {key: value for key, value in model.config.to_dict().items() if key not in LEFT_OUT}
    said = {"architecture": type(model).__name__, "config": config}
    described_files.save(model, path, header=HEADER, description=said)


def load(path: Path, device: str | torch.device = "cpu") -> Any:
    """The model of a file written by :func:`save`, in eval mode on ``device``.

    Raises:
        ValueError: see :func:`relearn.models.described_files.load`.
        ModuleNotFoundError: without ``transformers``.
    """
    return described_files.load(path, header=HEADER, build=build, kind="a RoBERTa network", device=device)
