"""The prepared characters: written by `relearn l2_attention prepare_ptb_lines`, read by every character language model.

``characters.safetensors``; <part> is train, valid or test:

==============  ====================================================  ================================
tensor          meaning                                               type
==============  ====================================================  ================================
<part>_ids      concatenated ids of all lines, without bos and eos    uint8; int16 above 256 ids
<part>_offsets  start of each line, and end of the last: (N + 1,)     int64
==============  ====================================================  ================================

The header holds, as one JSON text, so that equal texts give equal bytes: the text's name, the characters of the vocabulary in the order
of their ids, and the maximum length of a line.

Ids: pad 0, bos 1 (the first input of a network), eos 2, unknown 3 (a character that does not occur in train), then the characters of the
training lines in the order of their code points. Lines longer than ``max_length`` characters are dropped in every part; a network reads
bos and the line, so at most ``max_length + 1`` positions, and predicts the line and eos.

The word ``<unk>`` of the Penn Treebank is ordinary text of five characters. kim2020 does not specify this; the code of the publication
whose data it names (Ziegler and Rush, 2019) reads a stripped line character by character, and the usual character form of the treebank
spells the word out, too. A single symbol would increase the loss per character: four of the five characters, 3.6% of the training
characters, are almost certain.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from relearn.data import prepared_file
from relearn.data.bpe import BOS, EOS, PAD, UNK
from relearn.data.evenly_spaced import evenly_spaced_rows
from relearn.data.sentence_pairs import PARTS
from relearn.data.text_lines import Text

if TYPE_CHECKING:
    from relearn.data.token_batches import Ragged

STEP = "l2_attention prepare_ptb_lines"
FIRST = 4  # id of the first character, after the special ones
UNKNOWN = "\ufffd"  # decoded form of an unknown character
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class PreparedCharacters:
    """A prepared text on the CPU.

    Attributes:
        dataset: the text's name.
        characters: characters of the vocabulary; the first has id 4.
        max_length: maximum number of characters of a line.
        arrays: see the module.
    """

    dataset: str
    characters: str
    max_length: int
    arrays: Arrays

    @property
    def vocabulary(self) -> int:
        """Number of ids, including pad 0, bos 1, eos 2 and unknown 3."""
        return FIRST + len(self.characters)

    def part(self, name: str) -> Ragged:
        """The lines of train, valid or test as ids without bos and eos.

        Raises:
            ValueError: no such part.
        """
        import torch

        from relearn.data.token_batches import Ragged

        ids, offsets = self.flat(name)
        return Ragged(torch.from_numpy(ids.astype(np.int32)), torch.from_numpy(offsets))

    def flat(self, name: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """As :meth:`part`, without torch: (ids, offsets).

        Raises:
            ValueError: no such part.
        """
        if name not in PARTS:
            raise ValueError(f"part is {name!r}; allowed: {', '.join(PARTS)}")
        return self.arrays[f"{name}_ids"], self.arrays[f"{name}_offsets"]

    def encode(self, line: str) -> list[int]:
        """The ids of a line, without bos and eos."""
        ids: list[int] = _ids(line, self.characters).tolist()
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of these ids up to the first eos; pad and bos are dropped, an unknown character becomes U+FFFD.

        Raises:
            ValueError: an id outside the vocabulary.
        """
        line = []
        for one in ids:
            if not 0 <= one < self.vocabulary:
                raise ValueError(f"id is {one}; allowed: 0 to {self.vocabulary - 1}")
            if one == EOS:
                break
            if one not in (PAD, BOS):
                line.append(UNKNOWN if one == UNK else self.characters[one - FIRST])
        return "".join(line)


