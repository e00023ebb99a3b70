"""`relearn docs`: a file in place of its folder is refused before any page is written."""

from pathlib import Path

import pytest

from relearn import cli
from relearn.cli import docs


@pytest.mark.parametrize("out", ["file", "file/below"])
def test_a_file_is_no_folder(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(docs, "material", lambda root: pytest.fail("it works already"))
    (tmp_path / "file").write_text("x")
    assert cli.main(["docs", "--out", str(tmp_path / out)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"relearn docs: --out {tmp_path / out}: found a file")
    assert said.endswith("allowed: a folder\n") and said.count("\n") == 1
