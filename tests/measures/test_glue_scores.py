"""GLUE's scores against slow formulas in float64, against scikit-learn and scipy, and against the printed overall scores."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.measures.glue_scores import KINDS, RECORD_NAMES, entailment_answers, overall, scores

from ..report.conftest import printed_rows

ROWS = ("BERT-base", "FreeLB-BERT", "MT-DNN", "XLNet-Large", "RoBERTa", "FreeLB-RoB", "Human")


def f1_slow(given: list[int], true: list[int]) -> float:
    right = sum(a == y == 1 for a, y in zip(given, true))
    precision, recall = right / max(1, sum(given)), right / max(1, sum(true))
    return 2 * precision * recall / (precision + recall) if right else 0.0


def r_slow(given: list[float], true: list[float]) -> float:
    a, y = math.fsum(given) / len(given), math.fsum(true) / len(true)
    top = math.fsum((one - a) * (other - y) for one, other in zip(given, true))
    return top / math.sqrt(
        math.fsum((one - a) ** 2 for one in given) * math.fsum((other - y) ** 2 for other in true)
    )


def mcc_slow(given: list[int], true: list[int]) -> float:
    """Gorodkin's definition: the correlation of the one-hot answers, covariances summed over the classes."""
    classes = set(given) | set(true)

    def covariance(one: list[int], other: list[int]) -> float:
        total = 0.0
        for k in classes:
            x, y = [float(v == k) for v in one], [float(v == k) for v in other]
            mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
            total += math.fsum((p - mean_x) * (q - mean_y) for p, q in zip(x, y))
        return total

    bottom = covariance(given, given) * covariance(true, true)
    return covariance(given, true) / math.sqrt(bottom) if bottom else 0.0


def ranks_slow(values: list[float]) -> list[float]:
    return [sum(o < v for o in values) + (sum(o == v for o in values) + 1) / 2 for v in values]


@settings(max_examples=60)
@given(st.integers(2, 4), st.data())
def test_classes_against_slow_formulas(classes: int, data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 12))
    answers = st.lists(st.integers(0, classes - 1), min_size=length, max_size=length)
    given_, true = data.draw(answers), data.draw(answers)
    found = scores("classification", ["accuracy", "mcc"], torch.tensor(given_), torch.tensor(true))
    assert found["accuracy"] == pytest.approx(sum(a == y for a, y in zip(given_, true)) / length, abs=1e-15)
    assert found["mcc"] == pytest.approx(mcc_slow(given_, true), abs=1e-12)
    if classes == 2:
        f1 = scores("classification", ["f1"], torch.tensor(given_), torch.tensor(true))["f1"]
        assert f1 == pytest.approx(f1_slow(given_, true), abs=1e-12)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=2, max_size=12))
def test_values_against_slow_formulas(pairs: list[tuple[int, int]]) -> None:
    given_, true = [one / 4 for one, _ in pairs], [other / 4 for _, other in pairs]
    found = scores("regression", ["pearson", "spearman"], torch.tensor(given_), torch.tensor(true))
    if len(set(given_)) == 1 or len(set(true)) == 1:
        assert found == {"pearson": 0.0, "spearman": 0.0}
    else:
        assert found["pearson"] == pytest.approx(r_slow(given_, true), abs=1e-12)
        assert found["spearman"] == pytest.approx(r_slow(ranks_slow(given_), ranks_slow(true)), abs=1e-12)


def test_as_scikit_learn_and_scipy_have_them() -> None:
    from scipy.stats import pearsonr, spearmanr
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

    torch.manual_seed(0)
    true, flips = torch.randint(0, 2, (200,)), torch.rand(200) < 0.3
    given_ = torch.where(flips, 1 - true, true)
    assert scores("classification", KINDS["classification"], given_, true) == {
        "accuracy": accuracy_score(true, given_),
        "f1": f1_score(true, given_),
        "mcc": matthews_corrcoef(true, given_),
    }
    values = torch.rand(200, dtype=torch.float64) * 5
    noisy = values + torch.randn(200, dtype=torch.float64)
    assert scores("regression", KINDS["regression"], noisy, values) == {
        "pearson": pearsonr(noisy, values).statistic,
        "spearman": spearmanr(noisy, values).statistic,
    }


def test_scores_agree_with_a_case_by_hand() -> None:
    # TP 2, FP 1, FN 1, TN 4: F1 4/6, mcc (8 - 1) / sqrt(3*3*5*5)
    given_, true = torch.tensor([1, 1, 1, 0, 0, 0, 0, 0]), torch.tensor([1, 1, 0, 1, 0, 0, 0, 0])
    found = scores("classification", ["accuracy", "f1", "mcc"], given_, true)
    assert found == pytest.approx({"accuracy": 0.75, "f1": 2 / 3, "mcc": 7 / 15})
    # F1 is of class 1: with the classes' names exchanged it is another one, the others are not.
    other = scores("classification", ["accuracy", "f1", "mcc"], 1 - given_, 1 - true)
    assert other == pytest.approx({"accuracy": 0.75, "f1": 0.8, "mcc": 7 / 15})
    assert scores("ranking", ["accuracy"], torch.tensor([2, 0]), torch.tensor([2, 1])) == {"accuracy": 0.5}
    monotone = scores(
        "regression", ["pearson", "spearman"], torch.tensor([1.0, 2, 100]), torch.tensor([1.0, 2, 3])
    )
    assert monotone["spearman"] == 1.0 and monotone["pearson"] < 0.9


