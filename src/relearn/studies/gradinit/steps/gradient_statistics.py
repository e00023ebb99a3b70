"""probe: what holds of a network or a layer before any training; one protocol a run (label `protocol`).

`gradient_statistics`: settings task (images | translation) with the settings of that task, batches, and batch_size (images) or
max_tokens (translation); inputs data, network. Size of every parameter tensor, mean and deviation of its gradient over minibatches
(zhu2022, figures 4.1, 4.4 to 4.10). Output: layers.csv. Networks of one label `network` see the same minibatches, whatever their
initialisation, so that before and after can be compared. A gradient that is not finite ends as `diverged`, its cells empty.
`batch_norm`: settings draws; no inputs. Equations 4.5 to 4.7 against autograd. Output: cases.csv.
`parameter_counts`: settings networks (all published ones where left out); no inputs. Tables 4.4 and 4.5. Output: counts.csv.
Columns are those of the measure's `COLUMNS`; truth is 1 or 0, what does not exist is empty.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from relearn.steps.csv_rows import write_rows

NEEDS_TORCH = True


def run(run, settings: dict[str, Any], inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    protocols = {
        "gradient_statistics": _gradient_statistics,
        "batch_norm": _batch_norm,
        "parameter_counts": _parameter_counts,
    }
    if settings["protocol"] not in protocols:
        raise ValueError(f"protocol is {settings['protocol']!r}; allowed: {', '.join(protocols)}")
    protocols[settings["protocol"]](run, settings, inputs, device, precision)


def _gradient_statistics(run, settings, inputs, device, precision) -> None:
    from relearn.measures.gradient_statistics import COLUMNS, gradient_statistics
    from relearn.runs.console import Progress
    from relearn.steps.tasks import open_task
    from relearn.steps.trained.seed import seed_of

    task = open_task(settings, inputs, device)
    model = task.network(inputs["network"][0])
    size = settings["max_tokens" if settings["task"] == "translation" else "batch_size"]
    seed = seed_of(run.labels, run.seed, "protocol", "task", "network")
    count = settings["batches"]
    with Progress("probe") as progress:

        def told() -> Iterator[Sequence[Any]]:
            for number, batch in enumerate(task.batches(seed, size), 1):
                progress(number, count)
                yield batch

        rows = gradient_statistics(model, task.loss, told(), count=count)
    write_rows(run.output("layers.csv"), COLUMNS, rows)
    odd = [row["name"] for row in rows if not math.isfinite(row["gradient_std"])]
    notes = ["gradients in fp32, batch normalisation on the statistics of the batch, no dropout"]
    if precision != "fp32":
        notes.append(f"precision {precision} plays no part here")
    run.finish(
        {**_summary(rows), "batches_count": count},
        outcome="diverged" if odd else "ok",
        outcome_reason=f"the gradient of {odd[0]} and {len(odd) - 1} more is not finite" if odd else None,
        notes=notes,
    )


def _summary(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Totals; means over tensors; how much the deviation shrinks from the first convolution to the last (section 4.3.1.2)."""
    ratios = [row["relative_std"] for row in rows if row["relative_std"] is not None]
    found: dict[str, float] = {
        "tensors_count": len(rows),
        "parameters_count": sum(row["numel"] for row in rows),
        "gradient_std_mean": math.fsum(row["gradient_std"] for row in rows) / len(rows),
    }
    if ratios:
        found["relative_std_mean"] = math.fsum(ratios) / len(ratios)
    convolutions = [row for row in rows if (row["kind"], row["group"]) == ("linear", "conv")]
    if len(convolutions) > 1 and convolutions[-1]["gradient_std"] > 0:
        first, last = convolutions[0], convolutions[-1]
        found["conv_std_first_to_last_ratio"] = first["gradient_std"] / last["gradient_std"]
    return found


def _batch_norm(run, settings, inputs, device, precision) -> None:
    from relearn.measures.batch_norm_gradient import COLUMNS, cases

    rows = cases(draws=settings["draws"], seed=run.seed)
    write_rows(run.output("cases.csv"), COLUMNS, rows)
    run.finish(
        {
            "cases_count": len(rows),
            "holds_count": sum(row["holds"] for row in rows),
            "printed_fails_count": sum(not row["printed_holds"] for row in rows),
            "wrongly_magnified_count": sum(
                row["printed_says_magnified"] and not row["magnified"] for row in rows
            ),
            "formula_error_frac": max(row["formula_error"] for row in rows),
        },
        notes=["float64 on the CPU; a case holds if measured is within 4 standard errors"],
    )


def _parameter_counts(run, settings, inputs, device, precision) -> None:
    from functools import partial

    from relearn.measures.parameter_counts import COLUMNS, PUBLISHED, parameter_counts
    from relearn.models import create

    rows = parameter_counts({name: partial(create, name) for name in settings.get("networks", PUBLISHED)})
    write_rows(run.output("counts.csv"), COLUMNS, rows)
    run.finish(
        {
            "networks_count": len(rows),
            "published_count": sum(row["published_millions"] is not None for row in rows),
            "equal_count": sum(bool(row["equal"]) for row in rows),
            "equal_to_released_count": sum(bool(row["equal_to_released"]) for row in rows),
        },
        notes=["10 classes, RGB images, published width and depth"],
    )
