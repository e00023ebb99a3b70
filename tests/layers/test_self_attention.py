"""What all self-attentions share: the formulas, both ways to compute them, masks, single rows, derivatives, sizes, half precision."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from relearn.layers.attention_kinds import KINDS, attention
from relearn.layers.self_attention import triangle, with_bias

DIM, HEADS, LENGTH = 12, 3, 6
# torch's forward mode loads its own rules by a way of its own that it calls deprecated.
FORWARD_MODE = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")


def made(kind: str, *, dim: int = DIM, heads: int = HEADS, fused: bool = False, spread: float = 1.0):
    torch.manual_seed(0)
    layer = attention(kind, dim, heads).double()
    layer.fused = fused
    with torch.no_grad():
        layer.q.weight.mul_(spread)
    return layer, torch.randn(2, LENGTH, dim, dtype=torch.float64)


def undivided(layer, y: Tensor, length: int = LENGTH) -> Tensor:
    """The output before a contractive layer divides it."""
    return y * layer.lipschitz_bound(length) if getattr(layer, "contractive", None) else y


def some_mask() -> Tensor:
    """(2, H, N, N): each token sees itself and some others."""
    torch.manual_seed(1)
    return (torch.rand(2, HEADS, LENGTH, LENGTH) < 0.4) | torch.eye(LENGTH, dtype=torch.bool)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_formulas(kind: str, fused: bool, slow) -> None:
    layer, x = made(kind, fused=fused)
    mask = some_mask()
    for given, seen in [
        ({}, torch.ones_like(mask)),
        ({"causal": True}, triangle(LENGTH, x.device).expand_as(mask)),
        ({"mask": mask}, mask),
        ({"mask": mask, "causal": True}, mask & triangle(LENGTH, x.device)),
    ]:
        expected = torch.stack([slow(layer, one, m) for one, m in zip(x, seen)])
        torch.testing.assert_close(undivided(layer, layer(x, **given)), expected, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(layer(x[1]), layer(x)[1], rtol=1e-12, atol=1e-14)  # one sequence alone


@pytest.mark.parametrize("kind", KINDS)
def test_fused_and_plain_have_one_gradient(kind: str) -> None:
    """The extra column carries the gradient of the squared norms: of the input and of each weight."""
    layer, x = made(kind)
    ahead = torch.randn_like(x)
    for given in ({}, {"causal": True}, {"mask": some_mask()}):
        found = []
        for fused in (True, False):
            layer.fused = fused
            leaf = x.clone().requires_grad_()
            found.append(torch.autograd.grad(layer(leaf, **given), [leaf, *layer.parameters()], ahead))
        for one, other in zip(*found):
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@FORWARD_MODE
@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_of_the_plain_form(kind: str) -> None:
    """Reverse, forward and second derivatives against finite differences, of the input and of a weight."""
    layer, x = made(kind, dim=4, heads=2)

    def f(x: Tensor, weight: Tensor) -> Tensor:
        return torch.func.functional_call(layer, {"q.weight": weight}, (x,), {"causal": True})

    inputs = (x[:1, :3, :4].clone().requires_grad_(), layer.q.weight.detach().clone().requires_grad_())
    assert torch.autograd.gradcheck(f, inputs, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, inputs)


@FORWARD_MODE
@pytest.mark.parametrize("kind", KINDS)
def test_jvp_vjp_and_vmap_agree_with_the_jacobian(kind: str) -> None:
    """jvp, vjp and vmap over sequences agree with the Jacobian by backward passes."""
    layer, x = made(kind)
    jacobian = torch.autograd.functional.jacobian(layer, x[0])
    tangent = torch.randn_like(x[0])
    _, forward = torch.func.jvp(layer, (x[0],), (tangent,))
    torch.testing.assert_close(forward, (jacobian * tangent).sum((-1, -2)), rtol=1e-10, atol=1e-12)
    _, pull = torch.func.vjp(layer, x[0])
    torch.testing.assert_close(pull(tangent)[0], (jacobian * tangent[..., None, None]).sum((0, 1)))
    torch.testing.assert_close(torch.func.vmap(layer)(x), layer(x))
    torch.testing.assert_close(torch.func.jacrev(layer)(x[0]), jacobian)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fused", [False, True])
def test_a_row_is_that_of_the_whole(kind: str, fused: bool) -> None:
    layer, x = made(kind, fused=fused)
    for given in ({}, {"causal": True}, {"mask": some_mask()}, {"mask": some_mask()[0, 0], "causal": True}):
        whole = layer(x, **given)
        for i in (0, 3, LENGTH - 1, -1):
            torch.testing.assert_close(layer.row(x, i, **given), whole[:, i], rtol=1e-11, atol=1e-14)
    one = layer.row(x[0], 2)
    assert one.shape == (DIM,)
    torch.testing.assert_close(one, layer(x)[0, 2], rtol=1e-11, atol=1e-14)
    with pytest.raises(ValueError, match=r"i: 6 \(allowed: a token of 6\)"):
        layer.row(x, LENGTH)


class Largest(TorchDispatchMode):
    """The most numbers that any one operation returned in a tensor."""

    numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for one in result if isinstance(result, tuple | list) else [result]:
            if isinstance(one, Tensor):
                self.numbers = max(self.numbers, one.untyped_storage().size() // one.element_size())
        return result


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_stored(kind: str) -> None:
    """No N x N x D tensor anywhere; fused or for one row, forward and back, not even one of N x N."""
    torch.manual_seed(0)
    layer, length = attention(kind, 4, 1), 300
    x = torch.randn(1, length, 4, requires_grad=True)

    def most(call) -> int:
        with Largest() as largest:
            call().sum().backward()
        return largest.numbers

    assert most(lambda: layer(x)) < 20 * length
    assert most(lambda: layer(x, causal=True)) < 20 * length
    assert most(lambda: layer.row(x, 7)) < 20 * length
    layer.fused = False
    assert most(lambda: layer(x)) == length**2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fused", [False, True])
def test_permutations_go_through(kind: str, fused: bool) -> None:
    """Without a mask the order of tokens plays no part; a causal layer, as control, sees it."""
    layer, x = made(kind, fused=fused)
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    torch.testing.assert_close(layer(x[:, order]), layer(x)[:, order], rtol=1e-11, atol=1e-14)
    assert not torch.allclose(layer(x[:, order], causal=True), layer(x, causal=True)[:, order])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fused", [False, True])
def test_what_is_hidden_changes_no_bit(kind: str, fused: bool) -> None:
    """A later token under `causal`, a padded one under a mask: equal bits, longer than a kernel's block; a seen one changes them."""
    torch.manual_seed(0)
    layer = attention(kind, 8, 2, max_length=600)
    layer.fused = fused
    x = torch.randn(2, 600, 8)
    other = x.clone()
    other[:, 500:] = 1e3 * torch.randn(2, 100, 8)
    assert torch.equal(layer(x, causal=True)[:, :500], layer(other, causal=True)[:, :500])
    assert not torch.equal(layer(x, causal=True)[:, 500:], layer(other, causal=True)[:, 500:])
    mask = (torch.arange(600) < 500).expand(600, 600) | torch.eye(600, dtype=torch.bool)
    assert torch.equal(layer(x, mask=mask)[:, :500], layer(other, mask=mask)[:, :500])
    assert not torch.allclose(layer(x)[:, :500], layer(other)[:, :500])


