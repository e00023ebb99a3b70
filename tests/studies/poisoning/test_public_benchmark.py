"""The public benchmark: trials, training sets, victims against separate trainings, its pickles, and the published table."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from relearn import cli
from relearn.data import public_benchmark as benchmark
from relearn.data.images import Images
from relearn.methods import augmentation
from relearn.models import create, files
from relearn.report import published
from relearn.studies.poisoning import public_benchmark as measured
from relearn.studies.study import load

SIDE, EACH = 8, 9
SMALL = dataclasses.replace(
    benchmark.TRANSFER, poisons=3, train_count=60, trials=4, epochs=12, milestones=(8,), batch_size=60, lr=0.5
)
LABELS = np.arange(10).repeat(EACH)


@pytest.fixture
def data() -> Images:
    """Each class is a bright block at its own place, so that a linear layer on pixels separates the classes."""
    rng = np.random.default_rng(0)

    def images(labels: Any) -> Any:
        made = rng.integers(0, 60, (len(labels), 3, SIDE, SIDE), dtype=np.uint8)
        for image, label in zip(made, labels):
            image.reshape(3, -1)[:, 6 * label : 6 * label + 6] += 150
        return made

    order = rng.permutation(len(LABELS))
    return Images(images(LABELS[order]), LABELS[order], tuple("abcdefghij"), {}, images(LABELS), LABELS)


class Pixels(nn.Module):
    """Features are the pixels themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3 * SIDE**2, 10)

    def features(self, x: Tensor) -> Tensor:
        return x.flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


def trials_of(data: Images, protocol: benchmark.Protocol = SMALL) -> list[benchmark.Trial]:
    assert data.test_labels is not None
    return benchmark.draw(protocol, data.train_labels, data.test_labels)


def bases_of(data: Images, trials: list[benchmark.Trial]) -> Any:
    return np.stack([data.train_images[list(one.bases)] for one in trials])


def test_trials_obey_the_rule_and_never_change(data: Images) -> None:
    labels = np.arange(50_000) % 10
    found = benchmark.draw(benchmark.TRANSFER, labels, labels[:10_000])
    benchmark.check(found, benchmark.TRANSFER, labels, labels[:10_000])
    assert len(found) == len({one.target for one in found}) == 100
    assert len({(one.target_class, one.base_class) for one in found}) > 30  # of 90 ordered pairs
    other = benchmark.draw(dataclasses.replace(benchmark.TRANSFER, seed=1), labels, labels[:10_000])
    assert benchmark.digest(found)[:16] == "887284846f675d3f"
    assert benchmark.digest(other) != benchmark.digest(found)
    with pytest.raises(ValueError, match="a class has 9 training images, allowed: 25 or more"):
        benchmark.draw(benchmark.TRANSFER, data.train_labels, LABELS)


def test_trials_that_do_not_fit_the_data_are_refused(data: Images) -> None:
    good = trials_of(data)
    for changed, said in (
        ({"bases": good[0].bases[:2]}, "trial 0: found 2 bases"),
        ({"base_class": good[0].target_class}, "allowed: 3 bases, two different classes"),
        ({"target": (good[0].target + EACH) % len(LABELS)}, "trial 0: found target"),
        ({"target": 10**6}, "trial 0: found target 1000000"),
        ({"base_class": ({0, 1, 2} - {good[0].target_class, good[0].base_class}).pop()}, "bases of other"),
    ):
        wrong = [dataclasses.replace(good[0], **changed), *good[1:]]
        with pytest.raises(ValueError, match=said):
            benchmark.check(wrong, SMALL, data.train_labels, LABELS)


