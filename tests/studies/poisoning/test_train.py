"""train: success is the predicate on the prediction, poisons outside the threat model are not scored, dropped poisons do nothing."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from relearn.data.arrays import load_prepared
from relearn.measures.embed import embed
from relearn.methods.deep_knn import DeepKNN
from relearn.methods.transfer import fine_tune
from relearn.models import files
from relearn.studies.poisoning.steps.train import shares

INPUTS = {"data": "prepare/data.safetensors", "victim": "victim/weights.safetensors"}


def test_one_target_by_hand_on_the_poisoned_images(chain, read_trials):
    data = load_prepared(chain.path("prepare/data.safetensors"))
    trials = data.trials(**chain.trials)
    victim = files.load(chain.path("victim/weights.safetensors"))
    poisons = load_file(chain.path("craft/poisons.safetensors"))["poisons"]
    images, labels = data.fine_tune()
    images[trials.base_positions_in_fine_tune] = poisons[1]
    recipe = {k: chain.fine_tuning[k] for k in ("epochs", "batch_size", "lr", "weight_decay")}
    keep = torch.ones(len(labels), 1, 1)
    heads, _, _ = fine_tune(
        embed(victim, images)[:, None], labels, keep, victim.head, milestones=(3,), **recipe
    )
    test_images, test_labels = data.test()
    logits = embed(victim, test_images) @ heads.weight[0, 0].T + heads.bias[0, 0]
    target = embed(victim, trials.target_images[1:2]) @ heads.weight[0, 0].T + heads.bias[0, 0]
    row = read_trials(chain.path("train"))[1]
    assert int(row["predicted"]) == int(target.argmax())
    assert float(row["test_accuracy_frac"]) == pytest.approx(
        float((logits.argmax(1) == test_labels).float().mean()), abs=1e-6
    )


def test_success_is_the_poison_class_and_nothing_else(chain, read_trials):
    for name in ("train", "filtered", "clean"):
        for row in read_trials(chain.path(name)):
            assert int(row["success"]) == int(int(row["predicted"]) == chain.trials["poison_class"])


def test_the_sweep_gives_a_row_for_each_k_and_the_chosen_first(chain, read_trials):
    rows = read_trials(chain.path("filtered"))
    assert [row["k"] for row in rows[:3]] == ["20", "3", "60"]
    assert [row["chosen"] for row in rows[:3]] == ["1", "0", "0"] and len(rows) == 9
    kept = load_file(chain.path("filter/kept.safetensors"))["keep"]
    assert [int(row["fine_tune_count"]) for row in rows[:3]] == kept[:, 0].sum(1).tolist()


def test_with_all_poisons_dropped_all_targets_see_the_same_training(chain, read_trials, tmp_path):
    data = load_prepared(chain.path("prepare/data.safetensors"))
    keep = torch.ones(1, 3, 200, dtype=torch.bool)
    keep[:, :, data.trials(**chain.trials).base_positions_in_fine_tune] = False
    control = torch.ones(1, 1, 200, dtype=torch.bool)
    save_file({"keep": keep, "control": control, "k": torch.tensor([0])}, tmp_path / "kept.safetensors")
    inputs = {**INPUTS, "poisons": "craft/poisons.safetensors", "kept": str(tmp_path / "kept.safetensors")}
    chain.step("train", "dropped", chain.poisoned, **inputs)
    rows = read_trials(chain.path("dropped"))
    assert len({row["test_accuracy_frac"] for row in rows}) == 1
    assert {row["poisons_count"] for row in rows} == {"0"}
    assert {row["poisons_fitted_frac"] for row in rows} == {""}  # none is left to be fitted


def test_a_poison_outside_its_ball_is_a_failed_attack_with_its_reason(chain, read_trials, tmp_path):
    """The other targets are scored as before; the control shows that the flag alone decides."""
    poisons = load_file(chain.path("craft/poisons.safetensors"))["poisons"]
    poisons[2, 1] = 255 - poisons[2, 1]
    save_file({"poisons": poisons}, tmp_path / "poisons.safetensors")
    wants_any = {**chain.poisoned, "poison_class": chain.trials["poison_class"]}
    record = chain.step(
        "train", "outside", wants_any, **INPUTS, poisons=str(tmp_path / "poisons.safetensors")
    )
    rows = read_trials(chain.path("outside"))
    assert rows[2]["success"] == "0" and record["metrics"]["rejected_count"] == 1
    assert any("eps allows" in note and rows[2]["target"] in note for note in record["notes"])
    assert rows[:2] == read_trials(chain.path("train"))[:2]
    assert len(rows) == 3  # counted, not dropped


def test_what_the_crafting_run_rejected_stays_rejected(chain, read_trials, tmp_path):
    crafted = load_file(chain.path("craft/poisons.safetensors"))
    crafted["rejected"] = torch.tensor([1, 0, 0], dtype=torch.uint8)
    save_file(crafted, tmp_path / "poisons.safetensors")
    record = chain.step(
        "train", "marked", chain.poisoned, **INPUTS, poisons=str(tmp_path / "poisons.safetensors")
    )
    assert record["metrics"]["rejected_count"] == 1
    assert read_trials(chain.path("marked"))[0]["success"] == "0"


def test_test_features_of_the_clean_run_give_the_same_numbers(chain, read_trials):
    given = {**INPUTS, "poisons": "craft/poisons.safetensors", "features": "clean/features.safetensors"}
    chain.step("train", "with_features", chain.poisoned, **given)
    assert read_trials(chain.path("with_features")) == read_trials(chain.path("train"))


def test_the_control_is_the_clean_run_behind_the_same_filter(chain, read_trials):
    """Without a filter it is the clean run itself; with one, a head trained on what the filter keeps of the clean set."""
    clean, poisoned = read_trials(chain.path("clean")), read_trials(chain.path("train"))
    assert [row["control_predicted"] for row in poisoned] == [row["predicted"] for row in clean]
    data = load_prepared(chain.path("prepare/data.safetensors"))
    trials, victim = data.trials(**chain.trials), files.load(chain.path("victim/weights.safetensors"))
    images, labels = data.fine_tune()
    features = embed(victim, images)
    recipe = {k: chain.fine_tuning[k] for k in ("epochs", "batch_size", "lr", "weight_decay")}
    for number, k in enumerate((20, 3, 60)):
        keep = torch.as_tensor(DeepKNN(k=k).fit_predict(features, labels) == 1).float()[:, None, None]
        heads, _, _ = fine_tune(features[:, None], labels, keep, victim.head, milestones=(3,), **recipe)
        alone = (embed(victim, trials.target_images) @ heads.weight[0, 0].T + heads.bias[0, 0]).argmax(1)
        rows = [row for row in read_trials(chain.path("filtered")) if row["k"] == str(k)]
        assert [int(row["control_predicted"]) for row in rows] == alone.tolist(), number
        for row, found in zip(rows, alone.tolist(), strict=True):
            assert int(row["control_success"]) == int(found == chain.trials["poison_class"])


def test_what_a_victim_has_learned_of_its_set_and_of_the_poisons(chain, read_trials):
    data = load_prepared(chain.path("prepare/data.safetensors"))
    trials, victim = data.trials(**chain.trials), files.load(chain.path("victim/weights.safetensors"))
    images, labels = data.fine_tune()
    images[trials.base_positions_in_fine_tune] = load_file(chain.path("craft/poisons.safetensors"))[
        "poisons"
    ][2]
    features, recipe = (
        embed(victim, images),
        {k: chain.fine_tuning[k] for k in ("epochs", "batch_size", "lr")},
    )
    heads, _, _ = fine_tune(
        features[:, None], labels, torch.ones(len(labels), 1, 1), victim.head, milestones=(3,), **recipe
    )
    learned = (features @ heads.weight[0, 0].T + heads.bias[0, 0]).argmax(1) == labels
    row = read_trials(chain.path("train"))[2]
    assert float(row["train_accuracy_frac"]) == pytest.approx(float(learned.float().mean()))
    poisons = learned[trials.base_positions_in_fine_tune].float().mean()
    assert float(row["poisons_fitted_frac"]) == pytest.approx(float(poisons))
    metrics = json.loads((chain.path("train") / "record.json").read_text())["metrics"]
    rows = read_trials(chain.path("train"))
    for name in ("train_accuracy_frac", "poisons_fitted_frac"):
        assert metrics[name] == pytest.approx(sum(float(row[name]) for row in rows) / len(rows))


def test_shares_count_kept_points_once_and_none_of_nothing():
    learned = torch.tensor([True, True, False, False])[:, None, None].expand(4, 1, 3)
    keep = torch.tensor([[3.0, 1.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0]])[:, None]
    assert shares(learned, keep) == [[0.5, 0.5, ""]]


def test_a_head_in_training_mode_by_hand(chain, read_trials):
    """Batches are normalised by their own statistics, the running ones move, and only the head learns."""
    from torch.nn.functional import cross_entropy

    settings = {**chain.poisoned, "train_mode": True, "epochs": 2, "batch_size": 200, "milestones": []}
    chain.step("train", "train_mode", settings, **INPUTS, poisons="craft/poisons.safetensors")
    data = load_prepared(chain.path("prepare/data.safetensors"))
    trials = data.trials(**chain.trials)
    images, labels = data.fine_tune()
    poisoned = images.clone()
    poisoned[trials.base_positions_in_fine_tune] = load_file(chain.path("craft/poisons.safetensors"))[
        "poisons"
    ][1]
    found = []
    for pixels in (poisoned, images):
        net = files.load(chain.path("victim/weights.safetensors")).train()
        adam = torch.optim.Adam(net.head.parameters(), lr=settings["lr"])
        for _ in range(2):  # one batch an epoch
            adam.zero_grad()
            cross_entropy(net(pixels.float() / 255), labels).backward()
            adam.step()
        with torch.no_grad():
            found.append(int(net.eval()(trials.target_images[1:2].float() / 255).argmax()))
            right = (net(pixels.float() / 255).argmax(1) == labels).float().mean()
        if pixels is poisoned:
            fitted = float(right)
    row = read_trials(chain.path("train_mode"))[1]
    assert [int(row["predicted"]), int(row["control_predicted"])] == found
    assert float(row["train_accuracy_frac"]) == pytest.approx(fitted, abs=0.011)
    assert row["train_accuracy_frac"] != read_trials(chain.path("train"))[1]["train_accuracy_frac"]


def test_end_to_end_by_hand(chain, read_trials):
    """Every layer moves, by Adam on the poisoned images, the batch statistics frozen."""
    from torch.nn.functional import cross_entropy

    settings = {**chain.whole, "epochs": 2, "batch_size": 200, "lr": 0.01}
    settings |= {"weight_decay": 5.0e-4, "milestones": [1], "targets": 2, "test_images": 30}
    chain.step("train", "whole", settings, **INPUTS, poisons="craft/poisons.safetensors")
    data = load_prepared(chain.path("prepare/data.safetensors"))
    trials = data.trials(**{**chain.trials, "targets": 2})
    net = files.load(chain.path("victim/weights.safetensors")).eval()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    images, labels = data.fine_tune()
    images[trials.base_positions_in_fine_tune] = load_file(chain.path("craft/poisons.safetensors"))[
        "poisons"
    ][1]
    adam = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5.0e-4)
    for epoch in range(2):  # one batch of all images an epoch: their order plays no part
        adam.param_groups[0]["lr"] = 0.01 * (0.1 if epoch >= 1 else 1.0)
        adam.zero_grad()
        cross_entropy(net(images.float() / 255), labels).backward()
        adam.step()
    test_images, test_labels = (part[:30] for part in data.test())
    with torch.no_grad():
        right = (net(test_images.float() / 255).argmax(1) == test_labels).float().mean()
        predicted = net(trials.target_images[1:].float() / 255).argmax(1)
    rows = read_trials(chain.path("whole"))
    assert len(rows) == 2 and int(rows[1]["predicted"]) == int(predicted)
    with torch.no_grad():
        learned = net(images.float() / 255).argmax(1) == labels
    assert float(rows[1]["train_accuracy_frac"]) == pytest.approx(float(learned.float().mean()), abs=0.02)
    assert float(rows[1]["poisons_fitted_frac"]) in (0.0, 0.5, 1.0)
    assert float(rows[1]["test_accuracy_frac"]) == pytest.approx(float(right), abs=0.04)
    after = net.state_dict()
    assert any(not torch.equal(before[name], after[name]) for name in before if name.startswith("stem"))
    assert all(torch.equal(before[name], after[name]) for name in before if "running" in name)


def test_a_vote_of_parts_is_certified_against_poisons_and_control(chain, read_trials):
    """By hand: votes of heads of parts on the poisoned set; what no image can change is the same in the control's set."""
    from relearn.methods.partition_aggregation import certified, digest, train, votes

    settings = {**chain.poisoned, "defence": "partition_aggregation", "parts": 20, "poisons": 2}
    record = chain.step("train", "voting", settings, **INPUTS, poisons="craft/poisons.safetensors")
    data = load_prepared(chain.path("prepare/data.safetensors"))
    trials, victim = data.trials(**chain.trials), files.load(chain.path("victim/weights.safetensors"))
    images, labels = data.fine_tune()
    poisoned = images.clone()
    poisoned[trials.base_positions_in_fine_tune] = load_file(chain.path("craft/poisons.safetensors"))[
        "poisons"
    ][1]
    recipe = {key: settings[key] for key in ("parts", "epochs", "lr", "milestones")}
    targets, (test_images, test_labels) = embed(victim, trials.target_images), data.test()
    found = []
    for pixels in (poisoned, images):
        names = [digest(one) for one in pixels]
        heads = train([(names, embed(victim, pixels), labels)], victim.head, **recipe)
        found.append(
            [
                certified(votes(heads.weight[0], heads.bias[0], x))
                for x in (targets, embed(victim, test_images))
            ]
        )
    (attacked, under_attack), (alone, clean) = found
    rows = read_trials(chain.path("voting"))
    assert len(rows) == 3
    row = rows[1]
    assert [int(row["predicted"]), int(row["certified_count"])] == [int(one[1]) for one in attacked]
    assert [int(row["control_predicted"]), int(row["control_certified_count"])] == [
        int(one[1]) for one in alone
    ]
    right = under_attack[0] == test_labels
    assert float(row["test_accuracy_frac"]) == pytest.approx(float(right.float().mean()), abs=0.006)
    shares = [record["metrics"][f"certified_accuracy_{r}_frac"] for r in (0, 1, 2, 5)]
    right = clean[0] == test_labels
    wanted = [float((right & (clean[1] >= r)).float().mean()) for r in (0, 1, 2, 5)]
    assert shares == pytest.approx(wanted, abs=0.006) and shares == sorted(shares, reverse=True)
    assert shares[0] > shares[1] > 0


