"""Encoders and classifiers of sentences as files of this package, their tokenizer with them; see :mod:`relearn.models.described_files`.

A tokenizer is text here, its JSON: what reads it is no part of a model. ``relearn.studies.freelb.steps.sentence_files`` gives both, ready to use. For
other programs there is ``net.save_pretrained``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from relearn.models import described_files
from relearn.models.sentence_encoder import SentenceClassifier, classifier, config_dict

HEADER = "sentence_model"
ENCODER = "encoder"  # the kind of a file without a head


def save(model: SentenceClassifier, path: Path, tokenizer: str) -> None:
    """Write the model, its description and its tokenizer's JSON."""
    said = {"config": config_dict(model.net.config), "kind": model.kind, "classes": model.classes}
    described_files.save(model.net, path, header=HEADER, description={**said, "tokenizer": tokenizer})


def save_encoder(net: Any, path: Path, tokenizer: str) -> None:
    """Write the encoder alone of a model of ``transformers``, whatever head it has."""
    said = {"config": config_dict(net.config), "kind": ENCODER, "classes": 0, "tokenizer": tokenizer}
    described_files.save(net.base_model, path, header=HEADER, description=said)


def load(path: Path, device: str | torch.device = "cpu") -> tuple[SentenceClassifier, str]:
    """The model of a file written by :func:`save`, in eval mode on ``device``, and its tokenizer's JSON.

    Raises:
        ValueError: see :func:`relearn.models.described_files.load`; an encoder without a head.
        ModuleNotFoundError: without ``transformers``.
    """
    found: dict[str, Any] = {}

    def build(config: dict[str, Any], kind: str, classes: int, tokenizer: str) -> nn.Module:
        found.update(kind=kind, tokenizer=tokenizer)
        net: nn.Module = classifier(config, kind, classes).net
        return net

    net = described_files.load(path, header=HEADER, build=build, kind="a sentence model", device=device)
    return SentenceClassifier(net, found["kind"]).eval(), found["tokenizer"]


def load_encoder(path: Path) -> tuple[dict[str, Any], dict[str, Tensor], dict[str, Any]]:
    """What a later model takes from a file of :func:`save` or :func:`save_encoder`, on the CPU.

    Returns:
        The configuration; the encoder's state, names as in ``net.base_model``; and ``{kind, classes, tokenizer, head}``, head the state
        of what is behind the encoder, names as in ``net``.

    Raises:
        ValueError: no such file.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            if HEADER not in metadata:
                raise ValueError(
                    f"{path}: no description of a sentence model in it (allowed: files written by relearn)"
                )
            said = json.loads(metadata[HEADER])
            state = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path}: not the weights of a sentence model: {error}") from None
    config = said.pop("config")
    if said["kind"] == ENCODER:
        return config, state, {**said, "head": {}}
    prefix = config["model_type"] + "."
    encoder = {name.removeprefix(prefix): one for name, one in state.items() if name.startswith(prefix)}
    head = {name: one for name, one in state.items() if not name.startswith(prefix)}
    return config, encoder, {**said, "head": head}
