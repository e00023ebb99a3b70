"""A run of one step, from settings to a record that is checked; and one that is killed behind a checkpoint."""

import csv
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from relearn.runs import checkpoint as checkpoints
from relearn.runs import record
from relearn.studies.study import load as study_named


def made_by(
    module: Any,
    out: Path,
    settings: Mapping[str, Any],
    labels: Mapping[str, str] | None = None,
    inputs: Mapping[str, list[Path]] | None = None,
    *,
    study: str,
    step: str = "",
    seed: int = 0,
    scale: str = "mini",
) -> dict[str, Any]:
    """The record in ``out`` of this module's step, whose name is the module's where none is given."""
    given = dict(inputs or {})
    named = {
        "study": study,
        "paper": study_named(study).paper,
        "step": step or module.__name__.rpartition(".")[2],
    }
    with record.Run(
        out, **named, labels=labels or {}, scale=scale, seed=seed, settings=settings, inputs=given
    ) as run:
        module.run(run, dict(settings), given, "cpu", "fp32")
    done = record.read(out)
    assert record.verify_outputs(done) == []
    return done


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@contextmanager
def killed(when: Callable[[Any, dict[str, Any]], bool] = lambda checkpoint, state: True) -> Iterator[None]:
    """A job in this context is interrupted behind the first checkpoint for which ``when(checkpoint, state)`` holds."""
    save, dead = checkpoints.Checkpoint.save, False

    def dying(self: Any, state: dict[str, Any]) -> None:
        nonlocal dead
        save(self, state)
        if when(self, state):
            dead = True
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(checkpoints.Checkpoint, "save", dying)
        yield
    assert dead, "no such checkpoint was saved"


@contextmanager
def loaded() -> Iterator[list[dict[str, Any]]]:
    """The states that jobs in this context take from their checkpoints."""
    load, seen = checkpoints.Checkpoint.load, list[Any]()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(checkpoints.Checkpoint, "load", lambda self: seen.append(load(self)) or seen[-1])
        yield seen
