"""`relearn compare`: sides by scale, folder and commit, what it writes, and one line for wrong use."""

import csv
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from relearn import cli
from relearn.runs import provenance, record


def render(folder: Path, verdict: str, value: float) -> None:
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    one: dict[str, Any] = {"section": "s", "id": "c", "verdict": verdict, "effect": value, "unit": "nats"}
    (folder / "claims.json").write_text(json.dumps({"scale": "mini", "claims": [one]}))
    head = "artefact,row,column,unit,status,mean,members_count"
    (folder / "tables/t.csv").write_text(f"{head}\nt,row,column,fraction,measured,{value},1\n")


def git(*words: str) -> None:
    named = ("-c", "user.name=x", "-c", "user.email=x@y")
    subprocess.run(["git", *named, *words], check=True, capture_output=True)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with two commits, each with another published rendering, and one that is published nowhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")
    Path("params.yaml").write_text("scale: mini\n")
    git("init", "-q")
    for verdict, value in (("direction", 0.25), ("reproduced", 0.5)):
        render(Path("results/published/mini"), verdict, value)
        git("add", "-A", "-f")
        git("commit", "-qm", verdict)
    render(Path("results/mini"), "contradicted", 0.75)
    return tmp_path


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("HEAD~1", "HEAD", "direction 0.25  reproduced 0.5"),
        ("HEAD~1:mini", "results/published/mini", "direction 0.25  reproduced 0.5"),
        ("results/published/mini", "mini", "reproduced 0.5  contradicted 0.75"),
    ],
)
def test_a_side_is_a_scale_a_folder_or_a_commit(
    before: str, after: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["compare", before, after]) == 0
    text = capsys.readouterr().out
    assert f"before: {before} (scale mini)" in text and f"claim s/c  {said}  +0.25" in text


def test_it_writes_a_file_a_page_and_a_part_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", "HEAD", "mini", "--out", "told", "--exit-code"]) == 1
    with open("told/changes.csv", newline="") as lines:
        found = {line["artefact"]: line for line in csv.DictReader(lines)}
    assert (found["claim"]["change"], found["t"]["change"]) == ("verdict", "no spread")
    assert float(found["t"]["difference"]) == 0.25
    assert {path.name for path in Path("told").iterdir()} == {"changes.csv", "changes.md", "changes.html"}
    assert cli.main(["compare", "mini", "mini", "--exit-code"]) == 0


def test_a_report_takes_the_comparison_in_once(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path("results/mini/report.html")
    page.write_text("<html><main><p>text</p></main><script></script></html>")
    for before in ("HEAD", "HEAD~1"):
        assert cli.main(["compare", before, "mini", "--page", str(page)]) == 0
    text = page.read_text()
    assert text.count('<section id="changes">') == 1 and "HEAD~1 → mini" in text
    assert text.startswith("<html><main><p>text</p>") and text.endswith("</main><script></script></html>")
    assert text.index("</section>") < text.index("</main>")
    assert cli.main(["compare", "HEAD", "mini", "--page", "params.yaml"]) == 2
    assert capsys.readouterr().err.startswith("relearn compare: --page params.yaml: found no </main>")


def test_the_settings_that_differ_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "_git", lambda *_: None)
    for root, k in (("results/published/mini", 50), ("results/mini", 60)):
        what: dict[str, Any] = {"study": "s", "paper": "p", "step": "filter", "labels": {"victim": "a"}}
        what |= {"scale": "mini", "seed": 0, "settings": {"deep_knn": {"k": k}, "same": 1}}
        with record.Run(f"{root}/runs/s/filter/a/seed0", **what) as run:
            run.finish({"a_frac": 0.5})
    assert cli.main(["compare", "results/published/mini", "mini"]) == 0
    assert "\ns filter: deep_knn.k 50 → 60 (1 runs)\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["nothing", "mini"],
            "relearn compare: nothing: no folder, no scale with results (mini) and no commit",
        ),
        (["HEAD:small", "mini"], "relearn compare: HEAD:small: this commit has no results/published/small"),
        (["results", "mini"], "relearn compare: results: no claims.json; allowed: a folder that"),
        (["--all", "mini", "--output=x"], "relearn compare: "),
        (
            ["mini", "results/mini", "--scale", "huge"],
            "relearn compare: --scale: found huge, allowed: with a",
        ),
        (["mini", "HEAD:mini", "--scale", "mini"], "relearn compare: --scale: found mini, allowed: with a"),
    ],
)
def test_wrong_use_is_one_line(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", *words]) == (2 if {"--output=x", "--scale"} & {*words} else 3)
    said = capsys.readouterr().err
    assert said.startswith(says) and said.count("\n") == 1


@pytest.mark.parametrize(
    ("page", "says"),
    [
        ("params.yaml", "--page params.yaml: found no </main>, allowed: the report.html of a scale"),
        ("nowhere", "--page nowhere: found no </main>"),
        ("binary", "--page binary: 'utf-8' codec can't decode"),
    ],
)
def test_a_wrong_page_is_refused_before_anything_is_written(
    page: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("binary").write_bytes(b"\xff</main>")
    assert cli.main(["compare", "HEAD", "mini", "--out", "told", "--page", page]) == 2
    out, said = capsys.readouterr()
    assert out == "" and said.startswith(f"relearn compare: {says}") and said.count("\n") == 1
    assert not Path("told").exists()


@pytest.mark.parametrize("out", ["params.yaml", "params.yaml/below", "dangling"])
def test_a_file_is_no_folder(out: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("dangling").symlink_to("nowhere")
    assert cli.main(["compare", "HEAD", "mini", "--out", out]) == 2
    printed, said = capsys.readouterr()
    assert printed == "" and said.startswith(f"relearn compare: --out {out}: found a file")
    assert said.endswith("allowed: a folder\n") and said.count("\n") == 1


def test_damage_in_a_commit_is_named_by_the_commit(capsys: pytest.CaptureFixture[str]) -> None:
    Path("results/published/mini/claims.json").write_text("{")
    git("commit", "-qam", "torn")
    assert cli.main(["compare", "HEAD", "mini"]) == 3
    said = capsys.readouterr().err
    assert said.startswith("relearn compare: HEAD: results/published/mini/claims.json: Expecting")