@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_is_a_shorter_sequence(kind: str) -> None:
    """Appendix G: a row is that of unmasked attention over the tokens it sees; under one mask for all heads."""
    layer, x = made(kind)
    mask = some_mask()[0, 0]
    y = layer(x, mask=mask)
    for i in range(LENGTH):
        seen = mask[i].nonzero().flatten()
        here = int((seen == i).nonzero())
        alone = undivided(layer, layer(x[:, seen]), len(seen))[:, here]
        torch.testing.assert_close(undivided(layer, y)[:, i], alone, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fused", [False, True])
def test_shapes_of_masks(kind: str, fused: bool) -> None:
    layer, x = made(kind, fused=fused)
    whole = some_mask()
    for few in (whole[:1], whole[:, :1], whole[0], whole[0, 0], whole[:1, :1]):
        torch.testing.assert_close(layer(x, mask=few), layer(x, mask=few.expand_as(whole)))
    everything = torch.ones(LENGTH, 1, dtype=torch.bool)
    torch.testing.assert_close(layer(x, mask=everything), layer(x), rtol=1e-11, atol=1e-14)
    padding = torch.tensor([True] * 4 + [False] * 2)[None, None, None]
    if kind == "contractive":
        with pytest.raises(ValueError, match="token 4 of sequence 0, head 0, is hidden from itself"):
            layer(x, mask=padding)
        return
    torch.testing.assert_close(layer(x, mask=padding)[:, :4], layer(x[:, :4]), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["forward", "row", "probabilities"])
def test_wrong_masks_are_refused(kind: str, way: str) -> None:
    layer, x = made(kind)
    call = (lambda **kw: layer.row(x, 1, **kw)) if way == "row" else getattr(layer, way)
    call = call if way == "row" else (lambda call: lambda **kw: call(x, **kw))(call)
    blind = some_mask()
    blind[1, 2, 4] = False
    with pytest.raises(ValueError, match="row 4 of sequence 1, head 2, sees nothing"):
        call(mask=blind)
    later = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
    later[0, 0] = False  # sees later tokens alone: nothing, once these are hidden too
    if kind != "contractive":
        assert call(mask=later).isfinite().all()
    with pytest.raises(ValueError, match="row 0 of sequence 0, head 0, sees nothing"):
        call(mask=later, causal=True)
    with pytest.raises(ValueError, match=r"mask: dtype torch.float64 \(allowed: torch.bool"):
        call(mask=blind.double())
    for wrong in ((5, LENGTH), (3, 1, LENGTH, LENGTH), (1, 1, 1, 1, LENGTH)):
        with pytest.raises(ValueError, match="what broadcasts to"):
            call(mask=torch.ones(wrong, dtype=torch.bool))


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_sum_to_one_over_what_is_seen(kind: str) -> None:
    layer, x = made(kind)
    mask = some_mask()
    for given, seen in [({}, torch.ones_like(mask)), ({"mask": mask}, mask)]:
        p = layer.probabilities(x, **given)
        assert p.shape == (2, HEADS, LENGTH, LENGTH)
        torch.testing.assert_close(p.sum(-1), torch.ones_like(p[..., 0]))
        assert ((p > 0) == seen).all()
    assert (layer.probabilities(x, causal=True).triu(1) == 0).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fused", [False, True])
def test_sizes_at_the_edge(kind: str, fused: bool, slow) -> None:
    """One token attends to itself, whatever its logit; none is an error, as is another width."""
    layer, x = made(kind, fused=fused)
    one = x[:, :1]
    expected = torch.stack([slow(layer, sequence) for sequence in one])
    torch.testing.assert_close(undivided(layer, layer(one), 1), expected, rtol=1e-11, atol=1e-13)
    torch.testing.assert_close(layer(one, causal=True), layer(one))
    for wrong in (x[:, :0], x[..., :5], x[0, 0], x[None]):
        for call in (layer, lambda x: layer.row(x, 0), layer.probabilities):
            with pytest.raises(ValueError, match=r"x: shape .*allowed"):
                call(wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_finite_stays_in_its_sequence(kind: str) -> None:
    layer, x = made(kind, fused=True)
    before = layer(x)
    x[1, 2, 0] = torch.nan
    after = layer(x)
    assert torch.equal(after[0], before[0]) and after[1].isnan().any(-1).all()


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("kind", ["dp", "l2_tied"])
def test_dropout_is_unbiased_and_off_in_evaluation(kind: str, fused: bool) -> None:
    torch.manual_seed(0)
    layer = attention(kind, 8, 2, dropout=0.5)
    layer.fused = fused
    x = torch.randn(1, 5, 8)
    clean = layer.eval()(x)
    assert torch.equal(layer(x), clean)
    draws = layer.train()(x.expand(4000, -1, -1))
    assert not torch.allclose(draws[0], draws[1])
    error = draws.std(0) / 4000**0.5
    assert ((draws.mean(0) - clean[0]).abs() < 5 * error).all()


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_dropout_drops_weights(kind: str, fused: bool) -> None:
    """Of a token alone the only weight is kept, and doubled, or dropped: the whole output with it."""
    torch.manual_seed(0)
    layer = attention(kind, 4, 1, dropout=0.5)
    layer.fused = fused
    x = torch.randn(1, 1, 4)
    clean = layer.eval()(x)[0, 0]
    draws = layer.train()(x.expand(100, -1, -1))[:, 0]
    dropped = (draws == 0).all(-1)
    assert 20 < int(dropped.sum()) < 80
    torch.testing.assert_close(draws[~dropped], 2 * clean.expand(100, -1)[~dropped])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_is_near_float32(kind: str, fused: bool, dtype: torch.dtype) -> None:
    """Weights in half precision, and autocast: near float32, finite gradients."""
    torch.manual_seed(0)
    layer = attention(kind, 16, 2)
    layer.fused = fused
    x = torch.randn(2, 9, 16)
    expected = layer(x, causal=True)
    with torch.autocast("cpu", dtype):
        cast = layer(x, causal=True)
    half = layer.to(dtype)(x.to(dtype), causal=True)
    half.sum().backward()
    assert half.dtype == dtype and all(one.grad.isfinite().all() for one in layer.parameters())
    for found in (cast, half):
        torch.testing.assert_close(
            found.float(), expected, rtol=0.05, atol=0.03 * expected.abs().max().item()
        )


def test_the_extra_column_holds_its_digits_in_half_precision() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 5, 4) for _ in range(3))
    bias = -100 * torch.rand(2, 3, 1, 5)
    for dtype, tolerance in ((torch.bfloat16, 2**-16), (torch.float16, 2**-20), (torch.float32, 0.0)):
        wide_q, wide_k, wide_v = with_bias(q.to(dtype), k.to(dtype), bias, v.to(dtype))
        assert wide_q.shape == wide_k.shape == wide_v.shape
        logits = wide_q.double() @ wide_k.double().mT
        found = logits - q.to(dtype).double() @ k.to(dtype).double().mT
        torch.testing.assert_close(found, bias.double().expand_as(found), rtol=tolerance, atol=1e-5)
        assert torch.equal(wide_v[..., :4], v.to(dtype)) and (wide_v[..., 4:] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_start_is_xavier_uniform(kind: str) -> None:
    torch.manual_seed(0)
    layer = attention(kind, 64, 4)
    for one in layer.modules():
        if isinstance(one, nn.Linear):
            limit = (6 / sum(one.weight.shape)) ** 0.5
            assert 0.97 * limit < one.weight.abs().max() <= limit
    before = layer.v.weight.clone()
    layer.reset_parameters()
    assert not torch.equal(before, layer.v.weight)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("wrong", "match"),
    [({"heads": 5}, "heads: 5"), ({"heads": 0}, "heads: 0"), ({"dropout": 1.0}, "dropout: 1.0")],
)
def test_what_does_not_fit_is_refused(kind: str, wrong: dict, match: str) -> None:
    with pytest.raises(ValueError, match=f"{match}.*allowed"):
        attention(kind, **{"dim": 12, "heads": 3, **wrong})


@pytest.mark.parametrize("kind", KINDS)
def test_autocast_leaves_logits_and_softmax_in_float32(kind: str) -> None:
    net, x = (one.float() for one in made(kind, spread=4.0))
    with torch.autocast("cpu", torch.bfloat16):
        found, y = net.probabilities(x), net(x)
        q, k, bias, *_ = net.project(x, slice(None), None, False)
    assert found.dtype == torch.float32 and y.shape == x.shape
    torch.testing.assert_close(found.sum(-1), torch.ones(found.shape[:-1]), rtol=0, atol=1e-5)
    logits = q.float() @ k.float().mT + (0.0 if bias is None else bias)
    torch.testing.assert_close(found, (net.beta * logits).softmax(-1), rtol=1e-6, atol=1e-7)
