"""What every attention of the comparison promises: shapes, padding, batches, gradients, number types, one-line errors."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from relearn.layers.efficient import GLOBAL_FIRST, KINDS, make
from relearn.testing import AttentionContract

LENGTH, DIM, HEADS = 24, 8, 2
SMALL: dict[str, dict[str, object]] = {
    "long_short": {"window": 4, "rank": 3},
    "long_short_best": {"window": 1, "rank": 2},
    "window": {"window": 4},
    "dynamic": {"rank": 3},
    "linformer": {"rank": 5},
    "linformer_window": {"rank": 5, "window": 4},
    "nystromformer": {"landmarks": 8, "kernel": 5},
    "performer": {"features": 12},
    "reformer": {"rounds": 2, "chunk": 4},
    "big_bird": {"block": 4, "random": 1, "global_tokens": 1},
    "longformer": {"window": 6},
    "sparse": {"stride": 4},
    "sinkhorn": {"block": 4},
}


def layer(kind: str, length: int = LENGTH, dtype: torch.dtype = torch.float64, **own: object) -> nn.Module:
    torch.manual_seed(0)
    return make(kind, DIM, HEADS, max_length=length, **{**SMALL.get(kind, {}), **own}).to(dtype).eval()


def contract_of(kind: str) -> type[AttentionContract]:
    class Contract(AttentionContract):
        def make(self, dim: int, heads: int, *, max_length: int, dropout: float = 0.0) -> nn.Module:
            return make(kind, dim, heads, max_length=max_length, dropout=dropout, **SMALL.get(kind, {}))

    return Contract


globals().update({f"Test_{kind}": contract_of(kind) for kind in KINDS})


def draw(batch: int, length: int, seed: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(batch, length, DIM, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8)
@given(data=st.data())
def test_what_padding_holds_changes_no_token(kind: str, data: st.DataObject) -> None:
    """Padding anywhere; the control: what a token holds does change tokens."""
    length = data.draw(st.integers(2, LENGTH), label="length")
    hidden = data.draw(st.sets(st.integers(0, length - 1), min_size=1, max_size=length - 1), label="hidden")
    mask = torch.ones(1, length, dtype=torch.bool)
    mask[0, list(hidden)] = False
    net, x = layer(kind), draw(1, length)
    other = torch.where(mask[..., None], x, 3 + 5 * draw(1, length, 2))
    y, moved = net(x, mask=mask), net(other, mask=mask)
    assert torch.equal(y[mask], moved[mask])
    assert moved.isfinite().all()
    changed = torch.where(mask[..., None], x + 1, x)
    assert not torch.allclose(net(changed, mask=mask)[mask], y[mask])


@pytest.mark.parametrize("kind", KINDS)
def test_padding_matters_where_it_is_not_masked(kind: str) -> None:
    """Control of the previous test: without the mask, some token sees these positions."""
    x = draw(1, LENGTH)
    other = x.clone()
    other[:, 10:] += draw(1, LENGTH - 10, 2)
    net = layer(kind)
    assert not torch.allclose(net(x)[:, :10], net(other)[:, :10])


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_has_a_finite_gradient_that_is_not_zero(kind: str) -> None:
    net, x = layer(kind).train(), draw(2, LENGTH).requires_grad_()
    mask = torch.arange(LENGTH) < torch.tensor([[LENGTH], [11]])
    (net(x, mask=mask)[mask] * draw(2, LENGTH, 5)[mask]).sum().backward()
    assert x.grad is not None and x.grad.isfinite().all()
    assert (x.grad[1, 11:] == 0).all()
    # a softmax forgets what is added to all its logits: the bias of keys has no gradient but rounding
    for name, one in net.named_parameters():
        assert one.grad is not None and one.grad.isfinite().all(), name
        if not name.endswith("k.bias"):
            assert one.grad.abs().max() > 0, name


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_the_derivative(kind: str) -> None:
    """Central differences along one direction, with padding."""
    net, x, direction = layer(kind), draw(1, 13), draw(1, 13, 3)
    mask = torch.arange(13)[None] < 11
    weight = draw(1, 13, 4) * mask[..., None]
    at = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad((net(at, mask=mask) * weight).sum(), at)
    step = 1e-6
    ahead, behind = ((net(x + s * direction, mask=mask) * weight).sum() for s in (step, -step))
    torch.testing.assert_close((slope * direction).sum(), (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_large_tokens_and_half_precision_stay_finite(kind: str) -> None:
    mask = torch.arange(LENGTH) < torch.tensor([[LENGTH], [9]])
    for dtype, size in ((torch.float32, 1e3), (torch.bfloat16, 10.0), (torch.float16, 10.0)):
        net = layer(kind, dtype=dtype)
        x = (size * draw(2, LENGTH)).to(dtype).requires_grad_()
        y = net(x, mask=mask)
        assert y.dtype == dtype and y[mask].isfinite().all(), dtype
        y[mask].float().sum().backward()
        assert x.grad is not None and x.grad.isfinite().all(), dtype


@pytest.mark.parametrize("kind", KINDS)
def test_state_comes_back(kind: str) -> None:
    """Everything that decides the output is in the state, draws included."""
    net, x = layer(kind), draw(2, 17)
    torch.manual_seed(7)
    other = make(kind, DIM, HEADS, max_length=LENGTH, **SMALL.get(kind, {})).double().eval()
    assert not torch.allclose(other(x), net(x))
    other.load_state_dict(net.state_dict())
    assert torch.equal(other(x), net(x))


@pytest.mark.parametrize("kind", GLOBAL_FIRST)
def test_the_first_token_sees_all_and_is_seen_by_all(kind: str) -> None:
    net = layer(kind, class_token=True)
    x = draw(1, LENGTH).requires_grad_()
    y = net(x)
    (all_seen,) = torch.autograd.grad((y[0, 0] * draw(1, 1, 2)[0, 0]).sum(), x, retain_graph=True)
    assert (all_seen[0].abs().sum(-1) > 0).all()
    for i in range(LENGTH):
        (one,) = torch.autograd.grad((y[0, i] * draw(1, 1, 2)[0, 0]).sum(), x, retain_graph=True)
        assert one[0, 0].abs().sum() > 0, i


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("x", "mask", "words"),
    [
        (torch.zeros(2, 0, DIM), None, "x: "),
        (torch.zeros(2, 3, DIM + 1), None, "x: "),
        (torch.zeros(2, 3, DIM), torch.ones(2, 4, dtype=torch.bool), "mask: "),
        (torch.zeros(2, 3, DIM), torch.ones(2, 3), "mask: "),
        (torch.zeros(2, 3, DIM), torch.tensor([[True] * 3, [False] * 3]), "mask: "),
    ],
)
def test_bad_inputs_are_named_in_one_line(kind: str, x: Tensor, mask: Tensor | None, words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        layer(kind)(x.double(), mask=mask)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("kind", "arguments", "words"),
    [
        ("fool", {}, "attention: 'fool'"),
        ("full", {"rank": 3}, "attention_arguments"),
        ("long_short_best", {"window": 3}, "attention_arguments"),
        ("long_short", {"widow": 3}, "attention_arguments"),
        ("full", {"dropout": 1.0}, "dropout: 1.0"),
        ("full", {"max_length": 0}, "max_length: 0"),
        ("linformer", {"rank": 0}, "rank: 0"),
        ("linformer", {"window": -1}, "window: -1"),
    ],
)
def test_bad_arguments_are_named_in_one_line(kind: str, arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        make(kind, DIM, HEADS, **{"max_length": LENGTH, **arguments})
    assert "\n" not in str(error.value)


def test_too_many_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match=f"x: 25 tokens .*max_length = {LENGTH}"):
        layer("full")(draw(1, LENGTH + 1))
    with pytest.raises(ValueError, match="heads: 3 of width 8"):
        make("full", 8, 3, max_length=4)


@pytest.mark.parametrize("kind", KINDS)
def test_autocast_is_near_full_precision(kind: str) -> None:
    net, x = layer(kind, dtype=torch.float32), draw(2, LENGTH, dtype=torch.float32)
    mask = torch.arange(LENGTH) < torch.tensor([[LENGTH], [9]])
    y = net(x, mask=mask)
    with torch.autocast("cpu", torch.bfloat16):
        cast = net(x, mask=mask)
        cast[mask].float().sum().backward()
    assert all(one.grad is None or one.grad.isfinite().all() for one in net.parameters())
    # hashing is a jump: a query near a boundary may change its bucket
    share = ((cast - y)[mask].abs() < 0.05 * y[mask].abs().max()).float().mean()
    assert share > (0.7 if kind == "reformer" else 0.99)
