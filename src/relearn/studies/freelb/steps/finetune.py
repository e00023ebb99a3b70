"""finetune: train an encoder of sentences on a task, plainly or with adversarial gradients (zhu2022, chapter 3, tables 3.1 to 3.7).

Settings: encoder {family (roberta | bert | albert), checkpoint ("": none; of the hub, whose cache and offline switch count, or a
folder), layers, dim, heads, ffn, embedding_dim (of albert), dropout, attention_dropout, vocabulary, max_length}; task (see
relearn.data.text_tasks), samples {train, dev, test} (evenly spaced; 0: all); with_tasks (training parts of other tasks of the same
kind that are trained on together with its own); max_length (tokens of a text or pair, at most what the encoder reads);
method {kind (vanilla | pgd | free_at | freelb | yopo), passes, step_size, eps, start_norm, project, clean_first, mask, reuse_masks,
inner and inner_step (of yopo)} (see relearn.methods.gradient_strategies; vanilla has its kind alone); steps, warmup_steps, batch_size,
accumulate (in so many shares a batch goes through the network, see relearn.methods.gradient_accumulation), lr, weight_decay,
decay (of what; all where it is left out), betas, adam_eps, schedule, clip_norm; dropout, attention_dropout (null: the encoder's own);
evaluations (so many, evenly spaced, the last one at the end); answered (other tasks of the same kind and classes, whose test parts the
kept network answers too: ax after mnli; none where it is left out).
Inputs: encoder (an acquire run's encoder.safetensors) or start (another finetune run's model.safetensors; its head stays where kind and
classes are the same), or none: a checkpoint, or an encoder of these sizes, drawn, with a vocabulary of the training texts.
``$RELEARN_MIRROR`` may hold the tasks.
Output: model.safetensors (the network at its best dev score, the earliest of equals, with its tokenizer; see
relearn.studies.freelb.steps.sentence_files), history.csv (step, loss, dev_score_frac, lr), answers.csv (part: dev, test, mnli's dev_mismatched and
test_mismatched, a task of ``answered``; id, label, logits: the outputs of the kept network joined by spaces, a class, a value or a
candidate each).

The loss is cross entropy over classes or candidates, or the squared error of values. With FreeAT each minibatch comes ``passes`` times
and every pass is an update: steps, warm-up and schedule are ``passes`` times as long, so that all methods cost the same passes and see
the same minibatches. Runs of one seed share the head's start, the order of the batches and the seeds of dropout, whatever the method.

Metrics: score_frac (dev, the task's main one; a coefficient is taken as it is), last_score_frac (after the last step); dev_accuracy_frac,
dev_f1_frac (two classes), dev_mcc, dev_pearson, dev_spearman where they are defined, the same for every other part that has labels, all of
the kept network; majority_frac (dev accuracy of the best constant answer, at least that of a random choice where candidates are
ranked); train_loss_nats (of values train_squared_error), parameters_count, updates_count, passes_count (forward and backward passes of
the training; YOPO's through its first block alone are not counted), skipped_count (perturbations left where they were, their gradient not
being finite), cut_frac (dev rows as long as max_length), step_s (CPU time of an update on a CPU, wall time on a
GPU, of this process alone).
Outcome: ok, diverged, or not_converged: dev not better than a constant answer by two standard errors.
"""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from relearn.studies.freelb.steps.finetune_start import (
    answered,
    check,
    gradient,
    passes,
    read,
    replays,
    start,
)

if TYPE_CHECKING:
    from relearn.data.examples import Examples
    from relearn.data.sentence_batches import SentenceBatches

NEEDS_TORCH = True
HISTORY = ("step", "loss", "dev_score_frac", "lr")
ANSWERS = ("part", "id", "label", "logits")
SAVED = 50  # steps from one checkpoint to the next, at least


