"""`relearn render` end to end: on a whole study, on a part of one, and used wrongly."""

import argparse
import contextlib
import csv
import io
import json
import shutil
from pathlib import Path

import pytest

from relearn import cli
from relearn.cli import render
from relearn.report import figures, runs, table_formats
from relearn.runs import code_version
from relearn.runs.record import Run
from relearn.studies.study import all_studies

REPOSITORY = Path(__file__).parents[2]
WHOLE = (
    "claims.md",
    "claims.json",
    "coverage.csv",
    "deviations.md",
    "metrics.json",
    "settings.md",
    "report.html",
)


def call(root: Path, *more: str, scale: str = "mini") -> int:
    parser = argparse.ArgumentParser()
    render.add_arguments(parser)
    fixed = ["--root", str(root), "--scale", scale]
    return render.main(parser.parse_args([*fixed, "--params", str(REPOSITORY / "params.yaml"), *more]))


def train(
    root: Path, attack: str, successes: list[int], victim: str = "ResNet18", study="poisoning", scale="mini"
) -> None:
    out = root / "runs" / study / "train/transfer" / attack / "none" / victim / "seed0"
    labels = {"setting": "transfer", "attack": attack, "defence": "none", "victim": victim}
    run = Run(
        out, study=study, paper="zhu2022", step="train", labels=labels, scale=scale, seed=0, settings={}
    )
    columns = ("target", "k", "chosen", "predicted", "success", "test_accuracy_frac")
    rows = [(target, None, 1, 8, success, 0.9) for target, success in enumerate(successes)]
    with run:
        run.finish(
            {"attack_success_frac": 0.5}, trials=(columns, rows), threat_model={"knowledge": "gray_box"}
        )


