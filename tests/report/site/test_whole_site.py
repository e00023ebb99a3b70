"""The whole site, built: no broken link, nothing from another host, and pages that fit in a browser."""

import functools
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from relearn.cli.docs import ROOT

from ..chromium import PROGRAM, Chromium

pytest.importorskip("mkdocs", reason="needs the extra docs")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "relearn", "docs", "--out", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    strict = ["-m", "mkdocs", "build", "--strict", "--config-file", str(out / "mkdocs.yml")]
    done = subprocess.run([sys.executable, *strict], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return out / "site"


class Addresses(HTMLParser):
    """What a page loads, what it links, and the places within it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.linked: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.ids.add(found.get("id", ""))
        if "src" in found:
            self.loaded.append(found["src"])
        if "href" in found and tag in ("link", "a"):
            canonical = found.get("rel", "") in ("canonical", "next", "prev")
            (self.linked if tag == "a" or canonical else self.loaded).append(found["href"])


def test_every_link_leads_to_a_page_and_a_place_and_nothing_comes_from_another_host(built: Path) -> None:
    pages = {path: Addresses(path.read_text(encoding="utf-8")) for path in built.rglob("*.html")}
    assert len(pages) > 300
    broken, foreign = [], []
    for path, found in pages.items():
        if path.name == "404.html":
            continue  # its links begin at the root of a server
        foreign += [(path.name, one) for one in found.loaded if urlsplit(one).netloc]
        for address in (*found.loaded, *found.linked):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            placed = not parts.fragment or target not in pages or unquote(parts.fragment) in pages[target].ids
            if not target.is_file() or not placed:
                broken.append((path.relative_to(built).as_posix(), address))
    assert foreign == [] and broken == []
    styles = "".join(path.read_text(encoding="utf-8") for path in built.rglob("*.css"))
    assert not re.search(r"url\(\s*[\"']?(?:https?:)?//", styles) and "@import" not in styles


@pytest.fixture
def address(built: Path) -> Iterator[str]:
    handler = functools.partial(_Quiet, directory=str(built))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


LAST_POINT = """(() => {
  const mark = [...document.querySelectorAll(".mark")].at(-1);
  mark.focus();
  const style = getComputedStyle(mark, "::after");
  const left = mark.parentElement.getBoundingClientRect().left + parseFloat(style.left);
  return {shown: style.display, left, right: left + parseFloat(style.width)};
})()"""


@pytest.mark.skipif(PROGRAM is None, reason="needs Chromium")
def test_pages_fit_both_widths_and_ask_no_other_host(built: Path, address: str) -> None:
    claim = min((built / "claims").glob("*.html")).name
    pages = ("index.html", "studies/poisoning/index.html", "studies/gradinit/mini.html", f"claims/{claim}")
    with Chromium() as browser:
        for page in (*pages, "api/methods/deep_knn.html", "guides/faults.html", "guides/errata.html"):
            for width in (390, 1366):
                seen = browser.look(address + page, width)
                where = f"{page} at {width}"
                assert (seen.errors, seen.missing, seen.unsaid, seen.wide) == ([], [], [], []), where
                assert seen.scroll <= width, where
                assert [
                    url for url in seen.requests if not url.startswith((address, "data:", "blob:"))
                ] == [], where
            if page in ("index.html", "studies/gradinit/mini.html"):
                point = browser.evaluate(LAST_POINT)
                assert point["shown"] == "block" and 0 <= point["left"] < point["right"] <= width, page
