"""Work on several items in forked processes, each with a share of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_shares(work: Callable[[Item], Result], items: Sequence[Item], processes: int) -> list[Result]:
    """Call ``work`` on every item and return the results in the order of the items.

    Item i belongs to process i modulo ``processes``; the first share is done by this process. The others inherit what ``work`` reads,
    so only results are sent. Where a process cannot fork, this one does everything. A process whose parent ends is ended, too (Linux).

    Raises:
        whatever ``work`` raises, also in another process.
        RuntimeError: a process ended without an answer.
    """
    processes = min(processes, len(items))
    if processes < 2 or "fork" not in multiprocessing.get_all_start_methods():
        return [work(item) for item in items]
    fork, helpers = multiprocessing.get_context("fork"), []
    for first in range(1, processes):
        ours, theirs = fork.Pipe(duplex=False)
        helper = fork.Process(
            target=_share, args=(work, items[first::processes], theirs, os.getpid()), daemon=True
        )
        helper.start()
        theirs.close()
        helpers.append((first, helper, ours))
    results: dict[int, Result] = {}
    try:
        results.update(zip(range(0, len(items), processes), [work(item) for item in items[::processes]]))
        for first, helper, ours in helpers:
            try:
                answer = ours.recv()
            except EOFError:
                helper.join()
                raise RuntimeError(f"a process ended without an answer, status {helper.exitcode}") from None
            if isinstance(answer, BaseException):
                raise answer
            results.update(zip(range(first, len(items), processes), answer))
    finally:
        for _, helper, ours in helpers:
            ours.close()
            helper.terminate()  # it has answered, or nobody waits for its answer any more
            helper.join()
    return [results[index] for index in range(len(items))]


def _share(work: Callable[[Item], Result], items: Sequence[Item], answer: Any, parent: int) -> None:
    from relearn.runs import orphan_guard

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    orphan_guard.tie(signal.SIGKILL)
    if os.getppid() != parent:
        return
    try:
        answer.send([work(item) for item in items])
    except BaseException as error:
        answer.send(error)
