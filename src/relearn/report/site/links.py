"""Rewrites the links of pages written for the repository: they lead to pages of the site, or become plain text."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

TOKEN = re.compile(
    r"""(?P<fence>```.*?```)
    |(?P<picture>!?)\[(?P<words>(?:`[^`\n]*`|[^\]`])*)\]\((?P<target>[^)\s]+)\)
    |(?P<code>`[^`\n]*`)""",
    re.DOTALL | re.VERBOSE,
)


def rewrite_links(text: str, source: Path, page: str, pages: Mapping[Path, str]) -> str:
    """The text of ``source`` for the site's ``page``.

    A link to a file that is a page of the site leads to that page. A link to any other file of the repository becomes its
    path in code type, because the site does not contain the file. External links, links within the page and code stay unchanged.

    Args:
        source: the file with the text, an absolute path.
        page: its path in the site, relative to the site's root.
        pages: maps files of the repository to pages of the site.
    """

    def replacement(found: re.Match[str]) -> str:
        words, target = found["words"], found["target"]
        if not target:
            return found[0]
        if found["picture"]:
            return f"*{words}*"
        path, hash_, anchor = target.partition("#")
        if not path or "://" in target or target.startswith("mailto:"):
            return found[0]
        file = Path(os.path.normpath(source.parent / path))
        if file in pages:
            return f"[{words}]({relative(pages[file], page)}{hash_}{anchor})"
        return words if words.startswith("`") else f"{words} (`{_file_name(file, source)}`)"

    return TOKEN.sub(replacement, text)


def relative(target: str, page: str) -> str:
    """The address of a page relative to another page."""
    return os.path.relpath(target, PurePosixPath(page).parent)


def _file_name(file: Path, source: Path) -> str:
    root = next((one for one in source.parents if (one / "pyproject.toml").is_file()), source.parent)
    return os.path.relpath(file, root)
