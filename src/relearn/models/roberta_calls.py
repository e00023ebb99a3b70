"""Wrappers that give RoBERTa networks the signature of the training loop: positional tensors in, one tensor out."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


class Guesses(nn.Module):
    """Logits (K, V) of the K masked tokens only; the map to the vocabulary is most of a small model's computation."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def forward(self, tokens: Tensor, real: Tensor, hidden: Tensor) -> Tensor:
        """Return the logits for ``tokens``, ``real`` and ``hidden`` (B, n); rows follow the order of the tokens."""
        states = self.net.base_model(tokens, attention_mask=real)[0]
        return self.net.lm_head(states[hidden])


class Classes(nn.Module):
    """Logits (B, C) of a RobertaForSequenceClassification."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        return self.net(tokens, attention_mask=real).logits
