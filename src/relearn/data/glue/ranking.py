"""QNLI and WNLI as a choice: which of the sentences paired with a first text does it entail? (zhu2022, section 3.5.1.)

The candidates of a sample are the second texts of all pairs of a part with the same first text (QNLI: the question; WNLI: the sentence
with the pronoun), in the file's order. Pairs that do not form such groups are treated as follows:

- a development or test pair whose first text is unique in its part borrows the second texts that the training part has for it, without
  their labels: RoBERTa's authors take candidates from the training part, too (Liu et al. 2019, arXiv 1907.11692);
- the training part borrows nothing, so no development or test pair is ever trained on; borrowed pairs may be (WNLI: those of 2 of the 59
  development samples, of one of them the correct one);
- with labels (train, dev) a sample is used if it has at least two candidates, exactly one of which is entailed; other pairs are dropped
  and counted;
- without labels (test) every sample is kept, even with a single candidate, so that a submission has an answer for each pair.

A sample's id consists of its candidates' ids joined by ``+``, with the prefix ``train:`` for borrowed ones;
:func:`relearn.measures.glue_scores.entailment_answers` converts scores back to answers for pairs. The text only says that pairs are matched
by their question; RoBERTa's additional data for WNLI (spans of the original Winograd files, noun phrases as further candidates) is not used
here, because it is not part of GLUE.
"""

from __future__ import annotations

import torch

from relearn.data.examples import Examples


def as_rankings(
    train: Examples, dev: Examples, test: Examples
) -> tuple[dict[str, Examples], dict[str, dict[str, int]]]:
    """The three parts as rankings, and for each the number of ``samples``, the number of those with ``borrowed`` candidates, and the
    number of pairs ``left_out``.

    Args:
        train: pairs, one per sample, with label 1 if the first text entails the second.
        dev: such pairs.
        test: such pairs without labels.

    Raises:
        ValueError: training or development pairs without labels.
    """
    pool = _groups(train)
    parts, counts = {}, {}
    for name, pairs in (("train", train), ("dev", dev), ("test", test)):
        if name != "test" and pairs.labels is None:
            raise ValueError(f"{name}: pairs without labels (allowed: 0 or 1 each)")
        parts[name], counts[name] = _ranked(pairs, pool, train, name)
    return parts, counts


def _groups(pairs: Examples) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for number, ((text, _),) in enumerate(pairs.rows):
        found.setdefault(text, []).append(number)
    return found


def _ranked(
    pairs: Examples, pool: dict[str, list[int]], train: Examples, name: str
) -> tuple[Examples, dict[str, int]]:
    rows, ids, labels = [], [], []
    borrowed = left_out = 0
    for text, own in _groups(pairs).items():
        lent = pool.get(text, []) if len(own) == 1 else []
        # Identical texts are not distinct candidates; a single training pair finds only itself, so training borrows nothing.
        lent = [number for number in lent if train.rows[number] != pairs.rows[own[0]]]
        if pairs.labels is not None and name != "test":
            assert train.labels is not None
            entailed = pairs.labels[own].tolist() + train.labels[lent].tolist()
            if len(entailed) < 2 or sum(entailed) != 1:
                left_out += len(own)
                continue
            labels.append(entailed.index(1))
        rows.append([pairs.rows[number][0] for number in own] + [train.rows[number][0] for number in lent])
        ids.append(
            "+".join(
                [pairs.ids[number] for number in own] + [f"train:{train.ids[number]}" for number in lent]
            )
        )
        borrowed += bool(lent)
    known = None if name == "test" else torch.tensor(labels, dtype=torch.int64)
    return Examples(rows, known, ids), {"samples": len(rows), "borrowed": borrowed, "left_out": left_out}
