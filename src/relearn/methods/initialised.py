"""What an initialisation method returns, and what all of them promise.

Every method that the registry ``INITIALISATIONS`` lists is a function

    f(model, loss, batches, *, seed=0, <its own settings>) -> Initialised

that changes the parameters of ``model`` in place and nothing else: buffers (running statistics), the train or
eval mode, ``requires_grad``, ``grad`` and torch's global random state are left as they were found; what is
random is drawn from a generator seeded by ``seed``. ``batches`` is an iterator of batches on the model's
device, already augmented; a method that needs no data does not touch it (``None`` will do). A batch is a
sequence: its first member is the model's input (a tensor, or a tuple of tensors: ``model(*input)``), the rest
goes to the loss, ``loss(output, *rest)`` → scalar mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Initialised:
    """How an initialisation ended.

    Attributes:
        scales: factor by parameter name, new weight = factor * old weight; empty for a method that draws anew.
        history: one dict an iteration; which keys, the method says.
        skipped: names of parameters that a scale cannot move, for their norm is zero.
        outcome: ``ok`` or ``diverged`` (a number that is not finite); divergence is a result, no exception.
        outcome_step: the iteration of the divergence, counted from 1.
        outcome_reason: one line.
    """

    scales: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, float | str]] = field(default_factory=list)
    skipped: tuple[str, ...] = ()
    outcome: str = "ok"
    outcome_step: int | None = None
    outcome_reason: str | None = None
