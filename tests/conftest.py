"""No test is a test of time: on a busy machine Hypothesis's deadline would fail sound ones.

Where CI is set the examples are the same at every run, so that a change is judged by itself; elsewhere they are drawn anew.
"""

import gc
import os
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from relearn.runs import provenance

settings.register_profile(
    "untimed",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("untimed")

# Workers side by side have a core each. With threads for all cores each, they wait for one another; a worker takes this from its parent.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Started in the background of a script, a process ignores Ctrl-C, and so would all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that drive both engines, minutes each, come first: at the end one worker would run them alone."""
    for item in items:
        if (
            item.name == "test_a_gpu_gives_the_same"
        ):  # of a contract, which other packages use without the mark
            item.add_marker("gpu")
    items.sort(key=lambda item: "workflow" not in item.path.parts)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What is imported and collected stays: the garbage collector need not look at its millions of objects again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def no_power_cut() -> Iterator[None]:
    """Nothing that a test writes has to survive one, and a disk takes milliseconds for each of a record's dozen promises.

    Processes that tests start do flush their files.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def one_look_at_this_checkout() -> Iterator[None]:
    """Git is asked once a process about this checkout, not twice a record: two processes for each of thousands of records.

    Any other folder, and any other git (``PATH``, ``GIT_…``), is asked anew.
    """
    ask, here = provenance._git, Path(provenance.__file__).resolve().parent

    @cache
    def told(_: tuple[tuple[str, str], ...], words: tuple[str, ...]) -> str | None:
        return ask(here, *words)

    def git(folder: Path, *words: str) -> str | None:
        if folder != here:
            return ask(folder, *words)
        which = tuple(
            (key, value) for key, value in os.environ.items() if key == "PATH" or key.startswith("GIT_")
        )
        return told(which, words)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(provenance, "_git", git)
        yield
