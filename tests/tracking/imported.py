"""Runs for the tests of the importer, and what they read back from the store."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from relearn.report.used_by import Use
from relearn.runs import record
from relearn.tracking import connection
from relearn.tracking import importer as tracking
from relearn.tracking.names import PREFIX
from relearn.tracking.store import store_uri

ROOT = Path("results/mini")
EXPERIMENT = "poisoning (mini), zhu2022"
LABELS = {"attack": "convex_polytope", "defence": "deep_knn", "victim": "DPN92"}


class Shown:
    """What a run is for, as a test says it; `at` is when it was rendered."""

    def __init__(self, **said: Any) -> None:
        self.use, self.at = Use(**said), said.get("rendered_ms", 0)

    def about(self, study: str) -> str:
        return f"all about {study}"

    def signature(self, root: Path) -> int:
        return int(self.at)

    def of(self, root: Path, what: Any, folder: str) -> Use:
        assert root == ROOT and folder.startswith("runs/poisoning/train/")
        return self.use if what["labels"]["attack"] == "convex_polytope" else Use()


EMPTY: list[Path] = []


def make(seed: int = 0, **changes: Any) -> record.Run:
    what: dict[str, Any] = {
        "study": "poisoning",
        "paper": "zhu2022",
        "step": "train",
        "labels": LABELS,
        "scale": "mini",
        "seed": seed,
        "settings": {"lr": 0.1, "training": {"milestones": [30, 45], "schedule": "cosine"}},
        "inputs": {"data": ["data.bin"]},
        "code_version": "v1",
        **changes,
    }
    return record.Run(ROOT / f"runs/poisoning/train/{'/'.join(LABELS.values())}/seed{seed}", **what)


def log(run: record.Run, values: dict[int, float]) -> None:
    for step, value in values.items():
        run.log(step, loss=value)


def finished(seed: int = 0, values: dict[int, float] | None = None, **changes: Any) -> record.Run:
    with make(seed, **changes) as run:
        log(run, values or {0: 0.5, 1: 0.25})
        run.finish({"test_accuracy_frac": 0.75}, trials=(["target", "success"], [[0, 1]]))
    return run


def killed(seed: int, values: dict[int, float]) -> record.Run:
    """A run that a kill -9 ended: no end line, the lock let go by the kernel."""
    run = make(seed)
    run.__enter__()
    log(run, values)
    run._lock.__exit__(None, None, None)
    return run


def aged(run: record.Run) -> None:
    os.utime(run.spool, (1.0, 1.0))


def stored() -> Iterator[Any]:
    client = connection.MlflowClient(store_uri())
    found = client.get_experiment_by_name(EXPERIMENT)
    if found is not None:
        runs = client.search_runs(
            [found.experiment_id], "tags.kind = 'run'", order_by=["attributes.run_name"]
        )
        yield from runs


def of_kind(kind: str) -> Iterator[Any]:
    client = connection.MlflowClient(store_uri())
    every = [one.experiment_id for one in client.search_experiments()]
    yield from client.search_runs(every, f"tags.kind = '{kind}'")


def curve(run: Any, key: str = "loss") -> list[tuple[int, float]]:
    client = connection.MlflowClient(store_uri())
    return [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, key)]


def state() -> list[Any]:
    """All that a person sees of the live runs, without MLflow's random ids."""
    seen = []
    for run in stored():
        place = Path("mlartifacts") / run.info.artifact_uri.removeprefix("mlflow-artifacts:/")
        tags = {
            key: value
            for key, value in run.data.tags.items()
            if key not in (PREFIX + "intent", tracking.PARENT)
        }
        inputs = [
            (one.dataset.name, one.dataset.digest, one.tags[0].value) for one in run.inputs.dataset_inputs
        ]
        files = {path.name: path.read_text() for path in sorted(place.iterdir())} if place.exists() else {}
        times = (run.info.start_time, run.info.end_time)
        curves = {key: curve(run, key) for key in run.data.metrics}
        seen.append((run.info.run_name, run.info.status, times, tags, run.data.params, curves, inputs, files))
    return seen


def rows(table: str) -> int:
    with closing(sqlite3.connect("mlflow.db")) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def points() -> int:
    """Points of the live runs."""
    return sum(len(curve(run, key)) for run in stored() for key in run.data.metrics)


def renew() -> None:
    """An empty store again."""
    connection.release(store_uri())
    shutil.rmtree("mlartifacts")
    shutil.copy(EMPTY[0], "mlflow.db")


def texts() -> str:
    """Every text in the store but MLflow's own Default experiment."""
    with closing(sqlite3.connect("mlflow.db")) as connection:
        lines = [line for line in connection.iterdump() if "INSERT" in line and "'Default'" not in line]
    return "\n".join(lines)
