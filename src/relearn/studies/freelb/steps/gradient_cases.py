"""Cases that compare FreeLB's gradient with the gradient of the virtual batch (zhu2022, algorithm 3), in float64 on the CPU.

The networks are two-layer encoders of every family and kind of answer, with perturbed embeddings, and a small convolutional network
with perturbed pixels. All use dropout. The passes share their dropout masks, except in the cases named "fresh masks". See
:mod:`relearn.measures.virtual_batch`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

COLUMNS = ("case", "passes", "difference")
SIZES = {
    "layers": 2,
    "dim": 32,
    "heads": 2,
    "ffn": 48,
    "embedding_dim": 16,
    "max_length": 16,
    "vocabulary": 60,
}
PASSES = {"classification": 3, "regression": 2, "ranking": 4}
DROPOUT, SAMPLES, CANDIDATES, LENGTH = 0.2, 6, 3, 12
Row = dict[str, Any]


def gradient_cases() -> list[Row]:
    """Compute the rows, with :data:`COLUMNS`.

    ``difference`` is the largest absolute difference of an entry, relative to the largest entry of the gradient.

    Raises:
        ValueError: the passes of a case drew no masks, or whether they shared masks differs from what the case states.
    """
    return [*_sentences(), *_images()]


def _sentences() -> Iterator[Row]:
    from torch.nn.functional import cross_entropy, mse_loss

    from relearn.methods.freelb import FreeLB
    from relearn.models.sentence_encoder import FAMILIES, KINDS

    settings: dict[str, Any] = {"step_size": 0.3, "eps": 0.5, "start_norm": 0.4}
    for family in FAMILIES:
        for kind in KINDS:
            for reuse in (True, False) if kind == "classification" else (True,):
                deltas: list[Any] = []
                strategy = FreeLB(PASSES[kind], reuse_masks=reuse, watch=_collecting(deltas), **settings)
                model, batch = _encoder(family, kind), _batch(kind)
                loss = mse_loss if kind == "regression" else cross_entropy
                table = model.get_input_embeddings()
                name = f"{family}, {kind}{'' if reuse else ', fresh masks'}"
                yield _row(name, strategy, deltas, model, loss, batch, table, reuse)


def _images() -> Iterator[Row]:
    import torch
    from torch import nn
    from torch.nn.functional import cross_entropy

    from relearn.methods.freelb import FreeLB
    from relearn.methods.pixel_space import PixelSpace

    for norm in ("linf", "l2"):
        torch.manual_seed(0)
        layers = [nn.Conv2d(3, 8, 3), nn.Tanh(), nn.Dropout2d(DROPOUT), nn.Flatten(), nn.Dropout(DROPOUT)]
        model = nn.Sequential(*layers, nn.Linear(288, 4)).double().train()
        batch = (torch.rand(SAMPLES, 3, 8, 8, dtype=torch.float64), torch.arange(SAMPLES) % 4)
        deltas: list[Any] = []
        settings: dict[str, Any] = {"step_size": 0.1, "eps": 0.2, "start_norm": 0.2}
        settings |= {"norm": norm, "space": PixelSpace()}
        strategy = FreeLB(3, watch=_collecting(deltas), **settings)
        yield _row(f"pixels, {norm}", strategy, deltas, model, cross_entropy, batch, None, True)


def _row(
    name: str, strategy: Any, deltas: list[Any], model: Any, loss: Any, batch: Any, table: Any, reuse: bool
) -> Row:
    import torch

    from relearn.measures.virtual_batch import compare

    torch.manual_seed(1)
    found = compare(strategy, deltas, model, loss, batch, table)
    if not found.masks or found.reused is not reuse:
        raise ValueError(
            f"{name}: found {found.masks} masks a pass, reused {found.reused} (allowed: {reuse})"
        )
    return {"case": name, "passes": found.passes, "difference": found.difference}


def _collecting(deltas: list[Any]) -> Any:
    return lambda t, delta: deltas.append(delta.clone())


def _encoder(family: str, kind: str) -> Any:
    """An encoder with three times the usual initial weights, so that its attention is not uniform."""
    import torch

    from relearn.models.sentence_encoder import classifier, configuration

    torch.manual_seed(0)
    special = {"bos": 0, "pad": 1, "eos": 2}
    rates: dict[str, Any] = {"dropout": DROPOUT, "attention_dropout": DROPOUT}
    config = configuration(family, special=special, **rates, **SIZES)
    model = classifier(config, kind, 3 if kind == "classification" else 1).double().train()
    with torch.no_grad():
        for one in model.parameters():
            if one.dim() > 1:
                one.mul_(3.0)
    return model


def _batch(kind: str) -> Any:
    """A batch of rows of random lengths, with token types."""
    import torch

    generator = torch.Generator().manual_seed(0)
    shape = (SAMPLES, CANDIDATES, LENGTH) if kind == "ranking" else (SAMPLES, LENGTH)
    tokens = torch.randint(3, SIZES["vocabulary"], shape, generator=generator)
    lengths = torch.randint(4, LENGTH + 1, shape[:-1], generator=generator)
    lengths.view(-1)[0] = LENGTH
    real = torch.arange(LENGTH) < lengths[..., None]
    types = ((torch.arange(LENGTH) >= lengths[..., None] // 2) & real).long()
    labels = torch.randint(0, 3, (SAMPLES,), generator=generator)
    return (
        tokens.where(real, torch.tensor(1)),
        real,
        types,
    ), labels.double() if kind == "regression" else labels
