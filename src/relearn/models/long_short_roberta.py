r"""Conversion of a RoBERTa checkpoint to long-short attention (zhu2022, section 5.3.1, table 5.4).

The method is that of Longformer (Beltagy et al., 2020, section 5): all weights of the checkpoint are reused, its position embeddings are
repeated up to the new length, and masked language modelling is continued.

This module needs ``transformers``, which may be missing on an offline GPU machine. It is therefore imported only when a function
is called.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from relearn.layers.long_short_attention import LongShortAttention
from relearn.layers.long_short_core import heads_first, prepare_keys_values
from relearn.layers.on_device import wide
from relearn.maths.eval_mode import eval_mode
from relearn.torchvision_schema import transformers

NAME = "long_short"  # key of the mask function, and of the converted model's sizes in its configuration
SIZES = ("window", "rank", "dual_norm")


class LongShortSelf(nn.Module):
    """Replacement for ``RobertaSelfAttention``: long-short attention with the checkpoint's queries, keys and values, and no output map.

    The first token, <s>, is the class token: it attends to all tokens, and all tokens attend to it. The dropout rate of the attention
    weights is the checkpoint's.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        sizes = {key: getattr(config, NAME)[key] for key in SIZES}
        self.attention = LongShortAttention(
            config.hidden_size,
            config.num_attention_heads,
            class_token=1,
            attention_dropout=config.attention_probs_dropout_prob,
            eps=config.layer_norm_eps,
            **sizes,
        )
        self.attention.add_module("proj", nn.Identity())  # the checkpoint has its own output map
        if self.attention.score is not None:
            nn.init.normal_(self.attention.score.weight, std=config.initializer_range)

    def take(self, old: nn.Module) -> None:
        """Copy the maps, dtype and device of a ``RobertaSelfAttention``."""
        parts: list[nn.Linear] = [getattr(old, name) for name in ("query", "key", "value")]
        self.to(parts[0].weight)
        with torch.no_grad():
            self.attention.qkv.weight.copy_(torch.cat([part.weight for part in parts]))
            self.attention.qkv.bias.copy_(torch.cat([part.bias for part in parts]))

    @torch.no_grad()
    def start_norms(self, hidden: Tensor, mask: Tensor | None) -> None:
        """Set LN_L and LN_G so that they change the keys and values of ``hidden`` (B, n, D) as little as possible; see
        :func:`closest`."""
        one = self.attention
        if one.local_norm is None:
            return
        _, raw = heads_first(one.qkv(hidden), one.heads)
        real = torch.ones(hidden.shape[:2], dtype=torch.bool, device=hidden.device) if mask is None else mask
        closest(one.local_norm, raw.permute(0, 1, 3, 2, 4)[:, real])
        if one.score is not None:
            assert one.global_norm is not None
            scores = wide(one.score(hidden[:, 1:]))
            without = one.norms._replace(global_weight=None, global_bias=None)
            closest(one.global_norm, prepare_keys_values(raw, scores, mask, without, one.form)[1])

    def forward(
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, **others: Any
    ) -> tuple[Tensor, None]:
        """Return the attention output (B, n, D), and None in place of the weights; ``attention_mask``: (B, n), nonzero = real token."""
        if others.get("past_key_values") is not None:
            raise ValueError("past_key_values: not None (allowed: None; this is not a decoder)")
        if attention_mask is not None and attention_mask.dim() != 2:
            raise ValueError(
                f"attention_mask: shape {tuple(attention_mask.shape)} (allowed: (B, n), 1 = a real token)"
            )
        return self.attention(
            hidden_states, mask=None if attention_mask is None else attention_mask.bool()
        ), None


@torch.no_grad()
def closest(norm: nn.LayerNorm, rows: Tensor) -> None:
    r"""Set weight and bias so that the norm is as close to the identity on ``rows`` (..., d) as possible.

    .. math:: \min_{g, b}\ \sum_i \| g \odot z_i + b - u_i \|^2, \qquad z_i = \frac{u_i - \bar u_i}{\sqrt{\sigma_i^2 + \epsilon}}

    This is a least-squares problem in every channel c: :math:`g_c = \mathrm{cov}(z_c, u_c) / \mathrm{var}(z_c)`,
    :math:`b_c = \bar u_c - g_c \bar z_c`; a channel in which z is constant keeps g = 1.
    """
    u = rows.reshape(-1, rows.shape[-1]).double()
    z = nn.functional.layer_norm(u, u.shape[-1:], eps=norm.eps)
    spread, mean = z - z.mean(0), u.mean(0)
    variance = spread.square().mean(0)
    gain = torch.where(variance > 1e-12, (spread * (u - mean)).mean(0) / variance.clamp_min(1e-12), 1.0)
    norm.weight.copy_(gain)
    norm.bias.copy_(mean - gain * z.mean(0))


