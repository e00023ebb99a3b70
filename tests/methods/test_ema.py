"""The moving average of the weights: against a loop in float64, unseen by training, kept to the bit over an interruption."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from relearn.methods.augmentation import crop_and_flip
from relearn.methods.ema import EMA
from relearn.methods.fit import fit, plain_gradient
from relearn.methods.mixing import mixup_or_cutmix

from .test_fit_resume import Stop

STEPS = 13  # three epochs of five batches, the last one cut


class Network(nn.Module):
    """Batch normalisation, a tied weight, and buffers that no average may touch."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.body = nn.Sequential(
            nn.Conv2d(1, 3, 3, bias=False), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2)
        )
        self.one, self.two = nn.Linear(48, 48), nn.Linear(48, 48)
        self.two.weight = self.one.weight
        self.head = nn.Linear(48, 3)
        self.register_buffer("mask", torch.tensor([0.0, -torch.inf]))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        if self.training:
            self.seen += 1
        return self.head(self.two(self.one(self.body(x.to(self.mask.dtype)))))


def images(count: int = 23):
    generator = torch.Generator().manual_seed(8)
    pixels = torch.randint(0, 256, (count, 1, 6, 6), generator=generator, dtype=torch.uint8)
    return pixels, torch.randint(0, 3, (count,), generator=generator)


def train(net, **more):
    settings = dict(
        loss=cross_entropy, steps=STEPS, schedule_steps=20, lr=0.1, batch_size=5, seed=5, average=0.9
    )
    draws = dict(augment=crop_and_flip(1, True), mix=mixup_or_cutmix(1.0, 1.0, 3))
    return fit(net, images(), **{**settings, **draws, **more})


def states(net, **more):
    """Fit, and the state after every step (the first one is the start)."""
    seen = []

    def watch(model, loss, batch):
        seen.append(copy.deepcopy(model.state_dict()))
        return plain_gradient(model, loss, batch)

    fitted = train(net, gradient=watch, **more)
    return fitted, [*seen, copy.deepcopy(net.state_dict())]


def same(one, two) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)


@pytest.mark.parametrize("decay", [0.0, 0.3, 0.65, 0.9, 0.99984])
def test_the_average_is_that_of_a_slow_loop(decay):
    """w̄ ← d_t w̄ + (1 - d_t) w, d_t = min(d, (1 + t)/(10 + t)): weights and running statistics; everything else is the last state's."""
    net = Network().double()
    fitted, seen = states(net, average=decay)
    assert len(seen) == STEPS + 1
    averaged = [name for name, _ in net.named_parameters(remove_duplicate=False)]
    averaged += ["body.1.running_mean", "body.1.running_var"]
    assert set(net.state_dict()) - set(averaged) == {"body.1.num_batches_tracked", "mask", "seen"}
    assert fitted.average.keys() == net.state_dict().keys()
    for name, found in fitted.average.items():
        if name not in averaged:
            assert torch.equal(found, seen[-1][name]), name
            continue
        truth = seen[0][name]
        for t, state in enumerate(seen[1:], 1):
            d = min(decay, (1 + t) / (10 + t))
            truth = d * truth + (1 - d) * state[name]
        torch.testing.assert_close(found, truth, rtol=1e-12, atol=1e-14, msg=name)
        if decay:
            assert not torch.allclose(found, seen[-1][name], rtol=1e-4), name
    if not decay:
        assert same(fitted.average, net.state_dict())


def test_the_warm_up_ends_at_the_decay_and_forgets_the_start():
    """Constant 1 after a start of 0: the average is 1 - Π d_t, where the product is 10! (t + 1)!/(t + 10)! as long as d_t < d."""
    net = nn.Linear(1, 1, bias=False).double()
    nn.init.zeros_(net.weight)
    mean = EMA(net, 0.95)
    nn.init.ones_(net.weight)
    for t in range(1, 301):
        mean.update(t)
        left = (
            math.factorial(10) / math.prod(range(min(t, 170) + 2, min(t, 170) + 11)) * 0.95 ** max(0, t - 170)
        )
        assert float(mean.mean["weight"]) == pytest.approx(1 - left, abs=1e-13)
        if t == 20:
            assert (
                left < 1e-4 < 0.3 < 0.95**t
            )  # without the warm-up the start would be a third of the average


def test_training_does_not_notice():
    """The weights, the history and the random numbers are those of a run without an average, evaluated or not."""
    plain, with_average = Network(), Network()
    truth = train(plain, average=None, evaluate=lambda model: {"drawn": 0.0})
    found = train(
        with_average,
        average=0.9,
        evaluate=lambda model: {"drawn": 0.0},
        evaluate_average=lambda model: {"drawn": float(torch.rand(()))},
    )
    assert truth.average is None and found.average is not None
    assert same(plain.state_dict(), with_average.state_dict())
    for row, other in zip(truth.history, found.history, strict=True):
        assert row == {key: value for key, value in other.items() if not key.startswith("ema_")}


