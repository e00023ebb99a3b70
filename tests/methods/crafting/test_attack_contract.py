"""What every attack keeps to, whatever its objective."""

import gc

import pytest
import torch
from torch import Tensor, nn

from relearn.methods import bullseye_polytope, convex_polytope, crafting
from relearn.testing import small_network

SETTINGS = {"eps": 0.1, "lr": 0.04, "iterations": 8, "dropout": True, "seed": 0}


@pytest.mark.parametrize("dropout", [False, True])
def test_poisons_stay_in_the_ball_also_after_quantisation(attack, problem, dropout: bool) -> None:
    settings = SETTINGS | {"dropout": dropout, "iterations": 20}
    loose = attack(*problem, **settings | {"eps": 0.5})
    for eps in (0.1, 8 / 255):
        found = attack(*problem, **settings | {"eps": eps})
        assert found.poisons.shape == (4, 3, 2, 5, 5) and found.outcome == "ok"
        crafting.assert_in_ball(found.poisons, found.bases, eps)
        levels = crafting.quantise(found.poisons, found.bases, eps)
        crafting.assert_in_ball(levels, (255 * found.bases).round().to(torch.uint8), eps + 1e-9)
        assert (found.poisons - found.bases).abs().max() > 0.9 * eps  # the ball is felt
        # the control: without the ball they would leave it
        with pytest.raises(ValueError, match="leave the ball"):
            crafting.assert_in_ball(loose.poisons, found.bases, eps)


def test_ten_targets_in_one_call_are_ten_alone(attack, problem) -> None:
    settings = SETTINGS | {"dropout": False, "iterations": 15}
    together = attack(*problem, **settings)
    parts = attack(*problem, **settings, target_batch=3)
    for i in range(4):
        alone = attack(problem.substitutes, problem.bases, problem.targets[i : i + 1], **settings)
        for one in (together, parts):
            torch.testing.assert_close(one.poisons[i], alone.poisons[0], rtol=0, atol=1e-9)
            torch.testing.assert_close(one.final_loss[i], alone.final_loss[0], rtol=1e-8, atol=0)
    for one in (together, parts):  # in parts, losses of iterations and of the result are the same too
        torch.testing.assert_close(
            [row["loss_sum"] for row in one.history], [row["loss_sum"] for row in together.history]
        )
    other = attack(*problem._replace(targets=problem.targets.flip(0)), **settings)
    assert (other.poisons[0] - together.poisons[0]).abs().max() > 1e-3


