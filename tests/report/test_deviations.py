"""The list of deviations is the difference from params/paper.yaml, with the source given there."""

import copy
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relearn.params import reading as params
from relearn.report import deviations as page
from relearn.studies import parameters

from ..params.rules import value_at
from .conftest import FOLDERS

ROOT = Path(__file__).resolve().parents[2]
PAPER = page.read(ROOT / "params/paper.yaml")
AT_PAPER = parameters.load(ROOT / "params.yaml", scale="paper")


def rows_of(text: str) -> list[str]:
    """The rows of the page, each with its whole key: that of the heading above and its own."""
    found, above = [], ""
    for line in text.splitlines():
        if line.startswith("#"):
            above = line.removeprefix("### ")
        elif line.startswith("| ") and not line.startswith("| key |"):
            own = line.removeprefix("| ")
            if own.endswith(f"| {page.AS_ABOVE} |"):
                own = f"{own.rpartition(' | ')[0]} | {found[-1].rpartition(' | ')[2]}"
            key = own.partition(" | ")[0]
            found.append(own if key == above else f"{above}.{own}")
    return found


def written(folder: Path, text: str) -> page.Published:
    path = folder / "paper.yaml"
    path.write_text(text)
    return page.read(path)


def test_at_the_published_settings_there_is_none() -> None:
    assert page.deviations(AT_PAPER, PAPER) == []
    assert "None: all " in page.markdown(AT_PAPER, PAPER)


@given(st.sets(st.sampled_from(sorted(PAPER.values))))
def test_exactly_the_changed_keys_are_listed(keys: set[str]) -> None:
    changed = copy.deepcopy(AT_PAPER)
    for key in keys:
        above, _, last = key.rpartition(".")
        value_at(changed, above)[last] = "another"
    found = page.deviations(changed, PAPER)
    assert {row.key for row in found} == keys
    assert len(found) == len(keys)
    for row in found:
        assert row == (row.key, "another", PAPER.values[row.key], PAPER.sources[row.key])


@pytest.mark.parametrize("scale", params.SCALES[:-1])
def test_the_page_holds_each_deviation_of_a_scale(scale: str) -> None:
    loaded = parameters.load(ROOT / "params.yaml", scale=scale)
    rows = page.deviations(loaded, PAPER)
    assert rows
    text = page.markdown(loaded, PAPER)
    assert f"{len(rows)} values differ" in text and text.count(f"| {page.AS_ABOVE} |") > 100
    shown = set(rows_of(text))
    for row in rows:
        cells = (row.key, page.yaml_value(row.value), page.yaml_value(row.published), row.source)
        assert f"{' | '.join(cells)} |" in shown


def test_every_published_value_names_its_source() -> None:
    words = ("released code", "not stated", "not used", "not in the text that is left (", "an addition")
    for key in PAPER.values:
        study = key.partition(".")[0]
        chapter = {"poisoning": 2, "gradinit": 4, "long_short": 5, "robustness": 5, "freelb": 3}.get(study)
        place = rf"zhu2022 ((eq\.|fig\.|figures?|tables?) )?{chapter}\.|zhu2022 algorithm {chapter}\b"
        if key.startswith("l2_attention."):
            place = r"kim2020 (5\.[123]|appendix [A-N]|table [123]|figure [1-9]0?)\b"
        if key.startswith(("lipsformer.", "lrformer.")):
            place = r"(qi2023|ye2023) (section [45]\.[0-9]|appendix [A-H]|tables? [1-8])\b"
        if key.startswith("long_short."):
            place += "|Long Range Arena"  # whose tasks and sizes section 5.3.1 takes
        if key.startswith("layer_scale."):
            place = r"touvron2021 notes$"
        assert PAPER.sources[key].startswith(words) or re.match(place, PAPER.sources[key]), key


def test_values_that_the_papers_do_not_state_have_their_own_list() -> None:
    ours = {key for key, source in PAPER.sources.items() if source.startswith("not stated")}
    assert ours
    _, _, below = page.markdown(AT_PAPER, PAPER).partition("## Values that the papers do not state")
    assert {line.split(" | ")[0] for line in rows_of(below) if "not stated" in line} == ours
    first = sorted(ours)[0]
    changed = copy.deepcopy(AT_PAPER)
    section, _, last = first.rpartition(".")
    value_at(changed, section)[last] = "another"
    above, _, below = page.markdown(changed, PAPER).partition("## Values that the papers do not state")
    assert f"| {PAPER.sources[first]} |" in above and "are above" in below
    assert {line.split(" | ")[0] for line in rows_of(below)} == ours - {first}


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("a: 1  # one\nb: 2\n", {"a": "one", "b": ""}),
        ("a: '#1'  # one # more\n", {"a": "one # more"}),
        ("a: word#no\n", {"a": ""}),
        ("a: [1, '# no',  # first\n    2]  # last\n", {"a": "first"}),
        ("a:\n  [1, 2]  # last\n", {"a": "last"}),
        ("a: {b: 1, c: 2}  # both\n", {"a.b": "both", "a.c": "both"}),
        ("a:  # above\n  b: 1\n  c: 2  # own\n", {"a.b": "above", "a.c": "own"}),
        ("a: 1  # one\n      # two\n      # three\nb: 2\n", {"a": "one two three", "b": ""}),
        ("a: 1  # one\n# another matter\nb: 2\n", {"a": "one", "b": ""}),
        ("a: 1  # one\n\n      # apart\n", {"a": "one"}),
        ("# alone\na: 1\n", {"a": ""}),
    ],
)
def test_a_comment_belongs_to_its_key(tmp_path: Path, text: str, sources: dict[str, str]) -> None:
    assert written(tmp_path, text).sources == sources


