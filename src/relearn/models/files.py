"""Model files: the tensors as safetensors, and the network's arguments in the JSON header, from which it is rebuilt. No pickle.

Importing this file does not import torch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from relearn.models import create

if TYPE_CHECKING:
    import torch
    from torch import nn

Network = TypeVar("Network", bound="nn.Module")


@dataclass(frozen=True)
class ModelFile(Generic[Network]):
    """The file format of one kind of network; each model module has an instance called ``FILE``.

    Args:
        header: key of the description in the file's metadata, which identifies the kind.
        noun: description of the content for messages, e.g. "a character model".
        build: builds the network; called with the description's entries as keyword arguments.
        preserves_rng: whether :meth:`load` restores torch's global generators, from which ``build`` draws weights.
    """

    header: str
    noun: str
    build: Callable[..., Network]
    preserves_rng: bool = True

    def save(self, net: nn.Module, path: Path, description: Mapping[str, Any] | None = None) -> None:
        """Write the network's state and its description, ``net.description`` by default.

        Tensors of the state must not share memory; this is a requirement of safetensors.
        """
        from safetensors.torch import save_file

        arguments = net.description if description is None else description
        state = {name: tensor.detach().contiguous().cpu() for name, tensor in net.state_dict().items()}
        save_file(state, path, metadata={self.header: json.dumps(arguments, sort_keys=True)})

    def load(self, path: Path, device: str | torch.device = "cpu") -> Network:
        """Build the network of a file written by :meth:`save` and load its state, in eval mode on ``device``.

        The network is built in full, because this also computes the buffers that are not part of its state. Tensors keep the file's
        dtype. They are copied, because their alignment in the file is arbitrary and affects the last bit of torch's vectorised sums.

        Raises:
            ValueError: the file is not a safetensors file, lacks the description, or does not fit the network it describes; also
                errors of ``build``.
        """
        import torch
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, "pt") as file:
                metadata = file.metadata() or {}
                if self.header not in metadata:
                    raise ValueError(
                        f"{path}: no description of {self.noun} in it (allowed: files written by relearn)"
                    )
                with torch.random.fork_rng(devices=[]) if self.preserves_rng else nullcontext():
                    net = self.build(**json.loads(metadata[self.header]))
                state = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
                net.load_state_dict(state, assign=True)
        except (SafetensorError, RuntimeError, TypeError) as error:
            raise ValueError(
                f"{path}: not the weights of {self.noun}: {str(error).splitlines()[0]}"
            ) from None
        return net.to(device).eval()


# The networks of relearn.models.create. Loading them advances the global generator; recorded results depend on this.
CLASSIFIER = ModelFile("network", "a network", create, preserves_rng=False)
save, load = CLASSIFIER.save, CLASSIFIER.load
