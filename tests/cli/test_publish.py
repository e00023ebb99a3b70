"""`relearn publish` and `relearn render --from`: a published set renders as the folder of runs that it was made of."""

import contextlib
import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relearn import cli
from relearn.cli import code, planned_runs, publish, track
from relearn.report import artefacts, changes, published_set
from relearn.report import runs as report_runs
from relearn.report.figures import claims_forest
from relearn.report.views.words import EMPTINESS
from relearn.runs import parquet_file, provenance, record, tidy_csv
from relearn.runs.record import Run
from relearn.runs.run_store import Store
from relearn.studies import study as study_module
from relearn.studies.study import all_studies

from .test_render import train

REPOSITORY = Path(__file__).parents[2]
SHOWN = ("zhu2022.table2.1", "zhu2022.fig2.5")
PARAMS = ("--params", str(REPOSITORY / "params.yaml"))


@pytest.fixture(scope="module", autouse=True)
def _two_artefacts():
    """One table and one figure instead of all, which take seconds; no forest of effects."""
    load = artefacts.load
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(artefacts, "load", lambda folders: {name: load(folders)[name] for name in SHOWN})
        patched.setattr(claims_forest, "write", lambda *_: None)
        yield


def test_only_an_empty_figure_with_a_series_of_ours_keeps_its_picture(tmp_path: Path) -> None:
    """``ours`` has a run in a series; ``reported`` a published value, ``aside`` a run in no series, ``gone`` no file."""
    lines = {"ours": "a,0.5,runs/x", "reported": "a,0.5,", "aside": ",0.5,runs/x"}
    for kind in ("tables", "figures"):
        (tmp_path / kind).mkdir()
    for name, status in (("measured", "measured"), ("empty", "not_run")):
        (tmp_path / f"tables/{name}.md").write_text(f"# {name}: A table\n")
        (tmp_path / f"tables/{name}.csv").write_text(f"row,status\na,{status}\n")
    for name in (*lines, "gone"):
        (tmp_path / f"figures/{name}.png").write_bytes(b"picture")
        if name in lines:
            (tmp_path / f"figures/{name}.csv").write_text(f"series,value,runs\n{lines[name]}\n")
    published_set.gather(tmp_path, empty=[*lines, "gone", "measured", "empty"])
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["ours.png"]
    pages = (tmp_path / "tables.md").read_text()
    assert 'id="measured"' in pages and 'id="empty"' not in pages


@pytest.fixture
def all_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs of some tests have names that no plan has."""
    monkeypatch.setattr(planned_runs, "planned_settings", lambda _, any_seed=False: lambda folder: {})


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of one clean commit, rendered."""
    root = tmp_path_factory.mktemp("results")
    measure(root, "convex_polytope", "a" * 40)
    measure(root, "feature_collision", "a" * 40)
    assert run("render", "--root", str(root)) == 0
    return root


