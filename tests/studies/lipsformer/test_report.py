"""Tables and claims of ``lipsformer`` and ``lrformer`` without training: each published count in one cell, each predicate able to fail."""

import pytest

from relearn.measures.model_counts import NETWORKS, RIVALS
from relearn.report import claims, coverage, grid, table, table_formats

from ...report.conftest import FOLDERS, SECTIONS, chapter, evidence_of, values_of
from ...steps.recorded import rows_of
from . import fake_records as pretend

ARTEFACTS = {
    name: one
    for name, one in (chapter("lipsformer") | chapter("lrformer")).items()
    if one.where[0]["step"] in ("count_params_flops", "check_theorems")
}
DEFINED = {"qi2023.table2": 108, "qi2023.table4": 3, "qi2023.table5": 5, "qi2023.table7": 16}
ACTIVATIONS = {"qi2023.appendix_a1", "qi2023.fig2"}  # test_exact_steps.py
ADDITIONS = {f"addition.{study}_constructions" for study in ("lipsformer", "lrformer")}
OURS = {name: one for name, one in claims.load(FOLDERS).items() if name in ("lipsformer", "lrformer")}
EXACT = {name for section in OURS.values() for name, one in section.items() if one["kind"] == "exact"}


def cells_of(name, evidence):
    return {(c.row.id, c.column.id): c for c in table.build(ARTEFACTS[name], evidence)}


def judged(root):
    known = evidence_of(root)
    return {claim.id: claim for claim in claims.judge_all(OURS, dict.fromkeys(OURS, known), SECTIONS)}


def test_the_tables_are_those_of_the_counts_and_one_of_constructions_a_paper():
    assert set(ARTEFACTS) == set(DEFINED) | ACTIVATIONS | ADDITIONS


@pytest.mark.parametrize("name", DEFINED)
def test_every_published_count_of_these_networks_stands_in_one_cell(name, tmp_path):
    cells = cells_of(name, evidence_of(tmp_path)).values()
    shown = [value for cell in cells for value in cell.printed.values()]
    values = values_of(f"{name}")
    networks = {row.published or row.title for row in ARTEFACTS[name].rows}
    wanted = [v for v in values if v.row in networks and v.metric in ("params_m", "flops_g")]
    assert sorted(map(repr, shown)) == sorted(map(repr, wanted)) and len(shown) == DEFINED[name]
    if name in ("qi2023.table2", "qi2023.table7"):  # no network that is printed is left out
        assert {v.row.removesuffix(" (ours)") for v in values} == {row.title for row in ARTEFACTS[name].rows}


def test_table_2_is_counted_whole_and_says_what_is_not_built(tmp_path):
    known = evidence_of(pretend.study(tmp_path))
    counts = dict.fromkeys(RIVALS, (21000000.0, 3970000000.0))
    rows = [{"network": name, "parameters": a, "multiply_adds": b} for name, (a, b) in counts.items()]
    pretend.write_run(
        tmp_path, "count_params_flops", {"network": "rivals"}, {}, {"counts.csv": rows}, study="lipsformer"
    )
    known = evidence_of(tmp_path)
    cover = coverage.cover(ARTEFACTS["qi2023.table2"], known)
    built = sum(
        name in pretend.SIZES for name in NETWORKS if "Swin-L" not in name and "LipsFormer-Swin" not in name
    )
    assert (cover.measured, cover.defined) == (2 * (built + len(RIVALS)), 108)
    assert cover.absent == {"not built here": 2 * 20} and "40 not built here" in cover.line()
    cells = cells_of("qi2023.table2", known)
    assert cells["RegNetY-4G", "multiply_adds"].mean == pytest.approx(3.97)
    assert grid.text(cells["NAT-T", "parameters"]) == "not built here"
    assert cover.row("mini")[-1] == 40 and len(cover.row("mini")) == len(coverage.FIELDS)


