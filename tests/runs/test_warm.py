"""A warm start: to whoever starts a job, and to the job, nothing is different from a plain one; nothing outlives anybody."""

import contextlib
import errno
import json
import os
import pty
import resource
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from relearn.runs import orphan_guard as parents
from relearn.runs.warm import client as warm
from relearn.runs.warm import server as warm_server

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="warm starts need Linux")
PACKAGE = Path(warm.__file__).resolve().parents[2]
SOURCE = {"": PACKAGE.parent}  # see `source`

# A job is a piece of Python, so that a test says what it does; server and client are the real ones.
JOB = """
def run(argv):
    names = {"argv": argv}
    exec(argv[1], names)
    return names.get("code", 0)
"""
SERVER = f"""
import os, sys
from pathlib import Path
from relearn.runs.warm import client as warm, server as warm_server
os.setpgid(0, 0) if os.getpgrp() != os.getpid() else None
stamp = warm.stamp()
{JOB}
refuses = lambda argv: "not for this step" if argv[0] == "cold" else ""
server = warm_server.Server(Path(sys.argv[1]), run, stamp, refuses=refuses)
print("ready", flush=True)
server.serve()
"""
CLIENT = f"""
import sys
from relearn.runs.warm import client as warm
warm.PATIENCE_S = 0.5
{JOB}
done = warm.start(sys.argv[1:], 1)
if done is None:
    print("plain", flush=True)
    done = run(sys.argv[1:])
sys.exit(done)
"""
HARMLESS = "print('here', flush=True)"
READY = "import os, time; print(os.getpid(), flush=True)\n"
WAITS = READY + "time.sleep(20)"
STEPS_ON = (
    READY
    + "from relearn.runs import interrupt\ninterrupt.GRACE_S = 60\ninterrupt.install_signal_handlers()\nprint('on', flush=True)\n"
)
STEPS_ON += "while True:\n    interrupt.check()\n    time.sleep(0.01)"


def environment(path: Path | str, **more: str) -> dict[str, str]:
    left_out = ("RELEARN_", "PYTHONUNBUFFERED")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return {**kept, "PYTHONPATH": str(SOURCE[""]), "RELEARN_WARM": str(path), **more}


