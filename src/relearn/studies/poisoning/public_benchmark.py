r"""A user's poisons in the public benchmark's protocol (:mod:`relearn.data.public_benchmark`), beside its published numbers.

**Transfer.** A trial trains a new linear layer on frozen features. All S trials of a victim are trained at once, as in
:mod:`relearn.methods.transfer`: their sets differ in a few images, and every step uses the same places of all sets.

.. math:: W_s \leftarrow W_s - \eta\, v_s, \qquad v_s \leftarrow \mu v_s + \nabla_{W_s} \frac1B \sum_{b} \ell(W_s \phi(a(x_{s,b})), y_b)
          + \lambda W_s

==========  =============================================  =======================  ===============
symbol      meaning                                        code                     shape
==========  =============================================  =======================  ===============
x           distinct images of all trials                  ``pool``                 (N, C, H, W)
a           augmentation, drawn anew in each epoch         ``crop_and_flip``
φ(a(x))     features of the victim in eval mode            ``features``             (N, d)
s, b        trial; place in its training set               ``sets[s, b]``           (S, n), into the pool
y           labels, equal at each place in all trials      ``labels``               (n,)
W           heads                                          ``Heads``                (S, 1, 10, d)
μ, λ, η     momentum, weight decay, learning rate          ``Protocol``
==========  =============================================  =======================  ===============

SGD works element by element, so this equals S separate trainings that draw the same order and augmentation. Only that common draw
differs from the repository, which draws anew for each trial. Each attacked set has a control, with its bases in the poisons' places
and the same initial head.

**From scratch.** A new network per trial, trained by :func:`relearn.methods.fit.fit`; controls double the cost and are optional.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relearn.data import public_benchmark as benchmark
from relearn.report import published
from relearn.report.statistics import Interval, clustered_share

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from relearn.data.images import Images

COLUMNS = (
    *("victim", "network", "trial", "target", "base_class"),
    *("predicted", "success", "control_success", "test_accuracy_frac"),
)
Row = dict[str, Any]
Tick = Callable[[int, int], None]


@dataclass(frozen=True)
class Score:
    """Success of one victim over the trials; ``control`` is the share of trials that succeed without poisons, None if not measured."""

    victim: str
    trials: int
    networks: int
    success: Interval
    control: float | None
    test_accuracy_frac: float


class Epochs:
    """Batches of features for the heads of all trials; a source for :func:`relearn.methods.fit.fit`."""

    def __init__(
        self, net: Any, pool: Tensor, sets: Tensor, labels: Tensor, batch_size: int, augment: Any
    ) -> None:
        self.net, self.pool, self.sets, self.labels = net, pool, sets, labels
        self.batch_size, self.augment = batch_size, augment
        self.batches_per_epoch = -(-len(labels) // batch_size)

    def features(self, generator: torch.Generator) -> Tensor:
        import torch

        with torch.no_grad():
            parts = [part.float() / 255.0 for part in self.pool.split(500)]
            return torch.cat([self.net.features(self.augment(part, generator)).float() for part in parts])

    def epoch(self, generator: torch.Generator) -> Iterator[list[Tensor]]:
        import torch

        features = self.features(generator)
        order = torch.randperm(len(self.labels), generator=generator).to(self.labels.device)
        for rows in order.split(self.batch_size):
            x = features[self.sets[:, rows].T]
            yield [x, self.labels[rows], x.new_ones(*x.shape[:2], 1)]


def check_poisons(
    images: NDArray[np.uint8], trials: Sequence[benchmark.Trial], data: Images, protocol: benchmark.Protocol
) -> None:
    """Check number, size and distance of the poisons.

    Raises:
        ValueError: poisons that the benchmark's threat model forbids; the message names the first trial.
    """
    import numpy as np

    wanted = (protocol.poisons, *data.train_images.shape[1:])
    if images.shape[1:] != wanted or not 0 < len(images) <= len(trials):
        raise ValueError(
            f"poisons: found {images.shape}, allowed: (T, {', '.join(map(str, wanted))}) with T up to {len(trials)}"
        )
    for place, (own, trial) in enumerate(zip(images, trials)):
        bases = data.train_images[list(trial.bases)]
        most = int(np.abs(own.astype(np.int16) - bases.astype(np.int16)).max())
        if most > protocol.eps_255:
            raise ValueError(
                f"trial {place}: found a change of {most}/255 of a pixel, allowed: at most {protocol.eps_255:g}/255"
            )


def transfer(
    net: Any,
    images: NDArray[np.uint8],
    trials: Sequence[benchmark.Trial],
    data: Images,
    protocol: benchmark.Protocol,
    *,
    seed: int = 0,
    progress: Tick | None = None,
) -> list[Row]:
    """One row per trial of a victim with frozen features; see the module.

    Args:
        net: a :class:`relearn.models.classifier.Classifier` in eval mode, on its device.
        images: poisons (T, k, C, H, W) of the first T trials.

    Raises:
        ValueError: training diverged.
    """
    import numpy as np
    import torch

    from relearn.measures.embed import embed
    from relearn.methods.augmentation import crop_and_flip
    from relearn.methods.transfer import Heads, weighted_loss

    device = next(net.parameters()).device
    attacked = list(trials[: len(images)])
    rows = np.stack([benchmark.training_rows(one, protocol, data.train_labels) for one in attacked])
    clean, control = np.unique(rows, return_inverse=True)
    sets = control.reshape(rows.shape).copy()
    for t, one in enumerate(attacked):
        first = len(clean) + t * protocol.poisons
        sets[t, benchmark.poison_places(one, protocol)] = np.arange(first, first + protocol.poisons)
    pool = np.concatenate([data.train_images[clean], images.reshape(-1, *images.shape[2:])])
    labels = np.repeat(np.arange(benchmark.CLASSES), protocol.train_count // benchmark.CLASSES)
    source = Epochs(
        net.eval(),
        torch.from_numpy(pool).to(device),
        torch.from_numpy(np.concatenate([sets, control.reshape(rows.shape)])).to(device),
        torch.from_numpy(labels).to(device),
        protocol.batch_size,
        crop_and_flip(benchmark.PADDING, True),
    )
    start = [_new_head(net.head.in_features, seed, t) for t in range(len(attacked))] * 2
    weight = torch.stack([one.weight.detach() for one in start])[:, None]
    bias = torch.stack([one.bias.detach() for one in start])[:, None]
    heads = Heads(weight, bias).to(device)
    _train("the heads", heads, source, protocol, loss=weighted_loss, seed=seed, progress=progress)
    assert data.test_images is not None and data.test_labels is not None
    test = embed(net, torch.from_numpy(np.ascontiguousarray(data.test_images)))
    truth = torch.from_numpy(data.test_labels).to(device)
    found = []
    with torch.no_grad():
        for t, one in enumerate(attacked):
            logits = [test @ heads.weight[s, 0].T + heads.bias[s, 0] for s in (t, len(attacked) + t)]
            guess, without = (int(each[one.target].argmax()) for each in logits)
            right = float((logits[0].argmax(1) == truth).float().mean())
            found.append(_row(t, one, guess, right, without))
    return found


def from_scratch(
    make: Callable[[], nn.Module],
    images: NDArray[np.uint8],
    trials: Sequence[benchmark.Trial],
    data: Images,
    protocol: benchmark.Protocol,
    *,
    controls: bool = False,
    seed: int = 0,
    device: str = "cpu",
    precision: str = "fp32",
    progress: Tick | None = None,
) -> list[Row]:
    """One row per trial of victims that ``make`` builds and that are trained on the whole poisoned set.

    Raises:
        ValueError: training diverged; the message names the trial.
    """
    import numpy as np
    import torch
    from torch.nn.functional import cross_entropy

    from relearn.methods.augmentation import crop_and_flip
    from relearn.methods.end_to_end import predictions

    assert data.test_images is not None and data.test_labels is not None
    test, truth = torch.from_numpy(np.ascontiguousarray(data.test_images)), torch.from_numpy(data.test_labels)
    labels = torch.arange(benchmark.CLASSES).repeat_interleave(protocol.train_count // benchmark.CLASSES)
    runs = len(images) * (2 if controls else 1)
    found: list[Row] = []
    for t, (own, one) in enumerate(zip(images, trials)):
        guesses: list[Tensor] = []
        for place in range(2 if controls else 1):
            pixels = data.train_images[benchmark.training_rows(one, protocol, data.train_labels)].copy()
            if place == 0:
                pixels[benchmark.poison_places(one, protocol)] = own
            torch.manual_seed(seed + t)
            net = make().to(device)
            before = len(found) * (runs // len(images)) + place

            def report(done: int, steps: int, before: int = before) -> None:
                if progress is not None:
                    progress(before * steps + done, runs * steps)

            _train(
                f"trial {t}",
                net,
                (torch.from_numpy(pixels).to(device), labels.to(device)),
                protocol,
                loss=lambda logits, y: cross_entropy(logits.float(), y),
                batch_size=protocol.batch_size,
                augment=crop_and_flip(benchmark.PADDING, True),
                seed=seed + t,
                precision=precision,
                progress=report,
            )
            guesses.append(predictions(net.eval(), test))
        right = float((guesses[0] == truth).float().mean())
        without = int(guesses[1][one.target]) if controls else None
        found.append(_row(t, one, int(guesses[0][one.target]), right, without))
    return found


def _train(what: str, net: nn.Module, data: Any, protocol: benchmark.Protocol, **more: Any) -> None:
    """Train by the protocol's recipe; ``more`` goes to :func:`relearn.methods.fit.fit`.

    Raises:
        ValueError: the training diverged; the message says ``what`` was trained.
    """
    from relearn.methods.fit import fit

    fitted = fit(
        net,
        data,
        optimizer="sgd",
        epochs=protocol.epochs,
        lr=protocol.lr,
        momentum=protocol.momentum,
        weight_decay=protocol.weight_decay,
        schedule="step",
        milestones=protocol.milestones,
        **more,
    )
    if fitted.outcome != "ok":
        raise ValueError(f"{what}: training diverged at step {fitted.outcome_step}")


def scores(rows: Sequence[Row]) -> list[Score]:
    """One score per victim, in the rows' order; a victim of several networks is pooled, and its trials are the clusters."""
    found: list[Score] = []
    for victim in dict.fromkeys(row["victim"] for row in rows):
        own = [row for row in rows if row["victim"] == victim]
        controls = [row["control_success"] for row in own if row["control_success"] is not None]
        found.append(
            Score(
                victim,
                trials=len({row["trial"] for row in own}),
                networks=len({row["network"] for row in own}),
                success=clustered_share([row["success"] for row in own], [row["trial"] for row in own]),
                control=sum(controls) / len(controls) if controls else None,
                test_accuracy_frac=sum(row["test_accuracy_frac"] for row in own) / len(own),
            )
        )
    return found


def published_rows(protocol: benchmark.Protocol) -> Mapping[str, Mapping[str, float]]:
    """Attack → column → published success in %, as printed in the repository's tables."""
    found: dict[str, dict[str, float]] = {}
    for one in published.read(Path(__file__).with_name("reported") / published.FILE):
        if one.artefact == protocol.published and one.value is not None:
            found.setdefault(one.row, {})[one.column] = one.value
    return found


def _row(
    place: int, trial: benchmark.Trial, predicted: int, accuracy: float, without: int | None
) -> dict[str, Any]:
    return {
        "trial": place,
        "target": trial.target,
        "base_class": trial.base_class,
        "predicted": predicted,
        "success": int(predicted == trial.base_class),
        "control_success": None if without is None else int(without == trial.base_class),
        "test_accuracy_frac": accuracy,
    }


def _new_head(width: int, seed: int, trial: int) -> nn.Linear:
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1000 * seed + trial)
        return torch.nn.Linear(width, benchmark.CLASSES)
