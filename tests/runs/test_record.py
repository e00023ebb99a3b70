"""A run's record: whole or absent, verified on reading, resumed after a kill, honest about how it ended."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.runs import provenance, record, record_file, spool
from relearn.runs.record_file import FIELDS

RUN: dict[str, Any] = {
    "study": "poisoning",
    "paper": "zhu2022",
    "step": "train",
    "labels": {"attack": "convex_polytope", "defence": "deep_knn", "victim": "DPN92"},
    "scale": "mini",
    "seed": 0,
    "settings": {"lr": 0.1, "milestones": [30, 45]},
    "code_version": "v1",
}
FOLDER = Path("results/mini/runs/poisoning/train/convex_polytope/deep_knn/DPN92/seed0")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(provenance, "_git", lambda *_: None)
    Path("data.bin").write_bytes(b"pixels")
    yield tmp_path


def make(**changes: Any) -> record.Run:
    return record.Run(FOLDER, **{**RUN, "inputs": {"data": ["data.bin"]}, **changes})


def finished(**changes: Any) -> record.Run:
    with make(**changes) as run:
        run.log(0, loss=0.5)
        run.finish({"test_accuracy_frac": 0.75}, trials=(["target", "success"], [[0, True], [1, None]]))
    return run


def story(run: record.Run) -> spool.Story:
    told = spool.tell(run.spool)
    assert told is not None
    return told


# -- identity --------------------------------------------------------------------------------------------


def test_the_run_id_is_made_of_what_defines_a_run_and_of_nothing_else() -> None:
    first = make()
    labels, given = dict(reversed(RUN["labels"].items())), dict(reversed(RUN["settings"].items()))
    assert make(labels=labels, settings=given, paper="other", code_version="v2", device="cuda").id == first.id
    changes: list[dict[str, Any]] = [{"study": "x"}, {"step": "x"}, {"scale": "x"}, {"seed": 1}]
    changes += [{"labels": {}}, {"settings": {"lr": 0.2, "milestones": [30, 45]}}]
    ids = {make(**change).id for change in changes} | {first.id}
    assert len(ids) == len(changes) + 1
    assert all(len(one) == 16 and set(one) <= set("0123456789abcdef") for one in ids)


@pytest.mark.parametrize(
    ("out", "root"),
    [
        ("results/mini/runs/a/b", "results/mini"),
        ("results/mini/runs", "results/mini/runs/.."),
        ("runs/mini/runs/a", "runs/mini"),
        ("elsewhere/a", "elsewhere"),
    ],
)
def test_the_root_is_above_the_nearest_runs_folder(project: Path, out: str, root: str) -> None:
    expected = (project / root).resolve() if "runs/.." not in root else project / "results/mini"
    assert record.Run(Path(out), **RUN).root.resolve() == expected
    assert record.Run(project / out, **RUN).root.resolve() == expected


# -- the file --------------------------------------------------------------------------------------------


def test_a_record_has_every_field_and_nothing_of_the_machine_s_owner(project: Path) -> None:
    run = finished()
    text = (run.out / "record.json").read_text()
    read = record.read(run.out)
    assert set(read) == {*FIELDS, "path"}
    assert read["inputs"] == {"data": [{"path": "data.bin", "sha256": record.digest("data.bin")}]}
    assert read["outputs"]["trials.csv"]["sha256"] == record.digest(run.out / "trials.csv")
    assert set(read["cost"]) == {"wall_s", "cpu_s", "device_s", "peak_memory_bytes", "started", "ended"}
    assert read["cost"]["device_s"] is None and read["cost"]["peak_memory_bytes"] > 2**20
    for secret in (str(project), str(Path.home()) + "/", socket.gethostname() + '"'):
        assert secret not in text


def test_every_edited_byte_is_seen() -> None:
    """Bytes between the tokens may change without changing what is said; any other edit is refused."""
    run = finished()
    file = run.out / "record.json"
    content, truth = file.read_bytes(), record.read(run.out)
    seen = 0
    for index in range(len(content)):
        flipped = content[index] ^ (1, 2, 16)[index % 3]
        file.write_bytes(content[:index] + bytes([flipped]) + content[index + 1 :])
        try:
            assert record.read(run.out) == truth
        except record.RecordError as error:
            assert "\n" not in str(error) and "record.json" in str(error)
            seen += 1
    assert seen > 0.7 * len(content)
    for odd in (content.replace(b'"seed": 0', b'"seed": NaN'), b"[" * 100_000):
        file.write_bytes(odd)
        records, (problem,) = record.read_all(run.out)
        assert not records and problem.startswith(f"{file}: ")


def test_a_torn_record_is_refused_at_every_length() -> None:
    run = finished()
    file = run.out / "record.json"
    content = file.read_bytes()
    for size in range(0, len(content) - 2, 3):  # the last two bytes are a brace and a newline
        file.write_bytes(content[:size])
        with pytest.raises(record.RecordError):
            record.read(run.out)


def test_all_sound_records_are_read_and_the_others_are_named() -> None:
    sound = finished()
    for name, text in {"a": "{", "b": "[]", "c": '{"schema": 2}', "d": '{"schema": 1}'}.items():
        folder = Path("results/mini/runs") / name
        folder.mkdir()
        (folder / "record.json").write_text(text)
    records, problems = record.read_all("results/mini/runs")
    assert [one["path"] for one in records] == [FOLDER.as_posix()]
    assert [Path(problem.partition(":")[0]).parent.name for problem in problems] == list("abcd")
    assert record.verify_outputs(records[0]) == []
    (sound.out / "trials.csv").write_text("target\n")
    assert len(record.verify_outputs(records[0])) == 1
    with pytest.raises(record.RecordError, match=r"trials\.csv: torn or edited"):
        record_file.content(records[0], "trials.csv")
    (sound.out / "trials.csv").unlink()
    assert record.verify_outputs(records[0])[0].endswith("missing")


def test_a_copy_of_a_run_is_named_and_not_counted_and_linked_folders_are_read(tmp_path: Path) -> None:
    one = finished()
    shutil.copytree(one.out, one.out.with_name("seed0.bak"))
    shutil.move(FOLDER.parents[3], tmp_path / "disk")
    FOLDER.parents[3].symlink_to(tmp_path / "disk")
    (found,), (problem,) = record.read_all("results/mini/runs")
    assert found["path"] == FOLDER.as_posix()
    assert problem.startswith(f"{FOLDER}.bak/record.json: a copy of the run in {FOLDER};")


CELLS = st.none() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.booleans()
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), min_size=1).map(
    lambda text: "_" + text
)


@settings(max_examples=50)
@given(st.lists(st.tuples(CELLS, TEXTS), max_size=5))
def test_trials_come_back_as_they_went(rows: list[tuple[Any, str]]) -> None:
    with make() as run:
        run.finish({}, trials=(["target", "a name, with a comma"], rows))
    found = record_file.rows(record_file.content(record.read(run.out), "trials.csv"))
    assert [tuple(row.values()) for row in found] == rows
    assert [type(row["target"]) for row in found] == [int if type(a) is bool else type(a) for a, _ in rows]


def test_values_that_are_no_finite_numbers_become_null_and_a_note() -> None:
    with make() as run:
        run.finish({"a_frac": float("nan"), "b_frac": float("-inf"), "c_count": 3}, notes=["my own"])
    read = record.read(run.out)
    assert read["metrics"] == {"a_frac": None, "b_frac": None, "c_count": 3.0}
    assert read["notes"] == ["my own", "a_frac is nan, written as null", "b_frac is -inf, written as null"]


# -- the contract ----------------------------------------------------------------------------------------


def test_a_run_that_fails_leaves_its_reason_and_no_record() -> None:
    with pytest.raises(ZeroDivisionError), make() as run:
        run.log(0, loss=1 / 0)
    assert not (FOLDER / "record.json").exists()
    assert (story(run).status, story(run).reason) == (spool.FAILED, "ZeroDivisionError: division by zero")
    with pytest.raises(record.RecordError, match="without calling finish"), make():
        pass
    with pytest.raises(KeyboardInterrupt), make() as run:
        raise KeyboardInterrupt
    assert story(run).status == spool.KILLED


def test_a_failed_repetition_leaves_no_older_record_behind() -> None:
    finished()
    with pytest.raises(RuntimeError), make():
        raise RuntimeError
    assert not (FOLDER / "record.json").exists()


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda run: run.finish({}, outcome="fine"), "outcome 'fine': only ok, diverged, not_converged"),
        (lambda run: run.finish({"a_frac": "many"}), "metric a_frac: 'many' is not a number"),
        (lambda run: run.finish({}, trials=(["a", "b"], [[1]])), "a row has 1 cells, the header 2"),
        (lambda run: (run.output("w.safetensors"), run.finish({})), "announced by output"),
        (lambda run: run.output("../w"), "only a plain file name"),
        (lambda run: run.output("record.json"), "only a plain file name"),
        (lambda run: (run.finish({}), run.finish({})), "finish was called twice"),
    ],
)
def test_wrong_use_is_one_line(act: Any, message: str) -> None:
    with pytest.raises(record.RecordError, match=message) as caught, make() as run:
        act(run)
    assert "\n" not in str(caught.value)


def test_steps_never_go_back_within_one_attempt() -> None:
    with make() as run:
        run.log(3, loss=1.0)
        run.log(0, other=1.0)
        run.log(3, loss=2.0)
        with pytest.raises(ValueError, match="loss: step 2 after step 3"):
            run.log(2, loss=1.0)
        run.finish({})
    assert story(run).points["loss", 3][1] == 2.0


def test_a_missing_input_and_a_folder_without_leave_to_write_are_one_line(project: Path) -> None:
    with pytest.raises(record.RecordError, match=r"nothing\.bin: No such file.*input of step train"):
        make(inputs={"data": ["nothing.bin"]}).__enter__()
    Path("results/mini/spool").rmdir() if Path("results/mini/spool").exists() else None
    Path("results/mini/spool").write_text("a file where a folder must be")
    with pytest.raises(record.RecordError, match="the run needs to write there") as caught:
        make().__enter__()
    assert "\n" not in str(caught.value)


def test_outputs_are_recorded_and_the_work_folder_goes() -> None:
    with make() as run:
        (run.work / "checkpoint").write_text("half")
        run.output("kept.safetensors").write_bytes(b"tensors")
        place = run.work
        result = run.finish({})
    assert result == {key: value for key, value in record.read(FOLDER).items() if key != "path"}
    assert result["outputs"]["kept.safetensors"] == {
        "path": "kept.safetensors",
        "sha256": record.digest(FOLDER / "kept.safetensors"),
    }
    assert not place.exists() and run.spool.exists()


# -- again -----------------------------------------------------------------------------------------------


def die(run: record.Run, step: int) -> None:
    """Leave like a kill: no end line, the lock let go by the kernel."""
    run.__enter__()
    run.log(step, loss=0.5)
    (run.work / "checkpoint").write_text("half")
    run._lock.__exit__(None, None, None)


def test_a_killed_run_is_resumed() -> None:
    die(make(), 4)
    with make() as run:
        assert (run.attempt, run.last_step, (run.work / "checkpoint").read_text()) == (2, 4, "half")
        run.log(3, loss=0.25)
        run.finish({})
    read = record.read(FOLDER)
    first = json.loads(run.spool.read_bytes().splitlines()[0])
    assert read["cost"]["started"] == first["started"]
    assert read["notes"] == ["resumed: finished by attempt 2"]
    assert story(run).attempts == 2 and set(story(run).points) == {("loss", 3), ("loss", 4)}


@pytest.mark.parametrize("change", ["code", "input"])
def test_work_of_other_code_or_other_inputs_is_not_resumed(change: str) -> None:
    die(make(), 4)
    if change == "input":
        Path("data.bin").write_bytes(b"other pixels")
    with make(code_version="v2" if change == "code" else "v1") as run:
        assert (run.attempt, run.last_step, list(run.work.iterdir())) == (1, None, [])
        run.finish({})
    assert story(run).attempts == 1 and story(run).points == {}


def test_a_finished_run_that_runs_again_starts_from_scratch() -> None:
    before = record.read(finished().out)
    with make() as run:
        assert (run.attempt, run.last_step) == (1, None)
        run.finish({})
    assert record.read(FOLDER)["cost"]["started"] > before["cost"]["started"]
    assert story(run).points == {}


def test_wall_seconds_count_all_attempts() -> None:
    die(make(), 4)
    lines = [json.loads(line) for line in make().spool.read_bytes().splitlines()]
    lines[1]["t"] = lines[0]["t"] + 1000.0
    make().spool.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with make() as run:
        run.finish({})
    assert 1000.0 <= record.read(FOLDER)["cost"]["wall_s"] < 1060.0


def test_a_second_writer_is_refused_and_named() -> None:
    with make() as run:
        with pytest.raises(record.Busy, match=f"held by process {os.getpid()}"):
            make(wait_s=0.0).__enter__()
        run.finish({})


def test_a_second_writer_that_waited_finds_the_finished_record() -> None:
    first = make()
    first.__enter__()
    second, other = make(wait_s=20.0), make(wait_s=20.0, code_version="v2")
    found: list[Any] = []

    def wait() -> None:
        with second:
            found.append(second.done)

    thread = threading.Thread(target=wait)
    thread.start()
    while not second._lock.waited:
        pass
    result = first.finish({"a_frac": 1.0})
    first.__exit__(None, None, None)
    thread.join()
    assert found[0]["sha256"] == result["sha256"]
    assert record.read(FOLDER)["sha256"] == result["sha256"]
    other._lock.waited = True
    with other:  # the record is of other code: it does not count
        assert other.done is None
        other.finish({})


# -- kill -9 at every write ------------------------------------------------------------------------------

KILLED_EVERYWHERE = '''
import json, os, shutil, signal, sys, warnings
from pathlib import Path
import torch
from relearn.runs import checkpoint, provenance, record, record_file, spool
torch.set_num_threads(1)
provenance._git = lambda *_: None
out = Path("results/mini/runs/a")
count = at = 0
half = False

def counted(name):
    call = getattr(os, name)
    def wrapper(*words, **more):
        global count
        count += name == "write" or not half
        if count == at and (name == "write" or not half):
            if half:
                call(words[0], bytes(words[1])[: len(words[1]) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*words, **more)
    setattr(os, name, wrapper)

def job():
    for name in ("open", "write", "fsync", "replace", "unlink", "rmdir", "ftruncate", "pwrite"):
        counted(name)
    what = dict(study="s", paper="p", step="t", labels={}, scale="x", seed=0, settings={}, code_version="v")
    run = record.Run(out, **what)
    with run:
        saved = checkpoint.Checkpoint(run.work, run.id)
        state = saved.load() or {"step": 0, "x": torch.tensor([0.3], dtype=torch.float64)}
        x = state["x"]
        for step in range(state["step"], 2):
            x = 3.9 * x * (1 - x)  # chaotic: no wrong step heals
            run.log(step, x=x)
            saved.save({"step": step + 1, "x": x})
        run.output("x.bin").write_bytes(x.numpy().tobytes())
        run.finish({"x_frac": x}, trials=(["target", "x"], [[0, float(x)]]))

def child(kill_at, torn=False):
    global at, half
    pid = os.fork()
    if pid == 0:
        at, half = kill_at, torn
        job()
        os._exit(0)
    return os.waitpid(pid, 0)[1]

def told():
    """What must not depend on kills; None without a record."""
    if not (out / "record.json").exists():
        return None
    found = record.read(out)
    assert record.verify_outputs(found) == []
    story = spool.tell(Path("results/mini/spool") / (found["run"] + ".jsonl"))
    points = {place: value for place, (_, value) in story.points.items()}
    return found["metrics"], found["outputs"], record_file.rows(record_file.content(found, "trials.csv")), points

def orphans():
    return [path.name for path in Path("results").rglob("*.tmp")]

assert child(0) == 0
truth = told()
assert len(truth[3]) == 2 and not orphans()
kills = 0
for torn in (False, True):
    number = 0
    while True:
        number += 1
        shutil.rmtree("results")
        status = child(number, torn)
        if status == 0:
            break
        assert status == signal.SIGKILL, status
        kills += 1
        assert told() in (None, truth), number
        if told() is None:
            assert child(0) == 0
            assert told() == truth, (number, told(), truth)
            name = next(Path("results/mini/spool").glob("*.jsonl"))
            assert spool.tell(name).status == "FINISHED"
            assert not orphans(), (number, orphans())
            assert [path.name for path in Path("results/mini/work").iterdir()] == [name.stem + ".lock"]
print(kills)
'''


def test_a_kill_at_every_write_leaves_no_torn_record_and_the_same_result(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", KILLED_EVERYWHERE],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) > 40  # a run of two steps makes more such calls


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_full_disk_at_any_call_leaves_no_torn_record(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    real = getattr(os, call)
    for fail_from in range(40):
        calls = 0

        def refuse(*words: Any, fail_from: int = fail_from) -> Any:
            nonlocal calls
            calls += 1
            if calls > fail_from:
                raise OSError(28, "No space left on device")
            return real(*words)

        with monkeypatch.context() as patch:
            patch.setattr(os, call, refuse)
            try:
                finished()
            except (record.RecordError, OSError) as error:
                assert "No space left" in str(error) and "\n" not in str(error)
        if (FOLDER / "record.json").exists():
            assert record_file.rows(record_file.content(record.read(FOLDER), "trials.csv"))
        assert not list(Path("results").rglob("*.tmp"))
        if calls <= fail_from:
            return
    raise AssertionError("the run never had enough calls")


def test_recording_loads_nothing_but_the_standard_library() -> None:
    program = "import sys; before = set(sys.modules); import relearn.runs.record, relearn.runs.console, relearn.runs.checkpoint\n"
    program += "print(*sorted({m.partition('.')[0] for m in set(sys.modules) - before}))"
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) - set(sys.stdlib_module_names) == {"relearn"}
