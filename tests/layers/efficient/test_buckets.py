"""Hashed attention against loops over buckets, chunks and rounds.

Sinkhorn attention against its formula; the sorting matrix is doubly stochastic and, cold, a permutation.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.layers.efficient.reformer import ReformerAttention
from relearn.layers.efficient.sinkhorn import SinkhornAttention, sinkhorn


@pytest.mark.parametrize("length", [1, 4, 7, 16])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("rounds", [1, 3])
def test_reformer_is_the_formula(heads_of, woken, tokens, length: int, masked: bool, rounds: int) -> None:
    torch.manual_seed(2)
    net = woken(ReformerAttention(6, 2, max_length=16, rounds=rounds, chunk=4))
    assert net.buckets == 8
    x = tokens(2, length, 6)
    mask = torch.arange(length) % 4 != torch.tensor([[1], [3]])
    y = net(x, mask=mask if masked else None)
    for row, seen, found in zip(x, mask, y):
        real = [j for j in range(length) if not masked or seen[j]]
        heads = []
        for h, (q, v) in enumerate(heads_of(net, row, "qv")):
            k = q / q.norm(dim=1, keepdim=True)
            top = torch.zeros(length, 3, dtype=torch.float64)
            bottom = torch.zeros(length, dtype=torch.float64)
            alone = [all(not others(net, q, real, h, r, i) for r in range(rounds)) for i in range(length)]
            for r in range(rounds):
                for i in real:
                    for j in others(net, q, real, h, r, i):
                        weight = torch.exp(q[i] @ k[j])
                        top[i] += weight * v[j]
                        bottom[i] += weight
            mixed = torch.stack([v[i] if alone[i] else top[i] / bottom[i] for i in range(length)])
            heads.append(mixed)
        expected = torch.cat(heads, 1) @ net.out.weight.T + net.out.bias
        torch.testing.assert_close(found[real], expected[real])


def others(net: ReformerAttention, q: torch.Tensor, real: list[int], h: int, r: int, i: int) -> list[int]:
    """Whom token i sees in round r, without itself."""
    turned = q @ net.rotations[h, r]
    bucket = torch.cat([turned, -turned], 1).argmax(1).tolist()
    order = sorted(real, key=lambda j: (bucket[j], j))
    if i not in order:
        return []
    place = {j: number // net.chunk for number, j in enumerate(order)}
    return [j for j in real if j != i and bucket[j] == bucket[i] and place[i] - 1 <= place[j] <= place[i]]


def test_near_tokens_share_a_bucket_and_opposite_ones_do_not() -> None:
    torch.manual_seed(0)
    net = ReformerAttention(8, 1, max_length=64, rounds=50, chunk=8)
    q = torch.randn(1, 1, 1, 8)
    both = torch.cat([q, 1.7 * q, q + 0.05 * torch.randn_like(q), -q], 2)
    bucket = net.bucket_of(both)[0, 0]
    assert torch.equal(bucket[:, 0], bucket[:, 1])  # of a direction, whatever the length
    assert (bucket[:, 0] == bucket[:, 2]).float().mean() > 0.8
    assert (bucket[:, 0] != bucket[:, 3]).all()
    assert torch.equal((bucket[:, 0] + net.buckets // 2) % net.buckets, bucket[:, 3])


@pytest.mark.parametrize(
    ("length", "chunk", "buckets"), [(2048, 64, 64), (4096, 64, 128), (1000, 64, 16), (30, 64, 2)]
)
def test_buckets_are_those_of_the_table(length: int, chunk: int, buckets: int) -> None:
    assert ReformerAttention(8, 2, max_length=length, chunk=chunk).buckets == buckets


def test_a_new_draw_hashes_anew(woken, tokens) -> None:
    torch.manual_seed(0)
    net, x = woken(ReformerAttention(6, 2, max_length=16, chunk=4)), tokens(1, 16, 6)
    before = net(x)
    net.redraw()
    assert not torch.allclose(net(x), before)


@pytest.mark.parametrize(("arguments", "words"), [({"rounds": 0}, "rounds: 0"), ({"chunk": 0}, "chunk: 0")])
def test_reformer_bad_arguments_are_named(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ReformerAttention(6, 2, max_length=9, **arguments)


@pytest.mark.parametrize("length", [1, 5, 9, 12])
@pytest.mark.parametrize("masked", [False, True])
def test_sinkhorn_is_the_formula(heads_of, woken, tokens, length: int, masked: bool) -> None:
    net = woken(SinkhornAttention(6, 2, max_length=12, block=3, steps=5, temperature=0.5))
    x = tokens(2, length, 6)
    mask = (torch.arange(length) % 4 != torch.tensor([[1], [3]])) & (torch.arange(length) // 3 != 1)
    y = net(x, mask=mask if masked else None)
    count = -(-length // 3)
    for row, seen, found in zip(x, mask, y):
        real = [j for j in range(length) if not masked or seen[j]]
        groups = [[j for j in real if j // 3 == s] for s in range(count)]
        live = [s for s in range(count) if groups[s]]
        sums = torch.stack([row[groups[s]].sum(0) for s in live])
        logits = torch.relu(sums @ net.pool.weight.T + net.pool.bias) @ net.sort.weight.T + net.sort.bias
        heads = []
        for h, (q, k, v) in enumerate(heads_of(net, row)):
            order = torch.exp(logits[:, h * 4 : (h + 1) * 4][:, live] / 0.5)
            for _ in range(5):
                order = order / order.sum(1, keepdim=True)
                order = order / order.sum(0, keepdim=True)
            rows = torch.zeros(length, 3, dtype=torch.float64)
            for a, s in enumerate(live):
                keys, values = [k[j] for j in groups[s]], [v[j] for j in groups[s]]
                for place in range(3):
                    held = [(order[a, b], 3 * t + place) for b, t in enumerate(live) if 3 * t + place in real]
                    if held:
                        keys.append(sum(p * k[j] for p, j in held))
                        values.append(sum(p * v[j] for p, j in held))
                for i in groups[s]:
                    weights = torch.exp(torch.stack(keys) @ q[i] / 3**0.5)
                    rows[i] = weights @ torch.stack(values) / weights.sum()
            heads.append(rows)
        expected = torch.cat(heads, 1) @ net.out.weight.T + net.out.bias
        torch.testing.assert_close(found[real], expected[real])


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 6))
def test_many_steps_make_it_doubly_stochastic(seed: int, size: int) -> None:
    logits = torch.randn(2, size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    order = sinkhorn(logits, 300)
    for axis in (-1, -2):
        torch.testing.assert_close(
            order.sum(axis), torch.ones(2, size, dtype=torch.float64), rtol=0, atol=1e-6
        )
    # the last step is of the columns: one step leaves the rows unequal
    first = sinkhorn(logits, 1)
    torch.testing.assert_close(first.sum(-2), torch.ones(2, size, dtype=torch.float64))


def test_cold_it_is_the_best_permutation() -> None:
    scores = torch.tensor([[1.0, 3.0, 0.0], [2.5, 3.2, 1.0], [0.0, 2.0, 2.2]], dtype=torch.float64)
    order = sinkhorn(scores / 0.01, 3000)
    expected = torch.zeros(3, 3, dtype=torch.float64)
    for i, j in ((0, 1), (1, 0), (2, 2)):  # 3 + 2.5 + 2.2 = 7.7, the largest sum of six
        expected[i, j] = 1
    torch.testing.assert_close(order, expected, rtol=0, atol=1e-3)


def test_noise_is_for_training_alone(woken, tokens) -> None:
    net, x = woken(SinkhornAttention(6, 2, max_length=12, block=3)), tokens(1, 12, 6)
    assert torch.equal(net(x), net(x))
    net.train()
    torch.manual_seed(0)
    assert not torch.allclose(net(x), net(x))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"block": 0}, "block: 0"), ({"steps": 0}, "steps: 0"), ({"temperature": 0.0}, "temperature: 0.0")],
)
def test_sinkhorn_bad_arguments_are_named(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        SinkhornAttention(6, 2, max_length=9, **arguments)
