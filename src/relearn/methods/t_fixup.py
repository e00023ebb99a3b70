r"""T-FixUp, and FixUp for Transformers: initialisations that need neither normalisation nor warm-up.

Huang, Pérez, Ba, Volkovs, "Improving Transformer Optimization Through Better Initialization" (2020) and Zhang, Dauphin, Ma, "Fixup
Initialization: Residual Learning Without Normalization" (2019); rows of table 4.10 of zhu2022, which quotes their results.

Both start from newly drawn Xavier-uniform maps with bound :math:`\sqrt{6 / (n_{in} + n_{out})}`, biases 0 and embeddings N(0, 1/d)
(padding 0). Queries and keys are not scaled. With N_e and N_d layers:

==============================================  ===========================  ====================================
weight                                          ``t_fixup``                   ``fixup``
==============================================  ===========================  ====================================
decoder: values, fc1                            × (9 N_d)^(-1/4)             × L^(-1/2), L = 2 N_e + 3 N_d
decoder: attention's output, fc2                × (9 N_d)^(-1/4)             0
encoder: values, fc1                            × 0.67 N_e^(-1/4)            × L^(-1/2)
encoder: attention's output, fc2                × 0.67 N_e^(-1/4)            0
target embedding (N_d), source's (N_e)          × (9 N)^(-1/4)               × 1
==============================================  ===========================  ====================================

FixUp's general rule scales the first m - 1 of the m maps of each of the L branches by :math:`L^{-1/(2m-2)}` and sets the last one
to 0, so every branch starts as the zero function. Here m = 2 in both kinds of branch (values and output; fc1 and fc2). A separate
output layer (``share="none"``) starts at 0, as in FixUp; a tied one cannot.

Differs from the papers: FixUp's scalar multipliers and biases in each branch are omitted (the maps have their own biases). T-FixUp's
released code keeps a gain of 1/√2 on queries and keys; the paper says Xavier, as here. An embedding shared by both languages is scaled
with N_d.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from relearn.methods.initialised import Initialised

FORMS = ("t_fixup", "fixup")


@torch.no_grad()
def t_fixup(
    model: nn.Module, loss: Any = None, batches: Any = None, *, seed: int = 0, form: str = "t_fixup"
) -> Initialised:
    """Redraw the parameters of ``model`` in place, from a generator seeded with ``seed`` (the same on every device).

    Args:
        model: :class:`relearn.models.post_ln_transformer.PostLNTransformer` with ``residual="no_norm"``.
        loss, batches: not used.
        form: ``t_fixup`` or ``fixup``.

    Raises:
        ValueError: an unknown form; a model with normalisation, or without encoder and decoder layers.
    """
    if form not in FORMS:
        raise ValueError(f"form: {form!r} (allowed: {', '.join(FORMS)})")
    streams: Any = getattr(model, "residual_stacks", dict)
    stacks = streams()
    kinds = sorted({str(joint.kind) for joints in stacks.values() for joint in joints})
    if kinds != ["no_norm"]:
        found = f"residual {kinds[0]!r}" if kinds else f"a {type(model).__name__}"
        raise ValueError(f"{form}: {found} (allowed: a translation network with residual 'no_norm')")
    generator = torch.Generator().manual_seed(seed)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            bound = math.sqrt(6 / (module.in_features + module.out_features))
            drawn = torch.rand(module.weight.shape, generator=generator) * (2 * bound) - bound
            module.weight.copy_(drawn)
            if module.bias is not None:
                module.bias.zero_()
        elif isinstance(module, nn.Embedding):
            drawn = torch.randn(module.weight.shape, generator=generator) * module.embedding_dim**-0.5
            module.weight.copy_(drawn)
            if module.padding_idx is not None:
                module.weight[module.padding_idx] = 0.0
    scales = _t_fixup_scales(model) if form == "t_fixup" else _fixup_scales(model)
    for tensor, scale in scales:
        tensor.mul_(scale)
    return Initialised()


def _branches(layer: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """First and last map of each branch of a layer."""
    attentions = [layer.self_attention]
    if hasattr(layer, "cross_attention"):
        attentions.append(layer.cross_attention)
    return [
        *((one.v.weight, one.out.weight) for one in attentions),
        (layer.ffn.fc1.weight, layer.ffn.fc2.weight),
    ]


def _t_fixup_scales(model: Any) -> list[tuple[torch.Tensor, float]]:
    encoder = 0.67 * len(model.encoder) ** -0.25
    decoder = (9 * len(model.decoder)) ** -0.25
    scales = [(model.embedding.weight, decoder)]
    if hasattr(model, "source_embedding"):
        scales.append((model.source_embedding.weight, (9 * len(model.encoder)) ** -0.25))
    for layers, scale in ((model.encoder, encoder), (model.decoder, decoder)):
        scales += [(tensor, scale) for layer in layers for branch in _branches(layer) for tensor in branch]
    return scales


def _fixup_scales(model: Any) -> list[tuple[torch.Tensor, float]]:
    branches = [branch for layer in (*model.encoder, *model.decoder) for branch in _branches(layer)]
    scales = [(first, len(branches) ** -0.5) for first, _ in branches] + [(last, 0.0) for _, last in branches]
    return scales + ([(model.output.weight, 0.0)] if hasattr(model, "output") else [])
