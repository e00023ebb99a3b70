"""Small files in the official layouts of every data set of scale paper, below a folder for RELEARN_MIRROR.

The makers of the readers' own tests are used, so that a layout stands in one place. Where the size of a set is fixed
(CIFAR-10, IMDb), the stand-in has that size.
"""

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.lib.format import open_memmap
from PIL import Image

from relearn.data import glue as glue_tasks
from relearn.data import wikipedia_streams
from relearn.data.choices import csqa

from ..data.choices.test_sets import ARTICLE, put, question
from ..data.glue.test_loading import FILES as GLUE
from ..data.glue.test_loading import MRPC_HEAD
from ..data.glue.test_loading import put as put_text
from ..data.lra.test_listops import released as released_listops
from ..data.lra.test_pathfinder_files import released as released_pathfinder
from ..data.lra.test_readers import reviews
from ..data.lra.test_readers import table as aan_table
from ..data.test_iwslt14 import files as talks
from ..data.test_iwslt14 import folder as write_files
from ..data.test_text_folders import LINES

Maker = Callable[[Path, pytest.MonkeyPatch], None]
LETTERS = b"abcdefghijklmnopqrstuvwxyz "


def cifar10(mirror: Path, _: pytest.MonkeyPatch) -> None:
    """All 60,000 images, black but for some pixels; the files have holes instead of zeros."""
    folder, rng = mirror / "cifar10", np.random.default_rng(0)
    folder.mkdir()
    for part, count in (("train", 50000), ("test", 10000)):
        images = open_memmap(folder / f"{part}_images.npy", "w+", np.uint8, (count, 32, 32, 3))
        images[:, 16, :4] = rng.integers(0, 256, (count, 4, 3), np.uint8)
        images.flush()
        np.save(folder / f"{part}_labels.npy", np.arange(count) % 10)


def imagenet(mirror: Path, _: pytest.MonkeyPatch) -> None:
    """Three classes of twenty training images and two validation images."""
    rng = np.random.default_rng(0)
    for part, count in (("train", 20), ("val", 2)):
        for label in range(3):
            folder = mirror / "imagenet" / part / f"n{label:08d}"
            folder.mkdir(parents=True)
            for number in range(count):
                pixels = rng.integers(0, 256, (40, 52, 3), np.uint8)
                Image.fromarray(pixels).save(folder / f"n{label:08d}_{number}.JPEG")


def ptb(mirror: Path, _: pytest.MonkeyPatch) -> None:
    (mirror / "ptb").mkdir()
    for part, lines in LINES.items():
        (mirror / "ptb" / f"ptb.{part}.txt").write_text("".join(lines) * 40)


def iwslt14(mirror: Path, _: pytest.MonkeyPatch) -> None:
    made = talks()
    longer = {name: text * 20 if name.startswith("train") else text for name, text in made.items()}
    write_files(mirror / "iwslt14", longer)


def glue(mirror: Path, patch: pytest.MonkeyPatch) -> None:
    """A few samples a task, so that their number is not checked."""
    patch.setattr(glue_tasks, "load", partial(glue_tasks.load, official=False))
    ranked = (
        "index\tsentence1\tsentence2\tlabel\n0\tC saw D. It sat.\tC sat.\t1\n1\tC saw D. It sat.\tD sat.\t0\n"
    )
    for name, text in {**GLUE, "WNLI/dev.tsv": ranked}.items():
        put_text(mirror / "glue" / name, text)
    rows = "".join(f"{n % 2}\t{10 + n}\t{20 + n}\tFirst {n}.\tSecond {n}.\r\n" for n in range(6))
    put_text(mirror / "glue/MRPC/msr_paraphrase_train.txt", MRPC_HEAD + rows)
    put_text(mirror / "glue/MRPC/msr_paraphrase_test.txt", MRPC_HEAD + "1\t1\t2\tA quote.\tThe quote.\r\n")


def questions(mirror: Path, _: pytest.MonkeyPatch) -> None:
    """ARC, OpenBookQA, RACE and CommonsenseQA; the Regents' questions cannot be had, and nothing may stop without them."""
    parts = ("train", "dev", "test")
    for own in ("ARC-Easy", "ARC-Challenge"):
        for part in parts:
            name = f"{own}-{part.title()}"
            put(mirror / "arc" / own / f"{name}.jsonl", *(question(f"{name}-{n}") for n in range(3)))
    for part in parts:
        put(mirror / "openbookqa" / "Data/Main" / f"{part}.jsonl", question(f"{part}-0", stem="The sun is"))
        for name in ("high/1", "middle/2"):
            put(mirror / "race" / "RACE" / part / f"{name}.txt", ARTICLE)
        put(
            mirror / "csqa" / csqa.FILES[part],
            *(question(f"{part}-{n}", "ABCDE", None if part == "test" else "E") for n in range(3)),
        )


def imdb(mirror: Path, _: pytest.MonkeyPatch) -> None:
    (mirror / "imdb").mkdir()
    reviews(mirror / "imdb", 25000)


def lra_release(mirror: Path, _: pytest.MonkeyPatch) -> None:
    mirror.joinpath("lra_release").mkdir()
    released_listops(mirror / "lra_release")
    released_pathfinder(mirror / "lra_release")
    papers = mirror / "lra_release/lra_release/tsv_data"
    papers.mkdir(parents=True)
    for part in ("train", "eval", "test"):
        rows = [f"{n % 2}.0\tA{n}\tB{n}\tone paper {n}\tits source" for n in range(6)]
        aan_table(papers / f"new_aan_pairs.{part}.tsv", *rows)


def wikipedia(mirror: Path, patch: pytest.MonkeyPatch) -> None:
    """enwik8 and text8 as if the official texts had 400,000 bytes, of 205 and of 27 kinds."""
    rng = np.random.default_rng(0)
    made = {
        "enwik8": rng.integers(0, 205, 400_000, np.uint8).tobytes(),
        "text8": bytes(LETTERS[n] for n in rng.integers(0, 27, 400_000)),
    }
    patch.setattr(wikipedia_streams, "BYTES", 400_000)
    for name, text in made.items():
        (mirror / name).mkdir()
        (mirror / name / name).write_bytes(text)
        patch.setitem(wikipedia_streams.OFFICIAL, name, (0, "", hashlib.sha256(text).hexdigest()))


SETS: dict[str, tuple[Maker, ...]] = {
    "poisoning": (cifar10,),
    "freelb": (cifar10, glue, questions, imdb),
    "gradinit": (cifar10, imagenet, iwslt14),
    "long_short": (lra_release, cifar10, imdb, wikipedia, imagenet),
    "robustness": (imagenet,),
    "l2_attention": (ptb,),
    "lipsformer": (imagenet,),
    "layer_scale": (imagenet,),
    "lrformer": (cifar10, imagenet),
}
"""The data sets that a study reads at scale paper."""


def checkpoint(folder: Path, family: str) -> str:
    """A language model of this family as a hub's folder: the published form and length, one layer of width 16."""
    from relearn.data.sentence_vocabulary import train
    from relearn.models.sentence_encoder import guesser
    from relearn.studies.freelb.steps.finetune_start import Encoder, sizes

    tokenizer = train(family, ["a few words of a text", "and some more"], 300)
    own = Encoder(
        family=family,
        layers=1,
        dim=16,
        heads=2,
        ffn=32,
        embedding_dim=8,
        dropout=0.1,
        attention_dropout=0.1,
        vocabulary=300,
        max_length=512,
    )
    guesser(sizes(own, tokenizer)).net.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(tokenizer.to_json())
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    return str(folder)
