"""FreeAT: its own slow loop, replays that nothing interrupts, exact resume in the middle of them."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from relearn.methods import fit_state
from relearn.methods.augmentation import crop_and_flip
from relearn.methods.batch_source import Resident
from relearn.methods.fit import fit, plain_gradient
from relearn.methods.free_at import FreeAT, Replayed
from relearn.methods.gradient_accumulation import GradientAccumulation
from relearn.methods.perturbation import norms
from relearn.runs.checkpoint import Checkpoint

from .sentences import encoder, sentences
from .test_fit_resume import Stop


class Batches:
    """Three batches of 4 sentences."""

    batches_per_epoch = 3

    def epoch(self, generator):
        (tokens, real), labels = sentences(rows=12)
        order = torch.randperm(12, generator=generator)
        return iter([((tokens[rows], real[rows]), labels[rows]) for rows in order.split(4)])


def train(model, strategy, checkpoint=None, times=3, **more):
    settings = dict(loss=cross_entropy, steps=14, lr=0.05, optimizer="sgd", schedule="constant", seed=4)
    return fit(
        model, Replayed(Batches(), times), gradient=strategy, checkpoint=checkpoint, **{**settings, **more}
    )


def test_against_a_slow_loop():
    """No dropout; each batch three times, an update after each pass, δ from one pass to the next and to no other batch."""
    model, strategy = encoder("bert", dropout=0.0), FreeAT(3, 0.4, 0.6, start_norm=0.5)
    generator = torch.Generator().manual_seed(9)
    ours = encoder("bert", dropout=0.0)
    torch.manual_seed(7)
    optimizer = torch.optim.SGD(ours.parameters(), 0.05)
    for batch in Replayed(Batches(), 3).epoch(generator):
        optimizer.zero_grad()
        strategy(ours, cross_entropy, batch)
        optimizer.step()
    torch.manual_seed(7)
    generator = torch.Generator().manual_seed(9)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    for (tokens, real), labels in Batches().epoch(generator):
        counts = real.sum(1) * 16
        delta = (torch.rand(*tokens.shape, 16) * 2 - 1) * (0.5 / counts.sqrt())[:, None, None]
        delta = delta.double() * real[:, :, None]
        for _ in range(3):
            point = delta.clone().requires_grad_()
            embeds = model.get_input_embeddings()(tokens) + point
            optimizer.zero_grad()
            cross_entropy(model.net(inputs_embeds=embeds, attention_mask=real).logits, labels).backward()
            g = point.grad * real[:, :, None]
            moved = delta + 0.4 * g / g.flatten(1).norm(dim=1)[:, None, None]
            delta = moved * (0.6 / norms(moved, len(labels))).clamp(max=1.0)[:, None, None]
            optimizer.step()
    for one, other in zip(ours.parameters(), model.parameters()):
        assert torch.allclose(one, other, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("after", [1, 2, 5, 9, 11])
def test_a_run_stopped_between_replays_has_the_bits_of_the_one_that_was_not(tmp_path, after):
    whole, cut = encoder(), encoder()
    settings = dict(passes=3, step_size=0.4, eps=0.6, start_norm=0.5)
    train(whole, FreeAT(**settings))
    with pytest.raises(KeyboardInterrupt):
        train(cut, FreeAT(**settings), Stop(tmp_path, after), checkpoint_steps=1)
    again = encoder(seed=5)
    strategy = FreeAT(**settings)
    train(again, strategy, Checkpoint(tmp_path), checkpoint_steps=1)
    assert all(torch.equal(one, other) for one, other in zip(whole.parameters(), again.parameters()))
    # The control: without the strategy's state the replays are counted from elsewhere.
    with pytest.raises(KeyboardInterrupt):
        train(encoder(), FreeAT(**settings), Stop(tmp_path / "other", after), checkpoint_steps=1)
    state = Checkpoint(tmp_path / "other").load()
    replay = state["strategy"]["0"]["replay"]
    assert replay == state["steps"] % 3
    if replay:
        lost = encoder(seed=5)
        kept = Checkpoint(tmp_path / "lost")
        kept.save({**state, "strategy": {}})
        train(lost, FreeAT(**settings), kept)
        assert not all(torch.equal(one, other) for one, other in zip(whole.parameters(), lost.parameters()))


def test_replays_share_their_masks_or_do_not():
    """With no step at all the three replays of a batch use the same network; the next batch draws new masks."""
    model, seen = encoder(), []
    batch = sentences()
    for reuse in (True, False):
        seen.clear()
        strategy = FreeAT(3, 1e-12, 0.5, start_norm=1e-9, reuse_masks=reuse)
        torch.manual_seed(3)
        for _ in range(6):
            seen.append(float(strategy(model, cross_entropy, batch)))
        same = [abs(seen[0] - one) < 1e-6 for one in seen]
        assert same == ([True] * 3 + [False] * 3 if reuse else [True] + [False] * 5)


def test_the_generator_ends_in_the_state_after_one_pass():
    model, batch = encoder(), sentences()
    strategy = FreeAT(3)
    torch.manual_seed(3)
    strategy(model, cross_entropy, batch)
    state = torch.get_rng_state()
    strategy(model, cross_entropy, batch)
    assert torch.equal(state, torch.get_rng_state())
    torch.rand(7)  # what others draw between replays is not drawn again behind them
    state = torch.get_rng_state()
    strategy(model, cross_entropy, batch)
    assert torch.equal(state, torch.get_rng_state())
    assert strategy.state_dict() == {"skipped": 0, "replay": 0}  # nothing is carried to the next batch


def test_without_a_perturbation_it_is_plain_training_bit_for_bit():
    ours, plain = encoder(), encoder()
    train(ours, FreeAT(3, eps=0.0))
    train(plain, plain_gradient)
    assert all(torch.equal(one, other) for one, other in zip(ours.parameters(), plain.parameters()))


def test_another_number_of_processes_starts_other_perturbations_in_the_same_replay():
    strategy, other, model = FreeAT(3), FreeAT(3), encoder()
    torch.manual_seed(0)
    strategy(model, cross_entropy, sentences())
    states = {"0": fit_state.strategy_state(strategy)}
    assert set(states["0"]) == {"skipped", "replay", "delta", "random/cpu"}
    fit_state.restore_strategy(other, states, 0, 2)
    assert other.state_dict() == {"skipped": 0, "replay": 1}
    other(model, cross_entropy, sentences(rows=3))
    assert other.state_dict()["replay"] == 2
    fit_state.restore_strategy(other, {"0": {}, "1": states["0"]}, 1, 2)
    assert torch.equal(other.state_dict()["delta"], states["0"]["delta"])
    fit_state.restore_strategy(strategy, {}, 0, 1)
    assert strategy.state_dict() == {"skipped": 0, "replay": 0}


def test_another_number_of_processes_finds_no_perturbation_in_shares_either():
    """Gradient accumulation keeps a state for each share: their δ belong to other rows, too."""
    strategy, other = (GradientAccumulation([FreeAT(3), FreeAT(3)]) for _ in range(2))
    model = encoder()
    strategy(model, cross_entropy, sentences())
    states = {"0": fit_state.strategy_state(strategy)}
    assert all("delta" in one and "random/cpu" in one for one in states["0"].values())
    fit_state.restore_strategy(other, states, 0, 2)
    assert other.state_dict() == {str(share): {"skipped": 0, "replay": 1} for share in range(2)}
    other(model, cross_entropy, sentences(rows=3))  # 1 row and 2, where the kept δ have 2 and 3
    assert other.state_dict()["1"]["replay"] == 2
    fit_state.restore_strategy(other, {"0": {}, "1": states["0"]}, 1, 2)  # as many processes: all is there
    assert torch.equal(other.state_dict()["1"]["delta"], states["0"]["1"]["delta"])


def test_batches_that_are_not_replayed_are_refused():
    strategy, model = FreeAT(3), encoder()
    strategy(model, cross_entropy, sentences())
    with pytest.raises(
        ValueError, match=r"data: found a batch of \(3, 8, 16\) after one of \(5, 8, 16\) in replay 2"
    ):
        strategy(model, cross_entropy, sentences(rows=3))


def test_every_batch_comes_so_often_and_an_image_as_one():
    pixels = torch.randint(0, 256, (7, 1, 6, 6), dtype=torch.uint8)
    source = Replayed(Resident((pixels, torch.arange(7)), 3), 2, crop_and_flip(2, True))
    assert source.batches_per_epoch == 4
    batches = list(source.epoch(torch.Generator().manual_seed(0)))
    again = list(source.epoch(torch.Generator().manual_seed(0)))
    assert len(batches) == 4 and batches[0][0].dtype == torch.float32
    for first, second in zip(batches[::2], batches[1::2]):
        assert torch.equal(first[0], second[0]) and torch.equal(first[1], second[1])
    assert all(torch.equal(one[0], other[0]) for one, other in zip(batches, again))
    assert not torch.equal(batches[0][0].sort().values, (pixels[batches[0][1]] / 255).sort().values)


def test_no_replay_at_all_is_refused():
    with pytest.raises(ValueError, match=r"times: found 0 \(allowed: a whole number, 1 or more\)"):
        Replayed(Batches(), 0)
