r"""Byte-pair encoding (Sennrich et al., 2016) with a joint vocabulary for both languages, based on the package ``tokenizers``.

The text is split at blanks, punctuation and digits, each piece with the blank before it, and converted to bytes;
training merges the most frequent adjacent symbols until ``vocabulary`` is reached. The alphabet is the set of bytes of
the TRAINING text, so

* a text whose bytes all occur there is decoded from its ids exactly, including blanks;
* each unseen byte becomes ``<unk>`` (3), which is counted as out of vocabulary.

The ids of the four special tokens are fixed: pad 0, bos 1, eos 2, unk 3. The characters "<pad>" in a text are ordinary
text and encoded as such.

fairseq's recipe for IWSLT'14, which zhu2022 (sec. 4.3) follows, first tokenises with Moses and lower-cases; here
the text is used unchanged and BLEU is measured on plain text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")


class FromJson:
    """What the tokenizers share: made from JSON (``to_json``), a size.

    Raises:
        ValueError: the JSON is not a tokenizer.
    """

    def __init__(self, text: str) -> None:
        import tokenizers

        try:
            self._own = tokenizers.Tokenizer.from_str(text)
        except Exception as fault:  # the package has no narrower class
            raise ValueError(f"tokenizer: its JSON cannot be read ({' '.join(str(fault).split())})") from None

    def __len__(self) -> int:
        """Size of the vocabulary, including the special tokens."""
        return int(self._own.get_vocab_size())

    def to_json(self) -> str:
        """The tokenizer as one JSON text; equal training texts and sizes give equal JSON."""
        return str(self._own.to_str())


class Marked(FromJson):
    """A tokenizer that adds special tokens, truncates and pads by its own rules, not by those of its file."""

    special: list[int]

    def mark(self, names: Sequence[str]) -> dict[str, int]:
        """Set ``special``, the ids of these tokens, which it returns by name; ValueError if one is missing."""
        found: dict[str, int] = {}
        for token in names:
            number = self._own.token_to_id(token)
            if number is None:
                raise ValueError(f"tokenizer: has no {token} (allowed: one with {', '.join(names)})")
            found[token] = number
        self.special = list(found.values())
        # The characters "<mask>" in a text are ordinary text; this is not stored in the JSON.
        self._own.encode_special_tokens = True
        self._own.no_truncation()
        self._own.no_padding()
        return found

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids, without special tokens."""
        return str(self._own.decode([int(one) for one in ids], skip_special_tokens=True))


class Tokenizer(FromJson):
    """Converts text to ids and back; made by ``train`` or from JSON (``to_json``).

    Raises:
        ValueError: the JSON is not a tokenizer, or its special tokens have other ids.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        found = [self._own.token_to_id(token) for token in SPECIAL]
        if found != [PAD, BOS, EOS, UNK]:
            raise ValueError(f"tokenizer: {', '.join(SPECIAL)} have the ids {found}; allowed: 0, 1, 2, 3")
        self._own.encode_special_tokens = True  # not stored in the JSON

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Ids of each sentence, without bos and eos."""
        return [one.ids for one in self._own.encode_batch(list(sentences), add_special_tokens=False)]

    def decode(self, ids: Iterable[int]) -> str:
        """The sentence up to the first eos, without pad and bos; unk is shown as ``<unk>``."""
        kept: list[int] = []
        for one in ids:
            if one == EOS:
                break
            if one not in (PAD, BOS):
                kept.append(int(one))
        return str(self._own.decode(kept, skip_special_tokens=False)).removeprefix(" ")


def train(sentences: Iterable[str], vocabulary: int) -> Tokenizer:
    """Learn a vocabulary from the training sentences of both languages.

    Args:
        sentences: training text only; the test set must not influence the vocabulary.
        vocabulary: size including the four special tokens; smaller if the text has no pair left to merge.

    Raises:
        ValueError: the vocabulary cannot hold the text's alphabet.
    """
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers

    own = tokenizers.Tokenizer(models.BPE(unk_token=SPECIAL[UNK]))
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    own.decoder = decoders.ByteLevel()
    sentences = list(sentences)
    alphabet = len(set().union(*(set(sentence.encode()) for sentence in sentences), b" "))
    if vocabulary < alphabet + len(SPECIAL):
        raise ValueError(
            f"vocabulary is {vocabulary}; allowed: at least {alphabet + len(SPECIAL)}, the bytes of the training "
            "text and the four special tokens"
        )
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=list(SPECIAL), show_progress=False)
    own.train_from_iterator(sentences, trainer)
    return Tokenizer(own.to_str())
