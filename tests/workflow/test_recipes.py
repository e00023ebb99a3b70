"""The lists of docs/extending.md, "Add a method" and "Add a study", followed to the letter on a scratch copy with real jobs."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import CHECKOUT, Scratch

pytestmark = pytest.mark.slow  # real jobs: a minute

DEFENCE = '''"""Median outliers: drop the points farthest from the median of their class."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relearn.methods.detector import Detector, share_of


class MedianOutliers(Detector):
    """Drop the share ``fraction`` of each class that lies farthest from the class's coordinate-wise median."""

    def __init__(self, fraction: float = 0.1) -> None:
        self.fraction = fraction

    def _keep(self, X: Tensor, y: NDArray[np.int64], member: int) -> NDArray[np.bool_]:
        share_of(self.fraction, 0)
        keep = np.ones(len(y), dtype=bool)
        for label in np.unique(y):
            rows = np.flatnonzero(y == label)
            far = torch.linalg.vector_norm(X[rows] - X[rows].median(dim=0).values, dim=1)
            dropped = share_of(self.fraction, len(rows))
            keep[rows[far.argsort(descending=True, stable=True)[:dropped].cpu().numpy()]] = False
        return keep
'''
TEST = '''"""Median outliers against a slow truth."""

import numpy as np
import torch
from relearn.methods.median_outliers import MedianOutliers


def test_the_farthest_goes():
    points = torch.tensor([[0.0], [1.0], [2.0], [50.0]])
    assert (MedianOutliers(0.25).fit_predict(points, np.zeros(4)) == [1, 1, 1, -1]).all()
'''

STUDY = "coin"
FILES = {
    "__init__.py": "",
    "README.md": "# A coin\n\nIt comes down heads in half of the tosses.\n",
    "study.py": '''"""Identity of the study."""

from relearn.studies.study import Study

STUDY = Study(
    name="coin", paper="touvron2021", title="A coin", chapter="", steps={"toss": "relearn.studies.coin.steps.toss"}
)
''',
    "params.py": '''"""The section ``coin`` of params.yaml."""

from relearn.params.types import Count, Section, Seeds


class Coin(Section):
    seeds: Seeds
    tosses: Count


SECTION = Coin
''',
    "plan.py": '''"""The runs of the study."""

from relearn.studies.family import Family, Needs


def plan(params, scale):
    """The families of runs by step."""
    own = params["coin"]
    toss = Family(
        study="coin",
        step="toss",
        scale=scale,
        folder="",
        cells=[{}],
        seeds=own["seeds"],
        settings={"tosses": own["tosses"]},
        needs=Needs(mem_mb=100, minutes=1, gpu=0),
    )
    return {"toss": toss}
''',
    "steps/__init__.py": "",
    "steps/toss.py": '''"""Toss a coin, ``tosses`` times. Metrics: the share of heads."""

import random
from dataclasses import dataclass

NEEDS_TORCH = False


@dataclass(frozen=True, kw_only=True)
class Settings:
    tosses: int


def run(run, settings, inputs, device, precision):
    """See the module."""
    draw = random.Random(run.seed)
    heads = sum(draw.random() < 0.5 for _ in range(settings.tosses))
    run.finish({"heads_frac": heads / settings.tosses})
