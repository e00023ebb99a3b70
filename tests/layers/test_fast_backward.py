"""Backward passes by hand against finite differences, ordinary operations and torch's own layers; no second copy kept."""

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck
from torch.nn.functional import gelu, linear
from torch.utils.checkpoint import checkpoint

from relearn.layers import cosine_core
from relearn.layers.cosine_attention import CosineAttention
from relearn.layers.cosine_core import CosineCore, Form, cosine_attention
from relearn.layers.depthwise_conv import Depthwise, DepthwiseConv2d
from relearn.layers.gelu_linear import GeluLinear, GeluPointwiseConv2d, GeluProduct
from relearn.layers.long_short_attention import LongShortAttention
from relearn.layers.long_short_causal import CausalLongShortAttention


def random(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.double, requires_grad=True)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("kernel", [1, 3, 7])
def test_depthwise_derivatives_of_every_kind(kernel: int) -> None:
    given = random(2, 3, 5, 4), random(3, 1, kernel, kernel), random(3)
    more = dict(check_batched_grad=True)
    assert gradcheck(Depthwise.apply, given, check_forward_ad=True, **more)
    assert gradgradcheck(Depthwise.apply, given, **more)


@pytest.mark.parametrize("entries", [1, 200, 2**17])
@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_the_depthwise_layer_is_torchs(
    entries: int, order: torch.memory_format, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Images one by one, by twos with one left, and all at once."""
    monkeypatch.setattr("relearn.layers.depthwise_conv.IMAGE_ENTRIES", entries)
    one, theirs = DepthwiseConv2d(4, 5), nn.Conv2d(4, 4, 5, padding=2, groups=4).double()
    theirs.load_state_dict(one.state_dict())
    x = torch.randn(5, 4, 6, 4).contiguous(memory_format=order).requires_grad_()
    y = one(x)
    assert type(y.grad_fn).__name__ == "DepthwiseBackward" and y.is_contiguous(memory_format=order)
    z = x.detach().double().requires_grad_()
    ahead = torch.randn(y.shape)
    found = torch.autograd.grad(y, [x, *one.parameters()], ahead)
    wanted = torch.autograd.grad(theirs(z), [z, *theirs.parameters()], ahead.double())
    for a, b in zip(found, wanted):
        torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        assert one(x).dtype == torch.bfloat16
    torch.testing.assert_close(one.double()(z), theirs(z))
    with pytest.raises(ValueError, match=r"kernel: 4 \(allowed: an odd number"):
        DepthwiseConv2d(4, 4)


@pytest.mark.parametrize("bias", [True, False])
def test_gelu_derivatives_of_every_kind(bias: bool) -> None:
    given = (random(2, 3, 4), random(5, 4), *([random(5)] if bias else []))

    def product(*at: Tensor) -> Tensor:
        return GeluProduct.apply(*at, *([] if bias else [None]))

    torch.testing.assert_close(product(*given), linear(gelu(given[0]), *given[1:]))
    assert gradcheck(product, given, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(product, given, check_batched_grad=True)


def test_gelu_layers_keep_one_tensor_and_are_two_layers() -> None:
    one, conv = GeluLinear(6, 3).double(), GeluPointwiseConv2d(6).double()
    z, image = random(2, 6), random(2, 6, 3, 4)
    torch.testing.assert_close(one(z), linear(gelu(z), one.weight, one.bias))
    plainly = nn.functional.conv2d(gelu(image), conv.weight, conv.bias)
    torch.testing.assert_close(conv(image), plainly)
    for a, b in zip(
        *(torch.autograd.grad(y.sum(), [image, *conv.parameters()]) for y in (conv(image), plainly))
    ):
        torch.testing.assert_close(a, b)
    kept: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        one(z)
    places = {t.data_ptr() for t in kept}
    assert places == {z.data_ptr(), one.weight.data_ptr(), one.bias.data_ptr()}


@pytest.mark.parametrize("scratch", [1, 40, 2**18])
@pytest.mark.parametrize(("windows", "values"), [(1, True), (2, True), (2, False)])
def test_cosine_core_derivatives(
    windows: int, values: bool, scratch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In pieces of one window, of more with a rest, and at once."""
    monkeypatch.setattr(cosine_core, "SCRATCH", scratch)
    form = Form(heads=2, tau=3.0, eps=0.1, gain=0.5, normalise_values=values)
    given = random(6, 3, 12), random(windows, 2, 3, 3)

    def core(rows: Tensor, added: Tensor) -> Tensor:
        return CosineCore.apply(rows, added, form)

    torch.testing.assert_close(core(*given), cosine_attention(*given, form))
    assert gradcheck(core, given, check_batched_grad=True)
    ahead = random(6, 3, 4)
    for a, b in zip(
        *(
            torch.autograd.grad(f(*given), given, ahead)
            for f in (core, lambda *at: cosine_attention(*at, form))
        )
    ):
        torch.testing.assert_close(a, b)
    if scratch == 1:
        assert gradgradcheck(core, given)


def test_cosine_core_keeps_nothing_of_size_n_by_n_and_serves_half_precision() -> None:
    form = Form(2, 3.0, 1e-6, 0.5, True)
    rows, added = torch.randn(8, 9, 24, requires_grad=True), torch.randn(1, 2, 9, 9, requires_grad=True)
    kept: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        y = CosineCore.apply(rows, added, form)
    assert {t.data_ptr() for t in kept} == {rows.data_ptr(), added.data_ptr()}
    wanted = torch.autograd.grad(y.square().sum(), [rows, added])
    half = [one.detach().bfloat16().requires_grad_() for one in (rows, added)]
    found = torch.autograd.grad(CosineCore.apply(*half, form).square().sum(), half)
    for a, b in zip(found, wanted):
        assert a.dtype == torch.bfloat16
        assert (a.float() - b).abs().max() < 0.05 * b.abs().max()
    zero = torch.zeros(2, 3, 12, requires_grad=True)
    CosineCore.apply(zero, torch.zeros(1, 2, 3, 3), form).sum().backward()
    assert bool(zero.grad.isfinite().all())


def test_no_image_is_no_error():
    conv, attention = DepthwiseConv2d(4, 3), CosineAttention(8, 2)
    x = torch.zeros(0, 4, 5, 5, requires_grad=True)
    conv(x).sum().backward()
    assert x.grad.shape == x.shape and conv.weight.grad.abs().max() == 0
    assert attention(torch.zeros(0, 6, 8), bias=torch.zeros(2, 6, 6, requires_grad=True)).shape == (0, 6, 8)


@pytest.mark.parametrize("kind", ["linear", "pointwise"])
def test_a_backward_pass_outside_autocast_takes_the_types_as_they_are(kind):
    torch.manual_seed(0)
    layer = GeluLinear(6, 6) if kind == "linear" else GeluPointwiseConv2d(6)
    z = torch.randn(3, 6) if kind == "linear" else torch.randn(2, 6, 4, 4)
    z = z.contiguous(memory_format=torch.channels_last) if z.dim() == 4 else z
    z.requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = layer(z)
    (near,) = torch.autograd.grad(out.float().square().sum(), z)
    (exact,) = torch.autograd.grad(layer(z).square().sum(), z)
    torch.testing.assert_close(near, exact, rtol=0.1, atol=0.1)


@pytest.mark.parametrize(
    ("layer", "plain", "shape"),
    [
        (GeluLinear(3, 2), lambda one, x: linear(gelu(x), one.weight, one.bias), (3,)),
        (DepthwiseConv2d(3, 3), lambda one, x: nn.Conv2d.forward(one, x), (3, 5, 4)),
    ],
)
def test_one_input_without_a_batch_has_the_gradients_of_plain_operations(layer, plain, shape):
    x = torch.randn(shape, requires_grad=True)
    given = (x, *layer.parameters())
    ours, truth = (torch.autograd.grad(out.square().sum(), given) for out in (layer(x), plain(layer, x)))
    torch.testing.assert_close(ours, truth)


@pytest.mark.parametrize(
    "layer",
    [CausalLongShortAttention(4, 2, window=4, segment=2, dropout=0.3), LongShortAttention(4, 2, window=2)],
)
def test_activation_checkpoints_give_the_same_gradient(layer: nn.Module) -> None:
    x, found = torch.randn(2, 7, 4, requires_grad=True), []
    for run in (layer, lambda x: checkpoint(layer, x, use_reentrant=False)):
        torch.manual_seed(1)
        found.append(torch.autograd.grad(run(x).square().sum(), x)[0])
    assert torch.equal(*found)