def test_a_key_that_one_side_lacks_is_a_deviation(tmp_path: Path) -> None:
    published = written(tmp_path, "a: 1  # one\nb: 2  # two\n")
    assert page.deviations({"scale": "mini", "a": 1, "c": 3}, published) == [
        page.Deviation("c", 3, page.ABSENT, ""),
        page.Deviation("b", page.ABSENT, 2, "two"),
    ]
    text = page.markdown({"scale": "mini", "a": 1, "c": 3}, published)
    assert "| c | 3 | not set |  |" in text
    assert "| b | not set | 2 | two |" in text


def test_a_bar_in_a_source_does_not_break_the_table(tmp_path: Path) -> None:
    text = page.markdown({"a": 2}, written(tmp_path, "a: 1  # one | two\n"))
    assert "| a | 2 | 1 | one \\| two |" in text


def test_a_file_without_a_mapping_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"paper\.yaml: found no mapping, allowed: the published settings"):
        written(tmp_path, "- 1\n")


RUNS = """runs:  # the list
  # one
  - {encoder: a, name: x, lr: 1, eps: {l: 2}}
  - {encoder: b, name: x, lr: 1, eps: {l: 2}}
  # of two
  # lines
  - {encoder: a, name: y, lr: 1, eps: {l: 2}}
"""


def test_a_list_of_runs_is_compared_run_by_run_and_key_by_key(tmp_path: Path) -> None:
    published = written(tmp_path, RUNS)
    here = [
        {"encoder": "a", "name": "z", "lr": 1, "eps": {"l": 2}},
        {"encoder": "a", "name": "y", "lr": 5, "eps": {"l": 3}},
        {"encoder": "b", "name": "x", "lr": 1, "eps": {"l": 2}},
    ]
    assert page.deviations({"runs": here}, published) == [
        page.Deviation("runs[a/x]", page.ABSENT, page.SET, "one"),
        page.Deviation("runs[a/y].lr", 5, 1, "of two lines"),
        page.Deviation("runs[a/y].eps.l", 3, 2, "of two lines"),
        page.Deviation("runs[a/z]", page.SET, page.ABSENT, ""),
    ]
    assert published.sources["runs[b/x]"] == "one"
    text = page.markdown({"runs": here}, published)
    assert {"runs[a/y].lr | 5 | 1 | of two lines |", "runs[a/x] | not set | set | one |"} <= set(
        rows_of(text)
    )


def test_items_without_names_belong_together_by_their_place(tmp_path: Path) -> None:
    published = written(tmp_path, "phases:\n  - {length: 8}\n  - {length: 16}\n")
    found = page.deviations({"phases": [{"length": 8}, {"length": 12}, {"length": 16}]}, published)
    assert [(row.key, row.value) for row in found] == [("phases[1].length", 12), ("phases[2]", page.SET)]


def test_no_row_of_the_page_of_scale_small_is_longer_than_a_reader_can_read() -> None:
    """One row had 22,080 characters: all fine-tunings of chapter 3."""
    loaded = parameters.load(ROOT / "params.yaml", scale="small")
    assert max(map(len, page.markdown(loaded, PAPER).splitlines())) < 2000


def test_what_no_parameter_shows_stands_on_the_page_and_names_settings_that_exist() -> None:
    found = page.methods(FOLDERS)
    own = {one.id for one in found if one.study == "poisoning"}
    assert {"masks", "pixel_std", "checkpoint", "precision", "batch_statistics", "coefficients"} <= own
    text = page.markdown(AT_PAPER, PAPER, found)
    _, _, below = text.partition("## Other differences from the texts")
    for one in found:
        assert f"| {one.study}: {one.id.replace('_', ' ')} | {one.published} |" in below.replace("\\|", "|")
        assert not one.setting or f"{one.setting}: {page.yaml_value(PAPER.values[one.setting])}" in below


def test_an_entry_without_what_is_published_is_refused(tmp_path: Path) -> None:
    for entry in ("{here: Adam}", "{published: a, here: b, there: c}"):
        (tmp_path / "deviations.yaml").write_text(f"solver: {entry}\n")
        with pytest.raises(ValueError, match=r"deviations\.yaml: solver: found .*, allowed: published, here"):
            page.methods({"any": tmp_path})
