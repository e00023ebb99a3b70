"""The crafting loop: what every attack keeps to, and what does not depend on how the work is cut up."""

import pytest
import torch
from torch import Tensor, nn

from relearn.methods import ATTACKS, convex_polytope, crafting, feature_collision, load

SETTINGS = {"eps": 0.1, "lr": 0.04, "iterations": 8, "dropout": True, "seed": 0}


class Spy:
    """An objective that keeps the features it was given."""

    def __init__(self) -> None:
        self.poisons: list[Tensor] = []
        self.targets: list[Tensor] = []

    def __call__(self, features: Tensor, target: Tensor, coefficients: Tensor | None) -> tuple[Tensor, None]:
        self.poisons.append(features.detach())
        self.targets.append(target)
        return feature_collision.loss(features, target), None


def test_first_loss_is_the_objective_of_the_clean_bases(problem) -> None:
    found = crafting.craft(
        convex_polytope.objective, *problem, **SETTINGS | {"dropout": False, "iterations": 1}
    )
    slow = 0.0
    for net in problem.substitutes:
        features, target = (net.eval().features(x).detach() for x in (problem.bases, problem.targets))
        slow += sum(float(convex_polytope.objective(features, t)[0]) for t in target) / 4
    assert abs(found.history[0]["loss_sum"] - slow) < 1e-12


def test_gradient_for_the_pixels_equals_finite_differences(problem) -> None:
    """One Adam step is ± lr · std: its signs are those of the slope of the summed loss."""
    settings = SETTINGS | {"dropout": False, "iterations": 1, "lr": 1e-6, "pixel_std": 1.0}
    found = crafting.craft(convex_polytope.objective, *problem, **settings)
    poisons = problem.bases.expand(4, -1, -1, -1, -1)

    def value(x: Tensor) -> float:
        return float(
            crafting.evaluate(convex_polytope.objective, problem.substitutes, x, problem.targets)[0].sum()
        )

    checked = 0
    for index in torch.cartesian_prod(torch.arange(4), torch.arange(3), torch.arange(2), torch.arange(5))[
        ::7
    ]:
        pixel = (*map(int, index), 2)
        if not 0.01 < float(poisons[pixel]) < 0.99:
            continue
        step = torch.zeros_like(poisons)
        step[pixel] = 1e-5
        slope = (value(poisons + step) - value(poisons - step)) / 2e-5
        if abs(slope) > 1e-5:
            assert (found.poisons[pixel] < poisons[pixel]) == (slope > 0)
            checked += 1
    assert checked > 8


def test_raw_pixels_as_features_have_a_known_collision(problem) -> None:
    """φ(x) = x: the best poison is the target, clipped to the ball around the base."""

    class Pixels(nn.Module):
        def features(self, x: Tensor) -> Tensor:
            return x.flatten(1)

    settings = SETTINGS | {"iterations": 400, "pixel_std": 0.2}
    found = feature_collision.craft([Pixels()], problem.bases, problem.targets, **settings)
    lower, upper = (problem.bases - 0.1).clamp_min(0), (problem.bases + 0.1).clamp_max(1)
    best = problem.targets[:, None].clamp(lower, upper)
    torch.testing.assert_close(found.poisons, best, rtol=0, atol=1e-3)


def test_dropout_masks_are_new_in_every_iteration(problem) -> None:
    settings = SETTINGS | {"lr": 1e-12, "iterations": 3}
    one = problem._replace(substitutes=problem.substitutes[:1])

    def steps(**changes) -> tuple[list[Tensor], list[Tensor]]:
        spy = Spy()
        crafting.craft(spy, *one, **settings | changes)
        assert len(spy.poisons) == 4  # the last one evaluates the result, Dropout off
        return spy.poisons, spy.targets

    def distance(a: Tensor, b: Tensor) -> float:
        return float((a - b).abs().max())

    poisons, targets = steps()
    for i, j in [(0, 1), (1, 2), (2, 3)]:
        assert distance(poisons[i], poisons[j]) > 1e-2 and distance(targets[i], targets[j]) > 1e-2
    assert distance(poisons[0][0], poisons[0][1]) > 1e-2  # copies of the same bases: a mask for every image
    _, targets = steps(target_dropout="fixed")
    assert distance(targets[0], targets[2]) == 0 and distance(targets[0], targets[3]) > 1e-2
    poisons, targets = steps(target_dropout="off")
    assert distance(targets[0], targets[3]) == 0 and distance(poisons[0], poisons[1]) > 1e-2
    poisons, targets = steps(dropout=False)
    assert distance(targets[0], targets[3]) == 0 and distance(poisons[0], poisons[3]) < 1e-9


