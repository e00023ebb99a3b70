"""Only records that are what the DAG requires are taken, all or none; times follow the DAG."""

import itertools
import os
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from relearn.cli import adopt, jobs, pack
from relearn.cli.adopt import (
    arrivals,
    chosen,
    open_records,
    place_unfinished,
    put_in_order,
    refuse,
    scale_of,
    survey,
)
from relearn.cli.jobs import Job
from relearn.runs import parquet_file, record, record_file, run_store
from relearn.runs.atomic_files import Lock
from relearn.runs.node.home import place

RUNS = "results/mini/runs/poisoning"


def job_at(step: str, artefact: str, named_inputs: dict[str, tuple[str, ...]], **changes: Any) -> Job:
    folder = f"{RUNS}/{step}/seed0"
    plain = Job(
        rule=step,
        command=f"relearn {step}",
        inputs=tuple(path for paths in named_inputs.values() for path in paths),
        outputs=(f"{folder}/record.json", f"{folder}/{artefact}"),
        logs=(),
        record=f"{folder}/record.json",
        study="poisoning",
        step=step,
        labels={"network": "ResNet18"},
        scale="mini",
        seed=0,
        settings={"training": {"epochs": 5, "lr": 0.1}},
        code="0123456789abcdef",
        named_inputs=named_inputs,
    )
    return replace(plain, **changes)


PRETRAIN = job_at("pretrain", "weights.safetensors", {})
CRAFT = job_at(
    "craft", "poisons.safetensors", {"substitutes": (f"{RUNS}/pretrain/seed0/weights.safetensors",)}
)
PLAN = [PRETRAIN, CRAFT]


def make(job: Job, root: Path, text: str = "bytes") -> None:
    """Run a job below ``root`` for real, with tiny artefacts."""
    assert job.record is not None
    run = record.Run(
        root / job.folder,
        study=job.study,
        paper="zhu2022",
        step=job.step,
        labels=job.labels,
        scale=job.scale,
        seed=job.seed,
        settings=job.settings,
        inputs={name: [root / path for path in paths] for name, paths in job.named_inputs.items()},
        code_version=job.code,
    )
    with run:
        for path in job.outputs[1:]:
            letters = np.frombuffer(f"{job.step} {text}".encode(), dtype=np.uint8)
            save_file({"letters": letters}, run.output(Path(path).name))
        run.finish({"poisons_count": 5})


@dataclass
class Machines:
    """Here: the current folder, with a checkout's results. There: where the records come from."""

    here: Path
    there: Path


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    monkeypatch.chdir(here)
    for job in PLAN:
        make(job, there)
    return Machines(here, there)


def take(folder: Path, plan: list[Job]) -> dict[str, Any]:
    """What the verb does, less Snakemake."""
    coming = arrivals(folder, plan)
    fitting, faults = survey(plan, coming)
    refuse([fault for path, fault in faults.items() if path in coming])
    for path, found in coming.items():
        place(found, Path(path).parent)
    return fitting


def fault_of(folder: Path, plan: list[Job]) -> str:
    with pytest.raises(ValueError, match=r".") as caught:
        take(folder, plan)
    assert "\n" not in str(caught.value)
    assert not Path("results").exists()  # nothing was placed
    return str(caught.value)


def test_what_the_dag_asks_is_placed_whole(machines: Machines) -> None:
    fitting = take(machines.there, PLAN)
    assert sorted(fitting) == sorted(str(job.record) for job in PLAN)
    for job in PLAN:
        for path in job.outputs:
            assert (machines.here / path).read_bytes() == (machines.there / path).read_bytes()
        assert record.verify_outputs(record.read(str(job.record))) == []
        spool = f"results/mini/spool/{job.run}.jsonl"
        assert (machines.here / spool).read_bytes() == (machines.there / spool).read_bytes()
    assert [path.name for path in machines.here.rglob("*.tmp")] == []


def test_a_part_is_taken_where_the_rest_is_here(machines: Machines) -> None:
    take(machines.there / RUNS / "pretrain", PLAN)
    fitting = take(machines.there / RUNS / "craft", PLAN)
    assert len(fitting) == 2


