"""relearn compare: what differs between two scales, commits or results folders, and whether beyond noise.

    relearn compare results/published/mini results/mini     what was published, and what runs here now
    relearn compare small mini                              two scales: results/SCALE, else results/published/SCALE
    relearn compare HEAD~3 HEAD                              two commits: their results/published/SCALE (--scale)
    relearn compare HEAD~3:small results/small              a commit's scale against a folder

It reads rendered and published results only; nothing is run. --out FOLDER also writes changes.csv (all claims and cells, in
full precision), changes.md, and changes.html, a fragment to include in a page. --page results/mini/report.html inserts that fragment
at the end of a report and replaces an older one.
"""

from __future__ import annotations

import argparse
import io
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

RESULTS, PUBLISHED = Path("results"), Path("results/published")
BEGIN, END = "<!-- changes: begin -->", "<!-- changes: end -->"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("before", help="a scale, a folder of results, or a commit, optionally COMMIT:SCALE")
    add("after", help="the same")
    add("--scale", help="scale of commits that name none; default: the scale in params.yaml")
    add("--all", action="store_true", help="also show changes within noise, and what appeared or disappeared")
    add("--out", type=Path, help="folder for changes.csv, changes.md and changes.html")
    add("--page", type=Path, help="report to put the comparison into")
    add("--exit-code", action="store_true", help="exit status 1 if a verdict changed")


def main(args: argparse.Namespace) -> int:
    """Compare the two sides, print the differences and write what the options ask for.

    Raises:
        FileNotFoundError: a side that is no scale, no folder and no commit, or that has no rendered results.
        RecordError: a damaged claims.json or table.
        ValueError: a --page that is no report, a file in place of --out, or a --scale without effect.
    """
    from relearn.cli import checkout, output_folder
    from relearn.report import changed_settings, changes, changes_formats
    from relearn.runs.atomic_files import write
    from relearn.runs.record_file import RecordError

    if args.out:
        output_folder.check("--out", args.out)
    if args.page:
        with_block(args.page, "")
    words = [checkout.as_typed(args, word) for word in (args.before, args.after)]
    if args.scale is not None and all(":" in word or local(word) for word in words):
        raise ValueError(f"--scale: found {args.scale}, allowed: with a commit that names no scale")
    with tempfile.TemporaryDirectory() as place:
        unpacked = [Path(place) / str(number) for number in range(len(words))]
        folders = [resolve(word, args.scale, at) for word, at in zip(words, unpacked)]
        try:
            before, after = (changes.read(folder, word) for folder, word in zip(folders, words))
        except RecordError as error:  # the folder of a commit is known to the user by the commit
            text = str(error)
            for word, at in zip(words, unpacked):
                text = text.replace(f"{at}/", f"{word}: ")
            raise RecordError(text) from None
        differ = changes.compare(before, after)
        settings = changed_settings.compare([*zip(folders, (before.scale, after.scale))])
    columns = shutil.get_terminal_size((110, 24)).columns
    print(changes_formats.terminal(before, after, differ, settings, columns, args.all), end="")
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        texts = {
            "changes.csv": changes_formats.as_csv(differ),
            "changes.md": changes_formats.markdown(before, after, differ, settings),
            "changes.html": changes_formats.fragment(before, after, differ, settings),
        }
        for name, text in texts.items():
            write(args.out / name, text.encode())
        print(f"written: {', '.join(str(args.out / name) for name in texts)}")
    if args.page:
        block = changes_formats.fragment(before, after, differ, settings)
        write(args.page, with_block(args.page, block).encode())
        print(f"{args.page}#changes")
    return int(args.exit_code and any(one.kind == "verdict" for one in differ))


def with_block(page: Path, block: str) -> str:
    """The page's text with the block at the end of its <main> element; an older block is replaced.

    Raises:
        ValueError: no file, or a file that is no report.
    """
    try:
        text = page.read_text(encoding="utf-8") if page.is_file() else ""
    except ValueError as error:
        raise ValueError(f"--page {page}: {error}, allowed: the report.html of a scale") from None
    head, begin, rest = text.partition(BEGIN)
    if begin:
        rest = rest.partition(END)[2]
    else:
        head, main, rest = text.rpartition("</main>")
        if not main:
            raise ValueError(f"--page {page}: found no </main>, allowed: the report.html of a scale")
        rest = f"\n{main}{rest}"
    return f"{head}{BEGIN}\n{block}{END}{rest}"


def resolve(word: str, scale: str | None, place: Path) -> Path:
    """The folder of one side; that of a commit is unpacked at `place`."""
    if here := local(word):
        return here
    from relearn.params.reading import chosen_scale

    commit, _, named = word.partition(":")
    return _unpack_commit(word, commit, named or scale or chosen_scale(), place)


def local(word: str) -> Path | None:
    """The folder of a side that is no commit."""
    if Path(word).is_dir():
        return Path(word)
    both = (RESULTS / word, PUBLISHED / word)
    return next((one for one in both if word and (one / "claims.json").is_file()), None)


def _unpack_commit(word: str, commit: str, scale: str, place: Path) -> Path:
    """The folder that a commit published at one scale."""
    if commit.startswith("-") or _git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}") is None:
        scales = ", ".join(sorted(one.parent.name for one in PUBLISHED.glob("*/claims.json"))) or "none here"
        raise FileNotFoundError(f"{word}: no folder, no scale with results ({scales}) and no commit")
    folder = PUBLISHED / scale
    packed = _git("archive", commit, "--", folder.as_posix())
    if packed is None:
        raise FileNotFoundError(f"{word}: this commit has no {folder}; --scale names another")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(place, filter="data")
    return place / folder


def _git(*words: str) -> bytes | None:
    done = subprocess.run(["git", *words], capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None
