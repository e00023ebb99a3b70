"""The page holds everything, escapes everything and needs nothing beside it."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from relearn.report import analysis, artefacts, claims, cost, coverage, page, table
from relearn.report.deviations import Method
from relearn.report.layout import Layout
from relearn.report.runs import select
from relearn.report.settings_page import Setting, SettingsTable

from . import stylesheet
from .conftest import FOLDERS, SECTIONS, chapter

TEXT = analysis.Analysis("2026-11-20", "1234567", "reproduced", "scale", "Too few targets.", "Scale medium.")
NASTY = "<script>alert(1)</script> & \"quoted\" 'single'"
VOID = {"meta", "br", "img"}


class Balance(HTMLParser):
    """Every tag that opens is closed, in order; what is linked is collected."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.links += [value for name, value in attrs if name in ("href", "src")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def make_page(root, evidence):
    loaded = chapter()
    defined = {name: artefacts.expanded(artefact, evidence.runs) for name, artefact in loaded.items()}
    tables = {n: table.build(a, evidence) for n, a in defined.items() if a.kind == "table"}
    for artefact in defined.values():
        if artefact.kind == "figure":
            (root / "figures").mkdir(exist_ok=True)
            (root / "figures" / f"{artefact.id}.png").write_bytes(b"a picture of " + artefact.id.encode())
    judged = claims.judge_all(claims.load(FOLDERS), {"poisoning": evidence}, SECTIONS)
    parts = {
        "scale": "mini",
        "root": root,
        "runs": evidence.runs,
        "problems": [],
        "artefacts": list(defined.values()),
        "tables": tables,
        "claims": judged,
        "coverages": [coverage.cover(artefact, evidence) for artefact in defined.values()],
        "deviations": [("poisoning.train.epochs", "60", "null", "not stated")],
        "no_deviations": "",
        "explained": analysis.explain(judged, {("best_k_is_1_to_2_class_sizes", "mini"): TEXT}, "mini"),
        "errata": {
            "Z1": {k: k for k in ("paper", "place", "printed", "corrected", "counter_example", "status")}
        },
    }
    parts["errata"]["Z1"]["tests"] = {"corrected": "tests/a.py::test_b"}
    return lambda **changes: page.html(**{**parts, **changes}), parts


def test_the_page_is_whole(make_page):
    made = make_page[0]()
    reader = Balance()
    reader.feed(made)
    assert not reader.open
    for text in (
        "cp_beats_fc",
        "zhu2022.table2.2",
        "poisoning.train.epochs",
        "test_b",
        "not run",
        "dropout_transfers",
    ):
        assert text in made


def test_nothing_is_loaded_from_elsewhere(make_page):
    made = make_page[0]()
    reader = Balance()
    reader.feed(made)
    assert "script" not in reader.tags and "link" not in reader.tags
    assert not re.search(r"https?://", made)
    others = [link for link in reader.links if not link.startswith("#")]
    assert others and all(not link.startswith("/") for link in others)


def pictures(made: str) -> list[str]:
    return re.findall(r'<img alt="[^"]*" src="([^"]*)"', made)


def test_figures_lie_beside_the_page(make_page, root):
    shown = pictures(make_page[0]())
    assert len(shown) == sum(artefact.kind == "figure" for artefact in make_page[1]["artefacts"]) == 10
    assert all((root / path).read_bytes() == b"a picture of " + Path(path).stem.encode() for path in shown)


def test_a_page_on_request_holds_its_figures(make_page):
    html, parts = make_page
    beside, inside = pictures(html()), pictures(html(layout=Layout(embedded=True)))
    assert len(inside) == len(beside) == 10
    for path, picture in zip(beside, inside):
        kind, _, data = picture.partition(",")
        assert kind == "data:image/png;base64"
        assert base64.b64decode(data) == (parts["root"] / path).read_bytes()


def test_a_published_page_links_no_folder_of_a_run(make_page):
    reader = Balance()
    reader.feed(make_page[0](layout=Layout(published=True)))
    others = {link.partition("#")[0] for link in reader.links if not link.startswith(("#", "figures/"))}
    assert others == {"tables.md", "tables.csv", "figures.csv"}
    assert "runs/poisoning/train/" in make_page[0](layout=Layout(published=True))