@pytest.fixture(scope="module")
def published(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("published")
    (target / "README.md").write_text("# Digits\n\nOn a quiet machine.\n")
    assert run("publish", "--from", str(results), "--to", str(target)) == 0
    return target


def measure(
    root: Path, attack: str, commit: str | None, dirty: bool | None = False, study: str = "poisoning"
) -> None:
    code = {"version": "", "commit": commit, "dirty": dirty, "packages": {}}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(provenance, "code", lambda version: code)
        train(root, attack, [1, 1, 0], study=study)


def run(*words: str) -> int:
    with contextlib.redirect_stdout(io.StringIO()):
        return cli.main([*words, *PARAMS])


def contents(root: Path) -> dict[str, bytes]:
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def test_a_published_set_renders_byte_for_byte_as_its_folder_of_runs(
    results: Path, published: Path, tmp_path: Path
) -> None:
    assert run("render", "--from", str(published), "--root", str(tmp_path / "again")) == 0
    again, before = contents(tmp_path / "again"), contents(results)
    made_by_runs = {name for name in before if name.startswith(("runs/", "spool/", "work/"))}
    assert again == {name: content for name, content in before.items() if name not in made_by_runs}
    assert {"tables/zhu2022.table2.1.csv", "figures/zhu2022.fig2.5.png", "claims.json", "report.html"} <= set(
        again
    )
    assert "runs" not in {path.name for path in published.iterdir()}


def test_a_published_set_gives_itself_again(published: Path, tmp_path: Path) -> None:
    """And what is no more goes: here a figure, and the table of what was no table. What others put there stays."""
    (tmp_path / "README.md").write_text("# Digits\n\nOn a quiet machine.\n")
    (tmp_path / "figures").mkdir()
    for name in ("figures/zhu2022.fig9.9.png", "files.parquet", "runs.parquet"):
        (tmp_path / name).write_bytes(b"of an earlier set")
    drawn = {("figures", "zhu2022.fig9.9.csv"): b"x,y\n1,2\n"}
    parquet_file.write(tmp_path / "figures.parquet", tidy_csv.columns(drawn))
    mine = {"figures/mine.png": b"a picture", "mine.parquet": b"a table"}
    for name, content in mine.items():
        (tmp_path / name).write_bytes(content)
    assert run("publish", "--from", str(published), "--to", str(tmp_path)) == 0
    assert contents(tmp_path) == contents(published) | mine


def test_the_set_is_few_files_and_its_page_refers_to_them(published: Path) -> None:
    names = set(contents(published))
    assert names == {
        *(
            "README.md",
            "report.html",
            "claims.md",
            "claims.json",
            "coverage.csv",
            "deviations.md",
            "settings.md",
        ),
        *("tables.md", "tables.parquet", "figures.parquet", "runs.parquet", "trials.parquet"),
        "figures/zhu2022.fig2.5.png",
    }
    page = (published / "report.html").read_text()
    assert 'src="figures/zhu2022.fig2.5.png"' in page and "record.json" not in page
    assert "](runs/" not in (published / "claims.md").read_text()
    assert '<a id="zhu2022.table2.1"></a>\n\n## zhu2022.table2.1: ' in (published / "tables.md").read_text()


def test_the_page_of_all_tables_explains_its_cells_and_lists_the_tables_those_of_papers_first() -> None:
    names = [
        "addition.a",
        "zhu2022.table4.10",
        "zhu2022.table4.4",
        "zhu2022.table4.4.accuracy",
        "kim2020.table1",
    ]
    page = published_set.together(
        {name: f"# {name}: Title of {name}\n\n| a |\n| --- |\n| 1 |\n" for name in names}
    )
    listed = [
        "kim2020.table1",
        "zhu2022.table4.4",
        "zhu2022.table4.4.accuracy",
        "zhu2022.table4.10",
        "addition.a",
    ]
    head, _, tables = page.partition("<a id=")
    assert re.findall(r"^- \[(\S+)\]\(#(\S+)\): Title of (\S+)$", head, re.M) == [
        (one,) * 3 for one in listed
    ]
    assert re.findall(r"^## (\S+): Title of", tables, re.M) == listed
    assert all(f"- `{mark}`: {said}" in head for mark, said in EMPTINESS.items())


def test_the_readme_keeps_what_a_person_wrote_and_counts_the_rest(published: Path) -> None:
    text = (published / "README.md").read_text()
    assert text.startswith("# Digits\n\nOn a quiet machine.\n\n<!-- written by relearn publish")
    assert "\n2 runs, " in text and "The clean commit aaaaaaaaaa." in text
    assert "| underpowered | " in text and "`cp_beats_fc`" in text
    assert "/runs.parquet" in text


def test_runs_are_read_by_adopt_and_by_hand_as_they_were_made(results: Path, published: Path) -> None:
    (found, problems), (made, _) = Store(published).read_all(), record.read_all(results / "runs")
    assert not problems
    assert [one["sha256"] for one in found] == [one["sha256"] for one in made]


@pytest.mark.parametrize(
    ("commit", "dirty", "says"),
    [
        ("b" * 40, False, "2 commits among 2 records, 0 of a working tree with changes (+): 1 of "),
        ("a" * 40, True, "2 commits among 2 records, 1 of a working tree with changes (+): 1 of "),
        (None, None, "2 commits among 2 records, 1 of a working tree with changes (+): 1 of "),
    ],
)
def test_a_mixture_is_refused_unless_allowed_and_then_named(
    commit: str | None, dirty: bool | None, says: str, tmp_path: Path, capsys: Any
) -> None:
    measure(tmp_path, "convex_polytope", "a" * 40)
    measure(tmp_path, "feature_collision", commit, dirty)
    words = ("publish", "--from", str(tmp_path), "--to", str(tmp_path / "set"))
    assert run(*words) == 2
    error = capsys.readouterr().err
    assert f"--scale mini: poisoning: {says}" in error and error.count("\n") == 1 and "--allow-mixed" in error
    assert not (tmp_path / "set").exists()
    if commit == "b" * 40:
        assert run(*words, "--allow-mixed") == 0
        assert f"A mixture: {says}" in (tmp_path / "set/README.md").read_text()


def test_a_file_in_place_of_the_set_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "set").write_text("")
    assert run("publish", "--from", str(tmp_path), "--to", str(tmp_path / "set")) == 2
    said = capsys.readouterr().err
    assert f"--to {tmp_path / 'set'}: found a file, allowed: a folder" in said and said.count("\n") == 1
    measure(tmp_path, "convex_polytope", "a" * 40)
    (tmp_path / "mine.parquet").write_text("mine")
    assert run("publish", "--from", str(tmp_path), "--to", str(tmp_path)) == 2
    said = capsys.readouterr().err
    assert f"--to {tmp_path}: found a folder with other files, allowed: a new" in said
    assert said.count("\n") == 1 and (tmp_path / "mine.parquet").exists()


