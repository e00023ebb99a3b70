"""What an earlier rendering drew is copied exactly when nothing that decides how it looks has changed; work in shares."""

import os
import signal
from pathlib import Path

import numpy
import pytest

from relearn.report.figures import drawn, shares

POINTS = [
    {"x": 1.0, "says": "a", "pictures": None},
    {"x": 2.0, "says": "b", "pictures": [numpy.zeros((2, 2, 3))]},
]
NEXT = float(numpy.nextafter(2.0, 3.0))


@pytest.fixture
def before(tmp_path: Path) -> drawn.Drawn:
    """A folder with one drawn figure, as a later rendering reads it."""
    old = tmp_path / "old"
    old.mkdir()
    files = [old / f"fig1.{ending}" for ending in drawn.ENDINGS]
    for file in files:
        file.write_text(file.name)
    key = drawn.Drawn.read(old, "code 1").key("artefact", POINTS, "2 seeds")
    drawn.write({"fig1": drawn.Entry(key, drawn.digests(files))}, old)
    return drawn.Drawn.read(old, "code 1")


def test_the_same_figure_is_copied(before: drawn.Drawn, tmp_path: Path) -> None:
    key = before.key("artefact", POINTS, "2 seeds")
    copied = before.copy("fig1", key, tmp_path / "new")
    assert [path.read_text() for path in copied] == ["fig1.csv", "fig1.png", "fig1.pdf"]
    assert all(path.parent == tmp_path / "new" for path in copied)
    assert before.copy("fig2", key, tmp_path / "new") == []


CHANGES = {
    "the definition": ("code 1", "artefact 2", POINTS, "2 seeds"),
    "a last digit": ("code 1", "artefact", [POINTS[0], {**POINTS[1], "x": NEXT}], "2 seeds"),
    "a pixel": (
        "code 1",
        "artefact",
        [POINTS[0], {**POINTS[1], "pictures": [numpy.eye(2)[..., None] * [0, 0, 1e-9]]}],
        "2 seeds",
    ),
    "the shape of a picture": (
        "code 1",
        "artefact",
        [POINTS[0], {**POINTS[1], "pictures": [numpy.zeros((4, 1, 3))]}],
        "2 seeds",
    ),
    "the order": ("code 1", "artefact", POINTS[::-1], "2 seeds"),
    "the line below": ("code 1", "artefact", POINTS, "3 seeds"),
    "the code": ("code 2", "artefact", POINTS, "2 seeds"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_drawn_anew(before: drawn.Drawn, tmp_path: Path, change: str) -> None:
    code, *what = CHANGES[change]
    now = drawn.Drawn.read(before.folder, code)
    assert now.copy("fig1", now.key(*what), tmp_path) == []


@pytest.mark.parametrize("ending", drawn.ENDINGS)
def test_a_file_that_was_edited_or_is_gone_is_drawn_anew(
    before: drawn.Drawn, tmp_path: Path, ending: str
) -> None:
    key, file = before.key("artefact", POINTS, "2 seeds"), before.folder / f"fig1.{ending}"
    file.write_text("edited")
    assert before.copy("fig1", key, tmp_path) == []
    file.unlink()
    assert before.copy("fig1", key, tmp_path) == []


@pytest.mark.parametrize("text", ["", "[]", '{"fig1": 1}', '{"fig1": ["key"]}', "no json"])
def test_an_unreadable_list_means_that_all_is_drawn(tmp_path: Path, text: str) -> None:
    (tmp_path / drawn.FILE).write_text(text)
    assert drawn.Drawn.read(tmp_path, "code").entries == {}


@pytest.mark.parametrize("processes", [1, 2, 3, 9])
def test_results_come_in_the_order_of_the_items(processes: int) -> None:
    own = os.getpid()
    found = shares.in_shares(lambda item: (item * item, os.getpid()), range(7), processes)
    assert [value for value, _ in found] == [item * item for item in range(7)]
    assert len({pid for _, pid in found}) == min(processes, 7) and found[0][1] == own


@pytest.mark.parametrize("item", [0, 1])
def test_an_error_in_any_process_is_raised_here(item: int) -> None:
    def work(one: int) -> int:
        if one == item:
            raise ValueError(f"item {one}")
        return one

    with pytest.raises(ValueError, match=f"item {item}"):
        shares.in_shares(work, [0, 1, 2, 3], 2)


def test_a_process_that_is_killed_is_named() -> None:
    own = os.getpid()

    def work(item: int) -> int:
        if os.getpid() != own:
            os.kill(os.getpid(), signal.SIGKILL)
        return item

    with pytest.raises(RuntimeError, match="ended without an answer, status -9"):
        shares.in_shares(work, [0, 1], 2)
