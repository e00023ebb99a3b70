"""The first page: what this is, what holds, where to go."""

from __future__ import annotations

import re
from pathlib import Path

from relearn.report import cost
from relearn.report.figures.claims_forest import CAPTION, NAME
from relearn.report.site import board
from relearn.report.site.material import Site
from relearn.report.views import names, words

FOREST = f"{NAME}.png"


def page(site: Site, pictures: dict[str, Path]) -> str:
    """Args: ``pictures`` is filled with what the page shows."""
    scales = [one.scale for one in site.scales]
    made = ["# relearn", _lead(site.root / "README.md"), "## What holds"]
    for scale in site.scales:
        counted = board.counts(site.rows, scale.scale)
        total = sum(counts for word, counts in counted.items())
        said = ", ".join(f"{count} {names.words(word)}" for word, count in counted.items())
        sums = cost.summed(scale.runs)
        paid = f" {len(scale.runs)} runs, {cost.hours(sums.cpu_s)} of CPU time." if scale.runs else ""
        made.append(
            f"- **Scale {scale.scale}** ({words.SCALES.get(scale.scale, '')}): of {total} claims {said}.{paid}"
        )
    forest = next(
        (
            one.folder / "figures" / FOREST
            for one in reversed(site.scales)
            if (one.folder / "figures" / FOREST).is_file()
        ),
        None,
    )
    if forest:
        pictures[f"figures/{FOREST}"] = forest
        made.append(
            f'<figure><img alt="Every claim with its effect and 95% interval" src="figures/{FOREST}">'
            f"<figcaption>{CAPTION}</figcaption></figure>"
        )
    made += ["## The studies", _studies(site), "## Scoreboard", board.legend(site.rows)]
    for about in site.about:
        rows = site.of(about.name)
        if rows:
            made += [f"### {about.title}", board.table(rows, scales, "index.md", f"Claims of {about.source}")]
    return "\n\n".join(made) + "\n"


def _lead(readme: Path) -> str:
    """README's first paragraph."""
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
