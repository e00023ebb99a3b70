"""Predicates of qi2023 by the ids of claims.yaml; here those without training: counts, theorems, spectral initialisation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from relearn.report.cases import Row, cases
from relearn.report.comparisons import Exact, Finding
from relearn.report.quantities import Evidence
from relearn.report.runs import Run, select
from relearn.studies.lipsformer.claims import trained

OURS = "LipsFormer-"
SIZED = tuple(
    OURS + name for name in ("CSwin-T", "CSwin-S", "CSwin-B", "Swin-T", "Swin-S", "Swin-B", "Swin-L")
)
LARGEST = f"{OURS}Swin-L++"
WITHIN = 0.03  # of the printed multiply-adds
NO_OVERLAP = ("linear", "patches", "merging", "point_wise")
ONE = 1e-4  # what a largest singular value by iteration is short by
ROUNDING = 1e-9


def parameter_counts(evidence: Evidence) -> Finding:
    """Each LipsFormer of tables 4 and 5 has the printed millions of parameters after rounding; other networks are notes."""
    rows, runs = _counted(evidence)
    own = {name: row for name, row in rows.items() if name in (*SIZED, LARGEST)}
    if not own:
        return Finding(missing=["no runs for parameters"])
    failed = [name for name, row in own.items() if not row["equal"]]
    notes = [_differs(name, own[name]) for name in failed]
    notes += [f"beside it: {_differs(name, row)}" for name, row in rows.items() if _other(name, row)]
    released = [row["equal_to_released"] for row in own.values() if row["released"] is not None]
    if released:
        notes.append(f"equal to the released code to the unit: {sum(map(bool, released))} of {len(released)}")
    part = Exact("parameters equal after rounding", len(own), len(failed), True, runs, tuple(notes))
    return Finding([part], _lacking((*SIZED, LARGEST), own))


def flops(evidence: Evidence) -> Finding:
    """Multiply-adds of one image of 224 x 224 are within 3% of what tables 2 and 7 print as FLOPs."""
    rows, runs = _counted(evidence)
    own = {name: row for name, row in rows.items() if name in SIZED}
    if not own:
        return Finding(missing=["no runs for multiply-adds"])
    failures = sum(not row["within"] for row in own.values())
    largest = max(own, key=lambda name: abs(own[name]["relative_difference"]))
    notes = (
        "one product with its sum counts one, in convolutions, linear layers and both products of attention",
        f"largest difference {100 * own[largest]['relative_difference']:+.1f}%, {largest}",
    )
    name = f"multiply-adds within {100 * WITHIN:g}%"
    return Finding([Exact(name, len(own), failures, True, runs, notes)], _lacking(SIZED, own))


def theorem_1(evidence: Evidence) -> Finding:
    """p = 2: printed and tight bound hold; p = inf: the printed one does not (Q9), the corrected one does."""
    found = cases(evidence, "theorem_1")
    if not found.rows:
        return Finding(missing=["no runs for theorem 1"])
    two, inf, q9 = found.where(p="two"), found.where(p=math.inf), found.where(p=math.inf, case="transposes")
    counter = [f"norm {row['norm']:.6g}, printed bound {row['printed']:.6g}" for row in q9.rows[:1]]
    return Finding(
        [
            two.part(
                "p = 2: norm <= printed and <= the tighter bound",
                lambda row: bool(row["holds"] and row["printed_holds"]),
                [
                    f"largest share of the printed bound {two.most('norm', 'printed'):.4f},"
                    f" of the tighter one {two.most('norm', 'tight'):.4f}"
                ],
            ),
            q9.part(
                "p = inf: the printed bound is exceeded (erratum Q9)",
                lambda row: not row["printed_holds"],
                counter,
            ),
            inf.part(
                "p = inf: norm <= the corrected bound",
                lambda row: bool(row["holds"]),
                [f"largest share {inf.most('norm', 'corrected'):.4f}"],
            ),
        ]
    )


def theorem_2(evidence: Evidence) -> Finding:
    """Blocks as the paper's: the product of their norms is at most e^kappa; every stack obeys the corrected bound."""
    found = cases(evidence, "theorem_2")
    if not found.rows:
        return Finding(missing=["no runs for theorem 2"])
    left_out = {
        "constant": "CenterNorm's D/(D-1) (Q13)",
        "identity": "alpha is 1 over the branches, not the blocks (Q13)",
        "negative": "the modulus of alpha (Q11)",
    }
    notes = []
    for name, what in left_out.items():
        rows = [row for row in found.where(case=name).rows if not row["printed_holds"]]
        worst = max(rows, key=lambda row: row["norm"] / row["printed"], default=None)
        if worst is not None:
            notes.append(f"left out: {what}: norm {worst['norm']:.4g}, printed {worst['printed']:.4g}")
    return Finding(
        [
            found.where(case="lipsformer").part(
                "LipsFormer's blocks: product of norms <= e^kappa", _product_below
            ),
            found.part(
                "every stack: product of norms <= corrected bound", lambda row: bool(row["holds"]), notes
            ),
        ]
    )


def _product_below(row: Row) -> bool:
    """An e^kappa that overflows is not a bound that can be exceeded."""
    return row["printed"] is None or row["product"] <= row["printed"] * (1 + ROUNDING)


def spectral_init(evidence: Evidence) -> Finding:
    """Linear layers and convolutions without overlap start with norm 1; the norm with overlapping windows is a note."""
    found = cases(evidence, "spectral_start")
    if not found.rows:
        return Finding(missing=["no runs for the spectral start"])
    apart = type(found)([row for row in found.rows if row["case"] in NO_OVERLAP], found.runs)
    over = type(found)([row for row in found.rows if row["case"] not in NO_OVERLAP], found.runs)
    notes = [
        f"{row['case']}, {row['channels']} channels, kernel {row['kernel']}: norm {row['norm']:.3f}"
        for row in over.rows
        if row["start"] == "flattened"
    ]
    return Finding(
        [
            apart.part(
                "norm 1: linear layers, convolutions without overlap", lambda row: abs(row["norm"] - 1) <= ONE
            ),
            over.part(
                "windows that overlap: at most the kernel's side times the flattened norm (erratum Q12)",
                lambda row: row["norm"] <= row["limit"] * (1 + ROUNDING),
                notes,
            ),
        ]
    )


PREDICATES: dict[str, Callable[[Evidence], Finding]] = {
    "parameter_counts": parameter_counts,
    "flops": flops,
    "trains_without_warmup": trained.trains_without_warmup,
    "layernorm_fails": trained.layernorm_fails,
    "dot_product_fails": trained.dot_product_fails,
    "alpha_has_a_limit": trained.alpha_has_a_limit,
    "theorem_1": theorem_1,
    "theorem_2": theorem_2,
    "spectral_init": spectral_init,
}

power = trained.power


def _counted(evidence: Evidence) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Rows of counts.csv by network."""
    runs: list[Run] = [
        run for run in select(evidence.runs, {"step": "count_params_flops"}) if run.file("counts.csv")
    ]
    rows = {row["network"]: row for run in runs for row in run.rows("counts.csv")}
    return rows, tuple(run.folder for run in runs)


def _other(name: str, row: Row) -> bool:
    return not name.startswith(OURS) and row["equal"] is not None and not row["equal"]


def _differs(name: str, row: Row) -> str:
    said = f"{name}: {row['parameters'] / 1e6:.2f} M, printed {row['published_millions']:g} M"
    return f"{said} ({row['reason']})" if row["reason"] else said


def _lacking(wanted: tuple[str, ...], found: dict[str, Any]) -> list[str]:
    return [f"no run for {name}" for name in wanted if name not in found]
