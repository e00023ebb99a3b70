"""The plan of chapter 4: the recipes of scale paper, the rate that is looked ahead with, seeds, and the rates that are tried."""

import json
import math
from pathlib import Path

import pytest

from relearn.methods.learned_scales import ScaledWeights
from relearn.models.post_ln_transformer import PostLNTransformer
from relearn.steps.trained.tried import best_tried
from relearn.studies import parameters
from relearn.studies.gradinit.claims.starts import RATIO
from relearn.studies.gradinit.plan import plan
from relearn.studies.gradinit.plan.methods import (
    arguments_for_images,
    arguments_for_translation,
    penalties,
)
from relearn.studies.gradinit.plan.translation import DECISIVE

ROOT = Path(__file__).parents[3]
SCALES = ("mini", "small", "medium", "paper")
PLANS = {scale: plan(parameters.load(ROOT / "params.yaml", scale=scale), scale) for scale in SCALES}
PAPER = PLANS["paper"]
OWN = parameters.load(ROOT / "params.yaml", scale="paper")["gradinit"]


def recipe(name: str, scale: str = "paper") -> dict[str, object]:
    cell = {"network": "post_ln", "initialisation": "xavier", "recipe": name}
    assert cell in PLANS[scale]["train_translation"].cells
    return dict(PLANS[scale]["train_translation"].settings_of(**cell))


@pytest.mark.parametrize("name", ["adam_warmup", "radam_warmup"])
def test_the_references_of_table_4_10_warm_up_for_the_usual_4000_steps(name: str) -> None:
    assert (recipe(name)["warmup_steps"], recipe(name)["lr"]) == (4000, 5e-4)


def test_the_short_warm_up_has_the_rate_at_which_it_converges() -> None:
    """780 steps fail from 3e-4 on; the 35.4 BLEU of the text are at 2e-4."""
    short, usual = recipe("adam_short_warmup"), recipe("adam_warmup")
    assert (short["warmup_steps"], short["lr"], short["optimizer"]) == (780, 2e-4, "adamw")
    assert {key for key in usual if usual[key] != short[key]} == {"warmup_steps", "lr"}


@pytest.mark.parametrize("name", ["gradinit", "gradinit_overlap_0", "gradinit_free_1", "gradinit_adam"])
def test_gradinit_is_clipped_as_metainit_is(name: str) -> None:
    """4.3.1.2 gives MetaInit "the same" clipping."""
    ours = arguments_for_images(OWN, "VGG-19", name)
    theirs = arguments_for_images(OWN, "VGG-19", "metainit")
    assert ours["clip"] == theirs["clip"] == 1.0
    assert ours["divide_by_eta"] and ours["moments"] == "split"


def test_a_penalty_is_added_to_the_loss_itself() -> None:
    (name, *_) = penalties(OWN)
    assert not arguments_for_images(OWN, "VGG-19-BN", name)["divide_by_eta"]


def test_the_bound_of_imagenet_is_that_of_equation_4_2() -> None:
    """4.2.5: the loss changes by at most eta gamma^2 = 0.9 there, which a normalised step could not reach."""
    start = {"suite": "imagenet", "network": "timm-ResNet-50-BN", "initialisation": "gradinit"}
    found = PAPER["initialise_imagenet"].settings_of(**start)["arguments"]
    assert (found["normalised"], found["gamma"], found["eta"]) == (False, 3.0, 0.1)


def test_w_skip_is_not_scaled() -> None:
    network = PostLNTransformer(
        20, dim=8, ffn=8, heads=2, encoder_layers=1, decoder_layers=1, residual="w_skip"
    )
    patterns = arguments_for_translation(OWN, "w_skip", "gradinit")["exclude"]
    scaled = ScaledWeights(network, exclude=patterns)
    left = {name for i, name in enumerate(scaled.names) if i not in scaled.factors} - {*scaled.skipped}
    assert left == {name for name in scaled.names if "w_skip" in name} != set()


@pytest.mark.parametrize("network", ["DenseNet-100", "DenseNet-100-BN"])
def test_densenet_has_batches_of_64(network: str) -> None:
    start = {"suite": "grid", "network": network, "initialisation": "gradinit"}
    assert PAPER["initialise"].settings_of(**start)["batch_size"] == 64
    assert PAPER["train_from_init"].settings_of(**start, recipe="sgd")["batch_size"] == 64
    vgg = start | {"network": "VGG-19"}
    assert PAPER["initialise"].settings_of(**vgg)["batch_size"] == 128
    assert PAPER["train_from_init"].settings_of(**vgg, recipe="sgd")["batch_size"] == 128


