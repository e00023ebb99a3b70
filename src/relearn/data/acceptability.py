r"""Is a sentence whole, or was it damaged? Real sentences against the same ones with words misspelt, swapped, dropped, repeated, replaced.

It stands in for CoLA (Warstadt et al., 2019, acceptability judged by linguists) where nothing can be downloaded: labels by rule, 1 for
the real sentence. Each sentence of ``relearn.data.library_sentences`` is there twice, once real and once damaged, one after the other and
both in its own part; the halves are equal.

A sentence of w words gets :math:`\lceil w / 4 \rceil` edits, each of a kind drawn anew (:data:`WEIGHTS`) at a place drawn among the words
but the first and the last, so that neither a capital nor the full stop tells:

* misspelt: two neighbouring letters of a word change places;
* swapped: two words, at most :data:`APART` places apart and not the same, change places;
* dropped: a word is left out;
* repeated: a word stands there twice;
* replaced: a word of a training sentence, as likely as it is frequent there, takes a word's place; a comma stays.

The draws are seeded by the sentence itself; numbers of samples change nothing. What comes out is no real sentence and no other damaged one;
if it is, it is drawn again. Half of the edits are misspellings because a network of two layers learns to see them in a hundred steps, and
swapped words hardly in a thousand. They are what counts of words can see too: logistic regression on these is right in about three
quarters of the test sentences (tests/data/test_acceptability.py), so what is learnt here is not word order alone. A damaged
sentence can be acceptable by chance ("all of the" → "all the"): nobody can be right in all of them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from relearn.data import library_sentences
from relearn.data.examples import Examples, Row
from relearn.data.lra.samples import chosen

WEIGHTS = {"misspelt": 4, "swapped": 1, "dropped": 1, "repeated": 1, "replaced": 1}
WORDS_PER_EDIT = 4
APART = 3
SHORTEST = 5  # words that a sentence keeps
MARKS = ",;:"


@dataclass(frozen=True)
class Acceptability:
    """The parts; ``source`` is plain JSON without paths, with the sha256 of each part's real sentences."""

    train: Examples
    dev: Examples
    test: Examples
    source: dict[str, Any]


def load(samples: Mapping[str, int] | None = None, *, seed: int = 0) -> Acceptability:
    """The task on the sentences of the Python that runs.

    Args:
        samples: so many of each part (train, dev, test), of sentences evenly spaced, half of them real (of an odd number one more); 0: all.
        seed: of the damage.

    Raises:
        ValueError: a number below 0.
        OSError: this Python came without its library's texts.
    """
    found = library_sentences.load()
    sentences = {part: list(getattr(found, part)) for part in library_sentences.PARTS}
    return Acceptability(
        **damaged(sentences, samples or {}, seed=seed), source={**found.source, "seed": seed}
    )


def damaged(
    sentences: Mapping[str, Sequence[str]], samples: Mapping[str, int], *, seed: int = 0
) -> dict[str, Examples]:
    """Each part's sentences, real and damaged; see the module.

    Args:
        sentences: of each part, train among them; all different, of at least :data:`SHORTEST` words.
        samples: as of :func:`load`.
        seed: of the damage.

    Raises:
        ValueError: a number below 0, a sentence twice or too short.
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
        # All are damaged, whatever the number of samples, because a damaged one must differ from all before it.
        pairs = [(one, damage(one, pool, taken, seed)) for one in own]
        numbers = chosen(range(len(own)), -(-wanted // 2))
        for number in numbers:
            rows += [[(text, None)] for text in pairs[number]]
            ids += [f"{part}-{number}-{kind}" for kind in ("real", "damaged")]
        count = wanted if 0 < wanted < len(rows) else len(rows)
        labels = torch.tensor([1 - place % 2 for place in range(count)], dtype=torch.int64)
        parts[part] = Examples(rows[:count], labels, ids[:count])
    return parts


def damage(sentence: str, pool: Sequence[str], taken: set[str], seed: int) -> str:
    """The damaged sentence, which joins ``taken``: nothing in there can come out.

    Args:
        sentence: words and single blanks.
        pool: words that replace others.
        taken: sentences that must not come out.
        seed: of the draws, together with the sentence.

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
            found = edited(found, draws.choices(list(WEIGHTS), list(WEIGHTS.values()))[0], pool, draws)
        text = " ".join(found)
        if text not in taken:
            taken.add(text)
            return text
    raise ValueError(f"sentence: {sentence[:40]!r} (allowed: one that can be damaged)")


def edited(words: Sequence[str], kind: str, pool: Sequence[str], draws: random.Random) -> list[str]:
    """The words after one edit of a kind of :data:`WEIGHTS`; as they were where the place drawn does not allow it."""
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
