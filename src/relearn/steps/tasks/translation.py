"""Translation as a task: the prepared corpus in byte-pair tokens and the Post-LN Transformer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from relearn.data.corpus import load_corpus
from relearn.data.token_batches import TokenBatches
from relearn.methods.token_loss import token_loss
from relearn.models import post_ln_transformer
from relearn.models.post_ln_transformer import PostLNTransformer

if TYPE_CHECKING:
    from relearn.steps.tasks import OnTranslation


class Translation:
    """Training pairs as token ids on ``device``.

    Args:
        settings: its part of the step's settings.
        data: output of `prepare_translation`.
        device: device of ids, networks and batches.
    """

    own_start = "xavier"

    def __init__(self, settings: OnTranslation, data: Path, device: str) -> None:
        self.corpus = load_corpus(data)
        self.pairs = self.corpus.pairs("train").to(device)
        self.smoothing, self.device = settings.label_smoothing, torch.device(device)

    def loss(self, logits: Tensor, target: Tensor) -> Tensor:
        """Label-smoothed cross entropy in nats per token, excluding padding."""
        return token_loss(logits, target, smoothing=self.smoothing)

    def create(self, network: Mapping[str, Any]) -> nn.Module:
        dropout = network["dropout"]
        return PostLNTransformer(
            vocabulary=self.corpus.vocabulary,
            **network,
            # the ratio of the published dropout rates 0.3, 0.1 and 0.1
            attention_dropout=dropout / 3,
            activation_dropout=dropout / 3,
        ).to(self.device)

    def network(self, path: Path) -> nn.Module:
        model = post_ln_transformer.FILE.load(path, self.device)
        if model.vocabulary != self.corpus.vocabulary:
            raise ValueError(
                f"{path}: a network of {model.vocabulary} units (allowed: {self.corpus.vocabulary}, as in the corpus)"
            )
        return model

    def save(self, model: nn.Module, path: Path) -> None:
        assert isinstance(model, PostLNTransformer)
        post_ln_transformer.FILE.save(model, path)

    def source(self, max_tokens: int) -> TokenBatches:
        return TokenBatches(self.pairs, max_tokens=max_tokens, device=self.device)

    def steps_per_epoch(self, size: int) -> int:
        return self.source(size).batches_per_epoch

    def batches(self, seed: int, size: int) -> Iterator[Sequence[Any]]:
        return self.source(size).pools(seed=seed)

    def pools(self, seed: int, size: int, overlap: float) -> Iterator[Sequence[Any]]:
        """Yield batches of ``size`` tokens, which are split by rows: at overlap 0.5 into the first and the last two thirds, as released."""
        return self.source(size).pools(seed=seed, at_least=3)
