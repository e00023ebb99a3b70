"""relearn open: open the report in a browser; without a display, print its path."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scale", help="mini | small | medium | paper; default: the scale in params.yaml")


def main(args: argparse.Namespace) -> int:
    """Print the path and open it.

    Raises:
        FileNotFoundError: there is no report of this scale.
    """
    from relearn.studies import parameters

    scale = parameters.load("params.yaml", args.scale)["scale"]
    page = Path("results") / scale / "report.html"
    if not page.is_file():
        config = f" --scale {scale}" if args.scale else ""
        way = f"`relearn reproduce all{config}` makes it, `relearn render{config}` shows what is there"
        published = Path("results/published") / scale / "report.html"
        way += f"; published: {published}" if published.is_file() else ""
        raise FileNotFoundError(f"{page}: no report yet; {way}")
    print(page.resolve())
    if displays():
        import webbrowser

        webbrowser.open(page.resolve().as_uri())
    return 0


def displays() -> bool:
    """Whether a browser can be shown here."""
    linux = sys.platform.startswith("linux")
    return not linux or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
