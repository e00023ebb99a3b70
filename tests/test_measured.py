"""Numbers of the documentation and of the published results are those of the records that a comment behind them names."""

import re

import pytest

from .measured import MARKER, ROOT, numbers

PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("docs", "results/published", "src/relearn/studies")
    for path in (ROOT / folder).rglob("*.md")
    if MARKER.search(path.read_text(encoding="utf-8"))
)
PAGE = """Plain training reaches {value}% on SST-2.

<!-- records results/published/small
median finetune.held_out_score_frac encoder=roberta task=sst2 method=vanilla: {named}%
-->
"""


@pytest.mark.parametrize("page", PAGES)
def test_every_number_is_the_records(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = numbers(text)
    assert found and not [number.fault for number in found if number.fault]


def test_a_wrong_number_is_found() -> None:
    (right,) = numbers(PAGE.format(value="67.6", named="67.6"))
    assert not right.fault
    (wrong,) = numbers(PAGE.format(value="67.7", named="67.7"))
    assert wrong.fault.endswith("the records say 67.6%")
    (absent,) = numbers(PAGE.format(value="167.6", named="67.6"))
    assert absent.fault.endswith("not in the text before it")
    (nothing,) = numbers(PAGE.format(value="67.6", named="67.6").replace("sst2", "sst3"))
    assert nothing.fault.endswith("the records say nothing")


def test_a_line_that_says_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no line of a comment"):
        numbers(re.sub("median", "about", PAGE.format(value="67.6", named="67.6")))