def test_a_functional_dropout_is_refused_because_it_would_stay_off(problem) -> None:
    net = problem.substitutes[1]
    whole = net.features
    for p, dropout in ((0.0, True), (0.5, False)):
        net.features = lambda x, p=p: nn.functional.dropout(whole(x), p, net.training)
        convex_polytope.craft(*problem, **SETTINGS | {"dropout": dropout})
    with pytest.raises(ValueError, match=r"substitutes\[1\]: found a functional dropout"):
        convex_polytope.craft(*problem, **SETTINGS)


def test_the_seed_decides_the_masks(problem) -> None:
    found = [convex_polytope.craft(*problem, **SETTINGS | {"seed": seed}).poisons for seed in (0, 0, 1)]
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])


@pytest.mark.parametrize("what", ["lr", "seed", "dropout", "target_dropout", "pixel_std", "weight", 0, 1, 2])
def test_a_checkpoint_of_another_attack_is_refused(problem, memory, tiny_net, what: str | int) -> None:
    """A number: another substitute, or bases (in the ball of the others) or targets."""
    given = [*problem]
    options = SETTINGS | {"pixel_std": 0.3, "weight": 1.0, "target_dropout": "fixed", "checkpoint": memory}
    attack = load(ATTACKS, "adaptive_polytope")
    attack(*given, **options)
    attack(*given, **options | {"iterations": 9, "target_batch": 2})  # the same attack, continued
    if isinstance(what, str):
        options[what] = {"dropout": False, "target_dropout": "off"}.get(what, 2)
    else:
        given[what] = [tiny_net(1), tiny_net(3)] if what == 0 else given[what] * 0.999
    with pytest.raises(ValueError, match="checkpoint: of other settings"):
        attack(*given, **options | {"iterations": 9})


def test_pixel_std_is_taken_from_the_substitutes(problem, tiny_net) -> None:
    settings = SETTINGS | {"iterations": 1}
    own = convex_polytope.craft(*problem, **settings)
    said = convex_polytope.craft(*problem, **settings, pixel_std=[0.2, 0.25])
    torch.testing.assert_close(own.poisons, said.poisons)
    moved = (own.poisons - problem.bases).abs().amax((0, 1, 3, 4))
    torch.testing.assert_close(moved, 0.04 * torch.tensor([0.2, 0.25]).double(), rtol=1e-3, atol=0)
    other = tiny_net(5)
    other.std.mul_(2)
    with pytest.raises(ValueError, match="different std"):
        convex_polytope.craft([*problem.substitutes, other], problem.bases, problem.targets, **settings)
    with pytest.raises(ValueError, match=r"pixel_std is .*1 or 2 positive"):
        convex_polytope.craft(*problem, **settings, pixel_std=[0.2, 0.2, 0.2])


def test_watching_a_victim_changes_nothing(problem, tiny_net) -> None:
    victim = tiny_net(9)
    seen: list[dict] = []
    options = {"watch": (3, [victim]), "log": lambda step, **metrics: seen.append(metrics)}
    watched = convex_polytope.craft(*problem, **SETTINGS, **options)
    assert torch.equal(watched.poisons, convex_polytope.craft(*problem, **SETTINGS).poisons)
    assert [row["iteration"] for row in watched.history if "watch" in row] == [3, 6, 8]
    assert [i for i, row in enumerate(seen, 1) if "watch_0" in row] == [3, 6, 8]
    first = convex_polytope.craft(*problem, **SETTINGS | {"iterations": 2}).poisons
    value, c = crafting.evaluate(convex_polytope.objective, [victim], first, problem.targets)
    assert abs(float(value.mean()) - watched.history[2]["watch"][0]) < 1e-12
    assert c[0] is not None and c[0].shape == (4, 3)


def test_coefficients_are_those_of_the_final_poisons(problem) -> None:
    found = convex_polytope.craft(*problem, **SETTINGS)
    assert all((c.sum(-1) == 1).all() for c in found.coefficients)
    total = torch.zeros(4, dtype=torch.float64)
    for net, c in zip(problem.substitutes, found.coefficients):
        features = net.eval().features(found.poisons.flatten(0, 1)).unflatten(0, (4, 3))
        total += convex_polytope.loss(features, net.features(problem.targets), c)
    torch.testing.assert_close(found.final_loss, total)
    assert feature_collision.craft(*problem, **SETTINGS).coefficients == [None, None]


