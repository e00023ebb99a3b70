"""A process that has torch loaded and bears a real process for each job: a kill -9 then costs no seconds of start.

It reads one JSON line a request, ``{"source": …, "cwd": …, "env": {…}, "out": …}``, forks, and says the child's pid;
when a child ends it says ``{"pid": …, "code": …}`` (negative: the signal). The child runs the source with `relearn`,
its command line, and the helpers below in scope.
"""

import ctypes
import json
import os
import resource
import selectors
import sys
import traceback
from pathlib import Path

CLONE_NEWNS = 0x00020000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
SMALL_DISKS: set[str] = set()  # of this process


def relearn(*words: object) -> int:
    """The command line, as the console script calls it; the exit status."""
    from relearn import cli

    try:
        return cli.main([str(word) for word in words])
    except SystemExit as error:
        return int(error.code or 0)


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    words = [source.encode(), target.encode(), kind.encode() if kind else None]
    if libc.mount(*words, ctypes.c_ulong(flags), options.encode() or None):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), target)


def own_mounts() -> None:
    """From here on mounts are seen by this process and its children alone. OSError where that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "unshare")
    _mount("none", "/", None, MS_REC | MS_PRIVATE)


def small_disk(folder: str, size: str) -> None:
    """A file system of its own at `folder`, so and so large; called again: another size.

    One that was there before is covered, not made smaller: its size is everybody's, in whatever name space it is set.
    """
    place = str(Path(folder).absolute())
    Path(place).mkdir(parents=True, exist_ok=True)
    _mount("none", place, "tmpfs", MS_REMOUNT if place in SMALL_DISKS else 0, f"size={size}")
    SMALL_DISKS.add(place)


def read_only(folder: str) -> None:
    """The same folder, where nobody can write, root neither."""
    place = str(Path(folder).absolute())
    _mount(place, place, None, MS_BIND)
    _mount(place, place, None, MS_BIND | MS_REMOUNT | MS_RDONLY)


def bear(request: dict) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        out = os.open(request["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        for number in (1, 2):
            os.dup2(out, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
        os.chdir(request["cwd"])
        for name, value in request["env"].items():
            os.environ[name] = value
        scope = {**globals(), "resource": resource}
        exec(compile(request["source"], "job", "exec"), scope)
        code = int(scope.get("code", 0))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    import safetensors.torch  # noqa: F401
    import torch

    import relearn.methods.fit
    import relearn.models  # noqa: F401

    torch.set_num_threads(1)
    wake, alarm = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(alarm, False)
    import signal

    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(alarm)
    chosen = selectors.DefaultSelector()
    chosen.register(0, selectors.EVENT_READ)
    chosen.register(wake, selectors.EVENT_READ)
    print(json.dumps({"ready": True}), flush=True)
    rest = b""
    while True:
        for key, _ in chosen.select():
            if key.fd == wake:
                os.read(wake, 4096)
                continue
            block = os.read(0, 65536)
            if not block:
                return
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                pid = bear(json.loads(line))
                signal.signal(signal.SIGCHLD, lambda *_: None)
                signal.set_wakeup_fd(alarm)
                print(json.dumps({"born": pid}), flush=True)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            print(json.dumps({"pid": pid, "code": os.waitstatus_to_exitcode(status)}), flush=True)


if __name__ == "__main__":
    main()
