"""Translation networks as files: safetensors for the numbers, its JSON header for what to build. Nothing executable."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from relearn.models.post_ln_transformer import PostLNTransformer

HEADER = "translation_network"


def save(net: PostLNTransformer, path: Path) -> None:
    """Write the network's state and its description, the keyword arguments of :class:`PostLNTransformer`."""
    from safetensors.torch import save_file

    state = {name: tensor.detach().contiguous().cpu() for name, tensor in net.state_dict().items()}
    save_file(state, path, metadata={HEADER: json.dumps(net.description, sort_keys=True)})


def load(path: Path, device: str | torch.device = "cpu") -> PostLNTransformer:
    """The network of a file written by :func:`save`, in eval mode on ``device``.

    Raises:
        ValueError: a file that is no safetensors file, lacks the description or does not fit the network it describes.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            if HEADER not in metadata:
                raise ValueError(
                    f"{path}: no description of a translation network in it (allowed: files written by relearn)"
                )
            # On no device, so that a start that is overwritten at once costs no draw of the global generator.
            with torch.device("meta"):
                net = PostLNTransformer(**json.loads(metadata[HEADER]))
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            net.load_state_dict(state, assign=True)
    except (SafetensorError, RuntimeError) as error:
        raise ValueError(
            f"{path}: not the weights of a translation network: {str(error).splitlines()[0]}"
        ) from None
    return net.to(device).eval()
