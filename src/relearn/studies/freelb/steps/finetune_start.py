"""Set-up of `finetune`: checks, gradient strategy, data, model and tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relearn.runs.settings import picked, plain
from relearn.studies.freelb.steps.adversaries import strategy_of

if TYPE_CHECKING:
    from relearn.data.examples import Examples
    from relearn.data.sentence_tokens import SentenceTokenizer
    from relearn.data.text_tasks import TextTask
    from relearn.models.sentence_encoder import SentenceClassifier
    from relearn.studies.freelb.steps.finetune import Settings

MISSING = {"missing": "not at hand, and nowhere to download; trained without it"}


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """The sizes of an encoder, and those of its vocabulary."""

    family: str
    layers: int
    dim: int
    heads: int
    ffn: int
    embedding_dim: int | None = None
    dropout: float
    attention_dropout: float
    vocabulary: int
    max_length: int


@dataclass(frozen=True, kw_only=True)
class Start(Encoder):
    checkpoint: str = ""


def check(settings: Settings) -> None:
    """Check the settings before any data is read.

    Raises:
        ValueError: a count is below 1, or ``accumulate`` does not divide the batch size.
    """
    given, batch, shares = plain(settings), settings.batch_size, settings.accumulate
    for key in ("steps", "evaluations", "batch_size", "accumulate"):
        if given[key] < 1:
            raise ValueError(f"{key}: {given[key]} (allowed: at least 1)")
    if batch % shares:
        raise ValueError(f"accumulate: {shares} (allowed: a divisor of batch_size, {batch})")


def gradient(settings: Settings) -> Any:
    """The gradient strategy of ``method``, accumulated over ``accumulate`` micro-batches.

    Raises:
        ValueError: the strategy rejects a setting.
    """
    from relearn.methods.gradient_accumulation import GradientAccumulation

    made = [strategy_of(settings.method) for _ in range(settings.accumulate)]
    return made[0] if len(made) == 1 else GradientAccumulation(made)


def read(settings: Settings) -> TextTask:
    """Load the task and add the training parts of ``with_tasks`` to its own.

    A data set among ``with_tasks`` that cannot be downloaded (Regents) may be missing. Its entry in ``source`` is then
    :data:`MISSING`.

    Raises:
        ValueError: a task is unknown, one of ``with_tasks`` has another kind of answer, or there are no training or dev labels.
    """
    from relearn.data.choices.regents import NotAtHand
    from relearn.data.mirror import mirror_of
    from relearn.data.text_tasks import read as read_task

    samples = asdict(settings.samples)
    own = read_task(settings.task, samples, mirror_of)
    for part, examples in (("train", own.train), ("dev", own.dev)):
        if not len(examples) or examples.labels is None:
            raise ValueError(f"task: {settings.task} has no labelled {part} part (allowed: one that has)")
    parts, source = {settings.task: own.train}, {settings.task: own.source}
    for name in settings.with_tasks:
        try:
            other = read_task(name, samples, mirror_of)
        except NotAtHand:
            source[name] = MISSING
            continue
        _alike("with_tasks", name, other, own)
        parts[name], source[name] = other.train, other.source
    if len(parts) > 1:
        own = replace(own, train=joined(parts))
    return replace(own, source=source) if settings.with_tasks else own


def missing(task: TextTask) -> list[str]:
    """The data sets of ``with_tasks`` that were not available."""
    return [name for name, source in task.source.items() if source == MISSING]


def answered(settings: Settings, task: TextTask) -> dict[str, Examples]:
    """The parts that the saved network answers, dev first.

    Raises:
        ValueError: a task of ``answered`` has another kind of answer.
    """
    from relearn.data.mirror import mirror_of
    from relearn.data.text_tasks import read as read_task

    parts = {"dev": task.dev, "test": task.test, **task.further}
    for name in settings.answered:
        other = read_task(name, asdict(settings.samples), mirror_of)
        _alike("answered", name, other, task)
        parts[name] = other.test
    return {name: examples for name, examples in parts.items() if len(examples)}


def _alike(key: str, name: str, other: TextTask, task: TextTask) -> None:
    if (other.kind, other.classes) != (task.kind, task.classes):
        raise ValueError(
            f"{key}: {name}, {other.kind} of {other.classes} (allowed: {task.kind} of {task.classes}, as {task.name})"
        )


def joined(parts: Mapping[str, Examples]) -> Examples:
    """The samples of several tasks, one task after another; ids get the prefix ``task:``."""
    import torch

    from relearn.data.examples import Examples

    labels = [part.labels for part in parts.values() if part.labels is not None]
    return Examples(
        [rows for part in parts.values() for rows in part.rows],
        torch.cat(labels),
        [f"{name}:{one}" for name, part in parts.items() for one in part.ids],
    )


def start(
    settings: Settings, inputs: Mapping[str, list[Path]], task: TextTask
) -> tuple[SentenceClassifier, SentenceTokenizer]:
    """The model with its output head, and its tokenizer.

    The first available source is used: the input ``start``, whose head is reused if kind and classes are the same; the input
    ``encoder``; ``encoder.checkpoint``; a new encoder of the given sizes, with a vocabulary learned from the training texts. New
    parameters are drawn from torch's global generator.

    Raises:
        ValueError: a file or checkpoint is missing, the family differs from ``encoder.family``, the tokenizer does not belong to the
            model, or ``max_length`` exceeds the encoder's.
    """
    from relearn.data.sentence_tokens import SentenceTokenizer
    from relearn.data.sentence_vocabulary import train
    from relearn.models import sentence_encoder_files as files
    from relearn.models.sentence_encoder import classifier, from_checkpoint, take_encoder, with_dropout

    own, classes = settings.encoder, outputs(task)
    rates = settings.dropout, settings.attention_dropout
    given = [*inputs.get("start", []), *inputs.get("encoder", [])]
    if given:
        config, state, header = files.load_encoder(given[0])
        model = classifier(with_dropout(config, *rates), task.kind, classes)
        take_encoder(model, state)
        if (header["kind"], header["classes"]) == (task.kind, classes):
            model.net.load_state_dict(header["head"], strict=False)
        tokenizer = SentenceTokenizer.from_json(header["tokenizer"])
    elif name := own.checkpoint:
        model = from_checkpoint(name, task.kind, classes, dropout=rates[0], attention_dropout=rates[1])
        try:
            tokenizer = SentenceTokenizer.of_checkpoint(name)
        except (OSError, ValueError) as fault:
            line = str(fault).strip().splitlines()[0]
            raise ValueError(
                f"encoder.checkpoint: {name}: {line} (allowed: one with its tokenizer)"
            ) from None
    else:
        texts = [text for rows in task.train.rows for row in rows for text in row if text]
        tokenizer = train(own.family, texts, own.vocabulary)
        model = classifier(with_dropout(sizes(own, tokenizer), *rates), task.kind, classes)
    family = model.net.config.model_type
    if own.family != family:
        raise ValueError(f"encoder.family: {own.family!r} (allowed: {family}, as the model is)")
    tokenizer.check_model(model.net.config)
    if settings.max_length > model.longest:
        raise ValueError(
            f"max_length: {settings.max_length} (allowed: at most {model.longest}, as the encoder reads)"
        )
    return model, tokenizer


def outputs(task: TextTask) -> int:
    """Number of outputs of a model for the task: one per class for classification, otherwise one."""
    return int(task.classes) if task.kind == "classification" else 1


def sizes(own: Encoder, tokenizer: SentenceTokenizer) -> dict[str, Any]:
    """The configuration of an encoder of these sizes; see relearn.models.sentence_encoder.configuration."""
    from relearn.models.sentence_encoder import configuration

    return configuration(
        own.family,
        **picked(own, "layers", "dim", "heads", "ffn", "embedding_dim"),
        **picked(own, "dropout", "attention_dropout", "max_length"),
        vocabulary=len(tokenizer),
        special={"bos": tokenizer.bos, "pad": tokenizer.pad, "eos": tokenizer.eos},
    )