def prepare(
    text: Text,
    *,
    name: str,
    max_length: int,
    train_sentences: int = 0,
    valid_sentences: int = 0,
    test_sentences: int = 0,
) -> tuple[PreparedCharacters, dict[str, float]]:
    """Drop long lines, build the vocabulary from train, convert everything to ids, and count.

    Args:
        text: result of a text's loader.
        name: the text's name, for the header.
        max_length: maximum number of characters per line, in every part.
        train_sentences: number of evenly spaced lines to use, 0 for all; the vocabulary is built from these only.
        valid_sentences, test_sentences: likewise.

    Returns:
        the prepared text, and its metrics with the unit in the name: for each part the lines used (``train_sentences_count``), their
        characters (``train_characters_count``, without eos) and the lines dropped (``train_left_out_count``); ``left_out_frac`` of the
        lines of all parts, ``vocabulary_count`` (ids, including the special ones), ``longest_count`` (characters of the longest line
        used), ``unknown_frac`` (of the characters of valid and test).

    Raises:
        ValueError: a number is out of range, or a part has no line short enough.
    """
    if max_length < 1:
        raise ValueError(f"max_length is {max_length}; allowed: 1 or more")
    counts = {"train": train_sentences, "valid": valid_sentences, "test": test_sentences}
    lines: dict[str, list[str]] = {}
    metrics: dict[str, float] = {}
    for part, count in counts.items():
        if count < 0:
            raise ValueError(f"{part}_sentences is {count}; allowed: 0 (all) or more")
        every = getattr(text, part)
        short = [line for line in every if len(line) <= max_length]
        if not short:
            shortest = min(map(len, every))
            raise ValueError(
                f"max_length is {max_length}; allowed: at least {shortest}, {part}'s shortest line"
            )
        lines[part] = evenly_spaced_rows(short, count)
        metrics[f"{part}_sentences_count"] = float(len(lines[part]))
        metrics[f"{part}_characters_count"] = float(sum(map(len, lines[part])))
        metrics[f"{part}_left_out_count"] = float(len(every) - len(short))
    characters = "".join(sorted(set().union(*lines["train"])))
    kind = np.uint8 if FIRST + len(characters) <= 256 else np.int16
    if FIRST + len(characters) > np.iinfo(np.int16).max:
        raise ValueError(f"train: {len(characters)} different characters; allowed: at most 32763")
    arrays: Arrays = {}
    for part in PARTS:
        arrays[f"{part}_ids"] = _ids("".join(lines[part]), characters).astype(kind)
        arrays[f"{part}_offsets"] = np.cumsum([0, *map(len, lines[part])], dtype=np.int64)
    every_line = sum(len(getattr(text, part)) for part in PARTS)
    held = np.concatenate([arrays[f"{part}_ids"] for part in PARTS[1:]])
    metrics |= {
        "left_out_frac": sum(metrics[f"{part}_left_out_count"] for part in PARTS) / every_line,
        "vocabulary_count": float(FIRST + len(characters)),
        "longest_count": float(max(len(line) for part in PARTS for line in lines[part])),
        "unknown_frac": float((held == UNK).mean()),
    }
    return PreparedCharacters(name, characters, max_length, arrays), metrics


def save_characters(prepared: PreparedCharacters, path: Path) -> None:
    """Write ``characters.safetensors``, byte for byte the same for the same text.

    Raises:
        OSError: the file cannot be written.
    """
    header = {
        "text": prepared.dataset,
        "characters": prepared.characters,
        "max_length": prepared.max_length,
    }
    prepared_file.write(path, prepared.arrays, header)


def load_characters(path: Path | str) -> PreparedCharacters:
    """Read the file written by `relearn l2_attention prepare_ptb_lines`.

    Raises:
        SafetensorError: the file is damaged.
        ValueError: it does not hold a prepared text.
        OSError: it cannot be read.
    """
    header, arrays = prepared_file.read(
        path,
        "text",
        STEP,
        fields=("text", "characters", "max_length"),
        arrays=[f"{part}_{kind}" for part in PARTS for kind in ("ids", "offsets")],
    )
    return PreparedCharacters(header["text"], header["characters"], header["max_length"], arrays)


def _ids(text: str, characters: str) -> NDArray[np.int64]:
    """Ids of a text; ``characters`` are in the order of their code points."""
    known, found = (np.frombuffer(one.encode("utf-32-le"), np.uint32) for one in (characters, text))
    if not len(known):
        return np.full(len(found), UNK)
    place = np.searchsorted(known, found).clip(max=len(known) - 1)
    return np.where(known[place] == found, place + FIRST, UNK)
