"""Data that jobs need: what is at hand, what is missing, and the line that stops a run."""

from pathlib import Path

import pytest

from relearn.forecast import data_sets, planned, start
from relearn.studies import parameters
from relearn.studies.work import Job


@pytest.fixture(scope="module")
def small() -> dict[str, Job]:
    return planned.jobs_of(parameters.load("params.yaml", scale="small"))


@pytest.fixture(autouse=True)
def nothing_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RELEARN_MIRROR", raising=False)
    monkeypatch.setenv("RELEARN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("RELEARN_OFFLINE", "1")
    monkeypatch.setattr(data_sets, "private_folder", lambda: tmp_path / "private")


def of(jobs: dict[str, Job], study: str) -> dict[str, data_sets.DataSet]:
    return {one.name: one for one in data_sets.needed(job for job in jobs.values() if job.study == study)}


def test_a_set_is_at_hand_in_the_mirror_or_the_cache(
    small: dict[str, Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert of(small, "poisoning")["cifar10"].status == data_sets.MISSING
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "cifar-10-binary.tar.gz").touch()
    assert of(small, "poisoning")["cifar10"].status == data_sets.AT_HAND
    (tmp_path / "mirror" / "warandpeace").mkdir(parents=True)
    monkeypatch.setenv("RELEARN_MIRROR", str(tmp_path / "mirror"))
    assert of(small, "long_short")["warandpeace"].status == data_sets.MISSING  # an empty folder
    (tmp_path / "mirror" / "warandpeace" / "warandpeace.txt").touch()
    assert of(small, "long_short")["warandpeace"].status == data_sets.AT_HAND


def test_with_a_network_the_step_downloads_it(small: dict[str, Job], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELEARN_OFFLINE", "0")
    assert of(small, "l2_attention")["ptb"].status == data_sets.DOWNLOAD


def test_mini_needs_nothing_and_paper_imagenet() -> None:
    for scale, wanted in (("mini", set()), ("paper", {"imagenet", "iwslt14", "enwik8", "glue", "cifar10"})):
        jobs = planned.jobs_of(parameters.load("params.yaml", scale=scale)).values()
        found = {one.name for one in data_sets.needed(jobs)}
        assert found >= wanted if wanted else found == set(), scale


def test_a_set_that_may_be_missing_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(
        study="freelb",
        step="finetune",
        scale="mini",
        seed=0,
        labels={},
        settings={"with_tasks": ["regents"]},
        folder="results/mini/runs/freelb/finetune/x",
    )
    (one,) = data_sets.needed([job])
    assert one.status == data_sets.OPTIONAL


def test_missing_data_is_named_in_one_line_before_the_first_job(small: dict[str, Job]) -> None:
    folders = [folder for folder, job in small.items() if job.study == "lrformer"]
    params = parameters.load("params.yaml", scale="small")
    found = start.start(params, folders, dict.fromkeys(folders, "new"), cores=2)
    jobs, forecast, data = found.lines
    assert jobs == f"jobs: {len(folders)} at scale small ({len(folders)} new) of lrformer"
    assert forecast.startswith("forecast: ") and "with 2 at once" in forecast
    assert "CIFAR-10 missing" in data
    assert "\n" not in found.refusal
    for word in (
        "CIFAR-10 (170 MB)",
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        "$RELEARN_MIRROR/cifar10",
    ):
        assert word in found.refusal
    assert start.start(params, folders[:1], {}, cores=2).refusal  # the preparation alone needs it too


def test_a_run_whose_data_is_there_is_not_refused(
    small: dict[str, Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cifar10", "cifar100_ood"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "images.npy").touch()
    monkeypatch.setenv("RELEARN_MIRROR", str(tmp_path))
    folders = [folder for folder, job in small.items() if job.study == "lrformer"]
    assert start.start(parameters.load("params.yaml", scale="small"), folders, {}, cores=1).refusal == ""


@pytest.mark.parametrize("name", ["https_proxy", "ALL_PROXY", "all_proxy"])
def test_behind_a_proxy_no_host_is_called_unreachable(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = data_sets.DataSet(*["x"] * len(data_sets.DataSet._fields))._replace(
        status=data_sets.DOWNLOAD, source="https://nowhere.invalid/x"
    )
    for one in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(one, raising=False)
    monkeypatch.setattr(data_sets, "_answers", lambda host: False)
    assert data_sets.unreachable([wanted]) == [wanted]
    monkeypatch.setenv(name, "http://proxy.invalid:1")
    assert data_sets.unreachable([wanted]) == []
