"""Number words: an independent reader finds every number again; the parts never overlap; nothing is random."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relearn.data.number_words import COUNT, LARGEST, SHARES, english, german, load, part_of

UNITS = dict(ein=1, eins=1, zwei=2, drei=3, vier=4, fünf=5, sechs=6, sieben=7, acht=8, neun=9)
STEMS = dict(zwan=2, drei=3, vier=4, fünf=5, sech=6, sieb=7, acht=8, neun=9)


def read_german(word: str) -> int:
    """The number of a German word, by grammar: [x]tausend [x]hundert [unit und] tens | small."""
    if "tausend" in word:
        before, _, after = word.partition("tausend")
        return 1000 * read_german(before) + (read_german(after) if after else 0)
    if "hundert" in word:
        before, _, after = word.partition("hundert")
        return 100 * UNITS[before] + (read_german(after) if after else 0)
    special = {"null": 0, "zehn": 10, "elf": 11, "zwölf": 12} | UNITS
    if word in special:
        return special[word]
    if teen := re.fullmatch(r"(drei|vier|fünf|sech|sieb|acht|neun)zehn", word):
        return 10 + STEMS[teen[1]]
    tens = re.fullmatch(r"(?:(\w+?)und)?(zwan|vier|fünf|sech|sieb|acht|neun|drei)(zig|ßig)", word)
    assert tens is not None and (tens[3] == "ßig") == (tens[2] == "drei"), word
    return 10 * STEMS[tens[2]] + (UNITS[tens[1]] if tens[1] else 0)


def read_english(text: str) -> int:
    """The number of English words, word by word with a running total."""
    names = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
    values = {name: n for n, name in enumerate((names + " seventeen eighteen nineteen").split())}
    tens = "twenty thirty forty fifty sixty seventy eighty ninety"
    values |= {name: 10 * n for n, name in enumerate(tens.split(), start=2)}
    total = block = 0
    for word in text.replace("-", " ").split():
        if word == "thousand":
            total, block = total + 1000 * block, 0
        elif word == "hundred":
            block *= 100
        elif word != "and":
            block += values[word]
    return total + block


@given(st.integers(0, LARGEST))
def test_an_independent_reader_finds_the_number_again(number: int) -> None:
    assert read_german(german(number)) == number
    assert read_english(english(number)) == number


def test_every_number_of_the_corpus() -> None:
    for number in range(COUNT):
        assert read_german(german(number)) == read_english(english(number)) == number


def test_what_grammar_alone_does_not_say() -> None:
    """A reader forgives "one hundred twenty" and "zwei hundert"; these spellings are the languages' own."""
    assert german(1) == "eins" and german(101) == "einhunderteins" and german(21) == "einundzwanzig"
    assert german(1001) == "eintausendeins" and german(21_021) == "einundzwanzigtausendeinundzwanzig"
    assert german(16) == "sechzehn" and german(77) == "siebenundsiebzig" and german(1000) == "eintausend"
    assert english(21) == "twenty-one" and english(120) == "one hundred and twenty" and english(0) == "zero"
    assert english(2005) == "two thousand and five" and english(2500) == "two thousand five hundred"
    assert english(999_999) == "nine hundred and ninety-nine thousand nine hundred and ninety-nine"


def test_the_order_really_differs() -> None:
    """Units stand before tens in German and after them in English: no word-by-word map can translate."""
    word, text = german(47), english(47)
    assert word.index("sieben") < word.index("vierzig") and text.index("forty") < text.index("seven")


def test_no_sentence_occurs_in_two_parts() -> None:
    corpus = load()
    for side in (0, 1):
        sets = [{pair[side] for pair in part} for part in (corpus.train, corpus.valid, corpus.test)]
        assert sum(map(len, sets)) == len(set().union(*sets)) == COUNT
    numbers = {
        part: [read_english(pair[1]) for pair in getattr(corpus, part)] for part in ("train", "valid", "test")
    }
    assert set(range(100)) <= set(numbers["train"])
    # Binomial shares: five standard deviations.
    for part in ("valid", "test"):
        assert abs(len(numbers[part]) - COUNT / SHARES) < 5 * (COUNT * 0.1 * 0.9) ** 0.5
        assert numbers[part] != sorted(numbers[part]), "neighbours must not stand side by side"
    for part, found in numbers.items():
        assert all(part_of(number) == part for number in found)


@pytest.mark.parametrize("number", [-1, LARGEST + 1])
def test_out_of_range(number: int) -> None:
    for say in (german, english):
        with pytest.raises(ValueError, match=rf"number is {number}; allowed: 0 to 999999"):
            say(number)