def test_cells_are_counted_and_compared_with_the_printed_numbers(tmp_path):
    known = evidence_of(pretend.study(tmp_path))
    cover = coverage.cover(ARTEFACTS["qi2023.table5"], known)
    assert (cover.measured, cover.defined) == (5, 5)
    cell = cells_of("qi2023.table2", known)["LipsFormer-CSwin-S", "multiply_adds"]
    assert (cell.mean, cell.published) == (7.44, {"paper": 7.6})
    header, lines = table_formats.header_and_rows(
        ARTEFACTS["qi2023.table7"], table.build(ARTEFACTS["qi2023.table7"], known)
    )
    assert header == [
        "Network",
        "Parameters, M",
        "Paper",
        "Deviation",
        "Multiply-adds, G",
        "Paper",
        "Deviation",
    ]
    assert lines[0] == ["Swin-T", "28.29 (1)", "29", "-0.71", "4.49 (1)", "4.5", "-0.01"]
    assert lines[2][:2] == ["Swin-S", "not run"]


def test_constructions_are_counted_with_the_shares_of_their_bounds(tmp_path):
    known = evidence_of(pretend.study(tmp_path))
    for study, row, cases, fails in (("lipsformer", "theorem_2", 5, 3), ("lrformer", "lrsa", 4, 2)):
        cells = cells_of(f"addition.{study}_constructions", known)
        said = [grid.text(cells[row, name]) for name in ("cases", "holds", "printed", "bound_share")]
        assert said == [f"{cases} (1)", f"{cases} (1)", f"{fails} (1)", "1.00 (1)"]


def test_all_exact_claims_are_reproduced_and_the_trained_ones_are_not_run(tmp_path):
    found = judged(pretend.study(tmp_path))
    assert {name for name, claim in found.items() if claim.verdict == "reproduced"} == EXACT
    assert not any(found[name].missing for name in EXACT)
    rest = set(found) - EXACT
    assert {found[name].verdict for name in rest} == {"not_run"} and rest
    assert not any("no predicate in this version" in found[name].reasons for name in rest)


def test_notes_name_the_counter_examples_and_what_a_theorem_leaves_out(tmp_path):
    found = judged(pretend.study(tmp_path))
    notes = {name: " | ".join(n for part in found[name].parts for n in part.notes) for name in EXACT}
    assert "norm 36, printed bound 24.16" in notes["theorem_1"]
    for word in ("CenterNorm", "blocks", "modulus"):
        assert word in notes["theorem_2"]
    assert "2 such convolutions of LipsFormer-Swin-T: norms 1.000 to 1.900" in notes["spectral_init"]
    assert "1.3333 > 1 (erratum Y1)" in notes["layernorm_bound"]
    assert "erratum Y2, an entry of the derivative of the probabilities: 35.36 > 9.8" in notes["lrsa_bound"]
    assert "in addition: Swin-T: 28.29 M, printed 29 M (rounded up)" in notes["parameter_counts"]
    assert "to the unit: 1 of 1" in notes["parameter_counts"]
    assert "-2.1%, LipsFormer-CSwin-S" in notes["flops"]


@pytest.mark.parametrize(
    ("claim", "protocol", "row"),
    [
        ("theorem_1", "theorem_1", pretend.theorem_1("random", "two", 50.0, printed_holds=0)),
        ("theorem_1", "theorem_1", pretend.theorem_1("random", "inf", 50.0, holds=0)),
        ("theorem_1", "theorem_1", pretend.theorem_1("transposes", "inf", 20.0)),
        ("theorem_2", "theorem_2", pretend.theorem_2("lipsformer", 3.0, 2.0)),
        ("theorem_2", "theorem_2", pretend.theorem_2("identity", 9.0, 2.0, holds=0)),
        ("spectral_init", "spectral_start", pretend.spectral("patches", "flattened", 1.01, 2.0)),
        ("spectral_init", "spectral_start", pretend.spectral("dense", "flattened", 7.1, 7.0)),
        ("layernorm_bound", "layer_norm", pretend.layer_norm("inf", "normal", 3.1)),
        ("layernorm_bound", "layer_norm", pretend.layer_norm("two", "normal", 2.1)),
        ("layernorm_bound", "layer_norm", pretend.layer_norm("two", "constant", 1.9)),
        ("layernorm_bound", "layer_norm", pretend.layer_norm("inf", "normal", 1.0, holds=0)),
        ("lrsa_bound", "lrsa", pretend.lrsa("probability", 1.0, 2.0, 3.0)),
        ("lrsa_bound", "lrsa", pretend.lrsa("random", 4.0, 5.0, 3.0)),
    ],
)
def test_one_case_contradicts(claim, protocol, row, tmp_path, monkeypatch):
    write = pretend.cases
    monkeypatch.setattr(
        pretend,
        "cases",
        lambda root, study, name, rows: write(root, study, name, [*rows, row] if name == protocol else rows),
    )
    found = judged(pretend.study(tmp_path))
    assert {name for name in EXACT if found[name].verdict == "contradicted"} == {claim}


