"""A full, read-only or quota-limited disk and too little memory: a one-line error and no torn file."""

import shutil
from typing import Any

import pytest

from relearn.runs import spool


def skip_without_mounts(job: Any) -> None:
    if "Operation not permitted" in job.said and "unshare" in job.said:
        pytest.skip("needs the right to mount a small file system")


def test_a_full_disk_at_a_checkpoint_leaves_the_one_before_it(desk: Any, reference: Any) -> None:
    """The work folder is a disk of 1 MiB: the first checkpoint fits, the second does not; then it is enlarged."""
    source = f"""
own_mounts()
small_disk("results/mini/work", "1m")
first = relearn(*{desk.pretrain()!r})
Path("seen").write_text(repr(sorted(path.name for path in Path("results/mini/work").rglob("*"))))
small_disk("results/mini/work", "16m")
print("--", first, flush=True)
code = relearn(*{desk.pretrain()!r})
"""
    job = desk.start(source)
    ended = job.wait()
    skip_without_mounts(job)
    before, _, after = job.said.partition("-- 4\n")
    line = before.strip().splitlines()[-1]
    assert (
        line.startswith("relearn poisoning pretrain: results/mini/work/")
        and "No space left on device (0 MiB free)" in line
    )
    seen = (desk.root / "seen").read_text()
    assert "0.json" in seen and "0.safetensors" in seen and "1.json" not in seen and "tmp" not in seen
    assert ended == 0 and "warning" not in after.lower(), job.said
    assert desk.outputs("net") == reference.outputs("net")
    assert desk.story().attempts == 2 and desk.leftovers() == []


def test_a_full_disk_at_the_result_costs_one_interval(desk: Any, reference: Any) -> None:
    """The run's folder is a disk of 64 KiB: too small for the weights, which their library writes by itself."""
    source = f"""
own_mounts()
small_disk("results/mini/runs/poisoning/net", "64k")
first = relearn(*{desk.pretrain()!r})
Path("seen").write_text(repr(sorted(path.name for path in Path("results/mini/runs/poisoning/net").rglob("*"))))
small_disk("results/mini/runs/poisoning/net", "16m")
print("--", first, flush=True)
code = relearn(*{desk.pretrain()!r})
import shutil
shutil.copytree("results/mini/runs/poisoning/net", "copy")
"""
    job = desk.start(source)
    ended = job.wait()
    skip_without_mounts(job)
    before, found, _ = job.said.partition("-- 4\n")
    line = before.strip().splitlines()[-1]
    assert found and "net/weights.safetensors: No space left on device (" in line and "MiB free)" in line, (
        job.said
    )
    assert (desk.root / "seen").read_text() == "[]"  # no half weights, no record
    assert ended == 0, job.said
    shutil.copytree(desk.root / "copy", desk.path("net"), dirs_exist_ok=True)
    assert desk.outputs("net") == reference.outputs("net")
    again = [line for line in desk.spool().read_text().splitlines() if '"metrics"' in line]
    assert len(again) <= 20 + 2  # epochs, and those of one interval between checkpoints


@pytest.mark.parametrize("place", ["runs/poisoning/net", "work", "spool"])
def test_a_folder_that_cannot_be_written_is_found_before_any_work(desk: Any, place: str) -> None:
    job = desk.start(
        f"own_mounts()\nos.makedirs('results/mini/{place}', exist_ok=True)\n"
        f"read_only('results/mini/{place}')\ncode = relearn(*{desk.pretrain()!r})"
    )
    ended = job.wait()
    skip_without_mounts(job)
    assert ended == 4, job.said
    assert f"results/mini/{place}" in job.said
    assert job.last.endswith("Read-only file system, the run needs to write there")
    assert len(job.said.splitlines()) == 1  # no epoch before it
    assert not (desk.path("net") / "record.json").exists()


def test_a_ration_is_a_resource_like_the_disk(desk: Any, reference: Any) -> None:
    """No file may grow beyond 100 kB, as under a quota: the first checkpoint is refused."""
    before = "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))"
    job = desk.run(*desk.pretrain(), before=before)
    assert job.wait() == 4
    assert "File too large (" in job.last and "MiB free)" in job.last and "results/mini/work/" in job.last
    assert desk.leftovers() == [] and desk.story().status == spool.FAILED
    job = desk.run(*desk.pretrain())
    assert job.wait() == 0 and desk.outputs("net") == reference.outputs("net")


def test_too_many_open_files_is_one_line(desk: Any) -> None:
    before = (
        "resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir('/proc/self/fd'))) + 1, 4096))"
    )
    job = desk.run(*desk.pretrain(), before=before)
    assert job.wait() == 4, job.said
    assert "Too many open files" in job.last and "Traceback" not in job.said


HOLD = """
held = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmSize:"))
resource.setrlimit(resource.RLIMIT_AS, ((held + {more}) * 1024, resource.RLIM_INFINITY))
"""


def test_out_of_memory_is_a_resource_and_names_the_peak(desk: Any) -> None:
    job = desk.run(*desk.pretrain(width=1.0), before=HOLD.format(more=20_000))
    assert job.wait() == 4, job.said
    assert job.last.startswith("relearn poisoning pretrain: out of memory, the peak was ")
    assert "MiB of host memory" in job.last and "Traceback" not in job.said
    assert desk.story().status == spool.FAILED and desk.leftovers() == []
