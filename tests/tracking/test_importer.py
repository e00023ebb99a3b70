"""The importer: exactly once, whatever dies when; last value wins; nothing absolute, nothing infinite in the
store.
"""

import json
import math
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from relearn.report.used_by import Use
from relearn.runs import provenance, record, spool
from relearn.tracking.names import PREFIX
from relearn.tracking.run_view import flat

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # MLflow's own imports
    from relearn.tracking import connection
    from relearn.tracking import importer as tracking
    from relearn.tracking.store import TrackingError, put_aside, store_uri

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

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


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with its schema and nothing in it: made once, copied for each test."""
    file = tmp_path_factory.mktemp("store") / "mlflow.db"
    tracking.open_store(f"sqlite:///{file}")
    EMPTY[:] = [file]
    return file


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_store: Path) -> Iterator[Path]:
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_ARTIFACTS_DESTINATION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(provenance, "_git", lambda *_: None)
    shutil.copy(empty_store, "mlflow.db")
    Path("data.bin").write_bytes(b"pixels")
    yield tmp_path
    connection.release(store_uri())


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


# -- what MLflow shows
# -------------------------------------------------------------------------------------------------


def test_a_person_finds_the_cell_of_a_table_at_once() -> None:
    finished(0)
    finished(1, labels={**LABELS, "attack": "feature_collision"})
    cell = {("zhu2022.table2.2", "deep_knn", "defence_success", "fraction"): (0.75, 0.5)}
    shown = Shown(
        artefacts=("table 2.2", "figure 2.5"),
        cells=("table 2.2, Deep k-NN, DPN92", "figure 2.5, Convex polytope, DPN92"),
        claims=("knn_beats_baselines",),
        numbers=cell,
        rendered_ms=5,
    )
    tracking.import_spool(ROOT, used_by=shown)
    client = connection.MlflowClient(store_uri())
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert experiment.tags["mlflow.note.content"] == "all about poisoning"
    for wanted in (
        "tags.cell LIKE '%table 2.2, Deep k-NN, DPN92;%'",
        "tags.artefact LIKE '%table 2.2;%' and tags.defence = 'deep_knn' and tags.victim = 'DPN92'",
        "tags.claim LIKE '%knn_beats_baselines;%' and tags.study = 'poisoning'",
    ):
        (run,) = client.search_runs([experiment.experiment_id], wanted)
    assert not client.search_runs([experiment.experiment_id], "tags.artefact LIKE '%table 2;%'")
    assert run.info.run_name == "DPN92 deep_knn convex_polytope seed0 train"
    assert run.data.tags["artefact"] == "table 2.2; figure 2.5;"
    assert run.data.params == {
        **{f"label.{key}": value for key, value in LABELS.items()},
        "seed": "0",
        "lr": "0.1",
        "training.milestones": "[30,45]",
        "training.schedule": "cosine",
    }
    read = record.read(make().out)
    name = "zhu2022.table2.2/deep_knn/defence_success_frac"
    assert run.data.metrics == {
        "loss": 0.25,
        "test_accuracy_frac": 0.75,
        **{
            f"{kind}/{name}": value
            for kind, value in [("measured", 0.75), ("published", 0.5), ("deviation", 0.25)]
        },
        **{f"system/{key}": read["cost"][key] for key in ("wall_s", "cpu_s")},
        "system/peak_memory_mb": read["cost"]["peak_memory_bytes"] * 1e-6,
    }
    for key in ("paper", "study", "step", "scale", "seed", "commit", "dirty", "settings", "device", "code"):
        assert run.data.tags[key]
    (data,) = run.inputs.dataset_inputs
    assert data.dataset.digest == record.digest("data.bin")[:16] and data.tags[0].value == "data"
    for part in (
        "relearn poisoning train \\\n  --settings '",
        "--input data data.bin",
        "--label victim=DPN92",
        "--out results/mini/runs",
    ):
        assert part in run.data.tags["mlflow.note.content"]


def test_only_what_a_page_hides_tells_how_far_an_import_has_come() -> None:
    finished(0)
    tracking.import_spool(ROOT)
    (run,) = stored()
    hidden = {key for key in run.data.tags if key.startswith("mlflow.")}
    assert {PREFIX + key for key in ("run", "started", "intent", "spooled", "record", "imported")} <= hidden
    assert not [key for key in run.data.tags if key.startswith("relearn")]


def test_another_rendering_adds_its_numbers_and_the_latest_counts() -> None:
    finished(0)
    name = ("zhu2022.table2.2", "deep_knn", "defence_success", "fraction")
    for measured, at in ((0.75, 1000), (0.5, 2000), (0.5, 2000)):
        shown = Shown(numbers={name: (measured, 0.25)}, claims=(f"claim{at}",), rendered_ms=at)
        told = tracking.import_spool(ROOT, used_by=shown)
    assert told.unchanged == 1
    (run,) = stored()
    key = "zhu2022.table2.2/deep_knn/defence_success_frac"
    assert run.data.metrics[f"measured/{key}"] == 0.5 and run.data.metrics[f"deviation/{key}"] == 0.25
    assert run.data.tags["claim"] == "claim2000;"
    tracking.import_spool(ROOT, used_by=Shown(rendered_ms=3000))
    (run,) = stored()
    assert "claim" not in run.data.tags


def test_the_runs_of_a_step_stand_below_one_that_says_how_they_are() -> None:
    importer = tracking.Importer(ROOT)
    finished(0)
    importer.run()
    assert not list(of_kind("grid"))  # one run needs no group
    failed = make(1)
    with pytest.raises(ZeroDivisionError), failed:
        raise ZeroDivisionError
    told = importer.run()
    (group,) = of_kind("grid")
    assert (group.info.run_name, group.info.status) == ("train: 2 runs", spool.FAILED) and told.created == 1
    importer.run()  # the first run has a group only now
    assert [one.data.tags[tracking.PARENT] for one in stored()] == [group.info.run_id] * 2
    assert importer.run().unchanged == 2
    assert tracking.import_spool(ROOT).created == 0
    assert [one.data.tags[tracking.PARENT] for one in stored()] == [group.info.run_id] * 2
    finished(1)
    finished(2)
    tracking.import_spool(ROOT)
    (group,) = of_kind("grid")
    assert (group.info.run_name, group.info.status) == ("train: 3 runs", spool.FINISHED)


def test_what_was_rendered_is_one_run_with_verdicts_cells_and_figures() -> None:
    finished(0)
    write_rendering(effect=0.25)
    tracking.import_spool(ROOT)
    (before,) = of_kind("report")
    assert before.data.tags["claim/poisoning/cp_beats_fc"] == "reproduced (provisional)"
    assert before.data.tags["verdicts"] == "1 reproduced"
    cell = "zhu2022.table2.2/deep_knn/defence_success_frac"
    assert before.data.metrics == {
        "verdicts/reproduced_count": 1.0,
        "effect/poisoning/cp_beats_fc_frac": 0.25,
        "low/poisoning/cp_beats_fc_frac": 0.125,
        "coverage/cells_measured_count": 3.0,
        "coverage/cells_defined_count": 4.0,
        **{
            f"{kind}/{cell}": value
            for kind, value in [("measured", 0.75), ("published", 1.0), ("deviation", -0.25)]
        },
    }
    place = Path("mlartifacts") / before.info.artifact_uri.removeprefix("mlflow-artifacts:/")
    files = {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}
    tables = {f"tables/zhu2022.table2.2.{kind}" for kind in ("csv", "md")}
    assert files == {"claims.json", "coverage.csv", "report.html", "figures/zhu2022.fig2.5.png", *tables}
    assert tracking.import_spool(ROOT).unchanged == 1 and [one.info.run_id for one in of_kind("report")] == [
        before.info.run_id
    ]
    write_rendering(effect=0.5)
    os.utime(ROOT / "claims.json", (2.0e9, 2.0e9))
    tracking.import_spool(ROOT)
    (after,) = of_kind("report")
    assert after.data.metrics["effect/poisoning/cp_beats_fc_frac"] == 0.5


def write_rendering(effect: float) -> None:
    """What `relearn render` leaves, as far as the importer reads it."""
    claim = {
        "section": "poisoning",
        "id": "cp_beats_fc",
        "kind": "trained",
        "verdict": "reproduced",
        "runs": [],
    }
    claim |= {"provisional": True, "effect": effect, "low": 0.125, "high": None, "unit": "fraction"}
    for folder in ("figures", "tables"):
        (ROOT / folder).mkdir(exist_ok=True)
    (ROOT / "claims.json").write_text(json.dumps({"scale": "mini", "claims": [claim]}))
    (ROOT / "report.html").write_text("<p>all</p>")
    (ROOT / "figures/zhu2022.fig2.5.png").write_bytes(b"png")
    (ROOT / "figures/zhu2022.fig2.5.pdf").write_bytes(b"pdf")
    (ROOT / "coverage.csv").write_text("artefact,cells_measured,cells_defined,addition\na,3,4,0\nb,9,9,1\n")
    (ROOT / "tables/zhu2022.table2.2.md").write_text("| a |")
    (ROOT / "tables/zhu2022.table2.2.seeds.csv").write_text("artefact,row,column,unit,member,mean\n")
    (ROOT / "tables/zhu2022.table2.2.csv").write_text(
        "artefact,row,column,unit,mean,paper,published_code\n"
        "zhu2022.table2.2,deep_knn,defence_success,fraction,0.75,,1.0\n"
        "zhu2022.table2.2,none,defence_success,fraction,0.75,,\n"
    )


def test_experiments_of_an_earlier_version_make_room() -> None:
    finished(0)
    client = connection.MlflowClient(store_uri())
    older = client.create_experiment("zhu2022 poisoning (mini)", tags={"relearn.scale": "mini"})
    mine = client.create_experiment("mine", tags={"relearn.scale": "small"})
    tracking.import_spool(ROOT)
    assert client.get_experiment(older).lifecycle_stage == "deleted"
    assert client.get_experiment(mine).lifecycle_stage == "active"


def test_settings_are_flat() -> None:
    assert dict(flat({"a": {"b": 1.0e-3, "c": {}}, "d$": [1, {"e": None}], "f": True})) == {
        "a.b": "0.001",
        "a.c": "{}",
        "d_": '[1,{"e":null}]',
        "f": "true",
    }


def test_nothing_infinite_and_nothing_absolute_is_in_the_store(project: Path) -> None:
    with make() as run:
        for step, value in enumerate([0.5, math.inf, -math.inf, math.nan, 0.25]):
            run.log(step, loss=value)
        run.finish(
            {"a_frac": math.nan, "b_frac": 0.5}, outcome="diverged", outcome_step=1, outcome_reason="loss"
        )
    tracking.import_spool(ROOT)
    (one,) = stored()
    assert curve(one) == [(0, 0.5), (4, 0.25)] and "a_frac" not in one.data.metrics
    assert one.data.tags["strange"] == "loss is inf at step 1; loss is -inf at step 2; loss is nan at step 3"
    assert (one.info.status, one.data.tags["outcome"]) == (spool.FINISHED, "diverged")
    with closing(sqlite3.connect("mlflow.db")) as connection:
        assert not connection.execute("SELECT * FROM metrics WHERE is_nan OR abs(value) > 1e300").fetchall()
    assert str(project) not in texts() and str(Path.home()) + "/" not in texts()


# -- exactly once --------------------------------------------------------------------------------------------


def test_importing_again_changes_nothing() -> None:
    for seed in range(3):
        finished(seed)
    first = tracking.import_spool(ROOT)
    before, points, content = state(), rows("metrics"), Path("mlflow.db").read_bytes()
    again = tracking.import_spool(ROOT)
    assert (first.created, first.statuses, first.problems) == (3, {"FINISHED": 3}, [])
    assert (again.created, again.updated, again.replaced, again.unchanged) == (0, 0, 0, 3)
    assert (state(), rows("metrics")) == (before, points)
    assert Path("mlflow.db").read_bytes() == content


def test_many_points_are_imported_each_once() -> None:
    with make(settings={f"key{i:03}": i for i in range(250)}) as run:
        for step in range(1000):
            run.log(step, loss=step / 7, other=step / 3)
        run.finish({})
    tracking.import_spool(ROOT)
    (one,) = stored()
    assert (
        curve(one) == [(step, step / 7) for step in range(1000)]
        and len(one.data.params) == 250 + len(LABELS) + 1
    )
    assert rows("metrics") == 2000 + 3


def test_importing_at_every_moment_gives_the_same_as_importing_at_the_end() -> None:
    """One importer that looks after every line, another that looks once."""
    importer = tracking.Importer(ROOT)
    values = {0: 0.5, 1: math.nan, 2: 0.125}
    statuses = []
    with make() as run:
        for step, value in values.items():
            run.log(step, loss=value)
            importer.run()
            statuses += [one.info.status for one in stored()]
        run.finish({"test_accuracy_frac": 0.75})
    importer.run()
    live, points = state(), rows("metrics")
    assert statuses == ["RUNNING"] * 3
    renew()
    tracking.import_spool(ROOT)
    assert (state(), rows("metrics")) == (live, points)


def test_two_roots_and_unsound_files_are_distinguished() -> None:
    finished(0)
    torn = finished(1)
    (torn.out / "record.json").write_text("{")
    (ROOT / "spool/0000000000000000.jsonl").write_text("no start line\n")
    other = record.Run(
        "results/small/runs/a",
        study="poisoning",
        paper="zhu2022",
        step="craft",
        labels={},
        scale="small",
        seed=0,
        settings={},
    )
    with other:
        other.finish({})
    told = tracking.import_spool([ROOT, "results/small"])
    assert told.created == 3 and len(told.problems) == 2
    assert sum("record.json: torn" in line for line in told.problems) == 1
    names = [one.name for one in connection.MlflowClient(store_uri()).search_experiments()]
    assert sorted(names) == ["Default", EXPERIMENT, "poisoning (small), zhu2022"]


KILLED_EVERYWHERE = """
import json, os, shutil, signal, sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
sys.path.insert(0, os.environ["TESTS"])
import test_importer
from relearn.tracking import connection
from relearn.tracking import importer as tracking
from sqlalchemy import event
from sqlalchemy.engine import Engine
root = "results/mini"
writes = at = 0
dirty = False