def test_a_training_set_holds_the_first_images_of_each_class_that_are_no_bases(data: Images) -> None:
    for trial in trials_of(data):
        rows = benchmark.training_rows(trial, SMALL, data.train_labels)
        places = range(*benchmark.poison_places(trial, SMALL).indices(len(rows)))
        assert tuple(rows[list(places)]) == trial.bases
        slow = []
        for label in range(10):
            free = [i for i, y in enumerate(data.train_labels) if y == label and i not in trial.bases]
            slow += free[: 3 if label == trial.base_class else 6]
        assert [row for place, row in enumerate(rows) if place not in places] == slow
    with pytest.raises(ValueError, match=r"class \d: found \d images besides the bases, allowed: \d+"):
        benchmark.training_rows(trial, dataclasses.replace(SMALL, train_count=100), data.train_labels)


def alone(data: Images, trial: benchmark.Trial, poisons: Any, t: int) -> tuple[int, int]:
    """The slow truth without augmentation: a linear layer per set, trained on whole sets by torch's own SGD."""
    rows = benchmark.training_rows(trial, SMALL, data.train_labels)
    answers = []
    for own in (poisons, data.train_images[list(trial.bases)]):
        pixels = data.train_images[rows].copy()
        pixels[benchmark.poison_places(trial, SMALL)] = own
        x, y = torch.from_numpy(pixels).flatten(1) / 255.0, torch.arange(10).repeat_interleave(6)
        torch.manual_seed(1000 * 7 + t)
        head = nn.Linear(x.shape[1], 10)
        optimizer = torch.optim.SGD(head.parameters(), lr=0.5, momentum=0.9, weight_decay=SMALL.weight_decay)
        for epoch in range(SMALL.epochs):
            optimizer.param_groups[0]["lr"] = 0.5 * (0.1 if epoch >= 8 else 1.0)
            optimizer.zero_grad()
            nn.functional.cross_entropy(head(x), y).backward()
            optimizer.step()
        assert data.test_images is not None
        answers.append(
            int(head(torch.from_numpy(data.test_images[[trial.target]]).flatten(1) / 255.0).argmax())
        )
    return answers[0], answers[1]


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(augmentation, "crop_and_flip", lambda padding, flip: lambda images, generator: images)


def test_all_trials_at_once_are_separate_trainings(data: Images, still: None) -> None:
    trials = trials_of(data)
    assert data.test_images is not None
    targets = np.stack([data.test_images[[one.target] * 3] for one in trials])
    poisons = bases_of(data, trials)
    poisons[:2] = targets[:2]  # two attacks that cannot fail, two without any change
    found = measured.transfer(Pixels(), poisons, trials, data, SMALL, seed=7)
    slow = [alone(data, one, own, t) for t, (one, own) in enumerate(zip(trials, poisons))]
    assert [(row["predicted"], row["control_success"]) for row in found] == [
        (attacked, int(control == one.base_class)) for (attacked, control), one in zip(slow, trials)
    ]
    assert [row["success"] for row in found] == [1, 1, 0, 0]
    assert all(row["control_success"] == 0 and row["test_accuracy_frac"] > 0.9 for row in found)


def test_unchanged_bases_are_their_own_control_with_augmentation_too(data: Images) -> None:
    trials = trials_of(data)
    weak = dataclasses.replace(
        SMALL, batch_size=16, epochs=1, lr=0.01
    )  # victims that still err, so that it can fail
    found = measured.transfer(Pixels(), bases_of(data, trials), trials, data, weak)
    assert [row["success"] for row in found] == [row["control_success"] for row in found]


def test_poisons_outside_the_ball_or_of_another_form_are_refused(data: Images) -> None:
    trials = trials_of(data)
    poisons = bases_of(data, trials)
    poisons[1, 2, 0, 0, 0] += 8
    measured.check_poisons(poisons, trials, data, SMALL)
    poisons[1, 2, 0, 0, 0] += 1
    with pytest.raises(
        ValueError, match="trial 1: found a change of 9/255 of a pixel, allowed: at most 8/255"
    ):
        measured.check_poisons(poisons, trials, data, SMALL)
    for wrong in (poisons[:, :2], np.concatenate([poisons, poisons]), poisons[:0]):
        with pytest.raises(ValueError, match=r"allowed: \(T, 3, 3, 8, 8\) with T up to 4"):
            measured.check_poisons(wrong, trials, data, SMALL)


