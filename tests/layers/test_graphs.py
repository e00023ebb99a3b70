"""Layers trace as one graph: torch.export with a dynamic batch, torch.compile with fullgraph, both with the layer's numbers."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from relearn.layers.attention import MultiHeadAttention
from relearn.layers.center_norm import CenterNorm
from relearn.layers.cosine_attention import CosineAttention
from relearn.layers.cross_attention import CrossAttention
from relearn.layers.depthwise_conv import DepthwiseConv2d
from relearn.layers.dot_product_attention import DotProductAttention
from relearn.layers.gelu_linear import GeluLinear, GeluPointwiseConv2d
from relearn.layers.invertible_residual import InvertibleResidual
from relearn.layers.l2_attention import L2Attention
from relearn.layers.long_short_attention import LongShortAttention
from relearn.layers.long_short_attention_2d import LongShortAttention2d
from relearn.layers.long_short_causal import CausalLongShortAttention
from relearn.layers.lrsa import LRSA
from relearn.layers.multihead import AsMultiheadAttention
from relearn.layers.random_feature_gp import RandomFeatureGP
from relearn.layers.relative_attention import RelativeAttention
from relearn.layers.residual import Residual
from relearn.layers.scaled_residual import ScaledResidual
from relearn.layers.weighted_residual import WeightedResidual

Case = tuple[nn.Module, tuple[Tensor, ...], dict[str, Any]]


class Padded(nn.Module):
    """A padded batch through the adapter, with its weights."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = AsMultiheadAttention(layer, batch_first=True)

    def forward(self, x: Tensor, padding: Tensor) -> Any:
        return self.layer(x, x, x, key_padding_mask=padding)


