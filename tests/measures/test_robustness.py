"""Robustness: exact on a linear model; honest networks pass the checks, each kind of masked gradient is flagged."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from relearn.maths.eval_mode import frozen
from relearn.measures.robustness import LIMITS, STEP, _noise, robustness
from relearn.methods.fit import fit
from relearn.methods.pgd import forward, pgd

EPS = (0.02, 0.05, 0.1)


def problem(n=150):
    """Two blurred classes whose distance is a few ε, so that accuracy falls gently."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 2, (n,), generator=generator)
    images = 0.5 + 0.12 * torch.randn(n, 1, 4, 4, generator=generator)
    images[:, :, :2] += (0.12 * (labels * 2.0 - 1))[:, None, None, None]
    return images.clamp(0, 1), labels


@pytest.fixture(scope="module")
def trained():
    images, labels = problem()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 2))
    fit(net, (images, labels), loss=cross_entropy, epochs=30, batch_size=50, lr=0.1, seed=0)
    return net


class Rounding(nn.Module):
    """Rounds its input to five levels: the same decisions nearby, and a gradient of zero everywhere."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(torch.round(x * 4) / 4)


class Saturated(nn.Module):
    """The same decisions with logits a hundred thousand times as large: the softmax rounds to 0 and 1, and gradients vanish."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return 1e5 * self.net(x)