def test_a_network_from_scratch_sees_the_poisons_in_their_places(
    data: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    from relearn.methods import fit as loop

    seen: list[Any] = []
    real = loop.fit

    def watched(net: Any, given: Any, **how: Any) -> Any:
        seen.append((given[0].numpy().copy(), given[1].numpy()))
        return real(net, given, **how)

    monkeypatch.setattr(loop, "fit", watched)
    trials = trials_of(data)[:2]
    poisons = bases_of(data, trials) ^ 1
    short = dataclasses.replace(SMALL, epochs=1, lr=0.01)
    found = measured.from_scratch(Pixels, poisons, trials, data, short, controls=True)
    assert len(seen) == 4 and [row["control_success"] is None for row in found] == [False, False]
    for t, trial in enumerate(trials):
        (attacked, labels), (control, _) = seen[2 * t : 2 * t + 2]
        place = benchmark.poison_places(trial, SMALL)
        assert (attacked[place] == poisons[t]).all() and (labels[place] == trial.base_class).all()
        assert (control[place] == data.train_images[list(trial.bases)]).all()
        rest = np.delete(np.arange(60), np.arange(60)[place])
        assert (attacked[rest] == control[rest]).all()
    (row,) = measured.from_scratch(Pixels, poisons[:1], trials, data, short)
    assert row["control_success"] is None


def test_scores_pool_the_networks_of_a_victim() -> None:
    rows = [
        {"victim": victim, "network": network, "trial": trial, "success": won, "control_success": 0}
        | {"test_accuracy_frac": 0.5}
        for victim, network, wins in (
            ("white_box", "a", (1, 1, 0)),
            ("black_box", "b", (1, 0, 0)),
            ("black_box", "c", (1, 0, 0)),
        )
        for trial, won in enumerate(wins)
    ]
    white, black = measured.scores(rows)
    assert (white.trials, white.networks, black.trials, black.networks) == (3, 1, 3, 2)
    assert (white.success.estimate, black.success.estimate) == pytest.approx((2 / 3, 1 / 3))
    # two networks that agree on every trial tell no more than one
    once = measured.scores([row for row in rows if row["network"] == "b"])[0]
    assert black.success.low <= once.success.low and black.success.high >= once.success.high


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("true",)


def test_the_repositorys_pickles_are_read_and_nothing_in_them_is_called(tmp_path: Path, data: Images) -> None:
    trials = trials_of(data)
    entries = [
        {"target class": one.target_class, "target index": np.int64(one.target), "base class": one.base_class}
        | {"base indices": np.array(one.bases), "more": None}
        for one in trials
    ]
    path = tmp_path / "setups.pickle"
    path.write_bytes(pickle.dumps(entries, protocol=pickle.HIGHEST_PROTOCOL))
    assert benchmark.read_trials(path) == trials
    poisons = np.random.default_rng(0).integers(0, 256, (11, 2, 3, 5, 5), dtype=np.uint8)
    for number, own in enumerate(poisons):
        folder = tmp_path / "poisons" / str(number)
        folder.mkdir(parents=True)
        pairs = [(Image.fromarray(image.transpose(1, 2, 0)), 3) for image in own]
        (folder / "poisons.pickle").write_bytes(pickle.dumps(pairs, protocol=pickle.HIGHEST_PROTOCOL))
    assert (benchmark.read_poisons(tmp_path / "poisons") == poisons).all()  # 2 comes before 10
    (tmp_path / "poisons" / "4").rename(tmp_path / "poisons" / "11")
    with pytest.raises(ValueError, match=r"found folders .*3, 5, .* allowed: numbers without a gap"):
        benchmark.read_poisons(tmp_path / "poisons")
    mixed = tmp_path / "mixed" / "0" / "poisons.pickle"
    mixed.parent.mkdir(parents=True)
    mixed.write_bytes(pickle.dumps([(pairs[0][0], 3), (pairs[1][0], 4)]))
    with pytest.raises(ValueError, match=r"found the labels \[3, 4\]"):
        benchmark.read_poisons(tmp_path / "mixed")
    for content, read in ((Evil(), benchmark.read_trials), ([(Evil(), 1)], None)):
        path.write_bytes(pickle.dumps(content))
        with pytest.raises(ValueError, match=r"it names posix.system; allowed: a pickle of plain data"):
            (read or benchmark.read_trials)(path)
    path.write_bytes(pickle.dumps(entries).replace(b"target", b"\xfftarget", 1))
    with pytest.raises(ValueError, match=r"setups\.pickle: .* allowed: a pickle of plain data"):
        benchmark.read_trials(path)
    path.write_bytes(pickle.dumps([{"target class": 1}]))
    with pytest.raises(ValueError, match="found no list of trials"):
        benchmark.read_trials(path)
    with pytest.raises(ValueError, match="found no"):
        benchmark.read_poisons(tmp_path)


def test_published_averages_are_means_but_for_the_noted_one() -> None:
    known = measured.published_rows(benchmark.SCRATCH)
    file = Path(measured.__file__).with_name("reported") / published.FILE
    notes = {one.row: one.note for one in published.read(file) if one.column == "average"}
    for attack, row in known.items():
        mean = sum(value for column, value in row.items() if column != "average") / 3
        assert (abs(mean - row["average"]) < 0.005) != (f"three cells is {mean:.2f}" in notes[attack])
    assert set(benchmark.SCRATCH.victims) < set(known["Witches' Brew"])
    assert set(measured.published_rows(benchmark.TRANSFER)["Bullseye Polytope"]) == {"white_box", "black_box"}


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch, data: Images) -> None:
    monkeypatch.setattr("relearn.data.load", lambda name, folder=None: data)
    own = dataclasses.replace(SMALL, trials_sha256=benchmark.digest(trials_of(data)))
    monkeypatch.setitem(benchmark.SETUPS, SMALL.name, own)
    short = dataclasses.replace(
        benchmark.SCRATCH, poisons=3, train_count=60, trials=2, epochs=1, milestones=(), lr=0.01
    )
    short = dataclasses.replace(short, trials_sha256=benchmark.digest(trials_of(data, short)))
    monkeypatch.setitem(benchmark.SETUPS, benchmark.SCRATCH.name, short)


