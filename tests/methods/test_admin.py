"""Admin: the profile by hand in float64; the share of each branch; a steadier output; what is left alone; the fixed variant."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from relearn.methods import INITIALISATIONS, load
from relearn.methods.admin import admin
from relearn.models.post_ln_transformer import PostLNTransformer, sinusoids

SIZES = dict(dim=16, ffn=32, heads=2, dropout=0.3)


def network(layers: int = 3, residual: str = "w_skip", seed: int = 0) -> PostLNTransformer:
    torch.manual_seed(seed)
    sizes = {**SIZES, "encoder_layers": layers, "decoder_layers": layers}
    return PostLNTransformer(30, **sizes, residual=residual).double()


def batch(seed: int = 1, padding: int = 0) -> tuple[tuple[Tensor, Tensor], Tensor]:
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(3, 30, (4, 7), generator=generator)
    target = torch.randint(3, 30, (4, 6), generator=generator)
    source[2, 4:], target[1, 3:] = 0, 0
    more = torch.zeros(4, padding, dtype=torch.long)
    source, target = torch.cat([source, more], 1), torch.cat([target, more], 1)
    return (source, target), target


def batches(*seeds: int, padding: int = 0):
    return iter([batch(seed, padding) for seed in (seeds or (1,))])


@torch.no_grad()
def by_hand(net: PostLNTransformer, source: Tensor, target: Tensor) -> dict[str, list[float]]:
    """Var[x_1] and every Var[f_i], by walking through the layers of a plain Post-LN network."""
    net = net.eval()
    found: dict[str, list[float]] = {}

    def variance(x: Tensor, there: Tensor) -> float:
        values = torch.stack([x[b, t] for b, t in there.nonzero().tolist()]).flatten()
        return float(((values - values.mean()) ** 2).mean())

    def norm(joint, x: Tensor) -> Tensor:
        return joint.norm(x)

    there = source != 0
    x = 4.0 * net.source_embedding(source) + sinusoids(source.shape[1], 16, like=net.embedding.weight)
    found["encoder"] = [variance(x, there)]
    mask = there[:, None, None]
    for layer in net.encoder:
        for branch, joint in (
            (lambda x, one=layer: one.self_attention(x, x, mask=mask), layer.self_residual),
            (layer.ffn, layer.ffn_residual),
        ):
            b = branch(x)
            found["encoder"].append(variance(b, there))
            x = norm(joint, x + b)
    memory, there = x, target != 0
    x = 4.0 * net.embedding(target) + sinusoids(target.shape[1], 16, like=net.embedding.weight)
    found["decoder"] = [variance(x, there)]
    for layer in net.decoder:
        for branch, joint in (
            (lambda x, one=layer: one.self_attention(x, x, causal=True), layer.self_residual),
            (lambda x, one=layer: one.cross_attention(x, memory, mask=mask), layer.cross_residual),
            (layer.ffn, layer.ffn_residual),
        ):
            b = branch(x)
            found["decoder"].append(variance(b, there))
            x = norm(joint, x + b)
    return found


def test_weights_are_the_roots_of_what_was_added_before() -> None:
    net, ((source, target), _) = network(), batch()
    truth = by_hand(network(), source, target)
    done = load(INITIALISATIONS, "admin")(net, None, batches())
    assert done.outcome == "ok"
    for stack, joints in net.residual_stacks().items():
        first, *branches = truth[stack]
        for index, joint in enumerate(joints):
            expected = 1.0 if index == 0 else math.sqrt(first + sum(branches[:index]))
            torch.testing.assert_close(
                joint.w_skip.detach(), torch.full((16,), expected, dtype=torch.float64), rtol=1e-6, atol=0
            )
    rows = [row for row in done.history if row["stack"] == "decoder"]
    assert [row["branch_variance"] for row in rows] == pytest.approx(truth["decoder"][1:], rel=1e-6)


def test_several_batches_are_averaged() -> None:
    def last(*seeds: int) -> float:
        done = admin(network(), None, batches(*seeds), count=len(seeds))
        return float(done.history[-1]["stream_variance"])

    assert last(1, 2, 3) == pytest.approx((last(1) + last(2) + last(3)) / 3, rel=1e-9)
    assert last(1) != pytest.approx(last(2), rel=1e-6)


def test_padding_does_not_count() -> None:
    one = admin(network(), None, batches()).scales
    wide = admin(network(), None, batches(padding=5)).scales
    assert wide == pytest.approx(one, rel=1e-9)


def test_what_stood_there_before_does_not_matter() -> None:
    net = network()
    with torch.no_grad():
        for joints in net.residual_stacks().values():
            for joint in joints:
                joint.w_skip.fill_(7.0)
    assert admin(net, None, batches()).scales == pytest.approx(admin(network(), None, batches()).scales)


@pytest.mark.parametrize("layers", [12])
def test_the_output_moves_less_than_that_of_post_ln(layers: int) -> None:
    """What Admin is for: after one random step of all maps, the encoder's output has moved less."""

    def moved(residual: str) -> float:
        total = 0.0
        for seed in range(3):
            net, ((source, _), _) = network(layers, residual, seed), batch()
            if residual == "w_skip":
                admin(net, None, batches())
            net.eval()
            with torch.no_grad():
                before = net.encode(source)
                torch.manual_seed(100 + seed)
                for name, parameter in net.named_parameters():
                    if "weight" in name and parameter.dim() == 2 and "embedding" not in name:
                        parameter.add_(0.05 * parameter.std() * torch.randn_like(parameter))
                total += float((net.encode(source) - before).square().mean())
        return total

    assert moved("w_skip") < 0.5 * moved("post_ln")


