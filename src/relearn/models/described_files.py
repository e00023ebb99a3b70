"""Networks as files: safetensors for the numbers, a JSON text in its header for what to build. Nothing executable."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

Network = TypeVar("Network", bound=nn.Module)


def save(net: nn.Module, path: Path, *, header: str, description: Mapping[str, Any]) -> None:
    """Write the network's state, and ``description`` as the text ``header`` of the file's header.

    The tensors of the state must not share memory, as safetensors demands.
    """
    from safetensors.torch import save_file

    state = {name: tensor.detach().contiguous().cpu() for name, tensor in net.state_dict().items()}
    save_file(state, path, metadata={header: json.dumps(description, sort_keys=True)})


def load(
    path: Path,
    *,
    header: str,
    build: Callable[..., Network],
    kind: str,
    device: str | torch.device = "cpu",
) -> Network:
    """``build(**description)`` with the numbers of a file that :func:`save` wrote, in eval mode on ``device``.

    The network is built in full, because buffers that are no part of its state are computed then; what it draws meanwhile leaves
    torch's global generators as they were. Tensors keep the file's type. They are copied out of the file, where they lie at
    any address: torch's vectorised sums depend on the address in their last bit.

    Args:
        path: the file.
        header: under which text the description lies.
        build: what takes the description as keyword arguments.
        kind: what the file should hold, for messages, such as "a character model".
        device: of the network.

    Raises:
        ValueError: a file that is no safetensors file, lacks the description or does not fit the network it describes.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            if header not in metadata:
                raise ValueError(
                    f"{path}: no description of {kind} in it (allowed: files written by relearn)"
                )
            with torch.random.fork_rng(devices=[]):
                net = build(**json.loads(metadata[header]))
            state = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            net.load_state_dict(state, assign=True)
    except (SafetensorError, RuntimeError, TypeError) as error:
        raise ValueError(f"{path}: not the weights of {kind}: {str(error).splitlines()[0]}") from None
    return net.to(device).eval()
