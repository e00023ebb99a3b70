"""Whole networks under constraint: the stated bound holds while they train, and certificates from it survive attacks."""

import copy
import math

import pytest
import torch
from torch import Tensor, nn

from relearn.data import digits
from relearn.layers.center_norm import CenterNorm
from relearn.layers.cosine_attention import CosineAttention
from relearn.layers.invertible_residual import InvertibleResidual
from relearn.layers.l2_attention import L2Attention
from relearn.layers.norm_constraint import NormConstraint, Rows
from relearn.layers.scalar import Scale
from relearn.measures.certified_radius import attack, certified_accuracy, certified_radius
from relearn.models.constrained import constrain, constraints, release, settle, stated_bound
from relearn.models.lipschitz_bound import lipschitz_bound
from relearn.models.lipsformer import LipsFormer
from relearn.models.residual_vit import ResidualViT

SIZE = dict(img_size=8, patch_size=2, in_chans=1, num_classes=3, embed_dim=4, depths=(1, 1), num_heads=(2, 2))
IMAGE = (1, 8, 8)
BRANCHES = 8
"""Two blocks of four residual branches: with α = 1/8 theorem 2 speaks of branches (errata, Q13)."""


def lipsformer(windows: str = "square", **more) -> LipsFormer:
    torch.manual_seed(0)
    window = 2 if windows == "square" else (1, 2)
    size = SIZE | dict(windows=windows, window=window, eps=0.1, alpha=1 / BRANCHES, drop_path_rate=0.0)
    return LipsFormer(**size | more).double()


def train(net: nn.Module, shape: tuple[int, ...], steps: int, lr: float = 1.0):
    """SGD on random data with a large loss; yields after every third step, in evaluation mode."""
    torch.manual_seed(1)
    x, labels = torch.rand(16, *shape, dtype=torch.float64), torch.randint(0, 3, (16,))
    optimiser = torch.optim.SGD(net.parameters(), lr=lr)
    for step in range(1, steps + 1):
        optimiser.zero_grad()
        nn.functional.cross_entropy(10 * net.train()(x).flatten(1)[:, :3], labels).backward()
        optimiser.step()
        if step % 3 == 0:
            yield net.eval()


@pytest.mark.parametrize(
    ("windows", "kind"), [("square", "spectral"), ("cross", "spectral"), ("square", "bjorck")]
)
def test_a_lipsformer_keeps_the_bound_of_theorem_2_while_it_trains(windows: str, kind: str) -> None:
    net = lipsformer(windows)
    assert constrain(net, kind=kind, shape=IMAGE).uncovered == ()
    stated = {form: stated_bound(net, IMAGE, form=form) for form in ("tight", "corrected", "printed")}
    branches = [part for part in stated["tight"].parts if part.weight is not None]
    assert len(branches) == BRANCHES and all(one.weight == pytest.approx(1 / BRANCHES) for one in branches)
    kappa = max(one.constant for one in branches)
    last = None
    for now in train(net, IMAGE, 9):
        for form, bound in stated.items():
            assert now.lipschitz_bound(form=form).log <= bound.log + 1e-9, form
        found = now.lipschitz_bound()
        assert sum(one.log for one in found.parts if one.weight is not None) <= kappa  # e^κ
        last = found
    x = torch.rand(IMAGE, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda z: net(z[None])[0], x).flatten(1)
    assert float(torch.linalg.matrix_norm(jacobian, 2)) <= last.value <= stated["tight"].value * (1 + 1e-9)


def test_without_the_constraint_it_does_not_and_alpha_alone_is_not_enough() -> None:
    net = lipsformer()
    kept = copy.deepcopy(net)
    constrain(kept, shape=IMAGE)
    stated = stated_bound(kept, IMAGE)
    free = copy.deepcopy(net)
    assert any(now.lipschitz_bound().log > stated.log + 1 for now in train(free, IMAGE, 60, 0.03))
    for layer, name, _ in list(constraints(kept)):  # what section 4.1.3 of the paper proposes
        if name != "alpha":
            nn.utils.parametrize.remove_parametrizations(layer, name)
    assert any(now.lipschitz_bound().log > stated.log + 1 for now in train(kept, IMAGE, 60, 0.03))


