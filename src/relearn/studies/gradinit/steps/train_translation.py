"""translate: train a translation network from a start that `initialise` made, without changing its architecture, and take its BLEU.

Settings: the recipe: optimizer, lr, betas (sgd: none), momentum (of sgd; 0.9 if it is not there, the paper does not say), weight_decay,
clip_norm (null: without), schedule, steps, schedule_steps (the schedule's length, also if ``steps`` ends earlier), warmup_steps,
max_tokens of a batch, label_smoothing; evaluations (BLEU is taken so many times, evenly spaced, the last time at the end); beam,
length_penalty, factor and extra (an output has at most factor · n + extra units for a source of n), test_pairs (the first so many of the
test part; 0: all).
Inputs: corpus, start. Output: history.csv (epoch, step, loss, lr, valid_loss, bleu), hypotheses.txt (the translations of the best BLEU).

As in the paper, the BLEU that counts is the best one over training; the paper takes it every epoch and does not say on which part, here
it is the test part. valid_loss is the plain cross entropy in nats a token over the whole validation part.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from relearn.data.corpus import PreparedCorpus
    from relearn.data.token_batches import TokenBatches
    from relearn.models.post_ln_transformer import PostLNTransformer

NEEDS_TORCH = True
ROWS = 5  # rows of the history between two evaluations
COLUMNS = ("epoch", "step", "loss", "lr", "valid_loss", "bleu")


def run(run, settings: dict, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    from functools import partial

    from relearn.data.corpus import load_corpus
    from relearn.data.token_batches import TokenBatches
    from relearn.measures.bleu import corpus_bleu
    from relearn.methods.fit import fit
    from relearn.methods.token_loss import token_loss, tokens
    from relearn.models import post_ln_transformer
    from relearn.runs.atomic_files import write
    from relearn.runs.checkpoint import Checkpoint
    from relearn.runs.console import Progress
    from relearn.steps.trained.seed import seed_of

    corpus = load_corpus(inputs["corpus"][0])
    model = post_ln_transformer.FILE.load(inputs["start"][0], device)
    if model.vocabulary != corpus.vocabulary:
        raise ValueError(
            f"{inputs['start'][0]}: a network of {model.vocabulary} units (allowed: {corpus.vocabulary}, "
            f"as many as {inputs['corpus'][0]} has)"
        )
    source = TokenBatches(corpus.pairs("train"), max_tokens=settings["max_tokens"], device=device)
    valid = whole(corpus, "valid", settings["max_tokens"], device)
    references = corpus.texts("test")[: settings["test_pairs"] or None]
    best = run.work / "best.json"  # outlives a kill, like the checkpoint

    def evaluate(net: Any) -> dict[str, float]:
        outputs = translations(net, corpus, len(references), settings, device, precision)
        bleu = corpus_bleu(outputs, references)
        found = {"bleu": bleu.score, "signature": bleu.signature, "outputs": outputs}
        if not best.exists() or json.loads(best.read_bytes())["bleu"] < bleu.score:
            write(best, json.dumps(found).encode())
        return {"valid_loss": validation_loss(net, valid), "bleu": bleu.score}

    steps = settings["steps"]
    with Progress(f"translate {run.labels['network']} {run.labels['initialisation']}") as progress:
        fitted = fit(
            model,
            source,
            loss=partial(token_loss, smoothing=settings["label_smoothing"]),
            terms=tokens,
            steps=steps,
            schedule_steps=settings["schedule_steps"],
            warmup_steps=settings["warmup_steps"],
            schedule=settings["schedule"],
            lr=settings["lr"],
            optimizer=settings["optimizer"],
            weight_decay=settings["weight_decay"],
            clip_norm=settings["clip_norm"],
            **{key: settings[key] for key in ("momentum", "betas") if key in settings},
            seed=seed_of(
                run.labels, run.seed, "task", "network"
            ),  # the same order of batches for every start
            precision=precision,
            evaluate=evaluate,
            evaluate_every=ROWS,
            history_steps=math.ceil(steps / (ROWS * settings["evaluations"])),
            log=run.log,
            progress=progress,
            checkpoint=Checkpoint(run.work / "fit"),
            checkpoint_steps=max(50, steps // 10),
        )
    diverged = fitted.outcome == "diverged"
    # Nothing was translated before a divergence: what the network says now is empty, and its BLEU is 0.
    empty: dict[str, Any] = {
        "bleu": 0.0,
        "signature": corpus_bleu([""], ["a"]).signature,
        "outputs": [""] * len(references),
    }
    kept = json.loads(best.read_bytes()) if best.exists() else empty
    write(run.output("hypotheses.txt"), "".join(f"{line}\n" for line in kept["outputs"]).encode())
    _history(run.output("history.csv"), fitted.history)
    tested = [row for row in fitted.history if "bleu" in row]
    metrics = {
        "bleu_best": kept["bleu"],
        "bleu_final": 0.0 if diverged else tested[-1]["bleu"],
        "steps_count": float(fitted.steps),
        "parameters_count": float(sum(parameter.numel() for parameter in model.parameters())),
    }
    if fitted.history:
        metrics["train_loss_nats"] = fitted.history[-1]["loss"]
    if tested:
        metrics["valid_loss_nats"] = tested[-1]["valid_loss"]
    run.finish(
        metrics,
        outcome=fitted.outcome,
        outcome_step=fitted.outcome_step,
        outcome_reason="loss not finite" if diverged else None,
        notes=[f"BLEU on the first {len(references)} test pairs of {corpus.dataset}: {kept['signature']}"],
    )


def whole(corpus: PreparedCorpus, part: str, max_tokens: int, device: str) -> TokenBatches:
    """All pairs of a part, however long, in batches of about ``max_tokens``."""
    from relearn.data.token_batches import TokenBatches

    pairs = corpus.pairs(part)
    longest = 1 + int(max(pairs.source.lengths.max(), pairs.target.lengths.max()))
    return TokenBatches(pairs, max_tokens=max(max_tokens, longest), device=device)


def validation_loss(net: PostLNTransformer, pairs: TokenBatches) -> float:
    """Mean cross entropy over all target tokens, nats, without smoothing; in single precision."""
    from relearn.methods.token_loss import token_loss, tokens

    total = count = 0.0
    for _, (given, target) in pairs.in_order():
        terms = float(tokens(target))
        total += terms * float(token_loss(net(*given), target, smoothing=0.0))
        count += terms
    return total / count


def translations(
    net: PostLNTransformer,
    corpus: PreparedCorpus,
    count: int,
    settings: Mapping[str, Any],
    device: str,
    precision: str,
) -> list[str]:
    """The first ``count`` sentences of the test part in the other language, by beam search, sentences of like length together."""
    import torch

    from relearn.data.bpe import EOS
    from relearn.methods.beam_search import beam_search

    sentences = corpus.pairs("test").source.to(device)
    order: torch.Tensor = sentences.lengths[:count].argsort(descending=True, stable=True)
    outputs = [""] * count
    with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=precision == "bf16"):
        for rows in order.split(max(1, settings["max_tokens"] // (1 + int(sentences.lengths.max())))):
            found = beam_search(
                net,
                sentences.pad(rows, last=EOS),
                beam=settings["beam"],
                max_length=(settings["factor"], settings["extra"]),
                length_penalty=settings["length_penalty"],
            )
            for row, one in zip(rows.tolist(), found, strict=True):
                outputs[row] = corpus.decode(one.tokens).replace("\n", " ")
    return outputs


def _history(path: Path, rows: list[dict[str, float]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
