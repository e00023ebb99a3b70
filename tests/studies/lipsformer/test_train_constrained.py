"""Training under a Lipschitz constraint: the stated bound holds afterwards, and without the constraint the bound grows past it."""

import math

import pytest
import torch

from relearn.models import constrained_network, vision
from relearn.models.constrained import constraints, release, stated_bound
from relearn.runs.settings import read
from relearn.studies.lipsformer.steps import train_constrained

from ...steps.vision_runs import FOUR, RECIPE, Runs

SWIN = {"name": "lipsformer_swin_tiny", **FOUR, "window": 2, "drop_path_rate": 0.2}
CONSTRAINT = {"bound": 1.0, "kind": "spectral", "method": "upper"}
SETTINGS = {**RECIPE, "network": SWIN, "lr": 5e-3}
SIZE = {"classes": 10, "in_channels": 1, "size": 8}
IMAGE = (1, 8, 8)
TOLERANCE = 1e-4
"""Of the logarithm of a bound: its 70 factors are single precision."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Runs:
    runs = Runs(tmp_path_factory.mktemp("runs"))
    runs.step("train_vision", "free", SETTINGS, {"suite": "test", "variant": "free"}, 0, data=runs.data)
    return runs


def train(runs: Runs, name: str, **changes) -> dict:
    settings = {**SETTINGS, "constraint": CONSTRAINT | changes}
    inputs = {"data": runs.data, "free": runs.root / "free/model.safetensors"}
    return runs.step("train_constrained", name, settings, {"suite": "test", "variant": name}, 0, **inputs)


@pytest.fixture(scope="module")
def held(runs: Runs) -> dict:
    return train(runs, "held")


def test_the_constraint_holds_after_training_and_without_it_the_bound_grows(runs: Runs, held: dict) -> None:
    free = runs.net("free").trunk
    stated = held["metrics"]["stated_bound_nats"]
    assert held["metrics"]["bound_nats"] <= stated + TOLERANCE
    torch.manual_seed(0)  # where both began
    begun = vision.create(**SIZE, **SWIN).trunk.eval()
    assert begun.lipschitz_bound().log < stated < free.lipschitz_bound().log - 0.5
    assert held["metrics"]["free_bound_nats"] == pytest.approx(free.lipschitz_bound().log, abs=TOLERANCE)


def test_the_file_is_loaded_under_its_constraint(runs: Runs, held: dict) -> None:
    constrained_network.register()
    net = runs.net("held")
    found = held["metrics"]
    assert len(list(constraints(net))) > 20
    assert net.trunk.lipschitz_bound().log == pytest.approx(found["bound_nats"], abs=TOLERANCE)
    assert stated_bound(net.trunk, IMAGE).log == pytest.approx(found["stated_bound_nats"], abs=TOLERANCE)
    x = torch.rand(5, *IMAGE)
    before = net(x)
    torch.testing.assert_close(release(net)(x), before, rtol=0, atol=1e-5)
    assert net.trunk.lipschitz_bound().log == pytest.approx(found["bound_nats"], abs=TOLERANCE)
    task = runs.task()
    jacobian = torch.autograd.functional.jacobian(lambda z: net.trunk(z[None])[0], task.test_images[0] / 255)
    assert math.log(float(torch.linalg.matrix_norm(jacobian.flatten(1), 2))) < found["bound_nats"]


def test_a_looser_limit_states_another_bound(runs: Runs, held: dict) -> None:
    loose = train(runs, "loose", bound=1e3)["metrics"]
    assert loose["stated_bound_nats"] > held["metrics"]["stated_bound_nats"] + 1
    assert loose["free_bound_nats"] == held["metrics"]["free_bound_nats"]


def test_it_begins_with_the_weights_of_the_free_network_scaled() -> None:
    constrained_network.register()
    nets = []
    for given in (SWIN, {**SWIN, "name": constrained_network.NAME, "of": SWIN["name"], **CONSTRAINT}):
        torch.manual_seed(3)
        nets.append(vision.create(**SIZE, **given))
    free, held = dict(nets[0].named_parameters()), nets[1]
    changed = 0
    for name, weight in release(held).named_parameters():
        weight, begun = weight.detach(), free[name].detach()
        factor = float((weight.flatten() @ begun.flatten()) / begun.square().sum().clamp(min=1e-12))
        torch.testing.assert_close(weight, factor * begun, rtol=1e-5, atol=1e-6)
        assert factor <= 1 + 1e-5
        changed += 0 < factor < 1 - 1e-3
    assert changed  # some convolutions begin above the limit


def test_a_network_without_a_constant_is_refused() -> None:
    constrained_network.register()
    given = {"name": constrained_network.NAME, "of": "residual_deit_tiny", **CONSTRAINT}
    with pytest.raises(ValueError, match="allowed: covered layers only"):
        vision.create(**SIZE, **given, patch_size=2, embed_dim=16, num_heads=2, depth=1)


def test_settings_are_those_of_train_vision_and_the_constraint() -> None:
    found = read(train_constrained.Settings, {**SETTINGS, "constraint": CONSTRAINT})
    assert found.constraint.method == "upper"
    with pytest.raises(ValueError, match="constraint"):
        read(train_constrained.Settings, SETTINGS)


def test_weights_that_are_not_finite_have_no_bound(runs: Runs, held: dict, tmp_path) -> None:
    net = runs.net("free")
    with torch.no_grad():
        next(net.trunk.parameters()).fill_(math.nan)
    vision.FILE.save(net, tmp_path / "nan.safetensors")
    found = train_constrained.bounds(runs.root / "held/model.safetensors", tmp_path / "nan.safetensors")
    assert set(found) == {"bound_nats", "stated_bound_nats"}
