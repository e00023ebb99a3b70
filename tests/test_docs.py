"""What the documents show runs: every Python block of a page, in order, in one namespace a page."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "docs" / f"{name}.md"
    for name in (
        "methods",
        "robustness",
        "gradinit",
        "training",
        "lipschitz",
        "vision-layers",
        "long-short",
        "long-range-arena",
        "freelb",
        "choice-tasks",
    )
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_python_block_runs(page):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    assert blocks
    for number, block in enumerate(blocks):
        exec(compile(block, f"{page.name}, block {number + 1}", "exec"), {})


def test_blocks_of_the_page_on_lipschitz_constants_print_what_stands_below_them(capsys):
    page = (ROOT / "docs/lipschitz.md").read_text(encoding="utf-8")
    pairs = re.findall(r"```python\n((?:(?!```).)*)```\n\n```text\n(.*?)```", page, re.S)
    assert pairs
    for block, shown in pairs:
        exec(compile(block, "lipschitz.md", "exec"), {})
        assert capsys.readouterr().out == shown


def test_files_that_the_readme_links_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert link.startswith("http") or (ROOT / link).exists(), link
