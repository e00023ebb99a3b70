"""Predicates of ye2023 by the ids of claims.yaml: LayerNorm and Lipschitz-regularised attention; `trained` has the one on trainings."""

from __future__ import annotations

import math
from collections.abc import Callable

from relearn.report.cases import Cases, Row, cases, counter_example
from relearn.report.comparisons import Finding
from relearn.report.quantities import Evidence
from relearn.studies.lrformer.claims import trained

COUNTER_EXAMPLES = {"reversed": "Y2", "probability": "Y3", "score": "Y3", "row_sum": "Y4"}
WORDS = {
    "reversed": "an entry of the derivative of the probabilities",
    "probability": "2-norm of the derivative of the probabilities",
    "score": "2-norm of the derivative of the scores",
    "row_sum": "infinity-norm of the derivative of the probabilities",
}
ROUNDING = 1e-8
WIDTH, LENGTH = 384, 197
"""Width and tokens of the published networks: DeiT III-S, patches of 16 on images of 224."""


def layernorm_bound(evidence: Evidence) -> Finding:
    """No norm exceeds the printed bound at p = inf, or max|gamma| / sqrt(eps) at p = 2, which is attained."""
    found = cases(evidence, "layer_norm")
    if not found.rows:
        return Finding(missing=["no runs for LayerNorm"])
    inf, two = found.where(p=math.inf), found.where(p="two")
    attained = two.where(gamma="ones", input="constant")
    wrong = [row for row in inf.rows if row["printed_holds"] is not None and not row["printed_holds"]]
    step = [
        f"a step of the proof fails at N = {row['dim']}: {row['rank_one']:.4f} > {row['rank_one_printed']:g} (erratum Y1)"
        for row in wrong[:1]
    ]
    share = f"largest share of the printed bound {inf.most('norm', 'printed'):.4f}"
    return Finding(
        [
            inf.part(
                "p = inf: norm <= printed",
                lambda row: row["norm"] <= row["printed"] * (1 + ROUNDING),
                [share, *step],
                full_size=_wide,
            ),
            two.part(
                "p = 2: norm <= max|gamma| / sqrt(eps)",
                lambda row: row["norm"] <= row["corrected"] * (1 + ROUNDING),
                full_size=_wide,
            ),
            attained.part(
                "p = 2, gamma = 1: attained at constant inputs",
                lambda row: abs(row["norm"] / row["corrected"] - 1) <= ROUNDING,
                full_size=_wide,
            ),
            found.part(
                "the exact constants hold, and are attained",
                lambda row: bool(row["holds"]),
                full_size=_wide,
            ),
        ]
    )


def lrsa_bound(evidence: Evidence) -> Finding:
    """The printed bounds are exceeded on the counter-examples; the corrected ones hold in every case."""
    found = cases(evidence, "lrsa")
    if not found.rows:
        return Finding(missing=["no runs for LRSA"])
    against = Cases([row for row in found.rows if row["case"] in COUNTER_EXAMPLES], found.runs)
    # every seed builds the same counter-examples
    notes = dict.fromkeys(
        f"erratum {COUNTER_EXAMPLES[row['case']]}, {WORDS[row['case']]}: {row['norm']:.4g} > {row['printed']:.4g}"
        for row in against.rows
        if not row["printed_holds"]
    )
    return Finding(
        [
            against.part(
                "the printed bounds are exceeded on the counter-examples",
                lambda row: not row["printed_holds"],
                list(notes),
                full_size=counter_example,
            ),
            found.part(
                "the corrected, conditional bounds hold",
                lambda row: bool(row["holds"]),
                [f"largest norm / bound: {found.most('norm', 'bound'):.4f}"],
                full_size=lambda row: (
                    _wide(row) and row["length"] >= LENGTH and row["quantity"] == "probability"
                ),
            ),
        ]
    )


def _wide(row: Row) -> bool:
    return bool(row["dim"] >= WIDTH)


PREDICATES: dict[str, Callable[[Evidence], Finding]] = {
    "layernorm_bound": layernorm_bound,
    "lrsa_bound": lrsa_bound,
    "gp_is_distance_aware": trained.gp_is_distance_aware,
}

power = trained.power
