r"""Tokenisation of sentences and pairs for RoBERTa, BERT and ALBERT.

| family | vocabulary | one text | a pair | token types |
|---|---|---|---|---|
| roberta | byte-level byte-pair encoding | ``<s> a </s>`` | ``<s> a </s></s> b </s>`` | none |
| bert | WordPiece, lower case, without accents | ``[CLS] a [SEP]`` | ``[CLS] a [SEP] b [SEP]`` | 0 up to the first ``[SEP]``, then 1 |
| albert | unigram language model, lower case, without accents | as bert | as bert | as bert |

(Liu et al., 2019; Devlin et al., 2019; Lan et al., 2020.) A tokenizer comes from a checkpoint or is trained here, see
``relearn.data.sentence_vocabulary``. The characters ``<mask>`` in a text are ordinary text.

Rows that are too long are truncated longest first: the longer of the two texts loses its last token until both fit; if they are
equally long, the one that was originally shorter is truncated (the first one, if they were equal). This is the rule of
``transformers``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from relearn.data.bpe import Marked

Row = tuple[str, str | None]

# In the order of their ids if a vocabulary is trained here: begin, padding, end, unknown and mask are found by name, not position.
SPECIAL = {
    "roberta": ("<s>", "<pad>", "</s>", "<unk>", "<mask>"),
    "bert": ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    "albert": ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
}
FAMILIES = tuple(SPECIAL)
TYPES = {"roberta": 1, "bert": 2, "albert": 2}
MODELS = {"BPE": "roberta", "WordPiece": "bert", "Unigram": "albert"}
ROLES = {  # begin, padding, end, mask
    "roberta": ("<s>", "<pad>", "</s>", "<mask>"),
    "bert": ("[CLS]", "[PAD]", "[SEP]", "[MASK]"),
    "albert": ("[CLS]", "<pad>", "[SEP]", "[MASK]"),
}
SPARE = 128  # additional embeddings that a model may have: tables are rounded up for efficiency


class SentenceTokenizer(Marked):
    """Converts texts and pairs to ids and back; made by :func:`train`, from a checkpoint, or from JSON.

    Attributes:
        family: one of :data:`FAMILIES`, inferred from the kind of vocabulary.
        bos, pad, eos, mask: ids of the tokens for begin, padding, end (and separation) and mask.
        special: ids of all of :data:`SPECIAL`.
        types: number of token types of the family; 1 means that the model gets none.

    Raises:
        ValueError: the JSON is not a tokenizer, its vocabulary is of an unknown kind, or it lacks a special token.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        kind = type(self._own.model).__name__
        if kind not in MODELS:
            raise ValueError(f"tokenizer: its vocabulary is {kind} (allowed: {', '.join(MODELS)})")
        self.family = MODELS[kind]
        self.types = TYPES[self.family]
        found = self.mark(SPECIAL[self.family])
        self.bos, self.pad, self.eos, self.mask = (found[token] for token in ROLES[self.family])
        self._own.post_processor = _ends(self.family, self.bos, self.eos)

    @classmethod
    def from_json(cls, text: str) -> SentenceTokenizer:
        """The tokenizer from the JSON of :meth:`to_json`, or from a checkpoint's ``tokenizer.json``."""
        return cls(text)

    @classmethod
    def of_checkpoint(cls, name: str | Path) -> SentenceTokenizer:
        """The tokenizer of a published checkpoint, a hub's name or a folder, through ``transformers`` and its cache.

        Raises:
            ValueError: there is none, or it belongs to no family supported here.
            OSError: it can neither be read nor fetched.
        """
        from transformers import AutoTokenizer

        try:
            found = AutoTokenizer.from_pretrained(str(name))
        except Exception as fault:  # of various classes, depending on what is missing or damaged
            message = (
                f"checkpoint: {name} has no tokenizer that can be read ({' '.join(str(fault).split())[:200]})"
            )
            raise (OSError if isinstance(fault, OSError) else ValueError)(message) from None
        backend = getattr(found, "backend_tokenizer", None)
        if backend is None:
            raise ValueError(f"checkpoint: {name} has a slow tokenizer (allowed: one with tokenizer.json)")
        return cls(backend.to_str())

    def encode(self, rows: Sequence[Row], longest: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Ids (int32) and token types (int8) of each row, in the family's format, truncated to ``longest`` including special tokens.

        Args:
            rows: pairs of a text and a second text or None.
            longest: maximum number of tokens of a row.

        Raises:
            ValueError: ``longest`` leaves no room for a token of each text.
        """
        rows = list(rows)
        paired = any(other is not None for _, other in rows)
        least = int(self._own.num_special_tokens_to_add(paired)) + (2 if paired else 1)
        if longest < least:
            form = "a token of each of two texts" if paired else "a token"
            raise ValueError(
                f"max_length: {longest} (allowed: at least {least}, {form} and the special ones)"
            )
        given: list[Any] = [text if other is None else (text, other) for text, other in rows]
        self._own.enable_truncation(longest, strategy="longest_first")
        try:
            found = self._own.encode_batch(given, add_special_tokens=True)
        finally:
            self._own.no_truncation()
        return [(np.array(one.ids, dtype=np.int32), np.array(one.type_ids, dtype=np.int8)) for one in found]

    def encode_texts(self, texts: Iterable[str], longest: int) -> list[np.ndarray]:
        """Ids of single texts, as required by ``relearn.data.masked_batches.TokenBatches``."""
        return [ids for ids, _ in self.encode([(text, None) for text in texts], longest)]

    def check_model(self, config: Any) -> None:
        """Check that a model has the same vocabulary.

        Args:
            config: config of a ``transformers`` model: ``vocab_size``, and if present ``model_type``, ``pad_token_id`` and
                ``type_vocab_size``.

        Raises:
            ValueError: fewer embeddings than tokens, or more than :data:`SPARE` additional ones; another family; another padding
                id; fewer token types.
        """
        rows, count = int(config.vocab_size), len(self)
        if not count <= rows <= count + SPARE:
            raise ValueError(
                f"tokenizer: {count} tokens, the model embeds {rows} (allowed: {count} to {count + SPARE} embeddings)"
            )
        for key, own in (("model_type", self.family), ("pad_token_id", self.pad)):
            theirs = getattr(config, key, None)
            if theirs not in (None, "", own):
                raise ValueError(f"tokenizer: {key} is {own!r}, the model's {theirs!r} (allowed: the same)")
        types = getattr(config, "type_vocab_size", None)
        if types is not None and types < self.types:
            raise ValueError(
                f"tokenizer: {self.types} token types, the model has {types} (allowed: at least as many)"
            )


def _ends(family: str, begin: int, end: int) -> Any:
    """A processor that adds the special tokens around one text or between two."""
    from tokenizers import processors

    first, _, last, _ = ROLES[family]
    if family == "roberta":
        return processors.RobertaProcessing(
            (last, end), (first, begin), trim_offsets=True, add_prefix_space=False
        )
    return processors.TemplateProcessing(
        single=f"{first}:0 $A:0 {last}:0",
        pair=f"{first}:0 $A:0 {last}:0 $B:1 {last}:1",
        special_tokens=[(first, begin), (last, end)],
    )
