"""train_images_adversarially: every method sees the same images, cost, robust accuracy by the attack, resuming bit for bit."""

import copy

import pytest
import torch

from relearn.data.arrays import load_prepared
from relearn.methods.fit import plain_gradient
from relearn.methods.freelb import FreeLB
from relearn.methods.pgd import pgd
from relearn.models import files
from relearn.runs.settings import read
from relearn.studies.freelb.steps import train_images_adversarially
from relearn.studies.freelb.steps.adversaries import ImageMethod, strategy_of

from ...steps.recorded import by_command, killed, rows_of

SPLIT = {"dataset": "digits", "pretrain_per_class": 39, "fine_tune_per_class": 1, "pool_per_class": 1}
TRAINED, BATCH, EPOCHS, PASSES = 400, 32, 3, 3
STEPS = EPOCHS * (TRAINED // BATCH + 1)
OWN = {"passes": PASSES, "norm": "linf", "eps": 0.1, "step_size": 0.05, "start_norm": 0.1, "project": True}
METHODS = {"vanilla": {"kind": "vanilla"}} | {
    name: {"kind": name, **OWN} for name in ("pgd", "free_at", "freelb")
}
SETTINGS = {
    "network": {"name": "ResNet18", "width": 0.125, "depth": 0.25},
    "train": {
        "epochs": EPOCHS,
        "batch_size": BATCH,
        "lr": 0.1,
        "momentum": 0.9,
        "weight_decay": 5.0e-4,
        "schedule": "cosine",
        "crop_padding": 1,
        "flip": False,
    },
    "attack": {"eps": 0.1, "step_size": 0.04, "steps": 3, "restarts": 2, "images": 60},
}
SHORT = {"train": {**SETTINGS["train"], "epochs": 2}}


class Runs:
    """Records below one folder, by name."""

    def __init__(self, root) -> None:
        self.root = root
        by_command("freelb", "prepare_images", root / "data", SPLIT)
        self.data = root / "data/data.safetensors"

    def run(self, name, method, code=0, seed=0, **changes):
        settings = {**copy.deepcopy(SETTINGS), "method": method, **changes}
        labels, given = {"method": method["kind"]}, {"data": self.data, "seed": seed, "code": code}
        step = "train_images_adversarially"
        return by_command("freelb", step, self.root / name, settings, labels, **given)

    def rows(self, name, file):
        return rows_of(self.root / name / file)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def made(runs):
    """A record a method."""
    return {name: runs.run(name, method) for name, method in METHODS.items()}


def test_all_methods_cost_the_same_passes_and_vanilla_one_a_step(made):
    metrics = {name: record["metrics"] for name, record in made.items()}
    assert {name: one["steps_count"] for name, one in metrics.items()} == {
        "vanilla": STEPS,
        "pgd": STEPS,
        "freelb": STEPS,
        "free_at": STEPS * PASSES,
    }
    assert {name: one["passes_count"] for name, one in metrics.items()} == {
        "vanilla": STEPS,
        **dict.fromkeys(("pgd", "free_at", "freelb"), STEPS * PASSES),
    }
    assert all(one["skipped_count"] == 0 and one["step_s"] > 0 for one in metrics.values())


def test_both_accuracies_are_those_of_the_file(runs, made):
    data = load_prepared(runs.data)
    images, labels = data.test()
    net = files.load(runs.root / "freelb/weights.safetensors")
    with torch.no_grad():
        said = net(images.float() / 255).argmax(1)
    metrics = made["freelb"]["metrics"]
    assert metrics["acc_frac"] == pytest.approx(float((said == labels).double().mean()))
    rows = runs.rows("freelb", "answers.csv")
    assert [int(row["predicted"]) for row in rows] == said.tolist()
    seen = [int(row["sample"]) for row in rows if row["fooled"]]
    assert seen == [place * len(labels) // 60 for place in range(60)]
    # another attack of the same strength fools about as many; one of no radius just those that are wrong
    found = pgd(net, images[seen], labels[seen], eps=0.1, step_size=0.04, steps=3, restarts=2, seed=77)
    robust = 1 - float(found.fooled.double().mean())
    assert metrics["robust_acc_frac"] == pytest.approx(robust, abs=0.1)
    assert metrics["robust_acc_frac"] == pytest.approx(1 - sum(int(row["fooled"] or 0) for row in rows) / 60)
    assert metrics["robust_acc_frac"] <= metrics["attacked_acc_frac"]
    for row in rows:
        assert row["fooled"] != "0" or row["predicted"] == row["label"]


def test_without_a_ball_robust_accuracy_is_clean_accuracy(runs):
    attack = {"eps": 0.0, "step_size": 0.0, "steps": 1, "restarts": 1, "images": 0}
    metrics = runs.run("still", METHODS["vanilla"], attack=attack)["metrics"]
    assert metrics["robust_acc_frac"] == metrics["attacked_acc_frac"] == metrics["acc_frac"]
    assert metrics["robust_images_count"] == len(runs.rows("still", "answers.csv"))


def test_training_against_perturbations_keeps_more_of_the_accuracy_under_attack(made):
    kept = {
        name: record["metrics"]["robust_acc_frac"] / record["metrics"]["attacked_acc_frac"]
        for name, record in made.items()
    }
    assert all(kept[name] > kept["vanilla"] for name in ("pgd", "free_at", "freelb"))


@pytest.fixture(scope="module")
def short(runs):
    """Weights of two epochs, by method."""
    for name in ("vanilla", "free_at"):
        runs.run(f"short_{name}", METHODS[name], **SHORT)
    return {name: weights(runs, f"short_{name}") for name in ("vanilla", "free_at")}


def weights(runs, name):
    return (runs.root / name / "weights.safetensors").read_bytes()


def test_a_ball_without_extent_is_vanilla_training_bit_for_bit(runs, short):
    for kind, eps in (("freelb", 0.0), ("pgd", 0.0), ("freelb", 0.01)):
        runs.run(f"{kind}_{eps}", {**METHODS[kind], "eps": eps, "start_norm": 0.0}, **SHORT)
        assert (weights(runs, f"{kind}_{eps}") == short["vanilla"]) is (eps == 0.0)


def test_methods_of_a_seed_see_the_same_images_and_a_replayed_one_its_crops_again(runs, monkeypatch):
    """What reaches the strategy, behind all augmentation."""
    seen: dict[str, list] = {}

    def watching(name):
        def strategy(model, loss, batch):
            seen.setdefault(name, []).append(batch[0].clone())
            return plain_gradient(model, loss, batch)

        return strategy

    once = {"train": {**SETTINGS["train"], "epochs": 1}}
    for name, method, seed in (
        ("vanilla", METHODS["vanilla"], 0),
        ("free_at", METHODS["free_at"], 0),
        ("other", METHODS["vanilla"], 1),
    ):
        monkeypatch.setattr(train_images_adversarially, "strategy_of", lambda _, name=name: watching(name))
        runs.run(f"seen_{name}", method, seed=seed, **once)
    assert len(seen["free_at"]) == PASSES * len(seen["vanilla"])
    for place, images in enumerate(seen["free_at"]):
        assert torch.equal(images, seen["vanilla"][place // PASSES])
    assert not torch.equal(seen["vanilla"][0], seen["other"][0])


def test_the_perturbed_images_stay_images_inside_the_ball():
    strategy = strategy_of(read(ImageMethod, METHODS["freelb"]))
    assert isinstance(strategy, FreeLB) and strategy.passes == PASSES
    images, seen = torch.rand(6, 1, 8, 8), []
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    net.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach().clone()))
    strategy(net, torch.nn.functional.cross_entropy, (images, torch.arange(6)))
    assert len(seen) == PASSES and any(not torch.equal(one, images) for one in seen)
    for one in seen:
        assert one.min() >= 0 and one.max() <= 1 and (one - images).abs().max() <= 0.1 + 1e-6


def test_a_killed_job_resumes_and_ends_in_the_same_bits(runs, short):
    """Killed behind the first checkpoint; the second attempt starts from it, not from the beginning."""
    with killed(), pytest.raises((AssertionError, KeyboardInterrupt)):
        runs.run("again", METHODS["free_at"], **SHORT)
    record = runs.run("again", METHODS["free_at"], **SHORT)
    assert any("resumed" in note for note in record["notes"])
    assert weights(runs, "again") == short["free_at"]
    assert runs.rows("again", "answers.csv") == runs.rows("short_free_at", "answers.csv")


def test_a_training_that_diverges_has_no_accuracy_and_says_when(runs):
    record = runs.run("lost", METHODS["freelb"], train={**SETTINGS["train"], "lr": 1e12})
    assert record["outcome"] == "diverged" and record["outcome_step"] >= 1
    assert not {"acc_frac", "robust_acc_frac"} & set(record["metrics"])
    assert all(row["fooled"] == "" for row in runs.rows("lost", "answers.csv"))


def test_a_network_that_learns_nothing_did_not_converge(runs):
    record = runs.run("idle", METHODS["vanilla"], train={**SETTINGS["train"], "lr": 1e-9, "epochs": 1})
    assert record["outcome"] == "not_converged"
    assert record["metrics"]["acc_frac"] < record["metrics"]["most_frequent_frac"] + 0.1


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ({"kind": "yopo", **OWN}, "^kind: found 'yopo', allowed: vanilla, pgd, free_at, freelb$"),
        ({"kind": "freelb", **OWN, "passes": 0}, "passes: found 0"),
        ({"kind": "pgd", **OWN, "norm": "l3"}, "norm: found 'l3'"),
        ({"kind": "freelb", **OWN, "eps": None}, "eps: missing"),
        ({"kind": "vanilla", "passes": 3}, "^the key passes is unknown; allowed: kind$"),
    ],
)
def test_what_a_method_refuses(method, words):
    with pytest.raises(ValueError, match=words):
        strategy_of(read(ImageMethod, method))
