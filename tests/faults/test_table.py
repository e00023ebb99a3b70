"""docs/faults.md lists every fault once, and every test that it names exists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/faults.md").read_text(encoding="utf-8")
FAULTS = [f"F{number}" for number in range(1, 45)]
ROWS = [
    [cell.strip() for cell in line.strip("|\n ").split(" | ")]
    for line in PAGE.splitlines()
    if line[:3] == "| F"
]
# Contracts are classes of relearn.testing, whose methods are tests.
TESTS = re.findall(r"`((?:tests|src/relearn/testing)[\w/.]+)::(\w+)`", PAGE)
# A test of these promises gives these programs no flag that the reader is not told to give. What isolates a scratch
# checkout is in its environment: `Scratch.env` in tests/workflow/conftest.py.
PROGRAMS = ("snakemake", "dvc", "make", "recover")


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
            known[file] = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert name in known[file], f"{file}::{name}"
    assert len(TESTS) > 100


def flags(words: list[str]) -> list[str]:
    return [word for word in words if word.startswith("-") and word != "--"]


def documented() -> set[str]:
    """The flags of the programs in the commands of README and of docs/faults.md."""
    text = (ROOT / "README.md").read_text(encoding="utf-8") + PAGE
    commands = re.findall(rf"(?:^|[`$ ])((?:{'|'.join(PROGRAMS)}) [^`#\n]*)", text, re.MULTILINE)
    named = re.findall(r"`(--?[a-z][a-z-]*)`", PAGE)  # of recover: described below its command
    return {flag for command in commands for flag in flags(command.split())} | set(named)


def given(source: str) -> Iterator[tuple[int, str]]:
    """The line and the flag, for every flag in a command of one of the programs, in whole or behind a name for it."""
    tree = ast.parse(source)
    names = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and set(strings(node.value)[:2]) & set(PROGRAMS)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        first = (words_of(node) or [None])[0]
        begun = (
            isinstance(first, ast.Starred) and isinstance(first.value, ast.Name) and first.value.id in names
        )
        if begun or set(strings(node)[:2]) & set(PROGRAMS):
            yield from ((node.lineno, flag) for flag in flags(strings(node)))


def words_of(node: ast.AST) -> list[ast.expr]:
    return node.args if isinstance(node, ast.Call) else getattr(node, "elts", [])


def strings(node: ast.AST) -> list[str]:
    found = [word.value for word in words_of(node) if isinstance(word, ast.Constant)]
    return [text for text in found if isinstance(text, str)]


def test_no_named_test_gives_a_flag_that_the_reader_is_not_told_to_give() -> None:
    allowed = documented()
    assert {"--cores", "-n", "--config", "--quick"} <= allowed and "--rerun-incomplete" not in allowed
    found = [
        f"{file}:{line}: {flag}"
        for file in sorted({file for file, _ in TESTS})
        for line, flag in given((ROOT / file).read_text(encoding="utf-8"))
        if flag not in allowed
    ]
    assert found == []


def test_a_hidden_flag_is_found() -> None:
    hidden = """
ALL = ("snakemake", "--cores", "all")
run(*ALL, "-k")
run(["dvc", "repro", "-f"])
run("relearn", "recover", "-x")
"""
    assert sorted(given(hidden)) == [(2, "--cores"), (3, "-k"), (4, "-f"), (5, "-x")]
