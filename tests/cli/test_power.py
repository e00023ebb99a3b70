"""`relearn power` on a few records: what it says of a claim, and how it answers a wrong call."""

from pathlib import Path

import pytest

from relearn import cli
from relearn.cli import targets
from relearn.studies.study import all_studies

from .test_render import train

PARAMS = str(Path(__file__).parents[2] / "params.yaml")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two attacks on one victim and ten targets; the polytope succeeds once more often."""
    folder = tmp_path_factory.mktemp("results")
    train(folder, "feature_collision", [1, 0] * 5)
    train(folder, "convex_polytope", [1, 1, *[1, 0] * 4])
    return folder


def power(root: Path, *words: str) -> int:
    return cli.main(["power", *words, "--root", str(root), "--scale", "mini", "--params", PARAMS])


def test_a_claim_with_its_number_its_cost_and_the_line_to_change(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert power(root, "cp_beats_fc") == 0
    head, said, part, *rest = capsys.readouterr().out.splitlines()
    assert head == "poisoning cp_beats_fc: underpowered"
    assert (
        "would decide it with 80% power if the true effect were the claimed one, 10 are available; " in said
        and said.endswith("(poisoning.craft.targets)")
    )
    assert "of CPU time here (records; " in said and "of one GPU (forecast: " in said
    assert part.startswith("  needed for convex polytope - feature collision: ") and part.endswith(
        "(these records, 10 targets); has 10"
    )
    assert (
        "  to be solved first, as more targets do not help: 1 victim, needs 4; accuracy of ResNet18 not measured; "
        "fit of ResNet18 to its fine-tuning set not measured" in rest
    )


def test_a_damaged_record_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(tmp_path, "feature_collision", [1, 0])
    train(tmp_path, "convex_polytope", [1, 0], scale="small")  # in order
    (tmp_path / "runs/record.json").write_text("{")
    assert power(tmp_path, "cp_beats_fc") == 0
    said = capsys.readouterr().err
    assert said.startswith(f"left out: {tmp_path}/runs/record.json: torn") and said.count("\n") == 1


def test_all_claims_end_with_how_many_are_open(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert power(root) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].endswith("claims are not decided at scale mini")
    heads = [line for line in lines[:-1] if not line.startswith(" ")]
    assert lines[-1].startswith(f"{len(heads)} of ")
    counted = sum(one.kind == "claims" and not one.check for one in targets.targets().values())
    assert lines[-1].startswith(f"{len(heads)} of {counted} claims ")
    assert {line.split()[0] for line in heads} == {study.name for study in all_studies()}


@pytest.mark.parametrize(
    ("words", "said"),
    [(["cp_beat_fc"], "claim: found 'cp_beat_fc', nearest: cp_beats_fc"), ([], "no sound record of scale")],
)
def test_a_wrong_call_is_one_line(
    tmp_path: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong name is found before any record is read."""
    (tmp_path / "runs").mkdir()
    assert power(tmp_path, *words) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
