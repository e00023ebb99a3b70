"""A published set: the report's many files packed into a few, and its README with facts about the runs.

======================  ========================================================================================
file                    content
======================  ========================================================================================
``tables.md``           all tables with a measured cell, each under its id
``tables.parquet``      their cells as raw numbers, also by victim, seed or network; ``file`` names the CSV file
``figures.parquet``     the plotted points; ``file`` names the CSV file
``figures/<id>.png``    the figures
======================  ========================================================================================

The CSV files are those written by `relearn render`; :mod:`relearn.runs.tidy_csv` describes how they are restored.
"""

from __future__ import annotations

import csv
import re
import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from relearn.report import cost
from relearn.report.claims import Claim, tally
from relearn.report.claims_formats import word
from relearn.report.figures import drawn, has_runs
from relearn.report.runs import Run
from relearn.report.views import words
from relearn.report.views.names import plural
from relearn.runs import parquet_file, tidy_csv
from relearn.runs.run_store import Store

BEGIN, END = "<!-- written by relearn publish: begin -->", "<!-- written by relearn publish: end -->"

SAME_CODE = "In parts, from clean commits with the same code for each run"
ANY_CODE = "In parts, from clean commits; the code of some runs has changed since"


def gather(folder: Path, empty: Collection[str] = ()) -> None:
    """Pack the rendered files of ``folder/tables`` and ``folder/figures``; only the pictures stay as single files.

    Args:
        empty: tables and figures without a measured cell of the published grid. ``tables.md`` leaves these tables out, and the pictures
            of these figures are deleted, unless rows of ours are in them, such as those on a data set that the paper does not have.
    """
    tables, figures = folder / "tables", folder / "figures"
    pages = {
        page.stem: page.read_text("utf-8")
        for page in tables.glob("*.md")
        if page.stem not in empty or _is_measured(page.with_suffix(".csv"))
    }
    (folder / "tables.md").write_text(together(pages), encoding="utf-8", newline="\n")
    for made in (tables, figures):
        files = {(made.name, name): content for name, content in csv_files(folder, made.name).items()}
        parquet_file.write(folder / f"{made.name}.parquet", tidy_csv.columns(files))
    shutil.rmtree(tables)
    pictures = [figures / f"{name}.png" for name in empty if not _has_runs(figures / f"{name}.csv")]
    for path in [
        *figures.glob("*.csv"),
        *figures.glob("*.pdf"),
        *pictures,
        figures / drawn.FILE,
        folder / "metrics.json",
    ]:
        path.unlink(missing_ok=True)


def together(pages: Mapping[str, str]) -> str:
    """``tables.md`` from the Markdown of each table, by id: how to read the tables, a list of them, and the tables.

    The publications' tables come first, in the order of their numbers, then those that no publication has.
    """

    def order(name: str) -> tuple[bool, list[str | int]]:
        parts = re.split(r"(\d+)", name)
        return name.startswith("addition."), [int(part) if part.isdigit() else part for part in parts]

    names = sorted(pages, key=order)
    titles = {name: pages[name].partition("\n")[0].removeprefix(f"# {name}: ") for name in names}
    deviation = "A deviation is the measured number minus the published one."
    lines = ["# Tables", "", f"{words.NUMBERS} {deviation} A cell without a number says why:", ""]
    lines += [f"- `{mark}`: {said}" for mark, said in words.EMPTINESS.items()]
    lines += ["", "Tables named addition are in no publication.", ""]
    lines += [f"- [{name}](#{name}): {titles[name]}" for name in names]
    return "\n".join([*lines, "", *(f'<a id="{name}"></a>\n\n#{pages[name]}' for name in names)])


def _has_runs(file: Path) -> bool:
    return file.is_file() and has_runs(file.read_bytes())


def _is_measured(file: Path) -> bool:
    """Whether a table's file has a measured cell."""
    if not file.is_file():
        return False
    with file.open(newline="", encoding="utf-8") as lines:
        return any(row.get("status") == "measured" for row in csv.DictReader(lines))


def unpack(folder: Path, target: Path) -> None:
    """Write the runs and the rendering of a published set in the layout of a pipeline's ``results/<scale>``."""
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns("*.parquet"))
    Store(folder).unpack(target)
    for kind in ("tables", "figures"):
        (target / kind).mkdir(exist_ok=True)
        for name, content in csv_files(folder, kind).items():
            (target / kind / name).write_bytes(content)


def csv_files(folder: Path, kind: str) -> dict[str, bytes]:
    """The CSV files of a rendering by name, read from its folder or from a published set's Parquet file.

    Args:
        kind: ``tables`` or ``figures``.
    """
    together = folder / f"{kind}.parquet"
    if together.is_file():
        files = tidy_csv.rebuilt(parquet_file.read(together).to_pydict())
        return {name: content for (_, name), content in files.items()}
    return {path.name: path.read_bytes() for path in sorted((folder / kind).glob("*.csv"))}


