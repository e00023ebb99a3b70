r"""RoBERTa, BERT and ALBERT with a head for single texts, text pairs, or several candidates (zhu2022, section 3.3).

The **kind** of a head is ``classification`` (logits of C classes), ``regression`` (one value) or ``ranking``. In ranking every candidate
is encoded separately and gets one score, and the softmax is taken over the candidates of a sample (Liu et al., 2019, section 5.1, for
QNLI and WNLI).

This module uses ``transformers``, imported only when a function is called. Configurations are plain dicts with its own keys.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from relearn.torchvision_schema import transformers

FAMILIES = ("roberta", "bert", "albert")
KINDS = ("classification", "regression", "ranking")
HEADS = {
    "roberta": "lm_head",
    "bert": "cls",
    "albert": "predictions",
}  # map from hidden states to the vocabulary
LEFT_OUT = ("_name_or_path", "transformers_version", "architectures", "id2label", "label2id", "dtype")


class SentenceClassifier(nn.Module):
    """A sequence classification model of ``transformers`` with the signature of the training loop.

    Args:
        net: an ``…ForSequenceClassification`` of :data:`FAMILIES`, with as many outputs as the kind requires.
        kind: one of :data:`KINDS`.

    Attributes:
        net, kind: the arguments; classes: number of outputs of the net.

    Raises:
        ValueError: an unknown kind, a wrong number of outputs, or input embeddings that are not a table of tokens.
    """

    def __init__(self, net: Any, kind: str) -> None:
        super().__init__()
        if kind not in KINDS:
            raise ValueError(f"kind: {kind!r} (allowed: {', '.join(KINDS)})")
        outputs = int(net.config.num_labels)
        if (outputs < 2) if kind == "classification" else (outputs != 1):
            allowed = "at least 2 classes" if kind == "classification" else f"1, a {kind} task has one output"
            raise ValueError(f"classes: {outputs} (allowed: {allowed})")
        try:
            table = net.get_input_embeddings()
        except (AttributeError, NotImplementedError):
            table = None
        if not isinstance(table, nn.Embedding):
            raise ValueError(
                f"model: {type(net).__name__} has no input embeddings (allowed: one with a table of tokens, nn.Embedding)"
            )
        self.net, self.kind, self.classes = net, kind, outputs

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the table of word embeddings, (V, d)."""
        table: nn.Embedding = self.net.get_input_embeddings()
        return table

    @property
    def longest(self) -> int:
        """Maximum number of tokens in a sequence."""
        return positions(self.net.config)

    def forward(self, tokens: Tensor, real: Tensor, types: Tensor | None = None) -> Tensor:
        """Return logits (B, C), values (B,), or scores (B, C) of candidates.

        A candidate without any real token only pads the batch: its score is the dtype's minimum, its softmax probability is 0, and it
        receives no gradient.

        Args:
            tokens: (B, n), or (B, C, n) for ranking, int64; all B C rows are encoded in one pass. Ranking also accepts
                (B, n): one candidate per sample.
            real: bool, same shape; False = padding.
            types: same shape, 0 for the first and 1 for the second text; None if the net has only one type.
        """
        shape = tokens.shape[:-1]
        if not 1 <= len(shape) <= (2 if self.kind == "ranking" else 1):
            allowed = "(B, n), (B, C, n)" if self.kind == "ranking" else "(B, n)"
            raise ValueError(f"tokens: shape {tuple(tokens.shape)} (allowed: {allowed} for {self.kind})")
        if self.kind == "ranking" and len(shape) == 1:
            shape = torch.Size([*shape, 1])
        flat, mask = tokens.flatten(0, -2), real.flatten(0, -2)
        there = mask.any(1)
        if self.kind == "ranking":
            # A row that attends to nothing gives NaN in some attention implementations, and NaN times 0 is NaN.
            mask = torch.cat([mask[:, :1] | ~there[:, None], mask[:, 1:]], 1)
        given: dict[str, Tensor] = {"attention_mask": mask}
        if types is not None and self.net.config.type_vocab_size > 1:
            given["token_type_ids"] = types.flatten(0, -2)
        logits: Tensor = self.net(flat, **given).logits
        if self.kind == "classification":
            return logits
        scores = logits.squeeze(-1).unflatten(0, shape)
        if self.kind == "regression":
            return scores
        return scores.masked_fill(~there.unflatten(0, shape), torch.finfo(scores.dtype).min)