def styles(made: str) -> stylesheet.Rules:
    (text,) = re.findall(r"<style>(.*?)</style>", made, re.DOTALL)
    return stylesheet.parse(text)


def test_the_style_sheet_is_one_that_a_browser_reads_whole(make_page):
    made = make_page[0]()
    rules = styles(made)
    body = rules["body"]
    size, _, families = body["font"].partition(" ")
    assert size == "16px/1.55"
    assert families.split(", ") == ["system-ui", "-apple-system", '"Segoe UI"', "sans-serif"]
    assert (body["margin"], body["color"], body["background"]) == ("0 auto", "var(--ink)", "var(--paper)")
    used = set(re.findall(r"var\((--[a-z]+)\)", str(rules)))
    assert used == rules[":root"].keys()
    assert rules["@media print details"] == {"display": "none"}
    for word in ("reproduced", "direction", "inconclusive", "contradicted", "underpowered", "partial"):
        assert rules[f".{word}"].keys() == {"background", "color"}


@pytest.mark.parametrize(
    "old,new",
    [
        ('"Segoe UI"', '"Segoe\nUI"'),  # what once dropped the page's font, colours and margins
        ("margin: 0 auto;", "margin 0 auto;"),
        ("max-width: 78rem;", "max-width: 78rem"),
        ("h1 {", "h1 {{"),
        ("@media print {", "@media print"),
    ],
)
def test_a_broken_style_sheet_is_found(make_page, old, new):
    made = make_page[0]()
    assert made.count(old) == 1
    with pytest.raises(ValueError):
        styles(made.replace(old, new))


def test_the_words_about_underpowered_claims_hold_for_every_study(make_page):
    """The numbers of one study's rule are in the small print below its claims, and nowhere else."""
    made = make_page[0]()
    intro = made[made.index('<h2 id="claims">') : made.index("<h3>")]
    assert "underpowered" in intro and not re.search(r"\d", re.sub(r"<[^>]*>|95%", "", intro))


def test_links_lead_to_runs(make_page, root):
    reader = Balance()
    reader.feed(make_page[0]())
    runs = [link for link in reader.links if link.startswith("runs/")]
    assert runs and all((root / link).is_file() for link in runs)


def test_errata_stand_under_their_papers_in_the_order_of_the_file(make_page):
    html, parts = make_page
    one = parts["errata"]["Z1"]
    entries = {
        name: {**one, "paper": paper, "place": f"place of {name}"}
        for name, paper in (("Z9", "zhu2022"), ("K1", "kim2020"), ("Z2", "zhu2022"))
    }
    made = html(errata=entries)
    made = made[made.index('<h2 id="errata">') : made.index('<h2 id="cost">')]
    order = ["zhu2022", "place of Z9", "place of Z2", "kim2020", "place of K1"]
    assert [made.count(text) for text in order] == [1] * 5
    assert sorted(order, key=made.index) == order
    assert (
        "<th colspan" not in html(errata={})[html(errata={}).index('<h2 id="errata">') :].split("</table>")[0]
    )


def test_tables_of_settings_are_shown(make_page):
    one = Setting(NASTY, "epochs", "300", "", "not in params", ("a.b",), "why")
    made = make_page[0](settings=[SettingsTable("a.table6", "Training", (one,))])
    reader = Balance()
    reader.feed(made)
    assert not reader.open and "script" not in reader.tags and "#settings" in reader.links
    assert "0 equal, 0 differs, 1 not in params." in made
    assert "<td>epochs</td><td>300</td><td>-</td><td>not in params</td><td>a.b; why</td>" in made
    assert 'id="settings"' not in make_page[0]()


