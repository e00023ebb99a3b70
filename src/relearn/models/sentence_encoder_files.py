"""Files of sentence encoders and classifiers with their tokenizers; see :mod:`relearn.models.files`.

A tokenizer is stored as its JSON text, because the code that parses it is not part of a model;
``relearn.studies.freelb.steps.sentence_files`` returns the model and the tokenizer ready to use. To exchange models with other programs,
use ``net.save_pretrained``.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from relearn.models.files import ModelFile
from relearn.models.sentence_encoder import SentenceClassifier, classifier, config_dict

FILE: ModelFile[nn.Module] = ModelFile("sentence_model", "a sentence model", classifier)
ENCODER = "encoder"  # the kind of a file that has no head


def save(model: SentenceClassifier, path: Path, tokenizer: str) -> None:
    """Write the model, its description and its tokenizer's JSON."""
    description = {"config": config_dict(model.net.config), "kind": model.kind, "classes": model.classes}
    FILE.save(model.net, path, {**description, "tokenizer": tokenizer})


def save_encoder(net: Any, path: Path, tokenizer: str) -> None:
    """Write only the encoder of a ``transformers`` model, with any head."""
    description = {"config": config_dict(net.config), "kind": ENCODER, "classes": 0, "tokenizer": tokenizer}
    FILE.save(net.base_model, path, description)


def load(path: Path, device: str | torch.device = "cpu") -> tuple[SentenceClassifier, str]:
    """Load the model of a file written by :func:`save`, in eval mode on ``device``, and its tokenizer's JSON.

    Raises:
        ValueError: see :meth:`relearn.models.files.ModelFile.load`; the file contains an encoder without a head.
        ModuleNotFoundError: without ``transformers``.
    """
    found: dict[str, Any] = {}

    def build(config: dict[str, Any], kind: str, classes: int, tokenizer: str) -> nn.Module:
        found.update(kind=kind, tokenizer=tokenizer)
        net: nn.Module = classifier(config, kind, classes).net
        return net

    net = replace(FILE, build=build).load(path, device)
    return SentenceClassifier(net, found["kind"]).eval(), found["tokenizer"]


def load_encoder(path: Path) -> tuple[dict[str, Any], dict[str, Tensor], dict[str, Any]]:
    """Read the parts of a file of :func:`save` or :func:`save_encoder` that another model can reuse, on the CPU.

    Returns:
        The configuration; the encoder's state, names as in ``net.base_model``; and ``{kind, classes, tokenizer, head}``, where head
        is the state of the layers after the encoder, names as in ``net``.

    Raises:
        ValueError: the file was not written by either function.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            if FILE.header not in metadata:
                raise ValueError(
                    f"{path}: no description of a sentence model in it (allowed: files written by relearn)"
                )
            description = json.loads(metadata[FILE.header])
            state = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path}: not the weights of a sentence model: {error}") from None
    config = description.pop("config")
    if description["kind"] == ENCODER:
        return config, state, {**description, "head": {}}
    prefix = config["model_type"] + "."
    encoder = {name.removeprefix(prefix): one for name, one in state.items() if name.startswith(prefix)}
    head = {name: one for name, one in state.items() if not name.startswith(prefix)}
    return config, encoder, {**description, "head": head}
