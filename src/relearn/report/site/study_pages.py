"""The pages of one study: an overview, and one page per scale with its results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from relearn.report import cost
from relearn.report.artefacts import Artefact
from relearn.report.page import environment
from relearn.report.site import board, code_lines, links
from relearn.report.site.material import Site, scale_page, study_page
from relearn.report.site.published import Published
from relearn.report.views import names, tables, words
from relearn.report.views.studies import About


def overview(site: Site, about: About) -> str:
    """README, publication, scoreboard, parameters and errata of a study."""
    page, folder = study_page(about.name), site.folders[about.name]
    readme = folder / "README.md"
    body = links.rewrite_links(readme.read_text(encoding="utf-8"), readme, page, site.guides)
    body = re.sub(r"^# .*\n", "", body).strip()
    rows = site.of(about.name)
    scales = [one.scale for one in site.scales]
    measured = [one for one in site.scales if _own_artefacts(site, about, one)]
    made = [
        f"# {about.title}",
        f"[{about.cited}]({about.url}) ({about.source})",
        body,
        "## What holds",
        board.table(rows, scales, page, f"Claims of {about.source} at each published scale"),
        board.legend(rows),
        "## Results",
        *(f"- [Scale {one.scale}]({one.scale}.md): {words.SCALES.get(one.scale, '')}" for one in measured),
        "## Parameters",
        _parameters(site.root / "params.yaml", about.name),
    ]
    if site.errata.get(about.name):
        made += ["## Errata", str(_parts().errata_table(site.errata[about.name]))]
    return "\n\n".join(made) + "\n"


def results(site: Site, about: About, scale: Published, pictures: dict[str, Path]) -> str:
    """Figures, tables, deviations and cost of a study at one scale.

    Args:
        pictures: receives the files that the page shows: maps paths in the site to files.
    """
    page = scale_page(about.name, scale.scale)
    runs = [run for run in scale.runs if run.study == about.name]
    own = _own_artefacts(site, about, scale)
    figures = [one for one in own if one.kind == "figure" and scale.figure(one.id)]
    shown = [one for one in own if one.kind == "table" and _is_measured(one, scale)]
    silent = [one for one in own if one not in figures and one not in shown]
    made = [f"# {about.title}, scale {scale.scale}", f"{_facts(runs, own, scale)} [The study](index.md)."]
    if figures:
        made += ["## Figures"]
    for one in figures:
        made += _figure(site, about, one, scale, page, pictures)
    if shown:
        made += [
            "## Tables",
            f"{words.NUMBERS} Small print below a number: as published, and Δ, measured − published.",
        ]
        made += [_empty_cells()]
    for one in shown:
        made += _table(one, scale)
    if silent:
        made += [
            "## Without a run at this scale",
            *(f"- {names.heading(one.id, one.title)}" for one in silent),
        ]
    made += list(_deviations(about, scale))
    if runs:
        costs, total = cost.per_step(runs), cost.sum_up(runs)
        made += ["## Cost", str(_parts().cost_table(costs, total, f"Cost of the steps: {about.title}"))]
    return "\n\n".join(made) + "\n"


def _own_artefacts(site: Site, about: About, scale: Published) -> list[Artefact]:
    found = [one for one in site.artefacts.values() if one.study == about.name]
    known = [
        one for one in found if one.id in scale.coverage or one.id in scale.tables or scale.figure(one.id)
    ]
    return sorted(known, key=lambda one: one.addition)


def _is_measured(artefact: Artefact, scale: Published) -> bool:
    return artefact.id in scale.tables  # tables.md leaves out those without a measured cell


def _facts(runs: list[Any], own: list[Artefact], scale: Published) -> str:
    counted = [scale.coverage[one.id] for one in own if one.id in scale.coverage and not one.addition]
    measured, defined = sum(one[0] for one in counted), sum(one[1] for one in counted)
    facts = [f"{measured} of {defined} published cells measured"] if defined else []
    if runs:
        sums = cost.sum_up(runs)
        facts.append(
            f"{len(runs)} runs, the last on {cost.last_day(runs)}, {cost.hours(sums.cpu_s)} of CPU time"
        )
        facts.append(f"on {'; '.join(cost.machines(runs)[:2])}")
        facts.append(f"commits {', '.join(cost.versions(runs)[:4])}")
    return f"{'; '.join(facts)}." if facts else ""


def _figure(
    site: Site, about: About, one: Artefact, scale: Published, page: str, pictures: dict[str, Path]
) -> Iterator[str]:
    picture = scale.figure(one.id)
    assert picture is not None  # only such figures are shown
    place = f"figures/{scale.scale}/{one.id}"
    pictures[f"{place}.png"] = picture
    yield f"### {names.heading(one.id, one.title)} {{#{one.id}}}"
    address = links.relative(f"{place}.png", page)
    plot = _parts().plot(address, f"{one.title}. {one.full_caption}", (0, 0), scale.marks(one.id))
    yield f"<figure>{plot}</figure>"
    data = picture.with_suffix(".csv")
    link = f" The plotted numbers: `results/published/{scale.scale}/figures.parquet`."
    if data.is_file():
        pictures[f"{place}.csv"] = data
        link = f" [The plotted numbers]({links.relative(f'{place}.csv', page)})."
    yield f"{one.full_caption} {_cells_text(one, scale)}{link}"
    module = site.drawn_by[about.name].get(one.renderer or "")
    if module:
        path = site.root.joinpath("src", *module.split(".")).with_suffix(".py")
        for name in ("points", "draw"):
            if found := code_lines.function(path, name, site.root):
                yield found.markdown("What is plotted" if name == "points" else "How it is drawn")


def _table(one: Artefact, scale: Published) -> Iterator[str]:
    found = scale.tables[one.id]
    heads, rows = tables.fold_published(found.header, found.lines)
    yield f"### {names.heading(one.id, one.title)} {{#{one.id}}}"
    item = {"title": one.title, "header": heads, "lines": rows, "beside": tables.has_published(found.header)}
    yield str(_parts().number_table(item))
    yield f"{found.caption} {_cells_text(one, scale)}"


def _cells_text(one: Artefact, scale: Published) -> str:
    measured, defined = scale.coverage.get(one.id, (0, 0))
    return f"{measured} of {defined} cells measured." if defined else ""


def _empty_cells() -> str:
    lines = ["| in a cell | it means |", "|---|---|"]
    return "\n".join(lines + [f"| {mark} | {meaning} |" for mark, meaning in words.EMPTINESS.items()])


def _deviations(about: About, scale: Published) -> Iterator[str]:
    rows = [row for row in scale.deviations if row[0].partition(".")[0] == about.name]
    if rows:
        yield "## Deviations from the published settings"
        heads = ["key", "here", "published", "source"]
        caption = f"{len(rows)} values that differ from params/paper.yaml"
        yield str(_parts().text_table(heads, rows, caption, True))


def _parameters(path: Path, study: str) -> str:
    """The study's section of params.yaml, in a collapsed box."""
    text = path.read_text(encoding="utf-8")
    found = re.search(rf"^{study}:.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    if not found:
        return "None of its own."
    first = text[: found.start()].count("\n") + 1
    inside = [f'```yaml linenums="{first}"', *found[0].rstrip().splitlines(), "```"]
    return "\n".join(
        [f'??? note "Section {study} of params.yaml (scale mini)"', *(f"    {line}" for line in inside)]
    )


def _parts() -> Any:
    return environment().get_template("parts.html.j2").module
