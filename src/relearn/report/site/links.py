"""Pages that were written for the repository, as the site shows them: links lead to the page there, or are no links."""

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


def moved(text: str, source: Path, page: str, pages: Mapping[Path, str]) -> str:
    """The text of ``source`` for the site's ``page``.

    A link to a file that is a page of the site leads to it; a link to any other file of the repository becomes its path
    in small print, because the site does not hold it. Links to other sites and within the page stay, code is not touched.

    Args:
        source: the file that holds the text, an absolute path.
        page: its place in the site, relative to the site's root.
        pages: file of the repository to page of the site.
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
    """The address of a page as seen from another."""
    return os.path.relpath(target, PurePosixPath(page).parent)


def _file_name(file: Path, source: Path) -> str:
    root = next((one for one in source.parents if (one / "pyproject.toml").is_file()), source.parent)
    return os.path.relpath(file, root)
