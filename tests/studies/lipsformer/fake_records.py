"""Record folders of ``lipsformer`` and ``lrformer``, written through the record API, with numbers a test chooses."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import fake_run

NETWORK = "LipsFormer-Swin-T"  # whose layers all cases are, but where a test says otherwise
#: network: millions of parameters, giga multiply-adds, printed millions and giga
SIZES: dict[str, tuple[float, float, float, float | None]] = {
    "Swin-T": (28.29, 4.49, 29, 4.5),
    "LipsFormer-CSwin-T": (23.78, 4.67, 24, 4.7),
    "LipsFormer-CSwin-S": (37.51, 7.44, 38, 7.6),
    "LipsFormer-CSwin-B": (83.05, 16.23, 83, 16.3),
    "LipsFormer-Swin-T": (30.91, 4.98, 31, 5.0),
    "LipsFormer-Swin-S": (54.48, 9.66, 54, 9.7),
    "LipsFormer-Swin-B": (96.01, 16.97, 96, 17.0),
    "LipsFormer-Swin-L": (214.13, 37.71, 214, 37.7),
    "LipsFormer-Swin-L++": (526.4, 84.2, 526, None),
}


write_run = fake_run.write_run


def count(root: Path, network: str, **changed: Any) -> None:
    """The record of one network; ``changed`` are columns of its row."""
    millions, giga, printed, printed_giga = SIZES[network]
    difference = None if printed_giga is None else giga / printed_giga - 1
    row = {
        "network": network,
        "parameters": round(1e6 * millions),
        "published_millions": float(printed),
        "equal": int(round(millions) == printed),
        "released": 7 if network == "LipsFormer-Swin-T" else None,
        "equal_to_released": 1 if network == "LipsFormer-Swin-T" else None,
        "multiply_adds": round(1e9 * giga),
        "published_giga": printed_giga,
        "relative_difference": difference,
        "within": None if difference is None else int(abs(difference) <= 0.03),
        "reason": "rounded up" if network == "Swin-T" else None,
    }
    metrics = {"parameters_millions": millions, "multiply_adds_giga": giga}
    write_run(
        root,
        "count_params_flops",
        {"network": network},
        metrics,
        {"counts.csv": [{**row, **changed}]},
        study="lipsformer",
    )


def cases(root: Path, study: str, protocol: str, rows: Sequence[Mapping[str, Any]]) -> None:
    metrics = {
        "cases_count": len(rows),
        "holds_count": sum(row["holds"] for row in rows),
        "printed_fails_count": sum(row["printed_holds"] == 0 for row in rows),
        "bound_share_max": 1.0,
        "printed_share_max": 1.5,
    }
    write_run(root, "check_theorems", {"protocol": protocol}, metrics, {"cases.csv": rows}, study=study)


def theorem_1(case: str, p: str, norm: float, holds: int = 1, printed_holds: int = 1) -> dict[str, Any]:
    row = {"case": case, "p": p, "norm": norm, "printed": 24.16, "corrected": 40.0, "tight": 38.0}
    return row | {"holds": holds, "printed_holds": printed_holds, "network": NETWORK}


def theorem_2(case: str, product: float, printed: float | None, **more: int) -> dict[str, Any]:
    row = {"case": case, "norm": product, "product": product, "printed": printed, "corrected": 4.0}
    row |= {"network": NETWORK, "kappa": 3.0}
    return row | {"holds": 1, "printed_holds": int(printed is None or product <= printed)} | more


def spectral(case: str, start: str, norm: float, limit: float) -> dict[str, Any]:
    row = {"case": case, "start": start, "channels": 8, "kernel": 7, "norm": norm, "limit": limit}
    row["network"] = NETWORK
    return row | {"holds": 1, "printed_holds": int(norm <= 1.002)}


def layer_norm(p: str, place: str, norm: float, **changed: Any) -> dict[str, Any]:
    row = {
        "gamma": "ones",
        "input": place,
        "dim": 384,
        "p": p,
        "norm": norm,
        "corrected": 2.0,
        "constant": 2.0,
    }
    row |= {"printed": 3.0 if p == "inf" else None, "rank_one": None, "rank_one_printed": None}
    return row | {"holds": 1, "printed_holds": None} | changed


def lrsa(case: str, norm: float, printed: float | None, bound: float, **changed: Any) -> dict[str, Any]:
    row = {"case": case, "norm": norm, "printed": printed, "bound": bound, "holds": int(norm <= bound)}
    row |= {"dim": 384, "length": 197, "quantity": "probability"}
    return row | {"printed_holds": None if printed is None else int(norm <= printed)} | changed


def study(root: Path) -> Path:
    """Both studies, every statement as it should be."""
    for network in SIZES:
        count(root, network)
    protocols = {
        ("lipsformer", "theorem_1"): [
            theorem_1("random", "two", 10.0),
            theorem_1("random", "inf", 10.0),
            theorem_1("transposes", "inf", 36.0, printed_holds=0),
        ],
        ("lipsformer", "theorem_2"): [
            theorem_2("lipsformer", 3.0, 100.0),
            theorem_2("lipsformer", 3.5, None),
            theorem_2("constant", 4.0, 1.0),
            theorem_2("identity", 4.0, 2.718),
            theorem_2("negative", 1.9, 0.1),
        ],
        ("lipsformer", "spectral_start"): [
            spectral("linear", "flattened", 1.0, 1.0),
            spectral("depth_wise", "flattened", 1.9, 7.0),
            spectral("depth_wise", "operator", 1.0, 7.0),
        ],
        ("lrformer", "layer_norm"): [
            layer_norm("inf", "lone", 1.5, rank_one=4 / 3, rank_one_printed=1, printed_holds=0),
            layer_norm("two", "constant", 2.0),
            layer_norm("two", "normal", 1.0),
        ],
        ("lrformer", "lrsa"): [
            lrsa("reversed", 35.36, 9.8, 40.0),
            lrsa("score", 1e4, 1200.0, 2e4),
            lrsa("random", 1.0, 2.0, 1.0),
            lrsa("eps", 1.0, None, 2.0),
        ],
    }
    for (name, protocol), rows in protocols.items():
        cases(root, name, protocol, rows)
    return root