def test_power_iteration_keeps_it_up_to_its_lag() -> None:
    """Patches and linear maps: without padding the norms of constraint and bound are the same."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv1d(4, 6, 2, 2), nn.Tanh(), nn.Flatten(), nn.Linear(12, 5)).double()
    constrain(net, 0.9, method="power", iterations=10)
    stated = stated_bound(net, (4, 4)).log
    assert stated == pytest.approx(2 * math.log(0.9))
    worst = max(lipschitz_bound(now, (4, 4)).log for now in train(net, (4, 4), 60, 0.2))
    assert stated - 0.05 < worst < stated + 0.2
    settle(net)
    assert lipschitz_bound(net, (4, 4)).log <= stated + 1e-9


STACKS = {
    "l2": lambda: nn.Sequential(L2Attention(4, 2, fused=False), CenterNorm(4), nn.Linear(4, 3)),
    "cosine": lambda: nn.Sequential(
        InvertibleResidual(CosineAttention(4, 2, eps=0.1, fused=False), c=0.5), nn.LayerNorm(4, eps=0.5)
    ),
    "images": lambda: nn.Sequential(
        nn.Conv2d(4, 4, 3, padding=1), nn.GELU(), Scale(2.0), nn.Conv2d(4, 2, 2, 2)
    ),
    "contractive": lambda: nn.Sequential(L2Attention(4, 2, contractive="two", fused=False), nn.Linear(4, 4)),
}


@pytest.mark.parametrize("kind", ["spectral", "bjorck"])
@pytest.mark.parametrize("name", STACKS)
def test_no_weights_and_no_input_exceed_the_stated_bound(name: str, kind: str) -> None:
    shape = (4, 4, 4) if name == "images" else (3, 4)
    torch.manual_seed(0)
    net = STACKS[name]().double().eval()
    found = constrain(net, 0.8, kind=kind, shape=shape)
    assert found.uncovered == () and len(found.held) >= 1
    stated = stated_bound(net, shape)
    for size in (0.1, 1.0, 10.0):
        with torch.no_grad():
            for one in net.parameters():
                one.copy_(size * torch.randn_like(one))
        assert lipschitz_bound(net, shape).log <= stated.log + 1e-9
        x = size * torch.randn(shape, dtype=torch.float64)
        jacobian = torch.autograd.functional.jacobian(lambda z: net(z[None])[0], x).reshape(-1, x.numel())
        assert float(torch.linalg.matrix_norm(jacobian, 2)) <= stated.value * (1 + 1e-9)


def test_heads_have_their_own_limits_and_orthonormal_weights_attain_the_stated_bound() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(CosineAttention(8, 4, eps=0.1), nn.Linear(8, 8)).double()
    constrain(net, 0.8, kind="bjorck")
    for one in net[0].maps():
        norms = torch.linalg.matrix_norm(one.detach(), 2)
        torch.testing.assert_close(norms, torch.full_like(norms, 0.8))
    assert lipschitz_bound(net.eval(), (5, 8)).log == pytest.approx(stated_bound(net, (5, 8)).log, abs=1e-4)


def test_a_start_inside_its_limits_computes_the_same() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    for layer in (net[0], net[2]):
        layer.weight.data *= 0.1
    x = torch.randn(5, 4, dtype=torch.float64)
    before = net(x)
    constrain(net)
    assert torch.equal(net(x), before)


def test_what_is_not_covered_is_named_and_the_rest_is_constrained() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x) ** 2

    net = nn.Sequential(nn.Linear(4, 4), Own(), nn.BatchNorm1d(4))
    found = constrain(net)
    assert [one.name for one in found.held] == ["0.weight", "1.inner.weight"]
    assert {one.name: one.kind for one in found.uncovered} == {"1": "Own", "2": "BatchNorm1d"}
    with pytest.raises(ValueError, match=r"^1: Own has no stated constant: no rule .*found 2 layers\)$"):
        stated_bound(net, (4,))
    vit = ResidualViT(img_size=8, patch_size=4, in_chans=1, num_classes=3, embed_dim=4, depth=2, num_heads=2)
    found = constrain(vit, shape=IMAGE)
    assert [one.name for one in found.uncovered] == ["blocks.0.attn", "blocks.1.attn"]
    assert all(".attn." not in one.name for one in found.held) and len(found.held) > 8
    for net in (
        nn.Sequential(L2Attention(4, 2, tied=False)),
        nn.Sequential(L2Attention(4, 2, contractive="inf")),
        nn.Sequential(CosineAttention(4, 2, normalise_values=False)),
        lipsformer("cross", similarity="l2"),
    ):
        assert constrain(net, shape=IMAGE).uncovered


def test_wrong_arguments_are_refused() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU())
    with pytest.raises(ValueError, match="kind: found 'svd', allowed: spectral, bjorck"):
        constrain(net, kind="svd")
    with pytest.raises(ValueError, match=r"shape: found none.*the windows of 0 meet"):
        constrain(net)
    constrain(net, shape=IMAGE)
    with pytest.raises(ValueError, match="found constraints on it"):
        constrain(net, shape=IMAGE)
    with pytest.raises(ValueError, match=r"0\.weight: found no constraint on it"):
        stated_bound(release(net), IMAGE)
    twice = nn.Sequential(nn.Conv2d(1, 1, 3), nn.Identity())
    twice[1] = twice[0]
    with pytest.raises(ValueError, match=r"0: found images of \(8, 8\) and of \(6, 6\)"):
        constrain(twice, shape=IMAGE)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["spectral", "bjorck"])
def test_a_weight_that_cannot_be_constrained_is_named_with_its_shape(kind: str) -> None:
    normed = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    for layer, said in (
        (
            nn.Linear(0, 2),
            r"weight of Linear: found torch.float32 \(2, 0\), allowed: real numbers, not empty",
        ),
        (
            nn.Linear(3, 2, dtype=torch.complex64),
            r"weight of Linear: found torch.complex64 \(2, 3\), allowed",
        ),
        (nn.LazyLinear(2), "weight of LazyLinear: found no shape yet, allowed"),
        (normed, "found a parametrization or a plain tensor, allowed: a parameter"),
        (
            nn.utils.weight_norm(nn.Linear(3, 2)),
            "found a parametrization or a plain tensor, allowed: a parameter",
        ),
    ):
        net = nn.Sequential(nn.Linear(3, 3), nn.Sequential(layer))
        with pytest.raises(ValueError, match=f"^1.0.weight: {said}[^\n]*$"):
            constrain(net, kind=kind)
        assert not list(constraints(net))  # nothing is left on the layers before it


def test_a_refused_network_stays_as_it_was() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Conv2d(2, 2, 3, padding=2, dilation=2))
    before = {name: weight.clone() for name, weight in net.state_dict().items()}
    with pytest.raises(ValueError, match="or method power"):
        constrain(net, 0.1, shape=IMAGE)
    assert before.keys() == net.state_dict().keys() and next(constraints(net), None) is None
    assert all(torch.equal(before[name], weight) for name, weight in net.state_dict().items())
    assert len(constrain(net, 0.1, shape=IMAGE, method="power").held) == 2  # what the error advises


@pytest.mark.parametrize("method", ["upper", "power"])
def test_release_leaves_a_plain_network_that_computes_the_same(method: str) -> None:
    net = lipsformer()
    names = list(dict(net.named_parameters()))
    types = [type(one) for one in net.modules()]
    constrain(net, 0.9, shape=IMAGE, method=method)
    *_, net = train(net, IMAGE, 3)
    x = torch.rand(4, *IMAGE, dtype=torch.float64)
    before, copied = net(x).detach(), release(copy.deepcopy(net))
    torch.testing.assert_close(copied(x), before, rtol=0, atol=1e-12)
    assert torch.equal(net(x), before)  # the constrained network is untouched by the release of its copy
    assert sorted(dict(copied.named_parameters())) == sorted(names)
    assert [type(one) for one in copied.modules()] == types and not list(constraints(copied))
    assert copied.lipschitz_bound().log == pytest.approx(net.lipschitz_bound().log, abs=1e-12)
    other = lipsformer()
    constrain(other, 0.9, shape=IMAGE, method=method)
    other.load_state_dict(net.state_dict())
    assert torch.equal(other.eval()(x), before)


# certificates -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def images() -> tuple[Tensor, Tensor]:
    held = digits.load()
    return torch.from_numpy(held.train_images).double()[:300] / 255, torch.from_numpy(held.train_labels)[:300]


def classifier(images: tuple[Tensor, Tensor], kind: str) -> nn.Module:
    torch.manual_seed(0)
    x, labels = images
    layers = (nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 32), nn.ReLU())
    net = nn.Sequential(*layers, nn.Linear(32, 10)).double()
    if kind != "free":
        constrain(net, kind=kind, shape=IMAGE)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(40):
        optimiser.zero_grad()
        nn.functional.multi_margin_loss(net(x), labels, margin=0.5).backward()
        optimiser.step()
    return net.eval()


@pytest.mark.parametrize("kind", ["spectral", "bjorck"])
def test_certificates_of_a_constrained_network_survive_attacks_and_others_do_not(images, kind: str) -> None:
    x, labels = images
    net, free = classifier(images, kind), classifier(images, "free")
    accuracy = {}
    for name, one in (("held", net), ("free", free)):
        bound = lipschitz_bound(one, IMAGE).value
        logits = one(x).detach()
        radius, answer = certified_radius(logits, bound), logits.argmax(1)
        correct = answer == labels
        accuracy[name] = certified_accuracy(radius, correct, (0.0, 0.1, 0.2))
        inside = one(x + attack(one, x, 0.999 * radius, steps=20)).argmax(1)
        assert (inside == answer).all(), name
        outside = radius < 1.0  # the control: what is not certified at 1 breaks there
        broken = one(x + attack(one, x, 1.0, steps=20)).argmax(1) != answer
        assert int((broken & outside).sum()) > 0.5 * len(x) and not (broken & ~outside).any()
    assert lipschitz_bound(net, IMAGE).log <= stated_bound(net, IMAGE).log + 1e-9
    assert accuracy["held"][0] > 0.8
    assert accuracy["held"][1] > accuracy["free"][1] + 0.2  # the constraint is what makes radii of this size


def test_nothing_is_stated_of_a_weight_that_has_more_than_its_constraint() -> None:
    class Doubled(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return 2 * weight

    net = nn.Sequential(nn.Linear(3, 3))
    constrain(net)
    nn.utils.parametrize.register_parametrization(net[0], "weight", Doubled())
    with pytest.raises(
        ValueError, match=r"^0\.weight: found NormConstraint, Doubled, allowed: [^\n]*nothing besides"
    ):
        stated_bound(net, (3,))
    first = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3)))
    with pytest.raises(ValueError, match=r"^0\.weight: found _SpectralNorm, allowed: "):
        stated_bound(first, (3,))
    nn.utils.parametrize.register_parametrization(
        first[0], "weight", NormConstraint(torch.eye(3), 1.0, Rows())
    )
    assert [name for _, name, _ in constraints(first)] == ["weight"]  # wherever it is in the list


class Unused(nn.Module):
    """The second convolution is never called."""

    def __init__(self) -> None:
        super().__init__()
        self.seen, self.spare = nn.Conv2d(1, 1, 3), nn.Conv2d(1, 1, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.seen(x)


def test_a_network_that_takes_no_images_of_this_shape_is_refused_by_the_layer_s_name() -> None:
    for net, shape, said in (
        (
            Unused(),
            IMAGE,
            "^spare.weight: found a convolution that forward never calls, allowed: one that sees images$",
        ),
        (
            nn.Sequential(nn.Embedding(5, 4), nn.Conv1d(4, 4, 3)),
            (5,),
            r"^0: found an error at one input of zeros, torch.float32 \(5,\), allowed: [^\n]* \(Expected tensor [^\n]*\)$",
        ),
        (nn.Sequential(nn.Flatten(0), nn.Conv2d(1, 1, 3)), IMAGE, r"^1: found an error at [^\n]*$"),
    ):
        before = list(net.state_dict())
        with pytest.raises(ValueError, match=said):
            constrain(net, shape=shape)
        assert list(net.state_dict()) == before and not any(one._forward_pre_hooks for one in net.modules())
