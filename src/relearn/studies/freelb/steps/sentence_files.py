"""Load a sentence model and its tokenizer from one file of relearn.models.sentence_encoder_files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relearn.data.sentence_tokens import SentenceTokenizer
    from relearn.models.sentence_encoder import SentenceClassifier


def load(path: Path, device: str = "cpu") -> tuple[SentenceClassifier, SentenceTokenizer]:
    """The model, in eval mode on ``device``, and its tokenizer.

    Raises:
        ValueError: there is no such file, or the vocabularies of tokenizer and model differ.
    """
    from relearn.data.sentence_tokens import SentenceTokenizer
    from relearn.models import sentence_encoder_files as files

    model, text = files.load(path, device)
    tokenizer = SentenceTokenizer.from_json(text)
    tokenizer.check_model(model.net.config)
    return model, tokenizer
