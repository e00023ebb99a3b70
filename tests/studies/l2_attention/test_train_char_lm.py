"""language: numbers of one tiny run from characters to record; what is paired; resuming; divergence; what does not fit together."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from relearn.data.character_batches import CharacterBatches
from relearn.data.characters import load_characters
from relearn.models import character_lm
from relearn.models.character_lm import create
from relearn.runs import record
from relearn.runs.settings import read
from relearn.steps.trained.spacing import ROWS, spacing
from relearn.studies.l2_attention.steps import train_char_lm as language

from ...steps.recorded import by_command, check_resumes, rows_of

CHARACTERS = {
    "dataset": "pydoc_topics",
    "max_length": 40,
    "train_sentences": 300,
    "valid_sentences": 20,
    "test_sentences": 30,
}
SETTINGS = {
    "attention": "l2_tied",
    "layers": 1,
    "dim": 16,
    "heads": 2,
    "ffn": 32,
    "dropout": 0.1,
    "norm": "post_ln",
    "init_scale": 0.5,
    "glorot": "usual",
    "max_length": 40,
    "steps": 60,
    "batch_size": 16,
    "schedule": "inverse_sqrt",
    "gamma": 0.5,
    "warmup_steps": 10,
    "betas": [0.9, 0.98],
    "adam_eps": 1.0e-9,
    "clip_norm": None,
    "evaluations": 4,
}


class Bench:
    """Runs of the step in one folder."""

    def __init__(self, root: Path) -> None:
        self.runs = root / "results/mini/runs/l2_attention"
        self.characters = self.runs / "characters/characters.safetensors"

    def step(self, step: str, name: str, settings: dict, labels: dict[str, str], **inputs: Any) -> dict:
        return by_command("l2_attention", step, self.runs / name, settings, labels, **inputs)

    def language(self, name: str, **changes: object) -> dict:
        settings = {**SETTINGS, **changes}
        labels = {key: str(settings[key]) for key in ("attention", "layers")} | {"recipe": "test"}
        return self.step("train_char_lm", name, settings, labels, characters=self.characters)

    def history(self, name: str) -> list[dict[str, str]]:
        return rows_of(self.runs / name / "history.csv")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    bench = Bench(tmp_path_factory.mktemp("language"))
    bench.step("prepare_ptb_lines", "characters", CHARACTERS, {"dataset": "pydoc_topics"})
    bench.language("run")
    return bench


def measured(rows: list[dict[str, str]], key: str) -> list[float]:
    return [float(row[key]) for row in rows if row[key]]


def test_the_record_says_what_the_history_holds(bench: Bench) -> None:
    done, rows = record.read(bench.runs / "run"), bench.history("run")
    assert record.verify_outputs(done) == [] and done["outcome"] == "ok"
    assert set(done["outputs"]) == {"history.csv", "weights.safetensors"}
    assert tuple(rows[0]) == language.COLUMNS
    metrics = done["metrics"]
    valid, test = measured(rows, "valid_nll_nats"), measured(rows, "test_nll_nats")
    assert len(valid) == len(test) == SETTINGS["evaluations"] and len(rows) <= 60
    assert metrics["valid_nll_best_nats"] == min(valid)
    assert metrics["test_nll_nats"] == test[valid.index(min(valid))]
    assert metrics["test_nll_best_nats"] == min(test)
    assert metrics["test_bpc_best"] == pytest.approx(min(test) / math.log(2))
    assert metrics["train_nll_nats"] == measured(rows, "train_nll_nats")[-1]
    assert metrics["steps_count"] == float(rows[-1]["step"]) == 60
    assert metrics["step_s"] > 0


def test_the_loss_without_attention_is_that_of_blocks_that_add_nothing(bench: Bench) -> None:
    class Nothing(nn.Module):
        def forward(self, x: Tensor, causal: bool) -> Tensor:
            return torch.zeros_like(x)

    net = character_lm.FILE.load(bench.runs / "run/weights.safetensors").eval()
    for block in net.blocks:
        block.attention = Nothing()
    lines = CharacterBatches(load_characters(bench.characters).part("test"), batch_size=4, device="cpu")
    with torch.no_grad():
        expected = language.nll(net, lines)
    metrics = record.read(bench.runs / "run")["metrics"]
    assert metrics["test_nll_without_attention_nats"] == pytest.approx(expected, rel=1e-6)
    assert metrics["test_nll_nats"] != pytest.approx(expected, rel=1e-6)


def test_it_learns(bench: Bench) -> None:
    metrics = record.read(bench.runs / "run")["metrics"]
    unigram = record.read(bench.runs / "characters")["metrics"]["unigram_nats"]
    assert metrics["test_nll_best_nats"] < unigram < metrics["train_nll_first_nats"]
    assert metrics["train_nll_nats"] < metrics["train_nll_first_nats"] - 0.5


def test_a_model_at_the_unigrams_has_not_converged(bench: Bench) -> None:
    done = bench.language("idle", steps=4, adam_eps=1.0e9)  # no step at all
    assert done["outcome"] == "not_converged"
    assert done["outcome_reason"].startswith("validation NLL not 0.05 nats below the unigrams' ")
    floor = done["metrics"]["unigram_nats"]
    valid = load_characters(bench.characters).flat("valid")
    train = load_characters(bench.characters).flat("train")
    seen: dict[int, int] = {}
    for ids, offsets in (train,):
        for id_ in ids.tolist():
            seen[id_] = seen.get(id_, 0) + 1
        seen[2] = len(offsets) - 1  # an end a line
    kinds = load_characters(bench.characters).vocabulary - 2  # neither padding nor the start
    total = sum(seen.values()) + kinds
    targets = [*valid[0].tolist(), *[2] * (len(valid[1]) - 1)]
    own = -sum(math.log((seen.get(one, 0) + 1) / total) for one in targets) / len(targets)
    assert floor == pytest.approx(own, abs=0.02)


def test_the_control_starts_as_small_as_l2(bench: Bench) -> None:
    prepared = load_characters(bench.characters)
    own = {**SETTINGS, "attention": "dp", "init_scale": 1 / 24}

    def drawn(**changes: Any) -> Any:
        return language.network(read(language.Settings, own | changes), prepared)

    usual, small = drawn(), drawn(small_start=True)
    assert small.description == {**usual.description, "small_start": True}
    for net, most in ((usual, math.sqrt(6 / 32)), (small, 1 / 24 / math.sqrt(16))):
        weights = [map_.weight for map_ in net.attention_layers()[0].modules() if hasattr(map_, "weight")]
        largest = max(float(weight.detach().abs().max()) for weight in weights)
        assert 0.9 * most < largest <= most
    with pytest.raises(ValueError, match="small_start: true with 'l2'"):
        drawn(attention="l2", small_start=True)


def slow_nll(net: torch.nn.Module, lines: list[list[int]]) -> float:
    """Line by line, character by character, in float64: bos and the line are read, the line and eos predicted."""
    total, count = 0.0, 0
    for line in lines:
        with torch.no_grad():
            chances = net(torch.tensor([[1, *line]])).double().log_softmax(-1)[0]
        for t, target in enumerate([*line, 2]):
            total, count = total - float(chances[t, target]), count + 1
    return total / count


def test_nll_is_the_mean_over_all_targets_of_the_whole_part(bench: Bench) -> None:
    prepared = load_characters(bench.characters)
    net = character_lm.FILE.load(bench.runs / "run/weights.safetensors")
    metrics = record.read(bench.runs / "run")["metrics"]
    for part, key, count in (("valid", "valid_nll_best_nats", 20), ("test", "test_nll_nats", 30)):
        ragged = prepared.part(part)
        assert len(ragged) == count
        found = slow_nll(net, [ragged[i].tolist() for i in range(count)])
        assert metrics[key] == pytest.approx(found, rel=1e-5)  # the weights are those of the best validation


def test_the_sample_of_train_is_evenly_spaced_and_of_every_line_where_there_are_few(bench: Bench) -> None:
    prepared = load_characters(bench.characters)
    train, few = prepared.part("train"), language.some(prepared, "train", 7)
    assert [few[i].tolist() for i in range(7)] == [train[i * 300 // 7].tolist() for i in range(7)]
    assert len(language.some(prepared, "valid", 256)) == 20


def test_validation_chooses_and_the_papers_choice_is_another() -> None:
    names = ("valid_nll_nats", "test_nll_nats", "train_nll_nats")
    rows = [
        dict(zip(names, row, strict=True)) for row in ((3.0, 2.5, 2.4), (2.0, 2.25, 2.2), (2.5, 2.0, 2.1))
    ]
    assert language.summary(rows) == {
        "test_nll_best_nats": 2.0,
        "test_nll_nats": 2.25,
        "test_bpc_best": pytest.approx(2.0 / math.log(2)),
        "valid_nll_best_nats": 2.0,
        "train_nll_nats": 2.1,
    }


@given(steps=st.integers(1, 2000), evaluations=st.integers(1, 60))
def test_evaluations_are_evenly_spaced_and_rows_are_few(steps: int, evaluations: int) -> None:
    row, rows = spacing(steps, evaluations)
    assert math.ceil(steps / (row * rows)) <= evaluations
    if steps % evaluations == 0:
        assert row * rows * evaluations == steps
    assert math.ceil(steps / row) <= ROWS


def test_the_rate_follows_the_published_schedule(bench: Bench) -> None:
    for row in bench.history("run"):
        t = float(row["step"])  # the rate of the last step taken, which is step t counted from 1
        expected = 0.5 / math.sqrt(16) * min(t**-0.5, t * 10**-1.5)
        assert float(row["lr"]) == pytest.approx(expected)


def test_a_fixed_rate_is_used_unchanged(bench: Bench) -> None:
    changes = dict(schedule="constant", lr=0.004, gamma=None, warmup_steps=0, steps=4, evaluations=1)
    bench.language("fixed", **changes)
    assert {float(row["lr"]) for row in bench.history("fixed")} == {0.004}


def test_eps_and_dropout_reach_the_training(bench: Bench) -> None:
    still = bench.language("still", steps=4, adam_eps=1.0e9)[
        "metrics"
    ]  # an eps beyond all gradients: no step at all
    assert still["train_nll_nats"] == pytest.approx(still["train_nll_first_nats"], abs=1e-4)
    moved = bench.language("moved", steps=4)["metrics"]
    assert abs(moved["train_nll_nats"] - moved["train_nll_first_nats"]) > 0.01
    dry = bench.language("dry", steps=4, dropout=0.0)["metrics"]
    assert dry["train_nll_nats"] != moved["train_nll_nats"]


@pytest.mark.parametrize("attention", ["dp", "contractive", "lstm"])
def test_runs_that_differ_in_attention_alone_see_the_same_batches(
    bench: Bench, attention: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, list] = {}
    rows = CharacterBatches.rows

    def watched(self, generator):
        found = rows(self, generator)
        seen.setdefault(name, []).append([one.tolist() for one in found])
        return found

    monkeypatch.setattr(CharacterBatches, "rows", watched)
    for name, kind, layers in (("one", "l2_tied", 1), (attention, attention, 1), ("deeper", "dp", 2)):
        done = bench.language(f"paired_{attention}_{name}", attention=kind, layers=layers, steps=3)
        net = character_lm.FILE.load(bench.runs / f"paired_{attention}_{name}/weights.safetensors")
        assert net.description["attention"] == kind
        assert len(net.attention_layers()) == (0 if kind == "lstm" else layers)
        count = sum(parameter.numel() for parameter in net.parameters())
        assert done["metrics"]["parameters_count"] == count
    assert seen["one"] == seen[attention] != seen["deeper"]


def test_the_same_seed_gives_the_same_numbers(bench: Bench) -> None:
    first, again = (bench.language(name, steps=12)["metrics"] for name in ("first", "second"))
    assert {**first, "step_s": 0} == {**again, "step_s": 0}


def test_a_killed_job_resumes_and_ends_the_same(bench: Bench) -> None:
    whole = record.read(bench.runs / "run")
    at_50 = lambda _, state: state["steps"] == 50  # noqa: E731
    check_resumes(lambda: bench.language("again"), bench.runs / "again", whole, at_50)


def test_a_late_divergence_keeps_what_was_measured_before(bench: Bench) -> None:
    # The first evaluation comes before the rate has grown: then the warm-up overshoots all bounds.
    changes = dict(schedule="inverse_sqrt", lr=40.0, gamma=None, warmup_steps=60, norm="no_norm", layers=3)
    done = bench.language("late", **changes, diverged_above=50.0, evaluations=50)
    rows = bench.history("late")
    assert done["outcome"] == "diverged" and 1 <= done["outcome_step"] <= 60
    assert "beyond diverged_above" in done["outcome_reason"]
    valid = measured(rows, "valid_nll_nats")
    assert valid and done["metrics"]["valid_nll_best_nats"] == min(valid)
    assert float(rows[-1]["step"]) < done["outcome_step"] + 1


def test_the_weights_are_those_of_the_least_validation_nll(bench: Bench) -> None:
    # A rate that grows until nothing holds: the last evaluation is not the best one.
    bench.language("best", schedule="inverse_sqrt", lr=1.0, gamma=None, warmup_steps=60, evaluations=6)
    valid = measured(bench.history("best"), "valid_nll_nats")
    assert min(valid) < valid[-1] - 0.01
    part = load_characters(bench.characters).part("valid")
    net = character_lm.FILE.load(bench.runs / "best/weights.safetensors")
    assert slow_nll(net, [part[i].tolist() for i in range(20)]) == pytest.approx(min(valid), rel=1e-5)


def test_a_divergence_before_any_evaluation_leaves_the_start(bench: Bench) -> None:
    changes = dict(schedule="constant", lr=1.0e30, gamma=None, warmup_steps=0, norm="no_norm", evaluations=1)
    done = bench.language("early", **changes)
    assert done["outcome"] == "diverged" and done["outcome_step"] <= 60
    assert done["outcome_reason"] in ("loss not finite, or beyond diverged_above", "outputs not finite")
    first = bench.history("early")[0]
    assert (first["step"], first["loss"]) == ("0.0", "")
    metrics = done["metrics"]
    assert metrics["valid_nll_best_nats"] == float(first["valid_nll_nats"])
    assert metrics["train_nll_nats"] == metrics["train_nll_first_nats"]
    torch.manual_seed(0)  # the start, drawn again
    prepared = load_characters(bench.characters)
    words = ("attention", "layers", "dim", "heads", "ffn", "dropout", "init_scale", "glorot")
    net = create(
        **{key: SETTINGS[key] for key in words},
        norm="no_norm",
        vocabulary=prepared.vocabulary,
        max_length=41,
    )
    valid = prepared.part("valid")
    found = slow_nll(net.eval(), [valid[i].tolist() for i in range(20)])
    assert metrics["valid_nll_best_nats"] == pytest.approx(found, rel=1e-5)


def test_a_network_broken_by_its_last_step_is_a_divergence_too(bench: Bench) -> None:
    changes = dict(schedule="constant", lr=1.0e30, gamma=None, warmup_steps=0, norm="no_norm", evaluations=1)
    done = bench.language("last", **changes, steps=1)
    assert (done["outcome"], done["outcome_step"]) == ("diverged", 1)
    assert done["outcome_reason"] == "outputs not finite"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lr": 0.1}, r"lr, gamma: found 0.1 and 0.5 \(allowed: one of the two"),
        ({"gamma": None}, r"lr, gamma: found None and None \(allowed: one of the two"),
        ({"dropout": None}, r"dropout: found inverse_sqrt, 10 and None \(allowed: all of them, or records"),
        ({"max_length": 39}, r"max_length: 39 \(allowed: at least 40, as pydoc_topics was prepared"),
        ({"attention": "cosine"}, "attention: 'cosine'"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(bench: Bench, changes: dict, words: str) -> None:
    inputs = {"characters": [bench.characters]}
    with pytest.raises(ValueError, match=words) as error:
        language.run(None, read(language.Settings, {**SETTINGS, **changes}), inputs, "cpu", "fp32")
    assert "\n" not in str(error.value)


def test_the_recipe_of_the_lowest_validation_nll_is_taken(bench: Bench) -> None:
    """Three were tried, one diverged at once; the chosen run equals the one that was tried, but for its seed."""
    shared = {key: value for key, value in SETTINGS.items() if key not in language.TUNED} | {"steps": 20}
    tried = {
        "slow": {"schedule": "constant", "lr": 1e-6, "warmup_steps": 0, "dropout": 0.0},
        "best": {"schedule": "constant", "lr": 1e-2, "warmup_steps": 0, "dropout": 0.1},
        "lost": {"schedule": "inverse_sqrt", "gamma": 1e12, "warmup_steps": 1, "dropout": 0.0},
    }
    labels = {"attention": "l2_tied", "layers": "1", "recipe": "tuning"}
    data = {"characters": bench.characters}
    found = {
        name: bench.step("train_char_lm", f"tuning/{name}", shared | own, labels | {"tried": name}, **data)
        for name, own in tried.items()
    }
    assert found["lost"]["outcome"] == "diverged"
    records = [bench.runs / f"tuning/{name}/record.json" for name in tried]
    labels |= {"recipe": "warmup_chosen"}
    done = bench.step("train_char_lm", "chosen", shared, labels, **data, tuning=records)
    assert done["notes"][0] == (
        "recipe: schedule constant, lr 0.01, warmup_steps 0, dropout 0.1; the best of 3 on the validation lines"
    )
    first = found["best"]["metrics"]["train_nll_first_nats"]
    assert done["metrics"]["train_nll_first_nats"] == first  # the same start
    assert {row["lr"] for row in bench.history("chosen")} == {"0.01"}