def maybe(*_):
    global writes
    writes += 1
    if writes == at:
        os.kill(os.getpid(), signal.SIGKILL)

def child(work):
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    return os.waitpid(pid, 0)[1]

def doomed():
    # dies before the commit of a transaction that writes, and before the renames of artifacts
    def note(connection, cursor, statement, *_):
        global dirty
        dirty = dirty or statement.startswith(("INSERT", "UPDATE", "DELETE"))
    def commit(_):
        global dirty
        if dirty:
            maybe()
        dirty = False
    event.listen(Engine, "before_cursor_execute", note)
    event.listen(Engine, "commit", commit)
    replace = os.replace
    os.replace = lambda *words: (maybe(), replace(*words))
    tracking.import_spool(root)

def healed():
    tracking.import_spool(root)
    Path("state.json").write_text(json.dumps([test_importer.state(), test_importer.points()]))

def reset():
    shutil.rmtree("mlartifacts", ignore_errors=True)
    for file in Path().glob("mlflow.db*"):
        file.unlink()
    for file in Path("before").iterdir():
        shutil.copy(file, file.name)

reset()
healed()  # in this process: MLflow warms up once, not in each child
connection.release(tracking.store_uri())
truth = json.loads(Path("state.json").read_text())
kills = 0
while True:
    at = kills + 1
    reset()
    status = child(doomed)
    if status == 0:
        break
    assert status == signal.SIGKILL, status
    kills += 1
    assert child(healed) == 0
    found = json.loads(Path("state.json").read_text())
    differences = [[a, b] for one, other in zip(truth[0], found[0]) for a, b in zip(one, other) if a != b]
    assert found == truth, (kills, len(found[0]), found[1], differences)
    assert not list(Path().rglob(".*.tmp"))
