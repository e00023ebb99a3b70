"""max_loss_increase: numbers of a tiny run against plain loops from the files; radii, what is dropped, resuming, ranking, bad input."""

import json
import statistics
from pathlib import Path
from typing import Any

import pytest
import torch

from relearn import cli
from relearn.data import text_tasks
from relearn.data.examples import Examples
from relearn.data.sentence_batches import SentenceBatches
from relearn.data.sentence_vocabulary import train
from relearn.maths.eval_mode import frozen
from relearn.measures.loss_increase import largest_increase, sample_losses, sample_norms
from relearn.models import sentence_encoder_files as files
from relearn.models.sentence_encoder import classifier, configuration
from relearn.runs import record
from relearn.studies.freelb.steps import compared_networks, max_loss_increase
from relearn.studies.freelb.steps.sentence_files import load

from ...steps.recorded import rows_of

WORDS = ("sun", "rain", "wind", "snow", "fog", "hail", "dew", "ice")
SETTINGS: dict[str, Any] = {
    "task": "acceptability",
    "samples": 0,
    "max_length": 16,
    "references": ["freelb", "pgd"],
    "eps_frac": 0.5,
    "shrink": 0.2,
    "steps": 4,
    "step_size": 0.3,
    "starts": 2,
    "batch_size": 4,
}
NAMES = ("vanilla", "pgd", "freelb")


