"""relearn scoreboard: every claim at every scale, and what each method reached, as CSV and Markdown.

The scoreboard reads results/published/<scale>/claims.json, or results/<scale>/claims.json if that is newer; the leaderboards
read the published runs.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relearn.report.leaderboard import Board
    from relearn.report.leaderboard import Row as Line
    from relearn.report.scoreboard import Row

MARKS = re.compile(
    r"(<!-- scoreboard((?: of \w+)?): begin -->\n)(.*?)(<!-- scoreboard\2: end -->)", re.DOTALL
)
"""Two lines of a page and what ``--pages`` puts between them: the short form, or the table of the named study."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--results", type=Path, default=Path("results"), help="default: results")
    add("--out", type=Path, help="folder of the four files; default: RESULTS/published")
    add("--short", action="store_true", help="print the short form and write nothing")
    add(
        "--pages",
        type=Path,
        nargs="+",
        default=[],
        help="also put the short form, or the table of a study, into these pages, between their marks",
    )


def main(args: argparse.Namespace) -> int:
    """Write the scoreboard, or print its short form.

    Raises:
        RecordError: a damaged claims.json.
        FileNotFoundError: a page that is no file.
        ValueError: a file in place of --out, no claims of any scale, an option without effect, or a page without pairs of marks, or
            with those of an unknown study.
    """
    from relearn.cli import output_folder
    from relearn.report import claims, leaderboard, scoreboard, table_formats
    from relearn.runs.atomic_files import write
    from relearn.studies.study import all_studies

    for option, paths in (("--out", [args.out] if args.out else []), ("--pages", args.pages)):
        if args.short and paths:
            raise ValueError(
                f"{option} {paths[0]}: found with --short, which writes nothing; allowed: one of them"
            )
    if missing := [page for page in args.pages if not page.is_file()]:
        raise FileNotFoundError(f"--pages {missing[0]}: no such file")
    out = args.out or args.results / "published"
    if not args.short:
        output_folder.check("--out", out)
    board = scoreboard.load(
        args.results, claims.load({study.name: study.reported for study in all_studies()})
    )
    if not scoreboard.scales_of(board):
        allowed = "a folder with published/<scale>/claims.json or <scale>/claims.json"
        raise ValueError(f"--results {args.results}: found no claims.json, allowed: {allowed}")
    if args.short:
        print(scoreboard.short(board), end="")
        return 0
    written = {
        out / "scoreboard.csv": table_formats.csv_text(scoreboard.FIELDS, scoreboard.table(board)),
        out / "scoreboard.md": scoreboard.markdown(board),
    }
    boards = leaderboards(args.results / "published")
    lines = [row.line(one.unit, one.factor) for one, own in boards for row in own]
    written[out / "leaderboard.csv"] = table_formats.csv_text(leaderboard.FIELDS, lines)
    written[out / "leaderboard.md"] = leaderboard.markdown(boards)
    written |= {page: with_blocks(page, board) for page in args.pages}
    out.mkdir(parents=True, exist_ok=True)
    for path, text in written.items():
        write(path, text.encode())
        print(path)
    return 0


def leaderboards(published: Path) -> list[tuple[Board, list[Line]]]:
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


def with_blocks(page: Path, board: Sequence[Row]) -> str:
    """The page's text with the current tables between its marks.

    Raises:
        ValueError: the page has no marks, one without its pair, or those of a study without claims.
    """
    from relearn.report import scoreboard

    def current(found: re.Match[str]) -> str:
        study = found[2].removeprefix(" of ")
        return found[1] + (scoreboard.of_study(board, study) if study else scoreboard.short(board)) + found[4]

    try:
        text, blocks = MARKS.subn(current, page.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{page}: {error}") from None
    marks = text.count("<!-- scoreboard")
    if not blocks or marks != 2 * blocks:
        allowed = "<!-- scoreboard: begin --> and its end, each on a line, or 'scoreboard of STUDY' in both"
        raise ValueError(f"{page}: found {marks} marks and {blocks} pairs of them, allowed: {allowed}")
    return text
