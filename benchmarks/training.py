"""Overhead of the training loop: `fit` compared with a bare loop that does only what a training step requires.

The bare loop is written by hand: a permutation, an indexed batch, bytes to pixels, forward, backward, SGD with momentum under a
cosine schedule; it does not read the losses. `fit` does the same on the same model, data and batches, and also keeps its history, checks
for divergence and reports progress. On the CPU its convolutions are channels_last; those of the bare loop are contiguous, as torch
makes them. Target: at most 1.05 of the bare loop's CPU time.

The other lines show the cost of options, relative to the same bare loop without them; they have no bound.

With CUDA there is one more line: images per second of `fit` with bf16 and torch.compile, compared with a bare loop that is compiled and
autocast by hand, on resident data. Target: at least 0.9 (a time ratio of at most 1.11).
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import torch
from timing import compare, report
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from relearn.methods.augmentation import compose, crop_and_flip, cutout
from relearn.methods.fit import fit
from relearn.methods.mixing import mixup
from relearn.methods.optimisers import make_optimiser
from relearn.models import create

Data = tuple[Tensor, Tensor]
LR, MOMENTUM, DECAY = 0.1, 0.9, 1.0e-4


def images(count: int, device: str = "cpu") -> Data:
    pixels = torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8)
    return pixels.to(device), torch.randint(0, 10, (count,)).to(device)


class Encoder(nn.Module):
    """torch's own encoder, the mean over its tokens, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(64, 2, 256, dropout=0.1, batch_first=True)
        self.layers, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(x).mean(1))


def bare(model: nn.Module, data: Data, batch: int, steps: int, channels_last: bool = False) -> None:
    """A typical training loop of a paper's repository, without anything around it."""
    layout = torch.channels_last if channels_last else torch.preserve_format
    pixels, labels = data
    optimiser = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM, weight_decay=DECAY)
    model.train()
    done = 0
    while done < steps:
        order = torch.randperm(len(pixels), device=pixels.device)
        for rows in order.split(batch):
            for group in optimiser.param_groups:
                group["lr"] = LR * (1 + math.cos(math.pi * done / steps)) / 2
            optimiser.zero_grad(set_to_none=True)
            x = pixels[rows]
            x = x.float() / 255.0 if x.dtype == torch.uint8 else x
            loss = cross_entropy(model(x.to(memory_format=layout)), labels[rows])
            loss.backward()
            optimiser.step()
            done += 1
            if done == steps:
                break


def bare_cuda(model: nn.Module, compiled: Any, data: Data, batch: int, steps: int) -> None:
    """The bare loop for an accelerator: bf16, channels_last, an already compiled model."""
    pixels, labels = data
    optimiser = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM, weight_decay=DECAY)
    model.train()
    done = 0
    while done < steps:
        order = torch.randperm(len(pixels), device=pixels.device)
        for rows in order.split(batch):
            for group in optimiser.param_groups:
                group["lr"] = LR * (1 + math.cos(math.pi * done / steps)) / 2
            optimiser.zero_grad(set_to_none=True)
            x = (pixels[rows].float() / 255.0).to(memory_format=torch.channels_last)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = cross_entropy(compiled(x).float(), labels[rows])
            loss.backward()
            optimiser.step()
            done += 1
            if done == steps:
                break


def ours(model: nn.Module, data: Data, batch: int, steps: int, **options: Any) -> None:
    settings = dict(steps=steps, batch_size=batch, lr=LR, momentum=MOMENTUM, weight_decay=DECAY)
    count = [0]
    progress = lambda done, whole: count.__setitem__(0, done)  # noqa: E731
    loss = lambda z, y: cross_entropy(z.float(), y)  # noqa: E731
    fit(model, data, loss=loss, progress=progress, **{**settings, **options})


