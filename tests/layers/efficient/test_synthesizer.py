"""Both synthesizers against loops over their formulas; tokens are not compared."""

import pytest
import torch

from relearn.layers.efficient.synthesizer import SynthesizerAttention


@pytest.mark.parametrize("form", ["dense", "random"])
@pytest.mark.parametrize("length", [1, 4, 9])
@pytest.mark.parametrize("masked", [False, True])
def test_it_is_the_formula(heads_of, woken, tokens, form: str, length: int, masked: bool) -> None:
    net = woken(SynthesizerAttention(6, 2, max_length=9, form=form))
    x = tokens(2, length, 6)
    mask = torch.arange(length) % 3 != torch.tensor([[1], [2]])
    y = net(x, mask=mask if masked else None)
    for row, seen, found in zip(x, mask, y):
        real = [j for j in range(length) if not masked or seen[j]]
        heads = []
        for h, (v,) in enumerate(heads_of(net, row, "v")):
            rows = []
            for i in range(length):
                if form == "random":
                    logits = net.logits[h, i]
                else:
                    own = slice(3 * h, 3 * h + 3)
                    hidden = torch.relu(net.first.weight[own] @ row[i] + net.first.bias[own])
                    logits = net.second[h] @ hidden + net.second_bias[h, 0]
                weights = torch.exp(logits[real])
                rows.append(weights @ v[real] / weights.sum())
            heads.append(torch.stack(rows))
        expected = torch.cat(heads, 1) @ net.out.weight.T + net.out.bias
        torch.testing.assert_close(found, expected)


def test_weights_do_not_depend_on_the_other_tokens(woken, tokens) -> None:
    """Without values' differences (all other tokens alike) there is nothing to compare: moving j by d moves i linearly."""
    for form in ("dense", "random"):
        net, x = woken(SynthesizerAttention(6, 2, max_length=9, form=form)), tokens(1, 9, 6)
        d = tokens(6, seed=4)
        first, second = x.clone(), x.clone()
        first[0, 5] += d
        second[0, 5] += 2 * d
        others = [0, 1, 2, 3, 4, 6, 7, 8]
        torch.testing.assert_close(2 * (net(first) - net(x))[0, others], (net(second) - net(x))[0, others])


def test_a_third_form_is_refused() -> None:
    with pytest.raises(ValueError, match="form: 'mixed'"):
        SynthesizerAttention(6, 2, max_length=9, form="mixed")
