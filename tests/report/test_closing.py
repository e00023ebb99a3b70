"""The last lines of a run."""

from __future__ import annotations

import json
from pathlib import Path

from relearn.report.closing import closing_words


def test_it_counts_the_claims_by_verdict_and_names_the_report(tmp_path: Path) -> None:
    verdicts = ["reproduced", "not_run", "reproduced", "contradicted"]
    claims = {"scale": "mini", "claims": [{"verdict": word} for word in verdicts]}
    (tmp_path / "claims.json").write_text(json.dumps(claims))
    assert closing_words(tmp_path) == []  # there is no report yet
    (tmp_path / "report.html").touch()
    first, report, _ = closing_words(tmp_path)
    assert first == "4 claims at scale mini: 2 reproduced, 1 not run, 1 contradicted"
    assert report == f"report: {tmp_path / 'report.html'}"
