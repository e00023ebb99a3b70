"""Signals: obeyed at the next safe point, at the latest after the grace period; the second SIGINT at once."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from relearn.runs import interrupt, spool

PROGRAM = """
import signal, sys, time
from pathlib import Path
signal.signal(signal.SIGHUP, signal.SIG_IGN if sys.argv[2] == "nohup" else signal.SIG_DFL)
from relearn.runs import interrupt, provenance, record
provenance._git = lambda *_: None
interrupt.GRACE_S = float(sys.argv[1])
record.install_signal_handlers()
out = Path("results/mini/runs/a")
with record.Run(out, study="s", paper="p", step="t", labels={}, scale="mini", seed=0, settings={}) as run:
    for step in range(10**9):
        run.log(step, loss=0.5) if sys.argv[2] != "silent" or step == 0 else None
        if step == 0:
            print("ready", flush=True)
        time.sleep(0.01)
"""


def start(folder: Path, grace_s: float, kind: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, str(grace_s), kind]
    child = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    return child


def end(child: subprocess.Popen[str], folder: Path) -> tuple[int, spool.Story]:
    child.communicate(timeout=60)
    story = spool.tell(next((folder / "results/mini/spool").glob("*.jsonl")))
    assert story is not None
    assert not list(folder.rglob("record.json")) and not list(folder.rglob("*.tmp"))
    return child.returncode, story


@pytest.mark.parametrize(
    ("number", "code"), [("SIGTERM", 143), ("SIGUSR1", 143), ("SIGHUP", 143), ("SIGINT", 130)]
)
def test_a_signal_ends_the_run_as_killed(tmp_path: Path, number: str, code: int) -> None:
    child = start(tmp_path, 60.0, "logs")
    child.send_signal(signal.Signals[number])
    returned, story = end(child, tmp_path)
    assert (returned, story.status, story.reason) == (code, spool.KILLED, f"stopped by {number}")


def test_under_nohup_a_closed_terminal_ends_nothing(tmp_path: Path) -> None:
    child = start(tmp_path, 60.0, "nohup")
    child.send_signal(signal.SIGHUP)
    child.send_signal(signal.SIGTERM)  # has a greater number, so it would come second
    returned, story = end(child, tmp_path)
    assert (returned, story.reason) == (143, "stopped by SIGTERM")


def test_a_run_without_safe_points_is_stopped_after_the_grace_period(tmp_path: Path) -> None:
    child = start(tmp_path, 0.2, "silent")
    child.send_signal(signal.SIGTERM)
    returned, story = end(child, tmp_path)
    assert (returned, story.status) == (143, spool.KILLED)


def test_the_second_sigint_ends_at_once(tmp_path: Path) -> None:
    child = start(tmp_path, 3600.0, "silent")
    child.send_signal(signal.SIGINT)
    assert child.stderr is not None and "stopping at the next safe point" in child.stderr.readline()
    child.send_signal(signal.SIGINT)
    returned, story = end(child, tmp_path)
    assert (returned, story.status) == (
        130,
        spool.RUNNING,
    )  # it had no time to say goodbye: the importer finds out


def test_an_interruption_is_no_exception_that_a_step_could_swallow() -> None:
    assert not issubclass(interrupt.Interrupted, Exception)
    assert interrupt.Interrupted(signal.SIGTERM).code == 143
    assert interrupt.Interrupted(signal.SIGINT).code == 130


def test_handlers_belong_to_the_main_thread() -> None:
    caught: list[BaseException] = []

    def install() -> None:
        try:
            interrupt.install_signal_handlers()
        except ValueError as error:
            caught.append(error)

    thread = threading.Thread(target=install)
    thread.start()
    thread.join()
    assert "main thread" in str(caught[0])


def test_a_signal_in_the_middle_of_a_write_to_stderr_is_obeyed(tmp_path: Path) -> None:
    """A stream is not reentrant: a handler that wrote to sys.stderr would end the job with an error."""
    program = (
        "import os, signal, sys, threading\nfrom relearn.runs import interrupt\n"
        "interrupt.GRACE_S = 30.0\ninterrupt.install_signal_handlers()\n"
        "reader, writer = os.pipe()\nos.dup2(writer, 2)\nos.set_blocking(2, True)\n"
        "def later():\n    os.kill(os.getpid(), signal.SIGTERM)\n    os.read(reader, 1 << 20)\n    os.read(reader, 1 << 20)\n"
        "threading.Timer(0.5, later).start()\n"
        "sys.stderr.write('x' * 200000)\nsys.stderr.flush()\n"
        "print('written', flush=True)\nos._exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "written\n")
