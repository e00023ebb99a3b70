"""What timm's tools ask of a network besides its output: maps of its layers, pruning, less memory, groups of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from relearn.models.timm_parts import checkpoint, feature_take_indices

Indices = int | list[int] | None


class Intermediates(nn.Module):
    """Base class of networks that run a sequence of layers: timm's ``forward_intermediates`` and its relatives.

    A subclass provides the methods below :meth:`prune_intermediate_layers`. A layer is a stage, or a block where there are no
    stages.
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
        """Return the output of :meth:`forward_features` and the maps (B, D, H, W) of some layers, as timm's networks do.

        Args:
            x: images.
            indices: which layers: a number = that many of the last; None: all.
            norm: apply the last norm to the map of the last layer (to all, where every layer has the last one's width).
            stop_early: skip the layers after the last one asked for; the first output is then that layer's.
            output_fmt: "NCHW".
            intermediates_only: return the maps alone.

        Raises:
            ValueError: another ``output_fmt``; images of another size.
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
        """Remove the layers after the last one asked for, and the norm and the head on request; return the layers kept."""
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
        """Keep no activation of a block for the backward pass, which computes them again."""
        self.grad_checkpointing = enable

    def run(self, block: nn.Module, *inputs: Any) -> Any:
        """Call one block, with its activations computed again in the backward pass if so set."""
        if self.grad_checkpointing and not torch.jit.is_scripting():
            return checkpoint(block, *inputs)
        return block(*inputs)

    def layer_list(self) -> Sequence[nn.Module]:
        """Return the layers."""
        raise NotImplementedError

    def embed_images(self, x: Tensor) -> Any:
        """Return the input of the first layer."""
        raise NotImplementedError

    def run_layer(self, layer: Any, state: Any) -> Any:
        """Return the input of the next layer."""
        raise NotImplementedError

    def to_map(self, state: Any, x: Tensor, norm: bool) -> Tensor:
        """Return the map (B, D, H, W) in a layer's output for the images x."""
        raise NotImplementedError

    def last_tokens(self, state: Any, unfinished: bool) -> Tensor:
        """Return what the head reads; ``unfinished``: some layers were skipped."""
        raise NotImplementedError

    def keep_layers(self, count: int) -> None:
        """Remove all layers but the first ``count``."""
        raise NotImplementedError

    def drop_head(self) -> None:
        """Remove the head."""
        raise NotImplementedError

    def one_width(self) -> bool:
        """Whether the last norm fits every layer."""
        return False