def test_what_lies_here_already_is_not_written_again(machines: Machines) -> None:
    take(machines.there, PLAN)
    before = {path: os.stat(path).st_ino for path in machines.here.rglob("*") if path.is_file()}
    take(machines.there, PLAN)
    assert {path: os.stat(path).st_ino for path in machines.here.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (
            {"settings": {"training": {"epochs": 6, "lr": 0.1}}},
            "settings.training.epochs: found 5, the DAG requires 6",
        ),
        (
            {"settings": {"training": {"epochs": 5, "lr": 0.1, "flip": True}}},
            "settings.training.flip: found nothing, the DAG requires True",
        ),
        (
            {"settings": {"training": {"epochs": 5}}},
            "settings.training.lr: found 0.1, the DAG requires nothing",
        ),
        ({"settings": {"training": {"epochs": 5.0, "lr": 0.1}}}, "run: found"),
        (
            {"code": "fedcba9876543210"},
            "code.version: found 0123456789abcdef, the DAG requires fedcba9876543210",
        ),
        ({"labels": {"network": "SENet18"}}, "labels: no job of the DAG is poisoning craft network=ResNet18"),
        ({"seed": 1}, "labels: no job of the DAG is poisoning craft network=ResNet18 seed=0"),
        ({"scale": "small"}, "labels: no job of the DAG is"),
        ({"named_inputs": {}}, "inputs: found ['substitutes'], the DAG requires []"),
        (
            {"named_inputs": {"substitutes": CRAFT.inputs * 2}},
            "inputs.substitutes: found 1 files, the DAG requires 2",
        ),
        (
            {"outputs": (*CRAFT.outputs, f"{CRAFT.folder}/trials.csv")},
            "outputs: found ['poisons.safetensors']",
        ),
    ],
)
def test_a_record_of_another_job_is_refused_by_its_key(
    machines: Machines, change: dict[str, Any], key: str
) -> None:
    line = fault_of(machines.there, [PRETRAIN, replace(CRAFT, **change)])
    assert f"craft/seed0/record.json: {key}" in line


def test_inputs_of_other_bytes_are_refused(machines: Machines, tmp_path: Path) -> None:
    """The same settings on another machine can give other weights: poisons made from those are not ours."""
    other = tmp_path / "other"
    make(PRETRAIN, other, "other bytes")
    make(CRAFT, other)
    craft = machines.there / RUNS / "craft"
    for path in (other / RUNS / "craft").rglob("*"):
        if path.is_file():
            (craft / path.relative_to(other / RUNS / "craft")).write_bytes(path.read_bytes())
    assert "craft/seed0/record.json: inputs.substitutes (results/mini" in fault_of(machines.there, PLAN)


def test_inputs_that_no_current_run_makes_are_refused(machines: Machines) -> None:
    line = fault_of(machines.there / RUNS / "craft", PLAN)
    assert "inputs.substitutes" in line
    assert "a matching run, but there is none" in line


def test_runs_that_choose_by_the_records_of_others_are_taken_with_them(
    machines: Machines, tmp_path: Path
) -> None:
    """A run with a tuned rate has the records of the trials as its input; those of other trials are refused."""
    tuned = job_at("train", "network.safetensors", {"tried": (str(PRETRAIN.record),)})
    make(tuned, machines.there)
    assert str(tuned.record) in take(machines.there, [*PLAN, tuned])
    other = tmp_path / "other"
    make(PRETRAIN, other)  # the same artefact, but a record of another run: the cost differs
    for name in ("record.json", "weights.safetensors"):
        place_of = f"{PRETRAIN.folder}/{name}"
        Path(place_of).write_bytes((other / place_of).read_bytes())
    _, faults = survey([PRETRAIN, tuned], {})
    assert "inputs.tried" in faults[str(tuned.record)]


def test_what_was_made_from_a_stale_network_is_stale(machines: Machines) -> None:
    """The bytes are the same, but the network's own settings are not today's."""
    take(machines.there, PLAN)
    plan = [replace(PRETRAIN, code="fedcba9876543210"), CRAFT]
    fitting, faults = survey(plan, {})
    assert fitting == {}
    assert "code.version" in faults[str(PRETRAIN.record)]
    assert "a matching run, but there is none" in faults[str(CRAFT.record)]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda craft: (craft / "poisons.safetensors").write_text("x"), "torn or edited"),
        (lambda craft: (craft / "poisons.safetensors").unlink(), "missing"),
    ],
)
def test_damage_is_refused(machines: Machines, spoil: Callable[[Path], object], says: str) -> None:
    spoil(machines.there / CRAFT.folder)
    line = fault_of(machines.there, PLAN)
    assert "craft/seed0" in line
    assert says in line


