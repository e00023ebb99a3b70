r"""Admin: scale each skip connection by the standard deviation of everything added to the stream before it.

Liu, Liu, Gao, Chen, Han, "Understanding the Difficulty of Training Transformers" (2020); re-implemented by zhu2022, section 4.3.2.

In a Post-LN network :math:`x_{i+1} = \mathrm{LN}(w_i \odot x_i + f_i(x_i))`, i = 1 ... n, the normalisation gives every branch a
stream of unit variance. With :math:`w_i = 1` the output therefore depends mostly on the last branches, at any depth, and small changes of
all weights add up to a large change of the output. Without the normalisations, the stream would have accumulated the variance

.. math:: \mathrm{Var}[x_1] + \sum_{j<i} \mathrm{Var}[f_j(x_j)]

before branch i (the terms are nearly uncorrelated at initialisation). Admin restores this weight of the earlier layers:

.. math:: w_1 = 1, \qquad w_i = \sqrt{\mathrm{Var}[x_1] + \textstyle\sum_{j<i} \mathrm{Var}[f_j(x_j)]} \quad (i \ge 2)

because :math:`x_1`, the sum of embeddings and positions, is not normalised and keeps its own variance, and every later :math:`x_i` has
variance 1. The variances are measured (*profiled*) with w = 1.

Differs from the published description, which leaves the stream's first variance unspecified: it is measured here like the others. The
profile is taken without dropout, as for the other initialisations, and padding is excluded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from relearn.maths.eval_mode import eval_mode
from relearn.methods.initialised import Initialised

PAD = 0


@torch.no_grad()
def admin(
    model: nn.Module,
    loss: Any,
    batches: Iterable[Sequence[Any]],
    *,
    seed: int = 0,
    fixed: bool = False,
    count: int = 1,
) -> Initialised:
    """Set every ``w_skip`` of ``model`` in place; nothing else changes, and no random number is drawn.

    Args:
        model: with ``residual_stacks()``: streams as lists of joints, each called as ``joint(x, branch)`` and with a parameter
            ``w_skip`` (d,), such as :class:`relearn.models.post_ln_transformer.PostLNTransformer` with ``residual="w_skip"``.
        loss: not used.
        batches: ``((source, target_in), target_out)``, token ids padded with 0; the streams are ``encoder`` and ``decoder``.
        seed: not used.
        fixed: freeze the skips afterwards (``requires_grad`` off, which the model's file keeps): the network that zhu2022 finds
            untrainable without warm-up. This is the only exception to the contract of the initialisations.
        count: number of batches in the profile; the variances are means over them.

    Returns:
        ``scales``: w of every skip by parameter name. ``history``: one row per joint: ``step``, ``stack``, ``branch_variance``,
        ``stream_variance`` (before the joint, as the formula counts it), ``w_skip``. ``outcome`` is ``diverged`` if a variance is not
        finite; then all w are 1.

    Raises:
        ValueError: a model without such skips, ``count`` below 1, or fewer batches than that.
    """
    if count < 1:
        raise ValueError(f"count: {count} (allowed: at least 1)")
    stacks = _stacks(model)
    for joint in (joint for joints in stacks.values() for joint in joints):
        joint.w_skip.fill_(1.0)
        joint.w_skip.requires_grad_(joint.w_skip.requires_grad and not fixed)
    variances = _profile(model, stacks, iter(batches), count)
    done = Initialised()
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    for stack, joints in stacks.items():
        first, *branches = variances[stack]
        stream = first
        for index, (joint, branch) in enumerate(zip(joints, branches, strict=True)):
            w = math.sqrt(stream) if index else 1.0
            done.scales[names[id(joint.w_skip)]] = w
            row = {"branch_variance": branch, "stream_variance": stream, "w_skip": w}
            done.history.append({"step": len(done.history) + 1.0, "stack": stack, **row})
            stream += branch
    numbers = ("branch_variance", "stream_variance")
    lost = (row for row in done.history if not all(math.isfinite(float(row[name])) for name in numbers))
    if (bad := next(lost, None)) is not None:
        done.outcome, done.outcome_step = "diverged", int(bad["step"])
        done.outcome_reason = f"the {bad['stack']}'s stream has a variance that is not finite"
        return done
    for joints in stacks.values():
        for joint in joints:
            joint.w_skip.fill_(done.scales[names[id(joint.w_skip)]])
    return done


def _stacks(model: nn.Module) -> dict[str, list[Any]]:
    streams: Any = getattr(model, "residual_stacks", dict)
    stacks: dict[str, list[Any]] = streams()
    if not stacks or not all(hasattr(joint, "w_skip") for joints in stacks.values() for joint in joints):
        raise ValueError(
            f"admin: {type(model).__name__} has no w_skip on its skips (allowed: a network built with residual 'w_skip')"
        )
    return stacks


def _profile(
    model: nn.Module, stacks: dict[str, list[Any]], batches: Iterator[Sequence[Any]], count: int
) -> dict[str, list[float]]:
    """For each stream, Var[x_1], then Var[f_i(x_i)] of each branch; float64 means over ``count`` batches."""
    sums = {name: [0.0] * (len(joints) + 1) for name, joints in stacks.items()}
    seen: dict[str, Tensor] = {}  # mask of the non-padding tokens, (B, length)

    def listen(name: str, index: int) -> Any:
        def note(_: nn.Module, arguments: tuple[Tensor, Tensor]) -> None:
            x, branch = arguments
            there = seen[name]
            sums[name][index + 1] += _variance(branch[there])
            if index == 0:
                sums[name][0] += _variance(x[there])

        return note

    hooks = [
        joint.register_forward_pre_hook(listen(name, index))
        for name, joints in stacks.items()
        for index, joint in enumerate(joints)
    ]
    try:
        with eval_mode(model):
            for taken in range(count):
                batch = next(batches, None)
                if batch is None:
                    raise ValueError(f"batches: {taken} of them (allowed: at least count = {count})")
                source, target = batch[0]
                seen |= {"encoder": source != PAD, "decoder": target != PAD}
                model(source, target)
    finally:
        for hook in hooks:
            hook.remove()
    return {name: [value / count for value in values] for name, values in sums.items()}


def _variance(x: Tensor) -> float:
    return float(x.double().var(correction=0))
