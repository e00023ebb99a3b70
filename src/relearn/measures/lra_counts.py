"""Parameters and FLOPs of the Long Range Arena encoders at their published lengths, compared with zhu2022's table 5.1.

Nothing is computed or stored: the tensors of networks and tokens have shapes but no data, so the counts are the same on
every machine and at every scale. One multiply-add is one FLOP, as in the paper (which uses fvcore's counter). Linear maps,
convolutions and every product of two tensors in an attention layer are counted, for one example of full length (two sequences for
retrieval). Norms, softmax, exponentials, additions, sorting and lookups are not counted. fvcore also counts norms, which
explains most of the difference: our counts are from 5.6% below the printed ones to 1.2% above (Nyströmformer).

The lengths are 2,048 for ListOps and 4,096 for the two others, because the released code pads the tasks' 2,000 and 4,000. With 2,000, full
attention would need 1.15 G, but 1.21 is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch._subclasses import FakeTensorMode

from relearn.measures.model_counts import multiply_adds


class Task(NamedTuple):
    """Tokens per sequence, number of classes, and whether an example consists of two sequences."""

    length: int
    classes: int
    pairs: bool = False


TASKS = {"listops": Task(2048, 10), "text": Task(4096, 2), "retrieval": Task(4096, 2, pairs=True)}
VOCABULARY = 512
"""Size of the vocabulary for every task in the released code; the embedding has this many rows and costs no FLOPs."""


class Published(NamedTuple):
    """A row of table 5.1: its name, and per task the printed giga FLOPs and the arguments of the attention."""

    row: str
    giga: tuple[str, str, str]
    arguments: tuple[dict[str, Any], dict[str, Any], dict[str, Any]]


def _alike(**arguments: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    return arguments, arguments, arguments


PUBLISHED: dict[str, Published] = {
    "full": Published("Full Attention [164]", ("1.21", "4.57", "9.14"), _alike()),
    "reformer": Published("Reformer [191] (2)", ("0.27", "0.58", "1.15"), _alike(rounds=2)),
    "linformer": Published("Linformer [180] (k=256)", ("0.41", "0.81", "1.62"), _alike(rank=256)),
    "performer": Published("Performer [188] (r=256)", ("0.41", "0.82", "1.63"), _alike(features=256)),
    "nystromformer": Published("Nystromformer [7] (l=128)", ("0.61", "1.02", "2.03"), _alike(landmarks=128)),
    "long_short": Published("Transformer-LS (w,r=8,32)", ("0.20", "0.40", "0.80"), _alike(window=8, rank=32)),
    "dynamic": Published(
        "Dynamic Projection (best)",
        ("0.15", "0.69", "2.17"),
        ({"window": 0, "rank": 4}, {"window": 0, "rank": 128}, {"window": 0, "rank": 256}),
    ),
    "long_short_best": Published(
        "Transformer-LS (best)",
        ("0.16", "0.29", "2.17"),
        ({"window": 16, "rank": 2}, {"window": 1, "rank": 1}, {"window": 1, "rank": 254}),
    ),
}
"""Kind of attention → its row; the two "best" rows have the sizes of table 5.2."""

COLUMNS = (
    "model",
    "task_or_input",
    "parameters_count",
    "printed_parameters",
    "parameters_agree",
    "flops_count",
    "printed_flops_giga",
    "flops_difference",
    "flops_agree",
    "note",
)
TOLERANCE = 0.1
"""Largest relative difference from the printed FLOPs that counts as agreement (claim ``lra_flops``)."""
NOTE = "one multiply-add is one FLOP; products of linear maps, convolutions and attention; norms are left out"


def lra_counts(
    create: Callable[..., nn.Module], attentions: Iterable[str] = tuple(PUBLISHED)
) -> list[dict[str, Any]]:
    """Return one row (:data:`COLUMNS`) per attention and task; None where nothing is printed (table 5.1 prints no parameters).

    ``flops_difference``: FLOPs divided by the printed ones, minus 1; ``flops_agree``: within :data:`TOLERANCE`.

    Args:
        create: builds the encoder, like :func:`relearn.models.lra_encoder.create`: called with the attention and, by
            keyword, ``vocabulary``, ``classes``, ``max_length``, ``pairs``, ``padding`` (None) and ``attention_arguments``.
        attentions: kinds; those not in :data:`PUBLISHED` use their default arguments.

    Raises:
        ValueError: no attention, or arguments that ``create`` rejects.
    """
    rows = [_row(create, kind, number, task) for kind in attentions for number, task in enumerate(TASKS)]
    if not rows:
        raise ValueError(f"attentions: none given (allowed: at least one, e.g. {', '.join(PUBLISHED)})")
    return rows


def _row(create: Callable[..., nn.Module], kind: str, number: int, name: str) -> dict[str, Any]:
    task, said = TASKS[name], PUBLISHED.get(kind)
    with FakeTensorMode():
        net = create(
            kind,
            vocabulary=VOCABULARY,
            classes=task.classes,
            max_length=task.length,
            pairs=task.pairs,
            padding=None,
            attention_arguments={} if said is None else said.arguments[number],
        )
        shape = (1, 2, task.length) if task.pairs else (1, task.length)
        flops = multiply_adds(net, torch.zeros(shape, dtype=torch.int64))
    giga = None if said is None else float(said.giga[number])
    difference = None if giga is None else flops / (giga * 1e9) - 1
    values = (
        kind,
        name,
        sum(one.numel() for one in net.parameters()),
        None,
        None,
        flops,
        giga,
        difference,
        None if difference is None else abs(difference) <= TOLERANCE,
        NOTE,
    )
    return dict(zip(COLUMNS, values))