def by_study(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """The runs of each study, sorted by the studies' names."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.study, []).append(run)
    return dict(sorted(found.items()))


def one_clean_commit(runs: Sequence[Run]) -> bool:
    return len({run.record["code"]["commit"] for run in runs}) == 1 and clean(runs)


def clean(runs: Iterable[Run]) -> bool:
    """Whether every run comes from a commit without changes in the working tree."""
    code = [run.record["code"] for run in runs]
    return all(one["commit"] and one["dirty"] is False for one in code)


def mixture(runs: Sequence[Run]) -> str:
    """The commits that made the runs, with counts, on one line; ``+`` marks uncommitted changes."""
    counts = Counter(cost.version(run) for run in runs).most_common()
    changed = sum(run.record["code"]["dirty"] is not False for run in runs)
    listed = ", ".join(f"{count} of {name}" for name, count in counts)
    several = f"{plural(len(counts), 'commit')} among {len(runs)} records"
    return f"{several}, {changed} of a working tree with changes (+): {listed}"


def in_parts(readme: str) -> dict[str, str]:
    """The studies that the README of a set calls published in parts, and its words for them."""
    return dict(re.findall(rf"^\| (\w+) \| .*({SAME_CODE}|{ANY_CODE}): ", readme, re.MULTILINE))


def readme(
    before: str,
    scale: str,
    runs: Sequence[Run],
    claims: Sequence[Claim],
    parts: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The README of the set: text outside the marks stays, text between them is replaced.

    Args:
        parts: studies whose runs come from several clean commits, and what is said of their code.
    """
    body = "\n".join([BEGIN, *_facts(scale, runs, parts), *_verdicts(claims), END])
    if BEGIN in before and END in before:
        return before.partition(BEGIN)[0] + body + before.partition(END)[2]
    return f"{before.rstrip() or f'# Scale {scale}'}\n\n{body}\n"


def _facts(scale: str, runs: Sequence[Run], parts: Mapping[str, str]) -> list[str]:
    whole = one_clean_commit(runs)
    rows = (
        []
        if whole
        else [f"| {study} | {_origin(of, parts.get(study))} |" for study, of in by_study(runs).items()]
    )
    table = ["", "| study | runs |", "|---|---|", *rows] if rows else []
    return [
        _origin(runs) if whole else f"{len(runs)} runs, each study from its own commit.",
        *table,
        "",
        "[The report](report.html), [claims](claims.md), [tables](tables.md), [coverage](coverage.csv),",
        "[deviations](deviations.md), [settings](settings.md). The runs, one row per run:",
        "",
        "```python",
        "import pandas",
        "",
        f'runs = pandas.read_parquet("results/published/{scale}/runs.parquet")',
        "```",
        "",
        "`trials.parquet` has one row per trial, `rows.parquet` the curves and other CSV files of the runs, `tables.parquet`",
        "and `figures.parquet` the numbers behind tables and figures; `folder` names the run, `file` the CSV file.",
        "",
    ]


def _origin(runs: Sequence[Run], parts: str | None = None) -> str:
    """Number of runs, first and last day, CPU cost, and the code that made them."""
    days = sorted(str(run.record["cost"]["ended"])[:10] for run in runs)
    seconds = cost.total(runs, "cpu_s")
    if one_clean_commit(runs):
        code = f"The clean commit {cost.version(runs[0])}"
    elif parts and clean(runs):
        counts = Counter(cost.version(run) for run in runs)
        listed = ", ".join(f"{count} of {name}" for name, count in sorted(counts.items()))
        code = f"{parts}: {listed}"
    else:
        code = f"A mixture: {mixture(runs)}"
    count = plural(len(runs), "run")
    return f"{count}, the last of {days[-1]}, the first of {days[0]}; {seconds:,.0f} CPU seconds in their records. {code}."


def _verdicts(claims: Sequence[Claim]) -> list[str]:
    """The claims by verdict; checks of theorems are listed separately, as they are no findings about a paper."""
    ids = Counter(claim.id for claim in claims)
    groups: dict[str, list[str]] = {name.replace("_", " "): [] for name in tally(claims)}
    checks = []
    for claim in claims:
        name = f"`{claim.id}`" + (f" ({claim.section})" if ids[claim.id] > 1 else "")
        if claim.kind == "check":
            checks.append(f"{name} {word(claim).removeprefix('check: ')}")
        else:
            verdict = claim.verdict + " (provisional)" * claim.provisional
            groups[verdict.replace("_", " ")].append(name)
    lines = [f"| {verdict} | {len(names)} | {', '.join(names)} |" for verdict, names in groups.items()]
    note = [f"Checks, which are not counted: {', '.join(checks)}.", ""] if checks else []
    return ["| verdict | claims | which |", "|---|---|---|", *lines, "", *note]
