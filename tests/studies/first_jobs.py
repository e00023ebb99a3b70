"""A plan's jobs, run on stand-ins as Snakemake would: those that only prepare as a whole, trainings to their first update.

A job is stopped at the first step of an optimiser of torch. Its model, data and optimiser are then built as at full scale and a
batch has gone forth and back; batches and the iterations of initialisations alone are fewer (MOST).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from torch.optim.optimizer import register_optimizer_step_pre_hook

from relearn.runs import record
from relearn.runs.settings import read
from relearn.studies import parameters
from relearn.studies.family import Family
from relearn.studies.study import Study, all_studies, load

ROOT = Path(__file__).parents[2]
SCALE = "paper"
MOST = {"batch_size": 2, "accumulate": 1, "max_tokens": 300, "batches": 2, "iterations": 1}


class Started(Exception):
    """The first update of a training."""


@contextmanager
def stopping() -> Iterator[None]:
    """Raise :class:`Started` at the first step of any optimiser."""

    def stop(*_: Any) -> None:
        raise Started

    handle = register_optimizer_step_pre_hook(stop)
    try:
        yield
    finally:
        handle.remove()


def smaller(value: Any) -> Any:
    """The same settings with batches and numbers of iterations of at most MOST."""
    if isinstance(value, Mapping):
        return {
            key: min(one, MOST[key]) if key in MOST and isinstance(one, int) else smaller(one)
            for key, one in value.items()
        }
    return [smaller(one) for one in value] if isinstance(value, list) else value


class Plan:
    """All families of scale paper, of every study, and a way to make a file that one of them writes."""

    def __init__(self, **changes: Any) -> None:
        self.params = parameters.load(ROOT / "params.yaml", SCALE, changes or None)
        self.families: dict[tuple[str, str], Family] = {
            (study.name, name): family
            for study in all_studies()
            for name, family in study.part("plan").plan(self.params, SCALE).items()
        }

    def one(self, study: str, name: str, **labels: str) -> tuple[Family, dict[str, str]]:
        """A family and its first run that agrees with ``labels``."""
        family = self.families[study, name]
        return family, next(run for run in family.runs if labels.items() <= run.items())

    def writer(self, path: str) -> tuple[Family, dict[str, str]]:
        """Who writes a file of the plan."""
        return next(
            (family, run)
            for family in self.families.values()
            for run in family.runs
            if path in [pattern.format(**run) for pattern in family.files.values()]
        )

    def run(self, family: Family, run: Mapping[str, str], without: str = "", **settings: Any) -> bool:
        """Run a job in the current folder, and the jobs before it; whether it began a training.

        Args:
            family, run: the job.
            without: name of an input that it does not get.
            settings: take precedence over the job's own.
        """
        cell = {key: value for key, value in run.items() if key != "seed"}
        inputs = dict(family.inputs_of(**run) if "seed" in run else family.inputs_of(**cell))
        inputs.pop(without, None)
        for path in (path for paths in inputs.values() for path in paths):
            if not Path(path).exists():
                assert not self.run(*self.writer(path)), f"{path} needs a whole training"
        study: Study = load(family.study)
        step = import_module(study.steps[family.step])
        chosen = {**smaller(dict(family.settings_of(**cell))), **settings}
        files = {name: [Path(path) for path in paths] for name, paths in inputs.items()}
        out = Path(family.path(**run)).parent
        out.mkdir(parents=True, exist_ok=True)
        what = {"study": family.study, "paper": study.paper, "step": family.step, "scale": SCALE}
        labels = family.labels_of(**cell)
        seed = int(run.get("seed", 0))
        try:
            with (
                record.Run(out, **what, labels=labels, seed=seed, settings=chosen, inputs=files) as job,
                stopping(),
            ):
                step.run(job, read(step.Settings, chosen), files, "cpu", "fp32")
        except Started:
            return True
        return False
