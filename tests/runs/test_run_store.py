"""Records and files go into Parquet and come back without a changed byte; what was edited is found."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.runs import parquet_file, record, record_rows, run_store, tidy_csv
from relearn.runs.record_file import checksum
from relearn.runs.run_store import Store

TRIALS = (("target", "k", "loss", "kind"), [(3, None, 0.1, "a"), (4, 7, 1e-05, "b, c")])


def make(root: Path, name: str, metrics: dict[str, float], **more: Any) -> Path:
    out = root / "runs" / "poisoning" / "train" / name / "seed0"
    run = record.Run(
        out,
        study="poisoning",
        paper="zhu2022",
        step="train",
        labels={"victim": name},
        scale="mini",
        seed=0,
        settings={"epochs": 3, "lr": 0.1, "betas": [0.9, 0.999]},
    )
    with run:
        run.output("history.csv").write_text("step,loss\n0,2.5\n1,nan\n")
        run.output("weights.safetensors").write_bytes(b"weights")
        run.finish(metrics, trials=TRIALS, **more)
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("results")
    make(root, "ResNet18", {"acc_frac": 0.5, "steps_count": 10}, notes=["a note"])
    make(
        root, "VGG", {"loss_nats": float("nan")}, outcome="diverged", outcome_step=4, threat_model={"eps": 8}
    )
    return root


def stored(folder: Path, target: Path) -> Store:
    records, problems = record.read_all(folder / "runs")
    assert not problems
    folders = [Path(one["path"]).relative_to(folder).as_posix() for one in records]
    run_store.write(target, records, folders, lambda one, name: (Path(one["path"]) / name).read_bytes())
    return Store(target)


def test_everything_but_weights_comes_back_byte_for_byte(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    stored(folder, tmp_path / "store").unpack(tmp_path)
    there = {path.relative_to(folder): path for path in folder.glob("runs/**/*") if path.is_file()}
    back = {path.relative_to(tmp_path): path for path in tmp_path.glob("runs/**/*") if path.is_file()}
    away = {path: back.pop(path) for path in list(back) if path.name == "left_behind.json"}
    for path, file in away.items():
        assert json.loads(file.read_text()) == {
            "weights.safetensors": record.digest(folder / path.parent / "weights.safetensors")
        }
    assert set(there) - set(back) == {path for path in there if path.suffix == ".safetensors"}
    assert len(back) == 2 * 3 and len(away) == 2
    for name, path in back.items():
        assert path.read_bytes() == there[name].read_bytes()


def test_one_line_of_pandas_reads_all_runs(folder: Path, tmp_path: Path) -> None:
    stored(folder, tmp_path)
    runs = pandas.read_parquet(tmp_path / "runs.parquet").set_index("labels.victim")
    assert runs["metrics.acc_frac"].dropna().to_dict() == {"ResNet18": 0.5}
    assert runs["outcome"].to_dict() == {"ResNet18": "ok", "VGG": "diverged"}
    assert json.loads(runs["settings"].iloc[0]) == {"epochs": 3, "lr": 0.1, "betas": [0.9, 0.999]}
    trials = pandas.read_parquet(tmp_path / "trials.parquet")
    assert list(trials["target"]) == [3, 4, 3, 4] and trials["loss"].dtype == float
    rows = pandas.read_parquet(tmp_path / "rows.parquet")
    assert set(rows["file"]) == {"history.csv"} and set(rows["folder"]) == set(runs["folder"])


def test_a_store_reads_as_a_folder_of_records(folder: Path, tmp_path: Path) -> None:
    store = stored(folder, tmp_path)
    records, problems = store.read_all()
    assert not problems
    for one, other in zip(records, record.read_all(folder / "runs")[0], strict=True):
        assert one["path"] == other["path"].replace(str(folder), str(tmp_path))
        assert one | {"path": ""} == other | {"path": ""} and list(one) == list(other)
        assert store.has(one, "trials.csv") and not store.has(one, "weights.safetensors")
        with pytest.raises(record.RecordError, match=r"weights\.safetensors: not in the store$"):
            store.content(one, "weights.safetensors")


@pytest.mark.parametrize(
    ("file", "column"), [("runs", "metrics.acc_frac"), ("trials", "loss"), ("rows", "loss")]
)
def test_an_edited_number_is_found(file: str, column: str, folder: Path, tmp_path: Path) -> None:
    store = stored(folder, tmp_path)
    path = tmp_path / f"{file}.parquet"
    table = parquet_file.read(path)
    columns = table.to_pydict()
    columns[column][0] = 0.75
    parquet_file.write(path, columns, parquet_file.json_columns(table))
    records, problems = store.read_all()
    if file == "runs":
        (problem,) = problems
        assert problem.endswith("ResNet18/seed0/record.json: edited, its content does not match its sha256")
        return
    name = "trials.csv" if file == "trials" else "history.csv"
    with pytest.raises(
        record.RecordError, match=f"{name}: edited, its bytes do not match the record's sha256"
    ):
        store.content(records[0], name)


def test_a_store_cannot_write_outside_of_the_folder(folder: Path, tmp_path: Path) -> None:
    records, _ = record.read_all(folder / "runs")
    run_store.write(tmp_path, records[:1], ["runs/../../outside"], lambda one, name: None)
    with pytest.raises(record.RecordError, match="a path that leaves the folder"):
        Store(tmp_path).unpack(tmp_path / "there")
    assert not (tmp_path / "there").exists() and not (tmp_path.parent / "outside").exists()


def test_a_torn_artefact_is_not_stored(folder: Path, tmp_path: Path) -> None:
    records, _ = record.read_all(folder / "runs")
    with pytest.raises(record.RecordError, match=r"^runs/a/history\.csv: torn or edited"):
        run_store.write(tmp_path, records[:1], ["runs/a"], lambda one, name: b"step,loss\n")


def test_a_file_that_is_no_store_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "runs.parquet").write_bytes(b"PAR1 torn")
    with pytest.raises(record.RecordError, match=r"runs\.parquet: cannot be read: [^\n]*$"):
        Store(tmp_path).read_all()


def test_a_run_counts_once_and_a_table_without_its_columns_is_named(folder: Path, tmp_path: Path) -> None:
    store = stored(folder, tmp_path)
    path = tmp_path / "runs.parquet"
    table = parquet_file.read(path)
    marked = parquet_file.json_columns(table)
    columns = table.to_pydict()
    parquet_file.write(path, {name: values + values[:1] for name, values in columns.items()}, marked)
    records, problems = store.read_all()
    assert len(records) == table.num_rows and len({one["path"] for one in records}) == len(records)
    (problem,) = problems
    assert problem == f"{records[0]['path']}: a second row of this run in runs.parquet"
    parquet_file.write(path, {name: values for name, values in columns.items() if name != "settings"}, marked)
    with pytest.raises(
        record.RecordError, match=r"runs\.parquet: no column 'settings', so it is no table of runs$"
    ):
        store.read_all()


def test_a_table_of_version_0_10_that_marks_the_columns_themselves_is_read(
    folder: Path, tmp_path: Path
) -> None:
    import pyarrow
    from pyarrow import parquet

    store = stored(folder, tmp_path)
    expected, table = store.read_all(), parquet_file.read(tmp_path / "runs.parquet")
    marked = parquet_file.json_columns(table)
    fields = [one.with_metadata({b"json": b""} if one.name in marked else None) for one in table.schema]
    parquet.write_table(table.cast(pyarrow.schema(fields)), tmp_path / "runs.parquet")
    old = parquet_file.read(tmp_path / "runs.parquet")
    assert b"json" not in (old.schema.metadata or {}) and parquet_file.json_columns(old) == marked
    assert store.read_all() == expected


PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
)
NAMES = st.text(st.characters(categories=["Ll", "Nd"]) | st.sampled_from("._ "), min_size=1, max_size=6)
VALUES = st.dictionaries(NAMES, PLAIN | st.text(max_size=5) | st.lists(st.integers(), max_size=2), max_size=4)


@settings(max_examples=60)
@given(
    st.lists(
        st.fixed_dictionaries({"labels": VALUES, "metrics": VALUES, "seed": PLAIN, "notes": VALUES}),
        min_size=1,
        max_size=4,
    )
)
def test_a_table_gives_any_records_back(records: list[dict[str, Any]]) -> None:
    columns, encoded = record_rows.columns(records, [str(at) for at in range(len(records))])
    rows = [dict(zip(columns, row)) for row in zip(*columns.values())]
    back = [one for _, one in record_rows.records(rows, encoded)]
    assert [json.dumps(one) for one in back] == [json.dumps(one) for one in records]
    assert [checksum(one) for one in back] == [checksum(one) for one in records]


CELLS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.floats().map(repr),
    st.sampled_from(["", "1", "1.0", "01", "1e3", "nan", "a,b", 'say "x"', "two\nlines"]),
)


@settings(max_examples=100)
@given(st.lists(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=4), min_size=1, max_size=3))
def test_a_csv_file_comes_back_byte_for_byte(files: list[list[tuple[str, str]]]) -> None:
    made = {}
    for at, body in enumerate(files):
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows([("a", "b"), *body])
        made[f"runs/{at}", "x.csv"] = text.getvalue().encode()
    assert tidy_csv.rebuilt(tidy_csv.columns(made)) == made


def test_columns_have_types(tmp_path: Path) -> None:
    table = tidy_csv.columns({("a", "x.csv"): b"n,f,t\n1,2,x\n,0.5,1\n", ("b", "x.csv"): b"f,n\n3,4\n"})
    assert (table["n"], table["f"], table["t"]) == ([1, None, 4], [2.0, 0.5, 3.0], ["x", "1", None])
    assert [type(value) for value in table["f"]] == [float] * 3


def test_what_is_no_table_is_kept_as_it_is(tmp_path: Path) -> None:
    names = {
        "empty.csv": b"",
        "header.csv": b"a,b\n",
        "bytes.csv": b"\xff",
        "ragged.csv": b"a,b\n1\n",
        "mixed.csv": b"a\n1\n1.0\n",
    }
    out = tmp_path / "runs/a"
    run = record.Run(out, study="s", paper="p", step="t", labels={}, scale="mini", seed=0, settings={})
    with run:
        for name, content in names.items():
            run.output(name).write_bytes(content)
        run.finish({})
    (tmp_path / "store").mkdir()
    store = stored(tmp_path, tmp_path / "store")
    (one,), _ = store.read_all()
    assert {name: store.content(one, name) for name in names} == names


def test_predictions_are_stored_only_where_claims_read_them() -> None:
    trained = {"step": "train_lra", "labels": {"task": "text"}}
    tried = {"step": "train_lra", "labels": {"of": "text", "tried": "lr0.001"}}
    converted = {"step": "convert_roberta", "labels": {}}
    stored = [run_store.is_stored(one, "predictions.csv") for one in (trained, tried, converted)]
    assert stored == [True, False, False]
    assert all(run_store.is_stored(one, "history.csv") for one in (trained, tried, converted))
