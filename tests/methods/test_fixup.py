"""FixUp: its factors, blocks that start as shortcuts, a first update that does not grow with depth.

T-FixUp and FixUp: every tensor's scale by its name; what they do to a deep network; what is left alone.
"""

import math
import re

import pytest
import torch
from torch import Tensor, nn

from relearn.methods import INITIALISATIONS, load
from relearn.methods.fixup import fixup
from relearn.methods.t_fixup import t_fixup
from relearn.methods.variance_scaling import kaiming
from relearn.models import create
from relearn.models.post_ln_transformer import PostLNTransformer


def some(network, depth=0.1, seed=1):
    torch.manual_seed(seed)
    return create(network, width=0.5, depth=depth, classes=4).double()


@pytest.fixture
def images():
    return torch.rand(4, 3, 16, 16, dtype=torch.double, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize(
    ("network", "layers", "branches"),
    [("FixUpResNet-110", 2, 6), ("ResNet-110", 2, 6), ("timm-ResNet-50-FixUp", 3, 4)],
)
def test_weights_are_kaimings_times_the_published_factors(network, layers, branches):
    ours, start = some(network), some(network, seed=2)
    done = fixup(ours, seed=5)
    kaiming(start, seed=5)
    expected = {id(start.head.weight): 0.0}
    assert len(start.branches()) == branches
    for branch in start.branches():
        assert len(branch) == layers
        for layer in branch:
            expected[id(layer.weight)] = branches ** -(1 / (2 * layers - 2))
        expected[id(branch[-1].weight)] = 0.0
    for (name, a), b in zip(ours.named_parameters(), start.parameters()):
        factor = expected.get(id(b), 1.0)
        torch.testing.assert_close(a.detach(), factor * b.detach(), msg=name)
        assert done.scales.get(name, 1.0) == pytest.approx(factor)
    assert not ours.head.bias.any()


def test_fixup_starts_as_its_shortcuts_with_logits_of_zero(images):
    net = some("FixUpResNet-110")
    fixup(net, seed=0)
    with torch.no_grad():
        hidden = net.stem(images)
        for stage in net.body:
            for block in stage:
                hidden = block.shortcut(hidden) if hasattr(block, "shortcut") else hidden
        torch.testing.assert_close(net.stages(images)[-1], hidden)
        assert not net(images).any()
        kaiming(net, seed=0)  # control
        assert net(images).any()


def first_update(depth, images, scaled):
    """-d/dη of the loss at η = 0 within the branches, so their share of the first step's change; a head that is not 0."""
    net = some("FixUpResNet-110", depth)
    fixup(net, seed=0)
    head = torch.randn(net.head.weight.shape, generator=torch.Generator().manual_seed(9), dtype=torch.double)
    net.head.weight.data.copy_(head)
    if not scaled:
        for branch in net.branches():
            branch[0].weight.data *= len(net.branches()) ** 0.5
    nn.functional.cross_entropy(net(images), torch.tensor([0, 1, 2, 3])).backward()
    return sum(branch[-1].weight.grad.square().sum().item() for branch in net.branches())


def test_the_first_update_does_not_grow_with_depth(images):
    shallow, deep = 1 / 18, 12 / 18  # 3 and 36 branches
    ratio = first_update(deep, images, True) / first_update(shallow, images, True)
    assert ratio == pytest.approx(1, rel=0.4)
    control = first_update(deep, images, False) / first_update(shallow, images, False)
    assert control == pytest.approx(12, rel=0.4)


def test_numbers_in_the_place_of_normalisation_let_every_branch_move(images):
    net = some("ResNet-110-SkipInit")
    fixup(net, seed=0)
    net.head.weight.data.normal_()
    net(images).square().sum().backward()
    assert all(branch[-1].weight.grad.any() for branch in net.branches())


class OneLayerBranches(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(2, 2)

    def branches(self):
        return [(self.head,)]


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (nn.Sequential(nn.Linear(2, 2)), "Sequential does not declare its residual branches"),
        (OneLayerBranches(), "fewer than two layers"),
    ],
)
def test_networks_without_residual_branches_are_refused(net, message):
    before = [tensor.clone() for tensor in net.parameters()]
    with pytest.raises(ValueError, match=rf"^fixup: .*{message}.*\(allowed: "):
        fixup(net)
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), before))


@pytest.mark.parametrize("network", ["VGG-19", "ResNet-110-BN", "WRN-28-10", "DenseNet-100"])
def test_networks_that_normalise_or_are_not_residual_are_refused(network):
    with pytest.raises(ValueError, match=r"^fixup: .*\(allowed: "):
        fixup(some(network))


def network(
    encoder: int = 2, decoder: int = 3, *, dim: int = 64, ffn: int = 96, **more: object
) -> PostLNTransformer:
    torch.manual_seed(0)
    sizes = dict(dim=dim, ffn=ffn, heads=2, encoder_layers=encoder, decoder_layers=decoder, dropout=0.0)
    return PostLNTransformer(200, **{**sizes, "residual": "no_norm", **more})


