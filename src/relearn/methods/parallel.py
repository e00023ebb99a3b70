r"""Data parallel training: ``torchrun`` starts one process per GPU, and each processes its share of every batch.

.. math:: g = \sum_{r} \nabla \left( w_r\, L_r \right), \qquad w_r = n_r / n,

where :math:`L_r` is the mean loss over the :math:`n_r` of all :math:`n` terms in process r's share. The sum equals the gradient of a
single process on the whole batch, for any sizes of the shares. Every process draws the same batch and the same augmentation and uses
its share, so the number of processes only affects rounding (and the dropout masks, which each process draws separately).

**Why torch's process groups without a wrapper.** ``torchrun`` and ``torch.distributed`` are part of torch; accelerate and Fabric would
add a dependency and take over the training loop. ``DistributedDataParallel`` reduces inside *one* backward pass of *one* forward pass,
whereas a gradient strategy here may run several forward and backward passes per step (adversarial training, gradient accumulation),
for which DDP's hooks would fail or reduce incomplete gradients. The gradient is therefore reduced once, when the strategy has
finished, in flat buckets. The price is that communication does not overlap with the backward pass: for a ResNet-50 (100 MB) about a
millisecond between GPUs of one machine.

**Batch normalisation** computes its statistics over all shares while the loop runs (:func:`synchronised`). On an accelerator this is
torch's ``SyncBatchNorm``, which is not available on a CPU; there a differentiable all-reduce of mean and variance replaces it.

A strategy receives the *weighted* loss, so its gradient must be homogeneous in the loss (twice the loss, twice the gradient). An
adversarial strategy perturbs the process's own rows. Its steps depend neither on the weight nor on the other rows. With a start at
zero and without dropout, δ therefore equals that of a single process; random starts and dropout masks differ between processes
(tests/methods/test_parallel.py).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

BUCKET = 2**23
"""Elements of a flat bucket: 32 MiB in fp32."""


def world() -> tuple[int, int]:
    """(rank, number of processes); (0, 1) without a process group."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


@contextlib.contextmanager
def launched(device: str = "cpu") -> Iterator[str]:
    """Context with the process group described by ``torchrun`` in the environment; yields this process's device.

    ``cuda`` becomes ``cuda:<LOCAL_RANK>`` and uses NCCL; every other device uses gloo. Without ``torchrun`` (WORLD_SIZE missing or 1) no
    group is opened and ``device`` is returned unchanged.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        yield device
        return
    kind = torch.device(device).type
    if kind == "cuda":
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(torch.device(device))
    dist.init_process_group("nccl" if kind == "cuda" else "gloo")
    try:
        yield device
    finally:
        dist.destroy_process_group()


def same_start(model: nn.Module) -> None:
    """Copy the first process's parameters and buffers to all processes."""
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            dist.broadcast(tensor, 0)


def from_first(value: Any) -> Any:
    """The first process's value, in every process."""
    box = [value]
    dist.broadcast_object_list(box, 0)
    return box[0]


def gathered(value: Any) -> list[Any]:
    """Every process's value, in order of rank, in every process."""
    values: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def merged(values: dict[str, Any]) -> dict[str, Any]:
    """The dicts of all processes merged into one, in every process."""
    return {key: value for part in gathered(values) for key, value in part.items()}


def add_up(tensor: Tensor) -> Tensor:
    """Sum a tensor over all processes, in place."""
    dist.all_reduce(tensor)
    return tensor


