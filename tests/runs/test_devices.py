"""Jobs that run at once hold different devices; a job that dies gives its device back."""

import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from relearn.runs import devices
from relearn.runs.devices import acquire, lock_folder

PATIENCE_S = 60.0  # only a limit for a test that hangs


def never() -> int:
    raise AssertionError("nobody should have counted")


def of(n: int) -> Callable[[], int]:
    return lambda: n


@pytest.fixture(autouse=True)
def plain_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "CUDA_VISIBLE_DEVICES",
        "SLURM_JOB_GPUS",
        "SLURM_JOB_ID",
        "XDG_RUNTIME_DIR",
        devices.VARIABLE,
    ):
        monkeypatch.delenv(name, raising=False)


JOB = """
import sys
from pathlib import Path
from relearn.runs.devices import acquire
with acquire("auto", count=lambda: 4, note=lambda line: print("waits", flush=True),
             folder=Path(sys.argv[1]), poll_s=0.01) as name:
    print(name, flush=True)
    sys.stdin.readline()
"""


class Job:
    """A process that takes a device, reports which one, and holds it until it is stopped."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", JOB, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def hears(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def has_spoken(self, within_s: float) -> bool:
        return bool(select.select([self.process.stdout], [], [], within_s)[0])

    def end(self) -> None:
        self.process.communicate("end\n", timeout=PATIENCE_S)

    def kill(self) -> None:
        """End it by a signal that lets it clean nothing up."""
        self.process.kill()
        self.process.communicate(timeout=PATIENCE_S)


def test_four_jobs_hold_four_devices_and_a_fifth_waits(tmp_path: Path) -> None:
    jobs = [Job(tmp_path) for _ in range(4)]
    names = [job.hears() for job in jobs]
    assert sorted(names) == ["cuda:0", "cuda:1", "cuda:2", "cuda:3"]
    fifth = Job(tmp_path)
    assert fifth.hears() == "waits"
    assert not fifth.has_spoken(within_s=0.2)
    jobs[2].end()
    assert fifth.hears() == names[2]
    # A killed holder, which runs no clean-up of its own, frees its lock.
    sixth = Job(tmp_path)
    assert sixth.hears() == "waits"
    jobs[1].kill()
    assert sixth.hears() == names[1]
    for job in (jobs[0], jobs[3], fifth, sixth):
        job.end()
    with acquire("auto", count=of(4), folder=tmp_path) as name:
        assert name == "cuda:0"


def test_an_error_in_the_block_frees_the_device(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="diverged"), acquire("cuda", count=of(1), folder=tmp_path):
        raise RuntimeError("diverged")
    with acquire("cuda", count=of(1), folder=tmp_path, note=never_said) as name:
        assert name == "cuda:0"


def never_said(line: str) -> None:
    raise AssertionError(line)


def test_a_named_device_is_that_one_or_waits(tmp_path: Path) -> None:
    with acquire("cuda:1", count=of(3), folder=tmp_path) as first:
        assert first == "cuda:1"
        with (
            acquire("auto", count=of(3), folder=tmp_path) as second,
            acquire("cuda", count=of(3), folder=tmp_path) as third,
        ):
            assert (second, third) == ("cuda:0", "cuda:2")
        waiting = threading.Event()
        got: list[str] = []

        def other() -> None:
            with acquire(
                "cuda:1", count=of(3), folder=tmp_path, note=lambda line: waiting.set(), poll_s=0.01
            ) as name:
                got.append(name)

        thread = threading.Thread(target=other)
        thread.start()
        assert waiting.wait(PATIENCE_S)
        assert got == []
    thread.join(PATIENCE_S)
    assert got == ["cuda:1"]


def test_jobs_that_share_spread_over_the_devices_and_fill_their_slots(tmp_path: Path) -> None:
    with ExitStack() as stack:
        shared = [
            stack.enter_context(acquire("cuda", jobs=2, count=of(2), folder=tmp_path, note=never_said))
            for _ in range(4)
        ]
        assert shared == ["cuda:0", "cuda:1", "cuda:0", "cuda:1"]
        for jobs in (2, 1):  # neither a fifth nor one that wants a device alone
            more = acquire("cuda", jobs=jobs, count=of(2), folder=tmp_path, note=stop)
            with pytest.raises(Waited), more:
                pass
    alone = acquire("cuda:0", count=of(1), folder=tmp_path, note=never_said)
    eighth = acquire("cuda", jobs=8, count=of(1), folder=tmp_path, note=stop)
    with alone, pytest.raises(Waited), eighth:
        pass


def test_the_number_of_jobs_on_a_device_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert devices.jobs_per_device() == 1
    monkeypatch.setenv(devices.VARIABLE, "8")
    assert devices.jobs_per_device() == 8
    for wrong in ("0", "65", "two"):
        monkeypatch.setenv(devices.VARIABLE, wrong)
        with pytest.raises(ValueError, match="allowed are whole numbers from 1 to 64"):
            devices.jobs_per_device()


def test_the_cpu_needs_no_lock_and_no_count(tmp_path: Path) -> None:
    with (
        acquire("cpu", count=never, folder=tmp_path) as one,
        acquire("cpu", count=never, folder=tmp_path) as two,
    ):
        assert (one, two) == ("cpu", "cpu")
    assert list(tmp_path.iterdir()) == []


def test_auto_falls_to_the_cpu_with_a_note_of_one_line(tmp_path: Path) -> None:
    lines: list[str] = []
    with acquire("auto", count=of(0), note=lines.append, folder=tmp_path) as name:
        assert name == "cpu"
    assert len(lines) == 1
    assert "no CUDA" in lines[0]
    assert "\n" not in lines[0]


@pytest.mark.parametrize(
    ("device", "count", "says"),
    [
        ("cuda", 0, "sees no CUDA device"),
        ("cuda:0", 0, "sees no CUDA device"),
        ("cuda:4", 4, "cuda:0 to cuda:3"),
        ("gpu", 4, "auto, cpu, cuda or cuda:N"),
        ("cuda:", 4, "auto, cpu, cuda or cuda:N"),
        ("cuda:-1", 4, "auto, cpu, cuda or cuda:N"),
        ("", 4, "auto, cpu, cuda or cuda:N"),
    ],
)
def test_a_wrong_device_is_one_line(tmp_path: Path, device: str, count: int, says: str) -> None:
    with (
        pytest.raises(ValueError, match="--device") as caught,
        acquire(device, count=of(count), folder=tmp_path),
    ):
        pass
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def locks(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_lock_belongs_to_the_physical_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs that see different devices under the same index do not wait; under different indices they do."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    with acquire("auto", count=of(2), folder=tmp_path) as first:
        assert first == "cuda:0"
        assert locks(tmp_path) == {"cuda-2.lock"}
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2")
        with acquire("auto", count=of(2), folder=tmp_path, note=never_said) as second:
            assert second == "cuda:0"
            with pytest.raises(Waited), acquire("cuda:1", count=of(2), folder=tmp_path, note=stop):
                pass


class Waited(Exception):
    """Raised in place of waiting."""


def stop(line: str) -> None:
    raise Waited(line)


def test_devices_of_two_allocations_are_different(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SLURM numbers the devices of each job from 0; without gres, jobs of one node do share the device."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    with acquire("auto", count=of(1), folder=tmp_path):
        monkeypatch.setenv("SLURM_JOB_ID", "8")
        with pytest.raises(Waited), acquire("auto", count=of(1), folder=tmp_path, note=stop):
            pass
    monkeypatch.setenv("SLURM_JOB_GPUS", "5")
    with acquire("auto", count=of(1), folder=tmp_path):
        monkeypatch.setenv("SLURM_JOB_ID", "9")
        with acquire("auto", count=of(1), folder=tmp_path, note=stop) as name:
            assert name == "cuda:0"


def test_identifiers_of_any_form_make_file_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-8932f937-d72c,MIG-GPU-1/7/0")
    with acquire("cuda:0", count=of(2), folder=tmp_path), acquire("cuda:1", count=of(2), folder=tmp_path):
        assert "cuda-GPU-8932f937-d72c.lock" in locks(tmp_path)
        assert len(locks(tmp_path)) == 2


def test_the_folder_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = lock_folder()
    assert folder == tmp_path / f"relearn-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert lock_folder() == tmp_path / "relearn"
    monkeypatch.setattr(devices.os, "getuid", lambda: 12345)
    with pytest.raises(ValueError, match="belongs to another user"):
        lock_folder()
