"""Cosine of parameter gradients: against slow differentiation, finite differences and sure networks."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from relearn.methods import gradient_matching
from relearn.methods.augmentation import crop_and_flip
from relearn.methods.crafting.restarts import _start
from relearn.methods.crafting.state import State
from relearn.methods.gradient_matching import cosine, cross_entropy, softmax_minus_label
from relearn.models import create

LABEL = 2


def small() -> nn.Module:
    torch.manual_seed(0)
    net = create("ResNet18", classes=4, in_channels=1, width=0.0625, depth=0.5, mean=[0.5], std=[0.1])
    with torch.no_grad():  # a fresh network says the same of every image
        net.head.weight *= 20
    return net.double().eval()


def images(k: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    poisons = torch.rand(2, k, 1, 8, 8, generator=generator, dtype=torch.float64)
    return poisons, torch.rand(2, 1, 8, 8, generator=generator, dtype=torch.float64)


def slow_gradient(net: nn.Module, image: Tensor) -> list[Tensor]:
    """Of torch's cross-entropy of one image, by parameter."""
    loss = nn.functional.cross_entropy(net(image.unsqueeze(0)), torch.tensor([LABEL]))
    return list(torch.autograd.grad(loss, list(net.parameters())))


def flat(gradients: list[Tensor]) -> Tensor:
    return torch.cat([one.flatten() for one in gradients])


def slow_loss(net: nn.Module, poisons: Tensor, target: Tensor, head: bool) -> float:
    def of(image: Tensor) -> Tensor:
        gradients = slow_gradient(net, image)
        return flat(gradients[-2:] if head else gradients)

    a, b = of(target), sum(of(image) for image in poisons) / len(poisons)
    return 1 - float(a @ b / (a.norm() * b.norm()))


def loss_of(attack, net: nn.Module, poisons: Tensor, targets: Tensor) -> Tensor:
    return attack.loss(attack.read(net, poisons), attack.read_target(net, targets), None)[0]


@pytest.mark.parametrize("parameters", ["all", "head"])
def test_loss_equals_one_minus_the_cosine_of_slow_gradients(parameters: str) -> None:
    net, (poisons, targets) = small(), images()
    found = loss_of(gradient_matching.objective(LABEL, parameters), net, poisons, targets).detach()
    for t in range(2):
        assert abs(float(found[t]) - slow_loss(net, poisons[t], targets[t], parameters == "head")) < 1e-10
    assert (found > 0.01).all() and (found < 2).all()


def test_head_in_closed_form_is_the_last_part_of_all_parameters() -> None:
    net, (poisons, _) = small(), images()
    weight, bias = list(net.parameters())[-2:]
    assert weight is net.head.weight and bias is net.head.bias
    everything = gradient_matching.objective(LABEL).read(net, poisons)[0]
    found = gradient_matching.objective(LABEL, "head").read(net, poisons)[0].unflatten(1, (4, -1))
    ours = torch.cat([found[:, :, :-1].flatten(1), found[:, :, -1]], 1)
    torch.testing.assert_close(ours, everything[:, -ours.shape[1] :])
    mean = sum(flat(slow_gradient(net, image)) for image in poisons[1]) / 3
    torch.testing.assert_close(everything[1], mean)


@pytest.mark.parametrize("name", ["GoogLeNet", "DPN92", "MobileNetV2", "DenseNet121"])
def test_targets_side_by_side_are_one_after_another(name: str) -> None:
    torch.manual_seed(0)
    net = create(name, classes=4, in_channels=1, width=0.0625, depth=0.5).double().eval()
    poisons, _ = images(2)
    found = gradient_matching.objective(LABEL).read(net, poisons)[0]
    for t in range(2):
        slow = sum(flat(slow_gradient(net, image)) for image in poisons[t]) / 2
        torch.testing.assert_close(found[t], slow)


@pytest.mark.parametrize("parameters", ["all", "head"])
def test_gradient_for_the_pixels_equals_finite_differences(parameters: str) -> None:
    """A second derivative, where all parameters are matched."""
    net, (poisons, targets) = small(), images(2)
    attack = gradient_matching.objective(LABEL, parameters)
    poisons = poisons.requires_grad_()
    gradient = torch.autograd.grad(loss_of(attack, net, poisons, targets).sum(), poisons)[0]
    generator = torch.Generator().manual_seed(3)
    for _ in range(6):
        way = torch.randn(poisons.shape, generator=generator, dtype=torch.float64)
        with torch.no_grad():
            up, down = (loss_of(attack, net, poisons + h * way, targets).sum() for h in (1e-6, -1e-6))
        slope = float((gradient * way).sum())
        assert abs(slope) > 1e-3 and abs(slope - float(up - down) / 2e-6) < 1e-4 * abs(slope)


