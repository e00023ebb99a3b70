r"""Encoder-decoder Transformer for translation, with normalisation after each sum ("Post-LN").

Vaswani et al., "Attention Is All You Need" (2017); sizes and dropout of the IWSLT'14 experiments of zhu2022, section 4.3.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from relearn.layers.attention import MultiHeadAttention
from relearn.layers.residual import Residual
from relearn.models.files import ModelFile
from relearn.models.transformer_layers import Cache, DecoderLayer, EncoderLayer, LayerCache, Size

PAD = 0
SHARES = ("all", "decoder", "none")


def sinusoids(length: int, dim: int, *, start: int = 0, like: Tensor) -> Tensor:
    r"""Return positions (length, dim): the columns :math:`\sin(t\,\omega_i)`, then :math:`\cos(t\,\omega_i)`, t = start, start + 1, ...

    :math:`\omega_i = 10000^{-i/(d/2-1)}`, i = 0 ... d/2 - 1. There are two differences from Vaswani et al.: sines and cosines are not
    interleaved (a fixed permutation of the columns), and the slowest frequency is exactly 1/10000. Both are as in the toolkit of the
    published experiments.
    """
    half = dim // 2
    steps = torch.arange(half, device=like.device, dtype=torch.float32)
    frequencies = torch.exp(steps * (-math.log(10000.0) / max(half - 1, 1)))
    times = torch.arange(start, start + length, device=like.device, dtype=torch.float32)
    angles = times[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1).to(like.dtype)


class PostLNTransformer(nn.Module):
    r"""Translation model: maps the source sentence and the target tokens so far to logits of the next target token.

    .. math::
        e(t)_i = \sqrt d\, E_{t_i} + p_i, \quad m = \mathrm{encoder}(e_s(\mathrm{source})), \quad
        \mathrm{logits} = \mathrm{decoder}(e_t(\mathrm{target}), m)\, E_t^\top

    ======  =====================================  ===========================  ===============
    symbol  meaning                                code                         shape
    ======  =====================================  ===========================  ===============
    E_t     target embedding and output weights    ``embedding``                (V, d)
    E_s     source embedding                       ``source_embedding``         (V, d)
    p       positions                              :func:`sinusoids`            (length, d)
    m       output of the encoder                  ``encode(source)``           (B, S, d)
    ======  =====================================  ===========================  ===============

    Facts (tests/models/test_post_ln_transformer.py): a stack of ``torch.nn.TransformerEncoderLayer`` and ``TransformerDecoderLayer``
    with the same weights gives the same numbers; the content of padding has no effect; a later target token changes no earlier
    logit; :meth:`decode_step` gives the columns of ``forward`` one by one. Number of parameters:

    .. math:: nV d + N_e (4(d^2+d) + F + 4d) + N_d (8(d^2+d) + F + 6d), \quad F = 2 d f + d + f

    with n = 2 embedding tables for ``share="decoder"`` (1 for "all", 3 for "none"); the last term in each bracket counts the LayerNorms.

    Initialisation, as in the toolkit of the published experiments: maps Xavier-uniform (queries, keys and values with gain 1/√2,
    which is the Xavier bound of the three stacked into one matrix), biases 0, embeddings N(0, 1/d), padding 0; drawn from torch's
    global generator.

    Padding (id 0) must be on the right. In training mode, dropout acts on the sum of embedding and position, on each branch, on attention
    weights, and after the activation.

    Args:
        vocabulary: V, shared by both languages (joint byte-pair encoding).
        dim, ffn, heads, encoder_layers, decoder_layers: d, f, H, N_e, N_d.
        dropout, attention_dropout, activation_dropout: probabilities in [0, 1).
        residual: one of :data:`relearn.layers.residual.KINDS`; ``no_norm`` and ``rezero`` have no LayerNorm at all.
        fixed_w_skip: with ``residual="w_skip"``, freeze these vectors.
        share: ``"decoder"``: target embedding and output weights share one tensor, and the source has its own (the published setting);
            ``"all"``: one tensor for all three; ``"none"``: three tensors.

    Raises:
        ValueError: a size or a probability out of range, an unknown ``residual`` or ``share``.
    """

    def __init__(
        self,
        vocabulary: int,
        *,
        dim: int = 512,
        ffn: int = 1024,
        heads: int = 4,
        encoder_layers: int = 6,
        decoder_layers: int = 6,
        dropout: float = 0.3,
        attention_dropout: float = 0.1,
        activation_dropout: float = 0.1,
        residual: str = "post_ln",
        fixed_w_skip: bool = False,
        share: str = "decoder",
    ) -> None:
        super().__init__()
        sizes = {"ffn": ffn, "encoder_layers": encoder_layers, "decoder_layers": decoder_layers}
        for key, value in {"vocabulary": vocabulary, "dim": dim, **sizes}.items():
            if value < 1:
                raise ValueError(f"{key}: {value} (allowed: at least 1)")
        if dim % 2:
            raise ValueError(f"dim: {dim} (allowed: even, half sines and half cosines)")
        for key, p in {"dropout": dropout, "activation_dropout": activation_dropout}.items():
            if not 0 <= p < 1:
                raise ValueError(f"{key}: {p} (allowed: 0 <= p < 1)")
        if share not in SHARES:
            raise ValueError(f"share: {share!r} (allowed: {', '.join(SHARES)})")
        if fixed_w_skip and residual != "w_skip":
            raise ValueError(f"fixed_w_skip: True with residual {residual!r} (allowed: only with 'w_skip')")
        size = Size(dim, ffn, heads, dropout, attention_dropout, activation_dropout, residual, fixed_w_skip)
        self._description = {"vocabulary": vocabulary, **vars(size), "share": share}
        self._description |= {"encoder_layers": encoder_layers, "decoder_layers": decoder_layers}
        self.scale = math.sqrt(dim)
        self.embedding = nn.Embedding(vocabulary, dim, padding_idx=PAD)
        if share != "all":
            self.source_embedding = nn.Embedding(vocabulary, dim, padding_idx=PAD)
        if share == "none":
            self.output = nn.Linear(dim, vocabulary, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.encoder = nn.ModuleList(EncoderLayer(size) for _ in range(encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(size) for _ in range(decoder_layers))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw the initial weights again, from torch's global generator."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
                module.weight[PAD] = 0.0
            elif isinstance(module, nn.LayerNorm):
                module.reset_parameters()
            elif isinstance(module, Residual):
                if module.kind == "w_skip":
                    nn.init.ones_(module.w_skip)
                elif module.kind == "rezero":
                    nn.init.zeros_(module.alpha)
        for module in self.modules():
            if isinstance(module, MultiHeadAttention):
                for one in (module.q, module.k, module.v):
                    nn.init.xavier_uniform_(one.weight, gain=2**-0.5)

    @property
    def description(self) -> dict[str, Any]:
        """Return the constructor's arguments as plain values, from which the network can be rebuilt."""
        fixed = any(not one.w_skip.requires_grad for one in self._joints() if one.kind == "w_skip")
        return {**self._description, "fixed_w_skip": fixed}

    @property
    def vocabulary(self) -> int:
        """V, the number of tokens."""
        return self.embedding.num_embeddings

    def residual_stacks(self) -> dict[str, list[Residual]]:
        """Return the residual connections of each stack, first to last: ``{"encoder": [...], "decoder": [...]}``."""
        encoder = [joint for layer in cast(Iterator[EncoderLayer], self.encoder) for joint in layer.joints()]
        decoder = [joint for layer in self._decoder() for joint in layer.joints()]
        return {"encoder": encoder, "decoder": decoder}

    def _decoder(self) -> list[DecoderLayer]:
        return list(cast(Iterator[DecoderLayer], self.decoder))

    def _joints(self) -> list[Residual]:
        return [joint for stack in self.residual_stacks().values() for joint in stack]

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Return the logits (B, T, V) of the token after each target position; ``source`` (B, S), ``target_in`` (B, T), int64."""
        memory = self.encode(source)
        mask = self.memory_mask(source)
        x = self._embed(target_in, self.embedding)
        for layer in self.decoder:
            x = layer(x, memory, mask)
        return self._logits(x)

    def encode(self, source: Tensor) -> Tensor:
        """Return the encoder's output (B, S, d); its rows for padding are meaningless."""
        mask = self.memory_mask(source)
        x = self._embed(source, getattr(self, "source_embedding", self.embedding))
        for layer in self.encoder:
            x = layer(x, mask)
        return x

    @staticmethod
    def memory_mask(source: Tensor) -> Tensor:
        """Return (B, 1, 1, S), True where the source has a token."""
        return (source != PAD)[:, None, None, :]

    def start(self, source: Tensor) -> Cache:
        """Encode the source and return a cache for the first :meth:`decode_step`."""
        memory = self.encode(source)
        layers = [LayerCache(*layer.cross_attention.project(memory)) for layer in self._decoder()]
        return Cache(0, self.memory_mask(source), layers)

    def decode_step(self, tokens: Tensor, cache: Cache) -> Tensor:
        """Return the logits (B, V) after one more token per row, ``tokens`` (B,), and append that position to ``cache``."""
        x = self._embed(tokens[:, None], self.embedding, cache.position)
        for layer, kept in zip(self._decoder(), cache.layers, strict=True):
            x = layer.step(x, kept, cache.mask)
        cache.position += 1
        return self._logits(x)[:, 0]

    def _embed(self, tokens: Tensor, table: nn.Module, start: int = 0) -> Tensor:
        x = self.scale * table(tokens)
        return self.dropout(x + sinusoids(tokens.shape[1], x.shape[2], start=start, like=x))

    def _logits(self, x: Tensor) -> Tensor:
        return self.output(x) if hasattr(self, "output") else linear(x, self.embedding.weight)


FILE = ModelFile("translation_network", "a translation network", PostLNTransformer)