class OfMask(nn.Module):
    """A mask as an input, so that its batch is dynamic too."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, mask: Tensor) -> Any:
        return self.layer(x, mask=mask)


class OfCache(OfMask):
    def forward(self, x: Tensor, cache: Tensor) -> Any:
        return self.layer(x, cache=cache)


class OfGrid(OfMask):
    def forward(self, x: Tensor) -> Any:
        return self.layer(x, (4, 6))


def cases(batch: int) -> dict[str, Case]:
    torch.manual_seed(0)
    x, memory, image = torch.randn(batch, 5, 8), torch.randn(batch, 4, 6), torch.randn(batch, 4, 6, 6)
    mask, bias = torch.ones(5, 5, dtype=torch.bool).tril(), torch.randn(2, 5, 5)
    padding, tokens = torch.zeros(batch, 5, dtype=torch.bool), torch.randn(batch, 24, 8)
    padding[1, 3:] = True
    return {
        "contractive, padded": (Padded(L2Attention(8, 2, contractive="two")), (x, padding), {}),
        "depth-wise, gelu": (nn.Sequential(DepthwiseConv2d(4, 3), GeluPointwiseConv2d(4)), (image,), {}),
        "l2": (L2Attention(8, 2), (x,), {}),
        "l2, untied": (L2Attention(8, 2, tied=False), (x,), {"causal": True}),
        "l2, contractive": (L2Attention(8, 2, contractive="inf"), (x,), {"mask": mask}),
        "dot product": (DotProductAttention(8, 2, fused=False), (x,), {"mask": mask}),
        "dot product, causal": (DotProductAttention(8, 2), (x,), {"causal": True}),
        "cross": (CrossAttention(8, 2, kdim=6, vdim=6, logits="l2"), (x, memory), {}),
        "long-short": (LongShortAttention(8, 2, window=2, rank=3, class_token=1), (x,), {}),
        "long-short, padded": (OfMask(LongShortAttention(8, 2, window=2, rank=3)), (x, ~padding), {}),
        "long-short, released": (
            LongShortAttention(8, 2, window=2, rank=3, class_token=1, as_released=True), (x,), {},
        ),
        "long-short, images": (OfGrid(LongShortAttention2d(8, 2, window=2, rank=3)), (tokens,), {}),
        "long-short, causal": (CausalLongShortAttention(8, 2, window=2, segment=2, rank=1), (x,), {}),
        "long-short, cache": (
            OfCache(CausalLongShortAttention(8, 2, window=2, segment=2, rank=1)), (x, tokens[:, :4, :8]), {},
        ),
        "lrsa": (LRSA(8, 2, alpha=2.0), (x,), {}),
        "cosine": (CosineAttention(8, 2), (x,), {"bias": bias, "mask": mask}),
        "gaussian process": (RandomFeatureGP(8, 3, 16), (x,), {}),
        "relative": (RelativeAttention(8, 2), (x, ), {}),
        "invertible": (InvertibleResidual(L2Attention(8, 2, contractive="inf"), c=0.9), (x,), {}),
        "encoder-decoder": (MultiHeadAttention(8, 2), (x, x[:, :3]), {}),
        "norm": (CenterNorm(8), (x,), {}),
        "gelu": (GeluLinear(8, 4), (x,), {}),
        "weighted": (WeightedResidual(8, 0.1, drop_path=0.5), (x, x.clone()), {}),
        "scaled": (ScaledResidual(0.1, drop_path=0.5), (x, x.clone()), {}),
        "residual": (Residual(8, "w_skip"), (x, x.clone()), {}),
    }  # fmt: skip


NAMES = list(cases(2))
FAST = {"contractive, padded", "depth-wise, gelu", "long-short, cache"}
EVERY = [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]


def first(y: Any) -> Tensor:
    return y[0] if isinstance(y, tuple) else y


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_export_with_a_dynamic_batch(name: str) -> None:
    layer, inputs, more = cases(3)[name]
    layer.eval()
    shapes = (*({0: torch.export.Dim.DYNAMIC} for _ in inputs), *(None for _ in more))
    if isinstance(layer, InvertibleResidual):  # its keyword arguments are of any kind
        shapes = ((shapes[0]), {})
    graph = torch.export.export(layer, inputs, more, dynamic_shapes=shapes).module()
    _, others, again = cases(5)[name]
    torch.testing.assert_close(first(graph(*others, **again)), first(layer(*others, **again)))


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_one_graph_in_training(name: str) -> None:
    torch._dynamo.reset()
    layer, inputs, more = cases(3)[name]
    layer.train()
    inputs = tuple(one.requires_grad_() if one.is_floating_point() else one for one in inputs)
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    gradients = []
    for call in (layer, compiled):
        torch.manual_seed(0)
        y = first(call(*inputs, **more))
        gradients.append(torch.autograd.grad(y.square().sum(), [*layer.parameters()], allow_unused=True))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_a_graph_still_refuses_a_mask_that_voids_the_bound() -> None:
    layer = L2Attention(8, 2, contractive="inf").eval()
    x, mask = torch.randn(2, 5, 8), torch.ones(5, 5, dtype=torch.bool)
    graph = torch.export.export(layer, (x,), {"mask": mask}).module()
    torch.testing.assert_close(graph(x, mask=mask), layer(x, mask=mask))
    with pytest.raises(RuntimeError, match="token is hidden from itself"):
        graph(x, mask=mask & ~torch.eye(5, dtype=torch.bool))


@pytest.mark.parametrize("form", ["inf", "two"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_contractive_attention_is_one_graph_for_each_length(form: str) -> None:
    """The compiler treats the length as a variable from the second one on, but the bound needs it as a number."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    layer = L2Attention(8, 2, contractive=form)
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    for length in (4, 7, 11):
        x = torch.randn(2, length, 8)
        torch.testing.assert_close(compiled(x), layer(x))


@pytest.mark.parametrize("name", NAMES)
def test_meta_device(name: str) -> None:
    """Shapes, parameters and FLOPs can be counted without memory, backward pass included."""
    layer, inputs, more = cases(3)[name]
    want = first(layer(*inputs, **more)).shape
    given = [one.to("meta") for one in inputs]
    named = {key: one.to("meta") if isinstance(one, Tensor) else one for key, one in more.items()}
    y = first(layer.to("meta")(*given, **named))
    y.sum().backward()
    assert y.is_meta and y.shape == want
    assert all(one.grad is None or one.grad.is_meta for one in layer.parameters())


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_a_batch_without_samples_passes_both_ways(name: str, fused: bool) -> None:
    layer, inputs, more = cases(2)[name]
    for one in layer.modules():
        if hasattr(one, "fused"):
            one.fused = fused
    full, empty = (first(layer(*(one[:count] for one in inputs), **more)) for count in (2, 0))
    assert empty.shape == (0, *full.shape[1:])
    empty.sum().backward()
    assert all(one.grad is None or not one.grad.any() for one in layer.parameters())
