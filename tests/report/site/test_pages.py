"""Pages of one study, without MkDocs: everything that is published is there, and links lead somewhere."""

import html
import re
from pathlib import Path

import pytest

from relearn.cli.docs import ROOT
from relearn.report.site import build, code_lines, home, links
from relearn.report.site.material import Site
from relearn.report.site.published import table

STUDY = "lrformer"


@pytest.fixture(scope="module")
def pages(site: Site, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    out = tmp_path_factory.mktemp("docs")
    made = build.write(site, out, [STUDY])
    assert all(path.is_file() for path in made) and (out / "mkdocs.yml").is_file()
    folder = out / "pages"
    return {path.relative_to(folder).as_posix(): path.read_text() for path in made if path.suffix == ".md"}


def test_a_study_has_its_page_a_page_a_scale_and_a_page_a_claim(site: Site, pages: dict[str, str]) -> None:
    claims = {f"claims/{STUDY}.{row.claim}.md" for row in site.of(STUDY)}
    assert len(claims) == 3
    assert set(pages) == {f"studies/{STUDY}/index.md", f"studies/{STUDY}/mini.md", *claims}


def test_a_page_of_results_has_every_table_and_figure_that_was_measured(
    site: Site, pages: dict[str, str]
) -> None:
    text = pages[f"studies/{STUDY}/mini.md"]
    (scale,) = site.scales
    own = [one for one in site.artefacts.values() if one.study == STUDY]
    assert len(own) > 5
    for one in own:
        assert (f"{{#{one.id}}}" in text) is (scale.coverage[one.id][0] > 0)
    figures = [one for one in own if one.kind == "figure"]
    assert (
        text.count("<figure>")
        == len(figures)
        == text.count("How it is drawn: src/relearn/studies/lrformer/figures/")
    )
    assert "Deviations from the published settings" in text and "Cost of the steps" in text
    numbers = [
        cell
        for line in scale.tables["addition.lrformer_ood"].lines
        for cell in line
        if re.search(r"\d \(\d+\)", cell)
    ]
    assert len(numbers) > 50 and all(cell in text for cell in numbers)


def test_a_point_of_a_figure_says_what_its_csv_file_says(site: Site, pages: dict[str, str]) -> None:
    (scale,) = site.scales
    figure = pages[f"studies/{STUDY}/mini.md"].partition("{#addition.lrformer_reliability}")[2]
    picture = figure[figure.index("<figure>") : figure.index("</figure>")]
    shown = scale.marks("addition.lrformer_reliability")
    assert len(shown) > 20 and "\n\n" not in picture  # Markdown ends a block of HTML at an empty line
    for mark in shown:
        assert f'style="--x:{mark["left"]}%;--y:{mark["top"]}%"' in picture
        assert f'aria-label="{html.escape(mark["says"], quote=False)}"' in picture


def test_points_of_the_forest_plot_lead_to_pages_of_claims(site: Site) -> None:
    made = home.page(site, {})
    linked = re.findall(
        r'<a class="mark" style="[^"]*" href="(claims/[^"]+)\.html" aria-label="([^"]+)"', made
    )
    claims = {f"claims/{row.study}.{row.claim}": row.claim for row in site.rows}
    assert len(linked) > 20 and all(says.startswith(claims[page]) for page, says in linked)


def test_a_claim_shows_verdict_effect_rule_and_runs(site: Site, pages: dict[str, str]) -> None:
    text = pages[f"claims/{STUDY}.lrsa_bound.md"]
    (row,) = [row for row in site.of(STUDY) if row.claim == "lrsa_bound"]
    assert row.says[1:] in text and row.source in text
    assert row.cells["mini"].shown in text and f"**{row.word('mini')}**" in text
    assert "def lrsa_bound(" in text
    assert all(f"`{run}`" in text for run in site.scales[0].claims[STUDY, "lrsa_bound"]["runs"])
    assert re.search(r"GP - dense \| [^|]* points", pages[f"claims/{STUDY}.gp_is_distance_aware.md"])


def test_formulas_of_errata_are_set(pages: dict[str, str]) -> None:
    assert (
        "<sub>F</sub>" in pages[f"studies/{STUDY}/index.md"]
        and 'id="erratum-Y2"' in pages[f"studies/{STUDY}/index.md"]
    )


def test_links_between_pages_lead_to_pages(site: Site, pages: dict[str, str]) -> None:
    known = {*pages, *site.guides.values(), *(f"studies/{one.name}/index.md" for one in site.about)}
    checked = 0
    for page, text in pages.items():
        for target in re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", text):
            checked += 1
            assert (
                str(Path(*(ROOT / page).parent.joinpath(target).resolve().relative_to(ROOT).parts)) in known
            )
    assert checked >= len(pages)


def test_a_link_to_a_file_that_is_no_page_becomes_its_path() -> None:
    pages = {ROOT / "docs/map.md": "guides/map.md"}
    text = "[map](map.md#a-room), [code](../src/relearn/x.py), [web](https://example.org), [`a.py`](../a.py), `[no](link.md)`"
    assert links.rewrite_links(text, ROOT / "docs/site.md", "studies/a/index.md", pages) == (
        "[map](../../guides/map.md#a-room), code (`src/relearn/x.py`), [web](https://example.org), `a.py`, `[no](link.md)`"
    )


def test_a_table_is_read_as_it_was_written() -> None:
    name, found = table(
        "# a.table1: Things\n\n| x | y |\n| --- | --- |\n| one \\| two | 2 |\n\nA caption.\nGoes on.\n"
    ) or ("", None)
    assert found is not None
    assert (name, found.title, found.caption) == ("a.table1", "Things", "A caption. Goes on.")
    assert (found.header, found.lines) == (["x", "y"], [["one | two", "2"]])
    assert table("# a.table1: no table here\n") is None


def test_lines_of_code_begin_where_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n\n\n@decorated\ndef draw(y):\n    return y\n\n\nz = 2\n")
    found = code_lines.function(path, "draw", tmp_path)
    assert found == code_lines.Lines("a.py", 4, "@decorated\ndef draw(y):\n    return y")
    assert code_lines.function(path, "points", tmp_path) is None
