"""A cache that is part of the model's state: the context of the segment before, no gradients into it, exact resume in the loop."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from relearn.data.stream_batches import StreamBatches
from relearn.methods.fit import fit
from relearn.models.carried_cache import CarriedCache

V, D = 7, 4


class Summing(nn.Module):
    """Causal: every position reads the sum of all characters' embeddings so far, those of the cache among them."""

    def __init__(self) -> None:
        super().__init__()
        self.description = {"layers": 2, "dim": D}
        draw = torch.Generator().manual_seed(0)
        self.table = nn.Parameter(torch.randn(V, D, generator=draw, dtype=torch.float64) / 4)
        self.out = nn.Parameter(torch.randn(D, V, generator=draw, dtype=torch.float64) / 4)
        self.drop = nn.Dropout(0.1)

    def forward(self, tokens: Tensor, *, cache: list[Tensor] | None = None) -> tuple[Tensor, list[Tensor]]:
        first = self.table[tokens]
        states = []
        for layer in range(2):
            states.append(first.detach())
            before = 0 if cache is None else cache[layer].sum(1, keepdim=True)
            first = self.drop(torch.tanh(before + first.cumsum(1)))
        return first @ self.out, states


def flags(rows: int, fresh: bool) -> Tensor:
    return torch.full((rows,), fresh)


def test_each_segment_is_read_with_the_one_before_it() -> None:
    net = Summing()
    net.drop.p = 0.0
    carried = CarriedCache(net, batch_size=2, length=3).train()
    tokens = torch.randint(V, (2, 9), generator=torch.Generator().manual_seed(1))
    one, two, three = tokens.split(3, 1)
    first, states = net(one)
    assert torch.equal(carried(one, flags(2, True)), first)
    assert torch.equal(carried.memory, torch.stack(states))
    second, states = net(two, cache=states)
    assert torch.equal(carried(two, flags(2, False)), second)
    assert torch.equal(carried(three, flags(2, False)), net(three, cache=states)[0])
    anew = carried(three, flags(2, True))
    assert torch.equal(anew, net(three)[0])
    assert not torch.allclose(anew, net(three, cache=states)[0])  # the control: the cache matters


def test_no_gradient_flows_into_what_was_kept_and_evaluation_writes_nothing() -> None:
    carried = CarriedCache(Summing(), batch_size=1, length=3).train()
    tokens = torch.randint(V, (1, 3))
    carried(tokens, flags(1, True)).sum().backward()
    assert not carried.memory.requires_grad
    carried.zero_grad()
    carried(tokens, flags(1, False)).sum().backward()  # a graph kept from before would be gone
    before = carried.memory.clone()
    carried.eval()(torch.randint(V, (1, 3)), flags(1, False))
    assert torch.equal(carried.memory, before)


def test_fewer_rows_than_lanes_keep_their_own_part() -> None:
    carried = CarriedCache(Summing(), batch_size=4, length=3).train()
    carried(torch.randint(V, (3, 3)), flags(3, True))
    assert carried.memory[:, :3].abs().sum() > 0 and carried.memory[:, 3:].abs().sum() == 0


class Stop(Exception):
    pass


class Kept:
    """A checkpoint in memory that stops the run after a save."""

    def __init__(self, stop_at: int | None) -> None:
        self.state: dict[str, Any] | None = None
        self.stop_at = stop_at

    def load(self) -> dict[str, Any] | None:
        return self.state

    def save(self, state: dict[str, Any]) -> None:
        self.state = {
            key: value.clone() if isinstance(value, Tensor) else value for key, value in state.items()
        }
        if state["steps"] == self.stop_at:
            raise Stop


def train(checkpoint: Kept | None) -> tuple[Tensor, list[dict[str, float]], Tensor]:
    ids = torch.randint(V, (100,), generator=torch.Generator().manual_seed(3)).to(torch.uint8)
    torch.manual_seed(9)
    carried = CarriedCache(Summing(), batch_size=2, length=5)
    fitted = fit(
        carried,
        StreamBatches(ids, length=5, batch_size=2),  # 9 batches an epoch
        loss=lambda logits, targets: cross_entropy(logits.flatten(0, 1), targets.flatten()),
        steps=14,
        lr=0.01,
        optimizer="adam",
        schedule="constant",
        history_steps=2,
        checkpoint=checkpoint,
        checkpoint_steps=1,
        seed=5,
    )
    return carried.net.table.detach().clone(), fitted.history, carried.memory.clone()


@pytest.mark.parametrize("stop", [4, 9, 11])
def test_a_run_that_was_stopped_ends_bit_for_bit_the_same(stop: int) -> None:
    whole = train(None)
    checkpoint = Kept(stop)
    with pytest.raises(Stop):
        train(checkpoint)
    checkpoint.stop_at = None
    resumed = train(checkpoint)
    assert torch.equal(whole[0], resumed[0]) and torch.equal(whole[2], resumed[2])
    assert whole[1] == resumed[1]


def test_without_its_memory_the_resumed_run_differs() -> None:
    """The control: what the checkpoint holds of the cache is needed."""
    whole = train(None)
    checkpoint = Kept(4)
    with pytest.raises(Stop):
        train(checkpoint)
    checkpoint.stop_at = None
    assert checkpoint.state is not None
    checkpoint.state["model/memory"].zero_()
    assert not torch.equal(whole[0], train(checkpoint)[0])
