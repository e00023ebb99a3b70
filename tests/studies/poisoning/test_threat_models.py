"""Every attack has a card, every card says everything, and the reference to the source is among it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from relearn.methods import ATTACKS

PAGE = (Path(__file__).parents[3] / "docs/threat-models.md").read_text(encoding="utf-8")
CARDS = dict(re.findall(r"^## `(\w+)`:[^\n]*\n(.*?)(?=^## )", PAGE, re.S | re.M))
LINES = (
    *(
        "Goal",
        "Knowledge",
        "May change",
        "Budget and norm",
        "Poisons",
        "Labels",
        "Evaluated",
        "What it is not",
    ),
    "Source",
)


@pytest.mark.parametrize("name", sorted({*ATTACKS, "white_box_watermark", "pgd"}))
def test_every_attack_has_a_whole_card(name):
    rows = dict(re.findall(r"^\| ([^|]+?) \| (.+?) \|$", CARDS[name], re.M))
    assert tuple(rows) == LINES
    assert all(len(text) > 3 for text in rows.values())


def test_no_card_without_an_attack():
    assert set(CARDS) == {*ATTACKS, "white_box_watermark", "pgd"}


def test_every_attack_that_the_parameters_name_is_on_the_page():
    import yaml

    named = yaml.safe_load((Path(__file__).parents[3] / "params.yaml").read_text())["poisoning"]["craft"][
        "attacks"
    ]
    for name in named:
        assert f"`{name}`" in PAGE, name


def test_the_page_says_how_to_use_it():
    assert "## Responsible use" in PAGE
