"""Bounds of pooling and of timm's ResNets against exact Jacobians; certified radii against attacks."""

import json
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from relearn import cli
from relearn.cli import bound
from relearn.measures.certified_radius import attack, certified_accuracy, certified_radius
from relearn.models.lipschitz_bound import lipschitz_bound
from relearn.models.lipschitz_timm_rules import BatchNormAct2d, resnet, uncovered


def jacobian(net: nn.Module, x: Tensor) -> Tensor:
    return torch.autograd.functional.jacobian(lambda one: net(one[None]).flatten(), x).flatten(1)


def norm(net: nn.Module, x: Tensor, p: str) -> float:
    matrix = jacobian(net, x)
    return float(torch.linalg.matrix_norm(matrix, 2) if p == "two" else matrix.abs().sum(1).max())


def drawn(net: nn.Module, seed: int = 0) -> nn.Module:
    """Random weights and statistics, float64, evaluation mode."""
    torch.manual_seed(seed)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            module.running_mean.uniform_(-1, 1)
            module.running_var.uniform_(0.5, 2)
    return net.double().eval()


@pytest.mark.parametrize("p", ["two", "inf"])
@pytest.mark.parametrize(
    "window", [(2, 2, 0), (3, 2, 1), (3, 1, 1), (2, 3, 0), ((3, 2), (1, 2), (1, 0))], ids=str
)
@pytest.mark.parametrize("size", [(9, 9), (4, 7), (2, 3)], ids=str)
@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_the_bound_of_an_average_is_its_norm(size, window, ceil: bool, padded: bool, p: str) -> None:
    pool = nn.AvgPool2d(*window, ceil, padded)
    bound = lipschitz_bound(pool, (2, *size), p=p).value
    exact = norm(pool, torch.rand(2, *size, dtype=torch.float64), p)
    assert exact == pytest.approx(bound, rel=1e-12) if p == "two" else exact <= bound * (1 + 1e-12)


def test_a_window_that_the_border_cuts_has_larger_weights() -> None:
    """The control: √(o / K), which holds for windows of K pixels, is too small for the last window, of one pixel."""
    pool = nn.AvgPool2d(2, 2, ceil_mode=True, count_include_pad=False)
    assert lipschitz_bound(pool, (1, 3, 3)).value == pytest.approx(1.0) == 2 * (1 / 4) ** 0.5
    assert lipschitz_bound(pool, (1, 4, 4)).value == pytest.approx(0.5)
    assert lipschitz_bound(nn.MaxPool2d(2, 2, ceil_mode=True), (1, 3, 3)).value == 1.0
    net = drawn(resnet.ResNet(resnet.BasicBlock, (1, 1, 1, 1), channels=(4, 4, 6, 6), avg_down=True))
    assert (
        norm(net, torch.randn(3, 40, 40, dtype=torch.float64), "two")
        <= lipschitz_bound(net, (3, 40, 40)).value
    )


