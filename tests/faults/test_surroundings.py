"""Clocks, names, environments and machines that differ from ours: the same result, or a stated one."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from relearn.runs import provenance

from .conftest import SPLIT

PROGRAM = [sys.executable, "-m", "relearn"]
WEIRD = "a b;c $(touch owned) `touch owned` & 'q\" é中文 -x " + "long" * 30


@pytest.mark.parametrize("when", [0.0, time.time() + 10 * 365 * 86400], ids=["1970", "in ten years"])
def test_times_of_files_decide_nothing(desk: Any, reference: Any, when: float) -> None:
    """Inputs and a half-done run dated 1970, or in ten years: it resumes, and its result is the same."""
    job = desk.run(*desk.pretrain())
    desk.reached(10, job)
    job.kill()
    job.wait()
    for file in (desk.root / "results").rglob("*"):
        os.utime(file, (when, when))
    told = desk.run("recover")
    assert told.wait() == 0 and "put aside" not in told.said, told.said
    job = desk.run(*desk.pretrain())
    assert job.wait() == 0, job.said
    assert desk.story().attempts == 2 and desk.outputs("net") == reference.outputs("net")


def test_newer_bytes_with_an_older_date_are_seen(desk: Any) -> None:
    """An input that was rebuilt but has the old date: its sha256 differs, so the run that read it is moved aside."""
    assert desk.run(*desk.pretrain(epochs=1)).wait() == 0
    other = {"dataset": "digits", "pretrain_per_class": 9, "fine_tune_per_class": 10, "pool_per_class": 14}
    assert desk.run(*desk.words("prepare_images", "prepare", other)).wait() == 0
    for file in desk.path("prepare").iterdir():
        os.utime(file, (0, 0))
    told = desk.run("recover", "--quick")
    assert told.wait() == 0
    assert "put aside: results/mini/runs/poisoning/net/record.json: made from " in told.said
    assert not (desk.path("net") / "record.json").exists() and (desk.path("prepare") / "record.json").exists()


@pytest.mark.parametrize("name", [WEIRD, "-lead"])
def test_names_are_names_and_never_commands(desk: Any, name: str) -> None:
    folder = desk.root / name
    shutil.copytree(desk.root / "results", folder / "results")
    words = [word.replace("results/mini", f"{name}/results/mini") for word in desk.pretrain(epochs=1)]
    words[words.index("--out") : words.index("--out") + 2] = [f"--out={name}/results/mini/runs/poisoning/net"]
    words[words.index("--input") + 2] = f"./{words[words.index('--input') + 2]}"  # as a shell's user would
    job = desk.run(*words)
    assert job.wait() == 0, job.said
    assert (folder / "results/mini/runs/poisoning/net/record.json").exists()
    assert not list(desk.root.rglob("owned"))


def test_a_name_longer_than_the_file_system_allows_is_one_line(desk: Any) -> None:
    words = desk.words("prepare_images", "p" * 300, SPLIT)
    job = desk.run(*words)
    assert job.wait() == 4 and job.last.endswith("File name too long, the run needs to write there")


def test_locale_timezone_and_hash_seed_change_no_byte(desk: Any, reference: Any) -> None:
    """A separate process that runs in another environment from its first instruction."""
    env = {**os.environ, "LC_ALL": "C", "LANG": "C", "TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "12345"}
    env |= {"PYTHONUTF8": "0", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*PROGRAM, *desk.pretrain()], cwd=desk.root, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert desk.outputs("net") == reference.outputs("net")
    found, other = desk.record("net"), reference.record("net")
    assert (found["run"], found["metrics"], found["inputs"]) == (
        other["run"],
        other["metrics"],
        other["inputs"],
    )


@pytest.mark.slow
def test_one_core_no_vector_units_no_shared_memory(desk: Any) -> None:
    """torch without AVX, on one core, where /dev/shm is a disk of one page: it works, if slower."""
    limits = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import job_forker, os
os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})
try:
    job_forker.own_mounts()
    job_forker.small_disk("/dev/shm", "4k")
except OSError:
    pass
sys.exit(job_forker.relearn(*{[*desk.pretrain(epochs=2), "--threads", "4"]!r}))
"""
    room = os.statvfs("/dev/shm").f_blocks
    env = {**os.environ, "ATEN_CPU_CAPABILITY": "default", "DNNL_MAX_CPU_ISA": "SSE41"}
    done = subprocess.run(
        [sys.executable, "-c", limits], cwd=desk.root, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert desk.record("net")["machine"]["threads"] == 4
    assert os.statvfs("/dev/shm").f_blocks == room  # ours is as large as before


def test_without_git_the_record_says_so_and_the_run_goes_on(desk: Any) -> None:
    settings = desk.record("prepare")["settings"]
    job = desk.run(*desk.words("prepare_images", "again", settings), PATH="/nowhere")
    assert job.wait() == 0, job.said
    code = desk.record("again")["code"]
    assert (code["commit"], code["dirty"]) == (None, None)
    assert code["packages"]["torch"] and code["packages"]["numpy"]


def test_a_shallow_clone_has_its_commit(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        base = ["git", "-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
        return subprocess.run(
            [*base, *words], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    git("init", "-q", "whole")
    for number in range(2):
        (tmp_path / "whole/file").write_text(str(number))
        git("-C", "whole", "add", "file")
        git("-C", "whole", "commit", "-qm", str(number))
    git("clone", "-q", "--depth", "1", f"file://{tmp_path}/whole", "shallow")
    found = provenance.code("v", tmp_path / "shallow")
    assert found["commit"] == git("-C", "whole", "rev-parse", "HEAD").strip() and found["dirty"] is False


def test_a_reader_that_leaves_is_no_fault(desk: Any) -> None:
    """`relearn … | head`: nothing is printed about it, the status is that of a closed pipe."""
    source = "read, write = os.pipe(); os.close(read); os.dup2(write, 1)"
    job = desk.run("validate", "--schema", before=source)
    assert (job.wait(), job.said) == (141, "")


def test_artefacts_may_be_read_by_whom_the_umask_allows(desk: Any) -> None:
    job = desk.run(*desk.pretrain(epochs=1), before="os.umask(0o027)")
    assert job.wait() == 0, job.said
    modes = {path.name: path.stat().st_mode & 0o777 for path in desk.path("net").iterdir()}
    assert modes == {"record.json": 0o640, "weights.safetensors": 0o640}
