"""pretrain_encoder: pretrain a sentence encoder and its tokenizer by masked language modelling.

zhu2022, chapter 3, starts from published checkpoints. If none is given, this step pretrains a small encoder of the same family.

Settings: encoder {family (roberta | bert | albert), layers, dim, heads, ffn, embedding_dim (albert only), dropout,
attention_dropout, vocabulary, max_length (tokens, including special ones; longer texts are truncated)}; corpus {dataset (imdb: the
texts of all reviews of both parts, without labels | pydoc_topics), samples (evenly spaced training texts; 0: all)}; mask_frac (share
of the tokens to predict); steps, warmup_steps, batch_size, lr, weight_decay, betas, adam_eps, schedule, clip_norm; evaluations
(number, evenly spaced, the last one at the end).
Inputs: none. The reviews may be stored in ``$RELEARN_MIRROR/imdb``.
Output: encoder.safetensors (the encoder with the lowest validation loss, the earliest in a tie, with configuration and tokenizer;
see relearn.models.sentence_encoder_files), history.csv (step, loss, valid_loss_nats, lr).

Validation texts: every 50th review of each part of imdb, or the validation part of pydoc_topics; at most ``VALID`` of them, evenly
spaced. The vocabulary is learned from the training texts. A loss is in nats per masked token. All three families have the same
objective, with tokens masked as in relearn.data.masked_batches; BERT's next-sentence and ALBERT's sentence-order prediction are
left out.

Metrics: mlm_loss_start_nats (validation, before training), mlm_loss_nats (validation, of the saved encoder), train_loss_nats (last
row of the history), parameters_count (with the output layer), tokens_longest_count, cut_frac (of the validation texts), step_s
(CPU time on a CPU, wall time on a GPU, of this process alone).
Outcome: ok, diverged, or not_converged: no evaluation was better than the initial encoder.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from relearn.steps.trained.recipe import AdamRecipe
from relearn.studies.freelb.steps.finetune_start import Encoder, sizes

if TYPE_CHECKING:
    from relearn.data.masked_batches import TokenBatches

NEEDS_TORCH = True
HISTORY = ("step", "loss", "valid_loss_nats", "lr")
HELD_OUT = 50  # one in 50 reviews of imdb is held out
VALID = 1000


@dataclass(frozen=True, kw_only=True)
class Corpus:
    dataset: Literal["imdb", "pydoc_topics"]
    samples: int


@dataclass(frozen=True, kw_only=True)
class Settings(AdamRecipe):
    encoder: Encoder
    corpus: Corpus
    mask_frac: float
    batch_size: int


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    import torch

    from relearn.data.masked_batches import TokenBatches
    from relearn.data.sentence_vocabulary import train as learn_vocabulary
    from relearn.models import sentence_encoder_files as files
    from relearn.models.sentence_encoder import guesser
    from relearn.steps.csv_rows import write_history
    from relearn.steps.trained.best import Best
    from relearn.steps.trained.masked_tokens import guess_error, guess_loss, terms
    from relearn.steps.trained.seed import seed_of
    from relearn.steps.trained.train import train

    own = settings.encoder
    texts, source = corpus(settings.corpus)
    tokenizer = learn_vocabulary(own.family, texts["train"], own.vocabulary)
    torch.manual_seed(run.seed)  # the same initial weights after every restart
    net = guesser(sizes(own, tokenizer)).to(device)
    reader: Any = tokenizer

    def part(name: str) -> TokenBatches:
        rows = tokenizer.encode_texts(texts[name], own.max_length)
        return TokenBatches(
            rows,
            torch.zeros(len(rows), dtype=torch.int64),
            reader,
            batch_size=settings.batch_size,
            hidden_frac=settings.mask_frac,
            device=device,
        )

    valid = part("valid")
    first = guess_loss(net.eval(), valid, precision)
    best = Best(run.work, lambda model, path: files.save_encoder(model.net, path, tokenizer.to_json()))
    if not best.file.exists():
        best.keep(net, -first)

    def evaluate(model: Any) -> dict[str, float]:
        found = guess_loss(model, valid, precision)
        best.offer(model, -found)
        return {"valid_loss_nats": found} if math.isfinite(found) else {}

    ended = train(
        run,
        f"pretrain_encoder {own.family}",
        net,
        part("train"),
        recipe=settings,
        evaluate=evaluate,
        judged_by="valid_loss_nats",
        device=device,
        loss=guess_error,
        terms=terms,
        seed=seed_of({"stage": "acquire"}, run.seed, "stage"),  # this string enters the seed
        precision=precision,
    )
    history, clock, least = ended.fitted.history, ended.clock, -best.score
    if ended.outcome == "ok" and not least < first:
        ended.not_converged("validation loss never below that of the initial encoder")
    metrics = {
        "mlm_loss_start_nats": first,
        "mlm_loss_nats": least,
        "parameters_count": float(sum(parameter.numel() for parameter in net.parameters())),
        "tokens_longest_count": float(max(len(one) for one in valid.rows)),
        "cut_frac": sum(len(one) == own.max_length for one in valid.rows) / len(valid),
    }
    if ended.outcome != "diverged":
        metrics["train_loss_nats"] = history[-1]["loss"]
        metrics |= clock.per_step()
    write_history(run, HISTORY, history)
    best.copy_to(run.output("encoder.safetensors"))
    counts = f"{len(texts['train'])} texts, {len(texts['valid'])} held out; {len(tokenizer)} tokens"
    run.finish(
        metrics,
        **ended.finish(),
        notes=[f"{settings.corpus.dataset}: {counts}", "source: " + json.dumps(source, sort_keys=True)],
    )


def corpus(settings: Corpus) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """The training and validation texts, and their source; see the module.

    Raises:
        ValueError: the number of texts is negative.
    """
    from importlib import import_module

    from relearn.data.evenly_spaced import evenly_spaced_rows
    from relearn.data.mirror import mirror_of

    name, count = settings.dataset, settings.samples
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
    most = {"train": count, "valid": VALID}
    return {part: evenly_spaced_rows(texts, most[part]) for part, texts in parts.items()}, found.source
