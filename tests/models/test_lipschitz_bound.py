"""Bounds of whole networks: above every Jacobian, the product of their parts, and refused by name where there is none."""

import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from relearn.layers.center_norm import CenterNorm
from relearn.layers.cosine_attention import CosineAttention
from relearn.layers.depthwise_conv import DepthwiseConv2d
from relearn.layers.gelu_linear import GeluLinear, GeluPointwiseConv2d
from relearn.layers.invertible_residual import InvertibleResidual
from relearn.layers.l2_attention import L2Attention
from relearn.layers.lrsa import LRSA
from relearn.layers.random_feature_gp import RandomFeatureGP
from relearn.layers.scalar import Scale, Shift
from relearn.maths.network_bounds import residual_bound
from relearn.measures.lipschitz import ascend, jacobian_norm
from relearn.models.cross_windows import CrossShapedAttention
from relearn.models.cswin import CSwin
from relearn.models.lips_block import FeedForward, LipsBlock, norm
from relearn.models.lipschitz_bound import RULES, At, lipschitz_bound, lipschitz_rule
from relearn.models.lipschitz_timm_rules import LayerNorm as TimmLayerNorm
from relearn.models.lipschitz_timm_rules import SelectAdaptivePool2d, resnet, uncovered
from relearn.models.lipsformer import LipsFormer
from relearn.models.pyramid import Downsample
from relearn.models.residual_block import ResidualBlock
from relearn.models.residual_schemes import Joint
from relearn.models.residual_vit import ResidualViT
from relearn.models.shifted_windows import ShiftedWindowAttention
from relearn.models.timm_parts import ClassifierHead, Mlp, PatchEmbed, PatchMerging

SIZE = dict(img_size=8, patch_size=2, in_chans=1, num_classes=3, embed_dim=4, depths=(1, 2), num_heads=(2, 2))
VIT = dict(img_size=8, patch_size=4, in_chans=1, num_classes=3, embed_dim=4, depth=2, num_heads=2)
LRFORMER = VIT | dict(residual="layer_scale", attention="lrsa", head="gp", gp=dict(features=8))


def block() -> LipsBlock:
    return LipsBlock(4, ShiftedWindowAttention(4, 2, (4, 4), 2, shifted=True), alpha=0.3, mlp_ratio=2)


def lrsa_block(scheme: str, **more) -> ResidualBlock:
    return ResidualBlock(LRSA(4, 2, alpha=2.0, eps=0.1), Mlp(4, 6), Joint(scheme, 4, 2, **more), 0.0)


