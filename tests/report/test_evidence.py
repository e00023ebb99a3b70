"""The evidence of a study as one table, as published; levels over seeds, which never have an interval without a width."""

import ast
import inspect
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pytest

from relearn.report.claims import judge
from relearn.report.comparisons import Comparison, Finding, paired_difference, rate
from relearn.report.quantities import Evidence, Trial
from relearn.report.runs import Run
from relearn.report.seeds import Sample, difference, level
from relearn.report.statistics import Interval, clopper_pearson, student_mean, student_mean_of_table
from relearn.report.verdicts import Above, Below, Within, verdict
from relearn.runs import run_store
from relearn.studies.study import all_studies


def run(seed: int, outcome: str = "ok", **metrics: float | None) -> Run:
    record = {
        "study": "gradinit",
        "step": "train",
        "labels": {"network": "VGG"},
        "seed": seed,
        "settings": {"lr": 0.1},
    }
    record |= {"outcome": outcome, "metrics": metrics, "outputs": {}}
    return Run(record, f"runs/gradinit/train/VGG/seed{seed}")


RUNS = [run(0, acc_frac=0.5, loss_nats=1.0), run(1, acc_frac=None), run(2, "diverged", acc_frac=0.25)]


def test_the_table_is_that_of_published_runs(tmp_path: Path) -> None:
    run_store.write(
        tmp_path, [dict(one.record) for one in RUNS], [one.folder for one in RUNS], lambda *_: None
    )
    table = Evidence(RUNS).table
    pandas.testing.assert_frame_equal(table, pandas.read_parquet(tmp_path / "runs.parquet"))
    assert list(table["seed"]) == [0, 1, 2] and set(table["labels.network"]) == {"VGG"}


def run_of(name: str, settings: dict[str, object], *sources: Run) -> Run:
    inputs = {"in": [{"path": f"/x/{one.folder}/out.pt"} for one in sources]}
    return Run({**RUNS[0].record, "settings": settings, "inputs": inputs}, f"runs/gradinit/{name}")


def test_a_run_follows_a_protocol_only_if_its_data_and_network_do() -> None:
    data, other = run_of("data", {"dataset": "cifar10"}), run_of("other", {"dataset": "digits"})
    start = run_of("start", {"network": {"width": 1.0}}, data)
    same, elsewhere = run_of("same", {"lr": 0.1}, start), run_of("elsewhere", {"lr": 0.1}, other)
    small = run_of("small", {"network": {"width": 0.25}}, data)
    narrow = run_of("narrow", {"lr": 0.1}, small)
    evidence = Evidence([data, other, start, same, elsewhere, small, narrow])
    protocol = {"dataset": ["cifar10", "cifar100"], "width": 1.0}
    assert [evidence.follows(one, protocol) for one in (same, elsewhere, narrow)] == [True, False, False]
    assert all(evidence.follows(one, {}) for one in (same, elsewhere, narrow))
    assert [one.folder for one in evidence.sources(same)] == [same.folder, start.folder]
    assert [one.folder for one in evidence.origins(same)] == [same.folder, start.folder, data.folder]


def test_a_run_follows_the_paper_only_if_its_amounts_are_those_of_scale_paper() -> None:
    paper: dict[str, dict[str, object]] = {
        "data": {"train_samples": 0},
        "train": {"training": {"epochs": 300}, "network": {"depths": (2, 6)}, "lr": 0.1},
        "evaluate": {"images": 0},
    }
    data, tenth = run_of("data", {"train_samples": 0}), run_of("data", {"train_samples": 500})
    full: dict[str, object] = {
        "training": {"epochs": 300},
        "network": {"depths": [2, 6]},
        "lr": 0.3,
        "steps": 5,
    }
    changes: list[dict[str, object]] = [{}, {"training": {"epochs": 30}}, {"network": {"depths": [1, 6]}}]
    trainings = [run_of("train", {**full, **change}, data) for change in changes]
    trainings += [run_of("train", full, tenth), run_of("own", full, data)]
    for training, follows in zip(trainings, (True, False, False, False, False)):
        runs = [
            run_of("evaluate", {"images": 100}, training),
            training,
            tenth if training is trainings[3] else data,
        ]

        def known(folder: str) -> dict[str, object] | None:
            return paper.get(folder.rpartition("/")[2])

        assert Evidence(runs[:1], runs, known).follows(runs[0], {}) == follows, training.settings
        assert Evidence(runs[:1], runs).follows(runs[0], {})
    # the runs of another study count among the origins, too
    assert not Evidence(runs[:1], runs).follows(runs[0], {"train_samples": 7})
    assert Evidence(runs[:1]).follows(runs[0], {"train_samples": 7})