class SentenceGuesses(nn.Module):
    """Logits (K, V) of the K masked tokens only, for masked language modelling; this map is most of a small model's computation."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net, self.head = net, HEADS[net.config.model_type]

    def forward(self, tokens: Tensor, real: Tensor, hidden: Tensor) -> Tensor:
        """Return the logits for ``tokens``, ``real`` and ``hidden`` (B, n); rows follow the order of the tokens."""
        states = self.net.base_model(tokens, attention_mask=real)[0]
        logits: Tensor = getattr(self.net, self.head)(states[hidden])
        return logits


def configuration(
    family: str,
    *,
    layers: int,
    dim: int,
    heads: int,
    ffn: int,
    embedding_dim: int | None = None,
    dropout: float,
    attention_dropout: float,
    max_length: int,
    vocabulary: int,
    special: Mapping[str, int],
) -> dict[str, Any]:
    r"""Return the configuration of an encoder with these sizes; everything else is as in the family's published checkpoints.

    Weights are initialised with :math:`\mathcal N(0, \sigma^2)`, :math:`\sigma = 0.02\,\sqrt{768/D}` at width D; at 768 this is the
    published 0.02.

    Args:
        family: one of :data:`FAMILIES`.
        embedding_dim: width of ALBERT's word embeddings, which a linear map expands to ``dim``; the other families use ``dim``.
        dropout: dropout rate of the hidden states, and before the head's map.
        attention_dropout: dropout rate of the attention probabilities.
        max_length: maximum number of tokens in a sequence.
        vocabulary, special: from the tokenizer; ``special`` has the ids ``bos``, ``pad`` and ``eos``.

    Raises:
        ValueError: an unknown family, or sizes that are below 1 or not divisible.
    """
    _known(family)
    sizes = {"layers": layers, "dim": dim, "heads": heads, "ffn": ffn, "max_length": max_length}
    sizes |= {"embedding_dim": embedding_dim or 0} if family == "albert" else {}
    for key, value in sizes.items():
        if value < 1:
            raise ValueError(f"encoder.{key}: {value} (allowed: at least 1)")
    if dim % heads:
        raise ValueError(f"encoder.heads: {heads} (allowed: a divisor of dim, {dim})")
    config: dict[str, Any] = {
        "model_type": family,
        "vocab_size": vocabulary,
        "hidden_size": dim,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": ffn,
        "max_position_embeddings": max_length,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
        "initializer_range": 0.02 * math.sqrt(768 / dim),
        "bos_token_id": special["bos"],
        "pad_token_id": special["pad"],
        "eos_token_id": special["eos"],
    }
    if family == "roberta":  # its positions are numbered from the padding id onwards
        config |= {"type_vocab_size": 1, "layer_norm_eps": 1e-5}
        config["max_position_embeddings"] = max_length + special["pad"] + 1
    if family == "albert":
        config["embedding_size"] = embedding_dim
    return with_dropout(config, dropout, attention_dropout)


def with_dropout(config: Mapping[str, Any], dropout: float | None, attention: float | None) -> dict[str, Any]:
    """Return the configuration with these rates; None leaves a rate unchanged. ``dropout`` also applies before the head's map.

    Raises:
        ValueError: a rate outside [0, 1).
    """
    for key, rate in {"dropout": dropout, "attention_dropout": attention}.items():
        if rate is not None and not 0 <= rate < 1:
            raise ValueError(f"{key}: {rate} (allowed: 0 <= rate < 1)")
    found = dict(config)
    if dropout is not None:
        answer = "classifier_dropout_prob" if config["model_type"] == "albert" else "classifier_dropout"
        found |= {"hidden_dropout_prob": dropout, answer: dropout}
    if attention is not None:
        found["attention_probs_dropout_prob"] = attention
    return found


def positions(config: Any) -> int:
    """Return the maximum number of tokens in a sequence; the first rows of RoBERTa's position table are never used by tokens."""
    lost = config.pad_token_id + 1 if config.model_type == "roberta" else 0
    return int(config.max_position_embeddings - lost)


def config_dict(config: Any) -> dict[str, Any]:
    """Return the ``transformers`` config as a dict, without version and label fields."""
    return {key: value for key, value in config.to_dict().items() if key not in LEFT_OUT}


