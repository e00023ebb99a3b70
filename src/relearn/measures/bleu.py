"""BLEU of translations by sacrebleu, with the signature that identifies the variant.

Papineni et al. 2002; Post, "A Call for Clarity in Reporting BLEU Scores" (2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Bleu(NamedTuple):
    """``score``: 0 to 100; ``signature``: sacrebleu's one-line description of tokenisation, smoothing and version."""

    score: float
    signature: str


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> Bleu:
    r"""Corpus BLEU with one reference per sentence.

    .. math::
        \mathrm{BLEU} = 100\, \min(1, e^{1 - r/c})\, \Big(\prod_{n=1}^{4} p_n\Big)^{1/4}

    p_n: clipped n-gram precision over the corpus; c and r: number of tokens of all hypotheses and references. sacrebleu's defaults are
    used: case-sensitive, tokeniser ``13a``, exponential smoothing if a precision is 0. zhu2022 used the score of its toolkit on
    Moses-detokenised text, which is almost the same; both differ from tokenised BLEU by about one point.

    Raises:
        ValueError: no sentences, or different numbers of hypotheses and references.
    """
    if not references or len(hypotheses) != len(references):
        raise ValueError(
            f"bleu: {len(hypotheses)} hypotheses for {len(references)} references (allowed: equal numbers, at least 1)"
        )
    from sacrebleu.metrics import BLEU

    metric = BLEU()
    score = metric.corpus_score(list(hypotheses), [list(references)])
    return Bleu(float(score.score), str(metric.get_signature()))
