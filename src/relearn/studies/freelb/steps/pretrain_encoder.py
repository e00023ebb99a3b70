"""acquire: an encoder of sentences and its tokenizer, from texts alone, by masked language modelling.

zhu2022, chapter 3, starts from published checkpoints; where none is named, this makes one of the same kind in a small size.

Settings: encoder {family (roberta | bert | albert), layers, dim, heads, ffn, embedding_dim (of albert alone), dropout,
attention_dropout, vocabulary, max_length (tokens, special ones included; a longer text is cut)}; corpus {dataset (imdb: the texts of
all reviews, of both parts, without their labels | pydoc_topics), samples (evenly spaced training texts; 0: all)}; mask_frac (of the
tokens, to be guessed); steps, warmup_steps, batch_size, lr, weight_decay, betas, adam_eps, schedule, clip_norm; evaluations (so many,
evenly spaced, the last one at the end).
Inputs: none. ``$RELEARN_MIRROR/imdb`` may hold the reviews.
Output: encoder.safetensors (the encoder at its least valid loss, the earliest of equals, with configuration and tokenizer; see
relearn.models.sentence_encoder_files), history.csv (step, loss, valid_loss_nats, lr).

Held out for valid: of imdb every fiftieth review of each part, of pydoc_topics its own valid part; at most ``VALID`` texts of it, evenly
spaced. The vocabulary is learnt from the training texts. A loss is in nats a hidden token; all three families have the same task, tokens
hidden as relearn.data.masked_batches says (BERT's next and ALBERT's order of sentences are left out).

Metrics: mlm_loss_start_nats (valid, before training), mlm_loss_nats (valid, of the encoder kept), train_loss_nats (of the history's
last row), parameters_count (with the map to the vocabulary), tokens_longest_count, cut_frac (of the valid texts), step_s (CPU time on
a CPU, wall time on a GPU, of this process alone). Outcome: ok, diverged, or not_converged: no evaluation was better than the start.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relearn.data.masked_batches import TokenBatches

NEEDS_TORCH = True
HISTORY = ("step", "loss", "valid_loss_nats", "lr")
CORPORA = ("imdb", "pydoc_topics")
HELD_OUT = 50  # of imdb, one of so many
VALID = 1000
SAVED = 50  # steps from one checkpoint to the next, at least


def run(run, settings: dict, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    import torch

    from relearn.data.masked_batches import TokenBatches
    from relearn.data.sentence_vocabulary import train
    from relearn.methods.fit import fit
    from relearn.models import sentence_encoder_files as files
    from relearn.models.sentence_encoder import guesser
    from relearn.runs.atomic_files import write
    from relearn.runs.checkpoint import Checkpoint
    from relearn.runs.console import Progress
    from relearn.steps.csv_rows import write_rows
    from relearn.steps.trained.clock import Clock
    from relearn.steps.trained.masked_tokens import guess_error, guess_loss, terms
    from relearn.steps.trained.seed import seed_of
    from relearn.steps.trained.spacing import spacing
    from relearn.studies.freelb.steps.finetune_start import sizes

    own = settings["encoder"]
    texts, source = corpus(settings["corpus"])
    tokenizer = train(own["family"], texts["train"], own["vocabulary"])
    torch.manual_seed(run.seed)  # the same start, however often the run is killed
    net = guesser(sizes(own, tokenizer)).to(device)
    length = own["max_length"]
    reader: Any = tokenizer

    def part(name: str) -> TokenBatches:
        rows = tokenizer.encode_texts(texts[name], length)
        return TokenBatches(
            rows,
            torch.zeros(len(rows), dtype=torch.int64),
            reader,
            batch_size=settings["batch_size"],
            hidden_frac=settings["mask_frac"],
            device=device,
        )

    valid = part("valid")
    first = guess_loss(net.eval(), valid, precision)
    best, kept = (
        run.work / "best.json",
        run.work / "best.safetensors",
    )  # outlive a kill, as the checkpoint does

    def keep(loss: float) -> None:
        half = kept.with_suffix(".part")
        files.save_encoder(net.net, half, tokenizer.to_json())
        half.replace(kept)
        write(best, json.dumps(loss).encode())

    if not best.exists():
        keep(first)
    clock = Clock(device)

    def evaluate(model: Any) -> dict[str, float]:
        clock.stop()
        found = guess_loss(model, valid, precision)
        if found < json.loads(best.read_bytes()):
            keep(found)
        clock.start()
        return {"valid_loss_nats": found} if math.isfinite(found) else {}

    row, every = spacing(settings["steps"], settings["evaluations"])
    with Progress(f"acquire {own['family']}") as progress:
        clock.start()
        fitted = fit(
            net,
            part("train"),
            loss=guess_error,
            terms=terms,
            steps=settings["steps"],
            lr=settings["lr"],
            warmup_steps=settings["warmup_steps"],
            weight_decay=settings["weight_decay"],
            optimizer="adamw",
            betas=settings["betas"],
            eps=settings["adam_eps"],
            schedule=settings["schedule"],
            clip_norm=settings["clip_norm"],
            seed=seed_of({"stage": "acquire"}, run.seed, "stage"),
            precision=precision,
            evaluate=evaluate,
            evaluate_every=every,
            history_steps=row,
            log=run.log,
            progress=clock.counting(progress),
            checkpoint=Checkpoint(run.work / "fit"),
            checkpoint_steps=max(SAVED, settings["steps"] // 10),
        )
        clock.stop()
    outcome, at, reason = fitted.outcome, fitted.outcome_step, None
    least = json.loads(best.read_bytes())
    if outcome == "diverged":
        reason = "loss not finite"
    elif "valid_loss_nats" not in fitted.history[-1]:
        outcome, at, reason = "diverged", fitted.steps, "outputs not finite"
    elif not least < first:
        outcome, reason = "not_converged", "valid loss never below that of the start"
    metrics = {
        "mlm_loss_start_nats": first,
        "mlm_loss_nats": least,
        "parameters_count": float(sum(parameter.numel() for parameter in net.parameters())),
        "tokens_longest_count": float(max(len(one) for one in valid.rows)),
        "cut_frac": sum(len(one) == length for one in valid.rows) / len(valid),
    }
    if outcome != "diverged":
        metrics["train_loss_nats"] = fitted.history[-1]["loss"]
        if clock.steps:  # none where a finished training is only written down
            metrics["step_s"] = clock.spent / clock.steps
    write_rows(
        run.output("history.csv"), HISTORY, ({key: one.get(key) for key in HISTORY} for one in fitted.history)
    )
    run.output("encoder.safetensors").write_bytes(kept.read_bytes())
    run.finish(
        metrics,
        outcome=outcome,
        outcome_step=at,
        outcome_reason=reason,
        notes=[
            f"{settings['corpus']['dataset']}: {len(texts['train'])} texts, {len(texts['valid'])} held out; {len(tokenizer)} tokens",
            "source: " + json.dumps(source, sort_keys=True),
        ],
    )


def corpus(settings: Mapping[str, Any]) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """Texts of train and valid, and where they come from; see the module.

    Raises:
        ValueError: an unknown corpus, a number of texts below 0.
    """
    from importlib import import_module

    from relearn.data.mirror import mirror_of

    name, count = settings["dataset"], settings["samples"]
    if name not in CORPORA:
        raise ValueError(f"corpus.dataset: {name!r} (allowed: {', '.join(CORPORA)})")
    if count < 0:
        raise ValueError(f"corpus.samples: {count} (allowed: at least 0, all of them)")
    found = import_module(f"relearn.data.{name}").load(mirror_of(name))
    if name == "imdb":
        reviews = [list(enumerate(part.texts)) for part in (found.train, found.test)]
        parts = {
            "train": [text for part in reviews for number, text in part if number % HELD_OUT],
            "valid": [text for part in reviews for number, text in part if number % HELD_OUT == 0],
        }
    else:
        parts = {"train": list(found.train), "valid": list(found.valid)}
    return {"train": spread(parts["train"], count), "valid": spread(parts["valid"], VALID)}, found.source


def spread(texts: list[str], count: int) -> list[str]:
    """At most ``count`` texts, evenly spaced; 0: all."""
    if count == 0 or len(texts) <= count:
        return texts
    return [texts[place * len(texts) // count] for place in range(count)]
