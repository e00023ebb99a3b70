"""The home page: what the project is, its results, and where to go."""

from __future__ import annotations

import re
from pathlib import Path

from relearn.report import cost, figures, scoreboard, verdict_words
from relearn.report.figures.claims_forest import CAPTION, NAME
from relearn.report.page import environment
from relearn.report.site import board
from relearn.report.site.material import Site, claim_page
from relearn.report.site.published import Published
from relearn.report.views import words

DESCRIBED = "small"
"""The scale whose picture the first paragraph of README.md describes; this page begins with it."""


def page(site: Site, pictures: dict[str, Path]) -> str:
    """The page as Markdown; the files of its pictures are added to ``pictures``."""
    scales = [one.scale for one in site.scales]
    made = ["# relearn", _lead(site.root / "README.md"), "## What holds"]
    for scale in site.scales:
        counted = scoreboard.counts(site.rows, scale.scale)
        total = sum(counts for word, counts in counted.items())
        summary = ", ".join(f"{count} {verdict_words.label(word)}" for word, count in counted.items())
        sums = cost.sum_up(scale.runs)
        paid = f" {len(scale.runs)} runs, {cost.hours(sums.cpu_s)} of CPU time." if scale.runs else ""
        name, kind = scoreboard.named(site.rows, scale.scale), words.SCALES.get(scale.scale, "")
        made.append(f"- **Scale {name}** ({kind}): of {total} claims, {summary}.{paid}")
    drawn = [one for one in site.scales if one.figure(NAME)]
    described = [one for one in drawn if one.scale == DESCRIBED] or drawn
    forest = max(described, key=_judged_count, default=None)
    if forest and (picture := forest.figure(NAME)):
        pictures[f"figures/{NAME}.png"] = picture
        made.append(_forest(site, forest))
    made += ["## The studies", _studies(site), "## Scoreboard", board.legend(site.rows)]
    for about in site.about:
        rows = site.of(about.name)
        if rows:
            made += [f"### {about.title}", board.table(rows, scales, "index.md", f"Claims of {about.source}")]
    return "\n\n".join(made) + "\n"


def _judged_count(scale: Published) -> int:
    """How many claims have a verdict at a scale."""
    return sum(one["verdict"] != "not_run" for one in scale.claims.values())


def _forest(site: Site, scale: Published) -> str:
    """The forest plot; each of its points links to the page of its claim."""
    pages = {(row.study, row.claim): claim_page(row).removesuffix(".md") + ".html" for row in site.rows}

    def link(row: figures.Line) -> str:
        return pages.get((row["study"], row["claim"]), "")

    alt = "Every claim with its effect and 95% interval"
    parts = environment().get_template("parts.html.j2").module
    plot = parts.plot(f"figures/{NAME}.png", alt, (0, 0), scale.marks(NAME, link))
    return f"<figure>{plot}<figcaption>{CAPTION}</figcaption></figure>"


def _lead(readme: Path) -> str:
    """The first paragraph of the README."""
    found = re.match(r"# [^\n]*\n+((?:[^\n]+\n)+)", readme.read_text(encoding="utf-8"))
    return found[1].strip() if found else ""


def _studies(site: Site) -> str:
    lines = ["| study | publication | claims | reproduced |", "|---|---|---|---|"]
    for about in site.about:
        rows = [row for row in site.of(about.name) if row.kind != "check"]
        held = [row for row in rows if any(cell.verdict == "reproduced" for cell in row.cells.values())]
        cited = f"[{about.cited}]({about.url}) ({about.source})"
        some = f"{len(held)} at some scale" if held else "none"
        lines.append(f"| [{about.title}](studies/{about.name}/index.md) | {cited} | {len(rows)} | {some} |")
    return "\n".join(lines)