@pytest.mark.parametrize("defence", ["mixup", "cutmix"])
def test_an_end_to_end_victim_on_mixed_batches_by_hand(chain, read_trials, defence):
    from relearn.methods import mixing
    from relearn.methods.end_to_end import fine_tune_network, predictions

    recipe = {"epochs": 2, "batch_size": 50, "lr": 0.01, "weight_decay": 0.0, "milestones": []}
    settings = {**chain.whole, **recipe, "targets": 1, "test_images": 30}
    chain.step(
        "train",
        defence,
        {**settings, "defence": defence, "alpha": 1.0},
        **INPUTS,
        poisons="craft/poisons.safetensors",
    )
    chain.step("train", f"without_{defence}", settings, **INPUTS, poisons="craft/poisons.safetensors")
    data = load_prepared(chain.path("prepare/data.safetensors"))
    images, labels = data.fine_tune()
    images[data.trials(**chain.trials).base_positions_in_fine_tune] = load_file(
        chain.path("craft/poisons.safetensors")
    )["poisons"][0]
    mix = getattr(mixing, defence)(1.0, classes=10)
    seen = []

    def watched(batch, generator):
        mixed = mix(batch, generator)
        seen.append(mixed[1].clone())
        return mixed

    victim = files.load(chain.path("victim/weights.safetensors"))
    tuned, fitted = fine_tune_network(victim, images, labels, **recipe, mix=watched)
    row = read_trials(chain.path(defence))[0]
    assert float(row["train_loss_nats"]) == pytest.approx(fitted.history[-1]["loss"], rel=1e-3)
    assert int(row["predicted"]) == int(predictions(tuned, data.trials(**chain.trials).target_images[:1]))
    assert row["train_loss_nats"] != read_trials(chain.path(f"without_{defence}"))[0]["train_loss_nats"]
    assert len(seen) == 8 and all(torch.allclose(y.sum(1), torch.ones(50)) for y in seen)
    assert any(((y > 0) & (y < 1)).any() for y in seen)


def test_the_clean_run_has_no_threat_and_the_poisoned_ones_say_how_much_was_known(chain):
    clean, poisoned = (json.loads((chain.path(n) / "record.json").read_text()) for n in ("clean", "train"))
    assert clean["threat_model"] is None and poisoned["threat_model"]["knowledge"] == "gray_box"
