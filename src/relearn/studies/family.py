"""The runs of one step of a study as plain Python: the rules, `relearn jobs` and the tests all ask it the same questions.

A plan imports no torch, so that planning thousands of jobs stays a matter of seconds.
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
    """What a job asks of its machine.

    Args:
        mem_mb: main memory, MB.
        minutes: longest run time.
        gpu: number of GPUs that it can use.
        threads: CPU threads.
    """

    mem_mb: int
    minutes: int
    gpu: int = 1
    threads: int = 1


@dataclass(frozen=True, kw_only=True)
class Family:
    """All runs of one step of a study: one for each cell of a grid and each seed.

    Args:
        study: the study.
        step: the command behind ``relearn <study>``.
        scale: of the runs.
        folder: pattern below ``results/<scale>/runs/<study>/<step>/``, labels in braces; without the seed.
        cells: the grid; each cell gives a value (text) to every label of ``folder``.
        needs: of one job.
        outputs: name to file name; ``record`` is added.
        inputs: name to path, list of paths, or a function of the cell (and ``seed``) that returns one of these.
            An empty list leaves the input out.
        settings: the step's settings, or a function of the cell.
        modules: what the step loads by name and the numbers depend on, or a function of the cell.
        labels: labels of the record that are not in ``folder``: text, or a function of the cell.
        seeds: of every cell; None for runs without a seed.
        cell_seeds: the seeds of one cell where some cells have fewer, a function of the cell.
        constraints: regular expressions of labels, where the default (no slash) is not enough.
        shared_folder: study whose folder the runs share where several studies use them.
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
        """Folder of a run, its labels and the seed in braces."""
        below = f"{self.step}/{self.folder}" if self.folder else self.step
        return f"results/{self.scale}/runs/{self.study}/{below}" + (
            "" if self.seeds is None else "/seed{seed}"
        )

    @property
    def log(self) -> str:
        """Log file of a run, as a pattern."""
        return self.pattern.replace("/runs/", "/logs/", 1) + ".log"

    @property
    def files(self) -> dict[str, str]:
        """Everything that a run writes, by name, as patterns; the record first."""
        return {
            "record": f"{self.pattern}/record.json",
            **{name: f"{self.pattern}/{file}" for name, file in self.outputs.items()},
        }

    @cached_property
    def runs(self) -> list[dict[str, str]]:
        """Labels and seed of every run, without repetition."""
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
        """The files of this name of all runs that agree with ``labels``."""
        wanted = {key: str(value) for key, value in labels.items()}
        return [self.files[name].format(**run) for run in self.runs if wanted.items() <= run.items()]

    def path(self, name: str = "record", **labels: Any) -> str:
        """The file of this name of one run, in the grid or not."""
        return self.files[name].format(**labels)

    def everything(self) -> Iterator[str]:
        """Every file of every run."""
        for run in self.runs:
            for pattern in self.files.values():
                yield pattern.format(**run)

    def settings_of(self, **cell: str) -> Mapping[str, Any]:
        return _answer(self.settings, cell)

    def modules_of(self, **cell: str) -> Iterable[str]:
        return _answer(self.modules, cell)

    def inputs_of(self, *, seed: str | None = None, **cell: str) -> dict[str, list[str]]:
        """Input paths of one run by name; without those that it does not have."""
        known = cell if seed is None else {**cell, "seed": seed}
        found = {name: self._paths(value, known) for name, value in self.inputs.items()}
        return {name: paths for name, paths in found.items() if paths}

    def labels_of(self, **cell: str) -> dict[str, str]:
        """The labels of the record: those of the folder, then the added ones."""
        return {**cell, **{name: str(_answer(value, cell)) for name, value in self.labels.items()}}

    @staticmethod
    def _paths(value: str | Sequence[str] | Answer, cell: Cell) -> list[str]:
        found = _answer(value, cell)
        return [path.format(**cell) for path in ([found] if isinstance(found, str) else found)]


def _answer(value: Any, cell: Cell) -> Any:
    return value(**cell) if callable(value) else value
