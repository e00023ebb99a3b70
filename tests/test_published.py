"""What is committed: few and small files, and published sets that render as they are."""

import subprocess
from pathlib import Path

import pandas
import pytest

from relearn import cli
from relearn.cli.power import judge
from relearn.report import claims_file
from relearn.runs.run_store import Store
from relearn.studies import parameters

ROOT = Path(__file__).parents[1]
FILES = 1_600
PUBLISHED = ROOT / "results/published"
SETS = sorted(
    {path.parent for path in PUBLISHED.rglob("runs.parquet")} - {*PUBLISHED.glob("**/.staged-*/new")}
)


def test_the_tracked_tree_is_small() -> None:
    """A clone must be light enough to travel to a GPU node."""
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout of git")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    files = [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]
    assert len(files) <= FILES
    assert sum(file.stat().st_size for file in files) <= 16 * 2**20
    assert len([file for file in files if file.is_relative_to(PUBLISHED)]) <= 110


def test_every_set_is_one_of_few_files() -> None:
    names = {path.relative_to(PUBLISHED).as_posix() for path in SETS}
    assert {"mini", "small", "small_0.7"} <= names
    assert list(PUBLISHED.rglob("record.json")) == []
    assert all((path / "README.md").is_file() for path in SETS)


@pytest.mark.parametrize("folder", SETS, ids=lambda path: path.relative_to(PUBLISHED).as_posix())
def test_every_published_record_and_file_is_sound(folder: Path) -> None:
    store = Store(folder)
    records, problems = store.read_all()
    assert records and not problems
    held = [(one, name) for one in records for name in one["outputs"] if store.has(one, name)]
    assert all(store.content(one, name) for one, name in held)
    runs = pandas.read_parquet(folder / "runs.parquet")
    assert len(runs) == len(records) == runs["folder"].nunique()


def test_what_the_report_of_mini_refers_to_is_there() -> None:
    page = (PUBLISHED / "mini/report.html").read_text(encoding="utf-8")
    pictures = [part.partition('"')[0] for part in page.split('src="')[1:]]
    assert len(pictures) > 30
    assert all((PUBLISHED / "mini" / path).is_file() for path in pictures)


RENDERED = sorted(path.parent for path in PUBLISHED.glob("*/report.html"))


@pytest.mark.parametrize("folder", RENDERED, ids=lambda path: path.name)
def test_points_of_every_figure_are_there(folder: Path) -> None:
    """A set of all studies draws over 40 figures; one that is published study by study has those of its studies."""
    figures = {Path(name).stem for name in pandas.read_parquet(folder / "figures.parquet")["file"]}
    pictures = {path.stem for path in (folder / "figures").iterdir()}
    assert "claims_forest" in pictures <= figures and (folder.name != "mini" or len(figures) > 40)


@pytest.mark.parametrize("folder", RENDERED, ids=lambda path: path.name)
def test_the_published_verdicts_are_those_of_the_current_rules(folder: Path) -> None:
    """Where this fails after an edit of a rule: `relearn publish --scale mini --from results/published/mini`, and the analyses."""
    judged, _ = judge(parameters.load(ROOT / "params.yaml", scale=folder.name), folder)
    verdicts = {(one.section, one.id): (one.verdict, one.provisional) for one in judged}
    published = claims_file.read(folder / "claims.json")["claims"]
    assert verdicts == {
        (one["section"], one["id"]): (one["verdict"], one["provisional"]) for one in published
    }


@pytest.mark.slow
@pytest.mark.parametrize("folder", RENDERED, ids=lambda path: path.name)
def test_a_set_gives_itself_again(folder: Path, tmp_path: Path) -> None:
    """Where this fails after an edit of the report: `relearn publish --scale mini --from results/published/mini`."""
    (tmp_path / "README.md").write_bytes((folder / "README.md").read_bytes())
    words = ["--scale", folder.name, "--from", str(folder), "--to", str(tmp_path)]
    assert cli.main(["publish", "--params", str(ROOT / "params.yaml"), *words]) == 0
    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    there = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert made.keys() == there.keys()
    assert {name for name in made if made[name] != there[name]} == set()
