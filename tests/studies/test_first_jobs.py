"""Scale paper on stand-ins: every kind of job that reads a data set runs or starts, so none fails for a foreseeable reason."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relearn.studies import STUDIES

from .first_jobs import Plan
from .stand_ins import SETS, checkpoint

Job = tuple[str, dict[str, str], bool]
PREPARED, BEGUN = False, True
PLAN = Plan()

# Kind of job, labels of one of its runs, whether it trains. A few of each study always, all others with the mark `slow`.
QUICK: dict[str, list[Job]] = {
    "poisoning": [
        ("prepare_images", {}, PREPARED),
        ("split_overlap", {}, PREPARED),
        ("pretrain", {"network": "ResNet18-drop0"}, BEGUN),
    ],
    "freelb": [
        ("finetune", {"encoder": "roberta", "task": task}, BEGUN)
        for task in ("mnli", "csqa", "arc_joint_first")
    ],
    "gradinit": [
        ("prepare_translation", {}, PREPARED),
        ("list_imagenet", {}, PREPARED),
        ("train_translation", {"initialisation": "xavier"}, BEGUN),
    ],
    "long_short": [
        *(("prepare_lra", {"task": task}, PREPARED) for task in ("text", "retrieval", "image")),
        *(("prepare_char_stream", {"dataset": name}, PREPARED) for name in ("enwik8", "text8")),
        ("train_vision", {"network": "CvT-LS-13"}, BEGUN),
    ],
    "robustness": [],  # its one step: robustness/test_folder_and_array_sets.py
    "l2_attention": [
        ("prepare_ptb_lines", {}, PREPARED),
        ("tune_char_lm", {"attention": "lstm"}, BEGUN),
        ("time_training_step", {"attention": "l2"}, BEGUN),
    ],
    "lipsformer": [("train_vision", {"variant": "LipsFormer-Swin-T"}, BEGUN)],
    "layer_scale": [("tune_vision", {}, BEGUN)],
    "lrformer": [("pretrain_vision", {"network": "lrsa_gp"}, BEGUN)],
}
SLOW: dict[str, list[Job]] = {
    "poisoning": [("pretrain", {"network": f"{name}-drop0"}, BEGUN) for name in ("DPN92", "GoogLeNet")],
    "freelb": [
        ("prepare_images", {}, PREPARED),
        ("train_images_adversarially", {"method": "freelb"}, BEGUN),
        *(
            ("finetune", {"encoder": encoder, "task": task}, BEGUN)
            for encoder, tasks in {
                "roberta": "cola mrpc rte stsb sst2 qnli qnli_ranking qqp wnli race arc_easy arc_challenge mrpc_from_mnli",
                "albert": "sst2",
                "bert": "sst2",
            }.items()
            for task in tasks.split()
        ),
        ("finetune_glue_members", {"task": "mnli"}, BEGUN),
        ("finetune_csqa_members", {"task": "csqa"}, BEGUN),
    ],
    "gradinit": [
        ("prepare_images", {}, PREPARED),
        *(("initialise", {"initialisation": name}, PREPARED) for name in ("gradinit", "metainit", "lsuv")),
        ("initialise_imagenet", {"initialisation": "gradinit"}, PREPARED),
        ("initialise_translation", {"initialisation": "gradinit"}, PREPARED),
        ("tune_initialise_translation", {"initialisation": "admin"}, PREPARED),
        ("tune_train_translation", {"initialisation": "admin"}, BEGUN),
        ("train_from_init", {"initialisation": "kaiming"}, BEGUN),
        ("train_from_init_imagenet", {"initialisation": "kaiming"}, BEGUN),
        ("gradient_statistics", {"initialisation": "kaiming"}, PREPARED),
        ("gradient_statistics_imagenet", {"initialisation": "kaiming"}, PREPARED),
        ("gradient_statistics_translation", {"initialisation": "xavier"}, PREPARED),
    ],
    "long_short": [
        *(("prepare_lra", {"task": task}, PREPARED) for task in ("listops", "pathfinder")),
        *(("train_lra", {"task": task, "attention": "long_short"}, BEGUN) for task in ("text", "retrieval")),
        *(("train_lra", {"task": "image", "attention": kind}, BEGUN) for kind in ("full", "reformer")),
        *(("train_long_char_lm", {"dataset": name}, BEGUN) for name in ("enwik8", "text8")),
        ("initial_norms", {"dataset": "text8"}, PREPARED),
        ("convert_roberta", {"variant": "long_short"}, BEGUN),
        ("train_vision", {"network": "ViL-LS-Medium"}, BEGUN),
        ("train_vision", {"network": "ResNet-50"}, BEGUN),
    ],
    "lipsformer": [
        ("train_vision", {"variant": name}, BEGUN) for name in ("l2", "CSwin-T", "LipsFormer-CSwin-T")
    ],
    "layer_scale": [("tune_vision", {"variant": "class_attention"}, BEGUN)],
    "lrformer": [
        ("prepare_images", {}, PREPARED),
        ("train_vision", {"variant": "lrsa_gp", "depth": "12"}, BEGUN),
    ],
}
# Kinds that read what a training wrote; the tests of their steps give them that.
AFTER_TRAINING = {
    "poisoning": {
        *("adversarial_training", "craft", "filter", "train", "train_clean", "train_clean_end_to_end"),
        *("evaluate_networks", "feature_plane"),
    },
    "freelb": {"max_loss_increase", "ensemble", "merge_scores"},
    "long_short": {"patch_similarity"},
    "robustness": {"evaluate_robustness"},
    "l2_attention": {"train_char_lm"},
    "lipsformer": {"evaluate_imagenet", "train_constrained"},
    "layer_scale": {"train_vision"},
    "lrformer": {"evaluate_uncertainty"},
}
WITHOUT_DATA = {
    "poisoning": {"hull_proposition", "toy_example"},
    "freelb": {"check_gradient"},
    "gradinit": {"check_batch_norm", "count_params"},
    "long_short": {
        *("benchmark_attention_curve", "benchmark_attention_latency", "throughput", "count_params_flops"),
    },
    "l2_attention": {"lipschitz_lower_bound", "invert_residual", "check_theorems", "attention_outputs"},
    "lipsformer": {"count_params_flops", "check_theorems", "check_activations", "throughput"},
    "lrformer": {"check_theorems"},
}


def own_settings(step: str, run: dict[str, str], settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A small checkpoint in the place of the hub's, few reviews to test it on, and few generated samples."""
    if step == "finetune":
        place = folder / f"checkpoint-{run['encoder']}"
        name = str(place) if place.is_dir() else checkpoint(place, run["encoder"])
        return {"encoder": {**settings["encoder"], "checkpoint": name}}
    samples = {f"{part}_samples": 4 for part in ("train", "valid", "test")}
    if step == "prepare_lra" and settings["dataset"] == "generated":
        return samples
    if step == "convert_roberta":
        return {**samples, "checkpoint": checkpoint(folder / "checkpoint", "roberta")}
    return {}


