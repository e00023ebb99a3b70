"""The networks that `max_loss_increase` compares, with their tokenized samples, evaluated at given word embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from relearn.data.examples import Examples
    from relearn.measures.loss_increase import Losses


class Network:
    """A network, and the samples encoded by its tokenizer.

    Raises:
        ValueError: the file does not contain such a network, ``longest`` exceeds the network's, or its outputs do not fit the task.
    """

    def __init__(
        self, name: str, path: Path, part: Examples, *, batch_size: int, longest: int, device: str
    ) -> None:
        from relearn.data.sentence_batches import SentenceBatches
        from relearn.studies.freelb.steps.sentence_files import load

        assert part.labels is not None  # see read
        self.net, tokenizer = load(path, device)
        self.table = self.net.get_input_embeddings()
        if longest > self.net.longest:
            raise ValueError(f"max_length: {longest} (allowed: at most {self.net.longest}, as {name} reads)")
        self.batches = SentenceBatches(part, tokenizer, batch_size=batch_size, longest=longest, device=device)
        ranking = bool((self.batches.candidates > 1).any())
        classes = 1 if ranking else self.net.classes
        if (self.net.kind == "ranking") != ranking or (not ranking and int(part.labels.max()) >= classes):
            kind = "candidates" if ranking else f"{int(part.labels.max()) + 1} classes or more"
            raise ValueError(
                f"{name}: a network of {self.net.kind}, {self.net.classes} outputs (allowed: one of {kind})"
            )

    def samples(self, numbers: Tensor) -> Samples:
        """The samples with these indices, which must all have the same number of candidates."""
        return Samples(self, numbers)


class Samples:
    """Samples and their word embeddings, at which the network can be evaluated."""

    def __init__(self, network: Network, numbers: Tensor) -> None:
        import torch

        self.network = network
        self.given, self.labels = network.batches.batch(numbers)
        self.real = self.given[1]
        with torch.no_grad():
            self.embeds = network.table(self.given[0])

    def losses_of(self, rows: Any) -> Losses:
        """The losses of the samples ``rows`` as a function of their word embeddings.

        A hook replaces the output of the embedding table, so positions, token types and padding are still those of the tokens.
        """
        from relearn.measures.loss_increase import sample_losses

        network, labels = self.network, self.labels[rows]
        given = tuple(one[rows] for one in self.given)

        def losses(embeds: Tensor) -> Any:
            hook = network.table.register_forward_hook(lambda module, tokens, own: embeds.reshape(own.shape))
            try:
                return sample_losses(network.net(*given), labels)
            finally:
                hook.remove()

        return losses
