"""mkdocs.yml of the site. Pages load nothing from other hosts: no fonts, icons or scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from relearn.report.site import api
from relearn.report.site.material import Site, scale_page, study_page

HANDLER = {
    "docstring_style": "google",
    # --strict is meant for links; it should not fail on "mean, std: …" (two arguments on a line) or an unindented continuation line
    "docstring_options": {"warnings": False},
    "show_root_heading": False,
    "show_root_toc_entry": False,
    "show_source": True,
    "members_order": "source",
    "filters": ["!^_"],
    "heading_level": 2,
    "separate_signature": True,
    "show_signature_annotations": True,
    "docstring_section_style": "list",
    "extensions": ["relearn.report.site.docstrings"],
}


def settings(site: Site, guides: dict[str, list[str]], out: Path) -> dict[str, Any]:
    """The MkDocs settings.

    Args:
        guides: maps the title of a group to its pages.
        out: folder of ``pages/`` and ``site/``.
    """
    studies = []
    for about in site.about:
        own = [{scale.scale: scale_page(about.name, scale.scale)} for scale in site.scales]
        studies.append({about.title: [study_page(about.name), *own]})
    nav = [{"Home": "index.md"}, {"Studies": studies}, *({title: pages} for title, pages in guides.items())]
    nav.append({"Library": [{title: f"api/{room}.md"} for room, title in api.ROOMS.items()]})
    return {
        "site_name": "relearn",
        "docs_dir": str(out / "pages"),
        "site_dir": str(out / "site"),
        "use_directory_urls": False,
        "strict": True,
        "theme": {
            "name": "material",
            "font": False,
            "features": [
                "navigation.indexes",
                "navigation.top",
                "navigation.prune",
                "content.code.copy",
                "toc.follow",
            ],
            "palette": [
                {"media": "(prefers-color-scheme: light)", "scheme": "default", "primary": "indigo"},
                {"media": "(prefers-color-scheme: dark)", "scheme": "slate", "primary": "indigo"},
            ],
        },
        "extra": {"generator": False},
        "extra_css": ["palette.css", "verdicts.css", "site.css"],
        "validation": {
            "omitted_files": "ignore",
            "not_found": "warn",
            "links": {"anchors": "warn", "not_found": "warn"},
        },
        "plugins": [
            "search",
            {
                "mkdocstrings": {
                    "handlers": {"python": {"paths": [str(site.root / "src")], "options": HANDLER}}
                }
            },
        ],
        "markdown_extensions": [
            *("admonition", "attr_list", "tables", "toc", "pymdownx.details", "pymdownx.highlight"),
            *("pymdownx.superfences", "sane_lists"),
        ],
        "nav": nav,
    }
