"""Initialisations of translation networks, and that the methods take what the plan gives them for either task."""

import inspect
import math

import pytest
import torch
from safetensors.torch import load_file

from relearn.data.corpus import load_corpus
from relearn.methods import INITIALISATIONS, load
from relearn.steps.tasks import OnTranslation, open_task
from relearn.steps.trained.seed import seed_of

from .runs import Runs, planned, settings


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Runs:
    return Runs(tmp_path_factory.mktemp("starts"))


# --- translation -----------------------------------------------------------------------------------

SIZES = {"dim": 16, "ffn": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.3}
WORDS = {"dataset": "number_words", "vocabulary": 100, "max_length": 60, "train_pairs": 200, "test_pairs": 10}


@pytest.fixture(scope="module")
def translate(runs):
    runs.step("prepare_translation", "pairs", WORDS, {})

    def initialise(residual: str, name: str, method: str | None, **arguments) -> tuple[dict, dict]:
        asked = {"task": "translation", "network": {**SIZES, "residual": residual}, "method": method}
        asked |= {"arguments": arguments, "max_tokens": 300, "iterations": 2, "label_smoothing": 0.1}
        labels = {"task": "translation", "network": residual, "initialisation": name}
        folder = f"translation/{residual}/{name}"
        done = runs.step("initialise", folder, asked, labels, data=runs.root / "pairs/corpus.safetensors")
        return done, load_file(runs.root / folder / "weights.safetensors")

    return initialise


def test_translation_starts_are_paired_and_rescaled(runs, translate):
    adam = {"optimizer": "adam", "eta": 5e-4, "gamma": 1e3, "tau": 0.02, "overlap": 0.5, "normalised": False}
    done, found = translate("post_ln", "gradinit", "gradinit", **adam)
    _, random = translate("post_ln", "xavier", "xavier")
    factors = {
        row["name"]: float(row["scale"]) for row in runs.rows("translation/post_ln/gradinit", "scales.csv")
    }
    assert any(abs(factor - 1) > 1e-3 for factor in factors.values())
    assert all(torch.equal(found[key], random[key] * factors.get(key, 1.0)) for key in random)
    settings = OnTranslation(task="translation", label_smoothing=0.1)
    task = open_task(settings, {"data": [runs.root / "pairs/corpus.safetensors"]}, "cpu")
    given, target = next(task.batches(seed_of({"task": "translation"}, 0, "task"), 300))
    net = task.network(runs.root / "translation/post_ln/gradinit/weights.safetensors").double()
    value = task.loss(net(*given), target)
    value.backward()
    norm = math.sqrt(sum(float(p.grad.square().sum()) for p in net.parameters()))
    metrics = done["metrics"]
    assert (metrics["loss_after_nats"], metrics["gradient_norm_after"]) == pytest.approx(
        (float(value.detach()), norm), rel=1e-4
    )
    assert net.vocabulary == load_corpus(runs.root / "pairs/corpus.safetensors").vocabulary


def test_every_rival_of_translation_changes_its_own_weights(translate):
    random = translate("w_skip", "xavier", "xavier")[1]
    for name, arguments in (("admin", {}), ("admin_fixed", {"fixed": True})):
        done, found = translate("w_skip", name, "admin", **arguments)
        changed = {key for key in found if not torch.equal(found[key], random[key])}
        assert done["outcome"] == "ok" and changed and all(key.endswith("w_skip") for key in changed)
    for name, form in (("t_fixup", "t_fixup"), ("fixup", "fixup")):
        done, found = translate("no_norm", name, "t_fixup", form=form)
        assert done["outcome"] == "ok" and done["metrics"]["loss_after_nats"] < math.log(100) * 2
    done, found = translate("rezero", "none", None)
    assert done["metrics"]["iterations_count"] == 0
    assert all(not tensor.any() for key, tensor in found.items() if key.endswith("alpha"))


# --- what the plan asks for ------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["mini", "small", "medium", "paper"])
def test_the_methods_take_what_the_plan_gives(scale):
    families = [planned(scale)[f"initialise{task}"] for task in ("", "_imagenet", "_translation")]
    asked = [settings(family, cell) for family in families for cell in family.cells]
    needed = {"gradinit", "metainit", "admin"}  # by the claims of scale small
    if scale != "small":
        needed |= {"extra_epoch", "t_fixup", None}
    assert needed <= {one["method"] for one in asked}
    for one in asked:
        if one["method"] is None:
            continue
        signature = inspect.signature(load(INITIALISATIONS, one["method"]))
        signature.bind("model", "loss", "batches", seed=0, **one["arguments"])
