"""The report in a browser, at the widths of a phone and of a laptop."""

from pathlib import Path

import pytest

from .chromium import PROGRAM, Chromium
from .test_page import make_page  # noqa: F401  the page of the fake study

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs Chromium")
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c6360000000020001"
    "48afa4710000000049454e44ae426082"
)


def test_the_page_fits_loads_all_and_can_be_sorted_and_filtered(make_page, root: Path) -> None:  # noqa: F811
    for picture in (root / "figures").glob("*.png"):
        picture.write_bytes(PIXEL)
    page = root / "report.html"
    page.write_text(make_page[0](), encoding="utf-8")
    assert page.stat().st_size < 1 << 20
    with Chromium() as browser:
        for width, dark in ((390, False), (1366, True)):
            seen = browser.look(page.as_uri(), width, dark)
            assert (seen.errors, seen.missing, seen.unsaid, seen.wide) == ([], [], [], [])
            assert seen.scroll <= width and seen.images == 9
            assert browser.evaluate(UNSEEN) == []
            found = browser.evaluate(FILTERED)
            assert found["shown"] == found["counted"] > 0 and found["shown"] < found["all"]
            assert all(url.startswith(("file:", "data:")) for url in seen.requests)
        assert found["said"] == f"{found['shown']} claims"
        names = browser.evaluate(SORTED)
        assert names == sorted(names, reverse=True) and len(names) == found["all"]
        assert browser.evaluate(
            "dispatchEvent(new Event('beforeprint')), [...document.querySelectorAll('details')].every(d => d.open)"
        )


POINTS = """series,runs,plot_left,plot_top,plot_says
a,runs/poisoning/train/transfer/a/none/SENet18/seed0,0.999,0.98,"A, SENet18: 20% [8.1%, 41.6%], 20 attacks"
b,,0.0,0.02,"Published code: 100%"
"""


def test_a_point_shows_its_numbers_on_focus_within_the_page(make_page, root: Path) -> None:  # noqa: F811
    folder = root / "figures"
    (folder / "zhu2022.fig2.5.png").write_bytes(PIXEL)
    (folder / "zhu2022.fig2.5.csv").write_text(POINTS)
    page = root / "points.html"
    try:
        page.write_text(make_page[0](), encoding="utf-8")
    finally:
        (folder / "zhu2022.fig2.5.csv").unlink()
    with Chromium() as browser:
        for width in (390, 1366):
            seen = browser.look(page.as_uri(), width)
            assert seen.wide == [] and seen.scroll <= width
            for number, says in enumerate(("20% [8.1%, 41.6%], 20 attacks. Run: train/transfer", "100%")):
                found = browser.evaluate(FOCUSED % number)
                assert found["before"] == "none" and found["after"] == "block" and says in found["says"]
                assert found["left"] >= 0 and found["right"] <= width and found["right"] > found["left"]
            assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert found["links"] == ["runs/poisoning/train/transfer/a/none/SENet18/seed0/record.json", None]


FOCUSED = """(() => {
  const marks = [...document.querySelectorAll(".mark")];
  const mark = marks[%d];
  const style = getComputedStyle(mark, "::after");
  const before = style.display;
  mark.focus();
  const left = mark.parentElement.getBoundingClientRect().left + parseFloat(style.left);
  return {before, after: style.display, says: style.content, left, right: left + parseFloat(style.width),
    links: marks.map(one => one.getAttribute("href"))};
})()"""
# tables of text of which a part can only be seen after scrolling sideways
UNSEEN = """[...document.querySelectorAll(".wide:has(> table.sortable.text)")]
  .filter(box => box.scrollWidth > box.clientWidth).map(box => box.getAttribute("aria-label"))"""
FILTERED = """(() => {
  const rows = [...document.querySelectorAll("#scoreboard tbody tr")];
  const chosen = document.getElementById("verdicts");
  chosen.value = "not_run";
  chosen.dispatchEvent(new Event("change"));
  const shown = rows.filter(row => row.offsetHeight > 0);
  const found = {all: rows.length, shown: shown.length, said: document.getElementById("found").textContent,
    counted: rows.filter(row => row.dataset.verdict === "not_run").length};
  chosen.value = "";
  chosen.dispatchEvent(new Event("change"));
  return found;
})()"""
SORTED = """(() => {
  const table = document.querySelector("#scoreboard table");
  const button = table.tHead.rows[0].cells[0].querySelector("button");
  button.click();
  button.click();
  return [...table.tBodies[0].rows].map(row => row.cells[0].textContent.trim());
})()"""
