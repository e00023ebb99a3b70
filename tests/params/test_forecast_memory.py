"""The forecast of memory against what networks really hold, and that it refuses what does not fit."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from pydantic import BaseModel
from torch import nn

from relearn.layers.self_attention import SelfAttention
from relearn.models.character_lm import CharacterTransformer
from relearn.models.long_short_lm import LongShortLM
from relearn.models.lra_encoder import LRAEncoder
from relearn.models.residual_vit import ResidualViT
from relearn.params import forecast_memory
from relearn.params import reading as params
from relearn.params.forecast_memory import LIMIT, TRAINED, Need, Tensor, transformer
from relearn.params.strict_yaml import dotted
from relearn.studies import parameters
from relearn.studies.study import all_studies

from .rules import laid_over

ROOT = Path(__file__).resolve().parents[2]
SIZES: dict[str, Any] = {"layers": 3, "dim": 32, "ffn": 96, "heads": 4}
V = 50

NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "character_lm": lambda: CharacterTransformer(attention="l2_tied", vocabulary=V, **SIZES),
    "lra_encoder": lambda: LRAEncoder("full", vocabulary=V, classes=10, max_length=64, **SIZES),
    "long_short_lm": lambda: LongShortLM(vocabulary=V, window=8, segment=4, rank=1, **SIZES),
    "residual_vit": lambda: ResidualViT(
        num_classes=10, embed_dim=32, num_heads=4, depth=3, mlp_ratio=3.0, img_size=8, patch_size=2
    ),
}


def weights(tensors: tuple[Tensor, ...]) -> int:
    """Numbers that are trained."""
    return sum(tensor.bytes for tensor in tensors if tensor.each == TRAINED) // TRAINED


def kept(network: nn.Module, tokens: torch.Tensor) -> int:
    """Bytes that a forward pass keeps for the backward pass, each storage once, weights left out."""
    own = {parameter.untyped_storage().data_ptr() for parameter in network.parameters()}
    found: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            found[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        network(tokens)
    return sum(storage.nbytes() for storage in found.values())


@pytest.mark.parametrize("name", NETWORKS)
def test_a_forecast_of_weights_is_close_to_the_network_and_never_above_it(name: str) -> None:
    network = NETWORKS[name]()
    real = sum(parameter.numel() for parameter in network.parameters())
    forecast = weights(
        transformer(**SIZES, length=16, batch=1, vocabulary=0 if name == "residual_vit" else V)
    )
    assert real / 2 < forecast <= real


@pytest.mark.parametrize(("batch", "length"), [(2, 16), (2, 256)])
@pytest.mark.parametrize("fused", [False, True])
def test_a_forecast_of_activations_is_what_a_step_keeps_at_least(
    batch: int, length: int, fused: bool
) -> None:
    """At long sequences the attention weights are most of it, unless a fused kernel spares them."""
    network = CharacterTransformer(V, attention="dp", **SIZES)
    for layer in network.attention_layers():
        assert isinstance(layer, SelfAttention)
        layer.fused = fused
    parts = {
        tensor.what: tensor.bytes
        for tensor in transformer(**SIZES, length=length, batch=batch, vocabulary=V)
        if tensor.each != TRAINED
    }
    scores = parts.pop("attention weights of a layer")
    real = kept(network, torch.zeros(batch, length, dtype=torch.long))
    least = sum(parts.values()) + (0 if fused else scores)
    assert real / 12 < least <= real
    if length == 256:
        assert (real > SIZES["layers"] * scores) is not fused


def test_terms_grow_as_their_formulas_say() -> None:
    """Twice the length is four times the attention, twice the activations and no more weights."""
    once, twice = (
        {tensor.what: tensor.bytes for tensor in transformer(**SIZES, length=n, batch=2, vocabulary=V)}
        for n in (64, 128)
    )
    assert {what: twice[what] / once[what] for what in once} == {
        "weights of the layers": 1,
        "embedding": 1,
        "activations": 2,
        "logits": 2,
        "attention weights of a layer": 4,
    }
    shared = transformer(**SIZES, length=64, batch=2, shared=True)
    assert weights(shared) * SIZES["layers"] == once["weights of the layers"] // TRAINED


def test_the_limit_itself_is_allowed() -> None:
    for size, number in ((LIMIT, 0), (LIMIT + 1, 1)):
        need = Need(
            ("a", 0), 7, (Tensor("thing", (("size", size),), 1), Tensor("nothing", (("size", 0),), 1))
        )
        assert len(list(forecast_memory.refused(iter([need])))) == number
    (found,) = forecast_memory.refused(iter([need]))
    assert found == (
        ("a", 0),
        f"found 7, allowed: at most 2048 GiB at this size, not 2048 GiB; most: thing (size {LIMIT + 1} x 1 bytes)",
    )


# forecast: (values that are each in range and together too large, the key that is named, a word of the largest tensor)
BEYOND: dict[str, tuple[dict[str, Any], str, str]] = {
    "gradinit.ImageNet._folder_memory": (
        {"gradinit.imagenet.batch_size": 65_536, "gradinit.imagenet.size": 1024},
        "gradinit.imagenet.batch_size",
        "channels 64",
    ),
    "gradinit.GradInit._translation_memory": (
        {
            "gradinit.translation.network.ffn": 65_536,
            "gradinit.translation.network.layers": 1024,
            "gradinit.translation.train.max_tokens": 131_072,
        },
        "gradinit.translation.train.max_tokens",
        "activations",
    ),
    "gradinit.GradInit._beam_memory": (
        {
            "gradinit.translation.beam.size": 10_000,
            "gradinit.translation.beam.extra": 10_000,
            "gradinit.translation.network.dim": 4096,
            "gradinit.translation.network.layers": 8,
        },
        "gradinit.translation.beam.size",
        "units so far",
    ),
    "layer_scale.LayerScale._memory": (
        {
            "layer_scale.network.dim": 65_536,
            "layer_scale.network.heads": 4,
            "layer_scale.grid.depths": [1024],
        },
        "layer_scale.network.dim",
        "weights of the layers",
    ),
    "l2_attention.L2Attention._models": (
        {"l2_attention.network.dim": 65_536, "l2_attention.depths.fixed.dp": [1024]},
        "l2_attention.network.dim",
        "weights of the layers",
    ),
    "l2_attention.L2Attention._timed": (
        {"l2_attention.clock.batch_size": 65_536, "l2_attention.clock.layers": [1024]},
        "l2_attention.clock.dim",
        "activations",
    ),
    "l2_attention.Growth._memory": (
        {
            "l2_attention.figure_8.length": 131_072,
            "l2_attention.figure_8.dim": 64,
            "l2_attention.figure_8.heads": 64,
        },
        "l2_attention.figure_8.starts",
        "attention weights",
    ),
    "l2_attention.Inversion._memory": (
        {"l2_attention.inversion.lengths": [16, 131_072]},
        "l2_attention.inversion.batch",
        "attention weights",
    ),
    "l2_attention.Examine._jacobian": (
        {"l2_attention.examine.lengths": [3, 2048], "l2_attention.examine.dims": [2, 1024]},
        "l2_attention.examine.dims[1]",
        "Jacobian",
    ),
    "lipsformer.Widths._jacobian": (
        {"lipsformer.examine.theorem_2.lengths": [131_072], "lipsformer.examine.theorem_2.dims": [16]},
        "lipsformer.examine.theorem_2.dims[0]",
        "Jacobian",
    ),
    "lipsformer.SpectralStart._frequencies": (
        {"lipsformer.examine.spectral_start.channels": [8, 65_536]},
        "lipsformer.examine.spectral_start.channels[1]",
        "frequencies",
    ),
    "lipsformer.Throughput._first_stage": (
        {"lipsformer.throughput.batch_size": 65_536, "lipsformer.throughput.size": 1024},
        "lipsformer.throughput.batch_size",
        "activations",
    ),
    "lrformer.LRFormer._memory": (
        {"lrformer.network.dim": 65_536, "lrformer.network.heads": 4},
        "lrformer.network.dim",
        "weights of the layers",
    ),
    "lrformer.LRFormer._jacobian": (
        {"lrformer.examine.lrsa.lengths": [1024], "lrformer.examine.lrsa.dims": [3, 1024]},
        "lrformer.examine.lrsa.dims[1]",
        "Jacobian",
    ),
    "freelb.FreeLB._encoder_memory": (
        {"freelb.encoders.bert.dim": 65_536, "freelb.encoders.bert.layers": 24},
        "freelb.encoders.bert.dim",
        "weights of the layers",
    ),
    "long_short.Generated._memory": (
        {
            "long_short.prepare_lra.listops.train_samples": 10_000_000,
            "long_short.prepare_lra.listops.test_samples": 10_000_000,
            "long_short.prepare_lra.listops.max_length": 131_072,
        },
        "long_short.prepare_lra.listops.train_samples",
        "sequences",
    ),
    "long_short.LongShort._encoder_memory": (
        {"long_short.prepare_lra.text.max_length": 131_072},
        "long_short.prepare_lra.text.max_length",
        "attention weights",
    ),
    "long_short.LongShort._char_lm_memory": (
        {
            "long_short.train_long_char_lm.evaluation.context": 131_072,
            "long_short.train_long_char_lm.evaluation.batch_size": 65_536,
        },
        "long_short.train_long_char_lm.evaluation.context",
        "activations",
    ),
    "long_short.Curve._memory": (
        {
            "long_short.benchmark_attention.curve.lengths": [131_072],
            "long_short.benchmark_attention.curve.full_longest": 131_072,
            "long_short.benchmark_attention.curve.batches": [64],
        },
        "long_short.benchmark_attention.curve.full_longest",
        "attention weights",
    ),
    "long_short.LongShort._latency_memory": (
        {
            "long_short.benchmark_attention.latency.lengths.text": 131_072,
            "long_short.benchmark_attention.latency.batch_size": 32,
        },
        "long_short.benchmark_attention.latency.lengths.text",
        "attention weights",
    ),
    "long_short.ConvertRoberta._memory": (
        {
            "long_short.convert_roberta.config.vocabulary": 262_144,
            "long_short.convert_roberta.finetune.batch_size": 32,
            "long_short.convert_roberta.max_length": 131_072,
        },
        "long_short.convert_roberta.max_length",
        "logits",
    ),
}


def forecasts(study: str, section: type[BaseModel]) -> Iterator[str]:
    """The forecasts of a section and of all below it, by study and class."""
    for base in section.__mro__:
        for name, method in vars(base).items():
            if getattr(method, "__forecasts__", False):
                yield f"{study}.{base.__name__}.{name}"
    for field in section.model_fields.values():
        for part in (field.annotation, *get_args(field.annotation)):
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from forecasts(study, part)


def test_every_forecast_is_tried() -> None:
    sections = {study.name: study.part("params").SECTION for study in all_studies()}
    assert {name for study in sections.items() for name in forecasts(*study)} == set(BEYOND)


@pytest.mark.parametrize("forecast", BEYOND)
def test_what_does_not_fit_is_refused_in_one_line(forecast: str) -> None:
    """By this forecast and by no bound of a single key."""
    changes, key, word = BEYOND[forecast]
    with pytest.raises(params.ParamsError) as caught:
        parameters.load(ROOT / "params.yaml", overrides=laid_over({}, changes))
    assert all("at most 2048 GiB at this size" in line for line in caught.value.problems), caught.value
    line = next(line for line in caught.value.problems if f": {key}: found " in line)
    assert word in line.partition("most: ")[2]
    assert "\n" not in line


@pytest.mark.parametrize("scale", params.SCALES)
def test_every_scale_fits_with_room(scale: str) -> None:
    values = parameters.load(ROOT / "params.yaml", scale=scale)
    forecasts = {dotted(one.path): one.bytes for one in parameters.needs(values)}
    assert len(forecasts) > 20
    assert max(forecasts.values()) * 30 < LIMIT