@pytest.fixture(scope="module", autouse=True)
def _quick():
    """Figures are drawn, and saved as empty pictures: what is in them is tested in tests/report."""

    def save(figure, stem):
        paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "pdf")]
        for path in paths:
            path.write_bytes(b"a picture")
        return paths

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(figures, "save", save)
        yield


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Two attacks on one victim, without any defence: most of every artefact is missing."""
    root = tmp_path_factory.mktemp("results")
    train(root, "convex_polytope", [1, 1, 0])
    train(root, "feature_collision", [0, 1, 0])
    return root


@pytest.fixture(scope="module")
def first(records, tmp_path_factory):
    """All of it rendered: the folder, the status and what was said. A whole page takes seconds, so it is made once."""
    root = tmp_path_factory.mktemp("rendered")
    shutil.copytree(records / "runs", root / "runs")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        status = call(root)
    return root, status, out.getvalue()


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_a_part_of_a_study_is_rendered_and_called_incomplete(first):
    partial, status, out = first
    assert status == 0
    said = out.splitlines()
    assert "zhu2022.fig2.5: 2 of 16 cells measured" in said
    assert said[-1].startswith("incomplete: zhu2022.fig2.1, zhu2022.fig2.2, ")
    assert "addition" not in said[-1] and any(line.startswith("coverage: ") for line in said)
    for name in WHOLE:
        assert (partial / name).stat().st_size > 0
    for name in ("zhu2022.table2.1", "zhu2022.table2.2"):
        for kind in ("csv", "victims.csv", "md", "tex"):
            assert (partial / "tables" / f"{name}.{kind}").is_file()
    for name in ("zhu2022.fig2.5", "zhu2022.fig2.11"):
        for kind in ("csv", "png", "pdf"):
            assert (partial / "figures" / f"{name}.{kind}").is_file()
    assert "not run" in (partial / "tables/zhu2022.table2.2.md").read_text()


def test_runs_that_are_no_longer_planned_are_left_out_and_named(first, capsys):
    """A victim or seed that was taken out of params.yaml would otherwise count in every mean, with older settings."""
    root = first[0]
    train(root, "convex_polytope", [1, 1, 1], victim="ResNet9")
    other = "runs/poisoning/train/transfer/convex_polytope/none/ResNet9"
    try:
        assert call(root, "--artefact", "zhu2022.fig2.5") == 0
    finally:
        shutil.rmtree(root / other)
    out = capsys.readouterr().out
    assert f"left out: 1 run that the parameters no longer plan, such as {other}/seed0" in out
    assert "2 of 16 cells measured" in out


def test_metrics_hold_verdicts_effects_and_how_far_each_table_is(first):
    text = (first[0] / "metrics.json").read_text()
    found = json.loads(text)
    assert found["claims"]["poisoning"]["cp_beats_fc"] == {"verdict": "underpowered", "effect": 0.333333}
    with open(first[0] / "tables/zhu2022.table2.2.csv", newline="") as lines:
        away = [abs(float(line["deviation"])) for line in csv.DictReader(lines) if line["deviation"]]
    far = found["tables"]["zhu2022_table2_2"]["fraction"]
    assert far == {"deviation": pytest.approx(sum(away) / len(away), rel=1e-5), "cells": len(away)}
    assert (
        "." not in "".join(found["tables"]) and found["coverage"]["measured"] < found["coverage"]["defined"]
    )
    assert set(found) == {"scale", "claims", "tables", "coverage"}


def test_rendering_again_changes_no_byte_and_strict_makes_a_status_of_what_is_missing(first):
    root = first[0]
    before = contents(root)
    assert (root / "report.html").stat().st_size > 0
    for path in before:
        if path.name in WHOLE or path.parent.name in ("tables", "figures"):
            path.write_bytes(b"what was here before")
    assert call(root, "--strict") == 1
    assert contents(root) == before


def test_one_artefact_leaves_the_rest_alone(records, tmp_path, capsys):
    root = tmp_path / "one"
    shutil.copytree(records / "runs", root / "runs")
    assert call(root, "--artefact", "zhu2022.table2.1") == 0
    assert [path.name for path in root.iterdir() if path.name != "runs"] == ["tables"]
    assert capsys.readouterr().out.splitlines()[-1] == "incomplete: zhu2022.table2.1"


def test_an_edited_record_is_left_out_by_name(records, tmp_path, capsys):
    root = tmp_path / "edited"
    shutil.copytree(records / "runs", root / "runs")
    file = root / "runs/poisoning/train/transfer/convex_polytope/none/ResNet18/seed0/record.json"
    file.write_text(file.read_text().replace('"seed": 0', '"seed": 1'))
    assert call(root) == 0
    said = capsys.readouterr().out
    assert "render: left out: " in said and "convex_polytope/none/ResNet18" in said
    assert "zhu2022.fig2.5: 1 of 16 cells measured" in said
    assert "Records that could not be used" in (root / "report.html").read_text()


WRONG = {
    "a misspelt scale": (
        ["--scale", "minni"],
        2,
        "scale: found 'minni' (text), allowed: mini, small, medium, paper; ",
    ),
    "another scale": (["--scale", "small"], 2, "no sound record of scale small; the first of 2: runs/"),
    "a misspelt folder": (["--root", "results/foo"], 3, "--root results/foo: no folder results/foo/runs"),
    "a misspelt table": (
        ["--artefact", "zhu2022.table2.22"],
        2,
        "found zhu2022.table2.22, nearest: zhu2022.table2.2;",
    ),
    "a file as the folder": (
        ["--root", "params.yaml", "--from", "results/mini"],
        2,
        "--root params.yaml: found a file, allowed: a folder",
    ),
    "no parameters": (["--params", "parms.yaml"], 2, "parms.yaml: cannot be read"),
}


@pytest.fixture
def checkout(first, tmp_path, monkeypatch):
    """A checkout with rendered results of scale mini, entered."""
    shutil.copytree(first[0], tmp_path / "results/mini")
    for name in ("params.yaml", "params", "workflow"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_use_is_refused_in_one_line_before_anything_is_written(wrong, checkout, capsys):
    words, status, says = WRONG[wrong]
    root = [] if "--root" in words else ["--root", "results/mini"]
    before = contents(checkout / "results")
    assert cli.main(["render", *root, *words]) == status
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1
    assert contents(checkout / "results") == before
    assert not (checkout / "results/foo").exists()


def test_without_arguments_the_scale_of_the_parameters_is_rendered(checkout, capsys):
    (checkout / "results/mini/tables/zhu2022.table2.1.csv").unlink()
    assert cli.main(["render", "--artefact", "zhu2022.table2.1"]) == 0
    assert (checkout / "results/mini/tables/zhu2022.table2.1.csv").is_file()
    assert cli.main(["render", "--scale", "small"]) == 3  # params.yaml says mini
    for verb in ("render", "publish"):  # no option was given
        assert cli.main([verb, "--scale", "small"]) == 3
        assert f"relearn {verb}: results/small: no folder results/small/runs" in capsys.readouterr().err
    assert cli.main(["render", "--from", f"{REPOSITORY}/results/published"]) == 3
    assert f"; below it: {REPOSITORY}/results/published/mini, " in capsys.readouterr().err


def test_a_published_set_knows_its_scale(checkout):
    assert runs.scale_of(REPOSITORY / "results/published/small_0.7") == "small"
    assert runs.scale_of(checkout) is runs.scale_of(None) is None
    source = ["--from", f"{REPOSITORY}/results/published/small_0.7", "--artefact", "zhu2022.table2.1"]
    assert cli.main(["render", *source]) == 0
    assert (checkout / "results/small/tables/zhu2022.table2.1.md").is_file()


@pytest.mark.parametrize("error", [ValueError("a table"), KeyboardInterrupt()])
def test_a_rendering_that_fails_or_is_interrupted_leaves_the_old_files(error, checkout, monkeypatch):
    def write_one_and_fail(artefact, cells, folder):
        if artefact.id == "zhu2022.table2.2":
            raise error
        write(artefact, cells, folder)
        assert (folder / "zhu2022.table2.1.csv").stat().st_size > 0

    root, write = checkout / "results/mini", table_formats.write
    for file in (root / "tables").iterdir():
        file.write_text("old")
    before = contents(root)
    monkeypatch.setattr(table_formats, "write", write_one_and_fail)
    words = ["render", "--artefact", "zhu2022.table2.1", "--artefact", "zhu2022.table2.2"]
    assert cli.main(words) in (2, 130)
    assert contents(root) == before


def test_what_the_page_says_of_studies_and_publications_is_part_of_its_version(monkeypatch):
    asked = []
    monkeypatch.setattr(code_version, "code_version", lambda *modules: asked.extend(modules) or "version")
    render.code_of_report()
    studies = {f"relearn.studies.{study.name}.study" for study in all_studies()}
    assert {"relearn.studies.publications", *studies} <= set(asked)
