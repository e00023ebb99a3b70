"""The prepared corpus: written by `relearn gradinit prepare_translation`, read by every later step of translation.

``corpus.safetensors``; <part> is train, valid or test, <side> source or target:

=====================  =================================================================  ===========
tensor                 meaning                                                            type
=====================  =================================================================  ===========
<part>_<side>_ids      concatenated ids of all sentences, without bos and eos             int32
<part>_<side>_offsets  start of each sentence, and end of the last: (N + 1,)              int64
<part>_<side>_text     valid and test only: the original sentences as UTF-8 lines, so     uint8
                       that BLEU uses the original text and not text decoded from ids
=====================  =================================================================  ===========

The header holds, as one JSON text, so that equal corpora give equal bytes: the corpus's name, the languages, and the tokenizer as JSON.
torch is imported only when pairs are requested.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from relearn.data import prepared_file
from relearn.data.bpe import UNK, Tokenizer, train
from relearn.data.evenly_spaced import evenly_spaced_rows
from relearn.data.sentence_pairs import PARTS, Corpus

if TYPE_CHECKING:
    from relearn.data.token_batches import TokenPairs

SIDES = ("source", "target")
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class PreparedCorpus:
    """A prepared corpus on the CPU.

    Attributes:
        dataset: the corpus's name.
        languages: of source and target, as (source, target).
        tokenizer_json: see ``tokenizer``.
        arrays: see the module.
    """

    dataset: str
    languages: tuple[str, str]
    tokenizer_json: str
    arrays: Arrays

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer."""
        return Tokenizer(self.tokenizer_json)

    @property
    def vocabulary(self) -> int:
        """Number of ids, including pad 0, bos 1, eos 2 and unk 3."""
        return len(self.tokenizer)

    def pairs(self, part: str) -> TokenPairs:
        """The ids of train, valid or test.

        Raises:
            ValueError: no such part.
        """
        import torch

        from relearn.data.token_batches import Ragged, TokenPairs

        _known(part, PARTS)
        source, target = (
            Ragged(
                torch.from_numpy(self.arrays[f"{part}_{side}_ids"]),
                torch.from_numpy(self.arrays[f"{part}_{side}_offsets"]),
            )
            for side in SIDES
        )
        return TokenPairs(source, target)

    def texts(self, part: str, side: str = "target") -> list[str]:
        """The original sentences of valid or test; by default BLEU's references.

        Raises:
            ValueError: no such part or side; train is stored as ids only, which ``decode`` converts to text.
        """
        _known(part, PARTS[1:])
        if side not in SIDES:
            raise ValueError(f"side is {side!r}; allowed: {', '.join(SIDES)}")
        return self.arrays[f"{part}_{side}_text"].tobytes().decode().split("\n")[:-1]

    def decode(self, ids: Iterable[int]) -> str:
        """The sentence of these ids, up to the first eos; see ``relearn.data.bpe.Tokenizer.decode``."""
        return self.tokenizer.decode(ids)


def prepare(
    corpus: Corpus, *, name: str, vocabulary: int, max_length: int, train_pairs: int = 0, test_pairs: int = 0
) -> tuple[PreparedCorpus, dict[str, float]]:
    """Learn the vocabulary on train, convert everything to ids, and count.

    Pairs of TRAIN longer than ``max_length`` ids on either side (without eos) are dropped; valid and test keep every
    pair, so that no result depends on memory limits.

    Args:
        corpus: result of a corpus's loader.
        name: the corpus's name, for the header.
        vocabulary: size of the joint vocabulary, including the four special ids; smaller for very little text.
        max_length: see above.
        train_pairs: number of evenly spaced pairs of train to use, 0 for all; the vocabulary is learned from these only.
        test_pairs: likewise for valid and for test.

    Returns:
        the prepared corpus, and its metrics with the unit in the name.

    Raises:
        ValueError: a number is out of range, or no training pair is short enough.
    """
    if max_length < 1:
        raise ValueError(f"max_length is {max_length}; allowed: 1 or more")
    parts = {
        part: evenly_spaced_rows(getattr(corpus, part), train_pairs if part == "train" else test_pairs)
        for part in PARTS
    }
    tokenizer = train((sentence for pair in parts["train"] for sentence in pair), vocabulary)
    metrics = {"vocabulary_count": float(len(tokenizer))}
    arrays: Arrays = {}
    for part, pairs in parts.items():
        rows = [tokenizer.encode([pair[side] for pair in pairs]) for side in (0, 1)]
        if part == "train":
            short = [max(len(one), len(other)) <= max_length for one, other in zip(*rows)]
            rows = [[row for row, keep in zip(side, short) if keep] for side in rows]
            metrics["dropped_long_count"] = float(short.count(False))
            if not any(short):
                raise ValueError(
                    f"max_length is {max_length}; allowed: at least the shortest training pair's length"
                )
        metrics[f"{part}_pairs_count"] = float(len(rows[0]))
        for side, (name_of_side, ids) in enumerate(zip(SIDES, rows)):
            flat = np.array([one for row in ids for one in row], np.int32)
            arrays[f"{part}_{name_of_side}_ids"] = flat
            offsets = np.cumsum([0, *map(len, ids)], dtype=np.int64)
            arrays[f"{part}_{name_of_side}_offsets"] = offsets
            metrics[f"{part}_{name_of_side}_tokens_mean_count"] = len(flat) / len(ids)
            metrics[f"{part}_{name_of_side}_tokens_max_count"] = float(np.diff(offsets).max())
            if part != "train":
                lines = "".join(pair[side] + "\n" for pair in pairs)
                arrays[f"{part}_{name_of_side}_text"] = np.frombuffer(lines.encode(), np.uint8)
                metrics[f"{part}_{name_of_side}_unknown_frac"] = float((flat == UNK).mean())
    seen = {pair[0] for pair in parts["train"]}
    for part in PARTS[1:]:
        metrics[f"{part}_sources_in_train_count"] = float(sum(pair[0] in seen for pair in parts[part]))
    return PreparedCorpus(name, corpus.languages, tokenizer.to_json(), arrays), metrics


def save_corpus(corpus: PreparedCorpus, path: Path) -> None:
    """Write ``corpus.safetensors``, byte for byte the same for the same corpus.

    Raises:
        OSError: the file cannot be written.
    """
    header = {
        "corpus": corpus.dataset,
        "languages": list(corpus.languages),
        "tokenizer": corpus.tokenizer_json,
    }
    prepared_file.write(path, corpus.arrays, header)


def load_corpus(path: Path | str) -> PreparedCorpus:
    """Read the file written by `relearn gradinit prepare_translation`.

    Raises:
        SafetensorError: the file is damaged.
        ValueError: it does not hold a prepared corpus.
        OSError: it cannot be read.
    """
    header, arrays = prepared_file.read(
        path,
        "corpus",
        "gradinit prepare_translation",
        fields=("corpus", "languages", "tokenizer"),
        arrays=[f"{part}_{side}_{kind}" for part in PARTS for side in SIDES for kind in ("ids", "offsets")],
    )
    return PreparedCorpus(header["corpus"], tuple(header["languages"]), header["tokenizer"], arrays)


def _known(part: str, allowed: tuple[str, ...]) -> None:
    if part not in allowed:
        raise ValueError(f"part is {part!r}; allowed: {', '.join(allowed)}")