REFUSED = {
    "divisor_override": nn.AvgPool2d(2, divisor_override=3),
    "dilation": nn.MaxPool2d(2, dilation=2),
    "output size": nn.AdaptiveAvgPool2d(2),
    "output size None": nn.AdaptiveAvgPool2d(None),
    "return_indices": nn.MaxPool2d(2, return_indices=True),
    "padding in words": nn.Conv2d(1, 1, 3, padding="same"),
    "several axes": nn.LayerNorm((8, 8)),
    "statistics of the batch": nn.BatchNorm2d(1, track_running_stats=False),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_refused_option_is_listed_with_its_reason(why: str) -> None:
    net = nn.Sequential(nn.ReLU(), REFUSED[why]).eval()
    (found,) = uncovered(net)
    assert found.name == "1" and found.why.startswith(why) and "(allowed: " in found.why
    with pytest.raises(ValueError, match=f"1: {found.kind} .*{why}") as caught:
        lipschitz_bound(net, (1, 8, 8))
    assert "\n" not in str(caught.value)


def test_the_bound_of_a_maximum_is_attained() -> None:
    """One bright pixel that four windows see moves four outputs."""
    pool = nn.MaxPool2d(3, 2, 1)
    dark, bright = torch.zeros(2, 1, 1, 7, 7, dtype=torch.float64)
    bright[0, 0, 3, 3] = 0.5
    ratio = (pool(bright) - pool(dark)).norm() / (bright - dark).norm()
    assert ratio == pytest.approx(lipschitz_bound(pool, (1, 7, 7)).value) == 2.0
    assert lipschitz_bound(pool, (1, 7, 7), p="inf").value == 1.0
    assert lipschitz_bound(nn.MaxPool2d(2, 2), (1, 8, 8)).value == 1.0


@pytest.mark.parametrize("p", ["two", "inf"])
@pytest.mark.parametrize("block", [resnet.BasicBlock, resnet.Bottleneck])
@pytest.mark.parametrize("stride", [1, 2])
def test_a_block_is_bounded_and_its_shortcut_counts(block: Any, stride: int, p: str) -> None:
    width = 4 * block.expansion
    down = nn.Sequential(nn.Conv2d(width, width, 1, stride, bias=False), nn.BatchNorm2d(width))
    net = drawn(block(width, 4, stride, down if stride == 2 else None))
    bound = lipschitz_bound(net, (width, 6, 6), p=p).value
    lower = max(norm(net, torch.randn(width, 6, 6, dtype=torch.float64), p) for _ in range(3))
    assert 0 < lower <= bound
    last = net.bn3 if block is resnet.Bottleneck else net.bn2
    nn.init.zeros_(last.weight)  # the branch is constant: what remains is the shortcut
    alone = lipschitz_bound(net, (width, 6, 6), p=p).value
    if stride == 1:
        assert alone == pytest.approx(1.0)
    x = torch.randn(width, 6, 6, dtype=torch.float64) + 5
    assert norm(net, x, p) <= alone * (1 + 1e-9)


def test_a_resnet_is_bounded_from_images_to_logits() -> None:
    net = drawn(resnet.ResNet(resnet.BasicBlock, (1, 1, 1, 1), num_classes=3, channels=(4, 4, 6, 6)))
    assert uncovered(net) == []
    bound = lipschitz_bound(net, (3, 32, 32)).value
    assert norm(net, torch.randn(3, 32, 32, dtype=torch.float64), "two") <= bound < float("inf")


def test_what_has_no_rule_is_named_each_layer_of_it() -> None:
    import timm

    named = uncovered(timm.create_model("vit_tiny_patch16_224", depth=3))
    assert [one.name for one in named if one.kind == "Attention"] == [f"blocks.{i}.attn" for i in range(3)]
    assert not any(one.kind == "LayerNorm" for one in named)

    class Standardised(nn.Conv2d):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * 100

    (found,) = uncovered(nn.Sequential(nn.Conv2d(1, 1, 1), Standardised(1, 1, 1)))
    assert found.name == "1" and found.why == "its forward differs from Conv2d's"
    net = resnet.ResNet(resnet.BasicBlock, (1, 1, 1, 1))
    net.layer1 = type("Own", (nn.Module,), dict(forward=print))()
    net.layer1.add_module("inner", nn.ReLU())
    assert [one[:2] for one in uncovered(net)] == [("layer1", "Own")]
    (found,) = uncovered(nn.Sequential(nn.ReLU(), nn.LSTM(2, 2)))
    assert found == ("1", "LSTM", "no rule")


def test_a_normalisation_with_an_activation_counts_both() -> None:
    net = drawn(BatchNormAct2d(3, act_layer=nn.SiLU))
    plain = nn.BatchNorm2d(3).double().eval()
    plain.load_state_dict(net.state_dict())
    both, alone = (lipschitz_bound(one, (3, 2, 2)).value for one in (net, plain))
    assert both == pytest.approx(alone * lipschitz_bound(nn.SiLU(), (3, 2, 2)).value) and both > alone


def test_the_verb_prints_a_bound_or_all_that_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bound", "test_vit"]) == 1
    assert "no Lipschitz constant on all inputs" in capsys.readouterr().out
    small = ["bound", "resnet18", "--image-size", "32", "--classes", "3", "--norm", "inf"]
    assert cli.main([*small, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["norm"] == "inf" and sum(one["log"] for one in found["parts"]) == pytest.approx(found["log"])
    assert cli.main(["bound", "resnet1000"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("name", bound.THEOREMS)
def test_the_verb_searches_for_a_violation_of_a_proved_bound(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bound", name, "--starts", "1", "--steps", "2"]) == 0
    first, _, *rows = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{name}: ") and [int(row.split()[0]) for row in rows] == list(bound.LENGTHS)
    assert all(0 < float(row.split()[1]) <= 1 for row in rows)


# certified radii


def test_the_radius_of_a_linear_classifier_is_its_distance() -> None:
    torch.manual_seed(0)
    weight, x = torch.randn(2, 5, dtype=torch.float64), torch.randn(40, 5, dtype=torch.float64)
    logits = x @ weight.T
    radius = certified_radius(logits, 1.0, weight)
    normal = weight[0] - weight[1]
    torch.testing.assert_close(radius, (x @ normal).abs() / normal.norm())
    away = x - torch.sign(x @ normal)[:, None] * (normal / normal.norm()) * radius[:, None]
    nearly, beyond = x + 0.999 * (away - x), x + 1.001 * (away - x)
    assert ((nearly @ weight.T).argmax(1) == logits.argmax(1)).all()
    assert ((beyond @ weight.T).argmax(1) != logits.argmax(1)).all()
    generic = certified_radius(logits, float(torch.linalg.matrix_norm(weight, 2)))
    assert (generic <= radius * (1 + 1e-12)).all()


def test_no_attack_inside_the_radius_changes_an_answer() -> None:
    torch.manual_seed(1)
    before = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8), nn.Tanh())
    net = nn.Sequential(*before, nn.Linear(8, 4)).double().eval()
    x = torch.randn(30, 6, dtype=torch.float64)
    logits = net(x).detach()
    radius = certified_radius(logits, lipschitz_bound(before, (6,)).value, net[-1].weight)

    def attacked(factor: float) -> Tensor:
        delta = attack(net, x, factor * radius)
        assert (delta.norm(dim=1) <= factor * radius * (1 + 1e-12)).all()
        return net(x + delta).argmax(1)

    assert (attacked(0.999) == logits.argmax(1)).all()
    assert (
        attacked(50.0) != logits.argmax(1)
    ).any()  # the control: the attack works where nothing is certified
    for wrong in (torch.inf, torch.nan, -0.5, torch.linspace(-1, 1, 30)):
        with pytest.raises(ValueError, match=r"radius: found .*, allowed: finite numbers of at least 0"):
            attack(net, x, wrong)
    assert not attack(net, x, 0.0).any()
    with torch.device("meta"):  # a number is taken to the images' device, not to the default one
        assert attack(net, x, 1.0).any()
    with pytest.raises(ValueError, match="training mode"):
        attack(net.train(), x, 1.0)


def test_the_attack_finds_the_nearest_change_of_a_linear_classifier() -> None:
    torch.manual_seed(2)
    net, x = nn.Linear(5, 2).double().eval(), torch.randn(40, 5, dtype=torch.float64)
    radius = certified_radius(net(x).detach(), 1.0, net.weight)
    for factor, changed in ((0.99, 0), (1.01, 40)):
        found = net(x + attack(net, x, factor * radius)).argmax(1)
        assert int((found != net(x).argmax(1)).sum()) == changed


def test_shares_ties_and_refusals() -> None:
    logits = torch.tensor([[2.0, 0.0], [1.0, 1.0], [0.0, 3.0]])
    radius = certified_radius(logits, 1.0)
    assert radius.tolist() == pytest.approx([2 / 2**0.5, 0.0, 3 / 2**0.5])
    correct = torch.tensor([True, True, False])
    assert certified_accuracy(radius, correct, (0.0, 1.0, 2.0)) == pytest.approx([1 / 3, 1 / 3, 0.0])
    assert certified_radius(torch.tensor([[1.0, 0.0]]), 1.0, torch.ones(2, 3)).item() == float("inf")
    wide = torch.tensor([[6e4, -6e4], [torch.inf, 0.0], [torch.nan, 0.0]], dtype=torch.float16)
    found = certified_radius(wide, 1.0)
    assert found.tolist() == pytest.approx([wide[0].double().diff().abs().item() / 2**0.5, 0.0, 0.0])
    level = torch.tensor([[1.0, 1.0]])  # equal rows do not make a tie safe: the answer is one of two already
    assert certified_radius(level, 1.0, torch.ones(2, 3)).item() == 0.0
    for wrong in ({"bound": 0.0}, {"bound": 1.0, "weight": torch.ones(3, 2)}):
        with pytest.raises(ValueError, match="allowed: "):
            certified_radius(logits, **wrong)