def test_bases_of_their_own_for_each_target(attack, problem) -> None:
    settings = SETTINGS | {"dropout": False}
    bases = torch.stack([problem.bases, problem.bases.flip(0), problem.bases, problem.bases])
    found = attack(problem.substitutes, bases, problem.targets, **settings)
    shared = attack(problem.substitutes, problem.bases.flip(0), problem.targets, **settings)
    torch.testing.assert_close(found.poisons[1], shared.poisons[1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("target_dropout", ["resampled", "fixed", "off"])
def test_a_resumed_run_gives_the_same_bits(attack, problem, memory, target_dropout: str) -> None:
    options = SETTINGS | {"target_dropout": target_dropout, "watch": (3, problem.substitutes[:1])}
    whole = attack(*problem, **options)

    def stop(done: int, total: int) -> None:
        if done == 5:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        attack(*problem, **options, checkpoint=memory, checkpoint_every=2, progress=stop)
    assert [state["iteration"] for state in memory.states] == [2, 4, 5]
    for state in memory.states[:]:
        memory.states = [state]
        torch.manual_seed(int(state["iteration"]))  # whatever the global state is
        resumed = attack(*problem, **options, checkpoint=memory)
        assert torch.equal(resumed.poisons, whole.poisons) and torch.equal(
            resumed.final_loss, whole.final_loss
        )
        assert resumed.history == whole.history


def test_networks_are_lent_and_returned(attack, problem) -> None:
    first = problem.substitutes[0].train()
    first.head.bias.requires_grad_(False)
    before = {name: value.clone() for name, value in first.state_dict().items()}
    random = torch.get_rng_state()
    attack(*problem, **SETTINGS)
    assert all(
        torch.equal(before[name], value) for name, value in first.state_dict().items()
    )  # BN statistics too
    assert all(parameter.grad is None for parameter in first.parameters())
    assert [name for name, p in first.named_parameters() if not p.requires_grad] == ["head.bias"]
    assert all(module.training for module in first.modules())
    assert torch.equal(torch.get_rng_state(), random)


def test_the_loss_falls_and_the_history_has_its_sum_and_mean(attack, problem) -> None:
    rows = []
    settings = SETTINGS | {"dropout": False, "eps": 0.3, "iterations": 60}
    found = attack(
        *problem, **settings, log=lambda step, **metrics: rows.append({"iteration": step, **metrics})
    )
    assert rows == found.history and [row["iteration"] for row in rows] == list(range(1, 61))
    assert all(row["loss_mean"] == row["loss_sum"] / len(found.coefficients) for row in rows)
    assert float(found.final_loss.mean()) < 0.3 * rows[0]["loss_sum"]


def test_what_no_attack_can_use_is_refused_by_name(attack, problem) -> None:
    for changes, message in (
        ({"eps": 8}, r"eps is 8; allowed: above 0, at most 1, for pixels in \[0, 1\] \(8/255, not 8\)"),
        ({"iterations": 2.5}, r"iterations is 2\.5; allowed: a positive whole number"),
        ({"iterations": -1}, "iterations is -1;"),
        ({"substitutes": []}, "substitutes is empty"),
        ({"substitutes": ["net"]}, r"substitutes\[0\] is a str"),
        ({"targets": problem.targets[0]}, "targets has shape"),
        ({"targets": problem.targets * 255}, r"targets has pixels outside \[0, 1\]"),
        ({"bases": problem.bases[0]}, "bases has shape"),
        ({"bases": problem.bases.numpy()}, "bases has type ndarray"),
        ({"bases": (255 * problem.bases).byte()}, r"bases has dtype torch\.uint8"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            attack(**problem._asdict() | SETTINGS | changes)


@pytest.mark.parametrize("kind", ["features", "loss"])
def test_a_loss_that_is_not_finite_stops_the_run(attack, problem, kind: str) -> None:
    """The poisons are those of before the failing iteration, and still in the ball."""

    class Fails(type(problem.substitutes[0])):
        done = 0

        def stages(self, x: Tensor) -> list[Tensor]:
            broken = x.new_full((), torch.nan if kind == "features" else 1e160)  # whose square is infinite
            return [one * (broken if self.done == 3 else 1.0) for one in super().stages(x)]

    fails = Fails(3)
    with torch.no_grad():  # never the poison class: no gradient of the loss is zero
        fails.head.weight[1] = fails.head.weight.amin(0) - 1
    options = {"dropout": False, "progress": lambda done, count: setattr(fails, "done", done)}
    found = attack([problem.substitutes[0], fails], *problem[1:], **SETTINGS | options)
    assert (found.outcome, found.outcome_step) == ("diverged", 4) and len(found.history) == 3
    assert found.outcome_reason and "not finite" in found.outcome_reason
    crafting.assert_in_ball(found.poisons, found.bases, 0.1)


def test_the_reason_names_the_target_whose_loss_is_not_finite() -> None:
    """A black image has no features in a network without biases, and the loss is relative to their norm."""
    bases, targets = torch.rand(2, 2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    targets[1] = 0.0
    net = small_network(0)
    assert not net.features(targets[1:]).any() and net.features(targets[:1]).any()
    found = convex_polytope.craft([net], bases, targets, iterations=2)
    assert found.outcome_reason == "the loss is not finite, of target 1"
    assert torch.equal(found.poisons, found.bases)


def live_bytes() -> int:
    """Of all tensors that Python knows."""
    gc.collect()
    storages = {}
    for one in gc.get_objects():
        if type(one) in (Tensor, nn.Parameter):
            storages[one.untyped_storage().data_ptr()] = one.untyped_storage().nbytes()
    return sum(storages.values())


def bytes_after(craft, problem, extra: list[Tensor] | None = None) -> list[int]:
    """Live bytes after 3 and 30 iterations."""
    seen: list[int] = []

    def look(done: int, count: int) -> None:
        if extra is not None:
            extra.append(torch.rand(2, 5, 5))
        if done in (3, 30):
            seen.append(live_bytes())

    gc.freeze()  # what was there before is not looked at: there may be a million objects of other tests
    try:
        craft(*problem, **SETTINGS | {"iterations": 30}, progress=look)
    finally:
        gc.unfreeze()
    return seen


def test_memory_does_not_grow_with_the_iterations(attack, problem) -> None:
    early, late = bytes_after(attack, problem)
    assert early == late


def test_the_memory_test_sees_one_image_an_iteration(problem) -> None:
    early, late = bytes_after(bullseye_polytope.craft, problem, [])
    assert late == early + 27 * 2 * 5 * 5 * 4


def test_any_attack_is_evaluated_in_any_network(attack, problem, tiny_net) -> None:
    """Final losses in watched networks: Dropout off, and no influence on the poisons."""
    victims = [tiny_net(9), problem.substitutes[1]]
    plain = attack(*problem, **SETTINGS)
    found = attack(*problem, **SETTINGS, watch=(4, victims))
    assert plain.watched is None and torch.equal(plain.poisons, found.poisons)
    assert found.watched is not None and found.watched.shape == (2, 4)
    assert torch.isfinite(found.watched).all() and (found.watched[0] != found.watched[1]).all()
    total = found.final_loss
    if len(found.coefficients) == 1:  # the known network is the second one
        torch.testing.assert_close(found.watched[1], total)
    else:
        first = attack(*problem, **SETTINGS, watch=(4, problem.substitutes))
        torch.testing.assert_close(first.watched.sum(0), total)
    assert [row["iteration"] for row in found.history if "watch" in row] == [4, 8]