def scale(name: str, form: str, encoder: int, decoder: int) -> float:
    """What the table of the module says, by the parameter's name."""
    stack = name.split(".")[0]
    inside = re.search(r"(attention\.(v|out)|ffn\.(fc1|fc2))\.weight", name)
    if form == "fixup":
        last = bool(inside) and inside[0].split(".")[1] in ("out", "fc2")
        return 0.0 if last else (2 * encoder + 3 * decoder) ** -0.5 if inside else 1.0
    if stack == "embedding":
        return (9 * decoder) ** -0.25
    if stack == "source_embedding":
        return (9 * encoder) ** -0.25
    if not inside:
        return 1.0
    return 0.67 * encoder**-0.25 if stack == "encoder" else (9 * decoder) ** -0.25


@pytest.mark.parametrize("form", ["t_fixup", "fixup"])
@pytest.mark.parametrize(("encoder", "decoder"), [(2, 3), (4, 1)])
def test_scale_of_every_tensor(form: str, encoder: int, decoder: int) -> None:
    net = network(encoder, decoder)
    load(INITIALISATIONS, "t_fixup")(net, seed=3, form=form)
    for name, parameter in net.named_parameters():
        if parameter.dim() == 1:
            assert not parameter.any(), name
            continue
        weight = parameter.detach()
        if "embedding" in name:
            assert not weight[0].any()
            found, expected = float(weight[1:].std()), 64**-0.5
        else:
            found, expected = float(weight.abs().max()), math.sqrt(6 / sum(weight.shape))
        # The largest of so many uniform draws is within a percent of its bound, the spread of 12,736 normal ones likewise.
        assert found == pytest.approx(expected * scale(name, form, encoder, decoder), rel=0.02), name


def spread(net: PostLNTransformer) -> Tensor:
    source = torch.randint(3, 200, (4, 9), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return net.eval().encode(source).var()


def test_the_stream_of_a_deep_network_stays_in_bounds() -> None:
    """Without normalisation, plain Xavier's variance grows exponentially with the depth; T-FixUp's a few-fold."""
    grown = {}
    for start in ("xavier", "t_fixup"):
        values = []
        for layers in (2, 24):
            net = network(layers, 1, dim=32, ffn=64)
            if start == "t_fixup":
                t_fixup(net)
            values.append(float(spread(net)))
        grown[start] = values[1] / values[0]
    assert grown["t_fixup"] < 10 < 1e3 < grown["xavier"]


def test_with_fixup_every_branch_begins_as_zero() -> None:
    source, target = torch.tensor([[3, 4, 5]]), torch.tensor([[1, 6]])
    deep, flat = network(5, 4), network(1, 1)
    t_fixup(deep, form="fixup")
    t_fixup(flat, form="fixup")
    flat.load_state_dict({name: deep.state_dict()[name] for name in flat.state_dict()})
    assert torch.equal(deep(source, target), flat(source, target))
    deep(source, target).square().mean().backward()
    for layer in (*deep.encoder[:0], *deep.decoder):
        assert layer.ffn.fc2.weight.grad.any() and layer.self_attention.out.weight.grad.any()
    plain = network(5, 4)
    t_fixup(plain)
    flat.load_state_dict({name: plain.state_dict()[name] for name in flat.state_dict()})
    assert not torch.equal(plain(source, target), flat(source, target))


def test_an_output_of_its_own_begins_at_zero_with_fixup_alone() -> None:
    net = network(share="none")
    t_fixup(net, form="fixup")
    assert not net.output.weight.any()
    t_fixup(net)
    assert float(net.output.weight.detach().abs().max()) == pytest.approx(math.sqrt(6 / 264), rel=0.02)


def test_one_table_for_all_is_scaled_once() -> None:
    net = network(share="all")
    t_fixup(net)
    assert float(net.embedding.weight.detach()[1:].std()) == pytest.approx(64**-0.5 * 27**-0.25, rel=0.02)


def test_the_seed_decides_and_the_global_state_stays() -> None:
    nets = [network(), network(), network()]
    state = torch.get_rng_state()
    for net, seed in zip(nets, (1, 1, 2), strict=True):
        net.train()
        assert t_fixup(net, seed=seed).outcome == "ok"
        assert net.training and all(parameter.requires_grad for parameter in net.parameters())
    assert torch.equal(torch.get_rng_state(), state)
    a, b, c = (net.state_dict() for net in nets)
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not torch.equal(a["embedding.weight"], c["embedding.weight"])


@pytest.mark.parametrize(
    ("residual", "form"), [("post_ln", "t_fixup"), ("rezero", "fixup"), ("no_norm", "fix")]
)
def test_what_does_not_fit_is_refused(residual: str, form: str) -> None:
    with pytest.raises(ValueError, match="allowed"):
        t_fixup(network(residual=residual), form=form)
    with pytest.raises(ValueError, match="allowed"):
        t_fixup(torch.nn.Linear(2, 2))