def test_a_metric_is_a_column_of_it(tmp_path: Path) -> None:
    evidence = Evidence(RUNS)
    assert [(one.seed, one.value) for one in evidence.trials("train.acc_frac")] == [(0, 0.5), (2, 0.25)]
    assert [(one.seed, one.value) for one in evidence.trials("train.loss_nats")] == [(0, 1.0)]
    assert evidence.trials("train.bleu") == []
    assert [one.value for one in Evidence([RUNS[0], RUNS[0]]).trials("train.acc_frac")] == [0.5, 0.5]


# attacks on few victims ---------------------------------------------------------------------------------------------


def attacks(generator: np.random.Generator, spread: float) -> Comparison:
    """50 targets on four victims whose true differences have this spread around 0."""
    victims = generator.normal(0.0, spread, 4)
    left = [
        Trial(f"victim{row}", 0, target, None, mean + generator.normal(0.0, 0.5), "run")
        for row, mean in enumerate(victims)
        for target in range(50)
    ]
    found = paired_difference("difference", left, [replace(one, value=0.0) for one in left], Above(0.0))
    assert found
    return found


@pytest.mark.parametrize("spread", [0.0, 0.1, 0.3])
def test_with_victims_drawn_an_interval_covers_the_mean_over_victims(spread: float) -> None:
    generator = np.random.default_rng(1)
    found = [attacks(generator, spread) for _ in range(200)]
    drawn = [one.drawn.low <= 0 <= one.drawn.high for one in found if one.drawn]
    fixed = [one.interval.low <= 0 <= one.interval.high for one in found]
    assert len(drawn) == 200 and np.mean(drawn) > 0.93
    assert (np.mean(fixed) > 0.9) == (
        spread == 0.0
    )  # the control: that for the given victims is too narrow otherwise
    wrong = [one for one in found if one.verdict in ("reproduced", "contradicted")]
    kept = [one for one in wrong if not one.of_these_victims]
    assert len(kept) <= 0.05 * 200 and (len(wrong) > 2 * len(kept) or spread == 0.0)


def test_a_share_with_victims_drawn_stays_between_0_and_1() -> None:
    """One of nine attacks ends otherwise: Student's interval of 3 victims on 3 targets has an end beyond."""
    for usual in (0.0, 1.0):
        trials = [
            Trial(f"victim{row}", 0, target, None, usual if row or target else 1.0 - usual, "run")
            for row in range(3)
            for target in range(3)
        ]
        found = rate("share", trials, Above(0.5))
        assert found and found.drawn
        table = [[one.value for one in trials[3 * row : 3 * row + 3]] for row in range(3)]
        beyond = student_mean_of_table(table)
        assert beyond.low < 0.0 or beyond.high > 1.0
        assert 0.0 <= found.drawn.low <= found.interval.low and found.interval.high <= found.drawn.high <= 1.0


def compared(name: str, low: float, high: float, *drawn: float) -> Comparison:
    middle = (low + high) / 2
    return Comparison(
        name, Interval(middle, low, high), Above(), "fraction", "", (), (), drawn=Interval(middle, *drawn)
    )


def test_a_verdict_that_other_victims_could_change_is_provisional() -> None:
    here, everywhere = compared("here", 0.1, 0.3, -0.1, 0.5), compared("everywhere", 0.1, 0.3, 0.05, 0.35)
    lost, against = compared("lost", -0.3, -0.1, -0.5, 0.1), compared("against", -0.3, -0.1, -0.35, -0.05)

    def judged(*parts: Comparison) -> tuple[str, tuple[str, ...]]:
        found = judge(Finding(parts), lambda one: [])
        return found["verdict"], tuple(line.partition(":")[0] for line in found["missing"])

    assert judged(everywhere) == ("reproduced", ())
    assert judged(here, everywhere) == ("reproduced", ("here",))  # needs both
    assert judged(lost) == ("contradicted", ("lost",))
    assert judged(lost, against) == ("contradicted", ())  # one is enough