@pytest.mark.parametrize("scale", SCALES)
def test_a_search_with_other_batches_sees_as_many_images(scale: str) -> None:
    """One epoch at scale paper: 390 iterations of 128 images, 780 of 64."""
    family = PLANS[scale]["initialise"]
    every = [family.settings_of(**cell) for cell in family.cells if cell["suite"] == "grid"]
    found = {(one["method"], one["batch_size"], one["iterations"]) for one in every if one["iterations"]}
    assert len({size * count for _, size, count in found}) == 1
    if scale == "paper":
        sizes = ((128, 390), (64, 780))
        assert found == {(method, *both) for method in ("gradinit", "metainit") for both in sizes}


def test_metainit_by_adam_has_its_own_rate_and_clip() -> None:
    params = parameters.load(ROOT / "params.yaml", scale="paper")
    params["gradinit"]["initialise"]["metainit_adam"]["tau"]["VGG-19"] = 0.5
    family = plan(params, "paper")["initialise"]
    cell = {"suite": "grid", "network": "VGG-19"}
    found = family.settings_of(**cell, initialisation="metainit")["arguments"]
    assert found == {"data": "real", "optimizer": "adam", "tau": 0.5, "clip": 1.0}
    assert family.settings_of(**cell, initialisation="gradinit")["arguments"]["tau"] == 0.01


@pytest.mark.parametrize("scale", SCALES)
def test_gradinit_looks_ahead_with_the_rate_of_the_training(scale: str) -> None:
    """Exactly, but for the grid of figure 4.3, whose trainings share a start; its only cell at mini has its own rate."""
    for step, of in (("train_from_init", "initialise"), ("train_translation", "initialise_translation")):
        for cell in PLANS[scale][step].cells:
            start = {key: value for key, value in cell.items() if key != "recipe"}
            arguments = PLANS[scale][of].settings_of(**start)["arguments"]
            in_grid = "lr" in cell["recipe"]
            if not cell["initialisation"].startswith("gradinit") or (in_grid and scale == "mini"):
                continue
            rate = PLANS[scale][step].settings_of(**cell)["lr"]
            allowed = RATIO if in_grid else 1.0
            assert 1 / allowed - 1e-9 <= arguments["eta"] / rate <= allowed + 1e-9, cell


def test_parts_of_the_study_have_seeds_of_their_own_at_small() -> None:
    """Translations that decide a claim have more seeds than images; of the images, those with few layers or a small gap."""
    own = parameters.load(ROOT / "params.yaml", scale="small")["gradinit"]
    families = PLANS["small"]
    seeds: dict[tuple[str, ...], set[str]] = {}
    for step in ("train_from_init", "train_translation"):
        for run in families[step].runs:
            cell = tuple(run.get(key, "") for key in ("suite", "network", "initialisation", "recipe"))
            seeds.setdefault(cell, set()).add(run["seed"])
    for (suite, network, initialisation, recipe), found in seeds.items():
        expected = own["seeds"] if suite == "grid" else own["first_steps"]["seeds"]
        if not suite:
            decides = "/".join((network, initialisation, recipe)) in DECISIVE or "_lr" in initialisation
            expected = own["translation"]["seeds"][: None if decides else own["translation"]["other_seeds"]]
        elif (suite, recipe) == ("grid", "sgd") and (
            network in own["extra_seeds"]["networks"]
            and initialisation in own["extra_seeds"]["initialisations"]
        ):
            expected = [*own["seeds"], *own["extra_seeds"]["seeds"]]
        assert found == set(map(str, expected))
    made = {path for family in families.values() for path in family.everything()}
    for family in families.values():
        for run in family.runs:
            assert {path for paths in family.inputs_of(**run).values() for path in paths} <= made


def test_the_rate_in_a_name_is_that_of_the_look_ahead_and_of_the_training() -> None:
    families = PLANS["small"]
    start = families["initialise_translation"].settings_of(
        network="post_ln", initialisation="gradinit_sgd_lr0.05"
    )
    published = families["initialise_translation"].settings_of(
        network="post_ln", initialisation="gradinit_sgd"
    )
    assert start["arguments"] == published["arguments"] | {"eta": 0.05}
    train = families["train_translation"]
    low = train.settings_of(network="post_ln", initialisation="gradinit_sgd_lr0.05", recipe="sgd")
    plain = train.settings_of(network="post_ln", initialisation="gradinit_sgd", recipe="sgd")
    assert low == plain | {"lr": 0.05} and plain["lr"] == 0.15


