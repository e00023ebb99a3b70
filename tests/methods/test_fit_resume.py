"""A run that is stopped anywhere and taken up again has the bits of the one that was not."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from relearn.methods.augmentation import compose, crop_and_flip, cutout
from relearn.methods.fit import fit
from relearn.methods.mixing import mixup
from relearn.runs.checkpoint import Checkpoint

STEPS = 14  # three epochs of five batches, the last one cut


def network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    layers = [
        nn.Conv2d(1, 3, 3),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Flatten(),
        nn.Linear(48, 3),
    ]
    return nn.Sequential(*layers)


def images(count: int = 23):
    generator = torch.Generator().manual_seed(8)
    pixels = torch.randint(0, 256, (count, 1, 6, 6), generator=generator, dtype=torch.uint8)
    return pixels, torch.randint(0, 3, (count,), generator=generator)


class Ahead:
    """A source that makes its batches before they are asked for, as workers do."""

    batches_per_epoch = 5

    def epoch(self, generator):
        pixels, labels = images()
        order = torch.randperm(23, generator=generator)
        return iter([[pixels[rows], labels[rows]] for rows in order.split(5)])


class Stop:
    """A checkpoint on the disk that ends the run after so many saves, as a kill would."""

    def __init__(self, folder, after: int | None = None) -> None:
        self.inner, self.after, self.saves = Checkpoint(folder), after, 0

    def load(self):
        return self.inner.load()

    def save(self, state) -> None:
        self.inner.save(state)
        self.saves += 1
        if self.saves == self.after:
            raise KeyboardInterrupt


def train(net, kind, checkpoint=None, **more):
    data, sizes = (images(), dict(batch_size=5)) if kind == "tensors" else (Ahead(), {})
    settings = dict(
        loss=cross_entropy,
        steps=STEPS,
        schedule_steps=20,
        lr=0.1,
        optimizer="radam",
        decay="no_norm",
        weight_decay=0.01,
        clip_norm=1.0,
        augment=compose(crop_and_flip(1, True), cutout(2)),
        mix=mixup(1.0, 3),
        evaluate=lambda model: {"drawn": float(torch.rand(())) * 0},
        seed=5,
    )
    return fit(net, data, checkpoint=checkpoint, **sizes, **{**settings, **more})


@pytest.mark.parametrize("kind", ["tensors", "source"])
@pytest.mark.parametrize("every,after", [(1, 1), (1, 4), (1, 5), (1, 9), (3, 2), (4, 3)])
@pytest.mark.parametrize("history_steps", [None, 3])
def test_resumed_in_the_middle_of_an_epoch_bit_for_bit(tmp_path, kind, every, after, history_steps):
    whole = network(0)
    truth = train(whole, kind, history_steps=history_steps)
    assert truth.steps == STEPS and len(truth.history) == (3 if history_steps is None else 5)
    options = dict(checkpoint_steps=every, history_steps=history_steps)
    with pytest.raises(KeyboardInterrupt):
        train(network(0), kind, Stop(tmp_path, after), **options)
    resumed = network(99)  # another start: everything must come from the checkpoint
    torch.manual_seed(1234)
    found = train(resumed, kind, Stop(tmp_path, None), **options)
    assert found == truth
    for (name, a), b in zip(whole.state_dict().items(), resumed.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


@pytest.mark.parametrize("at", [1, 3, 5, 6, 10, 13, 14])
@pytest.mark.parametrize("history_steps", [None, 3])
def test_an_interruption_loses_no_step(tmp_path, at, history_steps):
    """A signal is obeyed in the call of `progress`: the step that it ends is in the checkpoint, whatever the spacing."""
    whole = network(0)
    truth = train(whole, "tensors", history_steps=history_steps)

    def interrupted(done: int, _: int) -> None:
        if done == at:
            raise SystemExit(143)

    options = dict(checkpoint_steps=100, checkpoint_every=100, history_steps=history_steps)
    with pytest.raises(SystemExit):
        train(network(0), "tensors", Stop(tmp_path, None), progress=interrupted, **options)
    assert Checkpoint(tmp_path).load()["steps"] == at
    resumed = network(99)
    assert train(resumed, "tensors", Stop(tmp_path, None), **options) == truth
    for a, b in zip(whole.state_dict().values(), resumed.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_the_comparison_can_fail(tmp_path):
    """Negative control: a checkpoint whose generators are lost resumes to something else."""

    class Forgetful(Stop):
        def load(self):
            state = super().load()
            if state is not None:
                fresh = torch.Generator().manual_seed(0).get_state()
                state["random"]["0"] = {"draws": fresh, "cpu": fresh}
            return state

    whole, resumed = network(0), network(0)
    train(whole, "tensors")
    with pytest.raises(KeyboardInterrupt):
        train(network(0), "tensors", Stop(tmp_path, 7), checkpoint_steps=1)
    train(resumed, "tensors", Forgetful(tmp_path, None))
    assert not torch.equal(whole[0].weight, resumed[0].weight)


def test_saves_by_steps_and_by_epochs(tmp_path):
    by_epoch, by_step = Stop(tmp_path / "a", None), Stop(tmp_path / "b", None)
    train(network(0), "tensors", by_epoch)
    train(network(0), "tensors", by_step, checkpoint_every=99, checkpoint_steps=4)
    assert (by_epoch.saves, by_step.saves) == (2, 3)


def test_a_divergence_is_never_saved(tmp_path):
    """Found at the save itself if not before: what is kept can always be resumed from."""
    keeper = Stop(tmp_path, None)

    def loss(output, target):
        value = cross_entropy(output, target)
        loss.calls += 1
        return value * (float("nan") if loss.calls == 3 else 1.0)

    loss.calls = 0
    fitted = train(network(0), "tensors", keeper, loss=loss, checkpoint_steps=2)
    assert (fitted.outcome, fitted.outcome_step, keeper.saves) == ("diverged", 3, 1)
    assert keeper.load()["steps"] == 2


def test_a_checkpoint_of_the_earlier_format_is_resumed_from(tmp_path):
    """Kept between two epochs, without the generators, the position or the unfinished row."""

    class Earlier(Stop):
        def save(self, state):
            state = {k: v for k, v in state.items() if k not in ("done", "rate", "ledger", "random")}
            super().save(state)

    whole = network(0)
    truth = train(whole, "tensors")
    with pytest.raises(KeyboardInterrupt):
        train(network(0), "tensors", Earlier(tmp_path, 2))
    resumed = network(7)
    assert train(resumed, "tensors", Stop(tmp_path, None)) == truth
    assert torch.equal(whole[0].weight, resumed[0].weight)
