"""Provenance says what it knows and null where it cannot know, and costs what the clock says."""

import subprocess
import sys
from pathlib import Path

import pytest

from relearn.runs import provenance


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True)


def test_commit_and_dirty_flag_follow_the_package_s_own_files(tmp_path: Path) -> None:
    package = tmp_path / "src"
    package.mkdir()
    (package / "a.py").write_text("x = 1\n")
    (tmp_path / "params.yaml").write_text("scale: mini\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    clean = provenance.code("v", package)
    assert clean["dirty"] is False and len(clean["commit"]) == 40
    (tmp_path / "params.yaml").write_text("scale: small\n")
    assert provenance.code("v", package)["dirty"] is False  # parameters stand in the settings
    (package / "a.py").write_text("x = 2\n")
    assert provenance.code("v", package)["dirty"] is True
    git(tmp_path, "checkout", "-q", "src/a.py")
    (package / "b.py").write_text("")
    assert provenance.code("v", package)["dirty"] is True


def test_no_repository_and_no_git_are_null(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    found = provenance.code("v", tmp_path)
    assert (found["commit"], found["dirty"]) == (None, None)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = provenance.code("v")
    assert (found["version"], found["commit"], found["dirty"]) == ("v", None, None)


def test_packages_are_named_with_their_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy
    import torch

    found = provenance.packages()
    assert found["numpy"] == numpy.__version__ and found["torch"] == torch.__version__
    monkeypatch.setattr(provenance, "PACKAGES", ("no-such-package",))
    assert provenance.packages()["no-such-package"] is None


def test_a_machine_is_described_without_cuda_where_there_is_none() -> None:
    found = provenance.machine("cpu", "fp32", 2)
    assert (found["device"], found["threads"], found["device_name"]) == ("cpu", 2, found["cpu"])
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))


def test_cost_counts_this_process_and_its_children() -> None:
    """A child that burns 0.3 CPU seconds: they are added, and this process's own memory is seen."""
    meter = provenance.Meter()
    burn = "import time\nt = time.process_time()\nwhile time.process_time() < t + 0.3: pass"
    subprocess.run([sys.executable, "-c", burn], check=True)
    held = b"x" * 50_000_000
    cost = meter.read("cpu")
    assert cost["cpu_s"] >= 0.3 and cost["wall_s"] >= 0.3 and cost["device_s"] is None
    assert cost["peak_memory_bytes"] > len(held)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("model name\t: Fast 3000\nflags\t\t: fpu avx2\nmodel name\t: Fast 3000\nflags\t\t: amx_bf16", "Fast 3000, AVX2"),
        ("model name\t: Fast 3000\nflags\t\t: avx512_bf16 avx2 avx512f", "Fast 3000, AVX-512 with bf16"),
        ("model name\t: Old 1\nflags\t\t: fpu", "Old 1"),
        ("processor\t: 0\nModel\t\t: A Board\n", "A Board"),
        ("flags\t\t: avx2", ""),
    ],
)  # fmt: skip
def test_a_processor_is_named_with_its_widest_vector_instructions(text: str, name: str) -> None:
    assert provenance.cpu_name(text) == name
