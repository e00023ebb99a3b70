"""The rule that renders: what makes it stale, and that a failure costs no table and no figure that was there."""

from __future__ import annotations

import json
from typing import Any

import pytest


@pytest.mark.slow
def test_a_rendering_that_fails_leaves_the_old_files_and_the_next_one_replaces_them(scratch: Any) -> None:
    scratch.ask([])  # everything is done
    promised = [scratch.root / path for path in json.loads((scratch.root / "promised.json").read_text())]
    assert len(promised) > 300

    def contents() -> set[str]:
        return {path.read_text() for path in promised if path.exists()}

    for path in promised:
        path.write_text("from before\n")
    program = scratch.root / "bin/relearn"
    works = program.read_text()
    snakemake = ("snakemake", "--cores", "1", "--", "render_all")

    scratch.edit("src/relearn/report/report.css", "78rem", "80rem")
    program.write_text(works.replace("exec", '[ "$1" = render ] && exit 1\nexec', 1))
    failed = scratch.run(*snakemake, ok=False)
    assert failed.returncode != 0 and "FAILED: render, after " in failed.stderr
    assert contents() == {"from before\n"}
    assert [path.name for path in promised if not path.exists()] == ["metrics.json"], (
        "what asks for the rule again"
    )

    program.write_text(works)
    scratch.run(*snakemake)
    assert "from before\n" not in contents()
    assert scratch.ran() == {"render": 1}

    scratch.edit("src/relearn/report/report.html.j2", "<h1>", '<h1 id="top">')
    scratch.run(*snakemake)
    assert scratch.ran() == {"render": 1}
