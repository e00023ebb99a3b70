"""The points of a figure on a page: in percent, with their run, and none that the picture does not show."""

from __future__ import annotations

from relearn.report.views import marks

CONTENT = b"""series,value,runs,plot_left,plot_top,plot_says
a,0.5,runs/s/t/seed0 runs/s/t/seed1,0.1234,0.5,"A, x: 50%"
b,,,,,
c,0.25,,1.0,0.00001,C: 25%
"""


def test_points_that_are_shown_lead_to_their_first_run() -> None:
    found = marks.read(CONTENT, lambda row: marks.first_run(row) and f"{marks.first_run(row)}/record.json")
    assert found == [
        {
            "left": "12.34",
            "top": "50",
            "says": "A, x: 50%. Run: runs/s/t/seed0 and 1 more",
            "href": "runs/s/t/seed0/record.json",
        },
        {"left": "100", "top": "0.001", "says": "C: 25%", "href": ""},
    ]


def test_a_figure_without_places_has_no_points() -> None:
    assert marks.read(b"series,value\na,1\n", lambda _: "x") == []