def convert(
    model: Any,
    *,
    window: int,
    rank: int,
    max_length: int | None = None,
    dual_norm: bool = True,
    sample: tuple[Tensor, Tensor] | None = None,
) -> Any:
    """Replace every self-attention of a RoBERTa model by long-short attention, in place.

    Query, key, value and output maps and everything outside the attention stay bit for bit the same. For p = 1, 2, … up to
    ``max_length``, position p uses the embedding of position 1 + (p - 1) mod N, where N is the number of positions of the checkpoint.
    New parameters are the scores of the dynamic projection and the norms LN_L and LN_G. The scores are initialised with N(0, σ²), where σ
    is the checkpoint's ``initializer_range``, like all of its maps (with σ = 0 all r vectors of a head would have the same gradient and
    remain equal). The norms have torch's initialisation, 1 and 0. With ``sample`` they are instead set, layer by layer, so that they
    change the keys and values of these sequences as little as possible (:func:`closest`), given the hidden states of the unconverted
    checkpoint.

    With ``rank=0``, ``dual_norm=False`` and a window that covers the sequence, the outputs equal the checkpoint's. Masked tokens
    affect no other token. Masks are (B, n); no n x n mask is built.

    Args:
        model: a model of ``transformers``: RobertaModel, or one with a head (RobertaForMaskedLM, RobertaForSequenceClassification, …).
        window: w, see :class:`~relearn.layers.long_short_attention.LongShortAttention`.
        rank: r.
        max_length: number of tokens in the longest sequence, at least N; None: N.
        dual_norm: use LN_L and LN_G. zhu2022 does not say whether table 5.4 uses them; all its other bidirectional models do.
        sample: tokens and mask, both (B, n), n at most N.

    Returns:
        The model, with its configuration updated.

    Raises:
        ValueError: not a RoBERTa encoder, an already converted model, a length below N, or sizes that the layer rejects.
        ModuleNotFoundError: without ``transformers``.
    """
    library = transformers()
    if not isinstance(model, library.RobertaPreTrainedModel) or model.config.is_decoder:
        raise ValueError(
            f"model: found {type(model).__name__} (allowed: a RoBERTa encoder of transformers, with or without a head)"
        )
    if getattr(model.config, NAME, None):
        raise ValueError("model: already has long-short attention (allowed: a model with its own attention)")
    encoder, config = model.base_model, model.config
    before = positions(encoder)
    after = before if max_length is None else max_length
    if after < before:
        raise ValueError(
            f"max_length: {after} (allowed: at least {before}, the positions that the checkpoint has)"
        )
    layers = encoder.encoder.layer
    hidden = [] if sample is None else attention_inputs(model, *sample)
    old = [layer.attention.self for layer in layers]
    setattr(config, NAME, {"window": window, "rank": rank, "dual_norm": dual_norm})
    try:
        new = [LongShortSelf(config) for _ in layers]
    except ValueError:
        delattr(config, NAME)
        raise
    for layer, one, its in zip(layers, new, old):
        one.take(its)
        one.train(its.training)
        layer.attention.self = one
    for one, x in zip(new, hidden):
        assert sample is not None
        one.start_norms(x, sample[1].bool())
    lengthen(encoder, after)
    use_masks(model)
    return model


def attention_inputs(model: Any, tokens: Tensor, mask: Tensor) -> list[Tensor]:
    """Return the input of every self-attention of the model for these tokens, in eval mode."""
    found: list[Tensor] = []
    hooks = [
        layer.attention.register_forward_pre_hook(lambda _, given: found.append(given[0].detach()))
        for layer in model.base_model.encoder.layer
    ]
    try:
        with torch.no_grad(), eval_mode(model):
            model.base_model(tokens, attention_mask=mask)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def positions(encoder: Any) -> int:
    """Return N, the number of positions of a RobertaModel; its table has ``pad_token_id + 1`` further rows that no token uses."""
    return int(encoder.config.max_position_embeddings - encoder.config.pad_token_id - 1)


