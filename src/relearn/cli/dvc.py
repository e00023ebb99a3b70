"""relearn dvc: print dvc.yaml, one stage per study; `relearn dvc > dvc.yaml` updates it.

A stage's command is the study's Snakemake target, so that `dvc repro` and `snakemake` find each other's results; it starts Snakemake
only if `relearn code --done` reports that something is left to do. A stage depends on its section of params.yaml, on its file of
results/code, and on the runs of other studies that its own runs read at some scale.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import yaml

from relearn.params.reading import SCALES
from relearn.studies import STUDIES, parameters
from relearn.studies.study import all_studies

HEAD = """\
# DVC's view of the DAG: one stage per study. Printed by `relearn dvc > dvc.yaml`; do not edit.
#
# A stage's command is a Snakemake target, so that `dvc repro` and `snakemake` find what the other has made. Snakemake decides which
# jobs of a stage run. The stage `code` checks params.yaml and writes a file of each study to results/code anew each time: the code
# version of every run, and a hash of its settings and of the names of its inputs. An edited formula, an overlay and the grid of runs
# therefore make a stage stale, too.
#
# Outputs are in DVC's cache and not in git. Commit dvc.lock after a run that you want to return to or to compare with;
# docs/change-a-parameter.md shows how.
"""
CODE = "results/code"
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
# Figures drawn as lines (or bars) of one column over another: (x, y) and the figures. Every figure is also included as a picture.
LINES = {
    ("x", "value"): ("zhu2022.fig2.11",),
    ("iteration", "loss"): ("zhu2022.fig2.3",),
    ("epoch", "accuracy"): ("zhu2022.fig4.2",),
    ("epoch", "value"): ("qi2023.fig4",),
    ("epoch", "mean"): ("qi2023.fig5",),
    ("layer", "value"): (*(f"zhu2022.fig4.{n}" for n in (1, 4, 5, 6, 7, 8, 9, 10)), "zhu2022.fig5.6"),
    ("length", "value"): ("kim2020.fig2", "kim2020.fig7", "zhu2022.fig5.5"),
    ("iteration", "error"): ("kim2020.fig3", "kim2020.fig5", "kim2020.fig6"),
    ("step", "nll"): ("kim2020.fig4", "kim2020.fig9", "kim2020.fig11"),
    ("depth", "value"): ("addition.layer_scale_accuracy",),
    ("confidence", "accuracy"): ("addition.lrformer_reliability",),
}
BARS = {
    ("victim", "success"): ("zhu2022.fig2.5", "zhu2022.fig2.6", "zhu2022.fig2.7"),
    ("victim", "value"): ("zhu2022.fig2.9",),
}
RESULTS = "results/${scale}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--params", type=Path, default=Path("params.yaml"), help="the parameter file")


def main(args: argparse.Namespace) -> int:
    print(text(args.params), end="")
    return 0


def text(params: Path) -> str:
    """The whole of dvc.yaml."""
    read = reads(params)
    stages = {
        "code": {
            "desc": "params.yaml is checked; what every run is made of goes to results/code",
            "cmd": f"relearn code --out {CODE}",
            "always_changed": True,
            "outs": [{f"{CODE}/{name}.json": {"persist": True}} for name in (*STUDIES, "render")],
        },
        **{study.name: _stage(study.name, study.title, read[study.name]) for study in all_studies()},
        "render": {
            "desc": "tables, figures, verdicts and the report of all studies, from the records alone",
            "cmd": "snakemake --allowed-rules render render_all -- render_all",
            "params": ["scale"],
            "deps": [
                f"{CODE}/render.json",
                "params/paper.yaml",
                *(f"src/relearn/studies/{study.name}/reported" for study in all_studies()),
                *(f"{RESULTS}/runs/{study.name}" for study in all_studies()),
            ],
            "outs": [{f"{RESULTS}/{name}": {"persist": True}} for name in RENDERED],
            "metrics": [{f"{RESULTS}/metrics.json": {"persist": True}}],
        },
    }
    tree = {"stages": stages, "params": ["params.yaml"], "plots": plots()}
    return HEAD + yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=140)


def _stage(name: str, title: str, others: list[str]) -> dict[str, Any]:
    return {
        "desc": title,
        "cmd": [
            f"mkdir -p {RESULTS}/runs/{name}",
            f"relearn code --done {name} || snakemake -- {name}",
        ],
        "params": ["scale", name],
        "deps": [f"{CODE}/{name}.json", *(f"{RESULTS}/runs/{other}" for other in others)],
        "outs": [{f"{RESULTS}/runs/{name}": {"persist": True}}],
    }


def plots() -> list[dict[str, Any] | str]:
    """Figures drawn by DVC from their data points, each with its title; then every figure as a picture, which needs no network."""
    from relearn.report import artefacts
    from relearn.report.used_by import short_name

    known = artefacts.load({study.name: study.reported for study in all_studies()})
    found: list[dict[str, Any] | str] = []
    for template, shapes in (("lines", LINES), ("bars", BARS)):
        for (x, y), names in shapes.items():
            for name in names:
                paper = name.partition(".")[0]
                title = (
                    f"{paper} {short_name(name)}: {known[name].title}"
                    if short_name(name) != name
                    else known[name].title
                )
                points = {f"{RESULTS}/figures/{name}.csv": y}
                found.append({title: {"x": x, "y": points, "template": f".dvc/plots/{template}.json"}})
    pictures = ["claims_forest", *(one.id for one in known.values() if one.kind == "figure")]
    return [*found, *(f"{RESULTS}/figures/{name}.png" for name in pictures)]


def reads(params: Path) -> dict[str, list[str]]:
    """For each study, the other studies whose runs its own runs read at any scale."""
    found: dict[str, set[str]] = {study.name: set() for study in all_studies()}
    for scale in SCALES:
        values = parameters.load(params, scale=scale)
        for study in all_studies():
            for family in study.part("plan").plan(values, scale).values():
                for run in family.runs:
                    paths = [path for group in family.inputs_of(**run).values() for path in group]
                    found[study.name] |= {path.split("/")[3] for path in paths}
    return {name: sorted(others - {name}) for name, others in found.items()}
