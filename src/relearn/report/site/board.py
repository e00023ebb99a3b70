"""The scoreboard on the site: one row per claim, one column per scale."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from relearn.report import verdict_words
from relearn.report.scoreboard import Row
from relearn.report.site.links import relative
from relearn.report.site.material import claim_page


def table(rows: Sequence[Row], scales: Sequence[str], page: str, caption: str) -> str:
    """The rows as HTML; the name of a claim links to its page."""
    heads = "".join(f'<th scope="col">{escape(scale)}</th>' for scale in scales)
    lines = [
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(caption)}"><table class="text">',
        f"<caption>{escape(caption)}</caption>",
        f'<thead><tr><th scope="col">claim</th>{heads}<th scope="col">what is claimed</th></tr></thead><tbody>',
    ]
    for row in rows:
        address = relative(claim_page(row), page).removesuffix(".md") + ".html"
        cells = "".join(f"<td>{_cell(row, scale)}</td>" for scale in scales)
        name = escape(row.claim.replace("_", " "))
        statement = f"{escape(row.says)} <small>{escape(row.source)}</small>"
        lines.append(
            f'<tr><th scope="row"><a href="{address}">{name}</a></th>{cells}<td>{statement}</td></tr>'
        )
    return "\n".join([*lines, "</tbody></table></div>"])


def _cell(row: Row, scale: str) -> str:
    cell = row.cells.get(scale)
    if cell is None:
        return '<span class="verdict not_run">not judged</span>'
    word = f'<span class="verdict {cell.verdict}">{escape(row.word(scale))}</span>'
    details = " · ".join(filter(None, (cell.shown, cell.n)))
    return f"{word}<small>{escape(details)}</small>" if details else word


def legend(rows: Sequence[Row]) -> str:
    """The verdicts that occur on the page, each with its meaning, as Markdown."""
    cells = [cell for row in rows for cell in row.cells.values()]
    return verdict_words.markdown({cell.verdict for cell in cells}, any(cell.provisional for cell in cells))
