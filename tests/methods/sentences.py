"""Small sentence encoders and batches in float64, for the tests of adversarial training."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss

from relearn.models.sentence_encoder import SentenceClassifier, classifier, configuration

LOSSES = {"classification": cross_entropy, "ranking": cross_entropy, "regression": mse_loss}
SIZES: dict[str, Any] = dict(layers=2, dim=16, heads=2, ffn=24, embedding_dim=8, max_length=12, vocabulary=40)


def encoder(
    family: str = "roberta", kind: str = "classification", dropout: float = 0.2, seed: int = 0
) -> SentenceClassifier:
    """In training mode; drawn wide, so that its attention is not flat."""
    torch.manual_seed(seed)
    special = {"bos": 0, "pad": 1, "eos": 2}
    config = configuration(family, dropout=dropout, attention_dropout=dropout, special=special, **SIZES)
    net = classifier(config, kind, 3 if kind == "classification" else 1).double().train()
    with torch.no_grad():
        for one in net.parameters():
            if one.dim() > 1:
                one.mul_(3.0)
    return net


def sentences(kind: str = "classification", rows: int = 5, seed: int = 0) -> tuple[Any, Tensor]:
    """A batch; token types only where a caller adds them. Ranking: 3 candidates a sample."""
    generator = torch.Generator().manual_seed(seed)
    shape = (rows, 3, 8) if kind == "ranking" else (rows, 8)
    tokens = torch.randint(3, 40, shape, generator=generator)
    lengths = torch.randint(3, 9, shape[:-1], generator=generator)
    lengths.view(-1)[0] = 8
    real = torch.arange(8) < lengths[..., None]
    labels = torch.randint(0, 3, (rows,), generator=generator)
    inputs = (tokens.where(real, torch.tensor(1)), real)
    return inputs, labels.double() if kind == "regression" else labels


def gradients(model: torch.nn.Module) -> dict[str, Tensor]:
    return {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}


def apart(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> float:
    """The largest difference of an entry over the largest entry; infinite where the names differ."""
    if ours.keys() != theirs.keys():
        return float("inf")
    largest = max(float(one.abs().max()) for one in theirs.values())
    return max(float((ours[name] - theirs[name]).abs().max()) for name in theirs) / largest


def take(strategy: Any, model: torch.nn.Module, batch: Any, loss: Any = cross_entropy, seed: int = 1) -> Any:
    """(value, gradients) of one step from a fixed random state."""
    model.zero_grad(set_to_none=True)
    torch.manual_seed(seed)
    value = strategy(model, loss, batch)
    return float(value), gradients(model)
