"""initialise: starts that can be paired, numbers against independent ones, what the rules ask for and the methods take."""

import json
import math
import time

import pytest
import torch

import relearn.methods
from relearn.methods.initialised import Initialised
from relearn.runs import record
from relearn.runs.checkpoint import Checkpoint
from relearn.steps.trained.seed import seed_of
from relearn.studies.gradinit.steps import initialise

from ...steps.recorded import made_by
from .runs import COUNT, GRADINIT, NETWORK, START, Runs

ADAM = {"data": "real", "optimizer": "adam", "tau": 0.01}
SIGN = {"data": "random", "optimizer": "signsgd", "tau": 0.05, "momentum": 0.9}
EPOCH = {"lr": 0.1, "momentum": 0.9, "weight_decay": 1.0e-4, "clip_norm": None, "schedule": "constant"}
FIXUP = NETWORK | {"name": "FixUpResNet-110"}
LABELS = {"task": "images", "network": NETWORK["name"]}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Runs:
    runs = Runs(tmp_path_factory.mktemp("initialise"))
    runs.initialise("kaiming", "kaiming")
    runs.initialise("gradinit", "gradinit", GRADINIT)
    return runs


def scales(runs: Runs, name: str) -> dict[str, float]:
    return {row["name"]: float(row["scale"]) for row in runs.rows(name, "scales.csv")}


def slow_loss_and_norm(runs: Runs, name: str, *, train: bool = True, seed: int = 0) -> tuple[float, float]:
    """Loss and norm of its gradient in double precision on the batch of (task, seed)."""
    task = runs.task()
    images, labels = next(task.batches(seed_of(LABELS, seed, "task"), START["batch_size"]))
    net = task.network(runs.weights(name)).double().train(train)
    logits = net(images.double())
    value = -logits.log_softmax(1)[torch.arange(len(labels)), labels].mean()
    value.backward()
    return float(value.detach()), math.sqrt(sum(float(p.grad.square().sum()) for p in net.parameters()))


@pytest.mark.parametrize(("method", "arguments"), [("gradinit", GRADINIT), ("metainit", ADAM)])
def test_gradinit_and_its_rival_initialise_in_the_precision_of_the_job(runs, method, arguments):
    settings, inputs = {**START, "method": method, "arguments": arguments}, {"data": [runs.data]}
    losses = []
    for name, precision in (("single", "fp32"), ("again", "fp32"), ("half", "bf16")):
        out, labels = runs.root / f"{method}_{name}", LABELS | {"initialisation": method}
        made_by(initialise, out, settings, labels, inputs, study="gradinit", precision=precision)
        losses.append(runs.rows(out.name, "history.csv")[0]["loss"])
    assert losses[0] == losses[1] != losses[2]


# --- pairing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "method", "arguments"),
    [("gradinit", None, None), ("metainit", "metainit", ADAM), ("metainit_sign", "metainit", SIGN)],
)
def test_factors_times_the_common_random_weights_are_the_start(runs, name, method, arguments):
    if method:
        runs.initialise(name, method, arguments)
    random, found, factors = runs.state("kaiming"), runs.state(name), scales(runs, name)
    assert any(abs(factor - 1) > 1e-3 for factor in factors.values())
    assert random.keys() == found.keys() >= factors.keys()
    for key, tensor in random.items():
        assert torch.equal(found[key], tensor * factors.get(key, 1.0)), key


def test_tau_is_the_best_of_the_trainings_that_tried_some(runs, tmp_path):
    for number, (tau, loss) in enumerate(((0.05, 0.9), (0.2, 0.4))):
        words = {"labels": {"tried": f"tau{tau}"}, "metrics": {"valid_loss_nats": loss}}
        (tmp_path / f"{number}.json").write_text(json.dumps(words))
    runs.initialise("gradinit_twice", "gradinit", GRADINIT | {"tau": 0.2})
    tried, labels = sorted(tmp_path.iterdir()), LABELS | {"initialisation": "gradinit_twice"}
    settings = {**START, "method": "gradinit", "arguments": GRADINIT}
    inputs = {"data": [runs.data], "tried": tried}
    done = made_by(initialise, runs.root / "chosen", settings, labels, inputs, study="gradinit")
    assert runs.weights("chosen").read_bytes() == runs.weights("gradinit_twice").read_bytes()
    assert scales(runs, "chosen") != scales(runs, "gradinit")
    assert done["metrics"]["tau"] == 0.2 and done["settings"]["arguments"]["tau"] == 0.05
    assert "tau" not in record.read(runs.root / "gradinit")["metrics"]


