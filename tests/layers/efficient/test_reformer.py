"""Hashed attention against loops over buckets, chunks and rounds."""

import pytest
import torch

from relearn.layers.efficient.reformer import ReformerAttention


@pytest.mark.parametrize("length", [1, 4, 7, 16])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("rounds", [1, 3])
def test_it_is_the_formula(heads_of, woken, tokens, length: int, masked: bool, rounds: int) -> None:
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
def test_bad_arguments_are_named(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ReformerAttention(6, 2, max_length=9, **arguments)
