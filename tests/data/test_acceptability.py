"""Damaged sentences: equal halves, parts apart, each edit as stated, and what words alone can know."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.data import acceptability
from relearn.data.acceptability import (
    APART,
    MARKS,
    SHORTEST,
    WEIGHTS,
    Acceptability,
    apply_edit,
    corrupt_sentence,
    corrupt_sentences,
)

WORDS = st.sampled_from(["the", "The", "old", "cat", "sat,", "on", "a", "mat;", "again", "and"])
SENTENCES = st.lists(WORDS, min_size=SHORTEST, max_size=30)
POOL = ["dog", "ran", "of"]


@pytest.fixture(scope="module")
def task() -> Acceptability:
    return acceptability.load()


def test_halves_are_equal_and_no_sentence_is_in_two_parts(task: Acceptability) -> None:
    seen: Counter[str] = Counter()
    for part in (task.train, task.dev, task.test):
        assert part.labels is not None and part.labels.tolist() == [1, 0] * (len(part) // 2)
        texts = [text for ((text, other),) in part.rows if other is None]
        assert len(texts) == len(part)
        for real, broken in zip(texts[::2], texts[1::2]):
            assert (
                real != broken
                and real.split()[0] == broken.split()[0]
                and real.split()[-1] == broken.split()[-1]
            )
        seen.update(texts)
    assert set(seen.values()) == {1}


def test_words_alone_know_misspellings(task: Acceptability) -> None:
    """Logistic regression on the counts of words; 0.76 of the test sentences with Python 3.11.7."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression

    words = CountVectorizer(token_pattern=r"[^ ]+", lowercase=False)
    train, test = ([rows[0][0] for rows in part.rows] for part in (task.train, task.test))
    assert task.train.labels is not None and task.test.labels is not None
    model = LogisticRegression(solver="liblinear", C=0.3).fit(
        words.fit_transform(train), task.train.labels.numpy()
    )
    score = model.score(words.transform(test), task.test.labels.numpy())
    assert 0.6 < score < 0.9


@given(SENTENCES, st.sampled_from(list(WEIGHTS)), st.integers(0, 999))
@settings(max_examples=150)
def test_each_edit_is_what_it_says(words: list[str], kind: str, seed: int) -> None:
    found = apply_edit(words, kind, POOL, random.Random(seed))
    assert found[0] == words[0] and found[-1] == words[-1]
    if kind == "misspelt":
        assert [sorted(one) for one in found] == [sorted(one) for one in words]
        assert sum(one != other for one, other in zip(found, words)) <= 1
        assert [one[len(one.rstrip(MARKS)) :] for one in found] == [
            one[len(one.rstrip(MARKS)) :] for one in words
        ]
    elif kind == "swapped":
        assert sorted(found) == sorted(words)
        places = [place for place, (one, other) in enumerate(zip(found, words)) if one != other]
        assert len(places) in (0, 2) and (not places or places[1] - places[0] <= APART)
    elif kind == "dropped":
        shorter = [words[:place] + words[place + 1 :] for place in range(1, len(words) - 1)]
        assert found in shorter if len(words) > SHORTEST else found == words
    elif kind == "repeated":
        twice = [
            [*words[:place], words[place].rstrip(MARKS), *words[place:]] for place in range(1, len(words) - 1)
        ]
        assert found in twice
    else:
        (place,) = [place for place, (one, other) in enumerate(zip(found, words)) if one != other]
        assert found[place].rstrip(MARKS) in POOL
        assert [mark for mark in found[place] if mark in MARKS] == [
            mark for mark in words[place] if mark in MARKS
        ]


def test_swaps_alone_leave_the_words() -> None:
    """What no count of words can see."""
    words = [f"w{number}" for number in range(12)]
    for seed in range(20):
        assert Counter(apply_edit(words, "swapped", POOL, random.Random(seed))) == Counter(words)


def test_nothing_that_is_taken_comes_out() -> None:
    """Even where almost all damaged sentences are taken."""
    sentence = "one two three four five"
    taken: set[str] = {sentence}
    found = [corrupt_sentence(sentence, ["six"], taken, 0) for _ in range(6)]
    assert len({*found, sentence}) == 7 and set(found) < taken
    with pytest.raises(ValueError, match="allowed: one that can be corrupted"):
        for _ in range(200):
            corrupt_sentence(sentence, ["six"], taken, 0)


def test_replacing_words_come_from_training_sentences_alone() -> None:
    train = [f"T aa{number} bb cc dd E." for number in range(40)]
    test = [f"T xx{number} yy zz ww vv uu E." for number in range(40)]
    parts = corrupt_sentences({"train": train, "dev": [], "test": test}, {})

    def letters(text: str) -> set[str]:
        """Its words, whatever the order of their letters."""
        return {"".join(sorted(word)) for word in text.split()}

    own = letters(" ".join(train))
    for real, broken in zip(parts["test"].rows[::2], parts["test"].rows[1::2]):
        assert letters(broken[0][0]) <= letters(real[0][0]) | own
    for (text, _), *_ in parts["train"].rows:
        assert letters(text) <= own


def test_numbers_of_samples_change_no_sentence_and_keep_the_halves(task: Acceptability) -> None:
    some = acceptability.load({"train": 100, "dev": 7})
    whole = dict(zip(task.train.ids, task.train.rows))
    assert [whole[name] for name in some.train.ids] == some.train.rows and len(some.train) == 100
    assert some.train.labels is not None and some.train.labels.sum() == 50
    assert len(some.dev) == 7 and len(some.test) == len(task.test)
    places = [int(name.split("-")[1]) for name in some.train.ids[::2]]
    assert places == [number * (len(task.train) // 2) // 50 for number in range(50)]


def test_equal_seeds_give_equal_damage() -> None:
    sentences = {"train": ["One two three four five six seven."], "dev": [], "test": []}
    found = [
        [corrupt_sentences(sentences, {}, seed=seed)["train"].rows[1][0][0] for seed in range(10)]
        for _ in range(2)
    ]
    assert found[0] == found[1] and len(set(found[0])) > 3


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"sentences: 2, 1 different ones \(allowed: all different\)"):
        corrupt_sentences({"train": ["a b c d e"], "dev": ["a b c d e"]}, {})
    with pytest.raises(ValueError, match=r"sentence: 'a b' \(allowed: at least 5 words\)"):
        corrupt_sentences({"train": ["a b"]}, {})
    with pytest.raises(ValueError, match=r"samples.train: -1 \(allowed: at least 0"):
        corrupt_sentences({"train": ["a b c d e"]}, {"train": -1})
