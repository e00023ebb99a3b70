"""Train a translation network from the weights of `initialise` and measure its BLEU.

The architecture of the network is unchanged.

Settings: the recipe, i.e. optimizer, lr, betas (not for sgd), momentum (of sgd; default 0.9, not stated in the paper),
weight_decay, clip_norm (null: no clipping), schedule, steps, schedule_steps (length of the schedule, even if ``steps`` ends
earlier), warmup_steps, max_tokens (of a batch), label_smoothing, evaluations (number of BLEU measurements, evenly spaced, the
last at the end), beam, length_penalty, factor and extra (a source of n units gives at most factor n + extra units), test_pairs
(first pairs of the test part; 0: all). Inputs: corpus, start, tried (records of trainings that choose lr,
:mod:`relearn.steps.trained.tried`).
Output: history.csv (epoch, step, loss, lr, valid_loss, bleu), hypotheses.txt (the translations with the best BLEU).

As in the paper, the best BLEU during training counts. The paper measures BLEU every epoch but does not state on which part; we use
the test part. valid_loss is the cross entropy without label smoothing on the whole validation part, in nats per token.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from relearn.runs.settings import picked
from relearn.steps.csv_rows import write_history
from relearn.steps.trained.recipe import Recipe

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from relearn.data.corpus import PreparedCorpus
    from relearn.data.token_batches import TokenBatches
    from relearn.models.post_ln_transformer import PostLNTransformer

NEEDS_TORCH = True
ROWS = 5
"""Rows of the history from one evaluation to the next."""
COLUMNS = ("epoch", "step", "loss", "lr", "valid_loss", "bleu")


@dataclass(frozen=True, kw_only=True)
class Settings(Recipe):
    optimizer: str
    betas: tuple[float, float] = (0.9, 0.999)
    momentum: float = 0.9
    schedule_steps: int
    max_tokens: int
    label_smoothing: float
    beam: int
    length_penalty: float
    factor: float
    extra: int
    test_pairs: int


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    """See the module."""
    from functools import partial

    from relearn.data.corpus import load_corpus
    from relearn.data.token_batches import TokenBatches
    from relearn.measures.bleu import corpus_bleu
    from relearn.methods.token_loss import token_loss, tokens
    from relearn.models import post_ln_transformer
    from relearn.runs.atomic_files import write
    from relearn.steps.trained.seed import seed_of
    from relearn.steps.trained.train import train
    from relearn.steps.trained.tried import best_tried

    if tried := inputs.get("tried"):
        settings = replace(settings, lr=best_tried("lr", tried))
    corpus = load_corpus(inputs["corpus"][0])
    model = post_ln_transformer.FILE.load(inputs["start"][0], device)
    if model.vocabulary != corpus.vocabulary:
        raise ValueError(
            f"{inputs['start'][0]}: a network of {model.vocabulary} units (allowed: {corpus.vocabulary}, "
            f"as in {inputs['corpus'][0]})"
        )
    source = TokenBatches(corpus.pairs("train"), max_tokens=settings.max_tokens, device=device)
    valid = whole(corpus, "valid", settings.max_tokens, device)
    references = corpus.texts("test")[: settings.test_pairs or None]
    best = run.work / "best.json"  # survives an interruption, like the checkpoint

    def evaluate(net: Any) -> dict[str, float]:
        outputs = translations(net, corpus, len(references), settings, device, precision)
        bleu = corpus_bleu(outputs, references)
        found = {"bleu": bleu.score, "signature": bleu.signature, "outputs": outputs}
        if not best.exists() or json.loads(best.read_bytes())["bleu"] < bleu.score:
            write(best, json.dumps(found).encode())
        return {"valid_loss": validation_loss(net, valid), "bleu": bleu.score}

    ended = train(
        run,
        f"train_translation {run.labels['network']} {run.labels['initialisation']}",
        model,
        source,
        recipe=settings,
        evaluate=evaluate,
        judged_by="bleu",
        device=device,
        **picked(settings, "optimizer", "betas", "momentum", "schedule_steps"),
        loss=partial(token_loss, smoothing=settings.label_smoothing),
        terms=tokens,
        seed=seed_of(run.labels, run.seed, "task", "network"),  # same order of batches for every start
        precision=precision,
        evaluate_every=ROWS,
        history_steps=math.ceil(settings.steps / (ROWS * settings.evaluations)),
    )
    fitted = ended.fitted
    # A run that diverges before its first evaluation has empty translations and BLEU 0.
    empty: dict[str, Any] = {
        "bleu": 0.0,
        "signature": corpus_bleu([""], ["a"]).signature,
        "outputs": [""] * len(references),
    }
    kept = json.loads(best.read_bytes()) if best.exists() else empty
    write(run.output("hypotheses.txt"), "".join(f"{line}\n" for line in kept["outputs"]).encode())
    write_history(run, COLUMNS, fitted.history)
    tested = [row for row in fitted.history if "bleu" in row]
    metrics = {
        "bleu_best": kept["bleu"],
        "bleu_final": 0.0 if ended.outcome == "diverged" else tested[-1]["bleu"],
        "steps_count": float(fitted.steps),
        "parameters_count": float(sum(parameter.numel() for parameter in model.parameters())),
    }
    if tried:
        metrics["lr"] = settings.lr
    if fitted.history:
        metrics["train_loss_nats"] = fitted.history[-1]["loss"]
    if tested:
        metrics["valid_loss_nats"] = tested[-1]["valid_loss"]
    run.finish(
        metrics,
        **ended.finish(),
        notes=[f"BLEU on the first {len(references)} test pairs of {corpus.dataset}: {kept['signature']}"],
    )


def whole(corpus: PreparedCorpus, part: str, max_tokens: int, device: str) -> TokenBatches:
    """Return all pairs of a part, of any length, in batches of about ``max_tokens``."""
    from relearn.data.token_batches import TokenBatches

    pairs = corpus.pairs(part)
    longest = 1 + int(max(pairs.source.lengths.max(), pairs.target.lengths.max()))
    return TokenBatches(pairs, max_tokens=max(max_tokens, longest), device=device)


def validation_loss(net: PostLNTransformer, pairs: TokenBatches) -> float:
    """Return the mean cross entropy over all target tokens in nats, without smoothing, in single precision."""
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
    settings: Settings,
    device: str,
    precision: str,
) -> list[str]:
    """Translate the first ``count`` sentences of the test part by beam search, in batches of similar length."""
    import torch

    from relearn.data.bpe import EOS
    from relearn.methods.beam_search import beam_search

    sentences = corpus.pairs("test").source.to(device)
    order: torch.Tensor = sentences.lengths[:count].argsort(descending=True, stable=True)
    outputs = [""] * count
    with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=precision == "bf16"):
        for rows in order.split(max(1, settings.max_tokens // (1 + int(sentences.lengths.max())))):
            found = beam_search(
                net,
                sentences.pad(rows, last=EOS),
                beam=settings.beam,
                max_length=(settings.factor, settings.extra),
                length_penalty=settings.length_penalty,
            )
            for row, one in zip(rows.tolist(), found, strict=True):
                outputs[row] = corpus.decode(one.tokens).replace("\n", " ")
    return outputs
