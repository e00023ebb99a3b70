"""Snakemake takes the names of `relearn list` as targets and plans no more than they need."""

from __future__ import annotations

import re

from relearn.cli import targets
from relearn.studies import parameters

from .conftest import Scratch


def test_a_table_and_a_claim_are_targets_and_plan_what_they_need(scratch: Scratch) -> None:
    names = ["table2.2", "claim:hull_proposition"]
    said = scratch.run("snakemake", "-n", "--", *names).stdout
    plans = targets.plans(parameters.load(scratch.root / "params.yaml"))
    records = [path for name in names for path in targets.records(targets.find(name), plans)[0]]
    total = re.search(r"^total +(\d+)$", said, re.MULTILINE)
    assert total and int(total[1]) == len(targets.needed(records, plans)) + len(names)


def test_a_mistyped_target_is_answered_with_the_nearest(scratch: Scratch) -> None:
    done = scratch.run("snakemake", "-n", "--", "tabel2.2", ok=False)
    line = done.stdout.splitlines()[-1]
    assert done.returncode != 0 and line.startswith("snakemake: no target or file tabel2.2; did you mean ")
    assert "table2.2" in line and "`relearn list`" in line
