"""The table of docs/lipschitz.md on inversions is that of the published runs of scale mini, to one digit."""

import re

from relearn.report.runs import load

from ...measured import ROOT

KINDS = ("dp", "l2_tied", "contractive")


def test_the_page_has_the_errors_of_the_records() -> None:
    runs = [run for run in load(ROOT / "results/published/mini", "mini")[0] if run.study == "l2_attention"]
    rows = {
        kind: run.rows("ranges.csv")
        for run in runs
        for kind in KINDS
        if {"suite": "fig3", "attention": kind}.items() <= dict(run.labels).items()
    }
    lines = re.findall(
        r"^\| \[-(\d+), \1\] \| (.+?) \| (\S+) or less \| (\S+) or less \|$",
        (ROOT / "docs/lipschitz.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert [int(reach) for reach, *_ in lines] == [1, 3, 10, 100]
    for reach, dp, tied, largest in lines:
        found = {
            kind: [float(f"{row['error_max']:.1g}") for row in rows[kind] if row["spread"] == float(reach)]
            for kind in KINDS
        }
        assert found["dp"] == [float(one) for one in dp.split(", ")]
        assert max(found["l2_tied"]) == float(tied)
        assert max(found["contractive"]) == float(largest)
