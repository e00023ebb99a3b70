"""relearn dvc: print dvc.yaml from the studies' plans, one stage per study; `relearn dvc > dvc.yaml` updates it.

A stage's command is the study's Snakemake target, so that `dvc repro` and `snakemake` find what the other has made. A stage depends
on its section of params.yaml, on its part of results/code.json, and on the runs of other studies that its own runs read at some scale.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import yaml

from relearn.params.reading import SCALES
from relearn.studies import parameters
from relearn.studies.study import all_studies

HEAD = """\
# DVC's view of the DAG: one stage per study. Printed by `relearn dvc > dvc.yaml`; do not edit.
#
# A stage's command is a Snakemake target, so that `dvc repro` and `snakemake` find what the other has made. Snakemake decides which
# jobs of a stage run. The stage `code` writes results/code.json anew each time: the code version of every job, and a hash of its
# settings and of the names of its inputs. An edited formula, an overlay and the grid of runs therefore make a stage stale, too.
#
# Outputs are in DVC's cache and not in git. Commit dvc.lock after a run that you want to return to or to compare with: `dvc params diff`,
# `dvc metrics diff`; `dvc checkout`, then `relearn adopt`, which checks the files.
"""
RENDERED = (
    "tables",
    "figures",
    "claims.md",
    "claims.json",
    "coverage.csv",
    "deviations.md",
    "settings.md",
    "report.html",
)
PLOTS = [
    {
        "figure 2.5, success of each attack": {
            "x": "victim",
            "y": {"results/${scale}/figures/zhu2022.fig2.5.csv": "success"},
            "template": ".dvc/plots/bars.json",
        }
    },
    {
        "figure 2.11, Deep k-NN against k": {
            "x": "x",
            "y": {"results/${scale}/figures/zhu2022.fig2.11.csv": "value"},
            "template": ".dvc/plots/lines.json",
        }
    },
]
RESULTS = "results/${scale}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--params", type=Path, default=Path("params.yaml"), help="the parameter file")


def main(args: argparse.Namespace) -> int:
    print(text(args.params), end="")
    return 0


def text(params: Path) -> str:
    """The whole file."""
    read = reads(params)
    stages = {
        "code": {
            "desc": "params.yaml is checked; what every job is made of goes to results/code.json",
            "cmd": ["relearn validate", "relearn code --out results/code.json"],
            "always_changed": True,
            "outs": [{"results/code.json": {"persist": True}}],
        },
        **{study.name: _stage(study.name, study.title, read[study.name]) for study in all_studies()},
        "render": {
            "desc": "tables, figures, verdicts and the report of all studies, from the records alone",
            "cmd": "snakemake --allowed-rules render render_all -- render_all",
            "deps": [
                *(f"src/relearn/studies/{study.name}/reported" for study in all_studies()),
                *(f"{RESULTS}/runs/{study.name}" for study in all_studies()),
            ],
            "params": ["scale", {"results/code.json": ["all.render"]}],
            "outs": [{f"{RESULTS}/{name}": {"persist": True}} for name in RENDERED],
            "metrics": [{f"{RESULTS}/metrics.json": {"persist": True}}],
        },
    }
    tree = {"stages": stages, "params": ["params.yaml"], "plots": PLOTS}
    return HEAD + yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=140)


def _stage(name: str, title: str, others: list[str]) -> dict[str, object]:
    stage: dict[str, object] = {
        "desc": title,
        "cmd": [f"mkdir -p {RESULTS}/runs/{name}", f"snakemake -- {name}"],
        "params": ["scale", name, {"results/code.json": [name]}],
        "outs": [{f"{RESULTS}/runs/{name}": {"persist": True}}],
    }
    return {**stage, "deps": [f"{RESULTS}/runs/{other}" for other in others]} if others else stage


def reads(params: Path) -> dict[str, list[str]]:
    """Study to the other studies whose runs its own runs read, at any scale."""
    found: dict[str, set[str]] = {study.name: set() for study in all_studies()}
    for scale in SCALES:
        values = parameters.load(params, scale=scale)
        for study in all_studies():
            for family in study.part("plan").plan(values, scale).values():
                for run in family.runs:
                    paths = [path for group in family.inputs_of(**run).values() for path in group]
                    found[study.name] |= {path.split("/")[3] for path in paths}
    return {name: sorted(others - {name}) for name, others in found.items()}