LAYERS = {
    "linear": (lambda: nn.Linear(4, 3), (2, 4)),
    "activations": (lambda: nn.Sequential(nn.GELU(), nn.Linear(4, 4), nn.SiLU(), nn.Sigmoid(), nn.Tanh()), (2, 4)),
    "gelu, tanh": (lambda: nn.Sequential(nn.GELU(approximate="tanh"), nn.LeakyReLU(1.5), nn.ReLU()), (4,)),
    "convolutions": (lambda: nn.Sequential(nn.Conv2d(2, 4, 3, 2, 1), DepthwiseConv2d(4, 3), GeluPointwiseConv2d(4)), (2, 5, 4)),
    "images to numbers": (lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(12, 2)), (2, 4, 4)),
    "norms": (lambda: nn.Sequential(CenterNorm(5), nn.LayerNorm(5, eps=0.1), GeluLinear(5, 2)), (3, 5)),
    "scalars": (lambda: nn.Sequential(Scale(-2.0), Shift(), nn.Identity()), (3,)),
    "l2": (lambda: L2Attention(4, 2, fused=False), (3, 4)),
    "l2, contractive": (lambda: L2Attention(4, 2, contractive="inf", fused=False), (3, 4)),
    "l2, contractive, 2": (lambda: L2Attention(4, 2, contractive="two", scale=3.0, fused=False), (3, 4)),
    "cosine": (lambda: CosineAttention(4, 2, eps=0.1, fused=False), (3, 4)),
    "shifted windows": (lambda: ShiftedWindowAttention(4, 2, (4, 3), 2, shifted=True, eps=0.1), (4, 3, 4)),
    "stripes": (lambda: CrossShapedAttention(4, 2, (3, 4), 2, eps=0.1), (3, 4, 4)),
    "one stripe": (lambda: CrossShapedAttention(4, 2, (2, 2), 2, eps=0.1), (2, 2, 4)),
    "invertible": (lambda: InvertibleResidual(nn.Linear(4, 4), c=-0.5), (3, 4)),
    "feed-forward": (lambda: nn.Sequential(FeedForward(4, 6), Mlp(4, 6)), (3, 4)),
    "lips block": (block, (4, 4, 4)),
    "patches": (lambda: PatchEmbed(4, 2, 2, 3, norm_layer=None), (2, 4, 4)),
    "merging": (lambda: nn.Sequential(PatchMerging(2, norm_layer=partial(norm, "center")), Downsample(4, CenterNorm(8), 2)), (5, 3, 2)),
    "overlapping": (lambda: Downsample(2, CenterNorm(4), 3), (5, 4, 2)),
    "head": (lambda: ClassifierHead(4, 3, input_fmt="NHWC"), (3, 2, 4)),
    "head, max": (lambda: ClassifierHead(4, 3, pool_type="max", input_fmt="NHWC"), (3, 2, 4)),
    "gaussian process": (lambda: RandomFeatureGP(4, 3, 6), (4,)),
    "lrsa before": (lambda: lrsa_block("layer_scale", epsilon=0.5), (3, 4)),
    "lrsa, rezero": (lambda: lrsa_block("rezero", epsilon=0.5, norm=True), (3, 4)),
}  # fmt: skip


NETS = {
    "square": lambda: LipsFormer(**SIZE, window=2, eps=0.1),
    "cross": lambda: LipsFormer(**SIZE, windows="cross", window=(1, 2), eps=0.1),
    "lrformer": lambda: ResidualViT(**LRFORMER, epsilon=0.1),
    "lrformer, mean": lambda: ResidualViT(**LRFORMER, class_token="mean"),
}


def shaken(layer: nn.Module) -> nn.Module:
    """No weight stays where the constructor put it: norms, tables and α included."""
    torch.manual_seed(0)
    layer = layer.double().eval()
    with torch.no_grad():
        for name, one in [*layer.named_parameters(), *layer.named_buffers()]:
            if one.is_floating_point() and "precision" not in name and "phase" not in name:
                one.add_(0.3 * torch.rand(one.shape, dtype=one.dtype))
    return layer


@pytest.mark.parametrize("name", LAYERS)
def test_no_jacobian_is_above_the_bound(name):
    made, shape = LAYERS[name]
    layer = shaken(made())
    lrsa = "lrsa" in name
    bounds = {p: lipschitz_bound(layer, shape, p=p) for p in (("two",) if lrsa else ("two", "inf"))}
    for scale in (1e-3, 0.3, 3.0):
        x = scale * torch.randn(shape, dtype=torch.float64)
        jacobian = torch.autograd.functional.jacobian(lambda z: layer(z[None])[0], x).reshape(-1, x.numel())
        found = {"two": torch.linalg.matrix_norm(jacobian, 2), "inf": jacobian.abs().sum(1).max()}
        for p, bound in bounds.items():
            assert found[p] <= bound.value * (1 + 1e-9), (p, scale)


@pytest.mark.parametrize("name", [*LAYERS, *NETS])
def test_nothing_of_it_counts_as_uncovered(name):
    made = NETS[name] if name in NETS else LAYERS[name][0]
    assert uncovered(made()) == []


@pytest.mark.parametrize("name", ["linear", "scalars", "patches"])
def test_exact_for_affine_layers(name):
    made, shape = LAYERS[name]
    layer, x = shaken(made()), torch.zeros(shape, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda z: layer(z[None])[0], x).reshape(-1, x.numel())
    assert lipschitz_bound(layer, shape).value == pytest.approx(float(torch.linalg.matrix_norm(jacobian, 2)))
    assert lipschitz_bound(layer, shape, p="inf").value == pytest.approx(float(jacobian.abs().sum(1).max()))