def lengthen(encoder: Any, length: int) -> None:
    """Extend the position embeddings of a RobertaModel to ``length`` by repeating them cyclically."""
    before, embeddings = positions(encoder), encoder.embeddings
    if length == before:
        return
    front = encoder.config.pad_token_id + 1
    old = embeddings.position_embeddings.weight.detach()
    rows = front + torch.arange(length, device=old.device) % before
    table = nn.Embedding.from_pretrained(
        torch.cat([old[:front], old[rows]]), freeze=False, padding_idx=encoder.config.pad_token_id
    )
    embeddings.position_embeddings = table
    count = encoder.config.max_position_embeddings = front + length
    embeddings.position_ids = torch.arange(count, device=old.device).expand(1, -1)
    embeddings.token_type_ids = torch.zeros(1, count, dtype=torch.long, device=old.device)


def use_masks(model: Any) -> None:
    """Make the model pass masks to its attention layers unchanged, as (B, n)."""
    from transformers.masking_utils import AttentionMaskInterface

    AttentionMaskInterface.register(NAME, unchanged_mask)
    model.config._attn_implementation_internal = NAME
    model.base_model.config._attn_implementation_internal = NAME


def unchanged_mask(*_: Any, attention_mask: Tensor | None = None, **others: Any) -> Tensor | None:
    """Mask function for ``transformers`` that returns the mask unchanged."""
    return attention_mask


def classifier(model: Any, classes: int) -> Any:
    """Build a RobertaForSequenceClassification on the encoder of ``model`` (shared, not copied), with a newly initialised head."""
    library = transformers()
    kept = {
        key: value for key, value in model.config.to_dict().items() if key not in ("id2label", "label2id")
    }
    config = library.RobertaConfig.from_dict({**kept, "num_labels": classes})
    net = library.RobertaForSequenceClassification(config)
    net.to(next(model.parameters()))
    net.roberta, net.config = model.base_model, config
    net.roberta.config = config
    if getattr(config, NAME, None):
        use_masks(net)
    return net


def build(architecture: str, config: dict[str, Any]) -> Any:
    """Build a newly initialised ``transformers`` model, given its class name and configuration; converted if the configuration says so.

    Raises:
        ValueError: the class is not a RoBERTa model.
        ModuleNotFoundError: without ``transformers``.
    """
    library = transformers()
    kind = getattr(library, architecture, None)
    if not (isinstance(kind, type) and issubclass(kind, library.RobertaPreTrainedModel)):
        raise ValueError(f"architecture: {architecture!r} (allowed: a RoBERTa class of transformers)")
    model = kind(library.RobertaConfig.from_dict(config))
    if getattr(model.config, NAME, None):
        for layer in model.base_model.encoder.layer:
            layer.attention.self = LongShortSelf(model.config)
        use_masks(model)
    return model


def load(folder: Path | str) -> Any:
    """Load a converted model from a folder written by its ``save_pretrained``, in eval mode.

    ``AutoModel`` cannot do this, because it would build RoBERTa's own attention.

    Raises:
        ValueError: the folder lacks a file or contains no converted model, or the weights do not fit.
        ModuleNotFoundError: without ``transformers``.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    library, folder = transformers(), Path(folder)
    for name in ("config.json", "model.safetensors"):
        if not (folder / name).is_file():
            raise ValueError(f"{folder}: has no {name} (allowed: what save_pretrained wrote)")
    config = library.RobertaConfig.from_pretrained(folder, local_files_only=True)
    if not getattr(config, NAME, None) or not config.architectures:
        raise ValueError(f"{folder}: not a converted model (allowed: a model that convert() was given)")
    model = build(config.architectures[0], config.to_dict())
    try:
        given = load_file(folder / "model.safetensors")
        model.to(next(iter(given.values())).dtype)
        result = model.load_state_dict(given, strict=False)
    except (SafetensorError, RuntimeError) as error:
        raise ValueError(f"{folder}: weights do not fit: {' '.join(str(error).split())[:200]}") from None
    lacking = set(result.missing_keys) - set(getattr(model, "_tied_weights_keys", None) or ())
    if lacking or result.unexpected_keys:
        wrong = min(lacking or result.unexpected_keys)
        raise ValueError(f"{folder}: weights do not fit: {wrong} is {'missing' if lacking else 'not known'}")
    model.tie_weights()
    return model.eval()
