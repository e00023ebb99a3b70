"""RoBERTa's tokenisation: byte-level byte-pair encoding, ``<s> text </s>``.

A tokenizer comes from a checkpoint (``tokenizer.json``), or is trained here on training texts: an alphabet of all 256 bytes, so that no
text has an unknown token, the five special tokens first, then merges until the vocabulary is full.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from relearn.data.bpe import Marked

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
ALPHABET = 256


class RobertaTokenizer(Marked):
    """Converts text to ids and back; made by :func:`train` or from JSON.

    Attributes:
        bos, pad, eos, mask: ids of ``<s>``, ``<pad>``, ``</s>`` and ``<mask>``.
        special: ids of all of :data:`SPECIAL`.

    Raises:
        ValueError: the JSON is not a tokenizer, or lacks one of these tokens.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.mark(SPECIAL)
        self.bos, self.pad, self.eos, _, self.mask = self.special

    def encode(self, texts: Sequence[str], longest: int) -> list[np.ndarray]:
        """Ids of each text, int32, ``<s>`` first and ``</s>`` last, truncated to ``longest``, including both.

        Raises:
            ValueError: ``longest`` leaves no room for text.
        """
        if longest < 3:
            raise ValueError(f"max_length: {longest} (allowed: at least 3, <s>, a token, </s>)")
        found = self._own.encode_batch(list(texts), add_special_tokens=False)
        return [np.array([self.bos, *one.ids[: longest - 2], self.eos], dtype=np.int32) for one in found]


def train(texts: Iterable[str], vocabulary: int) -> RobertaTokenizer:
    """Learn a vocabulary from training texts.

    Args:
        texts: training texts only; test texts must not influence the vocabulary.
        vocabulary: size including the special tokens; smaller if no pair is left to merge.

    Raises:
        ValueError: no room for all bytes.
    """
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers

    least = ALPHABET + len(SPECIAL)
    if vocabulary < least:
        raise ValueError(
            f"vocabulary: {vocabulary} (allowed: at least {least}, the bytes and the special tokens)"
        )
    own: Any = tokenizers.Tokenizer(models.BPE())
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    own.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    own.train_from_iterator(texts, trainer)
    return RobertaTokenizer(own.to_str())
