"""Two processes (gloo, float64) train to what one process trains to, batch normalisation over both included.

With adversarial strategies, too: from zero and without dropout the same samples are perturbed alike wherever they are; with dropout each
process replays masks of its own.
"""

import json
import os
import socket
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode

from relearn.measures.virtual_batch import DRAWS, compare
from relearn.methods import parallel
from relearn.methods.augmentation import compose, crop_and_flip, cutout
from relearn.methods.batch_source import Resident
from relearn.methods.fit import fit, plain_gradient
from relearn.methods.free_at import FreeAT, Replayed
from relearn.methods.freelb import FreeLB
from relearn.methods.gradient_accumulation import GradientAccumulation
from relearn.methods.mixing import mixup
from relearn.methods.perturbation import norms
from relearn.methods.pgd_training import PGDTraining
from relearn.methods.pixel_space import PixelSpace
from relearn.methods.yopo import YOPO
from relearn.runs.checkpoint import Checkpoint


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


class Reader(nn.Module):
    """A sentence's words through two blocks that bend, then their mean."""

    def __init__(self, seed: int, dropout: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.words, self.answer = nn.Embedding(20, 5), nn.Linear(5, 3)
        self.layers = nn.ModuleList(
            [nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Dropout(dropout)) for _ in range(2)]
        )
        self.double()

    def forward(self, tokens, real):
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.answer((x * real[..., None]).sum(1) / real.sum(1, keepdim=True))


class Texts:
    """12 padded sentences in another order each epoch, in batches that two processes share evenly, then not."""

    batches_per_epoch = 3

    def epoch(self, generator):
        draws = torch.Generator().manual_seed(4)
        tokens, labels = (
            torch.randint(high, size, generator=draws) for high, size in ((20, (12, 6)), (3, (12,)))
        )
        real = torch.arange(6) < torch.randint(1, 7, (12, 1), generator=draws)
        for rows in torch.randperm(12, generator=generator).split((4, 5, 3)):
            yield (tokens[rows], real[rows]), labels[rows]


BALL = dict(passes=3, step_size=0.3, eps=0.5, start_norm=0.0)
SPACE = BALL | dict(norm="l2", space=PixelSpace())
ADVERSARIAL = {
    "freelb": lambda **more: FreeLB(**BALL | more),
    "freelb_fresh": lambda **more: FreeLB(**BALL | {"reuse_masks": False} | more),
    "pgd": lambda **more: PGDTraining(**BALL | more),
    "free_at": lambda **more: FreeAT(**BALL | more),
    "yopo": lambda **more: YOPO(**BALL | {"inner": 3, "step": "whole"} | more),
    "shares": lambda **more: GradientAccumulation([FreeLB(**BALL | more) for _ in range(2)]),
}
NORMALISED = {  # batch normalisation over both processes in every pass, shallow ones too
    "freelb_images": lambda: FreeLB(**SPACE),
    "pgd_images": lambda: PGDTraining(**SPACE),
    "free_at_images": lambda: FreeAT(**SPACE),
    "yopo_images": lambda: YOPO(**SPACE, inner=2, first="layers.1"),
    "plain_in_shares": lambda: GradientAccumulation([plain_gradient] * 3),
}


class Masks(TorchDispatchMode):
    """Every mask that is drawn, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[torch.Tensor] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func in DRAWS:
            self.found.append(out.clone())
        return out


class Diary:
    """A strategy that writes down each step's masks, and of FreeLB what the virtual batch of this process says."""

    def __init__(self, strategy) -> None:
        self.strategy, self.masks, self.compared, self.deltas = strategy, [], [], []
        if isinstance(strategy, FreeLB):
            strategy.watch = lambda t, delta: self.deltas.append(delta.clone())

    def __call__(self, model, loss, batch):
        if isinstance(self.strategy, FreeLB):
            state, deltas = torch.get_rng_state(), self.deltas
            self.deltas = []
            found = compare(self.strategy, self.deltas, model, loss, batch, model.words)
            self.compared.append([found.difference, found.passes, found.masks, found.reused])
            self.deltas = deltas
            torch.set_rng_state(state)
        with Masks() as drawn:
            value = self.strategy(model, loss, batch)
        self.masks.append(drawn.found)
        return value


