"""German number words and their English translation, 0 to 9999, made by rule: a small real translation task.

The two languages order the parts differently: German says units before tens and all in one word
(``zweitausenddreihundertfünfundzwanzig``: two thousand, three hundred, five-and-twenty), English tens before
units and in several words (``two thousand three hundred and twenty-five``). So a network has to move pieces, not
only to replace them. Both spellings are one-to-one, so different numbers share neither a source nor a target
sentence.

Which number belongs to which part is decided by a hash of the number, which no random state can change:
every tenth goes to valid, another tenth to test, the rest to train. Numbers below 100 are the words that all
others are made of; they always belong to train.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from relearn.data.sentence_pairs import Corpus, Pair

LARGEST = 999_999
COUNT = 10_000
SHARES = 10  # one of so many for valid, one for test

GERMAN = (
    *(
        "null",
        "eins",
        "zwei",
        "drei",
        "vier",
        "fünf",
        "sechs",
        "sieben",
        "acht",
        "neun",
        "zehn",
        "elf",
        "zwölf",
    ),
    *("dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn"),
)
GERMAN_TENS = (
    *("", "", "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"),
)
ENGLISH = (
    *(
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
    ),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
ENGLISH_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


def german(number: int) -> str:
    """The German word of 0 to 999,999: ``german(1021) == "eintausendeinundzwanzig"``.

    Raises:
        ValueError: the number is out of range.
    """
    _check(number)
    return _german(number, last=True) if number else GERMAN[0]


def _german(number: int, *, last: bool) -> str:
    # A one at the very end is "eins"; before anything else it is "ein".
    if number >= 1000:
        rest = number % 1000
        return _german(number // 1000, last=False) + "tausend" + (_german(rest, last=last) if rest else "")
    if number >= 100:
        rest = number % 100
        return _german(number // 100, last=False) + "hundert" + (_german(rest, last=last) if rest else "")
    if number >= 20:
        tens, unit = divmod(number, 10)
        return (_german(unit, last=False) + "und" if unit else "") + GERMAN_TENS[tens]
    return "ein" if number == 1 and not last else GERMAN[number]


def english(number: int) -> str:
    """The English words of 0 to 999,999, British: ``english(1021) == "one thousand and twenty-one"``.

    Raises:
        ValueError: the number is out of range.
    """
    _check(number)
    if number >= 1000:
        thousands, rest = divmod(number, 1000)
        link = "" if not rest else " and " if rest < 100 else " "
        return f"{english(thousands)} thousand{link}{english(rest) if rest else ''}"
    if number >= 100:
        hundreds, rest = divmod(number, 100)
        return f"{ENGLISH[hundreds]} hundred" + (f" and {english(rest)}" if rest else "")
    if number >= 20:
        tens, unit = divmod(number, 10)
        return ENGLISH_TENS[tens] + (f"-{ENGLISH[unit]}" if unit else "")
    return ENGLISH[number]


def part_of(number: int) -> str:
    """train, valid or test; see the module."""
    if number < 100:
        return "train"
    share = int.from_bytes(hashlib.sha256(f"number {number}".encode()).digest()[:8], "big") % SHARES
    return {0: "valid", 1: "test"}.get(share, "train")


def load(folder: Path | None = None) -> Corpus:
    """The pairs of 0 to 9999 (German → English), each part in an order without meaning.

    Args:
        folder: plays no part; it is here because every corpus has it.
    """
    # In hash order: neighbours would otherwise be nearly the same sentence.
    order = sorted(range(COUNT), key=lambda number: hashlib.sha256(f"order {number}".encode()).digest())
    parts: dict[str, list[Pair]] = {"train": [], "valid": [], "test": []}
    for number in order:
        parts[part_of(number)].append((german(number), english(number)))
    return Corpus(**parts, languages=("de", "en"), source={"from": f"number words by rule, 0 to {COUNT - 1}"})


def _check(number: int) -> None:
    if not 0 <= number <= LARGEST:
        raise ValueError(f"number is {number}; allowed: 0 to {LARGEST}")