''',
    "claims/__init__.py": '"""Predicates of the study: none."""\n\nPREDICATES = {}\n\n\ndef power(comparison, evidence):\n    return []\n',
    "figures/__init__.py": "",
    "reported/analysis.yaml": "{}\n",
    "reported/claims.yaml": "{}\n",
    "reported/figures.yaml": "{}\n",
    "reported/tables.yaml": """addition.coin:
  addition: true
  head: Coin
  title: "Addition, no table of the paper: a coin"
  caption: Share of heads.
  where:
    - {study: coin, step: toss}
  rows:
    - {id: coin, title: Ours, where: {step: toss}}
  groups:
    - {id: "", title: Tosses, where: {step: toss}}
  measures:
    - {id: heads, title: Heads, quantity: toss.heads_frac, unit: fraction, direction: higher}
""",
}


class House(Scratch):
    """A scratch checkout whose jobs are the real ones, and which knows what was edited in it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        program = root / "bin" / "relearn"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m relearn "$@"\n')
        self.touched: dict[str, str | None] = {}
        self.env.pop("PRETEND_CALLS")

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        self.touched.setdefault(path, file.read_text() if file.exists() else None)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def insert(self, path: str, before: str, text: str) -> None:
        found = (self.root / path).read_text()
        assert found.count(before) >= 1, f"{path} holds no {before!r}"
        self.write(path, found.replace(before, text + before, 1))

    def undo(self) -> None:
        for path, text in self.touched.items():
            (self.root / path).unlink() if text is None else (self.root / path).write_text(text)

    def records(self) -> list[str]:
        """The records that the pipeline would make."""
        script = self.run("relearn", "jobs").stdout
        return [
            f"{folder}/record.json"
            for folder in re.findall(r"^# \d+ \S+: (\S+/runs/\S+)$", script, re.MULTILINE)
        ]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path / "checkout")
    yield made


def listed(heading: str) -> list[str]:
    """The files behind the numbers of a section of docs/extending.md."""
    section = (CHECKOUT / "docs/extending.md").read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\d+\. `([^`]+)`", section, re.MULTILINE)


def test_a_defence_is_added_by_the_files_that_the_page_lists(house: House) -> None:
    before = house.records()
    house.write("src/relearn/methods/median_outliers.py", DEFENCE)
    entry = '    "median_outliers": "relearn.methods.median_outliers:MedianOutliers",\n'
    house.insert("src/relearn/methods/__init__.py", '    "one_class_svm":', entry)
    section = "class MedianOutliers(Section):\n    fraction: Share\n\n\n"
    before_filter = '@also(plugins.installed()["relearn.defences"]'
    house.insert("src/relearn/studies/poisoning/params.py", before_filter, section)
    house.insert(
        "src/relearn/studies/poisoning/params.py",
        "    one_class_svm: OneClassSVM\n",
        "    median_outliers: MedianOutliers\n",
    )
    house.insert("params/paper.yaml", "    one_class_svm:", "    median_outliers: {fraction: 0.1}\n")
    house.write("params.yaml", (house.root / "params.yaml").read_text())
    house.set(
        {
            "poisoning.filter.median_outliers": {"fraction": 0.1},
            "poisoning.studies.transfer.feature_collision": ["median_outliers"],
        }
    )
    house.write("tests/methods/test_median_outliers.py", TEST)
    names = [path.replace("<name>", "median_outliers") for path in listed("Add a method")]
    assert sorted(house.touched) == sorted(names)

    new = sorted(set(house.records()) - set(before))
    filtered = [path for path in new if "/filter/transfer/feature_collision/median_outliers/" in path]
    assert filtered
    contract = [CHECKOUT / "tests/methods/test_detector.py", house.root / "tests/methods"]
    house.run(
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(CHECKOUT)),
        *("-c", str(CHECKOUT / "pyproject.toml"), "-k", "median", *map(str, contract)),
    )
    house.run("snakemake", "--cores", "2", "--quiet", "all", "--", filtered[0])
    record = json.loads((house.root / filtered[0]).read_text())
    assert record["outcome"] == "ok"
    house.run("relearn", "render", "--root", "results/mini", "--params", "params.yaml")
    house.undo()


def test_a_study_is_added_by_the_files_that_the_page_lists(house: House) -> None:
    before = house.records()
    inside = f"src/relearn/studies/{STUDY}"
    for name, text in FILES.items():
        house.write(f"{inside}/{name}", text)
    entry = f'    "{STUDY}": "relearn.studies.{STUDY}.study:STUDY",\n'
    house.insert("src/relearn/studies/__init__.py", '    "lrformer":', entry)
    own = f"{STUDY}:\n  seeds: [0, 1]\n  tosses: 100\n"
    for file in ("params.yaml", "params/paper.yaml"):
        house.write(file, (house.root / file).read_text() + own)
    house.write("dvc.yaml", house.run("relearn", "dvc").stdout)
    outside = [path for path in house.touched if not path.startswith(inside)]
    assert sorted(outside) == sorted(path.replace("<study>", STUDY) for path in listed("Add a study"))
    new = sorted(set(house.records()) - set(before))
    assert new == [f"results/mini/runs/{STUDY}/toss/seed{seed}/record.json" for seed in (0, 1)]
    house.run("snakemake", "--cores", "2", "--quiet", "all", "--", STUDY)
    house.run("relearn", "render", "--root", "results/mini", "--params", "params.yaml")
    table = (house.root / "results/mini/tables/addition.coin.md").read_text()
    assert re.search(r"\d\d\.\d", table)
    house.undo()
    assert house.records() == before
