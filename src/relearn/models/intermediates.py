"""Methods required by timm's tools: intermediate feature maps, pruning, gradient checkpointing, parameter groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from relearn.models.timm_parts import checkpoint, feature_take_indices

Indices = int | list[int] | None


class Intermediates(nn.Module):
    """Base class of networks that run a sequence of layers; implements timm's ``forward_intermediates`` and related methods.

    A subclass implements the methods from :meth:`layer_list` on. A layer is a stage or, in networks without stages, a block.
    """

    grad_checkpointing = False

    def forward_intermediates(
        self,
        x: Tensor,
        indices: Indices = None,
        norm: bool = False,
        stop_early: bool = False,
        output_fmt: str = "NCHW",
        intermediates_only: bool = False,
    ) -> Any:
        """Return the output of :meth:`forward_features` and the maps (B, D, H, W) of some layers, in timm's format.

        Args:
            x: images.
            indices: the layers; an int n selects the last n layers, None all.
            norm: apply the final norm to the last layer's map (to all maps if all layers have the last one's width).
            stop_early: skip the layers after the last requested one; the first output is then that layer's output.
            output_fmt: "NCHW".
            intermediates_only: return the maps alone.

        Raises:
            ValueError: an ``output_fmt`` other than "NCHW"; images of another size.
        """
        if output_fmt != "NCHW":
            raise ValueError(f"output_fmt: {output_fmt!r} (allowed: 'NCHW')")
        layers = self.layer_list()
        taken, last = feature_take_indices(len(layers), indices)
        state, maps = self.embed_images(x), []
        for index, layer in enumerate(layers[: last + 1] if stop_early else layers):
            state = self.run_layer(layer, state)
            if index in taken:
                maps.append(self.to_map(state, x, norm and (index == len(layers) - 1 or self.one_width())))
        if intermediates_only:
            return maps
        return self.last_tokens(state, stop_early and last < len(layers) - 1), maps

    def prune_intermediate_layers(
        self, indices: Indices = 1, prune_norm: bool = False, prune_head: bool = True
    ) -> list[int]:
        """Remove the layers after the last requested one and, if requested, the norm and the head; return the indices of the
        requested layers."""
        taken, last = feature_take_indices(len(self.layer_list()), indices)
        short = last < len(self.layer_list()) - 1
        self.keep_layers(last + 1)
        if prune_norm or (short and not self.one_width()):
            self.norm: nn.Module = nn.Identity()
        if prune_head:
            self.drop_head()
        return taken

    @torch.jit.ignore
    def set_grad_checkpointing(self, enable: bool = True) -> None:
        """Switch gradient checkpointing on or off: blocks store no activations and recompute them in the backward pass."""
        self.grad_checkpointing = enable

    def run(self, block: nn.Module, *inputs: Any) -> Any:
        """Call one block, with gradient checkpointing if it is enabled."""
        if self.grad_checkpointing and not torch.jit.is_scripting():
            return checkpoint(block, *inputs)
        return block(*inputs)

    def layer_list(self) -> Sequence[nn.Module]:
        """Return the layers."""
        raise NotImplementedError

    def embed_images(self, x: Tensor) -> Any:
        """Embed images: return the input of the first layer."""
        raise NotImplementedError

    def run_layer(self, layer: Any, state: Any) -> Any:
        """Run one layer: return the input of the next one."""
        raise NotImplementedError

    def to_map(self, state: Any, x: Tensor, norm: bool) -> Tensor:
        """Convert a layer's output for the images x to a map (B, D, H, W)."""
        raise NotImplementedError

    def last_tokens(self, state: Any, unfinished: bool) -> Tensor:
        """Return the input of the head; ``unfinished``: some layers were skipped."""
        raise NotImplementedError

    def keep_layers(self, count: int) -> None:
        """Remove all layers but the first ``count``."""
        raise NotImplementedError

    def drop_head(self) -> None:
        """Remove the head."""
        raise NotImplementedError

    def one_width(self) -> bool:
        """Whether all layers have the width of the final norm."""
        return False