print(kills)
"""


def test_a_kill_at_every_write_of_an_import_is_healed_by_the_next(project: Path) -> None:
    """The hardest case: a run whose repeated steps contradict the points imported before the resume."""
    killed(1, {0: 0.5, 1: 0.25})
    tracking.import_spool(ROOT)
    connection.release(store_uri())
    Path("before").mkdir()
    shutil.copy("mlflow.db", "before/mlflow.db")
    with make(1) as resumed:
        log(resumed, {1: 0.375, 2: 0.125})
        resumed.finish({"test_accuracy_frac": 0.5})
    done = subprocess.run(
        [sys.executable, "-c", KILLED_EVERYWHERE],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TESTS": str(Path(__file__).parent), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[-1]) >= 10
    found, _ = json.loads(Path("state.json").read_text())
    assert [one[5]["loss"] for one in found] == [[[0, 0.5], [1, 0.375], [2, 0.125]]]


def test_two_importers_at_once_import_each_run_once(project: Path) -> None:
    for seed in range(3):
        finished(seed)
    program = "import sys; from relearn.cli import main; sys.exit(main(['track']))"
    command = [sys.executable, "-W", "ignore", "-c", program]
    both = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    said = [(*one.communicate(timeout=120), one.returncode) for one in both]
    assert [code for _, _, code in said] == [0, 0], said
    assert sorted(int(re.findall(r"track: (\d+) new", out)[0]) for out, _, _ in said) == [0, 3]
    assert len(list(stored())) == 3 and rows("metrics") == 3 * 6


def test_a_second_importer_is_refused_with_the_pid_of_the_first() -> None:
    finished(0)
    with record.Lock(Path("mlflow.db.lock")), pytest.raises(record.Busy, match=f"process {os.getpid()}"):
        tracking.import_spool(ROOT, wait_s=0.0)


# -- resumed, repeated, deleted
# ----------------------------------------------------------------------------------------


def test_a_resumed_run_that_says_the_same_stays_the_same_run() -> None:
    killed(0, {0: 0.5, 1: 0.25})
    tracking.import_spool(ROOT)
    (before,) = stored()
    with make(0) as run:
        log(run, {1: 0.25, 2: 0.125})
        told = tracking.import_spool(ROOT)
        run.finish({"test_accuracy_frac": 0.75})
    tracking.import_spool(ROOT)
    (after,) = stored()
    assert told.replaced == 0 and after.info.run_id == before.info.run_id
    assert curve(after) == [(0, 0.5), (1, 0.25), (2, 0.125)]
    assert after.data.tags["attempts"] == "2"


@pytest.mark.parametrize("later", [0.375, math.nan])
def test_a_resumed_run_that_says_otherwise_has_the_last_word(later: float) -> None:
    killed(0, {0: 0.5, 1: 0.25})
    tracking.import_spool(ROOT)
    with make(0) as run:
        log(run, {1: later, 2: 0.125})
        run.finish({})
    told = tracking.import_spool(ROOT)
    (one,) = stored()
    assert (told.created, told.replaced) == (0, 1)
    assert curve(one) == [
        (step, value) for step, value in [(0, 0.5), (1, later), (2, 0.125)] if not math.isnan(value)
    ]
    assert tracking.import_spool(ROOT).unchanged == 1


def test_points_that_a_dying_importer_wrote_are_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dead after the points and before the tags that vouch for them; then the run takes one of them back."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    killed(0, {0: 0.5})
    tracking.import_spool(ROOT)
    killed(0, {1: 0.25})
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(SqlAlchemyStore, "_set_tags", die)
        tracking.import_spool(ROOT)
    assert curve(next(stored())) == [(0, 0.5), (1, 0.25)]
    killed(0, {1: 0.375})
    tracking.import_spool(ROOT)
    (one,) = stored()
    assert curve(one) == [(0, 0.5), (1, 0.375)]


def test_a_new_execution_takes_the_place_of_the_old_one() -> None:
    finished(0, {0: 0.5, 1: 0.25})
    tracking.import_spool(ROOT)
    finished(0, {0: 0.75}, code_version="v2")
    told = tracking.import_spool(ROOT)
    (one,) = stored()
    assert told.replaced == 1 and curve(one) == [(0, 0.75)] and one.data.tags["code"] == "v2"


def test_an_older_record_does_not_displace_a_newer_run() -> None:
    run = finished(0, {0: 0.5})
    shutil.copytree(ROOT, "elsewhere/mini")
    finished(0, {0: 0.75}, code_version="v2")
    tracking.import_spool(ROOT)
    assert tracking.import_spool("elsewhere/mini").unchanged == 1
    (one,) = stored()
    assert one.data.tags["code"] == "v2" and run.id == one.data.tags[PREFIX + "run"]


def test_a_run_that_a_person_deleted_stays_deleted() -> None:
    finished(0)
    tracking.import_spool(ROOT)
    (one,) = stored()
    connection.MlflowClient(store_uri()).delete_run(one.info.run_id)
    told = tracking.import_spool(ROOT)
    assert told.deleted_by_hand == 1 and not list(stored())


def test_what_a_person_wrote_in_the_note_stays() -> None:
    killed(0, {0: 0.5})
    tracking.import_spool(ROOT)
    (one,) = stored()
    connection.MlflowClient(store_uri()).set_tag(one.info.run_id, "mlflow.note.content", "mine")
    with make(0) as run:
        run.finish({})
    tracking.import_spool(ROOT)
    (one,) = stored()
    assert one.data.tags["mlflow.note.content"] == "mine" and one.info.status == spool.FINISHED


def test_a_record_from_elsewhere_comes_without_spool_and_its_spool_may_follow() -> None:
    run = finished(0, {0: 0.5, 1: 0.25})
    tracking.import_spool(ROOT)
    whole = state()
    renew()
    run.spool.rename("later.jsonl")
    assert tracking.import_spool(ROOT).created == 1
    (one,) = stored()
    assert one.info.status == spool.FINISHED and one.data.metrics["test_accuracy_frac"] == 0.75
    Path("later.jsonl").rename(run.spool)
    assert tracking.import_spool(ROOT).replaced == 1
    assert state() == whole


# -- how a run is going --------------------------------------------------------------------------------------


def test_a_silent_run_whose_lock_is_free_is_killed_and_comes_back_when_it_resumes() -> None:
    def status() -> str:
        tracking.import_spool(ROOT)
        (one,) = stored()
        return str(one.info.status)

    run = killed(0, {0: 0.5})
    assert status() == spool.RUNNING  # silent for too short a time
    aged(run)
    assert status() == spool.KILLED
    with pytest.raises(ZeroDivisionError), make(0) as again:
        aged(again)
        assert status() == spool.RUNNING  # silent, and its lock is held
        raise ZeroDivisionError
    assert status() == spool.FAILED
    (one,) = stored()
    assert one.data.tags["reason"] == "ZeroDivisionError: ZeroDivisionError"
    finished(0)
    assert status() == spool.FINISHED
    (one,) = stored()
    assert "reason" not in one.data.tags


def test_a_dead_run_dated_in_the_future_is_closed() -> None:
    run = killed(0, {0: 0.5})
    os.utime(run.spool, (2.0e9 + time.time(), 2.0e9 + time.time()))
    tracking.import_spool(ROOT)
    (one,) = stored()
    assert one.info.status == spool.KILLED


def test_a_running_run_whose_files_are_gone_is_closed() -> None:
    gone = killed(0, {0: 0.5})
    finished(1)
    tracking.import_spool(ROOT)
    gone.spool.unlink()
    tracking.import_spool(ROOT)
    assert [one.info.status for one in stored()] == [spool.KILLED, spool.FINISHED]


def test_following_shows_a_run_while_it_trains() -> None:
    stop = threading.Event()
    told: list[Any] = []

    def wait_for(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    run = make(0)
    with run:
        run.log(0, loss=0.5)
        thread = threading.Thread(
            target=lambda: told.append(tracking.follow(ROOT, stop=stop.is_set, interval_s=0.01))
        )
        thread.start()
        wait_for(lambda: [one.info.status for one in stored()] == [spool.RUNNING])
        run.log(1, loss=0.25)
        wait_for(lambda: curve(next(stored())) == [(0, 0.5), (1, 0.25)])
        run.finish({"test_accuracy_frac": 0.75})
    wait_for(lambda: [one.info.status for one in stored()] == [spool.FINISHED])
    stop.set()
    thread.join()
    assert told[0].unchanged == 1 and rows("metrics") == 6


# -- the store -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("harm", ["cut", "garbage", "page"])
def test_a_malformed_database_is_put_aside_and_rebuilt(
    harm: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "create_database", lambda file: shutil.copy(EMPTY[0], file))
    finished(0)
    tracking.import_spool(ROOT)
    before = state()
    connection.release(store_uri())
    content = Path("mlflow.db").read_bytes()
    broken = {
        "cut": content[: len(content) // 2],
        "garbage": b"not a database " * 1000,
        "page": content[:8192] + b"\xff" * 65536 + content[8192 + 65536 :],
    }[harm]
    Path("mlflow.db").write_bytes(broken)
    capsys.readouterr()
    told = tracking.import_spool(ROOT)
    said = capsys.readouterr().err
    assert told.created == 1 and state() == before
    assert said.startswith("relearn track: mlflow.db: ") and said.count("\n") == 1
    assert Path("mlflow.db.malformed-1").read_bytes() == broken


def test_what_is_put_aside_never_overwrites() -> None:
    for number in (1, 2):
        Path("some.db").write_text(f"{number}")
        Path("some.db-journal").write_text("j")
        put_aside(Path("some.db").absolute())
        assert Path(f"some.db.malformed-{number}").read_text() == f"{number}"
        assert Path(f"some.db.malformed-{number}-journal").exists()


def revision(change: str | None = None) -> str:
    with closing(sqlite3.connect("mlflow.db")) as connection:
        if change:
            connection.execute("UPDATE alembic_version SET version_num = ?", (change,))
            connection.commit()
        return str(connection.execute("SELECT version_num FROM alembic_version").fetchone()[0])


def test_a_database_that_others_keep_busy_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody holds the database for longer than SQLite waits by itself, once; for ever is one line."""
    finished(0)
    with closing(sqlite3.connect("mlflow.db", check_same_thread=False)) as other:
        other.execute("BEGIN EXCLUSIVE")
        timer = threading.Timer(7.0, other.rollback)
        timer.start()
        told = tracking.import_spool(ROOT)
        timer.join()
    assert (told.created, told.statuses) == (1, {"FINISHED": 1}) and points() == 2 + 4

    def locked(importer: object) -> None:
        raise TrackingError("mlflow.db: (sqlite3.OperationalError) database is locked")

    monkeypatch.setattr(tracking.Importer, "_pass", locked)
    with pytest.raises(TrackingError, match="database is locked"):
        tracking.import_spool(ROOT)


