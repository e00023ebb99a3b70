"""enwik8 and text8: 100,000,000 bytes each, from Matt Mahoney's page on text compression.

``enwik8`` is the beginning of the English Wikipedia's dump of 3 March 2006, including XML and markup: 205 different bytes.
``text8`` is Wikipedia text reduced to the letters a to z and the space: 27 different bytes. Character language models
split both by position, 90 million characters for training, 5 million for validation and 5 million for test (zhu2022,
section 5.3.2).

The text belongs to Wikipedia (CC BY-SA, GFDL); nothing of it is in this repository.

The source is a ``folder`` with the file (``enwik8``) or its archive (``enwik8.zip``), else the archive is downloaded into
the cache. In all cases the text must equal the official one byte for byte.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from relearn.data.archive import zip_member
from relearn.data.remote import Remote, fault_of
from relearn.data.streams import Stream

BYTES = 100_000_000
PLACES = ("https://mattmahoney.net/dc/{name}.zip", "https://data.deepai.org/{name}.zip")
# Size and sha256 of the archive; sha256 of the text inside.
OFFICIAL = {
    "enwik8": (
        36445475,
        "547994d9980ebed1288380d652999f38a14fe291a6247c157c3d33d4932534bc",
        "2b49720ec4d78c3c9fabaee6e4179a5e997302b3a70029f30f2d582218c024a8",
    ),
    "text8": (
        31344016,
        "a6640522afe85d1963ad56c05b0ede0a0c000dddc9671758a6cc09b7a38e5232",
        "6e890197040d37d85beb962ae1f041ff1d9a9ca8d20c7d99c85027eebf51dca7",
    ),
}


def enwik8(folder: Path | None = None) -> Stream:
    """The first 10^8 bytes of an English Wikipedia dump.

    Raises:
        ValueError: another text, or no file in ``folder``.
        OSError: the file cannot be read or fetched.
    """
    return load("enwik8", folder)


def text8(folder: Path | None = None) -> Stream:
    """10^8 bytes of Wikipedia text with the letters a to z and spaces only.

    Raises:
        ValueError: another text, or no file in ``folder``.
        OSError: the file cannot be read or fetched.
    """
    return load("text8", folder)


def remote(name: str) -> Remote:
    """The download of the archive; in the cache it is ``<name>.zip``."""
    size, sha256, _ = OFFICIAL[name]
    urls = tuple(place.format(name=name) for place in PLACES)
    return Remote(name=f"{name}.zip", urls=urls, size=size, sha256=sha256)


def load(name: str, folder: Path | None = None) -> Stream:
    """One of the two streams, verified by its sha256."""
    content = _content(name, folder)
    found = hashlib.sha256(content).hexdigest()
    if found != OFFICIAL[name][2]:
        raise ValueError(f"{name}: sha256 {found}, expected {OFFICIAL[name][2]}; not the official text")
    return Stream(content, {"from": PLACES[0].format(name=name), "sha256": found})


def _content(name: str, folder: Path | None) -> bytes:
    if folder is None:
        from relearn.data.download import fetch

        return _unpacked(fetch(remote(name)), name)
    text, packed = folder / name, folder / f"{name}.zip"
    if text.is_file():
        if text.stat().st_size != BYTES:
            raise ValueError(f"{text}: {text.stat().st_size} bytes, expected {BYTES}; not the official text")
        return text.read_bytes()
    if not packed.is_file():
        raise ValueError(f"{folder}: has neither {name} nor {name}.zip; allowed: one of them")
    if fault := fault_of(packed, remote(name)):
        raise ValueError(f"{packed}: {fault}; not the official archive")
    return _unpacked(packed, name)


def _unpacked(path: Path, name: str) -> bytes:
    content = zip_member(path, name)
    if content is None:
        raise ValueError(f"{path}: has no {name}; allowed: an archive with the file {name}")
    return content
