"""`gradient_statistics`, `check_batch_norm` and `count_params` from settings to record."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from relearn.measures import batch_norm_gradient, gradient_statistics, parameter_counts
from relearn.steps import prepare_images as prepare
from relearn.steps.tasks import OnImages, OnTranslation, open_task
from relearn.studies.gradinit.steps import check_batch_norm, count_params
from relearn.studies.gradinit.steps import gradient_statistics as gradient_statistics_step
from relearn.studies.gradinit.steps import prepare_translation as corpus

from ...steps.recorded import made_by, rows_of

step = partial(made_by, study="gradinit")

IMAGES: dict[str, Any] = {"task": "images", "crop_padding": 1, "flip": False, "cutout": 2}
TRANSLATION: dict[str, Any] = {"task": "translation", "label_smoothing": 0.1}
SPLIT = {"dataset": "digits", "pretrain_per_class": 40, "fine_tune_per_class": 20, "pool_per_class": 30}
WORDS = {
    "dataset": "number_words",
    "vocabulary": 100,
    "max_length": 60,
    "train_pairs": 300,
    "test_pairs": 20,
}


@pytest.fixture(scope="module")
def house(tmp_path_factory) -> Path:
    """Prepared images and pairs, one tiny network of each task and one twice as large at its start."""
    root = tmp_path_factory.mktemp("statistics")
    step(prepare, root / "images", SPLIT)
    step(corpus, root / "pairs", WORDS)
    torch.manual_seed(0)
    images = open_task(OnImages(**IMAGES), {"data": [root / "images/data.safetensors"]}, "cpu")
    net = images.create({"name": "ResNet-110-BN", "width": 0.25, "depth": 0.06})
    images.save(net, root / "net.safetensors")
    with torch.no_grad():
        net.head.weight.mul_(2.0)
    images.save(net, root / "doubled.safetensors")
    with torch.no_grad():
        net.head.weight.mul_(1e38)
    images.save(net, root / "overflowing.safetensors")
    pairs = open_task(OnTranslation(**TRANSLATION), {"data": [root / "pairs/corpus.safetensors"]}, "cpu")
    sizes = {"dim": 16, "ffn": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.3}
    pairs.save(pairs.create({**sizes, "residual": "post_ln"}), root / "translator.safetensors")
    return root


def statistics(
    house: Path, out: Path, net: str = "net", initialisation: str = "kaiming", **more: Any
) -> dict:
    settings = {"batches": 3, "batch_size": 32, **IMAGES}
    labels = {"protocol": "gradient_statistics", "task": "images", "network": "ResNet-110-BN"}
    files = {"data": [house / "images/data.safetensors"], "network": [house / f"{net}.safetensors"]}
    return step(
        gradient_statistics_step, out, settings, labels | {"initialisation": initialisation}, files, **more
    )


def test_images_one_row_a_tensor(house, tmp_path):
    done = statistics(house, tmp_path / "a")
    rows = rows_of(tmp_path / "a/layers.csv")
    assert tuple(rows[0]) == gradient_statistics.COLUMNS
    task = open_task(OnImages(**IMAGES), {"data": [house / "images/data.safetensors"]}, "cpu")
    net = task.network(house / "net.safetensors")
    assert [row["name"] for row in rows] == [name for name, _ in net.named_parameters()]
    metrics = done["metrics"]
    assert done["outcome"] == "ok" and metrics["batches_count"] == 3
    assert metrics["parameters_count"] == sum(one.numel() for one in net.parameters())
    assert metrics["tensors_count"] == len(rows)
    deviations = [float(row["gradient_std"]) for row in rows]
    assert metrics["gradient_std_mean"] == pytest.approx(sum(deviations) / len(rows))
    convolutions = [float(row["gradient_std"]) for row in rows if row["group"] == "conv"]
    assert metrics["conv_std_first_to_last_ratio"] == pytest.approx(convolutions[0] / convolutions[-1])
    head = next(row for row in rows if row["name"] == "head.weight")
    weight = net.head.weight.detach()
    assert float(head["weight_norm"]) == pytest.approx(float(weight.norm()), rel=1e-6)
    assert float(head["weight_abs_mean"]) == pytest.approx(float(weight.abs().mean()), rel=1e-6)


def test_before_and_after_see_the_same_minibatches_and_another_seed_others(house, tmp_path):
    """Equal weights under two names of an initialisation give equal rows; other weights or another seed do not."""
    for name, more in {
        "before": {},
        "after": {"initialisation": "gradinit"},
        "moved": {"net": "doubled", "initialisation": "gradinit"},
        "seeded": {"seed": 1},
    }.items():
        statistics(house, tmp_path / name, **more)
    before, after, moved, seeded = (
        (tmp_path / name / "layers.csv").read_text() for name in ("before", "after", "moved", "seeded")
    )
    assert before == after and before != moved and before != seeded
    norms = [
        float(
            next(row for row in rows_of(tmp_path / name / "layers.csv") if row["group"] == "head")[
                "weight_norm"
            ]
        )
        for name in ("before", "moved")
    ]
    assert norms[1] == pytest.approx(2 * norms[0], rel=1e-6)


def test_a_gradient_that_is_not_finite_is_a_result(house, tmp_path):
    done = statistics(house, tmp_path / "over", net="overflowing")
    assert done["outcome"] == "diverged" and "not finite" in done["outcome_reason"]
    rows = rows_of(tmp_path / "over/layers.csv")
    assert any(row["gradient_std"] == "" for row in rows) and all(row["name"] for row in rows)
    assert done["metrics"]["gradient_std_mean"] is None


def test_translation_tells_queries_from_keys(house, tmp_path):
    settings = {"batches": 2, "max_tokens": 200, **TRANSLATION}
    labels = {"protocol": "gradient_statistics", "task": "translation", "network": "post_ln"}
    files = {"data": [house / "pairs/corpus.safetensors"], "network": [house / "translator.safetensors"]}
    done = step(gradient_statistics_step, tmp_path / "t", settings, labels, files)
    rows = rows_of(tmp_path / "t/layers.csv")
    weights = [(row["kind"], row["group"]) for row in rows if row["kind"] != "bias"]
    assert weights.count(("norm", "layer_norm")) == 5  # two in the encoder, three in the decoder
    for group, number in {"q": 3, "k": 3, "v": 3, "out": 3, "fc1": 2, "fc2": 2}.items():
        assert weights.count(("linear", group)) == number, group
    assert {kind for kind, group in weights if group == "embedding"} == {"embedding"}
    assert done["outcome"] == "ok" and "conv_std_first_to_last_ratio" not in done["metrics"]


def test_an_unknown_task_is_refused(tmp_path):
    with pytest.raises(ValueError, match="task: found 'speech'"):
        step(gradient_statistics_step, tmp_path / "refused", {"task": "speech"})


def test_batch_norm_writes_the_cases_of_the_measure(tmp_path):
    done = step(check_batch_norm, tmp_path / "bn", {"draws": 2000})
    rows, metrics = rows_of(tmp_path / "bn/cases.csv"), done["metrics"]
    expected = batch_norm_gradient.cases(draws=2000, seed=0)
    assert tuple(rows[0]) == batch_norm_gradient.COLUMNS
    assert [float(row["measured"]) for row in rows] == [row["measured"] for row in expected]
    assert {row["holds"] for row in rows} == {"1"}
    assert metrics["holds_count"] == metrics["cases_count"] == len(rows)
    assert metrics["printed_fails_count"] == sum(row["printed_holds"] == "0" for row in rows) > 0
    assert metrics["wrongly_magnified_count"] > 0 and metrics["formula_error_frac"] < 1e-9


def test_parameter_counts_are_those_published(tmp_path):
    done = step(count_params, tmp_path / "counts", {})
    rows, metrics = rows_of(tmp_path / "counts/counts.csv"), done["metrics"]
    assert [row["network"] for row in rows] == list(parameter_counts.PUBLISHED)
    assert {row["equal"] for row in rows} == {"1"}
    assert set(metrics.values()) == {float(len(parameter_counts.PUBLISHED))}
    done = step(count_params, tmp_path / "some", {"networks": ["ResNet-1202", "ResNet18"]})
    one, other = rows_of(tmp_path / "some/counts.csv")
    assert one["equal_to_released"] == "1" and one["published_millions"] == "" == other["released"]
    assert (done["metrics"]["published_count"], done["metrics"]["equal_to_released_count"]) == (0, 1)


def test_an_unknown_network_is_refused(tmp_path):
    with pytest.raises(ValueError, match="did you mean 'VGG-19'"):
        step(count_params, tmp_path / "refused", {"networks": ["VGG-18"]})