def concatenated(own: Tensor, count: int) -> Tensor:
    """All ``count`` rows of a batch, of which each process has its share (see `relearn.methods.batch_source.share`), in order."""
    size = dist.get_world_size()
    counts = [(rank + 1) * count // size - rank * count // size for rank in range(size)]
    padded = own.new_zeros(max(counts), *own.shape[1:])  # NCCL gathers tensors of equal shapes only
    padded[: len(own)] = own
    parts = [torch.empty_like(padded) for _ in counts]
    dist.all_gather(parts, padded)
    return torch.cat([part[:rows] for part, rows in zip(parts, counts, strict=True)])


def weighted(
    loss: Callable[..., Tensor], own: Tensor | float, whole: Tensor | float
) -> Callable[..., Tensor]:
    """A share's contribution to the batch's mean loss, if it has ``own`` of the ``whole`` terms."""
    part = own.double() / whole if isinstance(own, Tensor) else own / whole

    def weighted(output: Any, *rest: Any) -> Tensor:
        value = loss(output, *rest)
        return value * (part.to(value) if isinstance(part, Tensor) else part)

    return weighted


def add_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replace every gradient by its sum over all processes; one all-reduce per bucket of equal dtype.

    A parameter must have a gradient in every process or in none.
    """
    buckets: dict[torch.dtype, list[list[Tensor]]] = {}
    for gradient in (p.grad for p in parameters if p.grad is not None):
        queue = buckets.setdefault(gradient.dtype, [[]])
        if queue[-1] and sum(g.numel() for g in queue[-1]) + gradient.numel() > BUCKET:
            queue.append([])
        queue[-1].append(gradient)
    for bucket in (b for queue in buckets.values() for b in queue):
        flat = add_up(torch.cat([gradient.reshape(-1) for gradient in bucket]))
        for gradient, total in zip(bucket, flat.split([g.numel() for g in bucket]), strict=True):
            gradient.copy_(total.view_as(gradient))


class _Sum(torch.autograd.Function):
    """Differentiable sum over all processes: the gradient of each term is the sum of the gradients that all processes have for
    the sum."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return add_up(tensor.clone())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return add_up(gradients[0].contiguous().clone())


class _Synchronised(nn.modules.batchnorm._BatchNorm):
    """Batch normalisation whose training statistics cover the samples of all processes (CPU)."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:  # as in torch: no synchronisation in eval mode, even without running statistics
            own = self.running_mean is None
            return nn.functional.batch_norm(
                input, self.running_mean, self.running_var, self.weight, self.bias, own, 0.0, self.eps
            )
        given = input.dtype
        input = (
            input.float() if given in (torch.bfloat16, torch.float16) else input
        )  # a count needs more digits
        others = [axis for axis in range(input.dim()) if axis != 1]
        shape = [1, -1, *[1] * (input.dim() - 2)]
        count = add_up(torch.tensor(float(input.numel() // input.shape[1]), dtype=input.dtype))
        mean = _Sum.apply(input.sum(others)) / count
        centred = input - mean.view(shape)
        variance = _Sum.apply((centred * centred).sum(others)) / count
        if self.track_running_stats and self.running_mean is not None and self.running_var is not None:
            with torch.no_grad():
                assert self.num_batches_tracked is not None
                self.num_batches_tracked += 1
                rate = self.momentum if self.momentum is not None else 1.0 / float(self.num_batches_tracked)
                self.running_mean.lerp_(mean.to(self.running_mean), rate)
                self.running_var.lerp_((variance * count / (count - 1)).to(self.running_var), rate)
        result = centred * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            result = result * self.weight.view(shape) + self.bias.view(shape)
        return result.to(given)


@contextlib.contextmanager
def synchronised(model: nn.Module, device: torch.device) -> Iterator[None]:
    """Context in which the model's batch normalisations use statistics over all processes.

    Only the class of a module is changed and restored; parameters, buffers, their names and the optimiser's references do not change.

    Raises:
        ValueError: a batch normalisation of a custom class, because its forward pass is unknown.
    """
    plain = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    found: list[tuple[nn.Module, type]] = []
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            if type(module) is nn.SyncBatchNorm:
                continue
            if type(module) not in plain:
                allowed = "BatchNorm1d, BatchNorm2d, BatchNorm3d"
                raise ValueError(
                    f"{name}: {type(module).__name__} in data parallel training, allowed are {allowed}"
                )
            found.append((module, type(module)))
    try:
        for module, _ in found:
            if device.type == "cpu":
                module.__class__ = _Synchronised
            else:
                module.__class__ = nn.SyncBatchNorm
                module.process_group = None  # type: ignore[assignment]
        yield
    finally:
        for module, kind in found:
            module.__class__ = kind
            module.__dict__.pop("process_group", None)
