"""train_char_lm: train a character Transformer or LSTM as a language model and measure its NLL.

The setting ``attention`` selects one kind of attention for the Transformer, or the LSTM. Source: kim2020.

Settings: the model: attention (dp | l2 | l2_tied | l2_matched | contractive | lstm), layers, dim, heads, ffn, dropout, norm,
init_scale, glorot, small_start (optional, only for dp: a control initialised in L2 attention's range),
max_length (characters of the longest line; the network has one more position, for the start symbol);
the recipe: steps, batch_size (lines), schedule (inverse_sqrt | constant), lr or gamma (``lr`` = gamma / sqrt(dim warmup_steps)),
warmup_steps, betas, adam_eps (default 1e-8), clip_norm (null: no clipping), diverged_above (a loss in nats above which the run ends as
diverged; without it, only a non-finite loss counts as divergence); evaluations (number, evenly spaced, the last one at the end).
Inputs: characters; tuning (optional): records of runs that trained the same model with other recipes. Schedule, rate, warm-up
and dropout are then taken from the record with the lowest validation NLL, even if that run diverged; without it they are required.
Output: history.csv (epoch, step, loss, lr, valid_nll_nats, test_nll_nats, train_nll_nats), weights.safetensors (the network with
the lowest validation NLL, see relearn.models.files).

An NLL is in nats per target (a character or a line end). It is computed over all lines of the prepared validation or test part, in single
precision and without dropout. train_nll_nats is the same over ``TRAIN_LINES`` evenly spaced training lines, which are the same for every
run. loss is the mean over the training batches since the previous row, with dropout. Runs that differ only in attention use the same
batches.

Metrics: test_nll_best_nats is the lowest test NLL of all evaluations, which kim2020 reports (table 2) and which is selected on the
test part; test_nll_nats is the test NLL at the evaluation with the lowest validation NLL, valid_nll_best_nats. test_bpc_best is
test_nll_best_nats in bits. test_nll_without_attention_nats is the test NLL of the stored network with zeros in place of what its
attention layers return (not for the LSTM): a network that uses attention has a lower test_nll_nats. train_nll_first_nats is
measured before the first step, train_nll_nats at the last evaluation. step_s is the mean time of a training step without evaluations
(CPU time on a CPU, wall time on a GPU, of this process alone).

``not_converged``: the lowest validation NLL is not 0.05 nats (:data:`LEARNED`) below the unigram NLL, i.e. that of a model without
context. unigram_nats is the validation NLL of the unigram model fitted to the training part.

The metrics of a diverged run come from its evaluations before divergence. If it diverges before the first evaluation, its initial network
is evaluated and recorded as step 0 of the history.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relearn.runs.settings import picked
from relearn.steps.trained.recipe import AdamRecipe

if TYPE_CHECKING:
    import torch

    from relearn.data.character_batches import CharacterBatches
    from relearn.data.characters import PreparedCharacters
    from relearn.models.character_lm import CharacterLSTM, CharacterTransformer

NEEDS_TORCH = True
TRAIN_LINES = 256
LEARNED = 0.05
"""Nats below the unigrams' validation NLL from which on a model has learned something of the text."""
TUNED = ("schedule", "gamma", "lr", "warmup_steps", "dropout")
"""What the recipes differ in."""
COLUMNS = ("epoch", "step", "loss", "lr", "valid_nll_nats", "test_nll_nats", "train_nll_nats")


@dataclass(frozen=True, kw_only=True)
class Settings:
    attention: str
    layers: int
    dim: int
    heads: int
    ffn: int
    norm: str
    init_scale: float
    glorot: str
    small_start: bool = False
    max_length: int
    steps: int
    batch_size: int
    betas: tuple[float, float]
    adam_eps: float = 1.0e-8
    clip_norm: float | None
    diverged_above: float | None = None
    evaluations: int
    schedule: str | None = None
    gamma: float | None = None
    lr: float | None = None
    warmup_steps: int | None = None
    dropout: float | None = None


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    from functools import partial

    import torch

    from relearn.data.character_batches import CharacterBatches
    from relearn.data.characters import load_characters
    from relearn.data.ngrams import cross_entropies
    from relearn.methods.token_loss import token_loss, tokens
    from relearn.models import character_lm
    from relearn.steps.csv_rows import write_history
    from relearn.steps.trained.best import Best
    from relearn.steps.trained.seed import seed_of
    from relearn.steps.trained.train import train

    prepared = load_characters(inputs["characters"][0])
    notes = []
    if tried := inputs.get("tuning"):
        chosen = chosen_recipe(tried)
        settings = replace(settings, **chosen)
        words = ", ".join(f"{key} {value}" for key, value in chosen.items())
        notes.append(f"recipe: {words}; the best of {len(tried)} on the validation lines")
    recipe = recipe_of(settings)
    net = network(settings, prepared).to(device)
    lines = partial(CharacterBatches, batch_size=settings.batch_size, device=device)
    parts = {name: lines(prepared.part(name)) for name in ("valid", "test")}
    parts["train"] = lines(some(prepared, "train", TRAIN_LINES))
    start = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    with torch.no_grad():
        first = nll(net.eval(), parts["train"])
    best = Best(run.work, character_lm.FILE.save)  # by the negative validation NLL

    def evaluate(model: Any) -> dict[str, float]:
        """Evaluate all parts; empty if an NLL is not finite, which can happen before any training loss shows it."""
        found = {f"{name}_nll_nats": nll(model, part) for name, part in parts.items()}
        if not all(map(math.isfinite, found.values())):
            return {}
        best.offer(model, -found["valid_nll_nats"])
        return found

    ended = train(
        run,
        f"train_char_lm {settings.attention} {settings.layers}",
        net,
        lines(prepared.part("train")),
        recipe=recipe,
        evaluate=evaluate,
        judged_by="valid_nll_nats",
        device=device,
        diverged="loss not finite, or beyond diverged_above",
        loss=partial(token_loss, smoothing=0.0),
        terms=tokens,
        optimizer="adam",
        diverged_above=settings.diverged_above,
        seed=seed_of(run.labels, run.seed, "layers", "recipe"),  # the same batches for every attention
        precision=precision,
    )
    history = ended.fitted.history
    measured = [row for row in history if "valid_nll_nats" in row]
    if not measured:
        net.load_state_dict(start)
        with torch.no_grad():
            measured = [{"epoch": 0.0, "step": 0.0, **evaluate(net.eval())}]
        history = [*measured, *history]
    write_history(run, COLUMNS, history)
    weights = run.output("weights.safetensors")
    best.copy_to(weights)
    found = summary(measured)
    trained = character_lm.FILE.load(weights, device).eval()
    if isinstance(trained, character_lm.CharacterTransformer):
        with torch.no_grad(), character_lm.without_attention(trained):
            found["test_nll_without_attention_nats"] = nll(trained, parts["test"])
    unigram, _ = cross_entropies(
        prepared.flat("train"), prepared.flat("valid"), vocabulary=prepared.vocabulary
    )
    if ended.outcome == "ok" and found["valid_nll_best_nats"] > unigram - LEARNED:
        ended.not_converged(f"validation NLL not {LEARNED} nats below the unigrams' {unigram:.3f}")
    metrics = {
        **found,
        "unigram_nats": unigram,
        "train_nll_first_nats": first,
        "steps_count": float(ended.fitted.steps),
        "parameters_count": float(sum(parameter.numel() for parameter in net.parameters())),
        **ended.clock.per_step(),
    }
    run.finish(
        metrics,
        **ended.finish(),
        notes=[
            *notes,
            f"{prepared.dataset}: NLL of {len(parts['valid'])} valid and {len(parts['test'])} test lines, ends of lines counted",
        ],
    )