def test_without_a_factor_zeros_are_kept_and_named_in_a_note(runs):
    random, factors = runs.state("kaiming"), scales(runs, "gradinit")
    zeros = [key for key, tensor in random.items() if key.endswith("bias") and not tensor.any()]
    done = record.read(runs.root / "gradinit")
    assert zeros and not set(zeros) & set(factors)
    assert done["metrics"]["skipped_count"] == len(zeros)
    named = done["notes"][0].removeprefix("no scale, because their norm is zero: ").split(", ")
    assert sorted(named) == sorted(zeros)
    shapes = {row["name"]: row["shape"] for row in runs.rows("gradinit", "scales.csv")}
    assert shapes == {key: str(list(random[key].shape)) for key in factors}


def test_each_seed_and_network_has_its_own_random_weights(runs):
    runs.initialise("kaiming", "kaiming", network=NETWORK | {"name": "ResNet-110"})
    other = runs.state("kaiming")["head.weight"]
    runs.initialise("kaiming", "kaiming", seed=1)
    seeded = runs.state("kaiming")["head.weight"]
    runs.initialise("kaiming", "kaiming")
    weight = runs.state("kaiming")["head.weight"]
    assert not torch.equal(weight, seeded) and not torch.equal(weight, other)
    torch.manual_seed(seed_of(LABELS, 0, "task", "network"))
    assert torch.equal(weight, runs.task().create(NETWORK).head.weight)


def test_equal_settings_make_equal_bytes(runs):
    before = runs.weights("gradinit").read_bytes()
    done = record.read(runs.root / "gradinit")
    runs.initialise("gradinit", "gradinit", GRADINIT)
    assert runs.weights("gradinit").read_bytes() == before
    outputs = record.read(runs.root / "gradinit")["outputs"]
    assert outputs == done["outputs"]


def test_none_is_the_start_that_the_constructor_draws(runs):
    network = NETWORK | {"name": "ResNet-110-SkipInit"}
    done = runs.initialise("none", None, network=network)
    torch.manual_seed(seed_of({"task": "images", "network": network["name"]}, 0, "task", "network"))
    net = runs.task().create(network)
    for key, tensor in net.state_dict().items():
        assert torch.equal(runs.state("none")[key], tensor), key
    assert [float(t) for key, t in runs.state("none").items() if key.endswith("scale.scale")] == [0.0] * 3
    assert scales(runs, "none") == {} and runs.rows("none") == []
    assert done["metrics"]["iterations_count"] == done["metrics"]["constraint_count"] == 0
    assert done["metrics"]["loss_before_nats"] == done["metrics"]["loss_after_nats"]


# --- numbers ---------------------------------------------------------------------------------------


def test_loss_and_gradient_norm_before_and_after(runs):
    metrics = record.read(runs.root / "gradinit")["metrics"]
    found = [(metrics[f"loss_{when}_nats"], metrics[f"gradient_norm_{when}"]) for when in ("before", "after")]
    for one, name in zip(found, ("kaiming", "gradinit"), strict=True):
        assert one == pytest.approx(slow_loss_and_norm(runs, name), rel=1e-4)
        assert one != pytest.approx(slow_loss_and_norm(runs, name, train=False), rel=1e-2)
        assert one != pytest.approx(slow_loss_and_norm(runs, name, seed=1), rel=1e-2)
    assert found[0] != pytest.approx(found[1], rel=1e-2)


def test_counts_are_those_of_the_history(runs):
    rows, metrics = runs.rows("gradinit"), record.read(runs.root / "gradinit")["metrics"]
    assert [float(row["step"]) for row in rows] == [1.0, 2.0, 3.0]
    assert metrics["iterations_count"] == len(rows) == START["iterations"]
    assert metrics["constraint_count"] == [row["kind"] for row in rows].count("constraint")
    assert metrics["parameters_count"] == sum(
        p.numel() for p in runs.task().network(runs.weights("gradinit")).parameters()
    )
    assert metrics["initialise_s"] > 0 and metrics["peak_memory_bytes"] >= 0


def test_no_bound_and_a_bound_that_never_holds(runs):
    free = runs.initialise("gradinit_free", "gradinit", GRADINIT | {"gamma": None})["metrics"]
    bound = runs.initialise("gradinit_bound", "gradinit", GRADINIT | {"gamma": 1e-6})["metrics"]
    assert free["constraint_count"] == 0 and bound["constraint_count"] == START["iterations"]
    assert {row["kind"] for row in runs.rows("gradinit_free")} == {"objective"}
    # Descending the norm lowers it; the loss alone is nothing to go by.
    assert bound["gradient_norm_after"] < bound["gradient_norm_before"]


