"""What Snakemake says before the first job of a scale other than mini, and that it stops where data is missing."""

from __future__ import annotations

import pytest

from .conftest import Scratch

pytestmark = pytest.mark.slow  # Snakemake itself: eight CPU seconds


def test_missing_data_stops_a_run_before_its_first_job(scratch: Scratch) -> None:
    scratch.env["RELEARN_OFFLINE"] = "1"
    scratch.env.pop("RELEARN_MIRROR", None)
    scratch.env.pop("RELEARN_CACHE", None)
    words = ("snakemake", "--cores", "1", "--config", "scale=small", "--", "lrformer")
    done = scratch.run(*words, ok=False)
    assert done.returncode == 1
    said = f"{done.stdout}{done.stderr}".splitlines()
    heads = ("jobs: ", "forecast: ", "data: ")
    assert [line.split(": ")[0] for line in said if line.startswith(heads)] == ["jobs", "forecast", "data"]
    (refusal,) = [line for line in said if "data missing, so nothing was started" in line]
    assert "CIFAR-10 (170 MB): get it from https://www.cs.toronto.edu/~kriz/cifar.html" in refusal
    assert scratch.calls() == []
    assert not list((scratch.root / "results" / "small").rglob("record.json"))
    assert not list((scratch.root / ".snakemake" / "locks").glob("*"))  # the next run need not unlock