class Turned(torch.autograd.Function):
    """The identity, with a gradient that leads the other way."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


class Misleading(Saturated):
    def forward(self, x):
        return self.net(Turned.apply(x))


class Noisy(Saturated):
    """A randomised defence: the gradient of one draw says little about the next."""

    def forward(self, x):
        return self.net(x + 0.3 * torch.randn_like(x))


def measured(net, eps=EPS, wrong=0, **change):
    """``wrong``: so many images get a false label, for clean errors."""
    images, labels = problem()
    labels[:wrong] = 1 - labels[:wrong]
    keys = {"eps": eps, "steps": 10, "restarts": 2} | change
    with frozen(net):
        return robustness(partial(pgd, net, images, labels), partial(forward, net), images, labels, **keys)


def failed(found):
    return {check.name for check in found.checks if not check.passed}


def test_an_honest_network_passes_every_check_and_loses_accuracy_with_eps(trained):
    found = measured(trained)
    assert failed(found) == set() and not found.masked
    assert found.clean_accuracy > found.accuracy[0] > found.accuracy[1] > found.accuracy[2]
    assert found.noise_accuracy >= found.accuracy[found.eps.index(found.checked_eps)]
    assert {check.name for check in found.checks} == set(LIMITS)


def test_the_accuracy_of_a_linear_model_is_the_share_of_margins_beyond_eps():
    """(w_y - w_o)·x + b_y - b_o > ε‖w_y - w_o‖₁, as long as no pixel meets its limits."""
    torch.manual_seed(1)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 2)).double()
    images, labels = problem()
    images = images.double() * 0.6 + 0.2  # 0.2 to 0.8: ε = 0.1 stays inside
    weight, bias = net[1].weight.detach(), net[1].bias.detach()
    difference = weight[labels] - weight[1 - labels]
    margin = (difference * images.flatten(1)).sum(1) + bias[labels] - bias[1 - labels]
    with frozen(net):
        found = robustness(
            partial(pgd, net, images, labels),
            partial(forward, net),
            images,
            labels,
            eps=EPS,
            steps=8,
            restarts=1,
        )
    for eps, accuracy in zip(EPS, found.accuracy):
        assert accuracy == pytest.approx(float((margin > eps * difference.abs().sum(1)).double().mean()))
    assert found.clean_accuracy == pytest.approx(float((margin > 0).double().mean()))


@pytest.mark.parametrize(
    ("mask", "flags"),
    [
        (Rounding, {"gradient_exists", "loss_rises", "unbounded_wins"}),
        (Saturated, {"gradient_exists", "unbounded_wins"}),
        (Misleading, {"loss_rises"}),
        (Noisy, {"repeatable"}),
    ],
)
def test_masked_gradients_are_flagged(trained, mask, flags):
    """The negative controls: three of them make the attack look weak although the network is as fragile as before."""
    honest, found = measured(trained), measured(mask(trained))
    assert found.masked and flags <= failed(found), failed(found)
    if mask is not Noisy:  # whose worst point of several draws is broken easily
        assert found.accuracy[-1] > honest.accuracy[-1] + 0.1
    assert found.metrics()["masked_gradient_flags_count"] == len(failed(found))


def scripted(broken_at, curves=None):
    """An attack that breaks given numbers of images, for the verdicts that a real one seldom fails."""
    calls = []

    def attack(*, eps, step_size, steps, restarts, seed):
        calls.append((eps, step_size, steps, restarts, seed))
        fooled = torch.zeros(150, dtype=torch.bool)
        fooled[broken_at(eps, steps)] = True
        curve = torch.linspace(1, 2, steps + 1) if curves is None else curves(steps)
        return SimpleNamespace(fooled=fooled, loss_curves=curve.repeat(restarts, 1))

    return attack, calls


def verdicts(trained, broken_at, curves=None, steps=8):
    images, labels = problem()
    labels = trained(images).argmax(1)  # all correct
    attack, calls = scripted(broken_at, curves)
    found = robustness(attack, trained, images, labels, eps=(0.01, 0.02), steps=steps, restarts=2, seed=7)
    return found, calls


def fine(eps, steps):
    return slice(0, 150 if eps == 1 else 70 if eps == 0.02 else 40)


def test_verdicts_on_scripted_attacks(trained):
    found, calls = verdicts(trained, fine)
    assert failed(found) == set() and found.accuracy == (110 / 150, 80 / 150)
    assert found.checked_eps == 0.02  # 80 of 150 is nearest to half
    assert [(eps, steps, restarts) for eps, _, steps, restarts, _ in calls] == [
        (0.01, 8, 2),
        (0.02, 8, 2),
        (0.02, 16, 2),
        (1.0, 8, 1),
    ]
    assert all(step == pytest.approx(STEP * eps / steps) for eps, step, steps, _, _ in calls)
    assert calls[2][4] != calls[1][4]  # fresh starts


def test_a_stronger_attack_that_wins_is_flagged(trained):
    found, _ = verdicts(trained, lambda eps, steps: slice(0, 74) if steps == 16 else fine(eps, steps))
    assert failed(found) == {"stronger_attack"}
    assert found.metrics()["check_stronger_attack_frac"] == pytest.approx(4 / 150)


def test_an_accuracy_that_grows_with_eps_is_flagged(trained):
    found, _ = verdicts(
        trained, lambda eps, steps: slice(4, 74) if eps == 0.02 else slice(0, 150 if eps == 1 else 40)
    )
    assert failed(found) == {"monotone_in_eps"}


def test_an_unbounded_attack_that_spares_images_is_flagged(trained):
    found, _ = verdicts(trained, lambda eps, steps: slice(0, 140) if eps == 1 else fine(eps, steps))
    assert failed(found) == {"unbounded_wins"} and found.unbounded_accuracy == pytest.approx(10 / 150)


def test_a_loss_that_still_climbs_or_falls_is_flagged(trained):
    def climbing(steps):
        return torch.linspace(0, 1, steps + 1) ** 2

    found, _ = verdicts(trained, fine, climbing)
    assert failed(found) == {"loss_converged"}
    assert found.metrics()["check_loss_converged_frac"] == pytest.approx(1 - 0.75**2)
    found, _ = verdicts(trained, fine, lambda steps: torch.linspace(2, 1, steps + 1))
    assert failed(found) == {"loss_rises", "loss_converged"}
    assert found.metrics()["check_loss_rises_nats"] == pytest.approx(-1)


def test_noise_that_breaks_what_the_attack_spares_is_flagged(trained):
    """Noise breaks the images next to the boundary; this attack breaks none below ε = 1."""
    images, labels = problem()
    labels = trained(images).argmax(1)
    attack, _ = scripted(lambda eps, steps: slice(0, 150 if eps == 1 else 0))
    found = robustness(attack, trained, images, labels, eps=(0.1,), steps=8, restarts=1)
    assert failed(found) == {"noise_is_weaker"}
    assert found.metrics()["check_noise_is_weaker_frac"] == pytest.approx(1 - found.noise_accuracy)


@pytest.mark.parametrize("side", [-1, 1])
def test_noise_is_uniform_on_both_sides_and_the_worst_draw_counts(side):
    """One draw in four moves a pixel by more than ε/2 to a given side."""
    x, labels = torch.full((4000, 1, 1, 1), 0.5), torch.zeros(4000, dtype=torch.long)

    def net(z):
        return nn.functional.pad(side * (z.flatten(1) - 0.5) - 0.1, (1, 0))

    for draws in (1, 3):
        broken = _noise(net, x, labels, 0.2, draws, 0, None)
        assert broken.double().mean() == pytest.approx(1 - 0.75**draws, abs=0.03)


def test_clean_errors_count_as_broken_and_batches_change_nothing(trained):
    whole, parts = measured(trained, wrong=15), measured(trained, wrong=15, batch=40)
    assert whole.clean_accuracy == pytest.approx(0.9)
    assert all(accuracy <= 0.9 for accuracy in (*whole.accuracy, whole.noise_accuracy))
    assert whole.metrics() == pytest.approx(parts.metrics())


def test_clean_errors_count_whatever_the_attack_says(trained):
    images, _ = problem()
    labels = trained(images).argmax(1)
    labels[100:130] = 1 - labels[100:130]  # misclassified, and not among those that this attack breaks
    attack, _ = scripted(fine)
    found = robustness(attack, trained, images, labels, eps=(0.01, 0.02), steps=8, restarts=1)
    assert found.accuracy == pytest.approx((80 / 150, 50 / 150)) and found.clean_accuracy == 120 / 150


def test_names_in_the_record_carry_eps_in_255ths(trained):
    names = measured(trained, eps=(2 / 255, 0.0313725)).metrics()
    assert {"pgd_accuracy_eps_2_255_frac", "pgd_accuracy_eps_8_255_frac"} <= set(names)


@pytest.mark.parametrize("eps", [(), (0.1, 0.05), (0.0, 0.1), (0.1, 8), (0.1, 0.1)])
def test_radii_that_are_no_ascending_pixels_are_refused(trained, eps):
    with pytest.raises(ValueError, match=r"allowed: ascending, in \(0, 1\]"):
        measured(trained, eps=eps)


class Diverged(nn.Module):
    def forward(self, x):
        return x.flatten(1)[:, :3] * float("nan")


def test_a_diverged_network_is_right_on_no_class():
    """To argmax NaN is the largest number: it would be robust on class 0."""
    images, labels = torch.rand(8, 1, 4, 4), torch.zeros(8, dtype=torch.long)
    net = Diverged()
    found = robustness(
        partial(pgd, net, images, labels),
        partial(forward, net),
        images,
        labels,
        eps=(0.1,),
        steps=2,
        restarts=1,
    )
    assert (found.clean_accuracy, *found.accuracy, found.noise_accuracy) == (0.0, 0.0, 0.0)
    assert bool(pgd(Diverged(), images, labels, eps=0.1, step_size=0.05, steps=2).fooled.all())
