"""The page contains and escapes everything and needs no other file."""

import base64
import itertools
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
from relearn.report.verdict_words import COLOURS, MEANINGS, PROVISIONAL_MEANS, mixed
from relearn.report.views import words
from relearn.report.views.studies import About

from . import stylesheet
from .conftest import FOLDERS, SECTIONS, chapter

TEXT = analysis.Analysis("2026-11-20", "1234567", "reproduced", "scale", "Too few targets.", "Scale medium.")
NASTY = "<script>alert(1)</script> & \"quoted\" 'single'"
VOID = {"meta", "br", "img", "link", "wbr"}
OPTIONAL = {"td", "th", "tr", "li"}
ABOUT = [
    About(
        name, title, f"zhu2022, chapter {number}", "C. Zhu. A dissertation. 2022.", "https://example.org/zhu"
    )
    for name, title, number in (("poisoning", "Poisons", 2), ("gradinit", "Starts", 4))
]
ERRATUM = ("paper", "place", "printed", "corrected", "counter_example", "status")
DARK = "@media (prefers-color-scheme: dark)"


class Balance(HTMLParser):
    """Every tag that opens is closed, in order, if HTML asks for it; what is linked is collected."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.loaded: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src")]
        self.loaded += [value for name, value in attrs if name == "src" or (tag == "link" and name == "href")]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID | OPTIONAL:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def make_page(root, evidence):
    loaded = chapter()
    defined = {name: artefacts.expand_rows(artefact, evidence.runs) for name, artefact in loaded.items()}
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
        "about": ABOUT,
        "problems": [],
        "artefacts": list(defined.values()),
        "tables": tables,
        "claims": judged,
        "coverages": [coverage.cover(artefact, evidence) for artefact in defined.values()],
        "deviations": [("poisoning.train.epochs", "60", "null", "not stated")],
        "no_deviations": "",
        "explained": analysis.explain(judged, {("best_k_is_1_to_2_class_sizes", "mini"): TEXT}, "mini"),
        "errata": {
            "poisoning": {"Z1": {k: k for k in ERRATUM} | {"tests": {"corrected": "tests/a.py::test_b"}}}
        },
    }
    return lambda **changes: page.html(**{**parts, **changes}), parts


def test_the_page_is_whole(make_page):
    made = make_page[0]()
    reader = Balance()
    reader.feed(made)
    assert not reader.open
    for text in (
        "cp_beats_fc",
        "zhu2022.table2.2",
        "poisoning.<wbr>train.<wbr>epochs",
        "test_b",
        "not run",
        "dropout_transfers",
    ):
        assert text in made


def read(made: str) -> Balance:
    reader = Balance()
    reader.feed(made)
    assert not reader.open
    return reader


def test_nothing_is_loaded_from_elsewhere(make_page):
    made = make_page[0]()
    reader = read(made)
    assert reader.tags.count("script") == 1 and reader.tags.count("link") == 1
    assert [one for one in reader.loaded if one != "data:,"] == pictures(made)
    assert not any(":" in one for one in pictures(made)) and "@import" not in made and "url(" not in made
    # the only addresses of the page are links to the publications
    assert set(re.findall(r"https?://[^\"<]*", made)) == {"https://example.org/zhu"}
    others = [link for link in reader.links if not link.startswith("#") and ":" not in link]
    assert others and all(not link.startswith("/") for link in others)


def test_every_link_within_the_page_has_its_place_and_ids_are_unique(make_page):
    reader = read(make_page[0]())
    assert len(reader.ids) == len(set(reader.ids))
    inside = {link[1:] for link in reader.links if link.startswith("#")}
    assert inside and inside <= set(reader.ids)


def test_headings_nest(make_page):
    levels = [int(tag[1]) for tag in read(make_page[0]()).tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_the_first_screen_says_what_holds(make_page):
    html, parts = make_page
    made = html()
    first = made[made.index("<header>") : made.index("</header>")]
    counts = claims.tally(parts["claims"])
    found = {word: int(count) for count, word in re.findall(r'verdict \w+">(\d+) ([\w ]+)</span>', first)}
    assert sum(found.values()) == sum(counts.values())
    assert all(counts[word.replace(" ", "_")] <= count for word, count in found.items() if word in counts)
    for word in found:
        assert MEANINGS[word.replace(" ", "_")].replace("'", "&#39;") in first
    for part in ("Runs", "Cost", "Machine", "Commit", "Coverage", "CPU time", words.SCALES["mini"]):
        assert part in first
    assert "claims_forest" not in made
    (parts["root"] / "figures" / "claims_forest.png").write_bytes(b"a picture of claims_forest")
    try:
        assert pictures(html())[0] == "figures/claims_forest.png"
    finally:
        (parts["root"] / "figures" / "claims_forest.png").unlink()


def test_the_first_sentence_counts_every_claim_as_claims_md_does(make_page):
    """A scale that is published study by study must not seem to have failed on what has not run yet, which is named."""
    html, parts = make_page
    own = [one for one in parts["claims"] if one.section == "poisoning"]
    assert len(own) < len(parts["claims"])
    made, counts = html(), claims.tally(parts["claims"])
    assert f" of {sum(counts.values())} claims are reproduced" in made
    assert f"contradicted, {counts['not_run']} are not run.</strong>" in made
    assert "without a judged claim so far: Starts." in made
    nothing = [replace(one, verdict="not_run") for one in parts["claims"]]
    made = html(claims=nothing)
    assert f"0 of {sum(claims.tally(nothing).values())} claims are reproduced" in made
    assert "without a judged claim so far" not in made


def test_the_list_of_claims_begins_with_the_judged_ones_and_names_the_study_of_each(make_page):
    """Two studies may have a claim of one name, as gradinit and lipsformer have."""
    made = make_page[0]()
    rows = made[made.index('id="scoreboard"') :].split("</table>")[0]
    found = [verdict == "not_run" for verdict in re.findall(r'data-verdict="(\w+)"', rows)]
    assert found == sorted(found) and set(found) == {True, False}
    named = re.findall(r'<th scope="row">.* <small>(\w+)</small>', rows)
    about = {one.name for one in make_page[1]["about"]}
    assert sorted(named) == sorted(one.section for one in make_page[1]["claims"] if one.section in about)


def test_the_first_screen_explains_provisional_once(make_page):
    html, parts = make_page
    own = [replace(one, missing=("a network",)) if one.parts else one for one in parts["claims"]]
    assert len({one.verdict for one in own if one.provisional}) > 1
    for given, times in ((own, 1), ([replace(one, missing=()) for one in own], 0)):
        assert html(claims=given).partition("</header>")[0].count(PROVISIONAL_MEANS) == times


def test_tables_have_captions_heads_of_rows_and_columns_and_scroll_alone(make_page):
    made = make_page[0]()
    for one in re.findall(r"<table.*?</table>", made, re.DOTALL):
        assert "<caption>" in one
        assert all("scope=" in head for head in re.findall(r"<th[ >][^>]*", one))
    opened = re.findall(r'<div class="wide" tabindex="0" role="region" aria-label="[^"]+"><table', made)
    assert len(opened) == made.count("<table")


def test_a_caption_does_not_repeat_the_heading_for_those_who_see_it(make_page):
    made = make_page[0]()
    table = made[made.index('<h4 id="zhu2022.table2.2">') :].split("</caption>")[0]
    assert re.search(r'<caption><span class="unseen">[^<]+</span> In small print: the published value', table)
    assert styles(made)[".unseen"]["position"] == "absolute"


def test_a_verdict_that_is_explained_is_provisional_as_in_the_table(make_page):
    html, parts = make_page
    told = next(one for one in parts["explained"] if one.claim.parts)
    some = replace(told, claim=replace(told.claim, missing=("no runs for b",)))
    assert some.claim.provisional
    heading = html(explained=[some]).partition(f"<h4><code>{told.claim.id}</code>")[2]
    assert "(provisional)</span></h4>" in heading.partition("\n")[0]


def test_a_caption_stands_once_below_its_picture_with_code_as_code(make_page):
    html, parts = make_page
    place = next(at for at, one in enumerate(parts["artefacts"]) if one.kind == "figure")
    artefacts = list(parts["artefacts"])
    artefacts[place] = replace(artefacts[place], title="Norms", caption="Mean of `probe.batches` < 3")
    made = html(artefacts=artefacts)
    assert '<img alt="Norms" ' in made
    assert made.count("Mean of <code>probe.batches</code> &lt; 3") == made.count("probe.batches") == 1


def pictures(made: str) -> list[str]:
    return re.findall(r'<img alt="[^"]*" src="([^"]*)"', made)


def test_figures_are_in_the_folder_of_the_page(make_page, root):
    shown = pictures(make_page[0]())
    figures = {one.id for one in make_page[1]["artefacts"] if one.kind == "figure"}
    assert len(figures) == 10
    ran = [one.artefact for one in make_page[1]["coverages"] if one.artefact in figures and one.measured]
    assert {Path(path).stem for path in shown} == set(ran) and len(shown) == len(ran) == 9
    assert all((root / path).read_bytes() == b"a picture of " + Path(path).stem.encode() for path in shown)


def test_a_page_on_request_holds_its_figures(make_page):
    html, parts = make_page
    beside, inside = pictures(html()), pictures(html(layout=Layout(embedded=True)))
    assert len(inside) == len(beside) == 9
    for path, picture in zip(beside, inside):
        kind, _, data = picture.partition(",")
        assert kind == "data:image/png;base64"
        assert base64.b64decode(data) == (parts["root"] / path).read_bytes()


def test_a_published_page_links_no_folder_of_a_run(make_page):
    reader = Balance()
    reader.feed(make_page[0](layout=Layout(published=True)))
    beside = [link for link in reader.links if ":" not in link and not link.startswith(("#", "figures/"))]
    others = {link.partition("#")[0] for link in beside}
    assert others == {"deviations.md", "tables.md", "tables.parquet", "figures.parquet"}
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
    places = {"--x", "--y"}  # of a point, which has them itself
    assert used - places == rules[":root"].keys() == rules[f"{DARK} :root"].keys() and places < used
    for word in MEANINGS:
        assert rules[f".{word}"].keys() == {"background", "color"}
        name = word.replace("_", "")
        assert rules[":root"][f"--{name}"] == mixed(COLOURS[word], "#ffffff", 0.84)  # as in the forest plot


@pytest.mark.parametrize("above", ["", f"{DARK} "])
def test_every_text_has_the_contrast_that_people_need(make_page, above):
    """WCAG AA: 4.5 to 1 for text of this size, light and dark."""
    rules = styles(make_page[0]())
    colours = rules[f"{above}:root"]

    def resolved(value: str) -> str:
        return colours[value.removeprefix("var(").removesuffix(")")]

    pairs = [
        (colours[ink], colours[paper])
        for ink in ("--ink", "--muted", "--link")
        for paper in ("--paper", "--soft")
    ]
    pairs += [(resolved(rules[f".{w}"]["color"]), resolved(rules[f".{w}"]["background"])) for w in MEANINGS]
    assert min(contrast(*pair) for pair in pairs) >= 4.5


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    shares = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


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
    intro = made[made.index('<section id="reading">') : made.index('<section id="poisoning">')]
    assert "underpowered" in intro and not re.search(r"\d", re.sub(r"<[^>]*>|95%", "", intro))


def test_links_lead_to_runs(make_page, root):
    reader = Balance()
    reader.feed(make_page[0]())
    runs = [link for link in reader.links if link.startswith("runs/")]
    assert runs and all((root / link).is_file() for link in runs)


def test_errata_stand_in_the_section_of_their_study_in_the_order_of_the_file(make_page):
    html, parts = make_page
    one = parts["errata"]["poisoning"]["Z1"]
    entries = {
        study: {name: {**one, "place": f"place of {name}", "printed": f"eps^2 <= {name}"} for name in some}
        for study, some in (("poisoning", ("Z9", "Z2")), ("gradinit", ("Z4",)))
    }
    made = html(errata=entries)
    order = [
        *('<section id="poisoning">', 'id="erratum-Z9"', "place of Z9", 'id="erratum-Z2"', "place of Z2"),
        *('<section id="gradinit">', 'id="erratum-Z4"', "place of Z4", '<section id="coverage">'),
    ]
    assert [made.count(text) for text in order] == [1] * len(order)
    assert sorted(order, key=made.index) == order
    assert "ε<sup>2</sup> ≤ Z9" in made
    assert "erratum-" not in html(errata={}) and "Errata" not in html(errata={})


def test_tables_of_settings_are_shown(make_page):
    one = Setting(NASTY, "epochs", "300", "", "not in params", ("a.b",), "why")
    made = make_page[0](settings={"gradinit": [SettingsTable("a.table6", "Training", (one,))]})
    assert read(made).tags.count("script") == 1
    assert "0 equal, 0 differs, 1 not in params" in made
    assert "<td>epochs<td>300<td>-<td>not in params<td>a.b; why" in made
    assert (
        made.index('<section id="gradinit">')
        < made.index("Table 6: Training")
        < made.index('<section id="coverage">')
    )
    assert "Printed settings" not in make_page[0]()


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
        "erratum": {
            "errata": {"poisoning": {"Z1": {**parts["errata"]["poisoning"]["Z1"], "printed": NASTY}}}
        },
    }[place]
    made = html(**changes)
    assert read(made).tags.count("script") == 1 and "<script>alert" not in made and "&lt;script&gt;" in made


def test_claims_not_reproduced_have_an_explanation_or_a_note_that_it_is_missing(make_page):
    html, parts = make_page
    contradicted = next(claim for claim in parts["claims"] if claim.id == "best_k_is_1_to_2_class_sizes")
    made = html(explained=[analysis.Explained(contradicted, TEXT), analysis.Explained(contradicted, None)])
    assert "Too few targets." in made and "2026-11-20, commit 1234567" in made
    assert analysis.NONE_WRITTEN in made
    assert "were not reproduced" in made and "were not reproduced" not in html(explained=[])


def test_additions_are_marked(make_page):
    made = make_page[0]()
    assert "addition.robustness <small>(addition)</small>" in made
    total = coverage.total(make_page[1]["coverages"])
    assert f"{total[0]} of {total[1]}. Our additions" in made.replace("\n", " ")


def test_differences_without_a_parameter_are_listed_below_the_deviations(make_page):
    one = Method("poisoning", "pixel_std", "as <printed>", "as measured", "0.2", "poisoning.craft.targets")
    made = make_page[0](other_deviations=[one])
    shown = '<th scope="row">pixel std<td>as &lt;printed&gt;<td>as measured'
    assert shown in made.replace("\n", "")
    assert "<code>poisoning.craft.targets</code>" in made
    assert "Other differences from the texts" not in make_page[0]()


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


def test_costs_are_shown_in_the_unit_that_a_person_counts_in(evidence):
    assert [cost.hours(s) for s in (0, 3.21, 45, 600, 5400)] == ["0 s", "3.2 s", "45 s", "10 min", "1.5 h"]
    found = cost.sum_up(evidence.runs)
    steps = cost.per_step(evidence.runs)
    assert found.runs == len(evidence.runs) == sum(one.runs for one in steps)
    assert found.cpu_s == pytest.approx(sum(one.cpu_s for one in steps))
    assert found.peak_memory_bytes == max(one.peak_memory_bytes for one in steps)


def test_studies_stand_apart_with_their_additions_behind_the_papers_own(make_page, gradinit):
    html, parts = make_page
    grids = {name: one for name, one in chapter("gradinit").items() if one.kind == "table"}
    cells = {name: table.build(one, gradinit) for name, one in grids.items()}
    both = [*parts["artefacts"], *grids.values()]
    counted = [*parts["coverages"], *(coverage.cover(one, gradinit) for one in grids.values())]
    made = html(artefacts=both, tables={**parts["tables"], **cells}, coverages=counted)
    read(made)
    places = [made.index(f'<section id="{name}">') for name in ("poisoning", "gradinit", "coverage")]
    assert places == sorted(places)
    for name, low, high in (("zhu2022.table2.2", 0, 1), ("zhu2022.table4.4", 1, 2)):
        assert places[low] < made.index(f'<h4 id="{name}">') < places[high]
    assert '<h4 id="zhu2022.table2.2">Table 2.2: ' in made
    tables = re.findall(r'<h4 id="([^"]+\.table[^"]*|addition[^"]*)"', made[places[0] : places[1]])
    ours = [name.startswith("addition.") for name in tables]
    assert True in ours and not ours[0]
    measured, defined = coverage.total([coverage.cover(one, gradinit) for one in grids.values()])
    assert f"{measured} of {defined} published cells measured" in made[places[1] :]
    assert "paper 29.1 ± 1.5 (4)" in made  # what the paper prints, with its spread


def test_what_has_no_run_is_named_and_not_shown(make_page):
    html, parts = make_page
    first, silent = parts["artefacts"][0], "zhu2022.fig2.10"  # which the fake study does not run
    none = [replace(parts["coverages"][0], measured=0), *parts["coverages"][1:]]
    for made, shown in ((html(), True), (html(coverages=none), False)):
        named = made[made.index("without a run at this scale") :].split("</ul>")[0]
        assert f'id="{silent}"' not in made and "Figure 2.10: " in named
        assert (f'id="{first.id}"' in made) is shown and (first.title in named) is not shown


def test_a_table_with_rows_beside_the_published_grid_is_shown(make_page):
    html, parts = make_page
    name = "zhu2022.table2.2"
    none = [replace(one, measured=0) if one.artefact == name else one for one in parts["coverages"]]
    cells = [replace(cell, status="not_run") for cell in parts["tables"][name]]
    made, gone = html(coverages=none), html(coverages=none, tables={**parts["tables"], name: cells})
    assert f'<h4 id="{name}">' in made and f'<h4 id="{name}">' not in gone
    assert " published cells measured; shown on data of our own. Numbers" in made


def test_a_figure_on_our_own_data_is_shown(make_page, tmp_path):
    """None of its published cells is measured, but its file has a point of a run."""
    html, parts = make_page
    (tmp_path / "figures").mkdir()
    one = next(one for one in parts["artefacts"] if one.id == "zhu2022.fig2.10")
    (tmp_path / "figures" / f"{one.id}.png").write_bytes(b"picture")
    for runs, shown in (("", False), ("runs/poisoning/x", True)):
        (tmp_path / "figures" / f"{one.id}.csv").write_text(f"series,value,runs\nours,0.5,{runs}\n")
        kept = {key: [a for a in parts[key] if a.kind == "table" or a is one] for key in ("artefacts",)}
        assert (f'<h4 id="{one.id}">' in html(root=tmp_path, **kept)) is shown
