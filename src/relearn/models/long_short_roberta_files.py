"""Files of RoBERTa networks, converted or not; see :mod:`relearn.models.files`.

To exchange models with other programs, use ``save_pretrained`` and :func:`relearn.models.long_short_roberta.load`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from relearn.models.files import ModelFile
from relearn.models.long_short_roberta import build

FILE = ModelFile("roberta", "a RoBERTa network", build)
LEFT_OUT = ("_name_or_path", "transformers_version")  # fields that describe the model's origin


def save(model: Any, path: Path) -> None:
    """Write the model's state and its description, the arguments of :func:`relearn.models.long_short_roberta.build`.

    Raises:
        ValueError: the model has tied weights, as with a masked language modelling head.
    """
    if model.config.tie_word_embeddings and model.get_output_embeddings() is not None:
        raise ValueError(
            f"model: {type(model).__name__} has tied weights (allowed: untied weights; save_pretrained can write it)"
        )
    config = {key: value for key, value in model.config.to_dict().items() if key not in LEFT_OUT}
    description = {"architecture": type(model).__name__, "config": config}
    FILE.save(model, path, description)


def load(path: Path, device: str | torch.device = "cpu") -> Any:
    """Load the model of a file written by :func:`save`, in eval mode on ``device``.

    Raises:
        ValueError: see :meth:`relearn.models.files.ModelFile.load`.
        ModuleNotFoundError: without ``transformers``.
    """
    return FILE.load(path, device)
