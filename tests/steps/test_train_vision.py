"""classify: numbers against the files and the network, the same draws for every network, recipes, branches, Gaussian heads."""

import math

import pytest
import torch
from torch import Tensor, nn

import relearn.methods.fit as fitting
from relearn.data.evenly_spaced import evenly_spaced
from relearn.measures.branch_ratio import branch_ratios, residual_weights
from relearn.methods.optimisers import parameter_groups
from relearn.models import vision
from relearn.runs import record
from relearn.runs.settings import read
from relearn.steps import train_vision as classify
from relearn.steps.tasks import vision_recipe
from relearn.steps.train_vision import HISTORY
from relearn.steps.trained import branches as branch_rows
from relearn.steps.trained.chance import learned

from .vision_runs import COUNT, NETWORKS, RECIPE, Runs, Spy

PER_EPOCH = math.ceil(COUNT / RECIPE["batch_size"])


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Runs:
    runs = Runs(tmp_path_factory.mktemp("train_vision"))
    for name in NETWORKS:
        runs.classify(name, name)
    return runs


@pytest.fixture
def spy(monkeypatch) -> Spy:
    return Spy(monkeypatch)


def accuracy_of(net: nn.Module, images: Tensor, labels: Tensor) -> float:
    with torch.no_grad():
        return float((net.double().eval()(images.double() / 255).argmax(1) == labels).double().mean())


def start(runs: Runs, network: str, seed: int = 0) -> nn.Module:
    """The network as `train_vision` starts it."""
    settings = read(classify.Settings, {**RECIPE, "network": NETWORKS[network]})
    torch.manual_seed(seed)
    return vision.create(**vision_recipe.describe(settings, runs.task())).eval()


# --- numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETWORKS)
def test_the_record_says_what_the_history_holds(runs, name):
    done, rows = record.read(runs.root / name), runs.rows(name)
    metrics, tested = done["metrics"], [float(row["test_accuracy_frac"]) for row in rows]
    assert [(float(row["epoch"]), float(row["step"])) for row in rows] == [
        (epoch, epoch * PER_EPOCH) for epoch in (1, 2, 3)
    ]
    assert tuple(rows[0]) == tuple(
        one for one in HISTORY if one not in ("gradient_norm", "ema_accuracy_frac")
    )
    assert metrics["acc_frac"] == tested[-1] and metrics["accbest_frac"] == max(tested)
    assert metrics["loss_first_nats"] == float(rows[0]["loss"])
    assert metrics["train_loss_nats"] == float(rows[-1]["loss"]) < metrics["loss_first_nats"]
    assert metrics["steps_count"] == 3 * PER_EPOCH and metrics["epoch_s"] > 0
    assert metrics["parameters_count"] == sum(one.numel() for one in runs.net(name).parameters())
    found = learned(float(rows[-1]["loss"]), tested[-1], evenly_spaced(runs.task().test_labels, 150), 10)
    assert "ema_acc_frac" not in metrics and done["outcome"] == ("ok" if found else "not_converged")
    assert found or name in ("vit", "gp")  # of so few steps these two learn little
    assert set(done["outputs"]) == {"history.csv", "layers.csv", "alphas.csv", "model.safetensors"}
    assert float(rows[-1]["lr"]) < 0.05 * RECIPE["lr"]  # the cosine ends at nought