@pytest.mark.usefixtures("all_planned")
def test_a_study_is_replaced_and_the_others_stay(tmp_path: Path, capsys: Any) -> None:
    first, later, target = (tmp_path / name for name in ("first", "later", "set"))
    measure(first, "convex_polytope", "a" * 40)
    measure(first, "feature_collision", "a" * 40, study="robustness")
    assert run("publish", "--from", str(first), "--to", str(target)) == 0
    measure(later, "bullseye_polytope", "b" * 40)
    measure(later, "bullseye_polytope", "c" * 40, study="robustness")
    one = ("publish", "--from", str(later), "--to", str(target), "--study", "poisoning")
    assert run(*one) == 2
    assert (
        "1 of the 2 runs in " in (said := capsys.readouterr().err)
        and said.endswith("--study NAME --add, or --allow-fewer\n")
        and said.count("\n") == 1
    )
    assert run(*one, "--allow-fewer") == 0
    found = {
        (one["study"], one["labels"]["attack"], one["code"]["commit"][0])
        for one in Store(target).read_all()[0]
    }
    assert found == {("poisoning", "bullseye_polytope", "b"), ("robustness", "feature_collision", "a")}
    text = (target / "README.md").read_text()
    assert "2 runs, each study from its own commit." in text
    assert "| poisoning | 1 run, " in text and "The clean commit bbbbbbbbbb. |" in text
    before = contents(target)
    assert cli.main(["publish", "--from", str(target), "--to", str(target), *PARAMS]) == 0
    assert contents(target) == before and " now" not in capsys.readouterr().out
    assert run("publish", "--from", str(later), "--to", str(target), "--study", "lrformer") == 2
    assert capsys.readouterr().err == "relearn publish: --study lrformer: no run of it at scale mini\n"
    assert contents(target) == before


def test_a_verdict_that_changes_is_named(published: Path, tmp_path: Path, capsys: Any) -> None:
    target = Path(shutil.copytree(published, tmp_path / "set"))
    judged = json.loads((target / "claims.json").read_text(encoding="utf-8"))
    one = next(each for each in judged["claims"] if each["verdict"] == "not_run")
    (target / "claims.json").write_text(json.dumps({**judged, "claims": [{**one, "verdict": "reproduced"}]}))
    assert cli.main(["publish", "--from", str(target), "--to", str(target), *PARAMS]) == 0
    changed = [line for line in capsys.readouterr().out.splitlines() if line.endswith(" now")]
    assert changed == [f"{one['section']}/{one['id']}: reproduced before, not run now"]
    (target / "claims.json").write_text("{")  # a damaged set is replaced without a comparison
    assert run("publish", "--from", str(target), "--to", str(target)) == 0
    assert contents(target) == contents(published)


def test_runs_that_are_no_longer_planned_stay_behind(results: Path, tmp_path: Path, capsys: Any) -> None:
    source = Path(shutil.copytree(results, tmp_path / "results"))
    measure(source, "not_an_attack", "b" * 40)
    assert run("publish", "--from", str(source), "--to", str(tmp_path / "set")) == 0
    held = {one["labels"]["attack"] for one in Store(tmp_path / "set").read_all()[0]}
    assert held == {"convex_polytope", "feature_collision"}


