"""BLEU against its formula written out; the analytic cases; what is refused."""

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.measures.bleu import corpus_bleu


def slow(hypotheses: list[str], references: list[str]) -> float:
    """Papineni's formula on words between blanks; every precision must be positive."""
    logs, c, r = 0.0, 0, 0
    for n in range(1, 5):
        right = total = 0
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            grams = [
                Counter(tuple(text.split()[i : i + n]) for i in range(len(text.split()) - n + 1))
                for text in (hypothesis, reference)
            ]
            right += sum(min(count, grams[1][gram]) for gram, count in grams[0].items())
            total += sum(grams[0].values())
        logs += math.log(right / total) / 4
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        c, r = c + len(hypothesis.split()), r + len(reference.split())
    return 100 * min(1.0, math.exp(1 - r / c)) * math.exp(logs)


words = st.lists(st.sampled_from(["red", "green", "blue", "grey"]), min_size=0, max_size=6).map(" ".join)


@settings(max_examples=40)
@given(pairs=st.lists(st.tuples(words, words), min_size=1, max_size=4))
def test_formula_written_out(pairs: list[tuple[str, str]]) -> None:
    # A shared sentence of five words makes all four precisions positive, so that no smoothing acts.
    hypotheses = ["the old house stands here", *(f"a {one}".strip() for one, _ in pairs)]
    references = ["the old house stands here", *(f"a {one}".strip() for _, one in pairs)]
    assert abs(corpus_bleu(hypotheses, references).score - slow(hypotheses, references)) < 1e-9


def test_the_same_is_100_and_nothing_shared_is_0() -> None:
    texts = ["one two three four five", "six seven eight nine ten"]
    assert abs(corpus_bleu(texts, texts).score - 100) < 1e-9
    assert corpus_bleu(["x y z w v", "x x y y z"], texts).score == 0


def test_a_short_output_is_punished_by_its_length_alone() -> None:
    reference = "one two three four five six seven eight"
    assert abs(corpus_bleu(["one two three four"], [reference]).score - 100 * math.exp(-1)) < 1e-9


def test_signature_says_which_bleu() -> None:
    signature = corpus_bleu(["a b"], ["a b"]).signature
    assert all(part in signature for part in ("nrefs:1", "case:mixed", "tok:13a", "smooth:exp", "version:"))


@pytest.mark.parametrize(("hypotheses", "references"), [([], []), (["a"], []), (["a"], ["a", "b"])])
def test_unequal_numbers_are_refused(hypotheses: list[str], references: list[str]) -> None:
    with pytest.raises(ValueError, match=r"bleu.*allowed"):
        corpus_bleu(hypotheses, references)