def test_each_evaluation_sees_its_own_weights():
    trained, averaged = [], []

    def look(where):
        def evaluate(model):
            assert not model.training and not torch.is_grad_enabled()
            where.append(copy.deepcopy(model.state_dict()))
            return {"size": float(model.head.weight.norm())}

        return evaluate

    net = Network()
    fitted = train(net, evaluate=look(trained), evaluate_average=look(averaged), evaluate_every=2)
    assert ["size" in row for row in fitted.history] == [False, True, True]
    assert ["ema_size" in row for row in fitted.history] == [False, True, True]
    assert same(trained[-1], net.state_dict()) and same(averaged[-1], fitted.average)
    assert fitted.history[-1]["ema_size"] == float(fitted.average["head.weight"].norm())
    assert fitted.history[-1]["ema_size"] != fitted.history[-1]["size"]
    loaded = Network(7)
    loaded.load_state_dict(fitted.average)  # a state dict as any other
    assert same(loaded.state_dict(), fitted.average)


def test_the_average_alone_is_evaluated_too():
    history = train(Network(), evaluate_average=lambda model: {"one": 1.0}).history
    assert [row["ema_one"] for row in history] == [1.0] * 3 and "one" not in history[0]


def test_after_an_error_in_the_evaluation_the_weights_are_the_trained_ones():
    nets = [Network(), Network()]
    train(nets[0], average=None, epochs=1)
    with pytest.raises(ZeroDivisionError):
        train(nets[1], epochs=1, evaluate_average=lambda model: {"x": 1 / 0})
    assert same(nets[0].state_dict(), nets[1].state_dict())


def measured(model):
    return {"size": float(model.head.weight.norm())}


def interrupted(folder, after, dtype=torch.float32):
    with pytest.raises(KeyboardInterrupt):
        train(
            Network().to(dtype), checkpoint=Stop(folder, after), checkpoint_steps=1, evaluate_average=measured
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("after", [1, 3, 6, 12])
def test_resumed_in_the_middle_of_an_epoch_bit_for_bit(tmp_path, after, dtype):
    whole, resumed = (
        Network().to(dtype),
        Network(99).to(dtype),
    )  # another start: all must come from the checkpoint
    truth = train(whole, evaluate_average=measured)
    interrupted(tmp_path, after, dtype)
    found = train(resumed, checkpoint=Stop(tmp_path), checkpoint_steps=1, evaluate_average=measured)
    assert found == truth and same(found.average, truth.average)
    assert same(whole.state_dict(), resumed.state_dict())


def test_the_comparison_can_fail(tmp_path):
    """Negative control: a checkpoint whose average is that of the trained weights resumes to another average."""

    class Forgetful(Stop):
        def load(self):
            state = super().load()
            for key in state:
                if key.startswith("average/"):
                    state[key] = state[key.replace("average/", "model/")]
            return state

    truth = train(Network())
    interrupted(tmp_path, 6)
    resumed = Network(99)
    found = train(resumed, checkpoint=Forgetful(tmp_path))
    assert not torch.equal(found.average["head.weight"], truth.average["head.weight"])
    interrupted_without = Stop(tmp_path / "without", 3)
    with pytest.raises(KeyboardInterrupt):
        train(Network(), average=None, checkpoint=interrupted_without, checkpoint_steps=1)
    with pytest.raises(
        ValueError, match=r"^checkpoint: found an average of 0 tensors, allowed is one of 11 \("
    ):
        train(Network(), checkpoint=Stop(tmp_path / "without"))


def test_bfloat16_weights_have_an_average_that_moves():
    """In bfloat16 1 + (1 - d)(2 - 1) rounds to 1 for d = 0.999; the state dict has the network's own dtypes again."""
    net = nn.Linear(1, 1, bias=False).to(torch.bfloat16)
    nn.init.ones_(net.weight)
    mean = EMA(net, 0.999)
    nn.init.constant_(net.weight, 2.0)
    for t in range(10**6, 10**6 + 500):
        mean.update(t)
    assert float(mean.mean["weight"]) == pytest.approx(2 - 0.999**500, rel=1e-4)
    narrow = torch.ones(1, dtype=torch.bfloat16)
    assert float(narrow.lerp(2 * narrow, 0.001)) == 1.0
    assert mean.state_dict(net)["weight"].dtype == torch.bfloat16


def test_channels_last_and_autocast():
    fitted = train(net := Network(), precision="bf16", evaluate_average=measured)
    assert fitted.outcome == "ok" and all(
        t.isfinite().all() for k, t in fitted.average.items() if k != "mask"
    )
    assert net.body[0].weight.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    "change,message",
    [
        (dict(average=1.0), "^average: found 1.0, allowed is 0 to 1, 1 excluded, or none at all$"),
        (dict(average=-0.1), "^average: found -0.1"),
        (dict(average=float("nan")), "^average: found nan"),
        (dict(average=None, evaluate_average=measured), "^evaluate_average: there is no average to evaluate"),
    ],
)
def test_impossible_settings_are_named_before_the_first_step(change, message):
    net = Network()
    start = copy.deepcopy(net.state_dict())
    with pytest.raises(ValueError, match=message):
        train(net, **change)
    assert same(start, net.state_dict())