def test_every_seed_of_a_start_takes_its_tau_from_the_same_trainings_with_other_seeds() -> None:
    """Of each value tried with each tuning seed, for the starts and trainings whose settings the value can change; of no others."""
    families = PLANS["small"]
    own = parameters.load(ROOT / "params.yaml", scale="small")["gradinit"]
    expected = {
        "initialise": {
            ("VGG-19", "metainit"),
            ("VGG-19-BN", "metainit"),
            ("VGG-19-BN", "gradinit_tuned"),
        },
        "initialise_translation": {
            ("post_ln", name) for name in ("gradinit", "gradinit_sgd", "gradinit_sgd_lr0.05")
        },
        "train_translation": {("w_skip", "admin", "sgd")},
    }
    tuned = {
        path: (family, run)
        for family in (families["tune_train_from_init"], families["tune_train_translation"])
        for run in family.runs
        for path in [family.path(**run)]
    }
    read = set()
    for name, wanted in expected.items():
        asked: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
        for run in families[name].runs:
            keys = [key for key in ("network", "initialisation", "recipe") if key in run]
            tried = families[name].inputs_of(**run).get("tried", [])
            if tried:
                asked.setdefault(tuple(run[key] for key in keys), set()).add(tuple(tried))
            for path in tried:
                assert all(tuned[path][1][key] == run[key] for key in keys)
                assert tuned[path][1]["seed"] not in {one["seed"] for one in families[name].runs}
        assert asked.keys() == wanted and all(len(paths) == 1 for paths in asked.values())
        read |= {path for paths in asked.values() for many in paths for path in many}
    assert read == set(tuned)
    metainit, gradinit, words = (own["tuning"][name] for name in ("metainit", "gradinit", "translation"))
    assert len(tuned) == sum(
        networks * len(search["factors"]) * len(search["seeds"])
        for networks, search in ((2, metainit), (1, gradinit))
    ) + len(words["seeds"]) * (3 * len(words["taus"]) + len(words["sgd_rates"]))
    for family, run in tuned.values():  # a candidate differs from the deciding run in the tried value alone
        cell = {key: value for key, value in run.items() if key not in ("seed", "tried")}
        start = {key: value for key, value in cell.items() if key != "recipe"}
        images_run = family.step == "train_from_init"
        suite = {"suite": "grid"} if images_run else {}
        recipe = {"recipe": "sgd"} if images_run else {}
        usual = dict(families[family.step].settings_of(**suite, **cell, **recipe))
        number = float(run["tried"].removeprefix("tau").removeprefix("lr"))
        mine = dict(family.settings_of(**cell, tried=run["tried"]))
        if run["tried"].startswith("lr"):
            assert mine == usual | {"lr": number} and usual["lr"] in words["sgd_rates"]
            continue
        assert mine == usual | (
            {"held_out": 0.1, "test_images": 0} if images_run else {}
        )  # no test image chooses
        suffix = "" if images_run else "_translation"
        begun = families[f"tune_initialise{suffix}"].settings_of(**start, tried=run["tried"])
        own_start = families[f"initialise{suffix}"].settings_of(**suite, **start)
        assert begun == {**own_start, "arguments": {**own_start["arguments"], "tau": number}}
    for scale in ("mini", "medium"):
        assert not any(PLANS[scale][name].runs for name in PLANS[scale] if name.startswith("tune_"))
    tried = [run for name, family in PAPER.items() if name.startswith("tune_train") for run in family.runs]
    assert {(run["initialisation"], run["recipe"]) for run in tried} == {("admin", "sgd")}


def record(folder: Path, tried: str, **metrics: float | None) -> Path:
    path = folder / f"{len(list(folder.iterdir()))}.json"
    path.write_text(json.dumps({"labels": {"tried": tried}, "metrics": metrics}))
    return path


def test_the_best_mean_over_seeds_is_taken(tmp_path: Path) -> None:
    losses = {"tau0.1": [0.5, 0.9], "tau0.2": [0.6, 0.6], "tau0.4": [0.1, None], "tau1e-05": [0.6, 0.6]}
    tried = [record(tmp_path, name, valid_loss_nats=one) for name, many in losses.items() for one in many]
    means = {float(name[3:]): sum(map(float, many)) / 2 for name, many in losses.items() if None not in many}
    best = min(value for value in means if means[value] == min(means.values()))  # of equal ones the smallest
    assert best == 1e-5
    assert best_tried("tau", tried) == best
    rates = [record(tmp_path, f"lr{lr}", accbest_frac=good) for lr, good in ((0.1, 0.3), (0.5, 0.7))]
    assert best_tried("lr", rates) == 0.5


def test_without_a_candidate_or_a_number_there_is_no_choice(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"0\.json: tried: found own, allowed: tau with a number"):
        best_tried("tau", [record(tmp_path, "own", valid_loss_nats=0.1)])
    with pytest.raises(ValueError, match="tried: found 1 trainings without a number"):
        best_tried("lr", [record(tmp_path, "lr1", valid_loss_nats=math.nan)])