@pytest.mark.parametrize("count", [0, 37])
def test_the_last_accuracy_is_that_of_the_file_on_evenly_spaced_test_images(runs, count):
    name = f"counted_{count}"
    done = runs.classify(name, "vit", epochs=1, test_images=count)["metrics"]
    task = runs.task()
    total = len(task.test_labels)
    chosen = [i * total // (count or total) for i in range(count or total)]
    assert done["acc_frac"] == accuracy_of(runs.net(name), task.test_images[chosen], task.test_labels[chosen])


def test_the_best_is_the_best_and_not_the_last(runs, monkeypatch):
    values = iter([0.3, 0.8, 0.5])
    monkeypatch.setattr("relearn.measures.accuracy.accuracy", lambda logits, labels: next(values))
    metrics = runs.classify("made_up", "vit")["metrics"]
    assert (metrics["acc_frac"], metrics["accbest_frac"]) == (0.5, 0.8)


def test_the_file_describes_the_network_that_the_images_need(runs):
    net, task = runs.net("lipsformer"), runs.task()
    described = net.description
    assert described.items() >= {"classes": 10, "in_channels": 1, "size": 8, **NETWORKS["lipsformer"]}.items()
    assert described["mean"] == task.mean and torch.allclose(net.std.flatten(), torch.tensor(task.std))


# --- branches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETWORKS)
def test_layers_are_the_networks_own_before_and_after(runs, name):
    rows = runs.rows(name, "layers.csv")
    images = evenly_spaced(evenly_spaced(runs.task().test_images, 150), classify.PROBED).float() / 255
    assert len(images) == 64
    for moment, net in (("start", start(runs, name)), ("end", runs.net(name))):
        found = [row for row in rows if row["moment"] == moment]
        weights = {(one["layer"], one["branch"]): one for one in residual_weights(net)}
        for row, truth in zip(found, branch_ratios(net, images), strict=True):
            assert (int(row["layer"]), row["branch"]) == (truth["layer"], truth["branch"])
            assert float(row["ratio"]) == pytest.approx(truth["ratio"], rel=1e-6)
            weight = weights.get((truth["layer"], truth["branch"]))
            told = [row["weight_mean"], row["weight_std"]]
            assert (
                told == ["", ""]
                if weight is None
                else [float(one) for one in told] == [weight["mean"], weight["std"]]
            )
    assert all(row["weight_mean"] for row in rows) == (name != "swin")
    kinds = {row["branch"] for row in rows}
    assert kinds == {"attention", "mlp"} | ({"conv1", "conv2"} if name == "lipsformer" else set())


@pytest.mark.parametrize("name", NETWORKS)
def test_variation_of_the_ratios_is_that_of_the_table(runs, name):
    metrics, rows = record.read(runs.root / name)["metrics"], runs.rows(name, "layers.csv")
    for moment, metric in (("start", "branch_cv_start_ratio"), ("end", "branch_cv_ratio")):
        each = []
        for kind in ("attention", "mlp"):
            values = [float(r["ratio"]) for r in rows if (r["moment"], r["branch"]) == (moment, kind)]
            mean = sum(values) / len(values)
            each.append(math.sqrt(sum((v - mean) ** 2 for v in values) / len(values)) / mean)
        assert metrics[metric] == pytest.approx(sum(each) / 2, rel=1e-9)


def test_a_branch_that_adds_nothing_has_no_variation():
    rows = [{"branch": kind, "ratio": 0.0} for kind in ("attention", "mlp")]
    assert branch_rows.variation(rows) is None
    assert branch_rows.variation([{"branch": "attention", "ratio": 1.0}]) is None
    assert branch_rows.variation([*rows, {"branch": "mlp", "ratio": math.nan}]) is None


def test_alphas_of_the_last_epoch_are_the_files(runs):
    rows = runs.rows("lipsformer", "alphas.csv")
    assert [(float(row["epoch"]), int(row["stage"])) for row in rows] == [
        (e, s) for e in (1, 2, 3) for s in range(4)
    ]
    net = runs.net("lipsformer")
    for row in rows[-4:]:
        stage = net.trunk.layers[int(row["stage"])]
        numbers = torch.cat(
            [p.detach().abs() for name, p in stage.named_parameters() if name.endswith("alpha")]
        )
        assert float(row["alpha_mean"]) == pytest.approx(float(numbers.mean()), rel=1e-5)
        assert float(row["alpha_std"]) == pytest.approx(float(numbers.std(correction=0)), rel=1e-4)
    first = {row["alpha_mean"] for row in rows[:4]}
    assert len(first) == 4 and not any(row["alpha_mean"] in first for row in rows[-4:])  # they learn
    assert runs.rows("swin", "alphas.csv") == []
    assert (runs.root / "swin/alphas.csv").read_text() == "epoch,stage,alpha_mean,alpha_std\n"


# --- pairing ---------------------------------------------------------------------------------------


def test_every_network_of_a_suite_sees_the_same_images_in_the_same_order(runs, monkeypatch):
    drawn, starts = {}, {}
    for name, network, seed in (("a", "lipsformer", 0), ("b", "vit", 0), ("c", "vit", 1)):
        with monkeypatch.context() as patch:
            one = Spy(patch)
            runs.classify(f"paired_{name}", network, seed=seed, epochs=1, mixup=0.8, cutmix=1.0)
            drawn[name], starts[name] = one.drawn(), one.start
    assert len(drawn["a"]) == len(drawn["b"]) == len(drawn["c"]) == 2 * PER_EPOCH
    assert all(torch.equal(one, other) for one, other in zip(drawn["a"], drawn["b"]))
    assert not any(torch.equal(one, other) for one, other in zip(drawn["a"], drawn["c"]))
    assert not torch.equal(starts["b"]["trunk.pos_embed"], starts["c"]["trunk.pos_embed"])


def test_fewer_training_images_are_evenly_spaced(runs, spy):
    runs.classify("fewer", "vit", epochs=1, train_images=50)
    images, labels = runs.task().images, runs.task().labels
    chosen = torch.arange(0, COUNT, 4)
    assert torch.equal(spy.data[0], images[chosen]) and torch.equal(spy.data[1], labels[chosen])
    assert runs.rows("fewer")[-1]["step"] == "2.0"


# --- recipes ---------------------------------------------------------------------------------------


def test_the_recipe_reaches_the_loop(runs, spy):
    runs.classify(
        "adamw", "vit", epochs=2, warmup_epochs=1, clip_norm=0.5, betas=[0.8, 0.95], weight_decay=0.3
    )
    given = spy.given
    assert (given["optimizer"], given["lr"], given["weight_decay"]) == ("adamw", 1e-2, 0.3)
    assert (
        tuple(given["betas"]) == (0.8, 0.95) and given["clip_norm"] == 0.5 and given["schedule"] == "cosine"
    )
    assert given["warmup_steps"] == PER_EPOCH and given["diverged_above"] == 10 * math.log(10)
    assert given["average"] is None and given["evaluate_average"] is None
    rows = runs.rows("adamw")
    assert float(rows[0]["lr"]) == 1e-2 and float(rows[0]["gradient_norm"]) > 0
    runs.classify("sgd", "vit", epochs=1, optimizer="sgd", momentum=0.7, lr=0.1)
    assert (spy.given["optimizer"], spy.given["momentum"], spy.given["clip_norm"]) == ("sgd", 0.7, None)
    assert spy.given["augment"] is not None and "gradient_norm" not in runs.rows("sgd")[0]


def test_vectors_and_what_the_network_names_do_not_decay(runs, spy):
    for network, spared in (("vit", {"trunk.pos_embed", "trunk.cls_token"}), ("lipsformer", set())):
        runs.classify(f"decay_{network}", network, epochs=1)
        assert spy.given["decay"] == "no_vectors"
        groups = parameter_groups(spy.model, 0.05, spy.given["decay"])
        none = {name for group in groups if not group["weight_decay"] for name in group["names"]}
        vectors = {name for name, parameter in spy.model.named_parameters() if parameter.dim() < 2}
        assert none == vectors | spared and any(name.endswith("alpha") for name in none)


@pytest.mark.parametrize(
    ("mixup", "cutmix", "mixed"),
    [(None, None, False), (0.8, None, True), (None, 1.0, True), (0.8, 1.0, True)],
)
def test_mixtures_make_labels_of_two_classes(runs, spy, mixup, cutmix, mixed):
    runs.classify("mixed", "vit", epochs=1, mixup=mixup, cutmix=cutmix)
    assert (spy.given["mix"] is not None) == mixed
    if not mixed:
        assert {labels.dtype for labels in spy.labels} == {torch.int64}
        return
    assert all(torch.allclose(labels.sum(1), torch.ones(len(labels))) for labels in spy.labels)
    assert any((labels.max(1).values < 1).any() for labels in spy.labels)


def test_cutmix_pastes_and_mixup_blends(runs, spy):
    values = {value / 255 for value in runs.task().images.unique().tolist()}
    for key, kept in (("mixup", False), ("cutmix", True)):
        spy.images.clear()
        runs.classify("one", "vit", epochs=1, crop_padding=0, **{key: 1.0})
        seen = torch.cat([images.unique() for images in spy.images]).unique().tolist()
        assert all(min(abs(one - value) for value in values) < 1e-6 for one in seen) == kept


def test_training_images_are_cropped_and_mirrored_as_documented(runs, spy):
    whole = {image.numpy().tobytes() for image in runs.task().images.float() / 255}
    for name, padding, flip in (("cropped", 1, False), ("mirrored", 0, True)):
        spy.images.clear()
        runs.classify(name, "vit", epochs=1, crop_padding=padding, flip=flip)
        seen = torch.cat(spy.images)
        own = sum(image.numpy().tobytes() in whole for image in seen) / len(seen)
        back = sum(image.flip(2).numpy().tobytes() in whole for image in seen) / len(seen)
        if flip:
            assert 0.3 < own < 0.7 and own + back >= 1
        else:
            assert 0 < own < 0.4 and back < 0.1  # a ninth of the crops is the middle


def test_randaugment_comes_on_top_of_the_crop(runs, spy):
    plain = {}
    for name, strength in (("plain", None), ("strong", {"magnitude": 9, "spread": 0.5, "operations": 2})):
        spy.images.clear()
        runs.classify(name, "vit", epochs=1, crop_padding=0, randaugment=strength)
        plain[name] = {image.numpy().tobytes() for images in spy.images for image in images}
    whole = {image.numpy().tobytes() for image in runs.task().images.float() / 255}
    assert plain["plain"] == whole and len(plain["strong"] & whole) < COUNT / 2


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_smoothed_cross_entropy(smoothing):
    logits, labels = torch.randn(5, 4, dtype=torch.double), torch.tensor([0, 3, 1, 1, 2])
    logs = logits - logits.exp().sum(1, keepdim=True).log()
    target = torch.full((5, 4), smoothing / 4, dtype=torch.double)
    target[torch.arange(5), labels] += 1 - smoothing
    slow = -(target * logs).sum(1).mean()
    loss = vision_recipe.smoothed_loss(smoothing)
    assert float(loss(logits, labels)) == pytest.approx(float(slow), rel=1e-12)
    assert float(loss(logits, torch.eye(4, dtype=torch.double)[labels])) == pytest.approx(
        float(slow), rel=1e-12
    )
    assert loss(logits.bfloat16(), labels).dtype == torch.float32


def test_smoothing_reaches_the_loss(runs, spy):
    runs.classify("smoothed", "vit", epochs=1, label_smoothing=0.2)
    logits = torch.tensor([[100.0] + [0.0] * 9])
    assert float(spy.given["loss"](logits, torch.tensor([0]))) == pytest.approx(0.2 * 0.9 * 100, rel=1e-4)


def test_averaged_weights_are_evaluated_along_with_the_trained_ones(runs, monkeypatch):
    kept, real = {}, fitting.fit

    def fit(model, data, **given):
        kept["fitted"] = real(model, data, **given)
        return kept["fitted"]

    monkeypatch.setattr(fitting, "fit", fit)
    done = runs.classify("ema", "lipsformer", ema=0.95, test_images=0)
    rows, task = runs.rows("ema"), runs.task()
    assert tuple(rows[0]) == tuple(one for one in HISTORY if one != "gradient_norm")
    net, images, labels = runs.net("ema"), task.test_images, task.test_labels
    trained = {key: tensor.clone() for key, tensor in net.state_dict().items()}
    acc, ema = (done["metrics"][f"{which}acc_frac"] for which in ("", "ema_"))
    assert acc == float(rows[-1]["test_accuracy_frac"]) == accuracy_of(net, images, labels)
    averaged = kept["fitted"].average
    assert any(not torch.equal(averaged[key], trained[key]) for key in trained)
    net.float().load_state_dict(averaged)
    assert acc != ema == float(rows[-1]["ema_accuracy_frac"]) == accuracy_of(net, images, labels)
    without = runs.classify("no_ema", "lipsformer", test_images=0)["metrics"]  # training does not notice
    assert without["train_loss_nats"] == done["metrics"]["train_loss_nats"]


# --- the Gaussian head -----------------------------------------------------------------------------


def test_the_precision_is_that_of_the_plain_training_images(runs):
    net = runs.net("gp")
    images = runs.task().images
    assert int(net.head.seen) == COUNT
    with torch.no_grad():
        phi = net.head.features(net.features(images.float() / 255)).double()
        p = (phi @ net.head.out.weight.T.double()).softmax(1).amax(1)
    truth = torch.eye(32, dtype=torch.double) + (phi * (p * (1 - p))[:, None]).T @ phi
    torch.testing.assert_close(net.head.precision[0].double(), truth, rtol=1e-4, atol=1e-4)
    variance = net.head.variance(net.features(images[:5].float() / 255))
    assert variance.shape == (5, 1) and (variance > 0).all()


# --- how it ends -----------------------------------------------------------------------------------


def test_a_run_that_learns_nothing_has_not_converged(runs):
    done = runs.classify("idle", "vit", epochs=1, lr=1e-9, test_images=0)
    assert (done["outcome"], done["outcome_step"]) == ("not_converged", None)
    assert done["outcome_reason"] == "neither loss nor accuracy better than chance"
    assert (
        done["metrics"]["train_loss_nats"] > 0.98 * math.log(10)
        and (runs.root / "idle/model.safetensors").exists()
    )


def test_what_counts_as_learned():
    labels = torch.arange(100) % 10  # a tenth each, so a standard error of 3%
    for loss, accuracy, better in (
        (0.979 * math.log(10), 0.0, True),
        (0.981 * math.log(10), 0.1, False),
        (9.0, 0.159, False),
        (9.0, 0.161, True),
    ):
        assert learned(loss, accuracy, labels, 10) == better
    uneven = torch.tensor([0] * 50 + list(range(50))) % 10  # 55 are of one class
    assert not learned(9.0, 0.6, uneven, 10) and learned(9.0, 0.66, uneven, 10)


def test_another_task_is_refused(runs):
    with pytest.raises(ValueError, match="task: found 'translation', allowed: images, folder"):
        runs.classify("wrong", "vit", task="translation")
