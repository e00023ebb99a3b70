"""relearn docs: write the pages of the documentation site from published results, studies and docs/.

`make docs` calls this and then MkDocs, which needs the extra ``docs``. The site is in ``build/docs/site``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from relearn.studies.study import all_studies

ROOT = Path(__file__).resolve().parents[3]  # the checkout


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", type=Path, default=Path("build/docs"), help="folder for the pages and mkdocs.yml"
    )
    parser.add_argument("--study", action="append", help="only the pages of this study; may be repeated")


def main(args: argparse.Namespace) -> int:
    """Write the pages.

    Raises:
        ValueError: a study that does not exist, or a file or a folder of other files in place of --out.
        FileNotFoundError: no folder of published results in the checkout.
    """
    from relearn.cli import output_folder
    from relearn.report.site import build

    output_folder.check("--out", args.out)
    there = {one.name for one in args.out.glob("[!.]*")}
    if there and (build.CONFIG not in there or there - {build.CONFIG, "pages", "site"}):
        raise ValueError(
            f"--out {args.out}: found a folder with other files, allowed: a new or empty one, or an earlier site"
        )
    names = [study.name for study in all_studies()]
    for name in args.study or ():
        if name not in names:
            raise ValueError(f"--study: found {name}, allowed: {', '.join(names)}")
    made = build.write(material(ROOT), args.out.resolve(), args.study)
    print(f"docs: {len(made)} files in {args.out / 'pages'}; next: mkdocs build -f {args.out / 'mkdocs.yml'}")
    return 0


def material(root: Path, scales: Sequence[str] | None = None) -> Any:
    """The content of the site.

    Args:
        scales: only these published scales.

    Raises:
        FileNotFoundError: no folder of published results.
    """
    from relearn.cli.render import about
    from relearn.report import analysis, artefacts, claims, errata, scoreboard
    from relearn.report.site import build, published
    from relearn.report.site.material import Site

    studies = all_studies()
    folders = {study.name: study.reported for study in studies}
    results = root / "results" / "published"
    if not results.is_dir():
        raise FileNotFoundError(f"no folder {results}: relearn is not installed from a checkout")
    there = [name for name in scales or scoreboard.SCALES if (results / name / "claims.json").is_file()]
    judged = published.load((name, results / name) for name in there)
    return Site(
        root=root,
        about=about(studies),
        folders={name: folder.parent for name, folder in folders.items()},
        drawn_by={study.name: study.figures for study in studies},
        artefacts=artefacts.load(folders),
        rows=scoreboard.rows(
            claims.load(folders),
            {one.scale: one.content for one in judged},
            {} if scales else scoreboard.earlier(results),
        ),
        scales=judged,
        errata={name: errata.load({name: folder}) for name, folder in folders.items()},
        analyses=analysis.load(folders),
        guides=build.guides(root),
    )
