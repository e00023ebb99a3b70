"""A run of one step, from settings to a record that is checked; and one that is killed behind a checkpoint."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from relearn import cli
from relearn.runs import checkpoint as checkpoints
from relearn.runs import record
from relearn.runs.settings import read
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
    precision: str = "fp32",
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
        module.run(run, read(module.Settings, settings), given, "cpu", precision)
    done = record.read(out)
    assert record.verify_outputs(done) == []
    return done


def by_command(
    study: str,
    step: str,
    out: Path,
    settings: Mapping[str, Any],
    labels: Mapping[str, str] | None = None,
    *,
    seed: int = 0,
    code: int = 0,
    **inputs: Any,
) -> dict[str, Any]:
    """The record of a step that the command line runs; {} where it has to end with another ``code`` than 0."""
    words = [study, step, "--settings", json.dumps(settings), "--out", str(out)]
    words += ["--device", "cpu", "--seed", str(seed)]
    for key, value in (labels or {}).items():
        words += ["--label", f"{key}={value}"]
    for key, paths in inputs.items():
        words += ["--input", key, *map(str, paths if isinstance(paths, list) else [paths])]
    found = cli.main(words)
    assert found == code, f"{step} ended with {found}"
    return record.read(out) if code == 0 else {}


def check_resumes(
    run: Callable[[], dict[str, Any]],
    out: Path,
    whole: Mapping[str, Any],
    when: Callable[[Any, dict[str, Any]], bool],
    timed: Sequence[str] = ("step_s",),
) -> None:
    """Killed behind a checkpoint and started again, a run goes on from there and ends as ``whole``, bit for bit but for times."""
    with killed(when), pytest.raises((AssertionError, KeyboardInterrupt)):
        run()
    assert not (out / "record.json").exists()
    with loaded() as seen:
        done = run()
    assert any(state is not None for state in seen) and any("resumed" in note for note in done["notes"])
    times = dict.fromkeys(timed, 0)
    assert {**done["metrics"], **times} == {**whole["metrics"], **times}
    assert done["outputs"] == whole["outputs"]


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


class Runs:
    """Runs of a study's steps in this process; ``root / name`` is a run's folder."""

    study: str
    steps: Mapping[str, str]

    def __init__(self, root: Path) -> None:
        self.root = root / "results/mini/runs"

    def step(
        self,
        step: str,
        name: str,
        settings: Mapping[str, Any],
        labels: Mapping[str, str],
        seed: int = 0,
        **inputs: Path,
    ) -> dict[str, Any]:
        given = {key: [path] for key, path in inputs.items()}
        more = {"study": self.study, "step": step, "seed": seed}
        return made_by(import_module(self.steps[step]), self.root / name, settings, labels, given, **more)

    def rows(self, name: str, file: str = "history.csv") -> list[dict[str, str]]:
        return rows_of(self.root / name / file)


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
