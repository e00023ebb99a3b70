"""Learning-rate schedules."""

from __future__ import annotations

import math
from collections.abc import Sequence

SCHEDULES = ("cosine", "step", "constant", "linear", "inverse_sqrt")


def learning_rate(
    lr: float,
    schedule: str,
    step: int,
    steps: int,
    milestones: Sequence[float] = (),
    warmup_steps: int = 0,
) -> float:
    r"""Learning rate of optimisation step :math:`t` = ``step`` (0-based) of :math:`T` = ``steps``, of which the first
    :math:`W` = ``warmup_steps`` warm up.

    .. math::

        \eta_t = \eta\,\frac{t + 1}{W} \quad (t < W), \qquad \eta_t = \eta\, s\!\left(\frac{t - W}{T - W}\right) \quad (t \ge W)

    ``cosine``: :math:`s(u) = (1 + \cos \pi u) / 2`. ``linear``: :math:`s(u) = 1 - u`. ``constant``: :math:`s = 1`.
    ``step``: :math:`s = 0.1^{|\{m : m \le t\}|}` with ``milestones`` in steps from the start, warm-up included.
    ``inverse_sqrt``: :math:`\eta_t = \eta \sqrt{W / (t + 1)}` for :math:`t \ge W` and any :math:`T`; no warm-up is treated as
    :math:`W = 1`. See :func:`vaswani_peak` for the form printed in papers.

    The last warm-up step has the full rate; the first has :math:`\eta/W`, not 0, because a rate of 0 would waste a step. Beyond
    :math:`T` the last value is kept; ``inverse_sqrt`` keeps decreasing.

    Raises:
        ValueError: an unknown name, or a negative warm-up.
    """
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule: found {schedule!r}, allowed are {', '.join(SCHEDULES)}")
    if warmup_steps < 0:
        raise ValueError(f"warmup_steps: found {warmup_steps}, allowed is 0 or more")
    if step < warmup_steps:
        return lr * (step + 1) / warmup_steps
    if schedule == "constant":
        return lr
    if schedule == "inverse_sqrt":
        return lr * math.sqrt(max(warmup_steps, 1) / (step + 1))
    if schedule == "step":
        return lr * 0.1 ** sum(step >= milestone for milestone in milestones)
    done, whole = step - warmup_steps, steps - warmup_steps
    if done >= whole:
        return 0.0
    if schedule == "linear":
        return lr * (1.0 - done / whole)
    return lr * (1.0 + math.cos(math.pi * done / whole)) / 2.0


def vaswani_peak(gamma: float, dim: int, warmup_steps: int) -> float:
    r"""The highest rate :math:`\eta = \gamma / \sqrt{D w}` of the schedule

    .. math:: \epsilon_t = \frac{\gamma}{\sqrt D}\,\min\!\left(t^{-1/2},\; t\,w^{-3/2}\right), \qquad t = 1, 2, \dots

    (Vaswani et al. 2017, section 5.3, with :math:`\gamma = 1`; kim2020, appendix I). With that ``lr``, ``schedule="inverse_sqrt"`` and
    ``warmup_steps`` = w, :func:`learning_rate` gives :math:`\epsilon_t` at ``step`` = t - 1: both branches equal :math:`\eta` at t = w,
    where the text of kim2020 omits the factor :math:`\gamma` (docs: errata, K8).

    Raises:
        ValueError: a number that is not positive.
    """
    for key, value in {"gamma": gamma, "dim": dim, "warmup_steps": warmup_steps}.items():
        if not value > 0:
            raise ValueError(f"{key}: found {value}, allowed is more than 0")
    return gamma / math.sqrt(dim * warmup_steps)