def chosen_recipe(records: Sequence[Path]) -> dict[str, Any]:
    """The settings :data:`TUNED` of the record with the lowest validation NLL (the first in a tie)."""
    import json

    found = [json.loads(path.read_text(encoding="utf-8")) for path in records]
    best = min(found, key=lambda record: float(record["metrics"]["valid_nll_best_nats"]))
    return {key: best["settings"][key] for key in TUNED if key in best["settings"]}


def network(settings: Settings, prepared: PreparedCharacters) -> CharacterTransformer | CharacterLSTM:
    """Create the model of a run's settings for a prepared text; its weights are drawn from torch's global generator.

    Raises:
        ValueError: the text has lines longer than ``max_length``, or the model rejects a setting.
    """
    from relearn.models.character_lm import create

    if prepared.max_length > settings.max_length:
        raise ValueError(
            f"max_length: {settings.max_length} (allowed: at least {prepared.max_length}, as {prepared.dataset} was prepared)"
        )
    sizes = picked(settings, "attention", "layers", "dim", "heads", "ffn", "dropout", "norm")
    start = picked(settings, "init_scale", "glorot", "small_start")
    return create(vocabulary=prepared.vocabulary, max_length=settings.max_length + 1, **sizes, **start)


def summary(measured: list[dict[str, float]]) -> dict[str, float]:
    """Metrics of the evaluations; see the module."""
    chosen = min(measured, key=lambda row: row["valid_nll_nats"])
    least = min(row["test_nll_nats"] for row in measured)
    return {
        "test_nll_best_nats": least,
        "test_nll_nats": chosen["test_nll_nats"],
        "test_bpc_best": least / math.log(2),
        "valid_nll_best_nats": chosen["valid_nll_nats"],
        "train_nll_nats": measured[-1]["train_nll_nats"],
    }


def nll(net: torch.nn.Module, lines: CharacterBatches) -> float:
    """Mean negative log-likelihood over all non-padding targets, in nats; the caller must set eval mode and disable gradients."""
    from relearn.methods.token_loss import token_loss, tokens

    total = count = 0.0
    for _, (given, targets) in lines.in_order():
        terms = float(tokens(targets))
        total += terms * float(token_loss(net(given), targets, smoothing=0.0))
        count += terms
    return total / count


def some(prepared: PreparedCharacters, part: str, count: int) -> Any:
    """At most ``count`` lines of a part, evenly spaced."""
    from relearn.data.evenly_spaced import evenly_spaced_places
    from relearn.data.token_batches import Ragged

    lines = prepared.part(part)
    rows = evenly_spaced_places(len(lines), count)
    return Ragged.of([lines[row].tolist() for row in rows])


def recipe_of(settings: Settings) -> AdamRecipe:
    """The recipe; its peak learning rate is ``lr``, or gamma / sqrt(dim warmup_steps).

    Raises:
        ValueError: an incomplete recipe, or both lr and gamma.
    """
    from relearn.methods.schedules import vaswani_peak

    schedule, warmup, lr, gamma = settings.schedule, settings.warmup_steps, settings.lr, settings.gamma
    if schedule is None or warmup is None or settings.dropout is None:
        raise ValueError(
            f"schedule, warmup_steps, dropout: found {schedule}, {warmup} and {settings.dropout} "
            "(allowed: all of them, or records of tuning)"
        )
    if (lr is None) == (gamma is None):
        raise ValueError(f"lr, gamma: found {lr} and {gamma} (allowed: one of the two)")
    return AdamRecipe(
        lr=lr or vaswani_peak(gamma or 0.0, settings.dim, warmup),
        weight_decay=0.0,
        schedule=schedule,
        warmup_steps=warmup,
        **picked(settings, "steps", "evaluations", "clip_norm", "betas", "adam_eps"),
    )