def sentences(count: int, candidates: int = 1) -> Examples:
    """Which of them say "sun" (a class), or the candidate that does; of different lengths."""
    generator = torch.Generator().manual_seed(count)
    rows: list[list[tuple[str, str | None]]] = []
    labels = torch.randint(0, max(2, candidates), (count,), generator=generator)
    for label in labels.tolist():
        sample: list[tuple[str, str | None]] = []
        for candidate in range(candidates):
            size = int(torch.randint(2, 6, (), generator=generator))
            said = [WORDS[1 + one] for one in torch.randint(0, 7, (size,), generator=generator).tolist()]
            if candidate == label if candidates > 1 else label:
                said[len(said) // 2] = "sun"
            sample.append((" ".join(said), None if candidates == 1 else "?"))
        rows.append(sample)
    return Examples(rows, labels, [f"s{place}" for place in range(count)])


def network(path: Path, part: Examples, family: str, seed: int, steps: int, **other: Any) -> None:
    """A tiny network that has seen the part a few times."""
    kind = other.get("kind", "ranking" if len(part.rows[0]) > 1 else "classification")
    tokenizer = train(family, [text for rows in part.rows for text, _ in rows] + ["?"] * 8, 300)
    torch.manual_seed(seed)
    config = configuration(
        family,
        layers=1,
        dim=16,
        heads=2,
        ffn=16,
        embedding_dim=8,
        dropout=0.0,
        attention_dropout=0.0,
        max_length=other.get("max_length", 16),
        vocabulary=len(tokenizer),
        special={"bos": tokenizer.bos, "pad": tokenizer.pad, "eos": tokenizer.eos},
    )
    model = classifier(config, kind, other.get("classes", 2 if kind == "classification" else 1))
    batches = SentenceBatches(part, tokenizer, batch_size=len(part), longest=16)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for (given, labels), _ in zip(list(batches.in_order()) * steps, range(steps)):
        optimiser.zero_grad()
        sample_losses(model(*given), labels)[0].mean().backward()
        optimiser.step()
    path.parent.mkdir(parents=True, exist_ok=True)
    files.save(model, path, tokenizer.to_json())


class Bench:
    """Runs of the step on the networks of one folder."""

    def __init__(self, root: Path, part: Examples, family: str = "roberta", **other: Any) -> None:
        self.root, self.part = root, part
        for seed, name in enumerate(NAMES):
            network(self.path(name), part, family, seed, 25 - 3 * seed, **other)

    def path(self, name: str) -> Path:
        return self.root / name / "model.safetensors"

    def run(self, name: str, *, names: tuple[str, ...] = NAMES, seed: int = 3, **changes: Any) -> int:
        words = ["freelb", "max_loss_increase", "--settings", json.dumps({**SETTINGS, **changes})]
        words += ["--device", "cpu", "--out", str(self.root / "runs" / name), "--seed", str(seed)]
        for one in names:
            words += ["--input", one, str(self.path(one))]
        return cli.main(words)

    def metrics(self, name: str) -> dict[str, float]:
        found: dict[str, float] = record.read(self.root / "runs" / name)["metrics"]
        return found

    def rows(self, name: str) -> list[dict[str, str]]:
        return rows_of(self.root / "runs" / name / "increases.csv")


def pretend(monkeypatch: pytest.MonkeyPatch, part: Examples) -> None:
    monkeypatch.setattr(max_loss_increase, "read", lambda task, samples: (part, {"files": "none"}))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    bench = Bench(tmp_path_factory.mktemp("max_loss_increase"), sentences(14))
    labels = bench.part.labels
    assert labels is not None
    labels[[3, 11]] = 1 - labels[[3, 11]]  # two that no network has learnt
    with pytest.MonkeyPatch.context() as patch:
        pretend(patch, bench.part)
        assert bench.run("run") == 0
    return bench


def one_by_one(bench: Bench, reference: str) -> dict[tuple[str, str], tuple[float, float | None, float]]:
    """(id, model) → radius, increase, loss: each sample alone, without padding, from the embeddings up, every radius in turn."""
    nets = {name: load(bench.path(name)) for name in NAMES}
    found: dict[tuple[str, str], tuple[float, float | None, float]] = {}
    labels = bench.part.labels
    assert labels is not None

    def attack(name: str, number: int, eps: Any, steps: int = 4) -> Any:
        net, tokenizer = nets[name]
        ids, _ = tokenizer.encode(bench.part.rows[number], 16)[0]
        embeds = net.get_input_embeddings()(torch.from_numpy(ids).long())[None].detach()
        real = torch.ones(embeds.shape[:2], dtype=torch.bool)
        radius = eps * float(sample_norms(embeds, real)) if isinstance(eps, int | float) else eps[0]

        def losses(given: torch.Tensor) -> Any:
            logits = net.net(inputs_embeds=given, attention_mask=real.long()).logits
            return sample_losses(logits, labels[[number]])

        with frozen(net):
            result = largest_increase(
                losses, embeds, real, radius, steps=steps, step_size=0.3, starts=2, seed=3, numbers=[number]
            )
        return radius, result

    for number, name in enumerate(bench.part.ids):
        clean = {model: attack(model, number, 0, 0)[1] for model in NAMES}
        if not all(bool(one.right) for one in clean.values()):
            continue
        radius, held = 0.0, False
        for level in range(5):
            radius, result = attack(reference, number, 0.5 * (1 - 0.2 * level))
            if held := bool(result.right):
                break
        for model in NAMES:
            increase = float(attack(model, number, [radius])[1].increases) if held else None
            found[name, model] = (radius if held else 0.0, increase, float(clean[model].losses))
    return found


@pytest.mark.parametrize("reference", ["freelb", "pgd"])
def test_the_files_say_what_plain_loops_find(bench: Bench, reference: str) -> None:
    truth = one_by_one(bench, reference)
    rows = {(row["id"], row["model"]): row for row in bench.rows("run") if row["reference"] == reference}
    assert set(rows) == set(truth) and len({eps for eps, _, _ in truth.values()}) > 2
    for key, (eps, increase, loss) in truth.items():
        assert float(rows[key]["eps"]) == pytest.approx(eps, rel=1e-5)
        assert float(rows[key]["loss_nats"]) == pytest.approx(loss, rel=1e-4, abs=1e-6)
        if increase is None:
            assert rows[key]["increase_nats"] == ""
        else:
            assert float(rows[key]["increase_nats"]) == pytest.approx(increase, rel=1e-3, abs=1e-5)


def test_the_record_says_what_the_files_hold(bench: Bench) -> None:
    done, rows, metrics = record.read(bench.root / "runs/run"), bench.rows("run"), bench.metrics("run")
    assert (
        record.verify_outputs(done) == []
        and done["outcome"] == "ok"
        and set(done["outputs"]) == {"increases.csv"}
    )
    assert tuple(rows[0]) == max_loss_increase.INCREASES
    right = len({row["id"] for row in rows})
    assert metrics["samples_count"] == right and metrics["dropped_count"] == 14 - right
    assert right == 12 and metrics["nonfinite_count"] == 0
    for reference in SETTINGS["references"]:
        some = [row for row in rows if row["reference"] == reference]
        unheld = {row["id"] for row in some if float(row["eps"]) == 0}
        assert metrics[f"unheld_{reference}_count"] == len(unheld)
        assert 0.1 - 1e-6 <= metrics[f"eps_{reference}_frac"] <= 0.5 + 1e-6
        for model in NAMES:
            own = [row for row in some if row["model"] == model]
            values = [float(row["increase_nats"]) for row in own if row["id"] not in unheld]
            assert min(values) >= 0 and metrics[f"increase_{model}_{reference}_nats"] == statistics.median(
                values
            )
            losses = [float(row["loss_nats"]) for row in own]
            assert metrics[f"loss_{model}_nats"] == statistics.median(losses)


def test_at_equal_loss_only_held_samples_of_about_the_same_loss_count() -> None:
    probe = object.__new__(max_loss_increase.Probe)
    probe.networks = dict.fromkeys(("one", "other"))  # type: ignore[assignment]
    probe.ids, probe.kept, probe.nonfinite = ["a", "b", "c", "d", "e"], [0, 1, 2, 3, 4], 0
    probe.losses = {"one": [1.0, 1.0, 1.0, 0.0, 1.0], "other": [1.25, 0.8, 1.26, 1.0, 1.0]}
    probe.increases = {
        ("pgd", "one"): dict(enumerate([0.1, 0.2, 9.0, 9.0])),
        ("pgd", "other"): dict(enumerate([0.4, 0.3, 1.0, 1.0])),
    }
    probe.radii = {"pgd": {"held": [0, 1, 2, 3], "shares": [0.1] * 4}}
    metrics = probe.metrics()
    assert metrics["equal_loss_one_other_pgd_count"] == 2
    assert metrics["equal_loss_one_other_pgd_nats"] == pytest.approx((0.3 + 0.1) / 2)


def test_batches_do_not_matter_and_a_killed_run_goes_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, bench.part)
    assert bench.run("whole", batch_size=14) == 0
    for one, other in zip(bench.rows("run"), bench.rows("whole")):
        assert [one[key] for key in ("id", "reference", "model")] == [
            other[key] for key in ("id", "reference", "model")
        ]
        assert float(one["eps"]) == pytest.approx(float(other["eps"]), rel=1e-5)
        if one["increase_nats"]:
            assert float(one["increase_nats"]) == pytest.approx(
                float(other["increase_nats"]), rel=1e-3, abs=1e-5
            )
    attack, calls, last = max_loss_increase.Probe.attack, 0, 4

    def counted(self: Any, *given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == last:
            raise KeyboardInterrupt
        return attack(self, *given)

    monkeypatch.setattr(max_loss_increase.Probe, "attack", counted)
    assert bench.run("again") != 0
    calls, last = 0, 0
    assert bench.run("again") == 0
    assert bench.rows("again") == bench.rows("run") and bench.metrics("again") == bench.metrics("run")
    rows, held = bench.rows("run"), bench.metrics("run")
    assert held["unheld_freelb_count"] < 4 and held["unheld_pgd_count"] < 4 and len(rows) == 2 * 3 * 12
    assert (
        calls == 2 * 3 * 3 - 3
    )  # references, networks, batches; three of these were done when it was killed


def test_the_dev_part_of_a_task_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    part, source = max_loss_increase.read("acceptability", 6)
    assert len(part) == 6 and part.labels is not None and part.labels.sum() == 3 and json.dumps(source)
    with pytest.raises(
        ValueError, match=r"^task: stsb is a regression without correct answers \(allowed: .*\)$"
    ):
        max_loss_increase.read("stsb", 0)
    with pytest.raises(ValueError, match=r"^task: 'tea' \(allowed: .*\)$"):
        max_loss_increase.read("tea", 0)
    bare = text_tasks.TextTask(
        "ax", part, Examples(part.rows, None, part.ids), part, "classification", 2, "mcc", {}
    )
    monkeypatch.setattr(text_tasks, "read", lambda *given: bare)
    with pytest.raises(ValueError, match=r"^task: ax has no labelled dev part \(allowed: .*\)$"):
        max_loss_increase.read("ax", 0)


@pytest.mark.parametrize("family", ["bert", "albert"])
def test_candidates_of_other_families(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str) -> None:
    part = sentences(8, candidates=3)
    bench = Bench(tmp_path, part, family)
    pretend(monkeypatch, part)
    assert bench.run("run", references=["freelb"], eps_frac=0.05, step_size=0.02, starts=1) == 0
    rows, metrics = bench.rows("run"), bench.metrics("run")
    assert metrics["samples_count"] >= 3 and {row["reference"] for row in rows} == {"freelb"}
    assert metrics["increase_vanilla_freelb_nats"] > 0 and "increase_vanilla_pgd_nats" not in metrics
    network = compared_networks.Network("x", bench.path("pgd"), part, batch_size=4, longest=16, device="cpu")
    some = network.samples(torch.arange(8))
    width = 8 if family == "albert" else 16
    assert some.embeds.shape == (*some.real.shape, width) and some.real.shape[:2] == (8, 3)
    own, _ = some.losses_of(torch.tensor([5, 2]))(some.embeds[[5, 2]])
    straight = sample_losses(network.net(*some.given), some.labels)[0]
    assert own.tolist() == pytest.approx(straight[[5, 2]].tolist(), rel=1e-4)
    assert not network.table._forward_hooks


def test_every_network_has_to_be_right(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has learnt nothing, first or last, is wrong where the others are right."""
    pretend(monkeypatch, bench.part)
    network(bench.path("raw"), bench.part, "roberta", 9, 0)
    labels, right = bench.part.labels, {}
    assert labels is not None
    for name in ("raw", "freelb"):
        net, tokenizer = load(bench.path(name))
        (given, _), *_ = SentenceBatches(bench.part, tokenizer, batch_size=14, longest=16).in_order()
        right[name] = [one for one, ok in zip(bench.part.ids, net(*given).argmax(1) == labels) if ok]
    both = set(right["raw"]) & set(right["freelb"])
    assert 0 < len(both) < min(map(len, right.values()))
    for names in (("raw", "freelb"), ("freelb", "raw")):
        assert bench.run("".join(names), names=names, references=["freelb"], steps=0, starts=1) == 0
        assert {row["id"] for row in bench.rows("".join(names))} == both


def test_without_a_sample_or_a_radius_there_is_no_increase(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = bench.part
    assert part.labels is not None
    right = [part.ids.index(row["id"]) for row in bench.rows("run")][:3]
    turned = part.part(right)
    assert turned.labels is not None
    pretend(monkeypatch, Examples(turned.rows, 1 - turned.labels, turned.ids))
    assert bench.run("none") == 0
    done = record.read(bench.root / "runs/none")
    assert done["outcome"] == "not_converged" and "answer correctly" in done["outcome_reason"]
    assert done["metrics"] == {
        "samples_count": 0.0,
        "dropped_count": 3.0,
        "nonfinite_count": 0.0,
        "unheld_freelb_count": 0.0,
        "unheld_pgd_count": 0.0,
    }
    assert bench.rows("none") == []
    pretend(monkeypatch, part)
    assert bench.run("far", eps_frac=1000.0, step_size=1000.0, shrink=1.0) == 0
    done = record.read(bench.root / "runs/far")
    assert done["outcome"] == "not_converged" and done["outcome_reason"].startswith("no radius")
    count = bench.metrics("run")["samples_count"]
    assert done["metrics"]["unheld_pgd_count"] == count and "increase_pgd_pgd_nats" not in done["metrics"]
    assert {row["increase_nats"] for row in bench.rows("far")} == {""}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"steps": -1}, "steps: -1 (allowed: at least 0)"),
        ({"batch_size": 0}, "batch_size: 0 (allowed: at least 1)"),
        ({"eps_frac": 0}, "eps_frac: 0 (allowed: above 0)"),
        ({"step_size": -1.0}, "step_size: -1.0 (allowed: above 0)"),
        ({"shrink": 0}, "shrink: 0 (allowed: above 0, at most 1)"),
        ({"references": []}, "references: none (allowed: some of vanilla, pgd, freelb, each once)"),
        ({"references": ["yopo"]}, "references: yopo (allowed: "),
        ({"references": ["pgd", "pgd"]}, "references: pgd, pgd (allowed: "),
        ({"max_length": 17}, "max_length: 17 (allowed: at most 16, as vanilla reads)"),
    ],
)
def test_bad_settings_are_refused_in_one_line(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any],
    said: str,
) -> None:
    pretend(monkeypatch, bench.part)
    assert bench.run("bad", **changes) != 0
    err = capsys.readouterr().err.strip()
    assert said in err and "\n" not in err


def test_networks_that_do_not_fit_are_refused(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(monkeypatch, sentences(8, candidates=3))
    assert bench.run("bad") != 0
    assert (
        "vanilla: a network of classification, 2 outputs (allowed: one of candidates)"
        in capsys.readouterr().err
    )
    part = bench.part
    assert part.labels is not None
    pretend(monkeypatch, Examples(part.rows, part.labels + 1, part.ids))
    assert bench.run("bad") != 0
    assert (
        "vanilla: a network of classification, 2 outputs (allowed: one of 3 classes or more)"
        in capsys.readouterr().err
    )
