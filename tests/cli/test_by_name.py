"""relearn list, reproduce, show and open, from any folder of a checkout."""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path

import pytest

from relearn import cli
from relearn.cli import open as opening
from relearn.cli import reproduce
from relearn.runs import run_store

REPOSITORY = Path(__file__).parents[2]
RUN = "runs/l2_attention/check_theorems/lemma_f_1/seed0"


@pytest.fixture(scope="module")
def published_run() -> dict[str, bytes]:
    """The files of one published run, by name."""
    store = run_store.Store(REPOSITORY / "results/published/mini")
    (found,) = (one for one in store.read_all()[0] if one["path"].endswith(RUN))
    body = {key: value for key, value in found.items() if key != "path"}
    files = {name: store.content(found, name) for name in found["outputs"]}
    return {"record.json": json.dumps(body, indent=1).encode(), **files}


@pytest.fixture
def checkout(published_run: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout without the source, and the working directory somewhere inside of it."""
    root = tmp_path / "checkout"
    shutil.copytree(REPOSITORY / "params", root / "params")
    for name in ("params.yaml", "Snakefile"):
        shutil.copy(REPOSITORY / name, root)
    (root / "docs").mkdir()
    folder = root / "results/mini" / RUN
    folder.mkdir(parents=True)
    for name, content in published_run.items():
        (folder / name).write_bytes(content)
    monkeypatch.chdir(root / "docs")
    return root


def test_list_says_what_is_there_of_each(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list"]) == 0
    said = capsys.readouterr().out.splitlines()
    (kim,) = (line for line in said if line.startswith("  kim2020 "))
    assert kim.split()[1].startswith("1/") and "report" not in kim
    (head,) = (line for line in said if line.startswith("papers "))
    assert head.split()[1:] == ["mini", "small", "medium", "paper"]
    assert any(" claims and 1 check (`relearn list claims`)" in line for line in said)
    assert cli.main(["list", "claims"]) == 0
    (claim,) = (line for line in capsys.readouterr().out.splitlines() if "claim:untied_not_lipschitz" in line)
    assert claim.split()[1:4] == ["1/1,", "no", "verdict"]
    (checkout / "results/mini/claims.json").write_text("{")
    assert cli.main(["list", "claims"]) == 0
    said = capsys.readouterr().err
    assert said.startswith("left out: results/mini/claims.json: ") and said.count("\n") == 1


def test_show_prints_the_verdict_on_a_claim(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", "claim:untied_not_lipschitz"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "claim:untied_not_lipschitz: reproduced"
    assert any(line.startswith("- lemma F.1: ") for line in said) and len(said) < 8
    assert cli.main(["show", "claim:l2_bound_holds"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("claim:l2_bound_holds: not run\n")
    *_, lacking, way = text.splitlines()
    assert lacking == "missing: no runs for figure 2"  # a part that is too weak was run
    assert re.fullmatch(
        r"`relearn reproduce claim:l2_bound_holds --scale mini` makes its runs, \d+ of \d+ are left", way
    )


def test_show_refuses_a_claim_of_a_study_without_any_run(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["show", "claim:gp_is_distance_aware"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert "claim:gp_is_distance_aware: results/mini: no sound record of lrformer at scale mini" in said.err
    assert "`relearn reproduce claim:gp_is_distance_aware --scale mini` makes its runs" in said.err


def test_show_uses_the_published_runs_if_there_are_none_of_the_study(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkout / "results/mini/runs/lrformer").mkdir()
    published = checkout / "results/published/mini"
    shutil.copytree(
        REPOSITORY / "results/published/mini", published, ignore=shutil.ignore_patterns("*.png", "*.html")
    )
    assert cli.main(["show", "claim:gp_is_distance_aware"]) == 0
    said = capsys.readouterr()
    assert said.err == "no run of lrformer in results/mini: shown from results/published/mini\n"
    assert "not run" not in said.out.splitlines()[0] and "Suspected cause: " in said.out
    asked: list[Path] = []
    monkeypatch.setattr("relearn.cli.power.judge", lambda scale, root: asked.append(root) or ([], []))
    assert cli.main(["power", "gp_is_distance_aware"]) == 0 and asked == [published.relative_to(checkout)]
    assert cli.main(["show", "claim:l2_bound_holds"]) == 0  # a study with a run of one's own stays by itself
    said = capsys.readouterr()
    assert said.err == "" and said.out.startswith("claim:l2_bound_holds: not run\n")
    assert cli.main(["show", "claim:l2_bound_holds", "--from", str(published)]) == 0
    said = capsys.readouterr()
    assert said.err == "" and "not run" not in said.out.splitlines()[0]
    assert cli.main(["show", "addition.lrformer_training", "--from", str(published)]) == 0
    shown = checkout / "results/mini/shown/tables/addition.lrformer_training.md"
    assert capsys.readouterr().out.startswith(shown.read_text().rstrip())
    assert cli.main(["show", "claim:l2_bound_holds", "--from", str(checkout / "docs")]) == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_show_renders_a_table_and_prints_it(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", "addition.l2_attention_constructions"]) == 0
    said = capsys.readouterr().out
    file = Path("results/mini/tables/addition.l2_attention_constructions.md")
    assert said.startswith(file.read_text().rstrip()) and f"table: {file}" in said
    assert not (checkout / "results/mini/report.html").exists()


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["all"], ["--cores", "all"]),
        (["table2.2", "--dry-run"], ["--cores", "all", "--dry-run", "--", "table2.2"]),
        (
            ["zhu2022.fig4.4", "hull_proposition", "--scale", "small", "--cores", "2"],
            ["--cores", "2", "--config", "scale=small", "--", "fig4.4", "claim:hull_proposition"],
        ),
    ],
)
def test_reproduce_starts_snakemake_in_the_root(
    words: list[str],
    command: list[str],
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen: list[tuple[list[str], Path]] = []
    monkeypatch.setenv("PATH", "/bin")

    def run(words: list[str], environment: Mapping[str, str]) -> int:
        seen.append((words[1:], Path.cwd()))
        # of an environment that is not activated: the rules call `relearn`
        assert environment["PATH"] == os.pathsep.join([str(Path(sys.executable).parent), "/bin"])
        return 3

    monkeypatch.setattr(reproduce, "until_it_ends", run)
    assert cli.main(["reproduce", *words]) == 3
    assert seen == [(["-m", "snakemake", *command], checkout)]
    said = capsys.readouterr().err
    assert f"$ snakemake {' '.join(command)}\n" in said
    assert words == ["all"] or "with their inputs" in said


ENGINE = """
import signal, sys, time
from pathlib import Path
def end(number, frame):
    time.sleep(0.7)  # checkpoints, the last import, the lock
    Path(sys.argv[1]).write_text(signal.Signals(number).name)
    sys.exit(1)
signal.signal(signal.SIGINT, end)
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
time.sleep(60)
"""
STARTER = """
import sys
from relearn.cli.reproduce import until_it_ends
sys.exit(until_it_ends([sys.executable, "-c", sys.argv[1], sys.argv[2]]))
"""


@pytest.mark.parametrize(("name", "group", "status"), [("SIGINT", True, 130), ("SIGTERM", False, 143)])
def test_an_interrupted_engine_is_waited_for(name: str, group: bool, status: int, tmp_path: Path) -> None:
    """Ctrl-C reaches the whole group, `kill` the one process; the engine cleans up in both cases."""
    done = tmp_path / "done"
    words = [sys.executable, "-c", STARTER, ENGINE, str(done)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) as started:
        assert started.stdout is not None and started.stdout.readline() == "ready\n"
        (os.killpg if group else os.kill)(started.pid, signal.Signals[name])
        assert started.wait(timeout=30) == status
    assert done.read_text() == name


def test_what_is_not_planned_at_a_scale_is_not_started(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["reproduce", "qi2023.table8"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "no run of it is planned at scale mini; allowed: another --scale" in said


def test_open_opens_the_report_or_says_how_to_make_it(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(opening, "displays", lambda: True)
    assert cli.main(["open"]) == 3
    assert "no report yet; `relearn reproduce all` makes it" in capsys.readouterr().err
    published = checkout / "results/published/mini/report.html"
    published.parent.mkdir(parents=True)
    published.touch()
    assert cli.main(["open"]) == 3
    assert capsys.readouterr().err.endswith("; published: results/published/mini/report.html\n")
    page = checkout / "results/mini/report.html"
    page.touch()
    assert cli.main(["open"]) == 0
    assert capsys.readouterr().out == f"{page}\n" and opened == [page.as_uri()]
    monkeypatch.setattr(opening, "displays", lambda: False)
    assert cli.main(["open"]) == 0 and len(opened) == 1


def test_outside_of_a_checkout_the_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for verb in (
        ["list"],
        ["reproduce", "kim2020"],
        ["show", "kim2020"],
        ["open"],
        ["render"],
        ["validate"],
        ["plan"],
        ["power"],
    ):
        assert cli.main(verb) == 2
        said = capsys.readouterr()
        assert said.out == "" and said.err.count("\n") == 1
        assert f"found {tmp_path}, in no checkout of relearn" in said.err


def test_inside_a_checkout_a_typed_path_keeps_its_meaning(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.main(["validate"]) == 0  # the default counts from the root
    capsys.readouterr()
    for name in ("mine.yaml", "params.yaml"):  # the second as the default is
        monkeypatch.chdir(checkout / "docs")
        shutil.copy(checkout / "params.yaml", name)
        assert cli.main(["validate", "--params", name]) == 0
        assert capsys.readouterr().out.startswith(f"ok: {checkout}/docs/{name} at scale mini")
    found: list[str] = []
    monkeypatch.setattr("relearn.cli.plan.main", lambda args: found.extend(args.target) or 0)
    monkeypatch.chdir(checkout / "results/mini")
    assert cli.main(["plan", RUN, "a/b"]) == 0
    assert found == [f"results/mini/{RUN}", "a/b"]


def test_so_does_a_path_that_is_a_part_of_a_word(checkout: Path) -> None:
    from relearn.cli import robustness
    from relearn.cli.checkout import as_typed, enter

    Path("own.safetensors").touch()
    parser = argparse.ArgumentParser()
    robustness.add_arguments(parser)
    words = ["--model", "own.safetensors", "--set", "val=images", "--out", "mine"]
    args = parser.parse_args(words, argparse.Namespace(command="robustness"))
    enter(args, parser)
    here = checkout / "docs"
    assert (Path.cwd(), args.sets, args.out) == (checkout, [("val", here / "images")], here / "mine")
    assert (as_typed(args, args.model), as_typed(args, "resnet50")) == (f"{here}/own.safetensors", "resnet50")


def test_a_filter_is_found_where_the_command_was_started(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("filter_of_mine.py").write_text("class One:\n    pass\n")
    assert cli.main(["evaluate-filter", "filter_of_mine:One"]) == 2
    assert "filter_of_mine:One: found AttributeError: 'One' object has no" in capsys.readouterr().err