def test_each_variant_has_batches_of_its_own_and_gradinit_gets_pools(runs, monkeypatch):
    given = {}

    def spy(registry, name):
        def method(model, loss, batches, *, seed, **arguments):
            given[name] = [len(next(batches)[0]) for _ in range(3)], seed, arguments
            return Initialised()

        return method

    monkeypatch.setattr(relearn.methods, "load", spy)
    for name, arguments in (
        ("gradinit", GRADINIT | {"overlap": 0.25}),
        ("metainit", ADAM),
        ("extra_epoch", EPOCH),
    ):
        runs.initialise(f"spied_{name}", name, arguments)
    assert given["gradinit"][0] == [math.ceil(1.75 * START["batch_size"])] * 3
    assert given["metainit"][0] == given["extra_epoch"][0] == [START["batch_size"]] * 3
    assert len({seed for _, seed, _ in given.values()}) == 3
    assert given["gradinit"][2]["iterations"] == given["metainit"][2]["iterations"] == START["iterations"]
    assert given["extra_epoch"][2]["steps"] == math.ceil(COUNT / START["batch_size"])


# --- the other methods -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "method", "arguments", "network", "iterations"),
    [
        ("xavier", "xavier", {}, NETWORK, 0),
        ("orthogonal", "orthogonal", {}, NETWORK, 0),
        ("lsuv", "lsuv", {"tolerance": 0.1, "iterations": 10}, NETWORK, 0),
        ("fixup", "fixup", {}, FIXUP, 0),
        ("extra_epoch_constant", "extra_epoch", EPOCH, NETWORK, 7),
        ("extra_epoch_warmup", "extra_epoch", EPOCH | {"schedule": "warmup", "clip_norm": 1.0}, NETWORK, 7),
        ("gradinit_penalty", "gradinit", GRADINIT | {"form": "penalty", "penalty": 0.01}, NETWORK, 3),
        ("gradinit_only_bn", "gradinit", GRADINIT | {"scope": "only_norm"}, NETWORK, 3),
    ],
)
def test_every_rival_ends_in_a_network_that_can_be_trained(
    runs, name, method, arguments, network, iterations
):
    done = runs.initialise(name, method, arguments, network=network)
    metrics = done["metrics"]
    assert done["outcome"] == "ok" and metrics["iterations_count"] == iterations
    assert all(value is not None for value in metrics.values())
    assert metrics["loss_after_nats"] != metrics["loss_before_nats"]
    found, buffers = runs.state(name), runs.state("kaiming")
    assert all(tensor.isfinite().all() for tensor in found.values())
    if network is NETWORK:  # running statistics are a fresh network's
        assert all(torch.equal(found[key], buffers[key]) for key in found if "running" in key)


def test_an_extra_epoch_decays_no_normalisation_as_the_training_does(runs):
    done = runs.initialise("extra_epoch_decay", "extra_epoch", EPOCH | {"lr": 1e-30, "weight_decay": 1e28})
    random, found = runs.state("kaiming"), runs.state("extra_epoch_decay")
    assert done["outcome"] == "ok"
    assert torch.equal(found["stem.1.weight"], random["stem.1.weight"])
    assert found["stem.0.weight"].norm() < 0.99 * random["stem.0.weight"].norm()


def test_a_divergence_is_a_result_with_its_step(runs):
    done = runs.initialise("extra_epoch_diverged", "extra_epoch", EPOCH | {"lr": 1e36})
    assert done["outcome"] == "diverged" and 1 < done["outcome_step"] <= 7
    assert done["outcome_reason"] == "diverged in the extra epoch"
    assert done["metrics"]["loss_after_nats"] is None and math.isfinite(done["metrics"]["loss_before_nats"])


def test_a_method_that_is_not_known_gives_one_line(runs):
    with pytest.raises(ValueError, match="did you mean 'gradinit'") as caught:
        runs.initialise("gradinit2", "gradinitt", GRADINIT)
    assert "\n" not in str(caught.value)
    assert not (runs.root / "gradinit2/record.json").exists()


def test_seconds_are_of_the_processor_and_not_of_the_wall(runs, monkeypatch):
    """A busy machine must not make an initialisation dear."""

    def slow(*_):
        def method(model, loss, batches, *, seed, **_):
            time.sleep(0.5)
            return Initialised()

        return method

    monkeypatch.setattr(relearn.methods, "load", slow)
    runs.initialise("waiting", "lsuv", {"tolerance": 0.1, "iterations": 1})
    assert record.read(runs.root / "waiting")["metrics"]["initialise_s"] < 0.25


def test_a_resumed_initialisation_has_no_seconds(runs, monkeypatch):
    monkeypatch.setattr(initialise, "CHECKPOINT_EVERY", 1)
    save = Checkpoint.save

    def dies(checkpoint, state):
        save(checkpoint, state)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", dies)
        with pytest.raises(KeyboardInterrupt):
            runs.initialise("resumed", "gradinit", GRADINIT)
    runs.initialise("resumed", "gradinit", GRADINIT)
    done, whole = (record.read(runs.root / name) for name in ("resumed", "gradinit"))
    assert done["notes"][-1] == "resumed: finished by attempt 2" and "initialise_s" not in done["metrics"]
    assert "initialise_s" in whole["metrics"]