@pytest.mark.parametrize(("claim", "changed"), [("parameter_counts", {"equal": 0}), ("flops", {"within": 0})])
def test_one_network_contradicts(claim, changed, tmp_path):
    for name in pretend.SIZES:
        pretend.count(tmp_path, name, **(changed if name == "LipsFormer-Swin-L" else {}))
    found = judged(tmp_path)
    assert found[claim].verdict == "contradicted" and found[claim].main.failures == 1
    other = {"parameter_counts": "flops", "flops": "parameter_counts"}[claim]
    assert found[other].verdict == "reproduced"


def test_a_network_that_was_not_counted_makes_the_verdict_provisional(tmp_path):
    pretend.count(tmp_path, "LipsFormer-Swin-T")
    found = judged(tmp_path)
    assert found["flops"].provisional and "no run for LipsFormer-Swin-L" in found["flops"].missing
    assert found["flops"].main.cases == 1


@pytest.mark.parametrize("name", sorted(name for name, one in ARTEFACTS.items() if one.kind == "table"))
def test_all_formats_are_written(name, tmp_path):
    known = evidence_of(pretend.study(tmp_path / "runs_of"))
    paths = table_formats.write(ARTEFACTS[name], table.build(ARTEFACTS[name], known), tmp_path)
    assert all(path.stat().st_size for path in paths) and len(paths) >= 3


def of_theorem_2(root, *rows):
    pretend.cases(root, "lipsformer", "theorem_2", rows)
    return judged(root)["theorem_2"]


def test_an_infinite_bound_counts_neither_way(tmp_path):
    claim = of_theorem_2(
        tmp_path, pretend.theorem_2("lipsformer", 3.0, 100.0), pretend.theorem_2("lipsformer", 1e9, None)
    )
    first = claim.parts[0]
    assert (first.cases, first.failures, first.verdict) == (1, 0, "reproduced")
    assert first.notes[-1] == "vacuous: 1 of 2 cases, which count neither way"


def test_what_holds_of_an_infinite_bound_alone_is_not_reproduced(tmp_path):
    claim = of_theorem_2(tmp_path, pretend.theorem_2("network", 3.0, None))
    assert (claim.parts[0].cases, claim.parts[0].verdict, claim.verdict) == (0, "partial", "partial")
    said = ("LipsFormer-Swin-T: product of its blocks' norms 3", "LipsFormer-Swin-T: kappa 3")
    assert claim.parts[0].notes[:2] == said
    assert claim.provisional and claim.missing[-1].endswith("every case is vacuous")


@pytest.mark.parametrize(
    ("name", "study", "protocol"),
    [
        ("theorem_1", "lipsformer", "theorem_1"),
        ("theorem_2", "lipsformer", "theorem_2"),
        ("spectral_init", "lipsformer", "spectral_start"),
        ("layernorm_bound", "lrformer", "layer_norm"),
        ("lrsa_bound", "lrformer", "lrsa"),
    ],
)
def test_small_layers_alone_are_partial(tmp_path, name, study, protocol):
    """The size is computed from the cases: without one of the published size a claim is not reproduced."""
    pretend.study(tmp_path / "whole")
    (folder,) = (tmp_path / "whole/runs" / study / "check_theorems" / protocol).glob("*/cases.csv")
    rows = rows_of(folder)
    small = {"network": "", "dim": 4, "length": 3} if protocol != "lrsa" else {"quantity": "output"}
    shrunk = [{key: small.get(key, value) or None for key, value in row.items()} for row in rows]
    for row in shrunk:
        row["holds"], row["printed_holds"] = (
            int(row["holds"]),
            None if row["printed_holds"] is None else int(row["printed_holds"]),
        )
    pretend.cases(tmp_path / "small", study, protocol, shrunk)
    assert judged(tmp_path / "whole")[name].verdict == "reproduced"
    assert judged(tmp_path / "small")[name].verdict == "partial"