@pytest.mark.parametrize("place", ["title", "claim", "problem", "deviation", "erratum", "analysis"])
def test_no_text_becomes_markup(make_page, place):
    html, parts = make_page
    artefact, claim = parts["artefacts"][0], parts["claims"][0]
    changes = {
        "title": {"artefacts": [replace(artefact, title=NASTY, caption=NASTY), *parts["artefacts"][1:]]},
        "claim": {"claims": [replace(claim, says=NASTY, reasons=(NASTY,)), *parts["claims"][1:]]},
        "problem": {"problems": [NASTY]},
        "deviation": {"deviations": [(NASTY, NASTY, "", "")]},
        "analysis": {"explained": [analysis.Explained(claim, replace(TEXT, text=NASTY, experiment=NASTY))]},
        "erratum": {"errata": {"Z1": {**parts["errata"]["Z1"], "printed": NASTY}}},
    }[place]
    made = html(**changes)
    assert "<script>" not in made and "&lt;script&gt;" in made
    reader = Balance()
    reader.feed(made)
    assert not reader.open


def test_claims_that_did_not_come_out_are_explained_or_said_not_to_be(make_page):
    html, parts = make_page
    contradicted = next(claim for claim in parts["claims"] if claim.id == "best_k_is_1_to_2_class_sizes")
    made = html(explained=[analysis.Explained(contradicted, TEXT), analysis.Explained(contradicted, None)])
    assert "Too few targets." in made and "2026-11-20, commit 1234567" in made
    assert analysis.NONE_WRITTEN in made
    assert "Every judged claim came out." in html(explained=[])


def test_additions_are_marked(make_page):
    made = make_page[0]()
    assert "addition.robustness <small>(addition)</small>" in made
    total = coverage.total(make_page[1]["coverages"])
    assert f"{total[0]} of {total[1]}. Additions" in made.replace("\n", " ")


def test_what_no_parameter_shows_stands_below_the_deviations(make_page):
    one = Method("poisoning", "pixel_std", "as <printed>", "as measured", "0.2", "poisoning.craft.targets")
    made = make_page[0](other_deviations=[one])
    assert "<td>poisoning: pixel std</td><td>as &lt;printed&gt;</td><td>as measured</td>" in made
    assert "<code>poisoning.craft.targets</code>" in made
    assert "What else differs from the texts" not in make_page[0]()


def test_unknown_deviations_say_why(make_page):
    assert "no published settings" in make_page[0](deviations=None, no_deviations="no published settings")


def test_cost_is_summed_by_step(evidence):
    found = {one.step: one for one in cost.per_step(evidence.runs)}
    both = [select(evidence.runs, {"step": step}) for step in ("train", "filter")]
    assert [found[step].runs for step in ("train", "filter")] == [len(runs) for runs in both]
    walls = [run.record["cost"]["wall_s"] for run in evidence.runs if run.step == "filter"]
    assert found["filter"].wall_s == pytest.approx(sum(walls))
    peaks = [run.record["cost"]["peak_memory_bytes"] or 0 for run in evidence.runs if run.step == "train"]
    assert found["train"].peak_memory_bytes == max(peaks)


def test_the_day_is_that_of_the_runs(evidence):
    assert cost.last_day(evidence.runs) == max(run.record["cost"]["ended"] for run in evidence.runs)[:10]
    assert cost.last_day([]) == "no runs"


def test_chapters_stand_apart_and_additions_last(make_page, gradinit, root):
    html, parts = make_page
    grids = {name: one for name, one in chapter("gradinit").items() if one.kind == "table"}
    cells = {name: table.build(one, gradinit) for name, one in grids.items()}
    both = [*parts["artefacts"], *grids.values()]
    counted = [*parts["coverages"], *(coverage.cover(one, gradinit) for one in grids.values())]
    made = html(artefacts=both, tables={**parts["tables"], **cells}, coverages=counted)
    heads = re.findall(r'<h[23] id="([^"]+)"', made)
    places = [heads.index(name) for name in ("chapter-2-poisoning", "chapter-4-gradinit", "additions")]
    assert places == sorted(places)
    assert (
        places[0] < heads.index("zhu2022.table2.2") < places[1] < heads.index("zhu2022.table4.4") < places[2]
    )
    assert all(heads.index(name) > places[2] for name in heads if name.startswith("addition."))
    measured, defined = coverage.total([coverage.cover(one, gradinit) for one in grids.values()])
    assert f"{measured} of {defined} published cells measured." in made
    assert "29.1 ± 1.5 (4)" in made  # what the paper prints, with its spread
    reader = Balance()
    reader.feed(made)
    assert not reader.open
