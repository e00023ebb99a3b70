"""relearn scoreboard: every claim at every scale, and what each method reached, as CSV and Markdown below results/published.

The scoreboard reads results/published/<scale>/claims.json, or results/<scale>/claims.json if that is newer; the leaderboards
read the published runs.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relearn.report.leaderboard import Board, Row

BEGIN, END = "<!-- scoreboard: begin -->", "<!-- scoreboard: end -->"
"""Lines of a page between which ``--page`` puts the short form."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--results", type=Path, default=Path("results"), help="default: results")
    add("--out", type=Path, help="folder of the four files; default: RESULTS/published")
    add("--short", action="store_true", help="print the short form and write nothing")
    add("--page", type=Path, help="also put the short form into this page, between its two marks")


def main(args: argparse.Namespace) -> int:
    """Write the scoreboard, or print its short form.

    Raises:
        ValueError: no claims of any scale, or a page without the two marks.
    """
    from relearn.report import claims, leaderboard, scoreboard, table_formats
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
    boards = leaderboards(args.results / "published")
    lines = [row.line(one.unit, one.factor) for one, own in boards for row in own]
    written[out / "leaderboard.csv"] = table_formats.csv_text(leaderboard.FIELDS, lines)
    written[out / "leaderboard.md"] = leaderboard.markdown(boards)
    if args.page:
        written[args.page] = with_block(args.page, scoreboard.short(board))
    for path, text in written.items():
        write(path, text.encode())
        print(path)
    return 0


def leaderboards(published: Path) -> list[tuple[Board, list[Row]]]:
    """The boards of all studies, with their rows at all published scales."""
    from relearn.report import leaderboard, runs, scoreboard
    from relearn.studies.study import all_studies

    stores = {scale: published / scale for scale in scoreboard.SCALES}
    found = {scale: runs.load(path, scale)[0] for scale, path in stores.items() if path.is_dir()}
    boards = []
    for study in all_studies():
        for board in getattr(study.part("claims"), "BOARDS", ()):
            rows = [leaderboard.rows(board, study.name, scale, of_scale) for scale, of_scale in found.items()]
            boards.append((board, [row for several in rows for row in several]))
    return boards


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
