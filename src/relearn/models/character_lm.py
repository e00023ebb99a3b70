r"""Character-level language models: a Transformer with any kind of self-attention, and an LSTM baseline.

kim2020 ("The Lipschitz Constant of Self-Attention"), section 5.3 and appendix I.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor, nn

from relearn.layers.attention_kinds import KINDS as ATTENTIONS
from relearn.layers.attention_kinds import attention as attention_layer
from relearn.layers.residual import Residual
from relearn.models.files import ModelFile
from relearn.models.post_ln_transformer import sinusoids
from relearn.models.transformer_layers import FeedForward

KINDS = (*ATTENTIONS, "lstm")
GLOROT = {"usual": 6.0, "printed": 1.0}


class CharacterBlock(nn.Module):
    """Causal self-attention, then feed-forward, each with a residual connection; (B, N, D) → (B, N, D)."""

    def __init__(self, attention: nn.Module, dim: int, ffn: int, norm: str, dropout: float) -> None:
        super().__init__()
        self.attention = attention
        self.attention_residual = Residual(dim, norm, dropout)
        self.ffn = FeedForward(dim, ffn, 0.0)
        self.ffn_residual = Residual(dim, norm, dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = self.attention_residual(x, self.attention(x, causal=True))
        return self.ffn_residual(x, self.ffn(x))


class CharacterTransformer(nn.Module):
    r"""Predict the logits of the next character from the characters so far.

    .. math::
        x^0_t = \sqrt D\, E_{c_t} + p_t, \qquad
        y^l = \mathrm{join}(x^{l-1}, \mathrm{MHA}(x^{l-1})), \qquad x^l = \mathrm{join}(y^l, \mathrm{FFN}(y^l)), \qquad
        \mathrm{logits}_t = W x^L_t + b

    ======  ==================================  ====================  ==============
    symbol  meaning                             code                  shape
    ======  ==================================  ====================  ==============
    c       characters, int64                   ``tokens``            (B, N)
    E       embedding                           ``embedding``         (V, D)
    p       positions, ``sinusoids``                                  (N, D)
    join    see layers.residual                 ``norm``
    W, b    softmax over the vocabulary         ``output``            (V, D), (V,)
    ======  ==================================  ====================  ==============

    Number of parameters, with :math:`m` D × D maps per attention (4 for ``dp``, ``l2`` and ``l2_matched``, 3 for ``l2_tied`` and
    ``contractive``) and :math:`j` per residual connection (2D for ``post_ln``, 3D ``w_skip``, 1 ``rezero``, 0 ``no_norm``):

    .. math:: 2VD + V + L\,(m D^2 + 2 D f + f + D + 2 j)

    Initialisation (appendix I): every weight is :math:`U[-a, a]` with the Glorot limit :math:`a = \sqrt{6 / (d_{in} + d_{out})}` of
    its whole matrix over all heads; ``glorot="printed"`` uses :math:`\sqrt{1 / (d_{in} + d_{out})}`, which the paper prints (docs:
    errata, K8). The weights of L2 attention are :math:`U[-s/\sqrt D, s/\sqrt D]`, s = ``init_scale``. Biases are 0. Weights are
    drawn from torch's global generator.

    The paper does not state the following, which we take from Vaswani et al. 2017: feed-forward width 4D, normalisation after each
    sum, and dropout on embedding plus position and on each branch. Embedding and output weights are separate.

    The logits at a position depend on nothing to its right, neither on later characters nor on padding.

    Args:
        vocabulary: V, including padding.
        attention: one of :data:`relearn.layers.attention_kinds.KINDS`.
        layers, dim, heads, ffn: L, D, H, f.
        dropout: probability in [0, 1).
        norm: one of :data:`relearn.layers.residual.KINDS`.
        init_scale: s; None initialises L2 attention like every other weight.
        glorot: ``usual`` or ``printed``.
        max_length: maximum number of characters in a sequence, 288 in the paper; None: unlimited. Required by ``contractive``, whose
            divisor depends on the length: the length of the current sequence would leak how many characters follow.
        small_start: initialise the maps of ``dp`` in the range of L2 attention; a control that isolates the effect of the
            initialisation.

    Raises:
        ValueError: a size or an option out of range; in ``forward``, a sequence longer than ``max_length``.
    """

    def __init__(
        self,
        vocabulary: int,
        *,
        attention: str = "dp",
        layers: int = 1,
        dim: int = 512,
        heads: int = 8,
        ffn: int = 2048,
        dropout: float = 0.0,
        norm: str = "post_ln",
        init_scale: float | None = 1 / 24,
        glorot: str = "usual",
        max_length: int | None = None,
        small_start: bool = False,
    ) -> None:
        super().__init__()
        _check(dropout, glorot, vocabulary=vocabulary, layers=layers, dim=dim, ffn=ffn)
        if small_start and (attention != "dp" or init_scale is None):
            raise ValueError(
                f"small_start: true with {attention!r}, init_scale {init_scale} (allowed: with 'dp' and a number)"
            )
        if dim % 2:
            raise ValueError(f"dim: {dim} (allowed: even, half sines and half cosines)")
        if init_scale is not None and not init_scale > 0:
            raise ValueError(f"init_scale: {init_scale} (allowed: more than 0, or none)")
        if max_length is not None and max_length < 1:
            raise ValueError(f"max_length: {max_length} (allowed: at least 1)")
        if attention == "contractive" and max_length is None:
            raise ValueError(
                "max_length: None (allowed with 'contractive': the maximum number of characters in a sequence)"
            )
        self.description: dict[str, Any] = {
            "vocabulary": vocabulary,
            "attention": attention,
            "layers": layers,
            "dim": dim,
            "heads": heads,
            "ffn": ffn,
            "dropout": dropout,
            "norm": norm,
            "init_scale": init_scale,
            "glorot": glorot,
            "max_length": max_length,
            **({"small_start": True} if small_start else {}),
        }
        self.max_length = max_length
        self.embedding = nn.Embedding(vocabulary, dim)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            CharacterBlock(
                attention_layer(attention, dim, heads, max_length=max_length), dim, ffn, norm, dropout
            )
            for _ in range(layers)
        )
        self.output = nn.Linear(dim, vocabulary)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw the initial weights again, from torch's global generator."""
        factor = GLOROT[self.description["glorot"]]
        scale, dim = self.description["init_scale"], self.description["dim"]
        own: set[nn.Module] = set()
        small = self.description["attention"] != "dp" or self.description.get("small_start", False)
        if scale is not None and small:
            own = {map_ for layer in self.attention_layers() for map_ in layer.modules()}
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                limit = scale / math.sqrt(dim) if module in own else _limit(module.weight, factor)
                module.weight.uniform_(-limit, limit)
                if isinstance(module, nn.Linear) and module.bias is not None:
                    module.bias.zero_()

    def attention_layers(self) -> list[nn.Module]:
        """Return the attention layer of each block, first to last."""
        return [cast(CharacterBlock, block).attention for block in self.blocks]

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits (B, N, V) of the character after each position."""
        length = tokens.shape[1]
        if self.max_length is not None and length > self.max_length:
            raise ValueError(
                f"tokens: {length} characters in a row (allowed: max_length = {self.max_length})"
            )
        x = math.sqrt(self.embedding.embedding_dim) * self.embedding(tokens)
        x = self.dropout(x + sinusoids(length, x.shape[2], like=x))
        for block in self.blocks:
            x = block(x)
        return self.output(x)


@contextmanager
def without_attention(net: CharacterTransformer) -> Iterator[None]:
    """Context in which the attention layers return zeros, so that the logits at a position depend on its own character alone.

    The difference of the NLL with and without attention says how much a trained model uses the characters before the last one.
    """
    hooks = [
        layer.register_forward_hook(lambda _layer, _given, output: torch.zeros_like(output))
        for layer in net.attention_layers()
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


class CharacterLSTM(nn.Module):
    r"""Predict the logits of the next character with L LSTM layers whose hidden and cell states have the embedding's width D.

    Number of parameters: :math:`2VD + V + L\,(8 D^2 + 8 D)` (torch has two biases per gate).

    Initialisation: weights as in :class:`CharacterTransformer`, with the Glorot limit of the stacked matrix of all four gates, 4D × D;
    biases 0, except that the forget gate's biases sum to 1 (TensorFlow's default, which the paper does not mention). Dropout acts
    on the embedding, between the layers and before the output.

    Raises:
        ValueError: a size or an option out of range.
    """

    def __init__(
        self, vocabulary: int, *, layers: int = 1, dim: int = 512, dropout: float = 0.0, glorot: str = "usual"
    ) -> None:
        super().__init__()
        _check(dropout, glorot, vocabulary=vocabulary, layers=layers, dim=dim)
        self.description: dict[str, Any] = {
            "vocabulary": vocabulary,
            "attention": "lstm",
            "layers": layers,
            "dim": dim,
            "dropout": dropout,
            "glorot": glorot,
        }
        self.embedding = nn.Embedding(vocabulary, dim)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(dim, dim, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0)
        self.output = nn.Linear(dim, vocabulary)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw the initial weights again, from torch's global generator."""
        factor = GLOROT[self.description["glorot"]]
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                limit = _limit(parameter, factor)
                parameter.uniform_(-limit, limit)
                continue
            parameter.zero_()
            if "bias_ih" in name:
                parameter.chunk(4)[1].fill_(1.0)  # torch's order of gates: input, forget, cell, output

    def attention_layers(self) -> list[nn.Module]:
        """Return an empty list: an LSTM has no attention layers."""
        return []

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits (B, N, V) of the character after each position."""
        inputs = self.dropout(self.embedding(tokens))
        with _precision_of_lstm(inputs.device):
            states, _ = self.lstm(inputs)
        return self.output(self.dropout(states))


def _precision_of_lstm(device: torch.device) -> AbstractContextManager[object]:
    """No autocast on a CPU without AVX-512, where oneDNN has no LSTM in bf16 and raises an error."""
    if device.type == "cpu" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return torch.autocast("cpu", enabled=False)
    return nullcontext()


def create(*, attention: str, **sizes: Any) -> CharacterTransformer | CharacterLSTM:
    """Build a character model from a run's settings or from a model's ``description``.

    Args:
        attention: one of :data:`KINDS`.
        sizes: the keyword arguments of :class:`CharacterTransformer`. ``lstm`` ignores heads, ffn, norm, init_scale and
            max_length.

    Raises:
        ValueError: an unknown ``attention``, or arguments that the model rejects.
    """
    if attention not in KINDS:
        raise ValueError(f"attention: {attention!r} (allowed: {', '.join(KINDS)})")
    if attention != "lstm":
        return CharacterTransformer(attention=attention, **sizes)
    unused = ("heads", "ffn", "norm", "init_scale", "max_length", "small_start")
    return CharacterLSTM(**{key: value for key, value in sizes.items() if key not in unused})


def _limit(weight: Tensor, factor: float) -> float:
    return math.sqrt(factor / sum(weight.shape))


def _check(dropout: float, glorot: str, **sizes: int) -> None:
    for key, value in sizes.items():
        if value < 1:
            raise ValueError(f"{key}: {value} (allowed: at least 1)")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout: {dropout} (allowed: 0 <= p < 1)")
    if glorot not in GLOROT:
        raise ValueError(f"glorot: {glorot!r} (allowed: {', '.join(GLOROT)})")


FILE = ModelFile("character_model", "a character model", create)