@pytest.mark.parametrize("name", NETS)
def test_whole_networks_from_above_and_from_below(name):
    net = shaken(NETS[name]())
    x = torch.rand(1, 8, 8, dtype=torch.float64)
    below = jacobian_norm(lambda z: net(z[None])[0], x, "two", method="free", mode="difference").value
    tight, loose = net.lipschitz_bound(), net.lipschitz_bound(form="corrected")
    assert 0 < below <= tight.value <= loose.value < math.inf
    assert math.exp(tight.log) == pytest.approx(tight.value)
    names = {part.name for part in tight.parts}
    assert len(names) == len(tight.parts) and {"head", "head.fc"} & names
    if "lrf" in name:
        with pytest.raises(ValueError, match=r"blocks\.0\.attn: LRSA is not covered: .*p = two"):
            net.lipschitz_bound("inf")
    else:
        other = net.lipschitz_bound("inf")
        row = jacobian_norm(lambda z: net(z[None])[0], x, "inf", method="free").value
        assert row <= other.value


def test_a_stack_beside_the_largest_jacobian_that_a_search_finds():
    torch.manual_seed(0)
    attention = L2Attention(4, 2, contractive="two", fused=False)
    stack = nn.Sequential(
        InvertibleResidual(attention, c=0.9), CenterNorm(4), InvertibleResidual(nn.Tanh(), c=0.5)
    )
    stack.double().eval()
    bound = lipschitz_bound(stack, (3, 4))
    assert bound.value == pytest.approx(1.9 * 4 / 3 * 1.5)
    found = ascend(stack, torch.randn(6, 3, 4, dtype=torch.float64), p="two", steps=20)
    assert 1 < float(found.values.max()) <= bound.value


def test_the_product_is_theorem_2_corrected_and_the_printed_form_is_its_exponential():
    net = LipsFormer(**SIZE, window=2).eval()
    found = net.lipschitz_bound(form="corrected")
    branches = [part for part in found.parts if part.weight is not None]
    others = [part.constant for part in found.parts if part.weight is None]
    assert len(branches) == 3 * 4  # two convolutions, attention, feed-forward
    alphas = [part.weight for part in branches]
    assert alphas == pytest.approx([1 / 3] * 12)
    expected = residual_bound([part.constant for part in branches], alpha=alphas, others=others)
    assert found.value == pytest.approx(expected)
    printed = net.lipschitz_bound(form="printed")
    assert printed.log == max(part.constant for part in printed.parts if part.weight is not None) > 1000
    assert printed.value == math.inf and found.value < math.inf


def test_what_has_no_constant_is_refused_by_name():
    shape = (3, 4)
    for net, said in (
        (ResidualViT(**VIT), r"blocks\.0\.attn: Attention is not covered: it has no Lipschitz constant"),
        (ResidualViT(**VIT, class_token="class_attention"), "network: ResidualViT .*class attention"),
        (CSwin(**SIZE, split=(1, 2)), r"layers\.0\.1\.attention: .*similarity 'dot_product'"),
        (
            LipsFormer(**SIZE, as_released=True),
            r"attention\.attention: CosineAttention .*normalise_values: False",
        ),
        (LipsFormer(**SIZE, windows="cross", similarity="l2"), r"layers\.0\.1\.attention: .*similarity 'l2'"),
        (
            ResidualViT(**LRFORMER | dict(residual="rezero")),
            r"blocks\.0\.attn: LRSA .*directly after a LayerNorm",
        ),
    ):
        with pytest.raises(ValueError, match=said) as caught:
            net.eval().lipschitz_bound()
        assert "\n" not in str(caught.value)
    for layer, said in (
        (L2Attention(4, 2, tied=False), "network: L2Attention .*tied = False"),
        (nn.Sequential(nn.Linear(4, 4), nn.Softmax(-1)), "1: Softmax is not covered: no rule"),
        (nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1)), "1: Dropout draws in training mode"),
        (nn.Linear(5, 4), "input of width 4"),
        (nn.LayerNorm(5), "input of width 4"),
    ):
        with pytest.raises(ValueError, match=said):
            lipschitz_bound(layer, shape)
    for given, said in ((dict(p="one"), "p: 'one'"), (dict(form="best"), "form: 'best'")):
        with pytest.raises(ValueError, match=said):
            lipschitz_bound(nn.Identity(), shape, **given)