@contextlib.contextmanager
def server(path: Path, program: str = SERVER, **more: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", program, str(path)]
    env = environment("off", ONLY_THE_SERVER="1") | more
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(scope="module", autouse=True)
def source(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A copy of the package: an edit of the checkout while the tests run would make every start plain, rightly."""
    SOURCE[""] = tmp_path_factory.mktemp("source")
    copy = SOURCE[""] / "relearn"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))


@pytest.fixture(scope="module")
def path(source: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of a server that many tests share."""
    path = tmp_path_factory.mktemp("warm") / "socket"
    with server(path):
        yield path


def client(
    path: Path | str, code: str, step: str = "step", env: dict[str, str] | None = None, **how: Any
) -> Any:
    env = environment(path) if env is None else env
    pipe = subprocess.PIPE
    how = {"stdin": subprocess.DEVNULL, "stdout": pipe, "stderr": pipe, "text": True, **how}
    return subprocess.Popen([sys.executable, "-c", CLIENT, step, code], env=env, **how)


def outcome(path: Path | str, code: str = HARMLESS, **how: Any) -> tuple[int, str, str]:
    with client(path, code, **how) as process:
        out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def was_warm(path: Path | str, **how: Any) -> bool:
    """Whether a job that is started now starts warm; either way it is done, in silence."""
    code, out, err = outcome(path, **how)
    assert code == 0 and err == "" and out in ("here\n", "plain\nhere\n")
    return out == "here\n"


def pid_of(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def has_memory(pid: int) -> bool:
    """Whether a process can still do something: Linux frees its memory first, then closes its files, then calls it a zombie."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def soon(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


FACTS = """
import json, os, resource, signal, sys, tempfile
names = ["HUP", "INT", "TERM", "USR1", "USR2", "QUIT", "CHLD", "PIPE", "ALRM", "TSTP"]
umask = os.umask(0)
print("to stderr", file=sys.stderr)
print(json.dumps({
    "environment": {k: v for k, v in os.environ.items() if k != "RELEARN_WARM"},
    "in C": __import__("subprocess").check_output(["sh", "-c", "echo $ODD"]).hex(),
    "folder": os.getcwd(), "umask": umask, "argv": sys.argv[1:], "stdin": sys.stdin.read(), "program": sys.argv[0],
    "signals": [str(signal.getsignal(signal.Signals["SIG" + name])) for name in names],
    "blocked": sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))),
    "wakeup": signal.set_wakeup_fd(-1), "temporary": tempfile.gettempdir(),
    "limits": [resource.getrlimit(n) for n in range(resource.RLIMIT_NOFILE + 1)],
    "text": [(s.encoding, s.errors, s.line_buffering, s.isatty()) for s in (sys.stdin, sys.stdout, sys.stderr)],
    "cost": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss == 0, "gc": __import__("gc").isenabled(),
}))
"""


def prepared() -> None:
    os.umask(0o027)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])


def test_a_job_finds_what_it_finds_when_it_starts_plainly(path: Path, tmp_path: Path) -> None:
    """Environment, folder, umask, words, stdin, signals, limits, streams; a large environment and odd bytes too."""
    (tmp_path / "deep folder").mkdir()
    (tmp_path / "said").write_text("said\n")
    told = []
    for socket_path in (path, "off"):
        more = {f"LARGE{n}": "x" * 100_000 for n in range(5)} | {"ODD": "\udcff", "TMPDIR": str(tmp_path)}
        env = environment(socket_path, **more)
        with (tmp_path / "said").open() as said:
            how = {"env": env, "cwd": tmp_path / "deep folder", "stdin": said, "preexec_fn": prepared}
            code, out, err = outcome(socket_path, FACTS, **how)
        assert (code, err) == (0, "to stderr\n")
        assert out.startswith("plain\n") is (socket_path == "off")
        told.append(json.loads(out.splitlines()[-1]))
    assert told[0] == told[1]
    assert told[0]["stdin"] == "said\n" and "ONLY_THE_SERVER" not in told[0]["environment"]


@pytest.mark.parametrize(
    "code",
    [
        "code = 0",
        "code = 3",
        "code = 300",
        "raise SystemExit",
        "raise SystemExit('no such thing')",
        "raise SystemExit(5)",
        "raise ZeroDivisionError('by nothing')",
        "import os; os._exit(7)",
        "import os; os.kill(os.getpid(), 9)",
        "import os; os.kill(os.getpid(), 15)",
        "import os; os.abort()",
        "import atexit; atexit.register(print, 'at the end')",
        "import threading, time; threading.Thread(target=lambda: (time.sleep(0.1), print('late'))).start()",
        "print('unflushed', end='')",
        "import os; os.chdir('/'); os.environ['X'] = 'y'",
    ],
)
def test_it_ends_as_a_plain_start_ends(path: Path, code: str) -> None:
    def no_dump() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    results = []
    with server(path.with_name("no_dump")) if "abort" in code else contextlib.nullcontext():
        for one in (path, "off"):
            how = {"preexec_fn": no_dump} if "abort" in code and one == "off" else {}
            number, out, err = outcome(one, code, **how)
            results.append((number, out.removeprefix("plain\n"), err.splitlines()[-1:]))
    assert results[0] == results[1]


@pytest.mark.parametrize("name", ["INT", "TERM", "USR1", "USR2", "HUP", "QUIT"])
def test_a_signal_that_nobody_handles_ends_both(path: Path, name: str) -> None:
    number = signal.Signals[f"SIG{name}"]
    code = WAITS.replace(
        "\n", f"\nimport signal; signal.signal({int(number)}, signal.SIG_DFL); print(1, flush=True)\n"
    )
    with client(path, code) as process:
        job = pid_of(process)
        assert process.stdout.readline() == "1\n"
        assert job != process.pid and alive(job)
        process.send_signal(number)
        assert process.wait(60) == -number
    assert not alive(job)


@pytest.mark.parametrize(("name", "code"), [("INT", 130), ("TERM", 143), ("USR1", 143)])
def test_a_signal_that_the_job_handles_stops_it_at_a_safe_point(path: Path, name: str, code: int) -> None:
    with client(path, STEPS_ON) as process:
        job = pid_of(process)
        assert process.stdout.readline() == "on\n"
        process.send_signal(signal.Signals[f"SIG{name}"])
        assert process.wait(60) == code
        assert "stopping at the next safe point" in process.stderr.read()
    assert not alive(job)


def test_a_stopped_client_stops_the_job_and_takes_it_along_when_it_goes_on(path: Path) -> None:
    def state(pid: int) -> str:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]

    with client(path, STEPS_ON, start_new_session=True) as process:
        job = pid_of(process)
        assert process.stdout.readline() == "on\n"
        process.send_signal(signal.SIGTSTP)
        assert soon(lambda: state(job) == "T" and state(process.pid) == "T")
        process.send_signal(signal.SIGCONT)
        assert soon(lambda: state(job) != "T" and state(process.pid) != "T")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143


def test_ctrl_c_in_a_terminal_reaches_the_job_once(tmp_path: Path) -> None:
    """Once: with the second the job would end at once. And its output reaches the terminal."""
    code = READY + (
        "import signal\nseen = []\nsignal.signal(signal.SIGINT, lambda *_: seen.append(1))\n"
        "print('on', __import__('sys').stdout.isatty(), flush=True)\n"
        "while not seen: time.sleep(0.01)\n"
        "time.sleep(0.3)\nprint('seen', len(seen), flush=True)\ncode = 9"
    )
    both = [
        [sys.executable, "-c", SERVER, str(tmp_path / "socket")],
        [sys.executable, "-c", CLIENT, "step", code],
    ]
    shell = (
        "import json, signal, subprocess, sys\nserver, client = json.loads(sys.argv[1])\n"
        "signal.signal(signal.SIGINT, lambda *_: None)\n"
        "process = subprocess.Popen(server, stdout=subprocess.PIPE)\nprocess.stdout.readline()\n"
        "code = subprocess.call(client)\nassert process.poll() is None\nprocess.terminate()\nsys.exit(code)"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        env = environment(tmp_path / "socket")
        os.execve(sys.executable, [sys.executable, "-c", shell, json.dumps(both)], env)
    text = b""
    with os.fdopen(terminal, "r+b", buffering=0) as screen:
        while b"on True" not in text:
            text += screen.read(100)
        screen.write(b"\x03")
        with contextlib.suppress(OSError):  # the end of a terminal
            while more := screen.read(100):
                text += more
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert b"seen 1" in text and b"plain" not in text


def test_a_job_does_not_outlive_its_client(path: Path) -> None:
    """Nor do its own children; a concurrent job continues."""
    family = READY.replace("print(", "child = os.fork()\nif child: print(child, ", 1) + "time.sleep(20)"
    with client(path, WAITS) as other, client(path, family) as process:
        beside = pid_of(other)
        child, job = map(int, process.stdout.readline().split())
        assert alive(job) and alive(child)
        process.kill()
        assert soon(lambda: not alive(job) and not alive(child))
        assert alive(beside)
        other.kill()
    assert soon(lambda: not alive(beside))
    assert was_warm(path)


def test_a_dead_server_ends_its_jobs_and_their_clients_say_so(tmp_path: Path) -> None:
    with server(tmp_path / "socket") as process, client(tmp_path / "socket", WAITS) as one:
        job = pid_of(one)
        assert has_memory(job)
        process.kill()
        err = one.communicate(timeout=60)[1]
        # dead before its client is: whoever cleans up behind a client meets nobody
        assert not has_memory(job)
        assert one.returncode > 0 and "the warm server died and its job with it" in err
        process.wait()
    assert not was_warm(tmp_path / "socket")


def test_a_stopping_server_signals_its_jobs_and_waits(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with server(path) as process, client(path, STEPS_ON) as one, client(path, WAITS) as two:
        pid_of(one), pid_of(two)
        assert one.stdout.readline() == "on\n"
        process.terminate()
        assert (one.wait(60), two.wait(60), process.wait(60)) == (143, -signal.SIGTERM, 0)
    assert not path.exists()


def test_a_server_ends_with_its_parent_after_its_jobs(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    parent_code = "import subprocess, sys; subprocess.Popen(sys.argv[1:]).wait()"
    command = [sys.executable, "-c", parent_code, sys.executable, "-c", SERVER, str(path)]
    with subprocess.Popen(command, env=environment("off"), stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None and parent.stdout.readline() == "ready\n"
        with client(path, READY + "input()", stdin=subprocess.PIPE) as one:
            job = pid_of(one)
            own = int(Path(f"/proc/{job}/stat").read_text().rpartition(")")[2].split()[1])
            parent.kill()
            assert soon(lambda: not path.exists())
            assert alive(job) and alive(own)
            one.communicate("\n", timeout=60)
            assert one.returncode == 0
        assert soon(lambda: not alive(own))


def test_a_server_ends_soon_with_its_engine_whatever_its_jobs_do(tmp_path: Path) -> None:
    """The engine is not its parent here: there may be a shell in between."""
    path = tmp_path / "socket"
    program = SERVER.replace(
        "server =", "from relearn.runs import orphan_guard as parents\nparents.PATIENCE_S = 0.5\nserver ="
    )
    with subprocess.Popen(["sleep", "60"]) as engine:
        named = parents._name(engine.pid)
        with server(path, program, RELEARN_PARENTS=named) as process, client(path, WAITS) as one:
            job = pid_of(one)
            time.sleep(1.0)
            assert alive(job) and process.poll() is None
            engine.kill()
            assert soon(lambda: not path.exists(), 10)
            assert process.wait(10) == -signal.SIGKILL and soon(lambda: not alive(job), 10)
            one.communicate(timeout=60)


@pytest.mark.parametrize(
    "kind", ["nothing", "file", "folder", "stale", "mute", "closes", "leaves", "babbles", "name"]
)
def test_without_a_server_that_answers_the_start_is_plain_and_silent(tmp_path: Path, kind: str) -> None:
    place = tmp_path / ("n" * 100 if kind == "name" else "socket")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with contextlib.closing(listener):
        if kind == "file":
            place.write_text("no socket")
        elif kind == "folder":
            place.mkdir()
        elif kind not in ("nothing", "name"):
            with warm.short(place) as name:
                listener.bind(name)
            if kind != "stale":
                listener.listen()
                listener.settimeout(120)  # a client that dies early shall not hang the tests
        if kind in ("closes", "leaves", "babbles"):
            with client(place, HARMLESS) as process:
                connection = listener.accept()[0]
                with connection:
                    if kind == "leaves":
                        connection.send(warm.HELLO)
                        connection.recv(10)
                    elif kind == "babbles":
                        connection.send(b"what?")
                assert process.communicate(timeout=60) == ("plain\nhere\n", "")
        else:
            assert not was_warm(place)
    if kind == "stale":
        told = outcome(place, env=environment(place, RELEARN_WARM_DEBUG="1"))[2]
        assert told.startswith("relearn: plain start: ") and len(told.splitlines()) == 1


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("ANYTHING", "else", True),
        ("TMPDIR", "/", True),
        ("OMP_NUM_THREADS", "7", True),  # `--threads` overrules it in a plain start, too
        ("OPENBLAS_NUM_THREADS", "1", True),
        ("OPENBLAS_NUM_THREADS", "2", False),
        ("OMP_PROC_BIND", "true", False),
        ("PYTHONHASHSEED", "5", False),
        ("PYTHONWARNINGS", "error", False),
        ("CUDA_VISIBLE_DEVICES", "3", False),
        ("LC_ALL", "C.UTF-8", os.environ.get("LC_ALL") == "C.UTF-8"),
    ],
)
def test_a_variable_that_counts_while_importing_has_to_be_the_servers(
    path: Path, variable: str, value: str, expected: bool
) -> None:
    env = environment(path)
    for name in [name for name in env if name.endswith("_NUM_THREADS")]:
        del env[name]
    assert was_warm(path, env=env | {variable: value}) is expected


def test_other_limits_threads_or_steps_start_plainly(path: Path) -> None:
    assert was_warm(path)
    assert not was_warm(path, preexec_fn=lambda: os.nice(1) and None)
    assert not was_warm(path, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300)))
    assert not was_warm(path, step="cold")
    assert was_warm(path, preexec_fn=lambda: os.nice(0) and None)


def test_threads_other_than_the_servers_start_plainly(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELEARN_WARM", str(path))
    assert warm.start(["step", HARMLESS], threads=2) is None
    monkeypatch.setenv("RELEARN_WARM", "off")
    assert warm.start(["step", HARMLESS], threads=1) is None


def test_another_checkout_or_an_edited_file_starts_plainly(path: Path, tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "relearn", ignore=shutil.ignore_patterns("__pycache__"))
    assert not was_warm(path, env=environment(path, PYTHONPATH=str(tmp_path)))
    ours = tmp_path / "socket"
    with server(ours, PYTHONPATH=str(tmp_path)):
        env = environment(ours, PYTHONPATH=str(tmp_path))
        assert was_warm(ours, env=env)
        with (tmp_path / "relearn/methods/deep_knn.py").open("a") as file:
            file.write("# edited\n")
        assert not was_warm(ours, env=env)
        told = outcome(ours, env={**env, "RELEARN_WARM_DEBUG": "1"})[2]
        assert told == "relearn: plain start: the server has other source files\n"


def test_a_socket_may_lie_deep_and_is_its_users_own(tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 120) / ("e" * 120)
    folder.mkdir(parents=True)
    with server(folder / "socket"):
        assert was_warm(folder / "socket")
        assert (folder / "socket").stat().st_mode & 0o777 == 0o600
        told = subprocess.run(
            [sys.executable, "-c", SERVER, str(folder / "socket")],
            env=environment("off"),
            capture_output=True,
            text=True,
        )
        assert told.returncode != 0 and "another server answers there" in told.stderr
        assert was_warm(folder / "socket")
    assert (folder / "socket").exists()  # it was killed: the next one takes the place
    with server(folder / "socket"):
        assert was_warm(folder / "socket")


def test_a_process_with_two_threads_is_no_server(tmp_path: Path) -> None:
    code = (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(2,), daemon=True).start()\n"
        + SERVER
    )
    command = [sys.executable, "-c", code, str(tmp_path / "socket")]
    told = subprocess.run(command, env=environment("off"), capture_output=True, text=True)
    assert told.returncode != 0 and "2 threads run in the warm server" in told.stderr
    assert not (tmp_path / "socket").exists()


def test_jobs_that_run_together_hold_nothing_of_each_other(path: Path) -> None:
    """Of the server's descriptors a job has one, its client's connection; the second job none of the first."""
    code = READY + "print(sorted(map(int, os.listdir('/proc/self/fd'))), flush=True)\ninput()"
    with client(path, code, stdin=subprocess.PIPE) as one, client(path, code, stdin=subprocess.PIPE) as two:
        jobs = [pid_of(one), pid_of(two)]
        assert len({*jobs, one.pid, two.pid}) == 4
        for process in (one, two):
            # 0, 1, 2, the connection, and the folder that is being listed
            assert len(json.loads(process.stdout.readline())) == 5
        two.communicate("\n", timeout=60)
        assert two.returncode == 0 and alive(jobs[0])
        one.communicate("\n", timeout=60)
        assert one.returncode == 0


def test_chance_is_not_the_same_in_two_jobs(path: Path) -> None:
    code = "import random, uuid; print(random.random(), uuid.uuid4())"
    assert outcome(path, code)[1] != outcome(path, code)[1]


REAL = """
import sys
from pathlib import Path
from relearn import cli
from relearn.runs.warm import client as warm, server as warm_server
from relearn.studies import STUDIES
from relearn.cli import warm as verb
stamp = warm.stamp()
verb.os.environ.update(verb.ALONE)
assert not [problem for problem in verb.load() if not problem.startswith("relearn.")]
def run(argv):
    return cli.main(argv) if argv[0] in STUDIES else exec(argv[1])
