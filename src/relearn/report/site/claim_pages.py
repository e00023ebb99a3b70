"""One page per claim: its statement, and at each scale its verdict, effect, parts and runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from relearn.report import claims_formats, verdict_words
from relearn.report.scoreboard import Row
from relearn.report.site import board, code_lines
from relearn.report.site.material import Site, claim_page
from relearn.report.table_formats import pipes

MOST_RUNS = 40  # most runs listed on the page; claims.json has all


def page(site: Site, row: Row) -> str:
    about = next(one for one in site.about if one.name == row.study)
    scales = [one.scale for one in site.scales]
    made = [
        f"# {row.says[:1].upper()}{row.says[1:]}",
        f"A claim of [{about.title}](../studies/{row.study}/index.md) ({row.source}), of the kind *{row.kind}*. "
        f"Its name here: `{row.claim}`.",
        board.table([row], scales, claim_page(row), "Verdict at each published scale"),
        board.legend([row]),
    ]
    folder = site.folders[row.study] / "claims"
    if found := code_lines.in_folder(folder, row.claim, site.root):
        made.append(found.markdown("How it is judged"))
    for scale in site.scales:
        one = scale.claims.get((row.study, row.claim))
        if one and one["verdict"] != "not_run":
            made += [f"## Scale {scale.scale}", *_scale(site, row, scale.scale, one)]
    return "\n\n".join(made) + "\n"


def _scale(site: Site, row: Row, scale: str, one: Mapping[str, Any]) -> Iterator[str]:
    cell = row.cells[scale]
    meaning = verdict_words.MEANINGS[cell.verdict]
    sentence = f"**{row.word(scale)}**: {meaning}."
    yield (
        sentence + (f" Effect: {cell.shown}." if cell.shown else "") + (f" From {cell.n}." if cell.n else "")
    )
    if lines := _remarks(one):
        yield "\n".join(f"- {line}" for line in lines)
    text = site.analyses.get((row.study, row.claim, scale))
    if text:
        stale = (
            f" *(written for the verdict {verdict_words.label(text.verdict)})*"
            if text.verdict != cell.verdict
            else ""
        )
        title = "How far" if text.verdict == "reproduced" else "Why"
        yield f'!!! note "{title}"\n\n    {text.text}{stale}\n\n    {text.experiment}'
    compared = ["| comparison | effect | verdict | how the interval is made |", "|---|---|---|---|"]
    for part in one.get("parts", ()):
        shown = _effect(part, share=one.get("claimed_side", "").endswith("%"))
        verdict = part.get("says", part.get("verdict", ""))
        cells = (part.get("comparison", ""), shown, verdict_words.label(str(verdict)), part.get("method", ""))
        compared.append(pipes(*cells))
    if len(compared) > 2:
        yield "\n".join(compared)
    runs = one.get("runs", [])
    if runs:
        more = f"\n    - … and {len(runs) - MOST_RUNS} more" if len(runs) > MOST_RUNS else ""
        named = "\n".join(f"    - `{run}`" for run in runs[:MOST_RUNS])
        yield f'??? note "{len(runs)} runs, below results/published/{scale}"\n\n{named}{more}'


def _remarks(one: Mapping[str, Any]) -> list[str]:
    lines = [f"underpowered: {'; '.join(one['reasons'])}"] if one.get("parts") and one.get("reasons") else []
    if one["verdict"] == "underpowered" and one.get("numbers_say"):
        lines.append(
            f"otherwise the verdict by the numbers would be: {verdict_words.label(one['numbers_say'])}"
        )
    if one.get("apart"):
        lines.append(verdict_words.each_alone(one["apart"]))
    return lines + claims_formats.lacking(one.get("missing", ()))


def _effect(part: Mapping[str, Any], share: bool = False) -> str:
    """Estimate and interval of one comparison, in its own unit; with ``share`` a ratio in percent."""
    if part.get("effect") is None:
        return ""
    unit = part.get("unit", "")
    if part.get("method") == "exact":
        return f"{part['effect']:.3g} {unit}"
    low, high = part.get("low"), part.get("high")
    hundredths = "points" if "difference" in part.get("method", "") else "%"
    in_hundredths = unit == "fraction" or (unit == "ratio" and share)
    factor, unit = (100, hundredths) if in_hundredths else (1, unit if unit != "none" else "")
    if high is None and (low is None or (low == 0 and part.get("unit") == "ratio")):
        return f"{factor * part['effect']:.3g} {unit} (no interval)"
    ends = [f"{factor * end:.3g}" if end is not None else mark for end, mark in ((low, "-∞"), (high, "∞"))]
    return f"{factor * part['effect']:.3g} [{', '.join(ends)}] {unit}".rstrip()
