"""convert_roberta: convert a pretrained encoder to long-short attention and fine-tune it on texts.

zhu2022, section 5.3.1 and table 5.4: "the pretraining procedure of Longformer", applied to RoBERTa. There are three stages, each with
its own ``{steps, warmup_steps, batch_size, lr, weight_decay}``: ``pretrain`` trains an encoder by masked language modelling on the
training texts if there is no checkpoint; ``convert_pretrain`` continues after the conversion (null or 0 steps: left out); ``finetune``
trains the classifier.

Settings: attention (full | long_short); dataset (imdb | python, see relearn.data.lra.text), train_samples, valid_samples, test_samples
(0: all), max_bytes (maximum length of a python passage); checkpoint (null, or a RoBERTa model with masked language modelling: a name on
the hub, subject to its cache and offline switch, or a folder; its tokenizer is used); config {layers, dim, heads, ffn, dropout,
vocabulary, max_length} (of the network and tokenizer that are trained if checkpoint is null); max_length (tokens after the conversion;
before it, and for full attention, the checkpoint's own); window, rank; mask_frac (share of tokens to predict); the stages; betas,
adam_eps, schedule, clip_norm of all stages; evaluations (number of evaluations in finetune, evenly spaced, the last one at the end).
Inputs: none. ``$RELEARN_MIRROR/imdb`` may hold the reviews.
Output: history.csv (stage, step, loss, dev_accuracy_frac, lr), predictions.csv (sample, label, predicted), model.safetensors (the
network with the best dev accuracy, the earliest of equals; see relearn.models.long_short_roberta_files).

The loss is in nats: per masked token in the first two stages, per text in the last. ``step`` counts within a stage. The norms of
long-short attention are initialised from one batch of valid texts (relearn.models.long_short_roberta.convert). Runs with the same seed
share initial weights, batches, masked tokens and the initial head for every attention, provided that they read texts of equal length.

Differences from the paper: a checkpoint is trained further only on the training texts, not on texts "similar to RoBERTa's"; window,
rank and the fine-tuning recipe are ours, because the paper does not state them. No optimiser state is carried between stages.

Metrics: acc_frac and dev_acc_frac of the selected network, last_acc_frac of the last one, most_frequent_frac; mlm_loss_start_nats
(before any training here), mlm_loss_pretrained_nats (before the conversion), mlm_loss_converted_nats (right after it; long_short only),
mlm_loss_nats (before fine-tuning), all on the same masked tokens of the valid texts; train_loss_nats (last row of the history),
parameters_count, steps_count (of all stages), tokens_longest_count, cut_frac (share of truncated test texts), step_s (of
fine-tuning: CPU time of this process on a CPU, wall time on a GPU).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relearn.runs.settings import picked
from relearn.steps.trained.chance import BELOW, above_chance
from relearn.steps.trained.classes import class_error, predict, share
from relearn.steps.trained.masked_tokens import guess_error, guess_loss, terms
from relearn.studies.long_short.steps.convert_start import (
    STAGES,
    Settings,
    Stage,
    length_of,
    read,
    start,
    token_batches,
)

if TYPE_CHECKING:
    from torch import Tensor

    from relearn.data.masked_batches import TokenBatches
    from relearn.methods.fit import Fitted

NEEDS_TORCH = True
CLASSES = 2
HISTORY = ("stage", "step", "loss", "dev_accuracy_frac", "lr")


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    import torch

    from relearn.models import long_short_roberta_files as files
    from relearn.models.long_short_roberta import classifier, convert
    from relearn.models.roberta_calls import Classes, Guesses
    from relearn.runs.checkpoint import Checkpoint
    from relearn.steps.csv_rows import write_rows
    from relearn.steps.trained.best import Best
    from relearn.steps.trained.clock import Clock
    from relearn.steps.trained.seed import seed_of

    texts, source = read(settings)
    torch.manual_seed(run.seed)  # the same initial weights after every restart
    net, tokenizer = start(settings, texts["train"][0])
    before, long = length_of(net), settings.attention == "long_short"
    after = max(before, settings.max_length or 0) if long else before
    done = Checkpoint(run.work / "stages")  # finished stages; `fit` keeps its own checkpoint within a stage
    state = done.load() or {"done": 0, "history": [], "steps": 0, "metrics": {}}
    history, metrics, steps = list(state["history"]), dict(state["metrics"]), int(state["steps"])
    outcome, at, reason = "ok", None, None
    clock = Clock(device)

    def batches(part: str, size: int, longest: int, hidden: float | None) -> TokenBatches:
        return token_batches(texts[part], tokenizer, longest, size, hidden, device)

    def mlm(longest: int) -> float:
        rows = batches("valid", settings.pretrain.batch_size, longest, settings.mask_frac)
        return guess_loss(Guesses(net).eval(), rows, precision)

    def stage(name: str, own: Stage, model: Any, part: TokenBatches, loss: Any, **more: Any) -> Fitted:
        nonlocal steps
        fitted = train(run, settings, name, own, model, part, loss, steps, clock, precision, **more)
        history.extend(
            {"stage": name, **{key: row.get(key) for key in HISTORY[1:]}} for row in fitted.history
        )
        steps += fitted.steps
        return fitted

    def finished(count: int) -> None:
        kept = {"done": count, "history": history, "steps": steps, "metrics": metrics}
        done.save({**kept, "net": net.state_dict()})

    def loaded() -> None:
        net.load_state_dict(state["net"])
        net.to(device)

    net = net.to(device)
    if state["done"] == 1:
        loaded()
    if state["done"] < 1:
        metrics["mlm_loss_start_nats"] = mlm(before)
        if settings.checkpoint is None:
            size = settings.pretrain.batch_size
            part = batches("train", size, before, settings.mask_frac)
            fitted = stage("pretrain", settings.pretrain, Guesses(net), part, guess_error)
            outcome, at = fitted.outcome, fitted.outcome_step
        if outcome == "ok":
            metrics["mlm_loss_pretrained_nats"] = metrics["mlm_loss_nats"] = mlm(before)
            finished(1)
    if long and outcome == "ok":
        (sample, real), _ = next(batches("valid", 32, before, None).in_order())
        assert settings.window is not None and settings.rank is not None  # as `Settings` checks
        torch.manual_seed(seed_of({"stage": "convert"}, run.seed, "stage"))
        convert(net, window=settings.window, rank=settings.rank, max_length=after, sample=(sample, real))
        if state["done"] == 2:
            loaded()
        else:
            metrics["mlm_loss_converted_nats"] = metrics["mlm_loss_nats"] = mlm(after)
            if (own := settings.convert_pretrain) and own.steps:
                part = batches("train", own.batch_size, after, settings.mask_frac)
                fitted = stage("convert_pretrain", own, Guesses(net), part, guess_error)
                outcome, at = fitted.outcome, fitted.outcome_step
                if outcome == "ok":
                    metrics["mlm_loss_nats"] = mlm(after)
            if outcome == "ok":
                finished(2)
    after = length_of(net)  # unchanged if the run diverged before the conversion
    torch.manual_seed(seed_of({"stage": "head"}, run.seed, "stage"))
    whole = Classes(classifier(net, CLASSES).to(device))
    best = Best(run.work, lambda model, path: files.save(model.net, path), least=-1.0)
    size = settings.finetune.batch_size
    valid, test = (batches(part, size, after, None) for part in ("valid", "test"))

    def evaluate(model: Any) -> dict[str, float]:
        clock.stop()
        found = predict(model, valid, precision)
        right = None if found is None else share(found, valid.labels)
        if right is not None:
            best.offer(model, right)
        clock.start()
        return {} if right is None else {"dev_accuracy_frac": right}

    if outcome == "ok":
        clock.spent, clock.steps = 0.0, 0
        head = {name: tensor.clone() for name, tensor in whole.state_dict().items()}
        part = batches("train", size, after, None)
        fitted = stage("finetune", settings.finetune, whole, part, class_error, evaluate=evaluate)
        outcome, at = fitted.outcome, fitted.outcome_step
        if outcome == "ok" and "dev_accuracy_frac" not in fitted.history[-1]:
            outcome, at, reason = "diverged", fitted.steps, "outputs not finite"
        last = predict(whole, test, precision)
        if not best.file.exists():  # diverged before the first evaluation
            whole.load_state_dict(head)
            right = predict(whole.eval(), valid, precision)
            best.keep(whole, math.nan if right is None else share(right, valid.labels))
    else:  # a diverged encoder is not fine-tuned
        last = None
        best.keep(whole.eval(), 0.0)
    if outcome == "diverged" and reason is None:
        reason = "loss not finite"
    found = predict(Classes(files.load(best.file, device)), test, precision)
    chance = float(test.labels.bincount().max()) / len(test)
    metrics |= {
        "most_frequent_frac": chance,
        "parameters_count": float(sum(parameter.numel() for parameter in whole.parameters())),
        "steps_count": float(steps),
        "tokens_longest_count": float(max(len(row) for row in test.rows)),
        "cut_frac": sum(len(row) == after for row in test.rows) / len(test),
    }
    if found is not None:
        metrics["acc_frac"] = share(found, test.labels)
    if last is not None:
        metrics["last_acc_frac"] = share(last, test.labels)
    dev = [row["dev_accuracy_frac"] for row in history if row["dev_accuracy_frac"] is not None]
    if dev:
        metrics["dev_acc_frac"] = max(dev)
    if history and history[-1]["stage"] == STAGES[2] and history[-1]["loss"] is not None:
        metrics["train_loss_nats"] = history[-1]["loss"]
        learned = found is not None and better(metrics, chance, len(test))
        if outcome == "ok" and not learned:
            outcome, reason = "not_converged", "neither loss nor accuracy better than a constant answer"
    if outcome != "diverged":
        metrics |= clock.per_step()
    write_rows(run.output("history.csv"), HISTORY, history)
    write_rows(
        run.output("predictions.csv"),
        ("sample", "label", "predicted"),
        (
            [place, int(label), None if found is None else int(found[place])]
            for place, label in enumerate(test.labels)
        ),
    )
    best.copy_to(run.output("model.safetensors"))
    run.finish(
        {key: value for key, value in metrics.items() if math.isfinite(value)},
        outcome=outcome,
        outcome_step=at,
        outcome_reason=reason,
        notes=[
            f"{settings.dataset}, {len(tokenizer)} tokens, at most {after} a text",
            "source: " + json.dumps(source, sort_keys=True),
        ],
    )


def train(
    run: Any,
    settings: Settings,
    name: str,
    own: Stage,
    model: Any,
    part: TokenBatches,
    loss: Callable[..., Tensor],
    before: int,
    clock: Any,
    precision: str,
    evaluate: Any = None,
) -> Fitted:
    """Train ``model`` in place for one stage, after ``before`` steps of earlier stages."""
    from relearn.methods.fit import fit
    from relearn.runs.checkpoint import Checkpoint
    from relearn.runs.console import Progress
    from relearn.steps.trained.recipe import AdamRecipe
    from relearn.steps.trained.seed import seed_of

    recipe = AdamRecipe(
        **picked(own, "steps", "lr", "weight_decay", "warmup_steps"),
        **picked(settings, "evaluations", "schedule", "clip_norm", "betas", "adam_eps"),
    )
    with Progress(f"convert_roberta {settings.attention} {name}") as progress:
        clock.start()
        fitted = fit(
            model,
            part,
            loss=loss,
            terms=terms if part.hidden_frac is not None else None,
            **recipe.fit_arguments(),
            seed=seed_of({"stage": name}, run.seed, "stage"),  # the same batches for every attention
            precision=precision,
            evaluate=evaluate,
            log=lambda step, **values: run.log(before + step, **values),
            progress=clock.counting(progress),
            checkpoint=Checkpoint(run.work / name),
        )
        clock.stop()
    model.eval()
    return fitted


def better(metrics: Mapping[str, float], chance: float, tested: int) -> bool:
    """Whether the loss is 2% below ln 2, or the test accuracy 2 standard errors above that of the most frequent class."""
    loss_learned = metrics["train_loss_nats"] < BELOW * math.log(CLASSES)
    return loss_learned or above_chance(metrics["acc_frac"], chance, tested)
