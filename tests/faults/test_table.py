"""docs/faults.md lists every fault once, and every test that it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/faults.md").read_text(encoding="utf-8")
# 24 (NFS), 32 (text) and 44 (SLURM's requeue) are other studies' and the cluster page's.
FAULTS = [f"F{number}" for number in range(1, 44) if number not in (24, 32)]
ROWS = [
    [cell.strip() for cell in line.strip("|\n ").split(" | ")]
    for line in PAGE.splitlines()
    if line[:3] == "| F"
]
TESTS = re.findall(r"`(tests/[\w/.]+)::(\w+)`", PAGE)


def test_every_fault_is_there_once_in_order() -> None:
    assert [row[0] for row in ROWS] == FAULTS


def test_every_row_says_what_happens_and_names_a_test() -> None:
    for row in ROWS:
        assert len(row) == 4 and len(row[2]) > 20 and re.search(r"`tests/[\w/.]+::test_\w+`", row[3]), row[0]


def test_every_named_test_exists() -> None:
    known: dict[str, set[str]] = {}
    for file, name in TESTS:
        if file not in known:
            tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
            known[file] = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert name in known[file], f"{file}::{name}"
    assert len(TESTS) > 100