@pytest.mark.parametrize("parameters", ["all", "head"])
def test_copies_of_the_target_match_it_exactly(parameters: str) -> None:
    net, (_, targets) = small(), images()
    attack = gradient_matching.objective(LABEL, parameters)
    copies = targets.unsqueeze(1).expand(2, 3, 1, 8, 8)
    assert (loss_of(attack, net, copies, targets).abs() < 1e-12).all()
    assert (loss_of(attack, net, copies.flip(0), targets) > 1e-3).all()  # each target has poisons of its own


@pytest.mark.parametrize("parameters", ["all", "head"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_run_has_the_gradients_of_the_networks_own_weights(parameters: str, precision: str) -> None:
    """Not those of weights folded into others."""
    net, (poisons, targets) = small().float(), (one.float() for one in images())
    attack = gradient_matching.objective(LABEL, parameters)
    wanted = float(loss_of(attack, net, poisons[:1].expand_as(poisons), targets).detach().mean())
    options = {"parameters": parameters, "dropout": False, "iterations": 1, "precision": precision}
    found = gradient_matching.craft([net], poisons[0], targets, poison_class=LABEL, **options)
    assert abs(found.history[0]["loss_sum"] / wanted - 1) < (0.2 if precision == "bf16" else 1e-3)


def test_crafting_in_a_network_brings_the_target_nearer_to_the_class() -> None:
    """What the attack is for: one step of the head on the poisons raises the target's probability more."""
    net, (poisons, targets) = small(), images()
    bases = poisons[0]
    options = {"poison_class": LABEL, "parameters": "head", "eps": 0.2, "iterations": 40, "dropout": False}
    found = gradient_matching.craft([net], bases, targets, **options)
    for t in range(2):
        gains = []
        for trained in (bases, found.poisons[t]):
            step = sum(flat(slow_gradient(net, image)[-2:]) for image in trained)
            step = step / step.norm()
            gains.append(float(step @ flat(slow_gradient(net, targets[t])[-2:])))
        assert gains[1] > gains[0]


def test_large_networks_take_fewer_targets_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    net, (poisons, targets) = small(), images()
    options = {"poison_class": LABEL, "eps": 0.1, "lr": 0.04, "iterations": 3, "dropout": False}
    together = gradient_matching.craft([net], poisons, targets, **options)
    monkeypatch.setattr(gradient_matching, "GRADIENTS_AT_ONCE", 1)
    alone = gradient_matching.craft([net], poisons, targets, **options)
    torch.testing.assert_close(together.poisons, alone.poisons, rtol=0, atol=1e-9)
    torch.testing.assert_close(together.final_loss, alone.final_loss)


# --- the pieces ---------------------------------------------------------------------------


@pytest.mark.parametrize("label", [0, 2, 4])
def test_cross_entropy_and_its_gradient_equal_torchs(label: int) -> None:
    logits = 3 * torch.randn(6, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    logits = logits.requires_grad_()
    theirs = nn.functional.cross_entropy(logits, torch.full((6,), label), reduction="none")
    torch.testing.assert_close(cross_entropy(logits, label), theirs)
    gradient = torch.autograd.grad(theirs.sum(), logits)[0]
    torch.testing.assert_close(softmax_minus_label(logits, label), gradient)
    assert torch.autograd.gradgradcheck(lambda z: cross_entropy(z, label), logits)


def test_a_sure_network_keeps_its_gradient_in_float32() -> None:
    """Where p rounds to 1, softmax - label is 0: the cosine would be lost."""
    logits = torch.tensor([[30.0, 1.0, -2.0]])
    exact = torch.softmax(logits.double(), 1) - torch.tensor([1.0, 0.0, 0.0])
    exact[0, 0] = -exact[0, 1:].sum()
    torch.testing.assert_close(softmax_minus_label(logits, 0).double(), exact, rtol=1e-5, atol=0)
    assert float(torch.softmax(logits, 1)[0, 0] - 1) == 0  # the control
    logits.requires_grad_()
    gradient = torch.autograd.grad(cross_entropy(logits, 0).sum(), logits)[0]
    torch.testing.assert_close(gradient.double(), exact, rtol=1e-5, atol=0)


def test_cosine_is_that_of_directions_whatever_the_lengths() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, 3, 7, generator=generator)
    expected = torch.cosine_similarity(a.double(), b.double()).float()
    torch.testing.assert_close(cosine(a, b), expected)
    torch.testing.assert_close(cosine(1e-30 * a, 1e25 * b), expected)  # whose squares float32 does not hold
    zero = torch.zeros(3, 7, requires_grad=True)
    assert (cosine(zero, b) == 0).all()
    assert torch.isfinite(torch.autograd.grad(cosine(zero, b).sum(), zero)[0]).all()


def test_arguments_are_refused_by_name() -> None:
    net, (poisons, targets) = small(), images()
    with pytest.raises(ValueError, match="parameters is 'tail'; allowed: all, head"):
        gradient_matching.craft([net], poisons, targets, poison_class=1, parameters="tail")
    for parameters in ("all", "head"):
        with pytest.raises(ValueError, match="poison_class is 4; allowed: 0 to 3"):
            gradient_matching.craft([net], poisons, targets, poison_class=4, parameters=parameters)
    for head, said in (
        (nn.Linear(4, 4, bias=False), "Linear without a bias"),
        (nn.Sequential(), "Sequential"),
    ):
        net.head = head.double()
        with pytest.raises(TypeError, match=f"found {said}; allowed: nn.Linear with a bias"):
            gradient_matching.craft([net], poisons, targets, poison_class=1, parameters="head")


# --- restarts and augmentation --------------------------------------------------------------

OPTIONS = {"poison_class": LABEL, "parameters": "head", "eps": 0.2, "lr": 0.04, "iterations": 6, "seed": 3}


class Kept:
    """A checkpoint in memory."""

    state: dict[str, Any] | None = None

    def load(self) -> dict[str, Any] | None:
        return self.state

    def save(self, state: dict[str, Any]) -> None:
        self.state = copy.deepcopy(state)


def test_of_each_target_the_best_start_is_kept() -> None:
    net, (poisons, targets) = small(), images()
    runs = [
        gradient_matching.craft([net], poisons[0], targets, **OPTIONS, dropout=False, restarts=n)
        for n in (1, 2, 3, 6)
    ]
    losses = torch.stack([one.final_loss for one in runs])
    assert (losses.diff(dim=0) <= 0).all() and (losses[-1] < losses[0]).any()
    attack = gradient_matching.objective(LABEL, "head")
    torch.testing.assert_close(loss_of(attack, net, runs[-1].poisons, targets), losses[-1])
    assert ((runs[-1].poisons - poisons[0]).abs() <= 0.2 + 1e-12).all()
    assert [row["iteration"] for row in runs[1].history] == [*range(1, 13)]
    assert runs[1].history[:6] == runs[0].history  # the first start is the bases
    assert len({row["loss_sum"] for row in runs[3].history[::6]}) == 6  # and every other one its own
    low, high = (poisons[0] - 0.2).clamp(min=0), (poisons[0] + 0.2).clamp(max=1)
    begun = _start(attack, [net], poisons[0], targets, 0.2, 7, {})["poisons"]
    share = (begun[0] - low) / (high - low)  # uniform in the ball
    assert torch.equal(*begun) and share.min() < 0.05 and share.max() > 0.95
    for t in range(2):  # a target alone has the same starts
        alone = gradient_matching.craft(
            [net], poisons[0], targets[t : t + 1], **OPTIONS, dropout=False, restarts=3
        )
        torch.testing.assert_close(alone.final_loss[0], runs[2].final_loss[t])


def test_the_first_step_behind_a_jump_is_adams_first() -> None:
    """Adam's moments are still zero there, so its first step moves every pixel by the rate, up to the projection."""
    net, (poisons, targets) = small(), images()
    attack = gradient_matching.objective(LABEL, "head")
    begun = State(poisons[0].expand(len(targets), *poisons.shape[1:]).clone(), 0.2)
    begun.restore(_start(attack, [net], poisons[0], targets, 0.2, 7, {}), 10)
    before, gradient = begun.poisons.clone(), torch.randn_like(begun.poisons)
    lower, upper = begun.lower, begun.upper
    begun.step(gradient, torch.tensor(1.0), 0.01)
    expected = (before - 0.01 * gradient.sign()).clamp(lower, upper)
    torch.testing.assert_close(begun.poisons, expected, atol=1e-6, rtol=0)
    assert begun.iteration == 2


def test_one_start_without_augmentation_is_the_plain_attack() -> None:
    net, (poisons, targets) = small(), images()
    plain = gradient_matching.craft([net], poisons[0], targets, **OPTIONS)
    off = {"restarts": 1, "augment": {"crop_padding": 0, "flip": False}}
    assert torch.equal(
        gradient_matching.craft([net], poisons[0], targets, **OPTIONS, **off).poisons, plain.poisons
    )


@pytest.mark.parametrize("stop_at", [4, 6, 9, 17])
def test_restarts_that_are_interrupted_resume_to_the_same_bits(stop_at: int) -> None:
    net, (poisons, targets), watch = small(), images(), (2, [small()])
    more = {**OPTIONS, "restarts": 3, "augment": {"crop_padding": 1, "flip": True}, "watch": watch}
    whole = gradient_matching.craft([net], poisons[0], targets, **more)
    kept, seen = Kept(), []

    def stop(done: int, total: int) -> None:
        seen.append(total)
        if done == stop_at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gradient_matching.craft([net], poisons[0], targets, **more, checkpoint=kept, progress=stop)
    torch.rand(3)
    resumed = gradient_matching.craft([net], poisons[0], targets, **more, checkpoint=kept)
    assert torch.equal(resumed.poisons, whole.poisons) and torch.equal(resumed.final_loss, whole.final_loss)
    assert resumed.history == whole.history and set(seen) == {18}
    assert torch.equal(resumed.watched, whole.watched)


@pytest.mark.parametrize("parameters", ["all", "head"])
def test_poisons_are_augmented_while_they_are_crafted_and_the_gradient_reaches_their_pixels(
    parameters: str,
) -> None:
    """Against finite differences under the same crops; without a gradient to ask for, the poisons are as they are."""
    net, (poisons, targets) = small(), images(2)
    plain = gradient_matching.objective(LABEL, parameters)
    attack = gradient_matching.objective(LABEL, parameters, crop_and_flip(2, True))
    same = loss_of(plain, net, poisons, targets).detach()
    assert torch.equal(loss_of(attack, net, poisons, targets).detach(), same)

    def loss(pixels: Tensor) -> Tensor:
        torch.manual_seed(5)  # the same crops each time
        return loss_of(
            attack, net, pixels.detach().requires_grad_() if not pixels.requires_grad else pixels, targets
        ).sum()

    wanted = poisons.requires_grad_()
    value = loss(wanted)
    assert abs(float(value.detach()) - float(same.sum())) > 1e-3
    gradient = torch.autograd.grad(value, wanted)[0]
    way = torch.randn(poisons.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    up, down = (float(loss(poisons.detach() + h * way).detach()) for h in (1e-6, -1e-6))
    slope = float((gradient * way).sum())
    assert abs(slope) > 1e-3 and abs(slope - (up - down) / 2e-6) < 1e-4 * abs(slope)
    assert (gradient == 0).any()  # pixels that the crops leave out


def test_augmented_poisons_match_better_under_crops() -> None:
    """What the option is for; the control is crafting without it."""
    net, (poisons, targets) = small(), images()
    crops = {"crop_padding": 2, "flip": False}
    attack = gradient_matching.objective(LABEL, "head", crop_and_flip(2, False))
    means = []
    for augment in (None, crops):
        options = {**OPTIONS, "iterations": 60, "dropout": False, "augment": augment}
        made = gradient_matching.craft([net], poisons[0], targets, **options).poisons.requires_grad_()
        torch.manual_seed(0)
        means.append(
            float(
                torch.stack([loss_of(attack, net, made, targets).mean().detach() for _ in range(30)]).mean()
            )
        )
    assert means[1] < means[0]


def test_numbers_of_restarts_that_are_none_are_refused() -> None:
    net, (poisons, targets) = small(), images()
    for restarts in (0, 1.0, True):
        with pytest.raises(ValueError, match=f"restarts is {restarts}; allowed: an integer >= 1"):
            gradient_matching.craft([net], poisons[0], targets, **OPTIONS, restarts=restarts)
