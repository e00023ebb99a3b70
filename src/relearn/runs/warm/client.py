"""Start a job without importing torch: a server that has already imported it forks, and the child does the job.

``relearn warm --socket PATH`` (`relearn.runs.warm.server`) imports once what the steps need. If RELEARN_WARM names the
socket of such a server, ``relearn <step> …`` becomes its client. It passes on the command line, folder,
environment, umask, signal dispositions and its own stdin, stdout and stderr, forwards signals, and ends as the job
ends, with the same exit status or by the same signal. For the caller there is no difference, except that a
program that adds up the cost of a process and its children (Snakemake's ``benchmark:``) sees the client only.

A job starts warm only if it could not notice the difference: `stamp` covers everything that a process reads from its
environment during its imports. In all other cases (an edited source file, another Python, other limits, another container, a
thread count other than the server's, a server that does not answer) the job silently starts without the server;
RELEARN_WARM_DEBUG=1 prints the reason. ``RELEARN_WARM=off`` is never a socket.

A job never outlives its client: when the client is killed, the server kills the job. When the server dies, the
kernel kills the job, and the client reports it and fails. Linux only; standard library only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket

VARIABLE, DEBUG, OFF = "RELEARN_WARM", "RELEARN_WARM_DEBUG", "off"
PATIENCE_S = 5.0  # timeout for a server that listens but does not answer
THREADS = 1  # of the server: linear algebra libraries fix their thread count when they are loaded
HELLO, REQUEST, READY, REFUSED, GO, DONE = b"hello", b"request", b"ready", b"refused ", b"\0", b"done "
FORWARDED = tuple(
    signal.Signals[f"SIG{one}"] for one in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "CONT")
)
DISPOSED = (*FORWARDED, signal.SIGALRM, signal.SIGTSTP, signal.SIGTTIN, signal.SIGXCPU)

# Variables read while Python, the C library, torch or a linear algebra library is loaded; later changes would have no effect.
_EARLY = (
    "PYTHON LD_ MALLOC_ JE_ GLIBC_ LC_ LANG TZ VIRTUAL_ENV CONDA_PREFIX OMP_ GOMP_ KMP_ MKL_ OPENBLAS_ GOTO_ VECLIB_"
    " NUMEXPR_ DNNL_ ONEDNN_ TORCH PYTORCH ATEN_ CUDA CUBLAS_ CUDNN_ NVIDIA_ NCCL_ TRITON_ HIP_ ROCR_ NPY_ NUMPY_"
    " SCIPY_ SKLEARN_ JOBLIB_ HF_ TIMM_"
)
EARLY = tuple(_EARLY.split())
inside = False  # whether this process is a server's child, which does not use the server again


class Lost(ConnectionError):
    """The server died while a job ran."""


def start(argv: list[str], threads: int) -> int | None:
    """Let a warm server run the job ``relearn *argv``; return its exit status, or None if it has to be started without the server.

    A job killed by a signal kills this process by the same signal.

    Raises:
        Lost: the server died while the job ran; the job is dead, too.
    """
    named = os.environ.get(VARIABLE, "")
    if not named or named == OFF or inside or not sys.platform.startswith("linux"):
        return None
    if threads != THREADS or (odd := [name for name in os.environ if _own_threads(name)]):
        named = f"--threads {threads}" if threads != THREADS else odd[0]
        return _fall_back(f"{named}: a warm start has {THREADS} thread")
    if threading.current_thread() is not threading.main_thread():
        return _fall_back("not in the main thread, and only the main thread receives signals")
    try:
        with connected(Path(named)) as connection:
            answer = _offer(connection, argv)
            if answer != READY:
                return _fall_back(
                    answer.removeprefix(REFUSED).decode(errors="replace") or "the server went away"
                )
            with _forwarding(connection):
                return _follow(connection)
    except Lost:
        raise
    except (OSError, ValueError) as error:
        return _fall_back(f"{named}: {error}")


def stamp() -> dict[str, str]:
    """Everything that a process reads from its environment when it starts, each part as a hash: the interpreter, the package's
    files, the environment variables in EARLY, user and limits, container and CPUs.
    """
    import resource

    package = Path(__file__).resolve().parents[2]
    flags = [repr(sys.flags), sys.warnoptions, sys._xoptions, sys.executable, sys.version, sys.prefix]
    installed = [Path(entry).stat().st_mtime_ns for entry in sys.path if entry.endswith("site-packages")]
    early = {k: v for k, v in os.environ.items() if k.startswith(EARLY) and not _counts_threads(k)}
    limits = [resource.getrlimit(n) for k, n in sorted(vars(resource).items()) if k.startswith("RLIMIT_")]
    user = [os.getresuid(), os.getresgid(), sorted(os.getgroups()), os.getpriority(os.PRIO_PROCESS, 0)]
    inside_of = [sorted(os.sched_getaffinity(0)), os.stat("/").st_dev, os.stat("/").st_ino]
    for place in sorted(Path("/proc/self/ns").iterdir()):
        inside_of.append(os.readlink(place))
    for file in ("cgroup", "oom_score_adj"):
        with contextlib.suppress(OSError):
            inside_of.append(Path("/proc/self", file).read_text())
    differences = {
        "Python": [flags, installed],
        "source files": [str(package), sorted(source_files(str(package)))],
        "environment": early,
        "user or limits": [user, limits],
        "container or processors": inside_of,
    }
    return {
        part: hashlib.sha256(json.dumps(one, sort_keys=True).encode()).hexdigest()[:16]
        for part, one in differences.items()
    }


def times_of(package: Path) -> str:
    """A hash of path, modification time and size of every Python file of a package; cheap, and another one after a touch."""
    return hashlib.sha256(repr(sorted(source_files(str(package)))).encode()).hexdigest()[:16]


def source_files(folder: str) -> Iterator[tuple[str, int, int]]:
    """Path, modification time in ns and size of every Python file in a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from source_files(entry.path)
            elif entry.name.endswith(".py") and entry.name[0] != ".":  # an editor's lock is a link to nothing
                with contextlib.suppress(FileNotFoundError):  # replaced at this moment
                    facts = entry.stat()
                    yield entry.path, facts.st_mtime_ns, facts.st_size


