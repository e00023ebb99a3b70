"""The library reference: one page per module, made by mkdocstrings from the docstrings without importing anything."""

from __future__ import annotations

import ast
from pathlib import Path

from relearn.report.site.material import Site

ROOMS = {
    "maths": "Formulas and numerical routines",
    "layers": "Layers for networks of your own",
    "methods": "Attacks, defences, initialisations and training",
    "measures": "What is measured of a network",
    "models": "Networks",
    "data": "Data sets and corruptions",
}


def pages(site: Site) -> dict[str, str]:
    """Maps a path to a page: one page per public module with a docstring, and one index page per package."""
    made = {}
    for room, title in ROOMS.items():
        lines = [f"# {title}", "", f"Package `relearn.{room}`.", "", "| module | subject |", "|---|---|"]
        folder = site.root / "src" / "relearn" / room
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(site.root / "src").with_suffix("").parts
            if any(part.startswith("_") and part != "__init__" for part in parts):
                continue
            name = ".".join(parts).removesuffix(".__init__")
            summary = _first_sentence(path)
            if not summary or (path.name == "__init__.py" and not _defines(path)):
                continue
            place = f"api/{room}/{name.removeprefix(f'relearn.{room}').lstrip('.') or 'package'}.md"
            made[place] = f"# `{name}`\n\n::: {name}\n"
            lines.append(f"| [`{name}`]({place.removeprefix('api/')}) | {summary} |")
        made[f"api/{room}.md"] = "\n".join(lines) + "\n"
    return made


def _first_sentence(path: Path) -> str:
    summary = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(summary.split("\n\n")[0].split()).replace("|", "\\|").replace("<", "&lt;")


def _defines(path: Path) -> bool:
    kinds = ast.FunctionDef | ast.ClassDef
    return any(isinstance(node, kinds) for node in ast.parse(path.read_text(encoding="utf-8")).body)
