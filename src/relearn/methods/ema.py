r"""Exponential moving average of the weights during training.

.. math:: \bar w_0 = w_0, \qquad \bar w_t = d_t\, \bar w_{t-1} + (1 - d_t)\, w_t, \qquad d_t = \min\Big(d, \frac{1 + t}{10 + t}\Big),

where :math:`w_t` are the weights after step t. Table 6 of qi2023 gives d = 0.99984 and no further details.

The **warm-up** of the decay is that of TensorFlow's ``ExponentialMovingAverage`` with ``num_updates``: until d is reached
(d = 0.99984 after 56,240 steps), the average covers about the last ninth of the steps taken. timm's ``ModelEma``, which is usually
used with such recipes, has no warm-up by default: after fewer than 1/(1 - d) = 6,250 steps its average is still dominated by the
initial weights. After some 100,000 steps the two agree.

**Buffers**: running means and variances of normalisation layers are averaged like weights, as in timm. Every other buffer (counters,
masks with infinities, unit vectors of a power iteration, the matrices of a head) is copied from the trained network.

Weights in half precision are averaged in single precision: in bfloat16 an update of size 1 - d would be rounded away.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

RUNNING = ("running_mean", "running_var")


class EMA:
    """The moving average of ``model``'s weights, initialised with their current values.

    It keeps references to the model's parameters and running statistics, which must stay the same tensors. Convert the model (dtype,
    device, memory format) first.

    Args:
        decay: d, below 1; 0 gives the trained weights themselves.

    Raises:
        ValueError: ``decay`` outside [0, 1).
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"average: found {decay}, allowed is 0 to 1, 1 excluded, or none at all")
        self.decay = decay
        names = {name for name, _ in model.named_parameters(remove_duplicate=False)}
        for prefix, module in model.named_modules(remove_duplicate=False):
            if isinstance(module, nn.modules.batchnorm._NormBase):
                names |= {f"{prefix}.{name}" if prefix else name for name in RUNNING}
        self.live: dict[str, Tensor] = {
            name: tensor
            for name, tensor in model.state_dict(keep_vars=True).items()
            if name in names and tensor.is_floating_point()
        }
        self.mean = {
            name: tensor.detach().to(_wide(tensor.dtype), copy=True) for name, tensor in self.live.items()
        }

    def update(self, step: int) -> None:
        """Add the weights after ``step`` steps (1 is the first) to the average, without synchronising with the device."""
        decay = min(self.decay, (1.0 + step) / (10.0 + step))
        current = [self.live[name].detach().to(mean.dtype) for name, mean in self.mean.items()]
        get_ema_multi_avg_fn(decay)(list(self.mean.values()), current, 0)

    def state_dict(self, model: nn.Module) -> dict[str, Tensor]:
        """``model``'s state dict with the averaged values substituted; copies in the dtypes of ``model``."""
        return {
            name: self.mean.get(name, tensor).detach().to(tensor.dtype, copy=True)
            for name, tensor in model.state_dict().items()
        }

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Context in which the model holds the averaged weights; its own are restored bit for bit on exit, even after an error."""
        own = {name: tensor.detach().clone() for name, tensor in self.live.items()}
        try:
            self._give(self.mean)
            yield
        finally:
            self._give(own)

    def _give(self, tensors: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for name, tensor in tensors.items():
                self.live[name].copy_(tensor)

    def capture(self) -> dict[str, Tensor]:
        """The state for a checkpoint."""
        return {f"average/{name}": tensor for name, tensor in self.mean.items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Restore the state from :meth:`capture`.

        Raises:
            ValueError: the checkpoint has no average, or one of different weights.
        """
        kept = {key.removeprefix("average/") for key in state if key.startswith("average/")}
        if odd := kept ^ set(self.mean):
            found = f"found an average of {len(kept)} tensors, allowed is one of {len(self.mean)}"
            raise ValueError(f"checkpoint: {found} ({min(odd)!r} differs)")
        for name, tensor in self.mean.items():
            tensor.copy_(state[f"average/{name}"])


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