server = warm_server.Server(Path(sys.argv[1]), run, stamp)
print("ready", flush=True)
server.serve()
"""
THREADS = """
import json, os
os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
import sklearn.svm, threadpoolctl, torch
torch.set_num_threads(1)
pools = sorted((one["user_api"], one["prefix"], one["num_threads"]) for one in threadpoolctl.threadpool_info())
print(json.dumps([pools, torch.get_num_threads(), torch.get_default_dtype().itemsize,
    torch.are_deterministic_algorithms_enabled(), float(torch.tensor(1e-42) * 1), torch.cuda.is_initialized()]))
"""
TRAINING = {
    "epochs": 1,
    "batch_size": 64,
    "lr": 0.05,
    "momentum": 0.9,
    "weight_decay": 0.0,
    "schedule": "cosine",
}
TRAINING |= {"crop_padding": 0, "flip": False, "label_smoothing": 0.0}
SPLIT = {"dataset": "digits", "pretrain_per_class": 20, "fine_tune_per_class": 5, "pool_per_class": 8}
NETWORK = {"architecture": "ResNet18", "width": 0.125, "depth": 0.25, "dropout": 0.0, "training": TRAINING}


def relearn(
    folder: Path, path: Path | str, step: str, settings: dict[str, Any], out: str, *more: str
) -> None:
    words = [
        "poisoning",
        step,
        "--settings",
        json.dumps(settings),
        "--out",
        f"runs/{out}",
        "--device",
        "cpu",
        *more,
    ]
    command = [sys.executable, "-m", "relearn", *words]
    subprocess.run(command, cwd=folder, env=environment(path), check=True)


def test_a_warm_run_is_the_cold_run(tmp_path: Path) -> None:
    """The same bits in every artefact, the same record but for cost and time, the same threads in every library."""
    path = tmp_path / "socket"
    with server(path, REAL):
        told = []
        (tmp_path / "cold").mkdir()
        relearn(tmp_path / "cold", "off", "prepare_images", SPLIT, "data")
        shutil.copytree(tmp_path / "cold", tmp_path / "warm")
        for one in ("off", path):
            folder = tmp_path / ("cold" if one == "off" else "warm")
            relearn(folder, one, "pretrain", NETWORK, "net", "--input", "data", "runs/data/data.safetensors")
            told.append(outcome(one, THREADS)[1].removeprefix("plain\n"))
        debug = {**environment(path), "RELEARN_WARM_DEBUG": "1"}
        assert outcome(path, env=debug)[2] == ""  # they did start warm
    assert told[0] == told[1] and json.loads(told[0])[1] == 1
    records = [json.loads((tmp_path / one / "runs/net/record.json").read_text()) for one in ("cold", "warm")]
    costs = [record.pop("cost") for record in records]
    assert [record.pop("sha256") for record in records] and records[0] == records[1]
    assert all(cost["cpu_s"] > 0 for cost in costs)
    assert "weights.safetensors" in records[0]["outputs"]


def test_a_fork_that_fails_refuses_the_job_and_leaves_the_server_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = socket.socketpair()
    server, job = warm_server.Server.__new__(warm_server.Server), warm_server.Job(ours)
    server.jobs, server.selector = [job], selectors.DefaultSelector()
    moved: list[Any] = []

    def no_fork() -> int:
        raise OSError(errno.EAGAIN, "no more processes")

    monkeypatch.setattr(os, "fork", no_fork)
    monkeypatch.setattr(os, "setpgid", lambda *where: moved.append(where))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    server._fork(job)
    assert theirs.recv(100).startswith(warm.REFUSED) and not moved and not server.jobs
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == mask
    theirs.close()
