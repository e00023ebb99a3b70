"""report.html: the results at one scale, then a section for each study.

The page works offline; its figures are embedded or in files next to it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from relearn.report import claims_formats, cost, figures, verdict_words
from relearn.report.analysis import NONE_WRITTEN, Explained
from relearn.report.artefacts import Artefact
from relearn.report.claims import Claim, tally
from relearn.report.coverage import Coverage, total
from relearn.report.deviations import Method
from relearn.report.figures import claims_forest
from relearn.report.layout import PIPELINE, Layout
from relearn.report.runs import Run
from relearn.report.settings_page import SettingsTable
from relearn.report.table import Cell
from relearn.report.views import formulas, names, studies, words
from relearn.report.views.claims import view as claim_view
from relearn.report.views.studies import About

TEMPLATE = "report.html.j2"  # next to this file, with parts.html.j2, report.css and report.js

OPTIONAL = re.compile(r"</(?:td|th|tr|li)>")
"""End tags that HTML can do without; they would be about 6% of the page."""
ENDS = ("reproduced", "contradicted")  # the verdicts in the page's first sentence


def html(
    *,
    scale: str,
    root: Path,
    runs: Sequence[Run],
    problems: Sequence[str],
    about: Sequence[About],
    artefacts: Sequence[Artefact],
    tables: Mapping[str, Sequence[Cell]],
    claims: Sequence[Claim],
    coverages: Sequence[Coverage],
    deviations: Sequence[Sequence[str]] | None,
    no_deviations: str,
    errata: Mapping[str, Mapping[str, Any]],
    explained: Sequence[Explained] = (),
    settings: Mapping[str, Sequence[SettingsTable]] | None = None,
    terms: Mapping[str, Mapping[str, str]] | None = None,
    other_deviations: Sequence[Method] = (),
    layout: Layout = PIPELINE,
) -> str:
    """The page. All texts are escaped; figures and data are linked relative to ``root``, where they must already exist.

    Args:
        about: the studies in the order in which they are shown.
        deviations: key, value here, published value, source; None if they are not known, and then
            ``no_deviations`` says why.
        errata: for each study, its entries by id.
        explained: the judged claims that were not reproduced, and others with an analysis, each with it.
        settings: for each study, the tables of its publication that hold settings.
        terms: for each study, the terms that its claims use, with their meanings.
        other_deviations: deviations that no parameter shows, from :func:`relearn.report.deviations.methods`.
        layout: where the figures and the linked files are.
    """
    material = studies.Material(
        root=root,
        runs=runs,
        artefacts=artefacts,
        tables=tables,
        claims=claims,
        coverages=coverages,
        deviations=deviations,
        errata=errata,
        explained=explained,
        settings=settings or {},
        terms=terms or {},
        other_deviations=other_deviations,
        layout=layout,
    )
    shown = [studies.view(one, material) for one in about]
    drawn = (root / "figures" / f"{claims_forest.NAME}.png").is_file()
    counts = tally(claims)
    judged = {claim.section for claim in claims if claim.verdict != "not_run"}
    made = (
        environment()
        .get_template(TEMPLATE)
        .render(
            scale=scale,
            scale_words=words.SCALES.get(scale, ""),
            runs=len(runs),
            day=cost.last_day(runs),
            versions=cost.versions(runs),
            machines=cost.machines(runs),
            cost=cost.sum_up(runs),
            problems=problems,
            tally=_by_verdict(counts),
            verdicts=_by_verdict(tally(claims)),
            provisional=verdict_words.PROVISIONAL_MEANS * any(one.provisional for one in claims),
            counted=sum(counts.values()),
            not_run=counts.get("not_run", 0),
            silent=[one.title for one in about if judged and one.name not in judged],
            verdict_styles=verdict_words.style_sheet(),
            **{name: sum(n for word, n in counts.items() if word.startswith(name)) for name in ENDS},
            checks=[claim_view(one) for one in claims if one.kind == "check"],
            forest=layout.picture(root, claims_forest.NAME) if drawn else "",
            forest_marks=_forest_marks(root, shown),
            forest_caption=claims_forest.CAPTION,
            link=layout.run,
            listed_in=layout.instead("deviations.md"),
            settings_in=layout.instead("settings.md"),
            studies=shown,
            shared_deviations=studies.shared_deviations(about, deviations),
            no_deviations=no_deviations if deviations is None else "",
            none_written=NONE_WRITTEN,
            emptiness=words.EMPTINESS,
            numbers=words.NUMBERS,
            coverages=coverages,
            total=total(coverages),
        )
    )
    return OPTIONAL.sub("", made)


def _forest_marks(root: Path, shown: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The points of the forest plot, each linked to its claim on the page."""
    anchors = {claim["anchor"] for study in shown for claim in study["claims"]}

    def link(row: figures.Line) -> str:
        anchor = names.claim_anchor(row["study"], row["claim"])
        return f"#{anchor}" if anchor in anchors else ""

    path = root / "figures" / f"{claims_forest.NAME}.csv"
    return figures.placed(path.read_bytes(), link) if path.is_file() else []


def _by_verdict(counts: Mapping[str, int]) -> list[tuple[str, int, str]]:
    """Verdict, number of claims with it, and its meaning, with the number of provisional ones."""
    found: dict[str, int] = {}
    for word, count in counts.items():
        name = word.partition(" (")[0]
        found[name] = found.get(name, 0) + count
    shown = []
    for name, count in found.items():
        some = counts.get(f"{name} (provisional)", 0)
        shown.append(
            (name, count, verdict_words.MEANINGS[name] + f". {some} of them provisional" * bool(some))
        )
    return shown


def environment() -> Any:
    """The Jinja environment of this folder's templates; text is escaped unless marked as HTML, undefined variables are errors."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("relearn", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    made.filters.update(
        breakable=names.breakable,
        coded=names.coded,
        formulas=formulas.markup,
        verdict_word=claims_formats.word,
        words=verdict_words.label,
        hours=cost.hours,
        label=names.label,
        mebibytes=cost.mebibytes,
    )
    return made