def test_nothing_else_changes() -> None:
    net = network().train()
    net.encoder[0].eval()
    modes = [module.training for module in net.modules()]
    before = {name: one.clone() for name, one in net.state_dict().items() if "w_skip" not in name}
    state, endless = torch.get_rng_state(), itertools.cycle([batch()])
    admin(net, None, endless, count=2)
    assert torch.equal(torch.get_rng_state(), state)
    assert [module.training for module in net.modules()] == modes
    assert all(torch.equal(net.state_dict()[name], one) for name, one in before.items())
    assert all(parameter.requires_grad and parameter.grad is None for parameter in net.parameters())
    assert not any(module._forward_pre_hooks for module in net.modules())


def test_the_fixed_variant_gives_the_same_weights_and_trains_them_no_more() -> None:
    free, fixed = network(), network()
    admin(free, None, batches())
    admin(fixed, None, batches(), fixed=True)
    assert all(torch.equal(a, b) for a, b in zip(free.parameters(), fixed.parameters(), strict=True))
    frozen = {name for name, parameter in fixed.named_parameters() if not parameter.requires_grad}
    assert frozen == {name for name, _ in fixed.named_parameters() if name.endswith("w_skip")}
    assert fixed.description["fixed_w_skip"] and not free.description["fixed_w_skip"]


def test_a_broken_last_branch_is_a_result_too() -> None:
    """No joint follows it, so its variance is in no w."""
    net = network()
    with torch.no_grad():
        net.decoder[-1].ffn.fc2.weight.fill_(math.inf)
    done = admin(net, None, batches())
    assert done.outcome == "diverged" and "decoder" in (done.outcome_reason or "")
    assert done.outcome_step == done.history[-1]["step"]
    assert all(
        torch.equal(joint.w_skip, torch.ones_like(joint.w_skip))
        for joints in net.residual_stacks().values()
        for joint in joints
    )


def test_a_broken_network_is_a_result() -> None:
    net = network()
    with torch.no_grad():
        net.encoder[1].ffn.fc1.weight.fill_(math.nan)
    done = admin(net, None, batches())
    assert done.outcome == "diverged" and "encoder" in (done.outcome_reason or "")
    assert all(
        torch.equal(joint.w_skip, torch.ones_like(joint.w_skip)) for joint in net.residual_stacks()["encoder"]
    )


def test_what_cannot_be_done_is_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match="no w_skip"):
        admin(network(residual="post_ln"), None, batches())
    with pytest.raises(ValueError, match="no w_skip"):
        admin(torch.nn.Linear(2, 2), None, batches())
    with pytest.raises(ValueError, match="count: 0"):
        admin(network(), None, batches(), count=0)
    with pytest.raises(ValueError, match="batches: 1 of them"):
        admin(network(), None, list(batches()), count=2)