def run(run, settings: dict, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    import torch

    from relearn.data.sentence_batches import SentenceBatches
    from relearn.methods.fit import fit
    from relearn.models import sentence_encoder_files as files
    from relearn.runs.atomic_files import write
    from relearn.runs.checkpoint import Checkpoint
    from relearn.runs.console import Progress
    from relearn.steps.csv_rows import write_rows
    from relearn.steps.trained.clock import Clock
    from relearn.steps.trained.seed import seed_of
    from relearn.steps.trained.spacing import spacing

    check(settings)
    strategy, times = gradient(settings), replays(settings)
    task = read(settings)
    kind, classes = task.kind, task.classes

    def drawn() -> tuple[Any, Any]:
        torch.manual_seed(
            seed_of({"stage": "head"}, run.seed, "stage")
        )  # the same however often it is killed
        return start(settings, inputs, task)

    model, tokenizer = drawn()
    model.to(device)

    def batches(examples: Examples) -> SentenceBatches:
        size, longest = settings["batch_size"], settings["max_length"]
        return SentenceBatches(examples, tokenizer, batch_size=size, longest=longest, device=device)

    source: Any = batches(task.train)
    if times > 1:
        from relearn.methods.free_at import Replayed

        source = Replayed(source, times)
    parts = {name: batches(one) for name, one in answered(settings, task).items()}
    best, kept = (
        run.work / "best.json",
        run.work / "best.safetensors",
    )  # outlive a kill, as the checkpoint does

    def keep(net: Any, score: float) -> None:
        half = kept.with_suffix(".part")
        files.save(net, half, tokenizer.to_json())
        half.replace(kept)
        write(best, json.dumps(score).encode())

    def scores(name: str, outputs: list[list[float]] | None) -> dict[str, float]:
        labels = parts[name].examples.labels
        return {} if outputs is None or labels is None else measured(kind, classes, outputs, labels)

    def evaluate(net: Any) -> dict[str, float]:
        clock.stop()
        score = scores("dev", predict(net, parts["dev"], precision)).get(task.metric)
        if score is not None and score > (json.loads(best.read_bytes()) if best.exists() else -math.inf):
            keep(net, score)
        clock.start()
        return {} if score is None else {"dev_score_frac": score}

    steps = settings["steps"] * times
    row, every = spacing(steps, settings["evaluations"])
    clock = Clock(device)
    with Progress(f"finetune {settings['task']} {settings['method']['kind']}") as progress:
        clock.start()
        fitted = fit(
            model,
            source,
            loss=loss_of(kind),
            gradient=strategy,
            steps=steps,
            lr=settings["lr"],
            warmup_steps=settings["warmup_steps"] * times,
            weight_decay=settings["weight_decay"],
            decay=settings.get("decay", "all"),
            optimizer="adamw",
            betas=settings["betas"],
            eps=settings["adam_eps"],
            schedule=settings["schedule"],
            clip_norm=settings["clip_norm"],
            seed=seed_of({"stage": "finetune"}, run.seed, "stage"),  # the same batches for every method
            precision=precision,
            evaluate=evaluate,
            evaluate_every=every,
            history_steps=row,
            log=run.log,
            progress=clock.counting(progress),
            checkpoint=Checkpoint(run.work / "fit"),
            checkpoint_steps=max(SAVED, steps // 10),
        )
        clock.stop()
    outcome, at, reason = fitted.outcome, fitted.outcome_step, None
    if outcome == "diverged":
        reason = "loss not finite"
    elif "dev_score_frac" not in fitted.history[-1]:
        outcome, at, reason = "diverged", fitted.steps, "outputs not finite"
    if not kept.exists():  # diverged before the first evaluation: it has never been better than its start
        keep(drawn()[0].eval(), -math.inf)
    final, _ = files.load(kept, device)
    outputs = {name: predict(final, part, precision) for name, part in parts.items()}
    found = {name: scores(name, out) for name, out in outputs.items()}
    chance = majority(task.dev, kind)
    metrics = {
        **{key: value for name, each in found.items() for key, value in recorded(name, each).items()},
        "parameters_count": float(sum(parameter.numel() for parameter in model.parameters())),
        "updates_count": float(fitted.steps),
        "passes_count": float(fitted.steps * passes(settings)),
        "skipped_count": float(getattr(strategy, "skipped_count", 0)),
        "cut_frac": parts["dev"].cut_count / int(parts["dev"].candidates.sum()),
    }
    if chance is not None:
        metrics["majority_frac"] = chance
    if task.metric in found["dev"]:
        metrics["score_frac"] = found["dev"][task.metric]
    if outcome != "diverged":
        metrics["last_score_frac"] = fitted.history[-1]["dev_score_frac"]
        metrics[LOSSES[kind]] = fitted.history[-1]["loss"]
        if clock.steps:  # none where a finished training is only written down
            metrics["step_s"] = clock.spent / clock.steps
        if not learned(task.metric, found["dev"], chance, len(task.dev)):
            outcome, reason = "not_converged", "dev not better than a constant answer"
    write_rows(
        run.output("history.csv"), HISTORY, ({key: one.get(key) for key in HISTORY} for one in fitted.history)
    )
    write_rows(
        run.output("answers.csv"),
        ANSWERS,
        (one for name, part in parts.items() for one in rows(name, part.examples, outputs[name])),
    )
    shutil.copyfile(kept, run.output("model.safetensors"))
    counts = ", ".join(f"{len(getattr(task, part))} {part}" for part in ("train", "dev", "test"))
    run.finish(
        {key: value for key, value in metrics.items() if math.isfinite(value)},
        outcome=outcome,
        outcome_step=at,
        outcome_reason=reason,
        notes=[
            f"{settings['task']}: {counts} samples, {kind}, {len(tokenizer)} tokens",
            "source: " + json.dumps(task.source, sort_keys=True),
        ],
    )
