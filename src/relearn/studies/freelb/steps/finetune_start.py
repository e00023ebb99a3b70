"""Set-up of `finetune`: validated settings, gradient strategy, data, model and tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relearn.data.examples import Examples
    from relearn.data.sentence_tokens import SentenceTokenizer
    from relearn.data.text_tasks import TextTask
    from relearn.models.sentence_encoder import SentenceClassifier

METHODS = ("vanilla", "pgd", "free_at", "freelb", "yopo")
WORDS = (
    *("passes", "step_size", "eps", "start_norm", "project", "clean_first", "mask", "reuse_masks"),
    *("inner", "inner_step"),
)
NAMES = {"inner_step": "step"}  # settings whose name differs from the argument of the strategy
PARTS = ("train", "dev", "test")
MISSING = {"missing": "not at hand, and nowhere to download; trained without it"}


def check(settings: Mapping[str, Any]) -> None:
    """Check the settings before any data is read.

    Raises:
        ValueError: the method or one of its keys is unknown, a count is below 1, or ``accumulate`` does not divide the batch size.
    """
    method = settings["method"]
    if method.get("kind") not in METHODS:
        raise ValueError(f"method.kind: {method.get('kind')!r} (allowed: {', '.join(METHODS)})")
    unknown = sorted(set(method) - {"kind", *WORDS})
    if unknown:
        raise ValueError(f"method.{unknown[0]}: unknown (allowed: kind, {', '.join(WORDS)})")
    if method["kind"] != "vanilla":
        _at_least_one("method.passes", method.get("passes"))
    for key in ("steps", "evaluations", "batch_size", "accumulate"):
        _at_least_one(key, settings[key])
    if settings["batch_size"] % settings["accumulate"]:
        raise ValueError(
            f"accumulate: {settings['accumulate']} (allowed: a divisor of batch_size, {settings['batch_size']})"
        )


def _at_least_one(key: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{key}: {value!r} (allowed: a whole number, at least 1)")
    if value < 1:
        raise ValueError(f"{key}: {value} (allowed: at least 1)")


def gradient(settings: Mapping[str, Any]) -> Any:
    """The gradient strategy of ``method``, accumulated over ``accumulate`` micro-batches.

    Raises:
        ValueError: the strategy rejects a setting.
    """
    from relearn.methods.gradient_accumulation import GradientAccumulation
    from relearn.methods.gradient_strategies import strategy

    method = {NAMES.get(key, key): value for key, value in settings["method"].items()}
    kind = method.pop("kind")
    count = settings["accumulate"]
    made = [strategy(kind, **method) for _ in range(count)]
    return made[0] if count == 1 else GradientAccumulation(made)


def passes(settings: Mapping[str, Any]) -> int:
    """Forward and backward passes per update."""
    from relearn.methods.gradient_strategies import passes_of

    method = settings["method"]
    return passes_of(method["kind"], method.get("passes", 1))


def replays(settings: Mapping[str, Any]) -> int:
    """Repetitions of each minibatch: K with FreeAT, which updates after every pass, otherwise 1."""
    return int(settings["method"]["passes"]) if settings["method"]["kind"] == "free_at" else 1


def read(settings: Mapping[str, Any]) -> TextTask:
    """Load the task and add the training parts of ``with_tasks`` to its own.

    A data set among ``with_tasks`` that cannot be downloaded (Regents) may be missing. Its entry in ``source`` is then
    :data:`MISSING`.

    Raises:
        ValueError: a task is unknown, one of ``with_tasks`` has another kind of answer, or there are no training or dev labels.
    """
    from dataclasses import replace

    from relearn.data.choices.regents import NotAtHand
    from relearn.data.mirror import mirror_of
    from relearn.data.text_tasks import read as read_task

    own = read_task(settings["task"], settings["samples"], mirror_of)
    for part in PARTS[:2]:
        examples = getattr(own, part)
        if not len(examples) or examples.labels is None:
            raise ValueError(f"task: {settings['task']} has no labelled {part} part (allowed: one that has)")
    parts, source = {settings["task"]: own.train}, {settings["task"]: own.source}
    for name in settings["with_tasks"]:
        try:
            other = read_task(name, settings["samples"], mirror_of)
        except NotAtHand:
            source[name] = MISSING
            continue
        _alike("with_tasks", name, other, own)
        parts[name], source[name] = other.train, other.source
    if len(parts) > 1:
        own = replace(own, train=joined(parts))
    return replace(own, source=source) if settings["with_tasks"] else own


def missing(settings: Mapping[str, Any], task: TextTask) -> list[str]:
    """The data sets of ``with_tasks`` that were not available."""
    return [name for name in settings["with_tasks"] if task.source[name] == MISSING]


def answered(settings: Mapping[str, Any], task: TextTask) -> dict[str, Examples]:
    """The parts that the saved network answers, dev first.

    Raises:
        ValueError: a task of ``answered`` has another kind of answer.
    """
    from relearn.data.mirror import mirror_of
    from relearn.data.text_tasks import read as read_task

    parts = {"dev": task.dev, "test": task.test, **task.further}
    for name in settings.get("answered", []):
        other = read_task(name, settings["samples"], mirror_of)
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
    settings: Mapping[str, Any], inputs: Mapping[str, list[Path]], task: TextTask
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

    own, classes = settings["encoder"], outputs(task)
    rates = settings["dropout"], settings.get("attention_dropout")
    given = [*inputs.get("start", []), *inputs.get("encoder", [])]
    if given:
        config, state, header = files.load_encoder(given[0])
        model = classifier(with_dropout(config, *rates), task.kind, classes)
        take_encoder(model, state)
        if (header["kind"], header["classes"]) == (task.kind, classes):
            model.net.load_state_dict(header["head"], strict=False)
        tokenizer = SentenceTokenizer.from_json(header["tokenizer"])
    elif own.get("checkpoint"):
        name = own["checkpoint"]
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
        tokenizer = train(own["family"], texts, own["vocabulary"])
        model = classifier(with_dropout(sizes(own, tokenizer), *rates), task.kind, classes)
    family = model.net.config.model_type
    if own.get("family", family) != family:
        raise ValueError(f"encoder.family: {own['family']!r} (allowed: {family}, as the model is)")
    tokenizer.check_model(model.net.config)
    if settings["max_length"] > model.longest:
        raise ValueError(
            f"max_length: {settings['max_length']} (allowed: at most {model.longest}, as the encoder reads)"
        )
    return model, tokenizer


def outputs(task: TextTask) -> int:
    """Number of outputs of a model for the task: one per class for classification, otherwise one."""
    return int(task.classes) if task.kind == "classification" else 1


def sizes(own: Mapping[str, Any], tokenizer: SentenceTokenizer) -> dict[str, Any]:
    """The configuration of an encoder of these sizes; see relearn.models.sentence_encoder.configuration."""
    from relearn.models.sentence_encoder import configuration

    return configuration(
        own["family"],
        **{key: own[key] for key in ("layers", "dim", "heads", "ffn", "dropout", "attention_dropout")},
        embedding_dim=own.get("embedding_dim"),
        max_length=own["max_length"],
        vocabulary=len(tokenizer),
        special={"bos": tokenizer.bos, "pad": tokenizer.pad, "eos": tokenizer.eos},
    )
