"""Attacks on a linear network, whose robust accuracy is known exactly; PGD's rows are PGD's own, AutoAttack's are no larger."""

import sys
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from relearn.methods.pgd import pgd as method
from relearn.studies.robustness.steps.attacks import AutoAttack, Pgd
from relearn.studies.robustness.steps.image_sets import Protocol

from .networks import Linear, network

HOW = Protocol("test images", subset="0" * 64)
SIDE, CLASSES, COUNT = 3, 4, 60
RADII = [4 / 255, 12 / 255, 30 / 255]


def linear(classes: int = CLASSES) -> tuple[Linear, Tensor, Tensor]:
    """A network, images away from 0 and 255 by more than any radius, labels of which most are right."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(classes, SIDE**2, generator=generator)
    images = torch.randint(40, 216, (COUNT, 1, SIDE, SIDE), generator=generator, dtype=torch.uint8)
    # the middle of the pixels decides nothing, so that the classes are even
    net = Linear(weight, -0.5 * weight.sum(1), SIDE)
    labels = net(images / 255.0).argmax(1)
    labels[::9] = (labels[::9] + 1) % classes
    return net, images, labels


def exact(net: Linear, images: Tensor, labels: Tensor, eps: float) -> float:
    """Robust where every other class stays behind: z_y - z_c > ε |w_y - w_c|_1."""
    weight, logits = net.weight.detach(), net(images / 255.0).detach()
    robust = 0
    for z, y in zip(logits, labels.tolist()):
        gaps = [
            float(z[y] - z[c] - eps * (weight[y] - weight[c]).abs().sum()) for c in range(len(z)) if c != y
        ]
        robust += min(gaps) > 0
    return robust / len(labels)


def test_pgd_on_a_linear_network_of_two_classes_is_exact() -> None:
    net, images, labels = linear(2)
    attack = Pgd(eps=RADII, steps=10, restarts=2, images=COUNT, checks=False)
    told = attack.run(net, images, labels, HOW, seed=0)
    found = [row.accuracy_frac for row in told.rows]
    assert found == pytest.approx([exact(net, images, labels, radius) for radius in RADII])
    assert 1 - 7 / 60 >= found[0] > found[1] > found[2] and found[2] < 0.8
    assert told.metrics["pgd_acc_frac"] == found[2] and told.metrics["pgd_eps_12_255_acc_frac"] == found[1]
    first = told.rows[0]
    assert (first.attack, first.norm, first.steps, first.restarts, first.samples_count) == (
        "pgd",
        "linf",
        10,
        2,
        60,
    )


@pytest.mark.parametrize("checks", [False, True])
def test_rows_are_those_of_the_method(checks: bool) -> None:
    net, images, labels = (
        network(10),
        torch.randint(0, 256, (12, 3, 16, 16), dtype=torch.uint8),
        torch.arange(12) % 3,
    )
    with torch.no_grad():
        labels = torch.where(torch.arange(12) % 4 == 0, labels, net(images / 255.0).argmax(1))
    ticks: list[int] = []
    attack = Pgd(eps=[1 / 255, 2 / 255], steps=3, restarts=2, images=12, checks=checks)
    attack.check()
    told = attack.run(net, images, labels, HOW, seed=5, tick=lambda: ticks.append(1))
    for row in told.rows:
        made = method(
            net, images, labels, eps=row.eps, step_size=2.5 * row.eps / 3, steps=3, restarts=2, seed=5
        )
        assert row.accuracy_frac == pytest.approx(float((~made.fooled).double().mean()))
    assert len(ticks) == attack.ticks == (4 if checks else 2)
    assert (
        ("masked_gradient_flags_count" in told.metrics)
        == checks
        == any("masked" in one for one in told.notes)
    )


def test_wrong_arguments_are_refused() -> None:
    pgd = Pgd(eps=[0.1], steps=2, restarts=1, images=5, checks=False)
    pgd.check()
    for radii in ([], [0.1, 0.1], [0.2, 0.1], [8.0], [0.0]):
        for name, attack in (
            ("pgd", replace(pgd, eps=radii)),
            ("autoattack", AutoAttack(eps=radii, images=5)),
        ):
            with pytest.raises(ValueError, match=rf"{name}.eps is .*; allowed: ascending, in \(0, 1\]"):
                attack.check()
    for key in ("steps", "restarts", "images"):
        with pytest.raises(ValueError, match=rf"pgd\.{key} is 0; allowed: at least 1"):
            replace(pgd, **{key: 0}).check()
    with pytest.raises(ValueError, match=r"autoattack\.images is 0; allowed: at least 1"):
        AutoAttack(eps=[0.1], images=0).check()


def test_without_its_library_autoattack_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchattacks", None)
    net, images, labels = linear()
    with pytest.raises(
        ImportError, match=r"autoattack: torchattacks cannot be imported .*; allowed: `pip install"
    ):
        AutoAttack(eps=[0.1], images=5).run(net, images, labels, HOW, seed=0)
    with pytest.raises(ImportError, match="torchattacks cannot be imported"):
        AutoAttack(eps=[0.1], images=5).check()


class Stand:
    """The library's interface, with the exact attack on a linear network, or one that leaves the ball."""

    outside = False

    def __init__(self, net: Linear, **given: Any) -> None:
        assert given["norm"] == "Linf" and given["version"] == "standard" and given["n_classes"] == CLASSES
        self.net, self.weight, self.eps = net, net.weight.detach(), given["eps"]

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        made = x.clone()
        for place, label in enumerate(y.tolist()):
            z = self.net(x[place : place + 1])[0].detach()
            gaps = [
                float(z[label] - z[c] - self.eps * (self.weight[label] - self.weight[c]).abs().sum())
                if c != label
                else float("inf")
                for c in range(CLASSES)
            ]
            other = min(range(CLASSES), key=gaps.__getitem__)
            step = (self.weight[other] - self.weight[label]).sign().reshape(1, SIDE, SIDE)
            made[place] = x[place] + (10 if self.outside else 1) * self.eps * step
        return made.detach()


@pytest.mark.parametrize("outside", [False, True])
def test_autoattacks_rows_are_exact_with_an_exact_attack(
    monkeypatch: pytest.MonkeyPatch, outside: bool
) -> None:
    """Clean errors count as broken, and an attack that leaves the ball is put back into it."""
    monkeypatch.setitem(sys.modules, "torchattacks", type("Library", (), {"AutoAttack": Stand}))
    monkeypatch.setattr(Stand, "outside", outside)
    net, images, labels = linear()
    told = AutoAttack(eps=RADII, images=COUNT).run(net, images, labels, HOW, seed=0)
    assert [row.accuracy_frac for row in told.rows] == [
        exact(net, images, labels, radius) for radius in RADII
    ]
    assert told.metrics["autoattack_acc_frac"] == told.rows[-1].accuracy_frac
    assert told.rows[0].steps is None and told.rows[0].attack == "autoattack"


def test_the_library_itself_reaches_the_exact_accuracy() -> None:
    pytest.importorskip("torchattacks", reason="an optional library")
    net, images, labels = linear()
    told = AutoAttack(eps=[12 / 255], images=12).run(net, images[:12], labels[:12], HOW, seed=0)
    assert told.rows[0].accuracy_frac == pytest.approx(
        exact(net, images[:12], labels[:12], 12 / 255), abs=1e-9
    )