# levels over seeds --------------------------------------------------------------------------------------------------


def of(*values: float) -> Sample:
    return Sample(
        "net", dict(enumerate(values)), tuple(f"runs/net/seed{seed}" for seed in range(len(values)))
    )


def test_three_trainings_of_three_are_a_direction_and_none_of_three_no_certainty():
    every = level("fails", of(1.0, 1.0, 1.0), Above(0.95, strict=False))
    assert every.verdict == "direction" and every.interval.low == pytest.approx(0.2924, abs=1e-4)
    none = level("fails", of(0.0, 0.0, 0.0), Above(0.95, strict=False))
    assert none.verdict == "contradicted" and none.interval.high == pytest.approx(0.7076, abs=1e-4)
    mixed = level("fails", of(1.0, 0.0, 1.0), Above(0.95, strict=False)).interval
    assert (mixed.low, mixed.high) == (clopper_pearson(2, 3).low, clopper_pearson(2, 3).high)


def test_a_share_of_layers_that_all_agree_counts_seeds_and_an_accuracy_has_students_t():
    layers = level("layers", of(1.0, 1.0), Above(0.95, strict=False), units=40)
    assert layers.verdict == "direction" and layers.interval.low == pytest.approx(0.025 ** (1 / 2))
    accuracies = [0.7, 0.72, 0.71]
    found = level("accuracy", of(*accuracies), Above(0.6)).interval
    assert found == student_mean(accuracies)
    for shares in ([0.9, 1.0, 0.98], [0.1, 0.0, 0.02]):  # ends that no share can have are cut
        inside, ends = level("accuracy", of(*shares), Above(0.6)).interval, student_mean(shares)
        assert (inside.low, inside.high) == (max(ends.low, 0.0), min(ends.high, 1.0))
        assert ends.low < 0.0 or ends.high > 1.0


def test_two_arms_with_the_same_numbers_are_identical():
    part = difference("ours - theirs", of(0.7, 0.8, 0.6), of(0.7, 0.8, 0.6), Above(0.0, strict=False))
    assert part.verdict == "identical" and part.notes == ()
    apart = difference("", of(0.7, 0.8, 0.9), of(0.6, 0.7, 0.8), Above(0.0))
    assert (
        apart.verdict == "reproduced"
        and "the same at all 3 seeds, so the interval has no width" in apart.notes[0]
    )
    assert difference("", of(0.7, 0.8, 0.9), of(0.6, 0.7, 0.7), Above(0.0)).notes == ()
    # two seeds that agree by chance, as accuracies on few samples do, do not show that seeds agree
    assert difference("", of(0.7, 0.8), of(0.6, 0.7), Above(0.0)).verdict == "direction"


# A claim of "no harm" has a one-sided predicate: an improvement never contradicts it.

#: functions that state a range, as the source does: an equality, or a range with two ends
TWO_SIDED = {"attack_is_invisible", "_best_k", "derived_sets", "_size"}


def test_only_claims_of_a_range_are_two_sided() -> None:
    found = set()
    for study in all_studies():
        for path in Path(inspect.getfile(study.part("claims"))).parent.glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef):
                    calls = (one.func for one in ast.walk(node) if isinstance(one, ast.Call))
                    found |= {node.name for one in calls if isinstance(one, ast.Name) and one.id == "Within"}
    assert found == TWO_SIDED


@pytest.mark.parametrize("gain", [0.002, 0.0254, 0.5])
def test_a_gain_reproduces_what_a_range_would_contradict(gain: float) -> None:
    surely = Interval(gain, gain - 0.001, gain + 0.001)
    assert verdict(Above(-0.01, strict=False), surely) == "reproduced"
    loss = Interval(-gain, -gain - 0.001, -gain + 0.001)
    assert verdict(Below(0.02), loss) == "reproduced"
    if gain > 0.02:
        assert verdict(Within(-0.01, 0.01), surely) == "contradicted"
