"""finetune: train a sentence encoder on a task, with plain or adversarial gradients.

Source: zhu2022, chapter 3, tables 3.1 to 3.7.

Settings: encoder {family (roberta | bert | albert), checkpoint ("": none; a folder, or a name on the hub, whose cache and offline
switch apply), layers, dim, heads, ffn, embedding_dim (albert only), dropout, attention_dropout, vocabulary, max_length}; task (see
relearn.data.text_tasks), samples {train, dev, test (evenly spaced; 0: all), held_out (number of training samples that are held out;
optional)}; with_tasks (tasks with the same kind of answer whose training parts are added; Regents may be missing, which is recorded in
a note and in missing_tasks_count);
max_length (tokens of a text or pair, at most the encoder's);
method {kind (vanilla | pgd | free_at | freelb | yopo), passes, step_size, eps, start_norm, project, mask, reuse_masks (default true),
clean_first (freelb only; default false), inner and inner_step (yopo only)} (see relearn.methods.gradient_strategies; vanilla has only
its kind; eps may be null without projection); steps, warmup_steps,
batch_size, accumulate (micro-batches per batch, see relearn.methods.gradient_accumulation), lr, weight_decay, decay (which
parameters decay; default all), betas, adam_eps, schedule, clip_norm; dropout, attention_dropout (null: the encoder's own);
evaluations (number, evenly spaced, the last one at the end); answered (further tasks with the same kind of answer and classes whose
test parts the saved network also answers, e.g. ax for mnli; default none).
Inputs: encoder (encoder.safetensors of a pretrain_encoder run), or start (model.safetensors of another finetune run; its head is
reused if kind and classes are the same), or none: a checkpoint, or a randomly initialised encoder of these sizes with a vocabulary
learned from the training texts. Tasks may be stored in ``$RELEARN_MIRROR``. tried (optional): records of runs with other learning rates
and radii; lr, step_size, start_norm and eps are then those with the best mean score_frac over their seeds (the smallest in a tie).
Output: model.safetensors (the network with the best dev score, the earliest in a tie, with its tokenizer; see
relearn.studies.freelb.steps.sentence_files), history.csv (step, loss, dev_score_frac, lr), answers.csv (part: dev, test, mnli's
dev_mismatched and test_mismatched, or a task of ``answered``; id, label, logits: outputs of the saved network, joined by spaces, one
per class or candidate, or one value).

The loss is the cross entropy over classes or candidates, or the squared error of values. With FreeAT each minibatch is repeated
``passes`` times and every pass is an update. Steps, warm-up and schedule are then ``passes`` times as long, so all methods use the
same number of passes and the same minibatches. Runs with the same seed share the head's initialisation, the order of the batches
and the dropout seeds, whatever the method.

Metrics: held_out_score_frac (the main metric on the held-out samples); with ``tried``: tried_count (number of tried settings) and the
chosen lr, step_size and eps; score_frac (dev, the main metric of the task; coefficients are not rescaled), last_score_frac (after the
last step);
dev_accuracy_frac, dev_f1_frac (two classes), dev_mcc, dev_pearson, dev_spearman where they are defined, and the same for every other
labelled part, all for the saved network; majority_frac (dev accuracy of the best constant answer; for ranking at least that of a
random choice); train_loss_nats (train_squared_error for regression), parameters_count, updates_count, passes_count
(forward and backward passes of the training; YOPO's passes through its first block alone are not counted), skipped_count
(perturbations that were not updated because their gradient was not finite), cut_frac (share of dev rows as long as max_length),
step_s (CPU time of an update on a CPU, wall time on a GPU, of this process alone).
Outcome: ok, diverged, or not_converged: the dev score is not two standard errors better than a constant answer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relearn.steps.trained.recipe import AdamRecipe
from relearn.studies.freelb.steps.adversaries import Method, passes_of, replays_of
from relearn.studies.freelb.steps.finetune_scores import (
    LOSSES,
    learned,
    loss_of,
    majority,
    measured,
    predict,
    recorded,
    rows,
)
from relearn.studies.freelb.steps.finetune_search import chosen, search
from relearn.studies.freelb.steps.finetune_start import (
    Start,
    answered,
    check,
    gradient,
    missing,
    read,
    start,
)

if TYPE_CHECKING:
    from relearn.data.examples import Examples
    from relearn.data.sentence_batches import SentenceBatches

NEEDS_TORCH = True
HISTORY = ("step", "loss", "dev_score_frac", "lr")
APART = "held_out"
ANSWERS = ("part", "id", "label", "logits")


@dataclass(frozen=True, kw_only=True)
class Samples:
    train: int
    dev: int
    test: int
    held_out: int = 0


@dataclass(frozen=True, kw_only=True)
class Settings(AdamRecipe):
    encoder: Start
    task: str
    samples: Samples
    with_tasks: Sequence[str]
    max_length: int
    method: Method
    batch_size: int
    accumulate: int
    decay: str = "all"
    dropout: float | None
    attention_dropout: float | None = None
    answered: Sequence[str] = ()


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    import torch

    from relearn.data.sentence_batches import SentenceBatches
    from relearn.models import sentence_encoder_files as files
    from relearn.steps.csv_rows import write_history, write_rows
    from relearn.steps.trained.best import Best
    from relearn.steps.trained.seed import seed_of
    from relearn.steps.trained.train import train

    tried = inputs.get("tried", [])
    settings = chosen(settings, tried)
    check(settings)
    strategy, times = gradient(settings), replays_of(settings.method)
    task = read(settings)
    kind, classes = task.kind, task.classes

    def initial() -> tuple[Any, Any]:
        torch.manual_seed(seed_of({"stage": "head"}, run.seed, "stage"))  # the same head after every restart
        return start(settings, inputs, task)

    model, tokenizer = initial()
    model.to(device)

    def batches(examples: Examples) -> SentenceBatches:
        size, longest = settings.batch_size, settings.max_length
        return SentenceBatches(examples, tokenizer, batch_size=size, longest=longest, device=device)

    source: Any = batches(task.train)
    if times > 1:
        from relearn.methods.free_at import Replayed

        source = Replayed(source, times)
    parts = {name: batches(one) for name, one in answered(settings, task).items()}
    best = Best(run.work, lambda net, path: files.save(net, path, tokenizer.to_json()))

    def scores(name: str, outputs: list[list[float]] | None) -> dict[str, float]:
        labels = parts[name].examples.labels
        return {} if outputs is None or labels is None else measured(kind, classes, outputs, labels)

    def evaluate(net: Any) -> dict[str, float]:
        score = scores("dev", predict(net, parts["dev"], precision)).get(task.metric)
        if score is None:
            return {}
        best.offer(net, score)
        return {"dev_score_frac": score}

    ended = train(
        run,
        f"finetune {settings.task} {settings.method.kind}",
        model,
        source,
        recipe=replace(settings, steps=settings.steps * times, warmup_steps=settings.warmup_steps * times),
        evaluate=evaluate,
        judged_by="dev_score_frac",
        device=device,
        loss=loss_of(kind),
        gradient=strategy,
        decay=settings.decay,
        seed=seed_of({"stage": "finetune"}, run.seed, "stage"),  # the same batches for every method
        precision=precision,
    )
    fitted, clock = ended.fitted, ended.clock
    if not best.file.exists():  # diverged before the first evaluation
        best.keep(initial()[0].eval(), -math.inf)
    final, _ = files.load(best.file, device)
    outputs = {name: predict(final, part, precision) for name, part in parts.items()}
    found = {name: scores(name, out) for name, out in outputs.items()}
    chance = majority(task.dev, kind)
    metrics = {
        **{key: value for name, each in found.items() for key, value in recorded(name, each).items()},
        "parameters_count": float(sum(parameter.numel() for parameter in model.parameters())),
        "updates_count": float(fitted.steps),
        "passes_count": float(fitted.steps * passes_of(settings.method)),
        "skipped_count": float(getattr(strategy, "skipped_count", 0)),
        "cut_frac": parts["dev"].cut_count / int(parts["dev"].candidates.sum()),
    }
    if lacking := missing(task):
        metrics["missing_tasks_count"] = float(len(lacking))
    if chance is not None:
        metrics["majority_frac"] = chance
    metrics |= search(settings, tried)
    if task.metric in found.get(APART, {}):
        metrics["held_out_score_frac"] = found[APART][task.metric]
    if task.metric in found["dev"]:
        metrics["score_frac"] = found["dev"][task.metric]
    if ended.outcome != "diverged":
        metrics["last_score_frac"] = fitted.history[-1]["dev_score_frac"]
        metrics[LOSSES[kind]] = fitted.history[-1]["loss"]
        metrics |= clock.per_step()
        if not learned(task.metric, found["dev"], chance, len(task.dev)):
            ended.not_converged("dev not better than a constant answer")
    write_history(run, HISTORY, fitted.history)
    answers = {
        name: part for name, part in parts.items() if name != APART
    }  # the answers to held-out samples are not needed
    lines = (line for name, part in answers.items() for line in rows(name, part.examples, outputs[name]))
    write_rows(run.output("answers.csv"), ANSWERS, lines)
    best.copy_to(run.output("model.safetensors"))
    counts = ", ".join(f"{len(getattr(task, part))} {part}" for part in ("train", "dev", "test"))
    run.finish(
        {key: value for key, value in metrics.items() if math.isfinite(value)},
        **ended.finish(),
        notes=[
            f"{settings.task}: {counts} samples, {kind}, {len(tokenizer)} tokens",
            "source: " + json.dumps(task.source, sort_keys=True),
            *(f"with_tasks: {name} is missing; trained without it" for name in lacking),
        ],
    )
