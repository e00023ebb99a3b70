r"""Beam search for autoregressive models, batched over sentences.

The rules are those of the toolkit used for the published translation runs (zhu2022, section 4.3.2). A hypothesis y that ends with EOS,
which counts towards its length, has the score

.. math:: s(y) = \frac{1}{|y|^{\lambda}} \sum_{t=1}^{|y|} \log p(y_t \mid y_{<t}, x).

Each step considers the ``beam`` best continuations of a sentence: those that end are finished, and the ``beam`` best that do not end
are continued. A sentence is done when it has ``beam`` finished hypotheses, or at the maximum length, where EOS is the only allowed
continuation.

Facts (tests/methods/test_beam_search.py): one beam is greedy decoding; with as many beams as there are prefixes the search is
exhaustive; a batch gives the same results as its sentences one by one.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

PAD, BOS, EOS = 0, 1, 2


class Hypothesis(NamedTuple):
    """A finished output: its tokens without BOS and EOS, and its score s(y) in nats."""

    tokens: list[int]
    score: float


class Cache(Protocol):
    """Decoder state kept between decoding steps."""

    def select(self, rows: Tensor) -> None: ...


class Translator(Protocol):
    """The interface of a searchable model, for example :class:`relearn.models.post_ln_transformer.PostLNTransformer`."""

    def start(self, source: Tensor) -> Any: ...

    def decode_step(self, tokens: Tensor, cache: Any) -> Tensor: ...


@torch.no_grad()
def beam_search(
    model: Translator,
    source: Tensor,
    *,
    beam: int = 5,
    max_length: tuple[float, int] = (1.2, 10),
    length_penalty: float = 1.0,
) -> list[Hypothesis]:
    """The best hypothesis of each sentence.

    Args:
        model: in eval mode (otherwise dropout is active); see :class:`Translator`.
        source: (B, S) int64, padded with 0, on the model's device.
        beam: hypotheses kept per sentence; 1 is greedy decoding.
        max_length: (a, b): at most floor(a * n + b) tokens, EOS included (the toolkit allows one more), for a source of n tokens.
        length_penalty: λ; 0 compares plain log-probabilities, larger values favour longer outputs.

    Raises:
        ValueError: a beam below 1, or a maximum length below 1.
    """
    if beam < 1:
        raise ValueError(f"beam: {beam} (allowed: at least 1)")
    if not len(source):
        return []
    a, b = max_length
    limits = ((source != PAD).sum(1) * a + b).floor().long()
    if int(limits.min()) < 1:
        raise ValueError(f"max_length: {max_length} allows {int(limits.min())} tokens (allowed: at least 1)")
    finished: list[list[Hypothesis]] = [[] for _ in source]
    sentences = torch.arange(len(source), device=source.device)
    cache = model.start(source)
    cache.select(sentences.repeat_interleave(beam))
    tokens = torch.full((len(source), beam, 1), BOS, device=source.device)
    scores = torch.full((len(source), beam), -math.inf, device=source.device)
    scores[:, 0] = 0.0  # all beams are equal at the start, so only one counts

    for length in range(1, int(limits.max()) + 1):
        logits = model.decode_step(tokens[:, :, -1].flatten(), cache)
        steps = logits.log_softmax(-1, dtype=torch.float32 if logits.element_size() < 4 else logits.dtype)
        steps[:, [PAD, BOS]] = -math.inf
        steps = steps.unflatten(0, (len(sentences), beam))
        last = limits[sentences] == length
        ending = steps[:, :, EOS].clone()
        steps.masked_fill_(last[:, None, None], -math.inf)
        steps[:, :, EOS] = ending

        vocabulary = steps.shape[2]
        best, where = (scores[:, :, None] + steps).flatten(1).topk(2 * beam, dim=1)
        ends = where % vocabulary == EOS
        _collect(finished, sentences, tokens, best, where // vocabulary, ends, length, length_penalty)

        # Unfinished hypotheses in order of score: a stable sort moves finished ones behind them.
        onward = ends.to(torch.int8).sort(dim=1, stable=True).indices[:, :beam]
        parents = (where // vocabulary).gather(1, onward)
        words = (where % vocabulary).gather(1, onward)
        scores = best.gather(1, onward).masked_fill(ends.gather(1, onward), -math.inf)
        tokens = torch.cat([_rows(tokens, parents), words[:, :, None]], dim=2)
        done = [len(finished[sentence]) >= beam for sentence in sentences.tolist()]
        going = ~(torch.tensor(done, device=source.device) | last | scores[:, 0].isinf())
        kept = going.nonzero()[:, 0]
        if not len(kept):
            break
        cache.select((kept[:, None] * beam + parents[kept]).flatten())
        tokens, scores, sentences = tokens[kept], scores[kept], sentences[kept]
    return [max(ones, key=lambda one: one.score) if ones else Hypothesis([], -math.inf) for ones in finished]


def _rows(tokens: Tensor, parents: Tensor) -> Tensor:
    return tokens.gather(1, parents[:, :, None].expand(-1, -1, tokens.shape[2]))


def _collect(
    finished: list[list[Hypothesis]],
    sentences: Tensor,
    tokens: Tensor,
    best: Tensor,
    parents: Tensor,
    ends: Tensor,
    length: int,
    length_penalty: float,
) -> None:
    """Add to ``finished`` the hypotheses that end among the first ``beam`` continuations of each sentence."""
    beam = tokens.shape[1]
    rows, ranks = (ends & best.isfinite())[:, :beam].nonzero(as_tuple=True)
    if not len(rows):
        return
    values = (best[rows, ranks] / length**length_penalty).tolist()
    outputs = tokens[rows, parents[rows, ranks], 1:].tolist()
    for sentence, value, output in zip(sentences[rows].tolist(), values, outputs, strict=True):
        if len(finished[sentence]) < beam:
            finished[sentence].append(Hypothesis(output, value))