def test_a_newer_schema_is_refused_and_left_alone() -> None:
    finished(0)
    revision("ffffffffffff")
    before = Path("mlflow.db").read_bytes()
    with pytest.raises(TrackingError, match="made by a newer MLflow") as caught:
        tracking.import_spool(ROOT)
    assert "\n" not in str(caught.value) and Path("mlflow.db").read_bytes() == before
    assert not list(Path().glob("mlflow.db.new-*"))


def test_an_older_schema_is_upgraded() -> None:
    from alembic import command
    from alembic.script import ScriptDirectory
    from mlflow.store.db import utils
    from mlflow.store.tracking.dbmodels.initial_models import Base

    finished(0)
    newest = revision()
    Path("mlflow.db").unlink()
    config = utils._get_alembic_config("")
    script = ScriptDirectory.from_config(config)
    older = script.get_revision(newest).down_revision
    engine = utils.create_sqlalchemy_engine_with_retry(store_uri())
    Base.metadata.create_all(engine)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, older)
    engine.dispose()
    assert revision() == older != newest
    assert tracking.import_spool(ROOT).created == 1
    assert revision() == newest


def test_a_full_disk_under_the_database_is_one_line_and_costs_no_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = finished(0)
    pages = len(Path("mlflow.db").read_bytes()) // 4096
    client = tracking.open_store(store_uri())
    engine = client._tracking_client.store.engine
    from sqlalchemy import event

    limit = [pages]
    event.listen(
        engine, "begin", lambda connection: connection.exec_driver_sql(f"PRAGMA max_page_count={limit[0]}")
    )
    monkeypatch.setattr(tracking, "open_store", lambda uri: client)
    with pytest.raises(TrackingError, match="database or disk is full") as caught:
        for _ in range(50):
            tracking.import_spool(ROOT)
            finished(0, code_version=os.urandom(2000).hex())
    assert "\n" not in str(caught.value)
    assert record.read(run.out)
    limit[0] = 10**6
    tracking.import_spool(ROOT)
    (one,) = stored()
    assert one.info.status == spool.FINISHED


def test_a_server_that_is_down_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    finished(0)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(TrackingError, match="tracking server: ") as caught:
        tracking.import_spool(ROOT, "http://127.0.0.1:9")
    assert "\n" not in str(caught.value)
    assert tracking.import_spool(ROOT).created == 1


def test_the_user_s_choice_of_a_store_is_kept(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    assert store_uri() == f"sqlite:///{project}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://host:5000")
    assert store_uri() == "http://host:5000"
    assert store_uri("sqlite:///x.db") == "sqlite:///x.db"


def test_telemetry_is_off_and_what_the_user_chose_stands() -> None:
    program = (
        "import os; import relearn.tracking.importer; print(*map(os.environ.get, ['MLFLOW_DISABLE_TELEMETRY',"
    )
    program += " 'MLFLOW_HTTP_REQUEST_TIMEOUT']))"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MLFLOW")}
    environment["MLFLOW_HTTP_REQUEST_TIMEOUT"] = "77"
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["true", "77"]