@pytest.mark.parametrize("dropout", [False, True])
def test_without_memory_the_targets_are_halved(problem, dropout: bool) -> None:
    """With the same bits as if the smaller batch had been asked for."""

    class Small(type(problem.substitutes[0])):
        most, calls = 6, 0

        def features(self, x: Tensor) -> Tensor:
            self.calls += x.requires_grad
            if x.requires_grad and len(x) > self.most:
                raise torch.OutOfMemoryError
            return super().features(x)

    nets = [problem.substitutes[0], Small(2)]  # the first one has drawn masks and solved coefficients by then
    settings = SETTINGS | {"dropout": dropout}
    found = convex_polytope.craft(nets, *problem[1:], **settings)
    assert nets[1].calls == 1 + 8 * 2  # three poisons each: four targets do not fit, two do
    asked = convex_polytope.craft(*problem, **settings, target_batch=2)
    assert torch.equal(found.poisons, asked.poisons) and found.history == asked.history
    nets[1].most = 2
    with pytest.raises(torch.OutOfMemoryError):
        convex_polytope.craft(nets, *problem[1:], **settings)


def test_bfloat16_stays_near_float32(problem) -> None:
    nets = [net.float() for net in problem.substitutes]
    settings = SETTINGS | {"dropout": False, "iterations": 30, "eps": 0.3}
    bases, targets = problem.bases.float(), problem.targets.float()
    full, half = (
        convex_polytope.craft(nets, bases, targets, **settings, precision=p) for p in ("fp32", "bf16")
    )
    assert half.poisons.dtype == torch.float32
    exact, _ = crafting.evaluate(convex_polytope.objective, nets, half.poisons, targets)
    assert exact.sum(0).mean() < 0.5 * full.history[0]["loss_sum"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lr": -1}, "lr is -1; allowed: a positive number"),
        ({"lr": float("inf")}, "lr is inf"),
        ({"target_batch": 0}, "target_batch is 0"),
        ({"watch": (0, [torch.nn.Linear(1, 1)])}, "watch.0. is a Linear without 'features'"),
        ({"dropout": 0.2}, "dropout is 0.2; allowed: True or False"),
        ({"target_dropout": "frozen"}, "'frozen'; allowed: resampled, fixed, off"),
        ({"precision": "fp16"}, "'fp16'; allowed: fp32, bf16"),
        ({"substitutes": [torch.nn.Linear(1, 1)]}, "substitutes.0. is a Linear without 'features'"),
        ({"substitutes": {"net": 1}}, "substitutes.0. is a str; allowed: a torch.nn.Module"),
        ({"substitutes": None}, "found a NoneType; allowed: a list of networks"),
        ({"substitutes": torch.nn.Sequential()}, "found a Sequential; allowed: a list of networks"),
        ({"bases": torch.zeros(3, 2, 5, 5)}, "bases are torch.float32 on cpu, targets torch.float64 on cpu"),
        (
            {"bases": torch.zeros(3, 2, 5, 5).half()},
            "bases has dtype torch.float16; allowed: a tensor of float32",
        ),
        ({"bases": torch.zeros(3, 3, 2, 5, 5)}, "do not fit"),
        ({"targets": torch.zeros(4, 1, 5, 5)}, "do not fit"),
        ({"targets": torch.full((4, 2, 5, 5), torch.nan)}, "targets has pixels outside"),
    ],
)
def test_arguments_are_refused_by_name(problem, changes: dict, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        crafting.craft(convex_polytope.objective, **problem._asdict() | SETTINGS | changes)


def test_feature_maps_are_no_features(problem) -> None:
    """As ``features`` of torchvision's networks, whose loss would be that of other pairs of numbers."""
    for net in problem.substitutes:
        net.features = lambda x: x
    with pytest.raises(ValueError, match=r"TinyNet: found \(\d, 2, 5, 5\); allowed: a tensor \(B, d\)"):
        feature_collision.craft(*problem, **SETTINGS)


def test_gradients_of_the_caller_do_not_matter(problem) -> None:
    options = SETTINGS | {"iterations": 2}
    wanted = crafting.craft(convex_polytope.objective, *problem, **options).poisons
    nets, bases, targets = problem
    with torch.no_grad():
        given = nets, bases.clone().requires_grad_(), targets.clone().requires_grad_()
        found = crafting.craft(convex_polytope.objective, *given, **options)
    assert torch.equal(found.poisons, wanted) and not (
        found.poisons.requires_grad or found.bases.requires_grad
    )


def test_an_unknown_attack_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ValueError, match="'convex_politope' is not known; did you mean 'convex_polytope'"):
        load(ATTACKS, "convex_politope")
