"""Networks as files: safetensors for the numbers, its JSON header for what to build. No pickle, nothing executable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from relearn.models import create

if TYPE_CHECKING:
    from relearn.models.classifier import Classifier


def save(net: nn.Module, path: Path, description: dict) -> None:
    """Write the network's state and ``description``, the keyword arguments of :func:`relearn.models.create`."""
    from safetensors.torch import save_file

    state = {name: tensor.detach().contiguous().cpu() for name, tensor in net.state_dict().items()}
    save_file(state, path, metadata={"network": json.dumps(description, sort_keys=True)})


def load(path: Path, device: str | torch.device = "cpu") -> Classifier:
    """The network of a file written by :func:`save`, in eval mode on ``device``.

    Raises:
        ValueError: a file that is no safetensors file, lacks the description or does not fit the network it names.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            if "network" not in metadata:
                raise ValueError(
                    f"{path}: no description of a network in it (allowed: files written by relearn)"
                )
            net = create(**json.loads(metadata["network"]))
            net.load_state_dict({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
    except (SafetensorError, RuntimeError) as error:
        raise ValueError(f"{path}: not the weights of a network: {str(error).splitlines()[0]}") from None
    return net.to(device).eval()
