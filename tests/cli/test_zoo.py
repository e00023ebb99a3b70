"""docs/model-zoo.md is what the code says of its networks; its examples run."""

import re
from pathlib import Path

import pytest

from relearn.cli import zoo
from relearn.models.timm_names import NAMES

PAGE = (Path(__file__).parents[2] / "docs/model-zoo.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page() -> str:
    return zoo.page()


def test_the_page_is_what_the_code_gives(page: str) -> None:
    assert page == PAGE, "python -m relearn.cli.zoo > docs/model-zoo.md"


def test_every_network_has_one_row(page: str) -> None:
    rows = re.findall(r"^\| `(\w+)` \|", page, re.M)
    assert sorted(rows) == sorted(NAMES)


def test_numbers_by_hand(page: str) -> None:
    lines = {name: line for line in page.splitlines() for name in re.findall(r"^\| `(\w+)` \|", line)}
    assert "| LipsFormer-Swin-T | 30,908,578 | 31 | 4.98 | 5.0 |" in lines["lipsformer_swin_tiny"]
    # 12 blocks of 384: 12·384² + 13·384 each, patches, positions, token, norm, head
    blocks = 12 * (12 * 384**2 + 13 * 384)
    rest = (16 * 16 * 3 + 1) * 384 + 197 * 384 + 384 + 2 * 384 + 385 * 1000
    small = f"{blocks + rest:,}"
    assert lines["residual_deit_small"].count(small) == 2, "ours and timm's"


def test_every_example_of_the_page_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, "model-zoo.md", "exec"), {})
