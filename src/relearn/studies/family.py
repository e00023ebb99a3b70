"""The runs of one step of a study as plain Python objects, used by the workflow rules, `relearn jobs` and the tests.

A plan does not import torch, so planning thousands of jobs takes only seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

Cell = Mapping[str, str]
Answer = Callable[..., Any]  # called with a cell's labels as keyword arguments


@dataclass(frozen=True, kw_only=True)
class Needs:
    """Resource requirements of a job.

    Args:
        mem_mb: main memory, MB.
        minutes: maximum run time.
        gpu: number of GPUs that the job can use.
        threads: CPU threads.
    """

    mem_mb: int
    minutes: int
    gpu: int = 1
    threads: int = 1


@dataclass(frozen=True, kw_only=True)
class Family:
    """All runs of one step of a study: one run per grid cell and seed.

    Args:
        study: the name of the study.
        step: the step's command, as in ``relearn <study> <step>``.
        scale: the scale of the runs.
        folder: folder pattern below ``results/<scale>/runs/<study>/<step>/``, with labels in braces and without the seed.
        cells: the grid; each cell assigns a value (text) to every label of ``folder``.
        needs: resource requirements of one job.
        outputs: name to file name; ``record`` is added.
        inputs: name to path, list of paths, or a function of the cell (and ``seed``) that returns one of these.
            An empty list omits the input.
        settings: the step's settings, or a function of the cell.
        modules: dotted names of modules that the step loads by name and that affect its results, or a function of the cell.
        labels: labels of the record that are not in ``folder``: text, or a function of the cell.
        seeds: the seeds of every cell; None for runs without a seed.
        cell_seeds: a function of the cell that returns its seeds, if they differ between cells; None: ``seeds`` for all cells.
        constraints: regular expressions for labels where the default (no slash) is not strict enough.
    """

    study: str
    step: str
    scale: str
    folder: str
    cells: Sequence[Cell]
    needs: Needs
    settings: Mapping[str, Any] | Answer
    outputs: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, str | Sequence[str] | Answer] = field(default_factory=dict)
    modules: Sequence[str] | Answer = ()
    labels: Mapping[str, str | Answer] = field(default_factory=dict)
    seeds: Sequence[int] | None = None
    cell_seeds: Answer | None = None
    constraints: Mapping[str, str] = field(default_factory=dict)

    @property
    def pattern(self) -> str:
        """Folder pattern of a run, with its labels and the seed in braces."""
        below = f"{self.step}/{self.folder}" if self.folder else self.step
        return f"results/{self.scale}/runs/{self.study}/{below}" + (
            "" if self.seeds is None else "/seed{seed}"
        )

    @property
    def log(self) -> str:
        """Path pattern of a run's log file."""
        return self.pattern.replace("/runs/", "/logs/", 1) + ".log"

    @property
    def files(self) -> dict[str, str]:
        """Path patterns of all files that a run writes, by name; the record comes first."""
        return {
            "record": f"{self.pattern}/record.json",
            **{name: f"{self.pattern}/{file}" for name, file in self.outputs.items()},
        }

    @cached_property
    def runs(self) -> list[dict[str, str]]:
        """Labels and seed of every run, without duplicates."""
        found = {}
        for cell in self.cells:
            for seed in self._seeds(cell):
                run = {**cell, **seed}
                found[tuple(sorted(run.items()))] = run
        return list(found.values())

    def _seeds(self, cell: Cell) -> list[dict[str, str]]:
        if self.seeds is None:
            return [{}]
        seeds = self.cell_seeds(**cell) if self.cell_seeds else self.seeds
        return [{"seed": str(seed)} for seed in seeds]

    def paths(self, name: str = "record", **labels: Any) -> list[str]:
        """Paths of the output ``name`` of all runs whose labels match ``labels``."""
        wanted = {key: str(value) for key, value in labels.items()}
        return [self.files[name].format(**run) for run in self.runs if wanted.items() <= run.items()]

    def path(self, name: str = "record", **labels: Any) -> str:
        """Path of the output ``name`` of one run; the run need not be in the grid."""
        return self.files[name].format(**labels)

    def everything(self) -> Iterator[str]:
        """Paths of all files of all runs."""
        for run in self.runs:
            for pattern in self.files.values():
                yield pattern.format(**run)

    def settings_of(self, **cell: str) -> Mapping[str, Any]:
        return _answer(self.settings, cell)

    def modules_of(self, **cell: str) -> Iterable[str]:
        return _answer(self.modules, cell)

    def inputs_of(self, *, seed: str | None = None, **cell: str) -> dict[str, list[str]]:
        """Input paths of one run by name; inputs without paths are omitted."""
        known = cell if seed is None else {**cell, "seed": seed}
        found = {name: self._paths(value, known) for name, value in self.inputs.items()}
        return {name: paths for name, paths in found.items() if paths}

    def labels_of(self, **cell: str) -> dict[str, str]:
        """The labels of the record: the folder's labels, then those of ``labels``."""
        return {**cell, **{name: str(_answer(value, cell)) for name, value in self.labels.items()}}

    @staticmethod
    def _paths(value: str | Sequence[str] | Answer, cell: Cell) -> list[str]:
        found = _answer(value, cell)
        return [path.format(**cell) for path in ([found] if isinstance(found, str) else found)]


def _answer(value: Any, cell: Cell) -> Any:
    return value(**cell) if callable(value) else value
