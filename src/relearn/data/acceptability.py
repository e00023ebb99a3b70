r"""Acceptability judgement by rule: is a sentence intact, or has it been corrupted?

The task replaces CoLA (Warstadt et al., 2019, acceptability judged by linguists) where nothing can be downloaded; label 1 is the intact
sentence. Each sentence of ``relearn.data.library_sentences`` occurs twice in its part, once intact and once corrupted, one after the
other, so the classes are balanced.

A sentence of w words gets :math:`\lceil w / 4 \rceil` edits. Each edit has a random kind (:data:`WEIGHTS`) and a random position, the
first and the last word excluded, so that neither a capital letter nor the full stop gives the label away:

* misspelt: swap two adjacent letters of a word;
* swapped: swap two different words at most :data:`APART` positions apart;
* dropped: delete a word;
* repeated: duplicate a word;
* replaced: replace a word by a word of the training sentences, drawn in proportion to its frequency there; a comma is kept.

The random draws are seeded by the sentence itself, so they do not depend on the number of samples. A result that equals an intact or an
earlier corrupted sentence is drawn again. Half of the edits are misspellings because a network of two layers learns to detect them in a
hundred steps, but swapped words hardly in a thousand. Word counts detect some edits, too: logistic regression on them is right for about
three quarters of the test sentences (tests/data/test_acceptability.py), so the task is not about word order alone. A corrupted sentence
can be acceptable by chance ("all of the" → "all the"), so perfect accuracy is impossible.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from relearn.data import library_sentences
from relearn.data.evenly_spaced import evenly_spaced_rows
from relearn.data.examples import Examples, Row

WEIGHTS = {"misspelt": 4, "swapped": 1, "dropped": 1, "repeated": 1, "replaced": 1}
WORDS_PER_EDIT = 4
APART = 3
SHORTEST = 5  # words
MARKS = ",;:"


@dataclass(frozen=True)
class Acceptability:
    """The parts; ``source`` is plain JSON without paths, with the sha256 of each part's real sentences."""

    train: Examples
    dev: Examples
    test: Examples
    source: dict[str, Any]


def load(samples: Mapping[str, int] | None = None, *, seed: int = 0) -> Acceptability:
    """The task on the sentences of the running Python.

    Args:
        samples: samples per part (train, dev, test), taken from evenly spaced sentences, half of them intact (one more if odd); 0: all.
        seed: seed of the corruption.

    Raises:
        ValueError: a number below 0.
        OSError: this Python lacks the texts of its library.
    """
    found = library_sentences.load()
    sentences = {part: list(getattr(found, part)) for part in library_sentences.PARTS}
    return Acceptability(
        **corrupt_sentences(sentences, samples or {}, seed=seed), source={**found.source, "seed": seed}
    )


def corrupt_sentences(
    sentences: Mapping[str, Sequence[str]], samples: Mapping[str, int], *, seed: int = 0
) -> dict[str, Examples]:
    """The sentences of each part, intact and corrupted; see the module.

    Args:
        sentences: by part, including train; all different, of at least :data:`SHORTEST` words.
        samples: as in :func:`load`.
        seed: seed of the corruption.

    Raises:
        ValueError: a number below 0, a duplicate sentence, or one that is too short.
    """
    every = [one for own in sentences.values() for one in own]
    taken = set(every)
    if len(taken) < len(every):
        raise ValueError(f"sentences: {len(every)}, {len(taken)} different ones (allowed: all different)")
    for part, wanted in samples.items():
        if wanted < 0:
            raise ValueError(f"samples.{part}: {wanted} (allowed: at least 0, all of them)")
    pool = [word.rstrip(MARKS) for one in sentences["train"] for word in one.split()[1:-1]]
    parts = {}
    for part, own in sentences.items():
        rows: list[list[Row]] = []
        ids: list[str] = []
        wanted = samples.get(part, 0)
        # All are corrupted, whatever the number of samples, because each must differ from all earlier ones.
        pairs = [(one, corrupt_sentence(one, pool, taken, seed)) for one in own]
        numbers = evenly_spaced_rows(range(len(own)), -(-wanted // 2))
        for number in numbers:
            rows += [[(text, None)] for text in pairs[number]]
            ids += [f"{part}-{number}-{kind}" for kind in ("real", "damaged")]
        count = wanted if 0 < wanted < len(rows) else len(rows)
        labels = torch.tensor([1 - place % 2 for place in range(count)], dtype=torch.int64)
        parts[part] = Examples(rows[:count], labels, ids[:count])
    return parts


def corrupt_sentence(sentence: str, pool: Sequence[str], taken: set[str], seed: int) -> str:
    """A corrupted version of the sentence, which is also added to ``taken``.

    Args:
        sentence: words separated by single blanks.
        pool: words for replacements.
        taken: sentences that must not result.
        seed: seed of the random draws, together with the sentence.

    Raises:
        ValueError: fewer than :data:`SHORTEST` words, or nothing new in 1,000 draws.
    """
    words = sentence.split()
    if len(words) < SHORTEST:
        raise ValueError(f"sentence: {sentence[:40]!r} (allowed: at least {SHORTEST} words)")
    draws = random.Random(f"acceptability {seed} {sentence}")
    for _ in range(1000):
        found = list(words)
        for _ in range(-(-len(words) // WORDS_PER_EDIT)):
            found = apply_edit(found, draws.choices(list(WEIGHTS), list(WEIGHTS.values()))[0], pool, draws)
        text = " ".join(found)
        if text not in taken:
            taken.add(text)
            return text
    raise ValueError(f"sentence: {sentence[:40]!r} (allowed: one that can be corrupted)")


def apply_edit(words: Sequence[str], kind: str, pool: Sequence[str], draws: random.Random) -> list[str]:
    """The words after one edit of a kind of :data:`WEIGHTS`; unchanged if the drawn position does not allow it."""
    found, inner = list(words), len(words) - 2
    place = 1 + draws.randrange(inner)
    if kind == "misspelt":
        letters, last = list(found[place]), len(found[place].rstrip(MARKS)) - 1
        if last >= 1:
            first = draws.randrange(last)
            letters[first], letters[first + 1] = letters[first + 1], letters[first]
            found[place] = "".join(letters)
    elif kind == "swapped":
        other = place + 1 + draws.randrange(APART)
        if other <= inner and found[place].lower() != found[other].lower():
            found[place], found[other] = found[other], found[place]
    elif kind == "dropped" and len(found) > SHORTEST:
        del found[place]
    elif kind == "repeated":
        found.insert(place, found[place].rstrip(MARKS))
    elif kind == "replaced":
        mark = found[place][len(found[place].rstrip(MARKS)) :]
        found[place] = draws.choice(pool) + mark
    return found
