"""relearn scoreboard: every claim at every scale, as CSV and Markdown below results/published.

It reads results/published/<scale>/claims.json, or results/<scale>/claims.json if that is newer.
"""

from __future__ import annotations

import argparse
from pathlib import Path

NEEDS_TORCH = False
BEGIN, END = "<!-- scoreboard: begin -->", "<!-- scoreboard: end -->"
"""Lines of a page between which ``--page`` puts the short form."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", type=Path, default=Path("results"), help="default: results")
    parser.add_argument("--out", type=Path, help="folder of the two files; default: RESULTS/published")
    parser.add_argument("--short", action="store_true", help="print the short form and write nothing")
    parser.add_argument(
        "--page", type=Path, help="also put the short form into this page, between its two marks"
    )


def main(args: argparse.Namespace) -> int:
    """Write the scoreboard, or print its short form.

    Raises:
        ValueError: no claims of any scale, or a page without the two marks.
    """
    from relearn.report import claims, scoreboard, table_formats
    from relearn.runs.atomic_files import write
    from relearn.studies.study import all_studies

    board = scoreboard.load(
        args.results, claims.load({study.name: study.reported for study in all_studies()})
    )
    if not scoreboard.scales_of(board):
        allowed = "a folder with published/<scale>/claims.json or <scale>/claims.json"
        raise ValueError(f"--results {args.results}: found no claims.json, allowed: {allowed}")
    if args.short:
        print(scoreboard.short(board), end="")
        return 0
    out = args.out or args.results / "published"
    out.mkdir(parents=True, exist_ok=True)
    written = {
        out / "scoreboard.csv": table_formats.csv_text(scoreboard.FIELDS, scoreboard.table(board)),
        out / "scoreboard.md": scoreboard.markdown(board),
    }
    if args.page:
        written[args.page] = with_block(args.page, scoreboard.short(board))
    for path, text in written.items():
        write(path, text.encode())
        print(path)
    return 0


def with_block(page: Path, block: str) -> str:
    """The page's text with the block between its marks.

    Raises:
        ValueError: the marks are missing.
    """
    text = page.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(
            f"{page}: found no marks for the scoreboard, allowed: one line {BEGIN}, one line {END}"
        )
    head, _, rest = text.partition(BEGIN)
    return f"{head}{BEGIN}\n{block}{END}{rest.partition(END)[2]}"
