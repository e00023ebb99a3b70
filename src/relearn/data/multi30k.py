"""Multi30k, German → English: 29,000 captions of photographs for training, 1,014 for validation, 1,000 for test (Elliott et al., 2016).

Task 1 of the WMT16 multimodal task: each German caption is a professional translation of the English one. The
test part is ``test_2016_flickr``. Captions are short and uniform; at some scales the set replaces IWSLT'14, on which
zhu2022 trained.

The first available source is used:

1. ``folder`` with the six plain files ``{train,val,test_2016_flickr}.{de,en}``, one sentence per line, UTF-8;
2. ``folder`` with the same names and ``.gz``;
3. the official repository's own six files, downloaded into the cache.

White space inside a sentence is reduced to single blanks (129 German training captions have more). ``source["copy"]`` is
``official`` if all six files equal the official ones byte for byte, else ``unknown``.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from pathlib import Path
from typing import Any

from relearn.data.remote import Remote
from relearn.data.sentence_pairs import Corpus, Pair, tidy

LANGUAGES = ("de", "en")
STEMS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
COMMIT = "a3d2e0d26b56f3846f66a952536ffed4e401d05a"
PLACES = (
    f"https://raw.githubusercontent.com/multi30k/dataset/{COMMIT}/data/task1/raw",
    f"https://github.com/multi30k/dataset/raw/{COMMIT}/data/task1/raw",
)
LARGEST = 64 * 1024**2  # bytes of text per file, far above the actual sizes

# Packed size, sha256 of the packed file, sha256 of its text.
OFFICIAL: dict[str, tuple[int, str, str]] = {
    "train.de": (
        637044,
        "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
        "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    ),
    "train.en": (
        568929,
        "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
        "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    ),
    "val.de": (
        24681,
        "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
        "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    ),
    "val.en": (
        21650,
        "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
        "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    ),
    "test_2016_flickr.de": (
        22890,
        "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
        "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    ),
    "test_2016_flickr.en": (
        21077,
        "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
        "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    ),
}


def remote(name: str) -> Remote:
    """The download of ``name`` ("train.de"); in the cache its name is prefixed with the corpus's."""
    size, packed, _ = OFFICIAL[name]
    return Remote(
        name=f"multi30k-{name}.gz",
        urls=tuple(f"{place}/{name}.gz" for place in PLACES),
        size=size,
        sha256=packed,
    )


def load(folder: Path | None = None) -> Corpus:
    """Multi30k in official order.

    Args:
        folder: see the module; None downloads.

    Raises:
        ValueError: a file is missing, not UTF-8 or too large, or the languages have unequal numbers of sentences.
        OSError: files cannot be read or fetched.
    """
    source: dict[str, Any] = {"from": PLACES[0] if folder is None else "a folder with the text files"}
    parts: dict[str, list[Pair]] = {}
    digests = {}
    for part, stem in STEMS.items():
        sides = []
        for language in LANGUAGES:
            name = f"{stem}.{language}"
            path, content = _content(folder, name)
            digests[name] = hashlib.sha256(content).hexdigest()
            sides.append(sentences(content, path))
        if len(sides[0]) != len(sides[1]):
            raise ValueError(
                f"{stem}: {len(sides[0])} sentences in {LANGUAGES[0]}, {len(sides[1])} in {LANGUAGES[1]}; "
                "allowed: equal numbers"
            )
        parts[part] = list(zip(*sides))
    official = all(digests[name] == OFFICIAL[name][2] for name in OFFICIAL)
    source |= {"copy": "official" if official else "unknown", "sha256_of_files": digests}
    return Corpus(**parts, languages=LANGUAGES, source=source)


def sentences(content: bytes, path: Path) -> list[str]:
    """The lines of a UTF-8 text with normalised white space; only a line feed ends a line.

    Raises:
        ValueError: not UTF-8; the message names the position.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as fault:
        raise ValueError(f"{path}: not UTF-8 at byte {fault.start}; allowed: UTF-8 text") from None
    return [tidy(line) for line in text.removesuffix("\n").split("\n")]


def _content(folder: Path | None, name: str) -> tuple[Path, bytes]:
    if folder is None:
        from relearn.data.download import fetch

        packed = fetch(remote(name))
    elif (folder / name).exists():
        return folder / name, (folder / name).read_bytes()
    else:
        packed = folder / f"{name}.gz"
    try:
        with gzip.open(packed) as file:
            content = file.read(LARGEST + 1)
    except FileNotFoundError:
        raise ValueError(f"{folder}: has neither {name} nor {name}.gz; allowed: one of them") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as fault:
        raise ValueError(
            f"{packed}: not a gzip file, or truncated ({' '.join(str(fault).split())})"
        ) from None
    if len(content) > LARGEST:
        raise ValueError(f"{packed}: more than {LARGEST} bytes of text; allowed: at most this")
    return packed, content
