r"""Attacks of TextAttack on a sentence classifier: word and character changes, where eq. 3.5 moves word embeddings.

TextAttack (Morris et al., EMNLP 2020, arXiv 2005.05909) searches for a text :math:`x'` near x, within a recipe's constraints, with

.. math:: \arg\max_c f_c(x') \ne y, \qquad
          \text{success rate} = \frac{\#\{\text{attacked texts for which one was found}\}}{\#\{\text{texts with } \arg\max_c f_c(x) = y\}}

=========  ==========================================  ==================  =======================
symbol     meaning                                     code                shape, unit
=========  ==========================================  ==================  =======================
x, x'      a text, or a pair of texts                  ``Text``            str, or (str, str)
f          the classifier's probabilities              ``Probabilities``   (n, C) float64
y          label                                       ``labels``          int
queries    texts that the network was asked about,     ``asked``           count
           x itself among them; repeats are cached
=========  ==========================================  ==================  =======================

The library's word is not taken: a success counts only if the network itself gives x' another class (``unconfirmed`` otherwise, which
counts as a failure). Texts that the network gets wrong anyway are ``skipped``. Numbers hold for one recipe: an upper bound on the
accuracy under changes of its kind.

**The library.** It is optional, and used only here. TextAttack 0.3 imports flair, which needs transformers below 5, while this package
needs 5 or more; flair only tags parts of speech and names, so a stand-in takes its place that fails when a recipe asks for tags. It also
reads NLTK's English stop words at import; without that download, ``stopwords="sklearn"`` gives it scikit-learn's list, which has other
words, so that success rates differ. Recipes whose constraints need further downloads fail when they are built.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from relearn.data.examples import Examples

RECIPES = {"deepwordbug": "DeepWordBugGao2018", "pruthi": "Pruthi2019"}
"""Recipes of character changes that need no download besides the stop words, by short name."""
GOAL = "UntargetedClassification"
STOPWORDS = ("nltk", "sklearn")
COLUMNS = ("id", "label", "outcome", "predicted", "queries", "text", "perturbed")
INSTALL = "pip install 'relearn[textattack]' && pip install --no-deps textattack"
Text = str | tuple[str, ...]
Row = dict[str, Any]


class Probabilities:
    """A classifier as a function of texts; float64, because the library refuses rows that do not sum to 1 within 1e-6.

    Args:
        net: a :class:`relearn.models.sentence_encoder.SentenceClassifier` of kind ``classification``, in eval mode.
        tokenizer: its tokenizer.
        longest: maximum number of tokens.

    Raises:
        ValueError: a network of another kind, or ``longest`` above what it reads.
    """

    def __init__(self, net: Any, tokenizer: Any, longest: int | None = None) -> None:
        self.net, self.tokenizer, self.asked = net, tokenizer, 0
        self.longest = net.longest if longest is None else longest
        if net.kind != "classification":
            raise ValueError(f"network: found one of {net.kind}, allowed: classification")
        if not 1 <= self.longest <= net.longest:
            raise ValueError(
                f"max_length: found {self.longest}, allowed: 1 to {net.longest}, as the network reads"
            )

    def __call__(self, texts: Sequence[Text]) -> Tensor:
        """(n, C) on the CPU."""
        import torch
        from torch.nn.utils.rnn import pad_sequence

        self.asked += len(texts)
        rows = [(one, None) if isinstance(one, str) else (one[0], one[1]) for one in texts]
        encoded = [
            (torch.from_numpy(a).long(), torch.from_numpy(b).long())
            for a, b in self.tokenizer.encode(rows, self.longest)
        ]
        device = next(self.net.parameters()).device
        tokens = pad_sequence([ids for ids, _ in encoded], batch_first=True, padding_value=self.tokenizer.pad)
        types = pad_sequence([kinds for _, kinds in encoded], batch_first=True)
        sizes = torch.tensor([len(ids) for ids, _ in encoded])
        given = [tokens, torch.arange(tokens.shape[1]) < sizes[:, None], types][
            : 3 if self.tokenizer.types > 1 else 2
        ]
        with torch.inference_mode():
            return self.net(*(one.to(device) for one in given)).double().softmax(1).cpu().clone()


def attack_all(
    model: Probabilities,
    examples: Examples,
    attack: Any,
    *,
    seed: int = 0,
    tick: Callable[[int, int], None] = lambda done, total: None,
) -> list[Row]:
    """Attack each sample; every sample has random numbers of its own, so that it does not depend on the others.

    Args:
        attack: the library's attack, built with :func:`wrapped`.

    Raises:
        ValueError: samples without labels, or with labels that the network does not have.
    """
    import zlib

    import numpy as np

    if examples.labels is None or int(examples.labels.max()) >= model.net.classes:
        raise ValueError(
            f"samples: found labels that the network lacks, allowed: 0 to {model.net.classes - 1}"
        )
    found = []
    for place, (name, rows, label) in enumerate(zip(examples.ids, examples.rows, examples.labels.tolist())):
        first, second = rows[0]
        text: Text = first if second is None else (first, second)
        row = {"id": name, "label": label, "text": shown(text), "perturbed": None}
        if (clean := int(model([text]).argmax())) != label:
            found.append({**row, "outcome": "skipped", "predicted": clean, "queries": 1})
            tick(place + 1, len(examples))
            continue
        own = zlib.crc32(f"{seed}/{name}".encode())
        random.seed(own)
        np.random.seed(own)
        attack.clear_cache()
        before = model.asked
        result = attack.attack(_fields(text), label)
        queries = model.asked - before
        changed = result.perturbed_result.attacked_text.tokenizer_input
        predicted = int(model([changed]).argmax())
        outcome = "failed"
        if type(result).__name__ == "SuccessfulAttackResult":
            outcome = "success" if predicted != label else "unconfirmed"
        found.append(
            {
                **row,
                "outcome": outcome,
                "predicted": predicted,
                "queries": queries,
                "perturbed": shown(changed),
            }
        )
        tick(place + 1, len(examples))
    return found


def summary(rows: Sequence[Row]) -> dict[str, float]:
    """Success rate with Wilson's 95% interval over the attacked texts, accuracies over all, and queries of an attacked text.

    ``answers_count`` is the number of classes among the answers to the unchanged texts. A network with a single answer cannot be
    attacked, and its success rate of 0 says nothing.

    Raises:
        ValueError: every text is skipped, so there is no rate.
    """
    import statistics

    from relearn.report.statistics import wilson

    tried = [row for row in rows if row["outcome"] != "skipped"]
    if not tried:
        raise ValueError(
            f"found no text of {len(rows)} that the network classifies correctly, allowed: one or more"
        )
    won = sum(row["outcome"] == "success" for row in tried)
    answered = {row["predicted"] if row["outcome"] == "skipped" else row["label"] for row in rows}
    rate = wilson(won, len(tried))
    queries = [row["queries"] for row in tried]
    return {
        "samples_count": len(rows),
        "attacked_count": len(tried),
        "success_frac": rate.estimate,
        "success_low_frac": rate.low,
        "success_high_frac": rate.high,
        "clean_accuracy_frac": len(tried) / len(rows),
        "attacked_accuracy_frac": (len(tried) - won) / len(rows),
        "unconfirmed_count": sum(row["outcome"] == "unconfirmed" for row in tried),
        "answers_count": len(answered),
        "queries_mean": statistics.fmean(queries),
        "queries_median": statistics.median(queries),
    }


def wrapped(library: Any, recipe: str, model: Probabilities) -> Any:
    """The recipe's attack on the model.

    Raises:
        ValueError: an unknown recipe, or one that cannot be built here, as without its downloads; one line.
    """
    recipes = import_module(f"{library.__name__}.attack_recipes")
    name = RECIPES.get(recipe, recipe)
    cls: Any = getattr(recipes, name, None)
    if not hasattr(cls, "build"):
        raise ValueError(
            f"recipe: found {recipe}, allowed: {', '.join(RECIPES)}, or a class of textattack.attack_recipes"
        )
    base = import_module(f"{library.__name__}.models.wrappers").ModelWrapper

    class Wrapper(base):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            self.model = model.net

        def __call__(self, texts: Sequence[Text], **more: Any) -> Tensor:
            return model(texts)

    try:
        attack = cls.build(Wrapper())
    except Exception as error:  # of any class: what a recipe downloads, and how, is its own affair
        words = " ".join(str(error).replace("*", " ").split())[:160]
        raise ValueError(
            f"recipe {recipe}: cannot be built ({type(error).__name__}: {words}); allowed offline: {', '.join(RECIPES)}"
        ) from None
    if (goal := type(attack.goal_function).__name__) != GOAL:
        raise ValueError(f"recipe {recipe}: found goal {goal}, allowed: {GOAL}")
    return attack


def load_library(stopwords: str, folder: Path) -> Any:
    """Import TextAttack, with the stop words and the stand-in for flair that the module describes.

    Args:
        stopwords: one of :data:`STOPWORDS`.
        folder: where scikit-learn's list is written in NLTK's form.

    Raises:
        ModuleNotFoundError: the library, or one of its own, is not installed. ValueError: NLTK's stop words are missing.
    """
    from relearn.torchvision_schema import transformers

    transformers()
    try:
        nltk = import_module("nltk")
        if stopwords == "sklearn":
            _write_stopwords(folder)
            nltk.data.path.insert(0, str(folder))
        _flair()
        return import_module("textattack")
    except ImportError as error:
        said = " ".join(str(error).split())[:120]
        raise ModuleNotFoundError(f"textattack: cannot be imported ({said}); allowed: {INSTALL}") from None
    except LookupError:
        raise ValueError(
            "stopwords: found no list of NLTK's; allowed: --stopwords sklearn, or python -m nltk.downloader stopwords"
        ) from None


def shown(text: Text) -> str:
    return text if isinstance(text, str) else "\n".join(text)


def _fields(text: Text) -> Any:
    from collections import OrderedDict

    return text if isinstance(text, str) else OrderedDict(zip(("first", "second"), text))


def _write_stopwords(folder: Path) -> None:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    place = folder / "corpora" / "stopwords"
    place.mkdir(parents=True, exist_ok=True)
    (place / "english").write_text("\n".join(sorted(ENGLISH_STOP_WORDS)) + "\n")


def _flair() -> None:
    """Leave flair as it is where it can be imported; put the stand-in in its place elsewhere."""
    try:
        import_module("flair")
        return
    except Exception:
        for name in [one for one in sys.modules if one.partition(".")[0] == "flair"]:
            del sys.modules[name]

    class Missing:
        def __init__(self, *given: Any, **more: Any) -> None:
            raise RuntimeError(
                "a recipe asks for parts of speech or names, which need flair and transformers below 5"
            )

        load = __init__

    root, data, models = (ModuleType(name) for name in ("flair", "flair.data", "flair.models"))
    vars(root).update(data=data, models=models, __path__=[])
    vars(data).update(Sentence=Missing, Tokenizer=object)
    vars(models).update(SequenceTagger=Missing)
    sys.modules.update({one.__name__: one for one in (root, data, models)})
