"""A process that watches another ends with it, and with no other."""

import os
import signal
import subprocess
import sys
import time

import pytest

from relearn.runs import orphan_guard as parents

WATCH = "import sys, time; from relearn.runs import orphan_guard as parents; parents.watch(); print('ready', flush=True); time.sleep({})"


def watcher(named: str, seconds: float) -> subprocess.Popen[str]:
    env = {**os.environ, parents.VARIABLE: named}
    command = [sys.executable, "-c", WATCH.format(seconds)]
    return subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"])


def test_the_end_of_the_named_process_is_a_sigterm_and_nothing_before_it() -> None:
    one, other = sleeper(), sleeper()
    child = watcher(f"{parents._name(one.pid)},{parents._name(other.pid)}", 60)
    try:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        time.sleep(0.2)
        assert child.poll() is None
        other.kill()  # not waited for: a process that is dead and still listed is gone
        _, said = child.communicate(timeout=30)
        assert child.returncode == -signal.SIGTERM
        assert said == f"process {other.pid}, which started this one, is gone\n"
    finally:
        child.kill()
        for process in (one, other):
            process.kill()
            process.wait()


def test_who_was_gone_before_counts_too() -> None:
    gone = sleeper()
    name = parents._name(gone.pid)
    gone.kill()
    gone.wait()
    child = watcher(name, 60)
    child.communicate(timeout=30)
    assert child.returncode == -signal.SIGTERM


# A process that does not end on SIGTERM: it ignores it, or it is busy ending, when no thread of Python's runs any more.
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGALRM, signal.SIG_IGN)\n"
ENDING = """
import sys
class Slow:
    def __del__(self):
        time.sleep(60)
slow = Slow()
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
"""


@pytest.mark.parametrize("program", [DEAF, DEAF + "import time" + ENDING], ids=["deaf", "ending"])
def test_who_does_not_end_on_sigterm_is_killed(program: str) -> None:
    engine = sleeper()
    name = parents._name(engine.pid)
    engine.kill()
    engine.wait()
    quick = (
        "from relearn.runs import orphan_guard as parents; parents.ALARM_S, parents.PATIENCE_S = 0.2, 0.5\n"
    )
    command = [sys.executable, "-c", program + quick + WATCH.format(60)]
    began = time.monotonic()
    done = subprocess.run(
        command, env={**os.environ, parents.VARIABLE: name}, capture_output=True, check=False, timeout=50
    )
    assert done.returncode == -signal.SIGKILL and time.monotonic() - began >= 0.5
    assert parents.ALARM_S < parents.PATIENCE_S < 10


def test_whose_standard_error_is_closed_ends_too() -> None:
    engine = sleeper()
    child = watcher(parents._name(engine.pid), 60)
    assert child.stdout is not None and child.stderr is not None and child.stdout.readline() == "ready\n"
    child.stderr.close()
    engine.kill()
    engine.wait()
    assert child.wait(timeout=30) == -signal.SIGTERM
    child.stdout.close()


@pytest.mark.parametrize("part", ["boot", "namespace", "nothing"])
def test_a_process_of_another_machine_is_not_recognised(part: str) -> None:
    boot, space, *rest = parents._name(os.getpid()).split(":")
    named = {"boot": ["0", space, *rest], "namespace": [boot, "0", *rest], "nothing": []}[part]
    child = watcher(":".join(named), 0.3)
    child.communicate(timeout=30)
    assert child.returncode == 0


def test_a_pid_used_again_is_another_process() -> None:
    boot, space, pid, start = parents._name(os.getpid()).split(":")
    child = watcher(f"{boot}:{space}:{pid}:{int(start) - 1}", 60)
    child.communicate(timeout=30)
    assert child.returncode == -signal.SIGTERM


def test_an_engine_names_itself_and_the_driver_above_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DVC_ROOT", raising=False)
    monkeypatch.setenv(parents.VARIABLE, "")
    parents.announce()
    assert os.environ[parents.VARIABLE] == parents._name(os.getpid())
    program = "import os; from relearn.runs import orphan_guard as parents; parents.announce(); print(os.environ[parents.VARIABLE])"
    line = f'"{sys.executable}" -c "{program}"; true'  # the shell stays between the two
    env = {**os.environ, "DVC_ROOT": "."}
    done = subprocess.run(["sh", "-c", line], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip().split(",")[1:] == [parents._name(os.getpid())]
