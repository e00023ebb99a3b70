"""Beam search: exhaustive search and greedy decoding as truths; sentences of a batch do not meet; lengths are kept."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from relearn.methods.beam_search import BOS, EOS, PAD, Hypothesis, beam_search
from relearn.models.post_ln_transformer import PostLNTransformer

WORDS = (2, 3, 4, 5)  # EOS and three words


def network(seed: int, vocabulary: int = 6, spread: float = 0.6) -> PostLNTransformer:
    torch.manual_seed(seed)
    net = PostLNTransformer(vocabulary, dim=8, ffn=8, heads=2, encoder_layers=1, decoder_layers=1)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(spread * torch.randn_like(parameter))  # so that no two outputs are alike
    return net.double().eval()


def score(net: PostLNTransformer, source: Tensor, output: tuple[int, ...], penalty: float) -> float:
    """s(y) of an output that ends with EOS, without a cache."""
    target_in = torch.tensor([[BOS, *output[:-1]]])
    steps = net(source, target_in).log_softmax(-1)[0]
    total = sum(float(steps[t, word].detach()) for t, word in enumerate(output))
    return total / len(output) ** penalty


def exhaustive(net: PostLNTransformer, source: Tensor, longest: int, penalty: float) -> Hypothesis:
    outputs = [(*words, EOS) for n in range(longest) for words in itertools.product(WORDS[1:], repeat=n)]
    best = max(outputs, key=lambda output: score(net, source, output, penalty))
    return Hypothesis(list(best[:-1]), score(net, source, best, penalty))


def greedy(net: PostLNTransformer, source: Tensor, longest: int) -> list[int]:
    output: list[int] = []
    while len(output) + 1 < longest:
        steps = net(source, torch.tensor([[BOS, *output]]))[0, -1].clone()
        steps[[PAD, BOS]] = -math.inf
        word = int(steps.argmax())
        if word == EOS:
            break
        output.append(word)
    return output


@settings(max_examples=8)
@given(seed=st.integers(0, 10_000), penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0]))
def test_enough_beams_find_the_best_of_all(seed: int, penalty: float) -> None:
    net, source = network(seed), torch.tensor([[3, 5, 4]])
    found = beam_search(net, source, beam=60, max_length=(0.0, 4), length_penalty=penalty)[0]
    truth = exhaustive(net, source, 4, penalty)
    assert found.tokens == truth.tokens and abs(found.score - truth.score) < 1e-9


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000))
def test_one_beam_is_greedy(seed: int) -> None:
    net, source = network(seed), torch.tensor([[3, 5, 4, 3]])
    found = beam_search(net, source, beam=1, max_length=(0.0, 9))[0]
    assert found.tokens == greedy(net, source, 9)


def test_more_beams_beat_greedy_somewhere() -> None:
    """The control of the two tests above: they would also pass if all searches did the same."""
    source = torch.tensor([[3, 5, 4]])
    different = 0
    for seed in range(12):
        net = network(seed)
        one = beam_search(net, source, beam=1, max_length=(0.0, 5))[0]
        many = beam_search(net, source, beam=8, max_length=(0.0, 5))[0]
        different += one.tokens != many.tokens
        assert abs(many.score - score(net, source, (*many.tokens, EOS), 1.0)) < 1e-9
    assert different > 0


@settings(max_examples=8)
@given(seed=st.integers(0, 10_000), beam=st.integers(1, 4))
def test_a_batch_gives_what_its_sentences_give_alone(seed: int, beam: int) -> None:
    net = network(seed, vocabulary=9)
    alone = [[3, 5, 4, 7, 8], [6], [4, 4, 3]]
    width = max(map(len, alone))
    batch = torch.tensor([[*one, *[PAD] * (width - len(one))] for one in alone])
    together = beam_search(net, batch, beam=beam, max_length=(1.5, 2))
    for one, found in zip(alone, together, strict=True):
        truth = beam_search(net, torch.tensor([one]), beam=beam, max_length=(1.5, 2))[0]
        assert found.tokens == truth.tokens and abs(found.score - truth.score) < 1e-9
        assert len(found.tokens) + 1 <= 1.5 * len(one) + 2


def test_a_longer_output_wins_with_a_greater_penalty() -> None:
    """λ divides a negative sum: over many networks, the mean length grows with it."""
    lengths = []
    for penalty in (0.0, 1.0, 3.0):
        found = [
            beam_search(
                network(seed), torch.tensor([[3, 5]]), beam=30, max_length=(0.0, 5), length_penalty=penalty
            )
            for seed in range(10)
        ]
        lengths.append(sum(len(one[0].tokens) for one in found))
    assert lengths[0] < lengths[1] <= lengths[2]


def test_outputs_hold_no_special_tokens() -> None:
    net = network(3, vocabulary=9)
    found = beam_search(net, torch.randint(3, 9, (6, 5)), beam=3)
    assert not {PAD, BOS, EOS} & {token for one in found for token in one.tokens}


def test_a_network_that_diverged_gives_empty_outputs() -> None:
    net = network(0)
    with torch.no_grad():
        net.embedding.weight.fill_(math.nan)
    assert beam_search(net, torch.tensor([[3, 4], [5, 0]]), beam=2) == [Hypothesis([], -math.inf)] * 2


@pytest.mark.parametrize("wrong", [{"beam": 0}, {"max_length": (0.0, 0)}])
def test_what_cannot_be_searched_is_refused(wrong: dict) -> None:
    with pytest.raises(ValueError, match="allowed"):
        beam_search(network(0), torch.tensor([[3]]), **wrong)
