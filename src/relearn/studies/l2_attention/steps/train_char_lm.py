"""language: train a character language model with one kind of attention (or an LSTM), and take its NLL.

Settings: the model: attention (dp | l2 | l2_tied | l2_matched | contractive | lstm), layers, dim, heads, ffn, dropout, norm,
init_scale, glorot, max_length (characters of the longest line; the network reads one place more, the start mark);
the recipe: steps, batch_size (lines), schedule (inverse_sqrt | constant), lr or gamma (``lr`` = gamma / sqrt(dim warmup_steps)),
warmup_steps, betas, adam_eps (1e-8 if it is not there), clip_norm (null: without), diverged_above (a loss in nats beyond it ends the
run; without it only a loss that is not finite does); evaluations (so many, evenly spaced, the last one at the end).
Input: characters.
Output: history.csv (epoch, step, loss, lr, valid_nll_nats, test_nll_nats, train_nll_nats), weights.safetensors (the network at its
least validation NLL, see relearn.models.files).

An NLL is in nats a target: a character or the end of a line, over all lines of the prepared valid and test part, in single precision and
without dropout. train_nll_nats is the same over ``TRAIN_LINES`` evenly spaced lines of train, the same ones for every run; loss is the
mean over the training batches since the row before, dropout included. Runs that differ in their attention alone see the same batches.

Metrics: test_nll_best_nats is the least test NLL of all evaluations, which is what kim2020 reports (table 2) and a choice made on the
test part; test_nll_nats is the one at the least validation NLL. test_bpc_best is test_nll_best_nats in bits. valid_nll_best_nats.
train_nll_first_nats before the first step, train_nll_nats at the last evaluation. step_s is the mean time of a training step without
evaluations: CPU time on a CPU, wall time on a GPU; of this process alone, where a killed one went before.

A run that diverges has been as good as it was before: its metrics are those of the evaluations so far. One that diverges before
its first evaluation has never been better than its start, so the start is evaluated, as the history's row of step 0.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relearn.steps.trained.clock import Clock
from relearn.steps.trained.spacing import spacing

if TYPE_CHECKING:
    import torch

    from relearn.data.character_batches import CharacterBatches
    from relearn.data.characters import PreparedCharacters
    from relearn.models.character_lm import CharacterLSTM, CharacterTransformer

NEEDS_TORCH = True
TRAIN_LINES = 256
COLUMNS = ("epoch", "step", "loss", "lr", "valid_nll_nats", "test_nll_nats", "train_nll_nats")


def run(run, settings: dict, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    from functools import partial

    import torch

    from relearn.data.character_batches import CharacterBatches
    from relearn.data.characters import load_characters
    from relearn.methods.fit import fit
    from relearn.methods.token_loss import token_loss, tokens
    from relearn.models import character_lm
    from relearn.runs.atomic_files import write
    from relearn.runs.checkpoint import Checkpoint
    from relearn.runs.console import Progress
    from relearn.steps.trained.seed import seed_of

    prepared = load_characters(inputs["characters"][0])
    peak = _peak(settings)
    net = network(settings, prepared).to(device)
    lines = partial(CharacterBatches, batch_size=settings["batch_size"], device=device)
    parts = {name: lines(prepared.part(name)) for name in ("valid", "test")}
    parts["train"] = lines(some(prepared, "train", TRAIN_LINES))
    start = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    with torch.no_grad():
        first = nll(net.eval(), parts["train"])
    best, kept = (
        run.work / "best.json",
        run.work / "best.safetensors",
    )  # outlive a kill, as the checkpoint does

    def evaluate(model: Any) -> dict[str, float]:
        clock.stop()
        found = {f"{name}_nll_nats": nll(model, part) for name, part in parts.items()}
        # Not finite: the last step broke the network, and no loss has told it yet. Then there is no likelihood.
        found = found if all(map(math.isfinite, found.values())) else {}
        valid = found.get("valid_nll_nats", math.inf)
        if valid < (json.loads(best.read_bytes()) if best.exists() else math.inf):
            half = kept.with_suffix(".part")
            character_lm.FILE.save(model, half)
            half.replace(kept)
            write(best, json.dumps(valid).encode())
        clock.start()
        return found

    row, rows = spacing(settings["steps"], settings["evaluations"])
    clock = Clock(device)
    with Progress(f"language {settings['attention']} {settings['layers']}") as progress:
        clock.start()
        fitted = fit(
            net,
            lines(prepared.part("train")),
            loss=partial(token_loss, smoothing=0.0),
            terms=tokens,
            steps=settings["steps"],
            lr=peak,
            optimizer="adam",
            betas=settings["betas"],
            eps=settings.get("adam_eps", 1.0e-8),
            schedule=settings["schedule"],
            warmup_steps=settings["warmup_steps"],
            clip_norm=settings["clip_norm"],
            diverged_above=settings.get("diverged_above"),
            seed=seed_of(run.labels, run.seed, "layers", "recipe"),  # the same batches for every attention
            precision=precision,
            evaluate=evaluate,
            evaluate_every=rows,
            history_steps=row,
            log=run.log,
            progress=clock.counting(progress),
            checkpoint=Checkpoint(run.work / "fit"),
            checkpoint_steps=max(50, settings["steps"] // 10),
        )
        clock.stop()
    history, outcome, at, reason = fitted.history, fitted.outcome, fitted.outcome_step, None
    if outcome == "diverged":
        reason = "loss not finite, or beyond diverged_above"
    elif "valid_nll_nats" not in history[-1]:
        outcome, at, reason = "diverged", fitted.steps, "outputs not finite"
    measured = [row for row in history if "valid_nll_nats" in row]
    if not measured:
        net.load_state_dict(start)
        with torch.no_grad():
            measured = [{"epoch": 0.0, "step": 0.0, **evaluate(net.eval())}]
        history = [*measured, *history]
    _history(run.output("history.csv"), history)
    run.output("weights.safetensors").write_bytes(kept.read_bytes())
    metrics = {
        **summary(measured),
        "train_nll_first_nats": first,
        "steps_count": float(fitted.steps),
        "parameters_count": float(sum(parameter.numel() for parameter in net.parameters())),
    }
    if clock.steps:  # none where a finished training is only written down
        metrics["step_s"] = clock.spent / clock.steps
    run.finish(
        metrics,
        outcome=outcome,
        outcome_step=at,
        outcome_reason=reason,
        notes=[
            f"{prepared.dataset}: NLL of {len(parts['valid'])} valid and {len(parts['test'])} test lines, ends of lines counted",
        ],
    )


def network(
    settings: Mapping[str, Any], prepared: PreparedCharacters
) -> CharacterTransformer | CharacterLSTM:
    """The model of a run's settings for a prepared text, its start drawn from torch's global generator.

    Raises:
        ValueError: lines that are longer than ``max_length``, or what the model refuses.
    """
    from relearn.models.character_lm import create

    if prepared.max_length > settings["max_length"]:
        raise ValueError(
            f"max_length: {settings['max_length']} (allowed: at least {prepared.max_length}, as {prepared.dataset} was prepared)"
        )
    words = ("attention", "layers", "dim", "heads", "ffn", "dropout", "norm", "init_scale", "glorot")
    sizes = {key: settings[key] for key in words}
    return create(**sizes, vocabulary=prepared.vocabulary, max_length=settings["max_length"] + 1)


def summary(measured: list[dict[str, float]]) -> dict[str, float]:
    """What the evaluations of a run say; see the module."""
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
    """Mean negative log-likelihood of all targets that are not padding, in nats; the caller sees to eval mode and gradients."""
    from relearn.methods.token_loss import token_loss, tokens

    total = count = 0.0
    for _, (given, targets) in lines.in_order():
        terms = float(tokens(targets))
        total += terms * float(token_loss(net(given), targets, smoothing=0.0))
        count += terms
    return total / count


def some(prepared: PreparedCharacters, part: str, count: int) -> Any:
    """At most ``count`` lines of a part, evenly spaced."""
    from relearn.data.token_batches import Ragged

    lines = prepared.part(part)
    rows = range(len(lines)) if len(lines) <= count else [i * len(lines) // count for i in range(count)]
    return Ragged.of([lines[row].tolist() for row in rows])


def _peak(settings: Mapping[str, Any]) -> float:
    """The highest learning rate: ``lr``, or what ``gamma`` makes of width and warm-up."""
    from relearn.methods.schedules import vaswani_peak

    lr, gamma = settings.get("lr"), settings.get("gamma")
    if (lr is None) == (gamma is None):
        raise ValueError(f"lr, gamma: found {lr} and {gamma} (allowed: one of the two)")
    return lr or vaswani_peak(gamma or 0.0, settings["dim"], settings["warmup_steps"])


def _history(path: Path, rows: list[dict[str, float]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
