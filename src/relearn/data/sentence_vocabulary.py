"""Vocabularies in the style of RoBERTa, BERT and ALBERT, learned from training texts with the package ``tokenizers``.

Equal texts and sizes must give equal vocabularies in every process, because a resumed job learns its vocabulary again. Two of the
package's trainers do not guarantee this: they iterate over the words in an order that differs between runs.

* WordPiece numbers the letters inside words in the order in which it sees them, and breaks ties between pairs by these numbers. Here the
  letters are passed in sorted order.
* The unigram trainer sums probabilities in the order of the words, which causes noise of about 1e-10 in their logarithms, and assigns
  pruned letters values slightly above the smallest one, in arbitrary order (increments of one ten-thousandth). Here these letters get one
  value, all logarithms are rounded to :data:`DIGITS` decimals, and pieces are sorted by value, then by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from relearn.data import roberta_tokens
from relearn.data.sentence_tokens import FAMILIES, SPECIAL, SentenceTokenizer

DIGITS = 3
STEP = 1.0e-4  # increment between letters pruned by the unigram trainer
INSIDE = "##"  # WordPiece's prefix of a piece inside a word


def train(family: str, texts: Iterable[str], vocabulary: int) -> SentenceTokenizer:
    """Learn a vocabulary.

    Args:
        family: one of ``relearn.data.sentence_tokens.FAMILIES``.
        texts: training texts only; test texts must not influence the vocabulary.
        vocabulary: size including the special tokens; smaller if nothing is left to merge.

    Raises:
        ValueError: an unknown family, no text, or no room for the letters (roberta: the bytes).
    """
    if family not in FAMILIES:
        raise ValueError(f"family: {family!r} (allowed: {', '.join(FAMILIES)})")
    texts = [text for text in texts if text.strip()]
    if not texts:
        raise ValueError("texts: none that is not blank (allowed: at least one)")
    if family == "roberta":
        return SentenceTokenizer(roberta_tokens.train(texts, vocabulary).to_json())
    own = _pieces(texts, vocabulary) if family == "bert" else _unigrams(texts, vocabulary)
    return SentenceTokenizer(own.to_str())


def _room(vocabulary: int, letters: int, what: str) -> None:
    least = letters + len(SPECIAL["bert"])
    if vocabulary < least:
        raise ValueError(
            f"vocabulary: {vocabulary} (allowed: at least {least}, {what} and the special tokens)"
        )


def _pieces(texts: list[str], vocabulary: int) -> Any:
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

    special = list(SPECIAL["bert"])
    own: Any = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    own.normalizer = normalizers.BertNormalizer(lowercase=True)
    own.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    own.decoder = decoders.WordPiece(prefix=INSIDE)
    letters = sorted(set().union(*(own.normalizer.normalize_str(text) for text in texts)))
    letters = [one for one in letters if own.pre_tokenizer.pre_tokenize_str(one)]
    # Punctuation marks are separate words, so they need no piece inside words.
    within = [f"{INSIDE}{one}" for one in letters if len(own.pre_tokenizer.pre_tokenize_str(f"a{one}")) == 1]
    _room(vocabulary, len(letters) + len(within), "the letters, and those inside words")
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary,
        special_tokens=[*special, *letters, *within],
        continuing_subword_prefix=INSIDE,
        show_progress=False,
    )
    own.train_from_iterator(texts, trainer)
    # The trainer keeps the given order only for "special" pieces; the flag is corrected here.
    own.model = models.WordPiece(own.get_vocab(), unk_token="[UNK]")
    plain = _without_added(own)
    plain.add_special_tokens(special)
    return plain


def _without_added(own: Any) -> Any:
    import tokenizers

    plain: Any = tokenizers.Tokenizer(own.model)
    plain.normalizer, plain.pre_tokenizer, plain.decoder = own.normalizer, own.pre_tokenizer, own.decoder
    return plain


def _unigrams(texts: list[str], vocabulary: int) -> Any:
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

    special = list(SPECIAL["albert"])
    own: Any = tokenizers.Tokenizer(models.Unigram())
    own.normalizer = normalizers.Sequence(
        [
            normalizers.Replace("``", '"'),
            normalizers.Replace("''", '"'),
            normalizers.NFKD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
        ]
    )
    own.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")]
    )
    own.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    letters = set().union(*("".join(own.normalizer.normalize_str(text).split()) for text in texts))
    _room(vocabulary, len(letters) + 1, "the letters, the mark of a word's beginning")
    trainer = trainers.UnigramTrainer(
        vocab_size=vocabulary, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    own.train_from_iterator(texts, trainer)
    found = json.loads(own.to_str())["model"]["vocab"]
    pieces = canonical_pieces([(text, value) for text, value in found if text not in special])
    own.model = models.Unigram([(text, 0.0) for text in special] + pieces, unk_id=1, byte_fallback=False)
    plain = _without_added(own)
    plain.add_special_tokens(special)
    return plain


def canonical_pieces(pieces: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Pieces with their log-probabilities, independent of the trainer's order; see the module."""
    least = min(value for _, value in pieces)
    letters = sum(len(text) == 1 for text, _ in pieces)
    pruned = least + STEP * (letters + 1)
    values = {text: least if len(text) == 1 and value < pruned else value for text, value in pieces}
    return sorted(
        ((text, round(value, DIGITS)) for text, value in values.items()), key=lambda one: (-one[1], one[0])
    )
