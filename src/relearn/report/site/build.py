"""Write all pages of the site, and the mkdocs.yml from which MkDocs builds the HTML."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from relearn.report import verdict_words
from relearn.report.site import api, claim_pages, home, links, mkdocs_yml, study_pages
from relearn.report.site.material import Site, claim_page, scale_page, study_page

CONFIG = "mkdocs.yml"
STYLES = ("palette.css", "site/site.css")  # in src/relearn/report


def guides(root: Path) -> dict[Path, str]:
    """README, CHANGELOG, the pages of docs/ and the leaderboards: maps each file to its page."""
    docs = root / "docs"
    found = {path: f"guides/{path.relative_to(docs).as_posix()}" for path in sorted(docs.rglob("*.md"))}
    boards = root / "results/published/leaderboard.md"
    found |= {boards: "guides/leaderboard.md"} if boards.is_file() else {}
    return {**found, root / "README.md": "guides/repository.md", root / "CHANGELOG.md": "guides/changes.md"}


def write(site: Site, out: Path, studies: Iterable[str] | None = None) -> list[Path]:
    """Write ``pages/`` and ``mkdocs.yml`` into a folder; existing pages are deleted first.

    Args:
        studies: write only the pages of these studies, as a preview; None: the whole site.
    """
    import yaml

    pages, pictures = out / "pages", dict[str, Path]()
    out.mkdir(parents=True, exist_ok=True)
    (out / CONFIG).write_text(  # first: it marks the folder as a site
        yaml.safe_dump(mkdocs_yml.settings(site, _groups(site), out), sort_keys=False), encoding="utf-8"
    )
    shutil.rmtree(pages, ignore_errors=True)
    text = dict[str, str]()
    chosen = list(studies) if studies is not None else [about.name for about in site.about]
    for about in site.about:
        if about.name in chosen:
            text[study_page(about.name)] = study_pages.overview(site, about)
            for scale in site.scales:
                text[scale_page(about.name, scale.scale)] = study_pages.results(site, about, scale, pictures)
    text |= {claim_page(row): claim_pages.page(site, row) for row in site.rows if row.study in chosen}
    if studies is None:
        text["index.md"] = home.page(site, pictures)
        text |= {page: _guide(site, source, page) for source, page in site.guides.items()}
        text |= api.pages(site)
    for name, content in text.items():
        (pages / name).parent.mkdir(parents=True, exist_ok=True)
        (pages / name).write_text(content, encoding="utf-8", newline="\n")
    report = Path(__file__).resolve().parents[1]
    sheet = pages / "verdicts.css"
    sheet.write_text(verdict_words.style_sheet(), encoding="utf-8", newline="\n")
    files = pictures | {Path(name).name: report / name for name in STYLES}
    for name, source in files.items():
        (pages / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, pages / name)
    return [sheet, *(pages / name for name in [*text, *files])]


def _guide(site: Site, source: Path, page: str) -> str:
    return links.rewrite_links(source.read_text(encoding="utf-8"), source, page, site.guides)


def _groups(site: Site) -> dict[str, list[str]]:
    """The hand-written pages, grouped for the navigation."""
    found = list(site.guides.values())
    house = [
        page for page in found if re.search(r"/(map|faults|repository|changes|report-data|site)\.md", page)
    ]
    return {"Guides": [page for page in found if page not in house], "Project": house}