def cuda_row(pairs: int, batch: int, steps: int) -> dict[str, Any]:
    """Time only steps in the middle, because `fit` compiles in every call, whereas the bare loop's model is already compiled."""
    data = images(50_000, "cuda")
    model = create("ResNet18").cuda().to(memory_format=torch.channels_last)
    reference = create("ResNet18").cuda().to(memory_format=torch.channels_last)
    compiled = torch.compile(reference)
    model.compile()  # in place: its parameters keep their names
    clock = {"total": 0.0, "begun": 0.0}
    warm = 100

    def lap(done: int, whole: int) -> None:
        if done in (warm, whole):
            torch.cuda.synchronize()
            now = time.perf_counter()
            if done == warm:
                clock["begun"] = now
            else:
                clock["total"] += now - clock["begun"]

    def timed_fit() -> None:
        loss = lambda z, y: cross_entropy(z.float(), y)  # noqa: E731
        settings = dict(steps=steps + warm, batch_size=batch, lr=LR, momentum=MOMENTUM, weight_decay=DECAY)
        fit(model, data, loss=loss, precision="bf16", progress=lap, **settings)

    def timed_bare() -> None:
        bare_cuda(reference, compiled, data, batch, warm)
        torch.cuda.synchronize()
        begun = time.perf_counter()
        bare_cuda(reference, compiled, data, batch, steps)
        torch.cuda.synchronize()
        clock["total"] += time.perf_counter() - begun

    row = compare(timed_fit, timed_bare, pairs, clock=lambda: clock["total"])
    speed = {
        "images_per_s": steps * batch / row["ours_s"],
        "bare_images_per_s": steps * batch / row["reference_s"],
    }
    return {
        "loop": f"fit / bare, ResNet18, batch {batch}, bf16, compiled, CUDA",
        "wanted_ratio": 1.11,
        **row,
        **speed,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="the training loop against a bare one")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=4, help="training steps a call on the CPU")
    parser.add_argument("--cuda-steps", type=int, default=400)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    rows: list[dict[str, Any]] = []

    def line(
        what: str, call: Callable[[], None], reference: Callable[[], None], wanted: float | None
    ) -> None:
        rows.append({"loop": what, "wanted_ratio": wanted, **compare(call, reference, arguments.pairs)})
        print(rows[-1], flush=True)

    steps = arguments.steps
    for name, batch, width in (
        ("ResNet18", 32, 0.25),
        ("MobileNetV2", 32, 0.5),
        ("ResNeXt29-2x64d", 32, 0.25),
    ):
        data = images(batch * steps)
        mine, theirs = create(name, width=width), create(name, width=width)
        reference = lambda model=theirs, data=data, batch=batch: bare(model, data, batch, steps)  # noqa: E731
        timed_ours = lambda model=mine, data=data, batch=batch: ours(model, data, batch, steps)  # noqa: E731
        line(f"fit / bare, {name} width {width}, batch {batch}", timed_ours, reference, 1.05)

    # The least favourable realistic case: a network so small that the overhead of the loop dominates.
    data = (torch.rand(128 * 60, 64), torch.randint(0, 10, (128 * 60,)))
    mine, theirs = (
        nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
        for _ in range(2)
    )
    line(
        "fit / bare, three linear layers of 512, batch 128",
        lambda: ours(mine, data, 128, 60),
        lambda: bare(theirs, data, 128, 60),
        1.05,
    )

    # On a CPU, fit draws the masks of nn.Dropout with fewer random numbers than torch.
    data = (torch.randn(32 * 40, 32, 64), torch.randint(0, 10, (32 * 40,)))
    mine, theirs = Encoder(), Encoder()
    line(
        "fit / bare, Transformer encoder of two layers of 64 with dropout 0.1, batch 32 of 32 tokens",
        lambda: ours(mine, data, 32, 40),
        lambda: bare(theirs, data, 32, 40),
        1.05,
    )

    data = images(32 * steps)
    mine, theirs = create("ResNet18", width=0.25), create("ResNet18", width=0.25)
    augment = compose(crop_and_flip(4, True), cutout(16))
    options = {
        "crop, flip, cutout": dict(augment=augment),
        "crop, flip, cutout, mixup, clipping": dict(augment=augment, mix=mixup(1.0, 10), clip_norm=1.0),
    }
    for what, option in options.items():
        line(
            f"fit with {what} / bare without",
            lambda option=option: ours(mine, data, 32, steps, **option),  # type: ignore[misc]
            lambda: bare(theirs, data, 32, steps, channels_last=True),  # as cropped images come out
            None,
        )
    for name, usual, settings in (
        ("adamw", torch.optim.AdamW, {"lr": 1e-9}),
        ("sgd", torch.optim.SGD, {"lr": 1e-9, "momentum": MOMENTUM}),
    ):
        deep = nn.Sequential(*(nn.TransformerEncoderLayer(24, 3, 96) for _ in range(24)))
        for parameter in deep.parameters():
            parameter.grad = torch.randn_like(parameter)
        mine, theirs = make_optimiser(deep, name, **settings), usual(deep.parameters(), **settings)
        line(
            f"optimiser / torch's default, {name}, 24 blocks of 24 channels, 20 steps",
            lambda mine=mine: [mine.step() for _ in range(20)],
            lambda theirs=theirs: [theirs.step() for _ in range(20)],
            None,
        )
    if torch.cuda.is_available():
        rows.append(cuda_row(arguments.pairs, 512, arguments.cuda_steps))
        print(rows[-1], flush=True)
    report("training", rows, steps=steps)


if __name__ == "__main__":
    main()