@pytest.fixture(scope="module", params=STUDIES)
def study(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A study with its stand-ins below RELEARN_MIRROR, in an empty folder."""
    folder: Path = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        (folder / "mirror").mkdir()
        patch.chdir(folder)
        for name, value in (("RELEARN_MIRROR", "mirror"), ("XDG_CACHE_HOME", "cache")):
            patch.setenv(name, str(folder / value))
        patch.setenv("HF_HUB_OFFLINE", "1")
        for make in SETS[request.param]:
            make(folder / "mirror", patch)
        yield request.param


def begin(study: str, jobs: list[Job]) -> None:
    for name, labels, trains in jobs:
        family, run = PLAN.one(study, name, **labels)
        cell = {key: value for key, value in run.items() if key != "seed"}
        own = own_settings(family.step, run, dict(family.settings_of(**cell)), Path(os.getcwd()))
        # a fine-tuning that starts from another one starts from the checkpoint
        without = "start" if family.step == "finetune" else ""
        assert PLAN.run(family, run, without, **own) is trains, (name, labels)


def test_the_first_jobs_of_scale_paper(study: str) -> None:
    begin(study, QUICK[study])


@pytest.mark.slow
def test_every_kind_of_job_that_reads_data_begins(study: str) -> None:
    begin(study, SLOW.get(study, []))


def test_every_kind_of_job_of_scale_paper_is_listed() -> None:
    """A new step says whether it reads data."""
    for name in STUDIES:
        tried = {kind for kind, _, _ in [*QUICK[name], *SLOW.get(name, [])]}
        planned = {kind for (own, kind), family in PLAN.families.items() if own == name and family.runs}
        assert planned == tried | AFTER_TRAINING.get(name, set()) | WITHOUT_DATA.get(name, set()), name
