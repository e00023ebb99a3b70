"""Claims prepared for a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relearn.report import claims_formats as formats
from relearn.report.claims import Claim
from relearn.report.views import names
from relearn.report.views.names import plural


def view(claim: Claim) -> dict[str, Any]:
    """Texts of one claim: statement, deciding effect, verdict, parts and runs."""
    main = claim.main.name if claim.main and len(claim.parts) > 1 else ""
    return {
        **{name: getattr(claim, name) for name in ("id", "says", "source", "verdict", "runs", "kind")},
        "anchor": names.claim_anchor(claim.section, claim.id),
        "word": formats.word(claim),
        "effect": formats.effect(claim.main),
        "main": main,
        "claimed": formats.format_claimed(claim.main),
        "n": formats.numbers(claim),
        "remarks": formats.remarks(claim),
        "parts": [
            *(f"{part.name}: {formats.effect(part)}, {formats.judged_as(part)}" for part in claim.parts),
            *formats.background(claim),
        ],
        "folded": formats.folded(claim.runs),
        "counted": f"{plural(len(claim.parts), 'comparison')}, {plural(len(claim.runs), 'run')}",
    }


def split(claims: Sequence[Claim]) -> tuple[list[dict[str, Any]], list[Claim]]:
    """The views of the judged claims, and the claims without any run."""
    return [view(one) for one in claims if one.parts], [one for one in claims if not one.parts]