class Twice(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


class Standardised(nn.Conv2d):  # as timm's StdConv2d
    def forward(self, x):
        return self._conv_forward(x, nn.functional.layer_norm(self.weight, self.weight.shape[1:]), self.bias)


@pytest.mark.parametrize(
    "layer, shape", [(Twice(4, 4), (4,)), (Standardised(3, 2, 3), (3, 8, 8))], ids=["linear", "convolution"]
)
def test_a_forward_of_its_own_is_refused(layer, shape):
    parent = type(layer).__mro__[1].__name__
    with pytest.raises(
        ValueError, match=f"1: {type(layer).__name__} is not covered: its forward differs from {parent}'s"
    ):
        lipschitz_bound(nn.Sequential(nn.Identity(), layer), shape)
    assert uncovered(layer)[0].why == f"its forward differs from {parent}'s"
    torch.nn.utils.parametrize.register_parametrization(layer, "weight", nn.Identity())
    with pytest.raises(ValueError, match="its forward differs"):
        lipschitz_bound(layer, shape)


def test_a_helper_of_its_own_is_refused():
    for name in ("flops", "train", "_conv_forward"):
        layer = type("Own", (nn.Conv2d,), {name: lambda *_: 0})(1, 1, 1)
        assert len(uncovered(layer)) == (name == "_conv_forward")
    with pytest.raises(ValueError, match="Own is not covered: its _conv_forward differs from Conv2d's"):
        lipschitz_bound(layer, (1, 4, 4))


ALTERED = {
    "forward hooks": lambda one: one.register_forward_hook(lambda _, given, y: 5 * y),
    "a forward of": lambda one: setattr(one, "forward", lambda x: 5 * x),
    "a plain tensor as weight": lambda one: nn.utils.weight_norm(one).weight_g.data.mul_(5),
    "a plain tensor": lambda one: nn.utils.spectral_norm(one).weight_v.mul_(0.2),
    "a plain": lambda one: prune.l1_unstructured(one, "weight", 0.5).weight_orig.data.mul_(5),
}


@pytest.mark.filterwarnings("ignore:.*_norm. is deprecated:FutureWarning")
@pytest.mark.parametrize("why", ALTERED)
def test_a_layer_that_does_not_compute_with_the_weight_it_shows_is_refused(why):
    torch.manual_seed(0)
    layer, whole = nn.Linear(4, 4, bias=False).double().eval(), L2Attention(4, 2)
    layer.register_full_backward_hook(print)  # the control: it changes no output
    whole.out = layer  # its parent reads the weight
    assert uncovered(whole) == [] and lipschitz_bound(whole, (3, 4)).value > 0
    ALTERED[why](layer)
    shown = torch.linalg.matrix_norm(layer.weight.detach(), 2)
    for net, name in ((layer, ""), (whole, "out")):
        with pytest.raises(ValueError, match=f"{name or 'network'}: Linear is not covered: {why}[^\n]*$"):
            lipschitz_bound(net, (3, 4))
        assert [one.name for one in uncovered(net)] == [name]
    assert torch.linalg.matrix_norm(layer(torch.eye(4).double()).detach(), 2) > 1.05 * shown


@pytest.mark.parametrize("name, value", [("weight", math.nan), ("bias", math.inf), ("running_var", -1.0)])
def test_numbers_that_give_no_bound_are_refused(name, value):
    net = nn.BatchNorm2d(4).eval()
    getattr(net, name).data[1] = value
    with pytest.raises(ValueError, match=f"^{name}: .*allowed: [^\n]*$"):
        lipschitz_bound(net, (4, 3, 3))


def test_patches_that_are_filled_up_count_as_tokens():
    both = nn.Sequential(PatchEmbed(None, 4, 1, 4, dynamic_img_pad=True), L2Attention(4, 2))
    assert lipschitz_bound(both, (1, 5, 8)) == lipschitz_bound(both, (1, 8, 8))


def test_a_layer_that_occurs_twice_counts_twice():
    layer = nn.Linear(4, 4)
    both, one = lipschitz_bound(nn.Sequential(layer, layer), (4,)), lipschitz_bound(layer, (4,))
    assert both.value == pytest.approx(one.value**2)


def test_a_reparametrised_layer_has_the_bound_of_its_weight():
    layer = torch.nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))
    exact = float(torch.linalg.matrix_norm(layer.weight.detach().double(), 2))
    assert lipschitz_bound(layer, (4,)).value == pytest.approx(exact)
    assert (
        lipschitz_bound(TimmLayerNorm(4), (2, 4)).value
        == lipschitz_bound(nn.LayerNorm(4, eps=1e-6), (2, 4)).value
    )


