"""IWSLT'14 German → English: subtitles of TED talks (Cettolo et al., 2014), the translation task of zhu2022, sec. 4.3.

The parts follow fairseq's recipe, on which the published numbers are based (160,239 / 7,283 / 6,750 pairs):

* training text ``train.tags.de-en.{de,en}``: lines with talk ids, addresses and key words are removed, titles and descriptions are kept
  without their tags; pairs with an empty side, more than 175 words on a side or a length ratio above 1.5 are removed; everything is
  lower-cased;
* valid: every 23rd of the remaining pairs; train: the others;
* test: the five older development and test sets in sequence, ``IWSLT14.TED.{dev2010,tst2010,tst2011,tst2012}`` and
  ``IWSLT14.TEDX.dev2012``.

One difference: the recipe counts words after Moses tokenisation and trains on its output. Here words and punctuation marks are counted by a
regular expression, and the text is only lower-cased. The number of pairs removed by the two limits may therefore differ slightly; the
record holds both our counts and the published ones.

``folder`` holds the official archive ``de-en.tgz`` (release 2014-01 of WIT³) or its files, directly or in a folder ``de-en``. The
archive is not downloaded automatically: its authors publish no checksum and its original site is closed, so a download could not
be verified. The error message names a copy.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path

from relearn.data.remote import DownloadError
from relearn.data.sentence_pairs import Corpus, Pair, tidy

LANGUAGES = ("de", "en")
ARCHIVE = "de-en.tgz"
WHERE = (
    "https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz (a copy of "
    "https://wit3.fbk.eu/archive/2014-01/texts/de/en/de-en.tgz)"
)
TRAIN = tuple(f"train.tags.de-en.{language}" for language in LANGUAGES)
TESTS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
TEST = tuple(f"IWSLT14.{name}.de-en.{language}.xml" for name in TESTS for language in LANGUAGES)
PARTLY = "valid_test.de-en.tsv"  # a circulating copy of the recipe's valid and test parts, without train
PUBLISHED = {"train": 160_239, "valid": 7_283, "test": 6_750}
LONGEST, RATIO, EVERY = 175, 1.5, 23

ABOUT_THE_TALK = re.compile(r"\s*<(url|talkid|keywords|speaker|reviewer|translator)\b")
TAG = re.compile(r"</?(title|description)>")
SEGMENT = re.compile(r'<seg\s+id="(\d+)">(.*?)</seg>', re.DOTALL)
WORD = re.compile(r"\w+|[^\w\s]")


def load(folder: Path | None = None) -> Corpus:
    """The three parts, see the module; ``source["pairs"]`` holds our counts and the published ones.

    Raises:
        DownloadError: no folder is given; the message names the file to fetch and where to put it.
        ValueError: the folder lacks a file, or its contents are inconsistent.
        OSError: a file cannot be read.
    """
    if folder is None:
        raise DownloadError(
            f"iwslt14: not downloaded automatically, because there is no checksum to verify it; by hand: fetch {WHERE} and put it at "
            f"$RELEARN_MIRROR/iwslt14/{ARCHIVE}"
        )
    read = _reader(folder)
    train, valid = split_valid(
        filter_pairs(training_pairs(read(TRAIN[0]), read(TRAIN[1]), name=TRAIN[0].removesuffix(".de")))
    )
    test: list[Pair] = []
    for german, english in zip(TEST[::2], TEST[1::2]):
        test += segment_pairs(read(german), read(english), name=german.removesuffix(".de.xml"))
    parts = {"train": train, "valid": valid, "test": test}
    counts = {part: {"here": len(pairs), "published": PUBLISHED[part]} for part, pairs in parts.items()}
    return Corpus(**parts, languages=LANGUAGES, source={"from": f"a folder with {ARCHIVE}", "pairs": counts})


def training_pairs(german: str, english: str, *, name: str) -> list[Pair]:
    """The aligned lines of the tagged training text, lower-cased and with normalised white space; sides may be empty.

    Raises:
        ValueError: unequal numbers of lines, or a line of metadata is aligned with a sentence.
    """
    lines = [text.removesuffix("\n").split("\n") for text in (german, english)]
    if len(lines[0]) != len(lines[1]):
        raise ValueError(
            f"{name}: {len(lines[0])} lines in de, {len(lines[1])} in en; allowed: equal numbers"
        )
    pairs = []
    for number, both in enumerate(zip(*lines), start=1):
        about = [ABOUT_THE_TALK.match(line) is not None for line in both]
        if about[0] != about[1]:
            raise ValueError(
                f"{name}: line {number} is about the talk in one language and a sentence in the other"
            )
        if not about[0]:
            first, second = (tidy(TAG.sub("", line)).lower() for line in both)
            pairs.append((first, second))
    return pairs


def filter_pairs(pairs: list[Pair]) -> list[Pair]:
    """Pairs with 1 to 175 words on both sides and a length ratio of at most 1.5.

    A word is a run of letters and digits, or one other mark.
    """
    good = []
    for pair in pairs:
        short, long = sorted(len(WORD.findall(side)) for side in pair)
        if short >= 1 and long <= LONGEST and long <= RATIO * short:
            good.append(pair)
    return good


def split_valid(pairs: list[Pair]) -> tuple[list[Pair], list[Pair]]:
    """(train, valid): the 23rd, 46th, … pairs form valid."""
    return [pair for number, pair in enumerate(pairs, start=1) if number % EVERY], pairs[EVERY - 1 :: EVERY]


def segment_pairs(german: str, english: str, *, name: str) -> list[Pair]:
    """The aligned segments of one XML set, lower-cased, with normalised white space and plain apostrophes.

    Raises:
        ValueError: the two languages have different segments.
    """
    found = [SEGMENT.findall(text) for text in (german, english)]
    numbers = [[number for number, _ in side] for side in found]
    if numbers[0] != numbers[1] or not numbers[0]:
        raise ValueError(
            f"{name}: {len(numbers[0])} segments in de, {len(numbers[1])} in en; allowed: the same, at least one"
        )
    sides = [[tidy(html.unescape(text)).replace("’", "'").lower() for _, text in side] for side in found]
    return list(zip(*sides))


def _reader(folder: Path) -> Callable[[str], str]:
    """A function from name to text, reading the archive or plain files."""
    archive = folder / ARCHIVE
    names = [*TRAIN, *TEST]
    if archive.exists():
        from relearn.data.archive import read_members

        members = read_members(archive, [f"de-en/{name}" for name in names])
        return lambda name: _text(members[f"de-en/{name}"], f"{archive}: {name}")
    place = folder / "de-en" if (folder / "de-en").is_dir() else folder
    missing = [name for name in names if not (place / name).is_file()]
    if missing:
        partly = f" ({PARTLY} has valid and test only, which is not enough to train)"
        raise ValueError(
            f"{place}: lacks {', '.join(missing)}{partly if (folder / PARTLY).exists() else ''}; required: {ARCHIVE} "
            f"or its files, from {WHERE}"
        )
    return lambda name: _text((place / name).read_bytes(), str(place / name))


def _text(content: bytes, where: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as fault:
        raise ValueError(f"{where}: not UTF-8 at byte {fault.start}; allowed: UTF-8 text") from None
