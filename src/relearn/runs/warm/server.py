"""The server behind `relearn.runs.warm.client`: one thread that listens, forks one process per job, and reports its end to the client.

It must stay single-threaded, because a fork copies only the calling thread, and it never opens a device,
because CUDA does not survive a fork. It answers only its own user; its socket has mode 0600. It ends on SIGTERM,
which it forwards to its jobs and waits for them (a second SIGTERM kills them), and when the process that started it is
gone, after the jobs that are still running. In both cases it removes its socket first. The jobs of an engine that is gone end
by themselves (`relearn.runs.orphan_guard`); the kernel kills the server, and with it any job that does not.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import struct
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relearn.runs import orphan_guard as parents
from relearn.runs.warm import client as warm
from relearn.runs.warm import job as warm_job

DEVICES = ("/dev/nvidia", "/dev/kfd")
POLL_S = 0.5  # interval at which the parent is checked


@dataclass
class Job:
    """One client: first a connection, then a request, then a process."""

    connection: socket.socket
    asked: dict[str, Any] | None = None
    descriptors: list[int] = field(default_factory=list)  # stdin, stdout, stderr, folder
    pid: int | None = None

    def close(self) -> None:
        """Close everything that is open."""
        self.connection.close()
        while self.descriptors:
            os.close(self.descriptors.pop())


class Server:
    """Serves one socket until stopped.

    Args:
        path: where the socket is created; a dead one there is replaced.
        run: runs a job in the child: takes the command-line arguments, returns the exit status.
        stamp: `warm.stamp()` from before the imports.
        parent: the process with which this one ends; default: the parent process.
        refuses: returns the reason why a job must be started without the server, or "".

    Raises:
        ValueError: another server answers there, or this process has a second thread or an open device.
    """

    def __init__(
        self,
        path: Path,
        run: Callable[[list[str]], int],
        stamp: Mapping[str, str],
        parent: int | None = None,
        refuses: Callable[[list[str]], str] = lambda argv: "",
    ) -> None:
        if (threads := len(os.listdir("/proc/self/task"))) != 1:
            raise ValueError(
                f"{threads} threads run in the warm server, only a process with one can be forked"
            )
        if device := _open_device():
            raise ValueError(
                f"an import has opened {device} in the warm server, and a device does not survive a fork"
            )
        self.path, self.run, self.stamp, self.refuses = path, run, stamp, refuses
        self.parent = os.getppid() if parent is None else parent
        self.engines = parents.announced()
        self.jobs: list[Job] = []
        self.asked_to_stop = self.told_to_stop = 0
        self.selector = selectors.PollSelector()  # not epoll, whose descriptor a child would share
        self.listener: socket.socket | None = _listen(path)
        self.place = os.stat(path).st_ino
        self.wake, self.waker = socket.socketpair()

    def serve(self) -> None:
        """Serve until the end; in a child this does not return."""
        self.wake.setblocking(False)
        self.waker.setblocking(False)
        signal.set_wakeup_fd(self.waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        if self.listener is not None:
            self.selector.register(self.listener, selectors.EVENT_READ, self._accept)
        self.selector.register(self.wake, selectors.EVENT_READ, self._wake)
        gc.collect()
        gc.freeze()  # the collector ignores existing objects, so that children keep sharing their memory
        parents.tie(0)  # from here on the server polls, so that its jobs can save a checkpoint
        while self.listener is not None or self.jobs:
            for key, _ in self.selector.select(POLL_S):
                key.data()
            self._reap()
            if self.asked_to_stop or self._engine_is_gone() or os.getppid() != self.parent:
                self._close()
            while self.told_to_stop < self.asked_to_stop:
                number = signal.SIGKILL if self.told_to_stop else signal.SIGTERM
                self.told_to_stop += 1
                for job in self.jobs:
                    _kill(job, number)

    def _stop(self, number: int, frame: object) -> None:
        self.asked_to_stop += 1

    def _engine_is_gone(self) -> bool:
        """Whether the engine that started this server is gone; if so, schedules the end of this server and its jobs."""
        if parents.first_gone(self.engines) is None:
            return False
        parents.kill_in(parents.PATIENCE_S)
        self.engines = []
        return True

    def _close(self) -> None:
        if self.listener is None:
            return
        self.selector.unregister(self.listener)
        self.listener.close()
        self.listener = None
        with contextlib.suppress(OSError):
            if os.stat(self.path).st_ino == self.place:
                os.unlink(self.path)

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self.wake.recv(1000)

    def _accept(self) -> None:
        assert self.listener is not None
        try:
            connection = self.listener.accept()[0]
        except OSError:  # the client is already gone
            return
        who = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if who[1] != os.getuid():
            connection.close()
            return
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.send(warm.HELLO)
        job = Job(connection)
        self.jobs.append(job)
        self.selector.register(connection, selectors.EVENT_READ, lambda: self._hear(job))

    def _hear(self, job: Job) -> None:
        """Handle a client's message: its request, then GO, then signals; an empty message means that it is gone."""
        try:
            text, descriptors, _, _ = socket.recv_fds(job.connection, 64, 8, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            text, descriptors = b"", []
        if text == warm.REQUEST and job.asked is None and len(descriptors) == 5:
            job.descriptors = descriptors
            return self._consider(job)
        for one in descriptors:
            os.close(one)
        if job.pid is not None and text:
            for number in text:
                _kill(job, number)
        elif job.pid is not None:
            self.selector.unregister(job.connection)
            _kill(job, signal.SIGKILL)
        elif text == warm.GO and job.asked is not None:
            self._fork(job)
        else:
            self._forget(job)

    def _consider(self, job: Job) -> None:
        try:
            with os.fdopen(job.descriptors.pop(), "rb") as file:
                file.seek(0)
                asked = json.loads(file.read())
            other = [part for part in self.stamp if asked["stamp"].get(part) != self.stamp[part]]
            reason = f"the server has other {', '.join(other)}" if other else self.refuses(asked["argv"])
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        else:
            job.asked = asked
        with contextlib.suppress(OSError):
            job.connection.send(warm.REFUSED + reason.encode()[:900] if reason else warm.READY)
        if reason:
            self._forget(job)

    def _forget(self, job: Job) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self.selector.unregister(job.connection)
        job.close()
        self.jobs.remove(job)

    def _reap(self) -> None:
        for job in [job for job in self.jobs if job.pid is not None]:
            pid, status = os.waitpid(job.pid or 0, os.WNOHANG)
            if pid:
                with contextlib.suppress(OSError):
                    job.connection.send(warm.DONE + str(status).encode())
                self._forget(job)

    def _fork(self, job: Job) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        # Block signals until the child has taken over its client's dispositions.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        server = os.getpid()
        try:
            job.pid = os.fork()
        except OSError as error:
            with contextlib.suppress(OSError):
                job.connection.send(warm.REFUSED + str(error).encode())
            self._forget(job)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            return
        with contextlib.suppress(OSError):  # own process group; set by both, in any order
            os.setpgid(job.pid or 0, job.pid or 0)
        if job.pid == 0:
            # Its own connection stays open: the client sees its end only when both server and job are dead.
            others = [other for other in self.jobs if other is not job]
            mine: list[Any] = [one for one in (self.listener, self.wake, self.waker) if one is not None]
            warm_job.become(self.run, job.asked or {}, job.descriptors, [*mine, *others], server)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        while job.descriptors:
            os.close(job.descriptors.pop())


def _open_device() -> str:
    """An accelerator that this process has open, or ""."""
    for one in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if (file := os.readlink(f"/proc/self/fd/{one}")).startswith(DEVICES):
                return file
    return ""


def _listen(path: Path) -> socket.socket:
    with contextlib.suppress(OSError):
        if path.is_socket():
            with warm.connected(path):
                raise ValueError(f"{path}: another server answers there; stop it or name another socket")
    path.unlink(missing_ok=True) if path.is_socket() else None
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.setblocking(False)
    umask = os.umask(0o177)
    try:
        with warm.short(path) as name:
            listener.bind(name)
    finally:
        os.umask(umask)
    listener.listen(128)
    return listener


def _kill(job: Job, number: int) -> None:
    """Signal a job's process; it has not been reaped, so its pid cannot be reused. SIGKILL is sent to its process group, too."""
    if job.pid is None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if number == signal.SIGKILL:
            os.killpg(job.pid, number)
    with contextlib.suppress(ProcessLookupError, ValueError, OSError):
        os.kill(job.pid, number)
