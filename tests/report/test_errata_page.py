"""docs/errata.md has every entry of the studies' errata.yaml, word for word."""

import re
from pathlib import Path
from typing import Any

import pytest

from relearn.report import claims
from relearn.report import errata as errata_file

from .conftest import FOLDERS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/errata.md"
ENTRIES: dict[str, Any] = errata_file.load(FOLDERS)
FIELDS = {"paper", "place", "printed", "corrected", "counter_example", "status", "tests"}


def sections(text: str) -> dict[str, str]:
    """Heading's id → heading and the text below it."""
    parts = re.split(r"^## ", text, flags=re.M)[1:]
    return {part.partition(":")[0]: part for part in parts}


def as_printed(name: str, entry: dict[str, Any]) -> str:
    tests = ", ".join(f"`{test}`" for test in dict.fromkeys(entry["tests"].values()))
    words = [f"{name}: {entry['paper']}, {entry['place']}", ""]
    for key in ("printed", "corrected", "counter_example", "status"):
        words.append(f"- {key.replace('_', '-')}: {entry[key]}")
    return "\n".join([*words, f"- tests: {tests}", ""])


def test_the_page_has_every_entry_once_and_in_order():
    text = PAGE.read_text(encoding="utf-8")
    assert list(sections(text)) == list(ENTRIES)
    assert text.count("\n## ") == len(ENTRIES)


def test_entries_of_one_paper_are_contiguous():
    papers = [entry["paper"] for entry in ENTRIES.values()]
    changes = [paper for before, paper in zip([None, *papers], papers) if paper != before]
    assert len(changes) == len(set(papers)) >= 2


@pytest.mark.parametrize("name", ENTRIES)
def test_the_page_says_what_the_file_says(name):
    assert set(ENTRIES[name]) == FIELDS
    section = sections(PAGE.read_text(encoding="utf-8"))[name]
    assert section.startswith(as_printed(name, ENTRIES[name]))


def test_another_word_would_be_seen():
    text = PAGE.read_text(encoding="utf-8").replace("- corrected: ", "- corrected: not ", 1)
    first = next(iter(ENTRIES))
    assert not sections(text)[first].startswith(as_printed(first, ENTRIES[first]))


def test_a_claim_that_is_judged_in_a_corrected_form_names_errata_of_its_paper():
    corrected = {
        name: (entry["corrected"], entry["source"].split()[0])
        for section in claims.load(FOLDERS).values()
        for name, entry in section.items()
        if "corrected" in entry
    }
    assert len(corrected) >= 4
    for name, (ids, paper) in corrected.items():
        for one in ids.split(", "):
            assert ENTRIES[one]["paper"] == paper, name


def test_every_erratum_names_tests_that_exist():
    assert {"Z1", "Z2", "Z3"} <= set(ENTRIES)
    for entry in ENTRIES.values():
        assert set(entry["tests"]) == {"counter_example", "corrected"}
        for test in entry["tests"].values():
            file, _, name = test.partition("::")
            assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), test


def test_links_of_the_page_exist():
    for link in re.findall(r"\]\(([^)#]+)\)", PAGE.read_text(encoding="utf-8")):
        assert (PAGE.parent / link).exists(), link