@pytest.mark.parametrize("whole", ["branch", "block"])
def test_a_factor_that_overflows_is_infinity(whole):
    wide = nn.Linear(4, 4)
    nn.init.constant_(wide.weight, 1e38)
    net = nn.Sequential(*[wide] * 9)
    if whole == "branch":
        found = lipschitz_bound(InvertibleResidual(net, c=1e-3), (4,))
    else:
        block = resnet.BasicBlock(3, 3).eval()
        nn.init.constant_(block.conv1.weight, 1e38)
        nn.init.constant_(block.conv2.weight, 1e38)
        block.bn1 = nn.Sequential(*[nn.Linear(4, 4, bias=False).requires_grad_(False) for _ in range(8)])
        for one in block.bn1:
            one.weight.fill_(1e38)
        found = lipschitz_bound(block, (3, 4, 4))
    assert found.value == math.inf


@pytest.mark.parametrize(
    "layer, shape, said",
    [
        (nn.Conv2d(3, 2, 3), (5, 8, 8), r"shape \(5, 8, 8\) \(allowed: 3 channels"),
        (nn.Conv2d(3, 2, 3), (3, 8), "3 channels, 2 axes"),
        (nn.Conv2d(3, 2, 3), (3, 8, 2), r"images of \(8, 2\)"),
        (nn.BatchNorm2d(4), (3, 8, 8), "4 channels"),
        (nn.BatchNorm1d(4), (3,), "4 channels"),
        (LipsFormer(**SIZE), (1, 16, 16), r"network: images of \(16, 16\) \(allowed: \(8, 8\)\)"),
        (ResidualViT(**LRFORMER), (1, 12, 8), r"patch_embed: images of \(12, 8\)"),
        (PatchEmbed(8, 4, strict_img_size=False), (3, 5, 8), r"allowed: \(8, 8\)"),
        (nn.MaxPool2d(3), (3, 8, 2), r"images of \(8, 2\)"),
        (ClassifierHead(8, 0, input_fmt="NCHW"), (8, 3, 3), "input_fmt 'NCHW' .allowed: NHWC"),
        (SelectAdaptivePool2d(pool_type="avg", input_fmt="NHWC"), (2, 3, 20), "input_fmt NCHW"),
        (SelectAdaptivePool2d(2, pool_type="avg"), (2, 4, 4), "output_size 1"),
    ],
)
def test_an_input_that_the_layer_does_not_take_is_refused(layer, shape, said):
    with pytest.raises(ValueError, match=said) as caught:
        lipschitz_bound(layer.eval(), shape)
    assert "\n" not in str(caught.value)


def test_a_rule_for_a_block_of_ones_own():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x):
            return x + 2 * self.inner(x)

    @lipschitz_rule(Twice)
    def twice(walk, module, at):
        walk.branch("inner", [(module.inner, "inner")], at, 2.0)
        return At(at.shape)

    try:
        net = nn.Sequential(Twice(), Twice())
        one = float(torch.linalg.matrix_norm(net[0].inner.weight.detach().double(), 2))
        found = lipschitz_bound(net, (3, 4))
        assert [part.name for part in found.parts] == ["0.inner", "1.inner"]
        assert found.parts[0].constant == pytest.approx(one) and found.parts[0].weight == 2
    finally:
        del RULES[Twice]