def test_a_constant_answer_is_worth_nothing() -> None:
    ones, true = torch.ones(4, dtype=torch.int64), torch.tensor([0, 1, 1, 0])
    assert scores("classification", ["mcc", "f1"], ones, true) == pytest.approx({"mcc": 0.0, "f1": 2 / 3})
    assert scores("classification", ["mcc", "f1"], 0 * ones, 0 * ones) == {"mcc": 0.0, "f1": 0.0}
    assert scores("classification", ["f1"], ones, 0 * ones) == {"f1": 0.0}
    flat = torch.full((4,), 2.3)
    assert scores("regression", ["pearson", "spearman"], flat, true.float()) == {
        "pearson": 0.0,
        "spearman": 0.0,
    }
    assert scores("regression", ["pearson"], true.float(), flat)["pearson"] == 0.0
    nearly = flat + torch.tensor(
        [0.0, 1e-6, 1e-6, 0]
    )  # almost constant is not constant, and nobody is warned
    assert scores("regression", ["pearson"], nearly, true.float())["pearson"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("kind", "metrics", "predicted", "labels", "said"),
    [
        ("span", ["f1"], [1], [1], r"kind: span \(allowed: classification, regression, ranking\)"),
        ("regression", ["mcc"], [1], [1], r"metrics: mcc of regression \(allowed: pearson, spearman\)"),
        ("classification", ["f1"], [2, 0], [1, 0], r"f1: class 2 \(allowed: 0 and 1\)"),
        ("classification", ["f1"], [1, 0], [1], r"predicted: \(2,\) with labels \(1,\)"),
        ("classification", ["f1"], [[1]], [[1]], r"predicted: \(1, 1\)"),
        ("classification", ["accuracy"], [], [], "N at least 1"),
        ("regression", ["pearson"], [1.0], [1.0], "N at least 2"),
        ("regression", ["pearson"], [1.0, float("nan")], [1.0, 2.0], "nan or inf"),
    ],
)
def test_impossible_answers_are_refused_in_one_line(
    kind: str, metrics: list[str], predicted: list[float], labels: list[float], said: str
) -> None:
    with pytest.raises(ValueError, match=said) as fault:
        scores(kind, metrics, torch.tensor(predicted), torch.tensor(labels))
    assert "\n" not in str(fault.value)


def test_every_metric_has_a_name_in_the_record() -> None:
    assert {metric for metrics in KINDS.values() for metric in metrics} == set(RECORD_NAMES)


def printed(row: str) -> tuple[dict[str, dict[str, float]], float]:
    """A row of table 3.2: its scores by task, as fractions, and the printed overall score."""
    values: dict[str, dict[str, float]] = {}
    total = math.nan
    names = {"sst-2": "sst2", "sts-b": "stsb", "mnli-m": "mnli", "mnli-mm": "mnli_mismatched"}
    for line in printed_rows("zhu2022.table3.2"):
        if line["row"].startswith(row) and line["value"]:
            task = line["column"].removesuffix(" test").lower()
            if task == "glue overall":
                total = float(line["value"]) / 100
            else:
                values.setdefault(names.get(task, task), {})[line["metric"]] = float(line["value"]) / 100
    return values, total


@pytest.mark.parametrize("row", ROWS)
def test_the_overall_scores_that_the_paper_prints(row: str) -> None:
    values, total = printed(row)
    assert abs(overall(values) - total) <= 0.0005 + 1e-9  # both are rounded to a tenth of a percent
    # A plain mean over all scores is another number: the pairs count once.
    flat = [score for task, each in values.items() if task != "ax" for score in each.values()]
    assert abs(sum(flat) / len(flat) - overall(values)) > 1e-4


def test_a_missing_score_has_its_name() -> None:
    values, _ = printed("BERT-base")
    del values["mrpc"]["f1"], values["mnli_mismatched"]
    with pytest.raises(ValueError, match=r"without mrpc f1, mnli_mismatched accuracy \(allowed: all tasks\)"):
        overall(values)


def test_a_ranking_answers_its_pairs() -> None:
    ids = ["0+1", "2+train:7", "3", "4+5+6"]
    padded = torch.tensor([[0.1, 0.9, 9.0], [0.2, 0.3, 9.0], [5.0, 0, 0], [1.0, 1.0, 0.5]])
    expected = {"0": 0, "1": 1, "2": 0, "3": 0, "4": 1, "5": 0, "6": 0}
    assert entailment_answers(ids, padded) == expected
    ragged = [[0.1, 0.9], [0.2, 0.3], [5.0], [1.0, 1.0, 0.5]]
    assert entailment_answers(ids, ragged) == expected
    # Only differences count, and a borrowed candidate that loses leaves the pair entailed.
    assert entailment_answers(ids, padded - 100) == expected
    assert entailment_answers(["2+train:7"], [[0.4, 0.3]]) == {"2": 1}


@pytest.mark.parametrize(
    ("ids", "rows", "said"),
    [
        (["0+1"], [], r"candidate_scores: 0 \(allowed: 1, one per sample\)"),
        (["0+1"], [[1.0]], r"candidate_scores: 1 of sample 0\+1 \(allowed: 2\)"),
        (["0+1", "1+2"], [[1.0, 2.0]] * 2, r"ids: pair 1 is in two samples"),
    ],
)
def test_impossible_rankings_are_refused(ids: list[str], rows: list[list[float]], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        entailment_answers(ids, rows)