def classifier(config: Mapping[str, Any], kind: str, classes: int = 1) -> SentenceClassifier:
    """Build a :class:`SentenceClassifier` with weights drawn from torch's global generator.

    Raises:
        ValueError: see :class:`SentenceClassifier`; a configuration of an unknown family.
        ModuleNotFoundError: without ``transformers``.
    """
    library = transformers()
    if kind not in KINDS:
        raise ValueError(f"kind: {kind!r} (allowed: {', '.join(KINDS)})")
    if kind != "classification" and classes != 1:
        raise ValueError(f"classes: {classes} (allowed: 1, a {kind} task has one output)")
    return SentenceClassifier(
        library.AutoModelForSequenceClassification.from_config(_config(config, num_labels=classes)), kind
    )


def guesser(config: Mapping[str, Any]) -> SentenceGuesses:
    """Build a :class:`SentenceGuesses` with weights drawn from torch's global generator.

    Raises:
        ValueError: a configuration of an unknown family.
        ModuleNotFoundError: without ``transformers``.
    """
    return SentenceGuesses(transformers().AutoModelForMaskedLM.from_config(_config(config)))


def from_checkpoint(
    name: str,
    kind: str,
    classes: int = 1,
    *,
    dropout: float | None = None,
    attention_dropout: float | None = None,
) -> SentenceClassifier:
    """Load the encoder of a checkpoint through the Auto classes of ``transformers``; a missing head is newly initialised.

    Args:
        name: a name on the hub (subject to its cache and ``HF_HUB_OFFLINE``), or a folder written by ``save_pretrained``.
        kind, classes, dropout, attention_dropout: see :class:`SentenceClassifier` and :func:`with_dropout`.

    Raises:
        ValueError: the checkpoint is unavailable, of an unknown family, or lacks weights of the encoder; a one-line message.
        ModuleNotFoundError: without ``transformers``.
    """
    library = transformers()
    families = ", ".join(FAMILIES)
    try:
        own = library.AutoConfig.from_pretrained(name)
    except (OSError, ValueError, RuntimeError) as fault:
        raise ValueError(_cannot(name, fault)) from None
    if own.model_type not in FAMILIES:
        raise ValueError(f"encoder.checkpoint: {name}: a {own.model_type} model (allowed: {families})")
    config = _config(with_dropout(config_dict(own), dropout, attention_dropout), num_labels=classes)
    try:
        net, told = library.AutoModelForSequenceClassification.from_pretrained(
            name,
            config=config,
            dtype=torch.float32,
            ignore_mismatched_sizes=True,  # allow the head of another task; the encoder's sizes match the configuration
            output_loading_info=True,
        )
    except (OSError, ValueError, RuntimeError) as fault:
        raise ValueError(_cannot(name, fault)) from None
    wrong = [*told["missing_keys"], *(one[0] for one in told["mismatched_keys"])]
    prefix = net.base_model_prefix + "."
    lacking = sorted(one for one in wrong if one.startswith(prefix) and ".pooler." not in one)
    if lacking:
        raise ValueError(
            f"encoder.checkpoint: {name}: has no {lacking[0]} that fits (allowed: all weights of the encoder)"
        )
    return SentenceClassifier(net, kind)


def take_encoder(model: SentenceClassifier, state: Mapping[str, Tensor]) -> None:
    """Load an encoder's state (names as in ``net.base_model``) into the model; the pooler is unchanged if missing in the state.

    Raises:
        ValueError: tensors that do not fit; a one-line message.
    """
    base = model.net.base_model
    try:
        result = base.load_state_dict(dict(state), strict=False)
    except RuntimeError as error:
        raise ValueError(f"encoder: its weights do not fit: {' '.join(str(error).split())[:200]}") from None
    lacking = [key for key in result.missing_keys if not key.startswith("pooler.")]
    if lacking or result.unexpected_keys:
        wrong = min(lacking or result.unexpected_keys)
        raise ValueError(
            f"encoder: its weights do not fit: {wrong} is {'missing' if lacking else 'not known'}"
        )


def _known(family: str) -> None:
    if family not in FAMILIES:
        raise ValueError(f"encoder.family: {family!r} (allowed: {', '.join(FAMILIES)})")


def _config(config: Mapping[str, Any], **more: Any) -> Any:
    _known(str(config.get("model_type")))
    own = dict(config)
    return transformers().AutoConfig.for_model(own.pop("model_type"), **own, **more)


def _cannot(name: str, fault: BaseException) -> str:
    line = str(fault).strip().splitlines()[0]
    return (
        f"encoder.checkpoint: {name}: {line} (allowed: a model of the hub or a folder, {', '.join(FAMILIES)})"
    )
