"""Predicates of qi2023 by the ids of claims.yaml; this module has those without training: counts, theorems, spectral initialisation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from relearn.report.cases import Row, cases, counter_example, span
from relearn.report.comparisons import Exact, Finding
from relearn.report.quantities import Evidence
from relearn.report.runs import folders, having, select
from relearn.report.views.names import plural
from relearn.studies.lipsformer.claims import trained

OURS = "LipsFormer-"
SIZED = tuple(
    OURS + name for name in ("CSwin-T", "CSwin-S", "CSwin-B", "Swin-T", "Swin-S", "Swin-B", "Swin-L")
)
LARGEST = f"{OURS}Swin-L++"
WITHIN = 0.03  # relative tolerance on the printed multiply-adds
KINDS = {
    "dense": "full convolution",
    "depth_wise": "depth-wise convolution",
    "equal": "convolution of equal weights",
}
"""Windows that overlap."""
NO_OVERLAP = ("linear", "patches", "merging", "point_wise")
ONE = 1e-4  # the iteration may underestimate the largest singular value by this
ROUNDING = 1e-9
BLOCKS = ("lipsformer", "network")  # cases of theorem 2 with the paper's blocks


def parameter_counts(evidence: Evidence) -> Finding:
    """Each LipsFormer of tables 4 and 5 has the printed millions of parameters after rounding; other networks are reported as notes."""
    rows, runs = _count_rows(evidence)
    own = {name: row for name, row in rows.items() if name in (*SIZED, LARGEST)}
    if not own:
        return Finding(missing=["no runs for parameters"])
    failed = [name for name, row in own.items() if not row["equal"]]
    notes = [_differs(name, own[name]) for name in failed]
    notes += [f"in addition: {_differs(name, row)}" for name, row in rows.items() if _other(name, row)]
    released = [row["equal_to_released"] for row in own.values() if row["released"] is not None]
    if released:
        notes.append(f"equal to the released code to the unit: {sum(map(bool, released))} of {len(released)}")
    part = Exact("parameters equal after rounding", len(own), len(failed), True, runs, tuple(notes))
    return Finding([part], _lacking((*SIZED, LARGEST), own))


def flops(evidence: Evidence) -> Finding:
    """Multiply-adds for one image of 224 x 224 are within 3% of the FLOPs printed in tables 2 and 7."""
    rows, runs = _count_rows(evidence)
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
                    f" of the tighter one {two.most('norm', 'tight'):.4f}",
                    *_of_networks(two.rows, "norm", "tight"),
                ],
                full_size=_of_a_network,
            ),
            q9.part(
                "p = inf: the printed bound is exceeded (erratum Q9)",
                lambda row: not row["printed_holds"],
                counter,
                full_size=counter_example,
            ),
            inf.part(
                "p = inf: norm <= the corrected bound",
                lambda row: bool(row["holds"]),
                [f"largest share {inf.most('norm', 'corrected'):.4f}"],
                full_size=_of_a_network,
            ),
        ]
    )


def theorem_2(evidence: Evidence) -> Finding:
    """For blocks like the paper's, the product of their norms is at most e^kappa; every stack satisfies the corrected bound.

    A case whose e^kappa is infinite is vacuous: it neither confirms nor refutes the theorem. The cases of the published size are
    the paper's own networks at initialisation.
    """
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
    blocks = type(found)([row for row in found.rows if row["case"] in BLOCKS], found.runs)
    whole = [row for row in blocks.rows if _of_a_network(row)]
    measured = [
        line
        for words, key in (("product of its blocks' norms", "product"), ("kappa", "kappa"))
        for line in _over_seeds(((f"{row['network']}: {words} {{}}", row) for row in whole), key, ",.4g")
    ]
    return Finding(
        [
            blocks.part(
                "LipsFormer's blocks: product of norms <= e^kappa",
                lambda row: row["product"] <= row["printed"] * (1 + ROUNDING),
                measured,
                full_size=_of_a_network,
                vacuous=lambda row: row["printed"] is None,  # infinite
            ),
            found.part(
                "every stack: product of norms <= corrected bound",
                lambda row: bool(row["holds"]),
                notes,
                full_size=_of_a_network,
                vacuous=lambda row: row["corrected"] is None,
            ),
        ]
    )


def _of_a_network(row: Row) -> bool:
    """Whether the case is a whole network of the published size, or one of its layers."""
    return row.get("network") is not None


def _of_networks(rows: Sequence[Row], over: str, under: str) -> list[str]:
    """The largest ratio to the bound in each network of the published size."""
    found: dict[str, float] = {}
    for row in filter(_of_a_network, rows):
        found[row["network"]] = max(found.get(row["network"], 0.0), row[over] / row[under])
    return [f"{name}: largest share {share:.4g}" for name, share in found.items()]


def _over_seeds(rows: Iterable[tuple[str, Row]], key: str = "norm", form: str = ".3f") -> list[str]:
    """One line for each text, with the range of a column over the seeds in place of its ``{}``."""
    found: dict[str, list[float]] = {}
    for text, row in rows:
        found.setdefault(text, []).append(float(row[key]))
    return [text.format(span(values, form)) for text, values in found.items()]


def spectral_init(evidence: Evidence) -> Finding:
    """Linear layers and convolutions with non-overlapping windows start with norm 1; with overlapping windows the corrected limit holds."""
    found = cases(evidence, "spectral_start")
    if not found.rows:
        return Finding(missing=["no runs for the spectral start"])
    apart = type(found)([row for row in found.rows if row["case"] in NO_OVERLAP], found.runs)
    over = type(found)([row for row in found.rows if row["case"] not in NO_OVERLAP], found.runs)
    single = [row for row in over.rows if row["start"] == "flattened" and not _of_a_network(row)]
    notes = _over_seeds(
        (
            f"{KINDS[row['case']]}, {plural(row['channels'], 'channel')}, kernel {row['kernel']}: norm {{}}",
            row,
        )
        for row in single
    )
    wide = [row for row in over.rows if _of_a_network(row)]
    if wide:
        norms = [row["norm"] for row in wide]
        notes.append(
            f"{len(wide)} such convolutions of {', '.join(dict.fromkeys(row['network'] for row in wide))}:"
            f" norms {span(norms, '.3f')}, so not every affine layer starts 1-Lipschitz"
        )
    return Finding(
        [
            apart.part(
                "norm 1: linear layers, convolutions without overlap",
                lambda row: abs(row["norm"] - 1) <= ONE,
                full_size=_of_a_network,
            ),
            over.part(
                "windows that overlap: at most the kernel's side times the flattened norm (erratum Q12)",
                lambda row: row["norm"] <= row["limit"] * (1 + ROUNDING),
                notes,
                full_size=_of_a_network,
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


def _count_rows(evidence: Evidence) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Rows of counts.csv by network."""
    runs = having(select(evidence.runs, {"step": "count_params_flops"}), "counts.csv")
    rows = {row["network"]: row for run in runs for row in run.rows("counts.csv")}
    return rows, folders(runs)


def _other(name: str, row: Row) -> bool:
    return not name.startswith(OURS) and row["equal"] is not None and not row["equal"]


def _differs(name: str, row: Row) -> str:
    text = f"{name}: {row['parameters'] / 1e6:.2f} M, printed {row['published_millions']:g} M"
    return f"{text} ({row['reason']})" if row["reason"] else text


def _lacking(wanted: tuple[str, ...], found: dict[str, Any]) -> list[str]:
    return [f"no run for {name}" for name in wanted if name not in found]
