"""The Makefile: help by default, the scale that is asked for, and every target that the documents name."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the Makefile and an environment that is ready, so that no recipe installs anything."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(REPOSITORY / name, tmp_path)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/.ready").touch()
    return tmp_path


def make(checkout: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    inherited = {
        key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "SCALE", "CORES"))
    }
    return subprocess.run(
        ["make", *words], cwd=checkout, env=inherited | variables, capture_output=True, text=True, check=False
    )


def snakemake(done: subprocess.CompletedProcess[str]) -> str:
    (line,) = (line for line in done.stdout.splitlines() if " snakemake " in line)
    return line.partition(" snakemake ")[2]


def test_the_scale_that_is_asked_for_is_run(checkout: Path) -> None:
    assert snakemake(make(checkout, "-n", "reproduce", "SCALE=small")) == "--cores all --config scale=small"
    assert snakemake(make(checkout, "-n", "reproduce", SCALE="small")) == "--cores all --config scale=small"


def test_otherwise_the_parameters_decide(checkout: Path) -> None:
    assert snakemake(make(checkout, "-n", "reproduce")) == "--cores all"
    assert " relearn publish\n" in make(checkout, "-n", "publish").stdout
    words = ("-n", "publish", "SCALE=small", "FLAGS=--allow-mixed")
    assert " relearn publish --scale small --allow-mixed\n" in make(checkout, *words).stdout


def test_bare_make_lists_every_target_and_starts_nothing(checkout: Path) -> None:
    before = sorted(checkout.rglob("*"))
    bare = make(checkout)
    assert bare.returncode == 0 and bare.stdout == make(checkout, "help").stdout
    phony = re.search(r"^\.PHONY: (.*)$", (checkout / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    assert [line.split()[:2] for line in bare.stdout.splitlines()] == [
        ["make", name] for name in phony[1].split()
    ]
    assert all(len(line) <= 110 for line in bare.stdout.splitlines())
    assert sorted(checkout.rglob("*")) == before


def test_an_unknown_target_leads_to_the_list(checkout: Path) -> None:
    done = make(checkout, "reprodcue")
    assert done.returncode == 2 and done.stderr.startswith(
        "make: no target 'reprodcue'; make help lists all\n"
    )


def test_every_target_in_the_documents_is_there(checkout: Path) -> None:
    listed = {line.split()[1] for line in make(checkout).stdout.splitlines()}
    documents = [REPOSITORY / "README.md", *(REPOSITORY / "docs").glob("*.md")]
    named = {
        name
        for path in documents
        for name in re.findall(r"(?:^|`)make ([a-z]+)", path.read_text(), re.MULTILINE)
    }
    assert {"reproduce", "test", "ui"} <= named <= listed
