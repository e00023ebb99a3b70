"""Set-up of `convert_roberta`: settings, texts, an encoder and its tokenizer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from relearn.data.masked_batches import TokenBatches
    from relearn.data.roberta_tokens import RobertaTokenizer


STAGES = ("pretrain", "convert_pretrain", "finetune")


@dataclass(frozen=True, kw_only=True)
class Stage:
    steps: int
    warmup_steps: int
    batch_size: int
    lr: float
    weight_decay: float


@dataclass(frozen=True, kw_only=True)
class Config:
    layers: int
    dim: int
    heads: int
    ffn: int
    dropout: float
    vocabulary: int
    max_length: int


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Of the step `convert_roberta`, which explains them; ``max_length``, ``window`` and ``rank`` are null for full attention."""

    attention: Literal["full", "long_short"]
    dataset: str
    train_samples: int
    valid_samples: int
    test_samples: int
    max_bytes: int
    checkpoint: str | None
    config: Config
    max_length: int | None
    window: int | None
    rank: int | None
    mask_frac: float
    pretrain: Stage
    convert_pretrain: Stage | None
    finetune: Stage
    betas: tuple[float, float]
    adam_eps: float
    schedule: str
    clip_norm: float | None
    evaluations: int

    def __post_init__(self) -> None:
        needed = {"max_length": self.max_length, "window": self.window, "rank": self.rank}
        for name, value in needed.items():
            if self.attention == "long_short" and value is None:
                raise ValueError(f"{name}: found null, allowed: an integer, for long_short")
        if self.finetune.steps < 1 or self.evaluations < 1:
            raise ValueError("finetune.steps, evaluations: less than 1 (allowed: at least 1 each)")


def read(settings: Settings) -> tuple[dict[str, tuple[list[str], list[int]]], dict[str, Any]]:
    """Texts and labels of train, valid and test, and their source."""
    from relearn.data.lra import PARTS, text
    from relearn.data.mirror import mirror_of

    counts = settings.train_samples, settings.valid_samples, settings.test_samples
    wanted = dict(zip(PARTS, counts, strict=True))
    folder = mirror_of(settings.dataset)
    task = text.make(settings.dataset, wanted, max_length=settings.max_bytes, folder=folder)
    parts: dict[str, tuple[list[str], list[int]]] = {}
    for part in PARTS:
        samples = getattr(task, part)
        # A passage that was truncated at a byte may end within a character.
        parts[part] = [row.decode(errors="ignore") for row in samples.rows], samples.labels
    return parts, task.source


def start(settings: Settings, texts: list[str]) -> tuple[Any, RobertaTokenizer]:
    """The encoder with a masked-language-modelling head, and its tokenizer: the checkpoint's, or new ones.

    Raises:
        ValueError: the checkpoint is unavailable or not a RoBERTa model, or the sizes are invalid.
    """
    from relearn.data import roberta_tokens
    from relearn.torchvision_schema import transformers

    library, own, name = transformers(), settings.config, settings.checkpoint
    if name is not None:
        try:
            path = library.utils.cached_file(name, "tokenizer.json")
            net = library.RobertaForMaskedLM.from_pretrained(name)
        except (OSError, ValueError, RuntimeError) as fault:
            line = str(fault).strip().splitlines()[0]
            raise ValueError(
                f"checkpoint: {name}: {line} (allowed: a RoBERTa model with tokenizer.json)"
            ) from None
        return net, roberta_tokens.RobertaTokenizer(Path(path).read_text(encoding="utf-8"))
    tokenizer = roberta_tokens.train(texts, own.vocabulary)
    config = library.RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=own.dim,
        num_hidden_layers=own.layers,
        num_attention_heads=own.heads,
        intermediate_size=own.ffn,
        hidden_dropout_prob=own.dropout,
        attention_probs_dropout_prob=own.dropout,
        max_position_embeddings=own.max_length + tokenizer.pad + 1,
        type_vocab_size=1,
        layer_norm_eps=1e-5,  # as in the published checkpoints
        initializer_range=0.02 * math.sqrt(768 / own.dim),  # 0.02 at the width of RoBERTa-base
        bos_token_id=tokenizer.bos,
        pad_token_id=tokenizer.pad,
        eos_token_id=tokenizer.eos,
    )
    return library.RobertaForMaskedLM(config), tokenizer


def length_of(net: Any) -> int:
    """Maximum number of tokens that the encoder reads."""
    from relearn.models.long_short_roberta import positions

    return positions(net.base_model)


def token_batches(
    part: tuple[list[str], list[int]],
    tokenizer: RobertaTokenizer,
    longest: int,
    size: int,
    hidden: float | None,
    device: str,
) -> TokenBatches:
    import torch

    from relearn.data.masked_batches import TokenBatches

    rows, labels = tokenizer.encode(part[0], longest), torch.tensor(part[1])
    return TokenBatches(rows, labels, tokenizer, batch_size=size, hidden_frac=hidden, device=device)
