"""Result of an initialisation method, and the contract shared by all of them.

Every method listed in the registry ``INITIALISATIONS`` is a function

    f(model, loss, batches, *, seed=0, <its own settings>) -> Initialised

that changes the parameters of ``model`` in place and nothing else: buffers (running statistics), train or eval mode,
``requires_grad``, ``grad`` and torch's global random state are left unchanged. Random numbers come from a generator seeded by
``seed``. ``batches`` is an iterable of batches on the model's device, already augmented; a method that needs no data ignores it
(``None`` is allowed). Methods that draw new weights draw those of frozen layers, too. A batch is a sequence: its first item is
the model's input (a tensor, or a tuple of tensors: ``model(*input)``), the rest goes to the loss, ``loss(output, *rest)`` →
scalar mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Initialised:
    """Result of an initialisation.

    Attributes:
        scales: factor by parameter name, new weight = factor * old weight; empty for a method that draws new weights.
        history: one dict per iteration; the keys depend on the method.
        skipped: names of parameters that scaling cannot change because their norm is zero.
        outcome: ``ok`` or ``diverged`` (a number that is not finite); divergence is a result, not an exception.
        outcome_step: the iteration of the divergence, counted from 1.
        outcome_reason: one line.
    """

    scales: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, float | str]] = field(default_factory=list)
    skipped: tuple[str, ...] = ()
    outcome: str = "ok"
    outcome_step: int | None = None
    outcome_reason: str | None = None
