"""Each run and each point is imported exactly once, whatever dies when."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from relearn.report.used_by import UsedBy
from relearn.runs import record
from relearn.tracking import connection
from relearn.tracking import importer as tracking
from relearn.tracking.store import store_uri

from .imported import EXPERIMENT, LABELS, ROOT, curve, finished, killed, log, make, renew, rows, state, stored

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.usefixtures("project"),
]


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
    (ROOT / "spool/0000000000000001.jsonl").write_text(
        '{"t": 1, "event": "start", "started": "x", "labels": []}\n'
    )
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
    result = tracking.import_spool([ROOT, "results/small"])
    assert result.created == 3 and len(result.problems) == 3
    assert sum("record.json: torn" in line for line in result.problems) == 1
    names = [one.name for one in connection.MlflowClient(store_uri()).search_experiments()]
    assert sorted(names) == ["Default", EXPERIMENT, "poisoning (small), zhu2022"]


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("claims.json", "[]", "TypeError: list indices"),
        ("claims.json", '{"scale": "mini", "claims": [{"verdict": "direction"}]}', "KeyError: 'kind'"),
        ("tables/a.csv", "artefact,row\na,b\n", "KeyError: 'paper'"),
        ("tables/notes.csv", "a,b\n1,2\n", ""),  # a file of the user's own
    ],
)
def test_a_damaged_rendering_does_not_keep_the_runs_out(file: str, text: str, fault: str) -> None:
    finished(0)
    (ROOT / "tables").mkdir()
    (ROOT / "claims.json").write_text('{"scale": "mini", "claims": []}')
    (ROOT / file).write_text(text)
    used_by = UsedBy({}) if file.endswith("notes.csv") else None
    result = tracking.import_spool(ROOT, used_by=used_by)
    assert result.created == 1 and len(result.problems) == bool(fault)
    assert all(line.startswith(f"{ROOT}/claims.json: ") and fault in line for line in result.problems)


KILLED_EVERYWHERE = """
import json, os, shutil, signal, sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
sys.path.insert(0, os.environ["TESTS"])
import imported
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
    Path("state.json").write_text(json.dumps([imported.state(), imported.points()]))

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
