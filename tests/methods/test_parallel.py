"""Two processes (gloo, float64) train to what one process trains to, batch normalisation over both included."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from relearn.checkpoint import Checkpoint
from relearn.methods import parallel
from relearn.methods.augmentation import compose, crop_and_flip, cutout
from relearn.methods.fit import fit, plain_gradient
from relearn.methods.mixing import mixup


class Net(nn.Module):
    """Batch normalisation over 2-d and 4-d inputs, and one with a cumulative mean and without weights."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.layers = nn.Sequential(
            nn.Conv2d(1, 3, 3),
            nn.BatchNorm2d(3),
            nn.ReLU(),
            nn.BatchNorm2d(3, affine=False, momentum=None),
            nn.Flatten(),
            nn.Linear(48, 6),
            nn.BatchNorm1d(6, track_running_stats=False),
            nn.Tanh(),
            nn.Linear(6, 3),
        ).double()

    def forward(self, x):
        return self.layers(x.double())


class Words(nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.table, self.out = nn.Embedding(9, 4).double(), nn.Linear(4, 9).double()

    def forward(self, source, target):
        return self.out(self.table(source) + self.table(target))


class Sentences:
    """Rows with as many padded tokens as chance wills: a mean over tokens is no mean over rows."""

    batches_per_epoch = 3

    def epoch(self, generator):
        for rows in (5, 3, 4):
            tokens = torch.randint(1, 9, (rows, 6), generator=generator)
            lengths = torch.randint(1, 7, (rows, 1), generator=generator)
            tokens = tokens * (torch.arange(6) < lengths)
            yield (tokens, tokens.flip(0)), tokens


def twice(model, loss, batch):
    """A strategy that goes through the network twice, as adversarial training does; the hooks of DDP would not allow it."""
    value = plain_gradient(model, loss, batch)
    return value + plain_gradient(model, loss, batch)


def images():
    draws = torch.Generator().manual_seed(8)
    pixels = torch.randint(0, 256, (23, 1, 6, 6), generator=draws, dtype=torch.uint8)
    return pixels, torch.randint(0, 3, (23,), generator=draws)


def norm(model):
    return {"norm": float(sum(p.double().norm() for p in model.parameters()))}


def task(name: str, rank: int, folder: Path | None = None):
    """Train; the start of the second process is another one, so that the first one's must reach it."""
    shared = dict(lr=0.05, seed=2, clip_norm=0.5, weight_decay=0.01, check_every=2)
    if name == "words":
        net = Words(seed=rank)
        loss = lambda z, t: cross_entropy(z.flatten(0, 1), t.flatten(), ignore_index=0)  # noqa: E731
        fitted = fit(net, Sentences(), loss=loss, terms=lambda t: (t > 0).sum(), steps=8, **shared)
        return net, fitted
    net, more = Net(seed=rank), {}
    if name == "twice":
        more = dict(gradient=twice)
    if name == "frozen":
        more = dict(training_mode=False)
        net.layers[6] = (
            nn.Identity()
        )  # it has no running statistics: in eval mode each process would take its own
    if name == "diverged":
        more = dict(diverged_above=1.0e-3)
    if name in ("stopped", "resumed"):

        class Keeper(Checkpoint):
            def save(self, state):
                super().save(state)
                assert rank == 0, "only the first process saves"

        limit = dict(steps=7) if name == "stopped" else {}
        more = dict(checkpoint=Keeper(folder), checkpoint_steps=3, schedule_steps=10, **limit)
    fitted = fit(
        net,
        images(),
        loss=cross_entropy,
        epochs=2,
        batch_size=5,
        augment=compose(crop_and_flip(1, True), cutout(2)),
        mix=mixup(1.0, 3),
        optimizer="adam",
        evaluate=norm,
        average=0.9,
        evaluate_average=norm,
        history_steps=4,
        **shared,
        **more,
    )
    return net, fitted


def both(net, fitted) -> dict[str, torch.Tensor]:
    """The trained weights and, where there is one, their average."""
    return {**net.state_dict(), **{f"average/{name}": one for name, one in (fitted.average or {}).items()}}


def worker(names: list[str], out: Path) -> None:
    with parallel.launched("cpu") as device:
        rank, size = parallel.world()
        assert device == "cpu" and size == 2
        for name in names:
            net, fitted = task(name, rank, out / "kept")
            assert not any(isinstance(module, parallel._Synchronised) for module in net.modules())
            torch.save(both(net, fitted), out / f"{name}{rank}.pt")
            (out / f"{name}{rank}.json").write_text(json.dumps({**vars(fitted), "average": None}))
    assert parallel.world() == (0, 1)


def together(names: list[str], out: Path) -> None:
    """Run tasks one after the other in two processes, with the environment that torchrun gives."""
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        port = door.getsockname()[1]
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1", "MASTER_PORT": str(port)}
    command = [sys.executable, "-W", "ignore", __file__, str(out), *names]
    started = [
        subprocess.Popen(
            command,
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [process.communicate(timeout=120)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0, 0], "\n".join(said)


NAMES = ["images", "words", "twice", "frozen", "diverged", "stopped", "resumed"]


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("two")
    together(NAMES, out)
    return out


def ended(two: Path, name: str, rank: int = 0):
    return torch.load(two / f"{name}{rank}.pt", weights_only=True), json.loads(
        (two / f"{name}{rank}.json").read_text()
    )


@pytest.mark.parametrize("name", ["images", "words", "twice", "frozen"])
def test_two_processes_train_to_what_one_trains_to(two, name):
    """Unequal shares (5 = 2 + 3), statistics of batch normalisation and means over tokens included."""
    net, fitted = task(name, 0)
    weights, history = ended(two, name)
    assert history["steps"] == fitted.steps > 7
    assert (fitted.average is None) is (name == "words")
    for key, value in both(net, fitted).items():
        torch.testing.assert_close(weights[key], value, rtol=1e-9, atol=1e-11, msg=key)
    for ours, theirs in zip(history["history"], fitted.history, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_both_processes_end_alike(two, name):
    (first, one), (second, other) = ended(two, name, 0), ended(two, name, 1)
    assert one == other
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_every_process_sees_the_divergence(two):
    for rank in range(2):
        found = ended(two, "diverged", rank)[1]
        assert (found["outcome"], found["outcome_step"], found["steps"]) == ("diverged", 1, 2)


def test_two_processes_resume_together_in_the_middle_of_an_epoch(two):
    """Stopped after step 7, kept after step 6: the second epoch's first batch; both have the bits of the whole run."""
    for rank in range(2):
        (whole, truth), (resumed, found) = ended(two, "images", rank), ended(two, "resumed", rank)
        assert found["history"] == truth["history"] and found["steps"] == truth["steps"] == 10
        assert all(torch.equal(whole[key], resumed[key]) for key in whole)
    assert ended(two, "stopped")[1]["steps"] == 7


def test_the_comparison_can_fail():
    """Negative control: without common statistics, halves of a batch give other gradients than the whole."""
    pixels, labels = images()
    whole, halves = Net(0), Net(0)
    cross_entropy(whole(pixels[:8] / 255.0), labels[:8]).backward()
    for part in (slice(0, 4), slice(4, 8)):
        (cross_entropy(halves(pixels[part] / 255.0), labels[part]) / 2).backward()
    ours, theirs = (net.layers[0].weight.grad for net in (whole, halves))
    assert not torch.allclose(ours, theirs, rtol=1e-3)


@pytest.mark.slow
def test_torchrun_itself_starts_the_processes(tmp_path):
    launcher = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
    ]
    subprocess.run(
        [*launcher, __file__, str(tmp_path), "words"], check=True, capture_output=True, timeout=120
    )
    net, _ = task("words", 0)
    for key, value in net.state_dict().items():
        torch.testing.assert_close(ended(tmp_path, "words")[0][key], value, rtol=1e-9, atol=1e-11)


def test_alone_nothing_is_opened(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with parallel.launched("cpu") as device:
        assert device == "cpu" and parallel.world() == (0, 1)


def test_a_batch_normalisation_of_another_class_is_refused_and_everything_put_back():
    class Special(nn.BatchNorm2d):
        pass

    net = nn.Sequential(nn.BatchNorm2d(3), nn.Sequential(Special(3)))
    message = "1.0: Special in data parallel training, allowed are BatchNorm1d"
    with pytest.raises(ValueError, match=message), parallel.synchronised(net, torch.device("cpu")):
        pass
    assert type(net[0]) is nn.BatchNorm2d
    plain = nn.Sequential(nn.BatchNorm2d(3))
    with pytest.raises(ZeroDivisionError), parallel.synchronised(plain, torch.device("cpu")):
        assert type(plain[0]) is parallel._Synchronised
        raise ZeroDivisionError
    assert type(plain[0]) is nn.BatchNorm2d


if __name__ == "__main__":
    worker(sys.argv[2:], Path(sys.argv[1]))