def test_what_was_made_of_replaced_files_goes_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start, a training of it, and the test of this training; a start made anew takes both away unless it is the same file."""

    def run_of(folder: str, output: str, **inputs: str) -> Any:
        made = {"file": {"path": "file", "sha256": output}}
        taken = {
            name: [{"path": f"/there/results/mini/runs/{name}/file", "sha256": sha256}]
            for name, sha256 in inputs.items()
        }
        fields = {"run": folder, "outputs": made, "inputs": taken, "code": {"version": ""}}
        return report_runs.Run(fields, f"runs/{folder}")

    kept = [
        run_of("start", "1", elsewhere="9"),
        run_of("training", "2", start="1"),
        run_of("test", "3", training="2"),
        run_of("other", "4"),
    ]
    planned = [code.Made("s", "step", "", "", one.record["run"], ()) for one in kept]
    monkeypatch.setattr(code, "today", lambda values: planned)

    def left(*fresh: Any) -> list[str]:
        return [one.record["run"] for one in publish._same({}, fresh, kept, True)]

    assert left() == ["start", "training", "test", "other"]
    assert left(run_of("start", "1")) == ["training", "test", "other"]
    assert left(run_of("start", "another")) == ["other"]
    planned[:1] = []  # the start is no longer planned
    assert left() == ["other"]


@pytest.mark.usefixtures("all_planned")
def test_a_study_is_published_in_parts(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first, later, target = (tmp_path / name for name in ("first", "later", "set"))
    measure(first, "convex_polytope", "a" * 40)
    measure(first, "feature_collision", "a" * 40)
    measure(first, "feature_collision", "a" * 40, study="robustness")
    assert run("publish", "--from", str(first), "--to", str(target)) == 0
    measure(later, "bullseye_polytope", "b" * 40)
    planned = [
        code.Made(one["study"], one["step"], "", version, one["run"], ())
        for one in Store(target).read_all()[0]
        for version in [{"convex_polytope": "", "feature_collision": "another"}[one["labels"]["attack"]]]
    ]
    monkeypatch.setattr(code, "today", lambda values: planned)
    words = ("publish", "--from", str(later), "--to", str(target), "--study", "poisoning", "--add")
    assert run(*words, "--allow-mixed") == 0
    found = {(one["study"], one["labels"]["attack"]) for one in Store(target).read_all()[0]}
    assert ("poisoning", "feature_collision") in found
    said = "In parts, from clean commits; the code of some runs has changed since: 2 of aaaaaaaaaa, 1 of bbbbbbbbbb."
    assert said in (target / "README.md").read_text()
    assert run(*words) == 0  # the run whose code has changed since goes
    found = {(one["study"], one["labels"]["attack"]) for one in Store(target).read_all()[0]}
    assert found == {
        ("poisoning", "convex_polytope"),
        ("poisoning", "bullseye_polytope"),
        ("robustness", "feature_collision"),
    }
    text = (target / "README.md").read_text()
    said = "In parts, from clean commits with the same code for each run: 1 of aaaaaaaaaa, 1 of bbbbbbbbbb."
    assert f"CPU seconds in their records. {said} |" in text
    before = contents(target)
    assert run("publish", "--from", str(target), "--to", str(target)) == 0
    assert contents(target) == before
    dirty = tmp_path / "dirty"
    measure(dirty, "gradient_matching", "c" * 40, dirty=True)
    capsys.readouterr()
    assert run(*words[:1], "--from", str(dirty), *words[3:]) == 2
    assert "2 commits among 2 records, 1 of a working tree with changes" in capsys.readouterr().err
    assert run("publish", "--from", str(later), "--to", str(target), "--add") == 2
    assert capsys.readouterr().err == "relearn publish: --add: found no --study, allowed: with at least one\n"
    assert contents(target) == before


def test_one_changed_tree_is_refused(tmp_path: Path, capsys: Any) -> None:
    measure(tmp_path, "convex_polytope", "a" * 40, dirty=True)
    assert run("publish", "--from", str(tmp_path), "--to", str(tmp_path / "set")) == 2
    assert (
        "1 commit among 1 records, 1 of a working tree with changes (+): 1 of aaaaaaaaaa+; "
        in capsys.readouterr().err
    )


def test_a_record_that_is_not_sound_is_refused(tmp_path: Path, capsys: Any) -> None:
    measure(tmp_path, "convex_polytope", "a" * 40)
    measure(tmp_path, "feature_collision", "a" * 40)
    file = next(tmp_path.rglob("feature_collision/**/record.json"))
    file.write_text(file.read_text().replace('"seed": 0', '"seed": 1'))
    assert run("publish", "--from", str(tmp_path), "--to", str(tmp_path / "set")) == 3
    assert "edited, its content does not match its sha256" in capsys.readouterr().err
    assert not (tmp_path / "set").exists()


def test_mlflow_gets_a_published_set_as_a_pipeline_leaves_it(results: Path, published: Path) -> None:
    with contextlib.ExitStack() as stack:
        folder = track.open_root(published, stack)
        there, before = contents(folder), contents(results)
        assert folder.name == published.name and track.open_root(results, stack) == results
    same = {name for name, content in there.items() if before.get(name) == content}
    assert {
        name for name in before if name.startswith(("runs/", "tables/")) and name.endswith((".csv", ".json"))
    } <= same
    assert {"claims.json", "coverage.csv", "figures/zhu2022.fig2.5.png", "figures/zhu2022.fig2.5.csv"} <= same


def test_a_published_set_is_compared_with_a_folder_of_runs(results: Path, published: Path) -> None:
    one, other = changes.read(results), changes.read(published)
    assert one.cells and one.members
    assert {key: dict(line) for key, line in other.cells.items()} == {
        key: dict(line) for key, line in one.cells.items()
    }
    assert other.members == one.members
    assert {change.kind for change in changes.compare(one, other)} <= {"identical"}


@pytest.mark.usefixtures("all_planned")
def test_files_that_nothing_reads_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean = {"version": "", "commit": "a" * 40, "dirty": False, "packages": {}}
    monkeypatch.setattr(provenance, "code", lambda version: clean)
    for step in ("initialise", "train_from_init"):
        folder = tmp_path / "runs/gradinit" / step / "seed0"
        made = Run(
            folder, study="gradinit", paper="zhu2022", step=step, labels={}, scale="mini", seed=0, settings={}
        )
        with made:
            made.output("history.csv").write_text("step,loss\n1,2.0\n")
            made.finish({})
    assert run("publish", "--from", str(tmp_path), "--to", str(tmp_path / "set")) == 0
    store = Store(tmp_path / "set")
    held = {one["step"]: store.has(one, "history.csv") for one in store.read_all()[0]}
    assert held == {"initialise": False, "train_from_init": True}
    patterns = {"initialise": ("history.csv",), "train_from_init": ("*/train_from_init/seed0/history.csv",)}
    changed = replace(study_module.load("gradinit"), unpublished=patterns)
    load = study_module.load
    monkeypatch.setattr(study_module, "load", lambda name: changed if name == "gradinit" else load(name))
    assert run("publish", "--from", str(tmp_path), "--to", str(tmp_path / "set")) == 0
    store = Store(tmp_path / "set")
    assert [store.has(one, "history.csv") for one in store.read_all()[0]] == [False, False]
    assert all(set(study.unpublished) <= set(study.steps) for study in all_studies())


@pytest.mark.usefixtures("all_planned")
def test_curves_of_trainings_that_choose_a_rate_and_large_files_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = {"version": "", "commit": "a" * 40, "dirty": False, "packages": {}}
    monkeypatch.setattr(provenance, "code", lambda version: clean)
    for name, labels in (("chooses", {"suite": "tuning"}), ("trains", {"suite": "residual"})):
        made = Run(
            tmp_path / "runs/lipsformer/train_vision" / name / "seed0",
            study="lipsformer",
            paper="qi2023",
            step="train_vision",
            labels=labels,
            scale="mini",
            seed=0,
            settings={},
        )
        with made:
            made.output("history.csv").write_text("step,loss\n1,2.0\n")
            made.output("small.json").write_text("{}")
            made.output("large.json").write_text(" " * 50_000)
            made.finish({})
    assert run("publish", "--from", str(tmp_path), "--to", str(tmp_path / "set")) == 0
    store = Store(tmp_path / "set")
    held = {
        one["labels"]["suite"]: [store.has(one, name) for name in ("history.csv", "small.json", "large.json")]
        for one in store.read_all()[0]
    }
    assert held == {"tuning": [False, True, False], "residual": [True, True, False]}


def test_one_file_on_request(published: Path, tmp_path: Path) -> None:
    assert run("render", "--from", str(published), "--root", str(tmp_path), "--self-contained") == 0
    page = (tmp_path / "report.html").read_text()
    assert page.count('src="data:image/png;base64,') == 1 and 'src="figures/' not in page
