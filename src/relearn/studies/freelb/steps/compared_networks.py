"""What `provoke` looks at: a network with the texts as it reads them, and read from word embeddings instead of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from relearn.data.examples import Examples
    from relearn.measures.loss_increase import Losses


class Network:
    """A network, and the samples as its tokenizer reads them.

    Raises:
        ValueError: a file of something else; an answer that does not fit the task's.
    """

    def __init__(
        self, name: str, path: Path, part: Examples, settings: Mapping[str, Any], device: str
    ) -> None:
        from relearn.data.sentence_batches import SentenceBatches
        from relearn.studies.freelb.steps.sentence_files import load

        assert part.labels is not None  # see read
        self.net, tokenizer = load(path, device)
        self.table = self.net.get_input_embeddings()
        size, longest = settings["batch_size"], settings["max_length"]
        if longest > self.net.longest:
            raise ValueError(f"max_length: {longest} (allowed: at most {self.net.longest}, as {name} reads)")
        self.batches = SentenceBatches(part, tokenizer, batch_size=size, longest=longest, device=device)
        ranking = bool((self.batches.candidates > 1).any())
        classes = 1 if ranking else self.net.classes
        if (self.net.kind == "ranking") != ranking or (not ranking and int(part.labels.max()) >= classes):
            kind = "candidates" if ranking else f"{int(part.labels.max()) + 1} classes or more"
            raise ValueError(
                f"{name}: a network of {self.net.kind}, {self.net.classes} outputs (allowed: one of {kind})"
            )

    def some(self, numbers: Tensor) -> Some:
        """These samples, all of one number of candidates."""
        return Some(self, numbers)


class Some:
    """Some samples and their word embeddings, from which the network can be read."""

    def __init__(self, network: Network, numbers: Tensor) -> None:
        import torch

        self.network = network
        self.given, self.labels = network.batches.batch(numbers)
        self.real = self.given[1]
        with torch.no_grad():
            self.embeds = network.table(self.given[0])

    def losses_of(self, rows: Any) -> Losses:
        """The losses of these of the samples at given embeddings.

        The table's output is replaced on its way, so that positions, types and padding stay as the tokens have them.
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