@pytest.mark.parametrize(("part", "by", "says"), [("}", "", "torn"), ('"seed": 0', '"seed": 7', "edited")])
def test_beside_a_damaged_record_the_rest_is_taken(
    part: str,
    by: str,
    says: str,
    machines: Machines,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    torn = machines.there / CRAFT.record
    assert part in torn.read_text()
    torn.write_text(torn.read_text().replace(part, by))
    built = MagicMock(**{"persistence.locked": False})
    monkeypatch.setattr(jobs, "workflow", lambda *_: nullcontext(built))
    monkeypatch.setattr(jobs, "in_order", lambda _: [MagicMock(job=job) for job in PLAN])
    monkeypatch.setattr(jobs, "job_of", lambda their: their.job)
    assert adopt.take(machines.there, "mini") == 3
    out, error = capsys.readouterr()
    assert adopt.take(None, "mini") == 0  # what is here is whole
    Path(PRETRAIN.record).rename("record")
    Path(PRETRAIN.record).write_text("{")
    assert adopt.take(None, "mini") == 3
    assert f"left alone: {PRETRAIN.record}: torn" in capsys.readouterr().err
    Path("record").rename(PRETRAIN.record)
    weights = Path(PRETRAIN.outputs[1])
    weights.write_bytes(weights.read_bytes() + b"x")
    assert adopt.take(None, "mini") == 3
    assert f"left alone: {weights}: torn" in capsys.readouterr().err
    assert f"left alone: {torn}: " in error and says in error and "adopted 1 records" in out
    assert Path(PRETRAIN.record).is_file() and not Path(CRAFT.record).exists()


def test_a_checkpoint_that_no_job_makes_is_compared_with_the_file_here(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = machines.here / "mirror/a.pth", machines.there / "a.pth"
    here.parent.mkdir()
    for path in (here, there):
        path.write_bytes(b"weights")
    command = f"relearn a withstand --input network {here} --out x"
    job = job_at("withstand", "a.safetensors", {"network": (str(here),)}, command=command, logs=("x.log",))
    make(replace(job, named_inputs={"network": (str(there),)}), machines.there)
    take(machines.there / RUNS / "withstand", [job])
    assert pack.to_do([job]) == []
    monkeypatch.setenv("RELEARN_MIRROR", str(here.parent))
    packed = pack.node_job(job)
    assert packed.inputs == (packed.words[-1],) == ("mirror/a.pth",)
    assert list(pack.data([job])) == [("mirror/a.pth", here)]
    here.write_bytes(b"others")
    assert pack.to_do([job]) == [job]


def test_two_records_of_one_run_and_none_at_all_are_refused(machines: Machines, tmp_path: Path) -> None:
    make(PRETRAIN, machines.there / "copy")
    assert "a copy of the run in" in fault_of(machines.there, PLAN)
    with ExitStack() as stack, pytest.raises(FileNotFoundError, match=r"nowhere: no such file or folder$"):
        open_records([tmp_path / "nowhere"], stack)
    sets = Path(__file__).parents[2] / "results/published"
    with ExitStack() as stack, pytest.raises(record.RecordError, match=f"; below it: {sets}/mini, "):
        open_records([sets], stack)
    (tmp_path / "empty").mkdir()
    with ExitStack() as stack, pytest.raises(record.RecordError, match=r"empty: holds no record\.json$"):
        open_records([tmp_path / "empty"], stack)


def test_several_faults_are_counted() -> None:
    refuse([])
    with pytest.raises(ValueError, match=r"^a \(and 2 more\)$"):
        refuse(["a", "b", "c"])


@settings(max_examples=50)
@given(st.lists(st.integers(0, 10**9), min_size=2, max_size=6))
def test_times_follow_the_dag_and_are_changed_only_where_they_do_not(
    tmp_path_factory: pytest.TempPathFactory, starts: list[int]
) -> None:
    """A chain of jobs with any modification times: afterwards no output is older than its input."""
    folder = tmp_path_factory.mktemp("times")
    paths = [folder / str(n) for n in range(len(starts))]
    for path, start in zip(paths, starts):
        path.touch()
        os.utime(path, ns=(start * 10**6, start * 10**6))
    chain = [replace(PRETRAIN, inputs=(), outputs=(str(paths[0]),))]
    chain += [replace(PRETRAIN, inputs=(str(a),), outputs=(str(b),)) for a, b in itertools.pairwise(paths)]
    put_in_order(chain)
    after = [os.stat(path).st_mtime_ns for path in paths]
    assert all(a <= b for a, b in itertools.pairwise(after))
    newest = 0
    for start, now in zip(starts, after):
        assert (now == start * 10**6) == (start * 10**6 >= newest)
        newest = max(newest, now)


@pytest.fixture
def store(machines: Machines) -> Path:
    """A store of the records there; it holds no weights."""
    folder = machines.here.parent / "store"
    folder.mkdir()
    make(COUNT, machines.there)
    records, _ = record.read_all(machines.there)
    folders = [Path(one["path"]).relative_to(machines.there / "results/mini").as_posix() for one in records]
    run_store.write(folder, records, folders, lambda one, name: (Path(one["path"]) / name).read_bytes())
    return folder


COUNT = job_at("count", "counts.csv", {})


def from_store(store: Path, plan: list[Job]) -> tuple[list[str], list[str]]:
    """Take what fits: where it was put, and what is said of the others."""
    with ExitStack() as stack:
        taken, _, faults = chosen(open_records([store], stack), plan, whole=False)
        for path, found in taken.items():
            place(found, Path(path).parent)
    return sorted(taken), faults


def test_records_of_a_store_come_back_and_say_where_their_weights_stayed(
    machines: Machines, store: Path
) -> None:
    plan = [*PLAN, COUNT]
    assert from_store(store, plan) == (sorted(str(job.record) for job in plan), [])
    for job in plan:
        assert (machines.here / str(job.record)).read_bytes() == (
            machines.there / str(job.record)
        ).read_bytes()
        assert record.verify_outputs(record.read(str(job.record))) == []
    counts = f"{COUNT.folder}/counts.csv"
    assert (machines.here / counts).read_bytes() == (machines.there / counts).read_bytes()
    place(record.read(str(PRETRAIN.record)), Path(PRETRAIN.folder))  # onto itself, as `relearn adopt .` does
    assert list(record_file.left_behind(PRETRAIN.folder)) == ["weights.safetensors"]
    assert record_file.left_behind(COUNT.folder) == {}


def test_what_lies_here_and_fits_stays_before_a_store(machines: Machines, store: Path) -> None:
    take(machines.there / RUNS / "pretrain", PLAN)
    weights = machines.here / PRETRAIN.folder / "weights.safetensors"
    before = weights.stat().st_ino
    assert from_store(store, PLAN)[0] == [CRAFT.record]
    assert weights.stat().st_ino == before and record_file.left_behind(PRETRAIN.folder) == {}


def test_of_a_store_what_does_not_fit_is_counted(store: Path) -> None:
    other = replace(PRETRAIN, code="fedcba9876543210")
    taken, faults = from_store(store, [other, CRAFT, COUNT])
    assert taken == [COUNT.record]
    assert faults[0] == (
        "runs/poisoning/pretrain/seed0/record.json: code.version: found 0123456789abcdef, the DAG requires fedcba9876543210"
    )
    assert len(faults) == 2  # and what was made from it
    assert from_store(store, [COUNT])[1][0].endswith(
        "no job of the DAG is poisoning craft network=ResNet18 seed=0 scale=mini"
    )


@pytest.mark.parametrize(
    ("data", "text", "made"),
    [
        ({"dataset": "digits"}, "bytes", True),
        ({"dataset": "digits"}, "others", False),
        ({"dataset": "cifar10"}, "", False),
    ],
)
def test_data_of_a_store_is_prepared_if_its_source_is_here_and_has_the_same_bytes(
    machines: Machines,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    data: dict[str, str],
    text: str,
    made: bool,
) -> None:
    """Otherwise the data stays away, as weights do, and the runs made from it are taken all the same."""
    prepare = job_at("prepare_images", "data.safetensors", {}, settings=data)
    prepare = replace(
        prepare, command="relearn poisoning prepare_images --out $(dirname x)", logs=("logs/prepare.log",)
    )
    read = job_at("craft", "poisons.safetensors", {"data": (f"{prepare.folder}/data.safetensors",)})
    plan, there = [prepare, read], machines.there.parent / "prepared"
    for job in plan:
        make(job, there)
    calls: list[list[str]] = []

    def main(words: list[str]) -> int:
        calls.append(words)
        make(prepare, machines.here, text)
        return 0

    monkeypatch.setattr("relearn.cli.main", main)
    monkeypatch.setenv("RELEARN_MIRROR", str(machines.there))  # which has no CIFAR-10
    monkeypatch.setenv("RELEARN_CACHE", str(machines.there / "cache"))
    adopt.make_data(there, plan)
    said = {"others": f"{prepare.folder}: left out, its bytes are not the published ones\n"}.get(text, "")
    assert capsys.readouterr().err == said
    assert Path(prepare.folder).exists() == made
    assert [words[:2] for words in calls] == [["poisoning", "prepare_images"]] * bool(text)
    taken, fitting, faults = chosen(there, plan, whole=False)
    assert sorted(fitting) == sorted(str(job.record) for job in plan) and faults == []
    assert len(taken) == 2 - made
    adopt.make_data(there, plan)  # what is here is not made again
    assert len(calls) == bool(text) * (2 - made)
    monkeypatch.setattr("relearn.cli.main", lambda words: 4)
    adopt.make_data(there, plan)
    assert (f"{prepare.folder}: not made, see " in capsys.readouterr().err) == (text == "others")


def test_without_a_scale_that_of_the_arrivals_counts(machines: Machines) -> None:
    make(PRETRAIN, machines.there)
    assert scale_of(machines.there) == "mini"
    (machines.there / "results/small/work/0123456789abcdef").mkdir(parents=True)
    assert scale_of(machines.there) is None  # two scales
    assert scale_of(machines.there / "results/small") is None  # none


def test_checkpoints_that_no_job_continues_are_counted(machines: Machines) -> None:
    for name in (PRETRAIN.run, "0123456789abcdef"):
        (machines.there / "results/mini/work" / name).mkdir(parents=True)
        (machines.there / "results/mini/work" / name / "fit.json").write_text("{}")
        (machines.there / "results/mini/spool").mkdir(exist_ok=True)
        (machines.there / "results/mini/spool" / f"{name}.jsonl").write_text("{}\n")
    found, strange = place_unfinished(machines.there, PLAN, {})
    assert (found, strange) == (1, "1 unfinished run that no job of the DAG makes")
    assert Path("results/mini/work", PRETRAIN.run, "fit.json").is_file()


def unfinished(root: Path, steps: int, checkpoint: str, code: str = PRETRAIN.code) -> Path:
    """Leave PRETRAIN below ``root`` as a kill leaves it; return its work folder."""
    what = {
        name: getattr(PRETRAIN, name) for name in ("study", "step", "labels", "scale", "seed", "settings")
    }
    run = record.Run(root / PRETRAIN.folder, paper="zhu2022", code_version=code, **what)
    with pytest.raises(KeyboardInterrupt), run:
        for step in range(steps):
            run.log(step, loss=0.5)
        (run.work / f"{checkpoint}.json").write_text("{}")
        raise KeyboardInterrupt
    return run.work


@pytest.mark.parametrize(
    ("here", "there", "code", "taken"),
    [
        (5, 9, PRETRAIN.code, True),
        (9, 5, PRETRAIN.code, False),
        (5, 5, PRETRAIN.code, False),
        (9, 5, "old", True),
    ],
)
def test_an_unfinished_run_never_goes_back(
    here: int, there: int, code: str, taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    work = unfinished(Path(), here, "ours", code)
    unfinished(tmp_path / "there", there, "theirs")
    found, left = place_unfinished(tmp_path / "there", PLAN, {})
    assert [path.name for path in work.iterdir()] == ["theirs.json" if taken else "ours.json"]
    assert found == taken and ("1 unfinished run of which there is as much here" in left) != taken


def test_an_unfinished_run_that_a_process_is_making_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    unfinished(tmp_path / "there", 5, "theirs")
    with Lock(Path("results/mini/work") / f"{PRETRAIN.run}.lock"):
        assert place_unfinished(tmp_path / "there", PLAN, {})[0] == 0
    assert place_unfinished(tmp_path / "there", PLAN, {}) == (1, "")
    before = sorted(Path("results").rglob("*"))
    assert place_unfinished(Path(), PLAN, {})[0] == 0 and sorted(Path("results").rglob("*")) == before


def test_weights_of_an_older_record_do_not_stay_beside_one_whose_own_stayed_elsewhere(
    machines: Machines, store: Path
) -> None:
    make(PRETRAIN, machines.here, "other bytes")
    weights = Path(PRETRAIN.folder) / "weights.safetensors"
    assert weights.is_file()
    with ExitStack() as stack:
        for found in record.read_all(open_records([store], stack))[0]:
            place(found, Path("results/mini", *Path(found["path"]).parts[-4:]))
    assert not weights.exists() and record.verify_outputs(record.read(str(PRETRAIN.record))) == []


def test_a_store_that_was_edited_is_refused(store: Path) -> None:
    table = parquet_file.read(store / "runs.parquet")
    columns = table.to_pydict()
    columns["seed"][0] = 7
    parquet_file.write(store / "runs.parquet", columns, parquet_file.json_columns(table))
    with pytest.raises(record.RecordError, match="edited, its content does not match its sha256"):
        from_store(store, [COUNT])


def test_a_set_among_several_paths_is_refused_and_none_is_left_out(store: Path, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    with ExitStack() as stack, pytest.raises(ValueError, match="found a folder among 2 paths"):
        adopt.open_records([store, tmp_path / "more"], stack)