def test_the_verb_prints_scores_beside_the_published_table(
    tmp_path: Path, data: Images, public: None, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = {"name": "ResNet18", "classes": 100, "in_channels": 3, "width": 0.0625, "depth": 0.25}
    victims = []
    for role in ("white_box", "black_box"):
        file = tmp_path / f"{role}.safetensors"
        files.save(create(**arguments), file, arguments)
        victims.append(f"{role}={file}")
    poisons = tmp_path / "poisons.npz"
    np.savez(poisons, poisons=bases_of(data, trials_of(data))[:3])
    words = [
        "evaluate-poisons",
        str(poisons),
        "--setup",
        SMALL.name,
        "--device",
        "cpu",
        "--out",
        str(tmp_path / "own"),
    ]
    assert cli.main([*words, "--victims", *victims]) == 0
    out = capsys.readouterr().out
    assert f"{SMALL.name}: 3 of 4 trials, drawn by relearn" in out
    assert "white_box" in out and " 85 " in out.split("published")[1]
    record = json.loads((tmp_path / "own/benchmark.json").read_text())
    assert [one["role"] for one in record["victims"]] == ["white_box", "black_box"]
    assert record["scores"][0]["trials"] == 3 and record["trials"]["count"] == 3
    assert (tmp_path / "own/benchmark.csv").read_text().count("\n") == 7
    for more, said, status in (
        ([], "--victims: found none, allowed with schwarzschild-transfer-v1: white_box=FILE", 2),
        (["--victims", "ResNet18"], "--victims: found ResNet18", 2),
        (["--victims", "white_box=none.safetensors"], "no such file", 3),
        (["--victims", victims[0], "--eps", "0.1"], "--eps: found 0.1", 2),
        (["--defences", "deep_knn"], f"--defences: found deep_knn, allowed with {SMALL.name}: no --def", 2),
        (["--defences"], f"--defences: found none, allowed with {SMALL.name}: no --defences", 2),
        (["--knowledge", "gray_box"], f"--knowledge: found gray_box, allowed with {SMALL.name}: no --kno", 2),
        (["--scale", "small"], f"--scale: found small, allowed with {SMALL.name}: no --scale", 2),
        (["--results", str(tmp_path)], f"--results: found {tmp_path}, allowed with {SMALL.name}: no --r", 2),
        (["--controls"], f"--controls: found True, allowed with {SMALL.name}: no --controls", 2),
        (["--precision", "bf16"], f"--precision: found bf16, allowed with {SMALL.name}: fp32", 2),
    ):
        assert cli.main([*words, *more]) == status
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1
    assert cli.main(["setups", SMALL.name, "--trials"]) == 0
    assert len(json.loads(capsys.readouterr().out)["list"]) == 4


def test_files_of_one_name_are_networks_of_their_own(
    tmp_path: Path, data: Images, public: None, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = {"name": "ResNet18", "classes": 100, "in_channels": 3, "width": 0.0625, "depth": 0.25}
    victims = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        files.save(create(**arguments), tmp_path / folder / "model.safetensors", arguments)
        victims.append(f"black_box={tmp_path / folder / 'model.safetensors'}")
    np.savez(tmp_path / "poisons.npz", poisons=bases_of(data, trials_of(data))[:1])
    words = ["evaluate-poisons", str(tmp_path / "poisons.npz"), "--setup", SMALL.name, "--device", "cpu"]
    assert cli.main([*words, "--out", str(tmp_path / "own"), "--victims", *victims]) == 0
    assert "1 trials x 2 networks" in capsys.readouterr().out
    rows = (tmp_path / "own/benchmark.csv").read_text()
    assert rows.count("model.safetensors ") == 2 and str(tmp_path) not in rows


def test_the_verb_trains_from_scratch(
    tmp_path: Path,
    data: Images,
    public: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tiny: Callable[..., Any] = lambda name, **how: create(name, width=0.0625, depth=0.25, **how)  # noqa: E731
    monkeypatch.setattr("relearn.models.create", tiny)
    protocol = benchmark.SETUPS[benchmark.SCRATCH.name]
    poisons = tmp_path / "poisons.npz"
    np.savez(poisons, poisons=bases_of(data, trials_of(data, protocol))[:1])
    words = [
        "evaluate-poisons",
        str(poisons),
        "--setup",
        protocol.name,
        "--victims",
        "ResNet18",
        "--controls",
    ]
    # without oneDNN: with AVX2 alone, its gradient of so narrow a network corrupts the heap
    torch._C._set_mkldnn_enabled(False)
    try:
        assert cli.main([*words, "--device", "cpu", "--out", str(tmp_path / "own")]) == 0
    finally:
        torch._C._set_mkldnn_enabled(True)
    out = capsys.readouterr().out
    assert "ResNet18" in out and "Witches' Brew" in out and "1 trials x 1 networks" in out


def test_the_study_has_the_published_tables() -> None:
    file = Path(str(load("poisoning").part("study").__file__)).with_name("reported") / published.FILE
    assert {protocol.published for protocol in benchmark.SETUPS.values()} < {
        one.artefact for one in published.read(file)
    }


def test_the_page_shows_every_published_number() -> None:
    """Row by row, in the order of the columns of published.csv."""
    page = (Path(__file__).parents[3] / "docs" / "threat-models.md").read_text(encoding="utf-8")
    tables = ("schwarzschild2021.transfer", "schwarzschild2021.scratch", "schwarzschild2020.frozen")
    for name in (*tables, "schwarzschild2020.end_to_end"):
        known = measured.published_rows(dataclasses.replace(SMALL, published=name))
        assert known
        for attack, row in known.items():
            assert f"| {attack} | {' | '.join(f'{value:g}' for value in row.values())} |\n" in page
