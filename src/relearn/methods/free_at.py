r"""FreeAT, "free" adversarial training: every batch is replayed K times; each pass updates both the parameters and δ.

Shafahi et al. 2019 (arXiv 1904.12843, algorithm 1), as zhu2022, section 3.3 describes it:

.. math::
    \theta_{t+1} = \theta_t - \tau\, \nabla_\theta L(f_{\theta_t}(X + \delta_t), y), \qquad
    \delta_{t+1} = \Pi\big(\delta_t + \alpha\, g_t / \|g_t\|\big), \quad g_t = \nabla_\delta L(f_{\theta_t}(X + \delta_t), y)

=======  ============================================  =============================================
symbol   meaning                                       code
=======  ============================================  =============================================
K        replays of a batch                            ``passes``, and ``times`` of :class:`Replayed`
α, ε, m  as in :mod:`relearn.methods.perturbation`     ``step_size`` …
=======  ============================================  =============================================

Each step is one pass, so the network takes K times more steps than with the other methods at the same cost. The strategy counts its
calls and must receive every batch K times in a row; :class:`Replayed` ensures this. Its state (δ, the replay, the random state of the
masks) is saved in the loop's checkpoint.

Differs from Shafahi et al. in one point: they carry δ over from batch to batch, which needs batches of equal shape; here δ is
re-initialised for each batch, as in the other methods. With ``reuse_masks`` the replays of a batch use the dropout masks of its
first pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from relearn.methods.adversarial_base import AdversarialBase, Field, require_positive_int
from relearn.methods.augmentation import Augment
from relearn.methods.batch_source import Batch, pixels
from relearn.methods.fit import Loss, Source, plain_gradient
from relearn.methods.fit_arguments import scalar_loss


class Replayed:
    """A source that yields every batch ``times`` times in a row.

    Args:
        source: source of the batches.
        times: K; schedules counted in epochs become K times longer.
        augment: image augmentation, applied once for all replays of a batch; the loop's own augmentation would differ between replays.

    Raises:
        ValueError: ``times`` below 1.
    """

    def __init__(self, source: Source, times: int, augment: Augment | None = None) -> None:
        require_positive_int("times", times)
        self.source, self.times, self.augment = source, times, augment
        self.batches_per_epoch = source.batches_per_epoch * times

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """Batches of one epoch. Augmentation uses its own generator, because a source may draw ahead of it."""
        draws = torch.Generator().manual_seed(generator.initial_seed() ^ 0x5EED)
        for batch in self.source.epoch(generator):
            if self.augment:
                batch = pixels(batch, batch[0].device)
                batch[0] = self.augment(batch[0], draws)
            for _ in range(self.times):
                yield list(batch)


@dataclass
class FreeAT(AdversarialBase):
    """A gradient strategy for :func:`relearn.methods.fit.fit` over a :class:`Replayed` source.

    Args:
        passes: K, the source's ``times``.

    Further arguments and errors: :class:`~relearn.methods.adversarial_base.AdversarialBase`.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._replay = 0
        self._delta: Tensor | None = None
        self._random: dict[str, Tensor] = {}

    def __call__(self, model: nn.Module, loss: Loss, batch: Sequence[Any]) -> Tensor:
        """Write the gradient of this replay to the parameters; returns its loss."""
        if self.ball.is_point:
            return plain_gradient(model, loss, batch)
        with self.space.inside(model, batch) as field:
            delta = self._placed(field)
            kept = self._before()
            value = scalar_loss(loss(field.output(delta), *batch[1:]))
            value.backward()
            if kept is not None:
                _set_states(kept)
            gradient = field.gradient()
            field.finish()
            self._replay = (self._replay + 1) % self.passes
            self._delta = self.ascend(field, delta, gradient) if self._replay else None
        return value.detach()

    def state_dict(self) -> dict[str, Any]:
        """The number of skipped steps, the replay, δ and the random state of the masks."""
        state = super().state_dict() | {"replay": self._replay}
        if self._delta is not None:
            state["delta"] = self._delta
            state |= {f"random/{name}": value for name, value in self._random.items()}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state from :meth:`state_dict`; an empty mapping resets the strategy for a new batch."""
        super().load_state_dict(state)
        self._replay = int(state.get("replay", 0))
        self._delta = state.get("delta")
        prefix = "random/"
        self._random = {
            key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)
        }

    def _placed(self, field: Field) -> Tensor:
        """δ of this replay: the previous one, or a new start (also when a resumed run splits the batch among a different number
        of processes)."""
        if self._replay and self._delta is not None:
            if tuple(self._delta.shape) != field.shape:
                found = f"a batch of {field.shape} after one of {tuple(self._delta.shape)}"
                allowed = f"each batch {self.passes} times in a row, see Replayed"
                raise ValueError(f"data: found {found} in replay {self._replay + 1} (allowed: {allowed})")
            return self._delta.to(field.device)
        self._random = {}
        return self.start(field)

    def _before(self) -> dict[str, Tensor] | None:
        """Record the random state before the first replay's pass, or reset to it; returns the state to restore afterwards."""
        if not self.reuse_masks:
            return None
        now = _states()
        if not self._random:
            self._random = now
            return None
        _set_states(self._random)
        return now


def _states() -> dict[str, Tensor]:
    found = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found["cuda"] = torch.cuda.get_rng_state()
    return found


def _set_states(states: Mapping[str, Tensor]) -> None:
    torch.set_rng_state(states["cpu"].cpu())
    if "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"].cpu())
