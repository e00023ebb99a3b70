"""Two studies on a machine with the packages of a GPU node alone: packed, run there, brought home, and done for both engines."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from relearn.studies import parameters
from relearn.studies.study import load

from . import bare_environment
from .conftest import CHECKOUT, PARTS

pytestmark = pytest.mark.slow

# Absent there, or there only because another package wants it: no module of ours may ask for it.
DENY = """\
import importlib.abc
import sys

NAMES = {"snakemake", "dvc", "mlflow", "pydantic", "yaml", "jinja2", "pyarrow", "matplotlib", "seaborn", "pooch", "requests"}


class Deny(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        frame = sys._getframe(1)
        while frame is not None and "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        if name.partition(".")[0] in NAMES and frame is not None and "/src/relearn/" in frame.f_code.co_filename:
            raise ImportError(f"{name}: not on this machine")


sys.meta_path.insert(0, Deny())
"""


def run(*words: str | Path, cwd: Path, **environment: str) -> str:
    env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "RELEARN_WARM")}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**env, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A checkout."""
    for part in PARTS:
        source, target = CHECKOUT / part, tmp_path / "here" / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, target)
    return tmp_path / "here"


def targets() -> list[str]:
    """One run that reads data and writes weights, and one of another study."""
    params = parameters.load(CHECKOUT / "params.yaml")
    starts = load("gradinit").part("plan").plan(params, "mini")["initialise"].paths()
    theorems = load("lrformer").part("plan").plan(params, "mini")["check_theorems"].paths()
    return [starts[0], theorems[0]]


def test_two_studies_there_and_back(here: Path, tmp_path: Path) -> None:
    relearn = (sys.executable, "-m", "relearn")
    ours = {"PYTHONPATH": str(here / "src")}
    told = run(*relearn, "pack", "--study", *targets(), "--out", "out/pack.tar", cwd=here, **ours)
    assert "2 jobs of 2 steps, 1 are done here; 2 files of data" in told

    node = tmp_path / "node"
    python = bare_environment.make(tmp_path / "environment")
    (next((tmp_path / "environment/lib").glob("python*/site-packages")) / "sitecustomize.py").write_text(DENY)
    ask = "import importlib.util as u; print(*filter(u.find_spec, ['snakemake', 'dvc', 'mlflow', 'torch']))"
    assert run(python, "-c", ask, cwd=tmp_path) == "torch\n"
    with tarfile.open(here / "out/pack.tar") as tar:
        tar.extractall(node, filter="data")
    told = run(
        "sh", "run.sh", "--jobs", "1", "--minutes", "9", "--weights", "none", cwd=node, PYTHON=str(python)
    )
    parts = sorted((node / "home").iterdir())
    assert 1 <= len(parts) <= 8 and all(part.stat().st_size <= 16 * 2**20 for part in parts)
    assert "1 files of weights or checkpoints stay here" in told

    told = run(*relearn, "adopt", *parts, cwd=here, **ours)
    assert "adopted 2 records, 1 were here" in told and "1 files stayed on the other machine" in told
    bin_folder = Path(sys.executable).parent
    told = run(bin_folder / "snakemake", "-n", *targets(), cwd=here, **ours)
    assert "Nothing to be done" in told
    record = json.loads((here / targets()[0]).read_bytes())
    assert record["code"]["commit"] == json.loads((node / "packed.json").read_text())["commit"]
    assert not (here / targets()[0]).with_name("weights.safetensors").exists()

    run(
        "sh", "run.sh", "--weights", "fit", cwd=node, PYTHON=str(python)
    )  # nothing to do: the weights, on request
    told = run(*relearn, "adopt", *sorted((node / "home").iterdir()), cwd=here, **ours)
    assert "stayed on the other machine" not in told
    assert (here / targets()[0]).with_name("weights.safetensors").exists()
    assert not (here / targets()[0]).with_name("left_behind.json").exists()