def in_shares(model, loss, batch):
    """What two processes do with three shares each, or as many as the smaller one has rows: share i is that of both."""
    count = len(batch[0])
    processes = torch.arange(count).tensor_split([count // 2])
    shares, total = min(3, count // 2), torch.zeros(())
    for place in range(shares):
        own = [rows[place * len(rows) // shares : (place + 1) * len(rows) // shares] for rows in processes]
        rows = torch.cat(own)
        value = loss(model(batch[0][rows]), batch[1][rows]) * len(rows) / count
        value.backward()
        total = total + value.detach()
    return total


def source_of(name: str):
    """Sentences, or images in float64, as δ is then; FreeAT's batches come three times."""
    pixels, labels = images()
    source = Resident((pixels.double() / 255, labels), 5) if name in NORMALISED else Texts()
    return Replayed(source, BALL["passes"]) if name.startswith("free_at") else source


def adversarial(name: str, rank: int, folder: Path | None):
    """Network, history and what else was seen."""
    shared = dict(loss=cross_entropy, lr=0.1, seed=2, clip_norm=0.5, schedule="constant", processes=parallel)
    if name in NORMALISED:
        net, gradient = Net(seed=rank), NORMALISED[name]()
        if name == "plain_in_shares" and parallel.world()[1] == 1:
            gradient = in_shares
        return net, fit(net, source_of(name), steps=8, gradient=gradient, **shared), {}
    kind, _, what = name.partition("/")
    source = source_of(name)
    if not what:
        net, seen, strategy = Reader(seed=rank), [], ADVERSARIAL[kind]()
        if isinstance(strategy, FreeLB):
            strategy.watch = lambda t, delta: seen.append(delta.clone())
        return net, fit(net, source, steps=8, gradient=strategy, **shared), {"deltas": seen}
    net = Reader(seed=rank, dropout=0.4)
    if what == "masks":
        diary = Diary(ADVERSARIAL[kind](start_norm=0.2))
        fitted = fit(net, source, steps=6, gradient=diary, **shared)
        return net, fitted, {"masks": diary.masks, "compared": diary.compared, "deltas": diary.deltas}

    class Lost(Checkpoint):
        def load(self):
            state = super().load()
            replays = {rank: {"replay": own["replay"]} for rank, own in state["strategy"].items()}
            return {**state, "strategy": replays}

    keeper = None if what == "whole" else (Lost if what == "lost" else Checkpoint)(folder / kind)
    steps = 7 if what == "stopped" else 11
    more = dict(checkpoint=keeper, checkpoint_steps=5 if what == "stopped" else 99, checkpoint_every=99)
    return (
        net,
        fit(net, source, steps=steps, gradient=ADVERSARIAL[kind](start_norm=0.2), **shared, **more),
        {},
    )


def task(name: str, rank: int, folder: Path | None = None):
    """Train; the start of the second process is another one, so that the first one's must reach it."""
    shared = dict(lr=0.05, seed=2, clip_norm=0.5, weight_decay=0.01, check_every=2, processes=parallel)
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


def file_of(name: str) -> str:
    return name.replace("/", "-")


def worker(names: list[str], out: Path) -> None:
    with parallel.launched("cpu") as device:
        rank, size = parallel.world()
        assert device == "cpu" and size == 2
        for name in names:
            if name in THREATENED:
                net, fitted, seen = adversarial(name, rank, out / "kept")
                torch.save(seen, out / f"{file_of(name)}{rank}.seen.pt")
            else:
                net, fitted = task(name, rank, out / "kept")
            assert not any(isinstance(module, parallel._Synchronised) for module in net.modules())
            torch.save(both(net, fitted), out / f"{file_of(name)}{rank}.pt")
            (out / f"{file_of(name)}{rank}.json").write_text(json.dumps({**vars(fitted), "average": None}))
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
MASKED = [f"{name}/masks" for name in ("freelb", "freelb_fresh", "pgd", "free_at", "yopo")]
KEPT = [f"free_at/{what}" for what in ("whole", "stopped", "resumed", "lost")]
THREATENED = [*ADVERSARIAL, *NORMALISED, *MASKED, *KEPT]


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("two")
    together([*NAMES, *THREATENED], out)
    return out


def ended(two: Path, name: str, rank: int = 0):
    return torch.load(two / f"{file_of(name)}{rank}.pt", weights_only=True), json.loads(
        (two / f"{file_of(name)}{rank}.json").read_text()
    )


def seen(two: Path, name: str, rank: int) -> dict:
    return torch.load(two / f"{file_of(name)}{rank}.seen.pt", weights_only=True)


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


@pytest.mark.parametrize("name", [*NAMES, *THREATENED])
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


@pytest.mark.parametrize("name", [*ADVERSARIAL, *NORMALISED])
def test_an_adversarial_step_of_two_processes_is_that_of_one(two, name):
    """From zero, without dropout: δ sees neither the batch nor the loss's weight; the control is a step that is not adversarial."""
    net, fitted, _ = adversarial(name, 0, None)
    weights, history = ended(two, name)
    assert history["steps"] == fitted.steps == 8
    for key, value in net.state_dict().items():
        torch.testing.assert_close(weights[key], value, rtol=1e-9, atol=1e-11, msg=key)
    for ours, theirs in zip(history["history"], fitted.history, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-9)
    plain = Net(0) if name in NORMALISED else Reader(0)
    settings = dict(loss=cross_entropy, lr=0.1, seed=2, clip_norm=0.5, schedule="constant", steps=8)
    fit(plain, source_of(name), **settings)
    assert max(float((p.detach() - weights[key]).abs().max()) for key, p in plain.named_parameters()) > 1e-3


@pytest.mark.parametrize("name", ["freelb", "freelb_fresh"])
def test_every_process_perturbs_its_own_samples_as_one_process_does(two, name):
    _, _, alone = adversarial(name, 0, None)
    parts = zip(*(seen(two, name, rank)["deltas"] for rank in range(2)), strict=True)
    for whole, (first, second) in zip(alone["deltas"], parts, strict=True):
        assert abs(len(first) - len(second)) <= 1 and len(first) + len(second) == len(whole) in (3, 4, 5)
        torch.testing.assert_close(torch.cat([first, second]), whole, rtol=1e-9, atol=1e-11)
    assert len(alone["deltas"]) == 8 * 3
    length = norms(alone["deltas"][-1], len(alone["deltas"][-1]))
    torch.testing.assert_close(length, torch.full_like(length, 0.5))  # 2 steps of 0.3, cut: a ball a sample


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(("name", "reused"), [("freelb/masks", True), ("freelb_fresh/masks", False)])
def test_with_dropout_each_process_has_the_gradient_of_its_own_virtual_batch(two, name, reused, rank):
    """Of its rows, δ from a random start, and its masks; weighed as its share."""
    found = seen(two, name, rank)["compared"]
    assert len(found) == 6
    for difference, passes, masks, same in found:
        assert difference < 1e-12 and (passes, masks, same) == (3, 2, reused)


#: (steps that have the same masks, places of each block's masks in the order in which such steps draw them)
DRAWN = {
    "freelb": (1, [[0, 2, 4], [1, 3, 5]]),
    "pgd": (1, [[0, 2, 4], [1, 3, 5]]),
    "free_at": (3, [[0, 2, 4], [1, 3, 5]]),
    "yopo": (1, [[0, 2, 3, 4, 6, 7, 8], [1, 5, 9]]),  # after each whole pass but the last two shallow ones
}


@pytest.mark.parametrize("name", DRAWN)
def test_each_process_replays_its_own_masks(two, name):
    steps, places = DRAWN[name]
    firsts = []
    for rank in range(2):
        found = seen(two, f"{name}/masks", rank)["masks"]
        groups = [[one for step in found[k : k + steps] for one in step] for k in range(0, 6, steps)]
        for masks in groups:
            assert len(masks) == sum(len(one) for one in places)
            for place in places:
                assert all(torch.equal(masks[place[0]], masks[other]) for other in place[1:])
        blocks = [[masks[place[0]] for place in places] for masks in groups]
        assert not any(torch.equal(*pair) for pair in blocks)  # blocks have each their own
        rows = [pair[0][0] for pair in blocks]
        assert not any(torch.equal(one, other) for one, other in pairwise(rows))  # and batches
        firsts.append(rows)
    assert not any(torch.equal(one, other) for one, other in zip(*firsts, strict=True))  # and processes


def test_two_processes_resume_between_the_replays_of_a_batch(two):
    """Kept after step 5 of replays in threes, with δ and masks of each process; without them it is another training."""
    for rank in range(2):
        (whole, truth), (resumed, found) = (
            ended(two, f"free_at/{what}", rank) for what in ("whole", "resumed")
        )
        assert found["history"] == truth["history"] and found["steps"] == truth["steps"] == 11
        assert all(torch.equal(whole[key], resumed[key]) for key in whole)
        lost, _ = ended(two, "free_at/lost", rank)
        assert not torch.equal(whole["words.weight"], lost["words.weight"])


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


def test_a_training_in_a_group_without_processes_is_refused():
    """Otherwise every process would train alone, on the whole batch."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with pytest.raises(
            ValueError, match=r"^processes: found None in a group of 1, allowed: relearn.methods.parallel"
        ):
            fit(Net(0), images(), loss=cross_entropy, epochs=1, batch_size=5, lr=0.1)
    finally:
        dist.destroy_process_group()


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


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_statistics_in_half_precision_are_those_of_single_precision(dtype):
    """A count of 2,997 and a sum over as many numbers have more digits than these types."""
    torch.manual_seed(0)
    images = (3 * torch.randn(37, 3, 9, 9) + 5).to(dtype)
    net = nn.BatchNorm2d(3)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with parallel.synchronised(net, torch.device("cpu")):
            found = net(images)
    finally:
        dist.destroy_process_group()
    wide = images.float()
    expected = nn.functional.batch_norm(wide, None, None, net.weight, net.bias, True)
    assert found.dtype == dtype
    assert (
        float((found - expected).detach().abs().max()) < 0.02
    )  # half a unit in the last place of bfloat16 at 4
    torch.testing.assert_close(net.running_mean, 0.1 * wide.mean((0, 2, 3)), rtol=1e-5, atol=0)