def _counts_threads(name: str) -> bool:
    return name.endswith(("_NUM_THREADS", "_MAXIMUM_THREADS"))


def _own_threads(name: str) -> bool:
    """Whether a variable requests a thread count other than the server's for a library; the first two are set by `--threads`."""
    decided = name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    return _counts_threads(name) and not decided and os.environ[name] != str(THREADS)


@contextlib.contextmanager
def short(path: Path) -> Iterator[str]:
    """Yield a name of a socket that fits into the kernel's 107 bytes, however long its path is.

    Raises OSError: no such folder; ValueError: the file name alone is too long.
    """
    if len(os.fsencode(path.name)) > 80:
        raise ValueError(
            f"{path.name}: a socket's name has at most 80 bytes (its folder may be of any length)"
        )
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


@contextlib.contextmanager
def connected(path: Path) -> Iterator[socket.socket]:
    """Yield a connection to the server behind a socket; OSError if no server of this user answers."""
    import socket
    import struct

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection, short(path) as name:
        connection.settimeout(PATIENCE_S)
        connection.connect(name)
        owner = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
        if owner != os.getuid():
            raise PermissionError(f"belongs to user {owner}")
        yield connection


def _offer(connection: socket.socket, argv: list[str]) -> bytes:
    """Send the request; nothing is started yet."""
    import socket

    if (
        connection.recv(1000) != HELLO
    ):  # checked before our streams are sent, because a stuck server would hold them open
        raise ConnectionError("no warm server, or one that ends")
    umask = os.umask(0o077)
    os.umask(umask)
    what: dict[str, Any] = {"stamp": stamp(), "argv": argv, "program": sys.argv[0], "umask": umask}
    what["environment"] = dict(os.environ)
    what["ignored"] = [one for one in DISPOSED if signal.getsignal(one) == signal.SIG_IGN]
    what["blocked"] = [int(one) for one in signal.pthread_sigmask(signal.SIG_BLOCK, [])]
    text = os.memfd_create("relearn")  # one message of any length; neither side blocks
    folder = os.open(".", os.O_PATH | os.O_DIRECTORY)
    try:
        with os.fdopen(os.dup(text), "wb") as file:
            file.write(json.dumps(what).encode("ascii"))
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        socket.send_fds(connection, [REQUEST], [0, 1, 2, folder, text])
        return connection.recv(1000)
    finally:
        os.close(folder)
        os.close(text)


@contextlib.contextmanager
def _forwarding(connection: socket.socket) -> Iterator[None]:
    """Send GO, and from then on forward every signal that can be handled to the job; none before."""

    def forward(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(OSError):  # the job has just ended
            connection.send(bytes([number]))
        if number == signal.SIGTSTP:
            os.kill(os.getpid(), signal.SIGSTOP)  # the job is stopped; stop as well, until SIGCONT

    connection.settimeout(None)
    numbers = (*FORWARDED, signal.SIGTSTP)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        connection.send(GO)
        for number in numbers:
            signal.signal(number, forward)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _follow(connection: socket.socket) -> int | None:
    """Wait for the end of the job and end in the same way."""
    try:
        answer = connection.recv(1000)
    except ConnectionError:
        answer = b""
    if answer.startswith(REFUSED):
        return _fall_back(answer.removeprefix(REFUSED).decode(errors="replace"))
    if not answer.startswith(DONE):
        raise Lost("the warm server died and its job with it; start the job again")
    code = os.waitstatus_to_exitcode(int(answer.removeprefix(DONE)))
    if code >= 0:
        return code
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [-code])
    os.kill(os.getpid(), -code)
    return 128 - code


def _fall_back(reason: str) -> int | None:
    if os.environ.get(DEBUG):
        print(f"relearn: plain start: {reason}", file=sys.stderr)
    return None
