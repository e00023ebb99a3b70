"""Description of GLUE's files: names, columns, label words, numbers of samples, addresses with size and sha256.

Sizes and sha256 of the archives are those stated independently by two public catalogues of data sets (TensorFlow Datasets and Hugging
Face's ``datasets``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from relearn.data.remote import Remote

HOST = "https://dl.fbaipublicfiles.com"
COLA = (
    "source",
    "label",
    "mark",
    "sentence",
)  # CoLA's training and development files have no header


@dataclass(frozen=True)
class Task:
    """One task of the benchmark.

    Attributes:
        folders: folders of its files, the official name first.
        remotes: a zip with this folder, or the files themselves.
        files: possible file names by part.
        counts: official numbers of samples by part.
        texts: columns of the first and the second text.
        label: column of the answer.
        words: label words in this column and in a submission, class 0 first; empty: a value. If there are two, class 1 is "yes".
        metrics: names in :mod:`relearn.measures.glue_scores`, the main metric first.
        ranking: whether it can be posed as a choice between the texts paired with one first text.
        scale: smallest and largest value, if the answers are values.
    """

    folders: tuple[str, ...]
    remotes: tuple[Remote, ...]
    counts: Mapping[str, tuple[int, ...]]
    texts: tuple[str, str | None]
    label: str
    words: tuple[str, ...]
    metrics: tuple[str, ...]
    files: Mapping[str, tuple[str, ...]]
    ranking: bool = False
    scale: tuple[float, float] | None = None


def _remote(name: str, size: int, sha256: str, *, folder: str = "glue/data") -> Remote:
    return Remote(name, (f"{HOST}/{folder}/{name}",), size, sha256)


THREE = {"train": ("train.tsv",), "dev": ("dev.tsv",), "test": ("test.tsv",)}
BINARY = ("0", "1")
ENTAILED = ("not_entailment", "entailment")
INFERENCE = ("entailment", "neutral", "contradiction")
SENTEVAL = "senteval/senteval_data"

TASKS = {
    "cola": Task(
        folders=("CoLA",),
        remotes=(
            _remote("CoLA.zip", 376971, "f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff"),
        ),
        counts={"train": (8551,), "dev": (1043,), "test": (1063,)},
        texts=("sentence", None),
        label="label",
        words=BINARY,
        metrics=("mcc", "accuracy"),
        files=THREE,
    ),
    "sst2": Task(
        folders=("SST-2",),
        remotes=(
            _remote("SST-2.zip", 7439277, "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa"),
        ),
        counts={"train": (67349,), "dev": (872,), "test": (1821,)},
        texts=("sentence", None),
        label="label",
        words=BINARY,
        metrics=("accuracy",),
        files=THREE,
    ),
    "mrpc": Task(
        folders=("MRPC",),
        remotes=(
            _remote(
                "msr_paraphrase_train.txt",
                1047044,
                "60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89",
                folder=SENTEVAL,
            ),
            _remote(
                "msr_paraphrase_test.txt",
                441275,
                "a04e271090879aaba6423d65b94950c089298587d9c084bf9cd7439bd785f784",
                folder=SENTEVAL,
            ),
            _remote(
                "mrpc_dev_ids.tsv",
                6222,
                "971d7767d81b997fd9060ade0ec23c4fc31cbb226a55d1bd4a1bac474eb81dc7",
            ),
        ),
        counts={"train": (3668,), "dev": (408,), "test": (1725,)},
        texts=("#1 String", "#2 String"),
        label="Quality",
        words=BINARY,
        metrics=("accuracy", "f1"),
        files={"train": ("msr_paraphrase_train.txt",), "test": ("msr_paraphrase_test.txt",)},
    ),
    "stsb": Task(
        folders=("STS-B",),
        remotes=(
            _remote("STS-B.zip", 802872, "e60a6393de5a8b5b9bac5020a1554b54e3691f9d600b775bd131e613ac179c85"),
        ),
        counts={"train": (5749,), "dev": (1500,), "test": (1379,)},
        texts=("sentence1", "sentence2"),
        label="score",
        words=(),
        metrics=("pearson", "spearman"),
        files=THREE,
        scale=(0.0, 5.0),
    ),
    "qqp": Task(
        folders=("QQP",),
        remotes=(
            _remote(
                "QQP-clean.zip", 41696084, "40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0"
            ),
        ),
        # 363,849 in the archive before QQP-clean.zip
        counts={"train": (363846, 363849), "dev": (40430,), "test": (390965,)},
        texts=("question1", "question2"),
        label="is_duplicate",
        words=BINARY,
        metrics=("accuracy", "f1"),
        files=THREE,
    ),
    "mnli": Task(
        folders=("MNLI",),
        remotes=(
            _remote(
                "MNLI.zip", 312783507, "e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633"
            ),
        ),
        counts={
            "train": (392702,),
            "dev": (9815,),
            "dev_mismatched": (9832,),
            "test": (9796,),
            "test_mismatched": (9847,),
        },
        texts=("sentence1", "sentence2"),
        label="gold_label",
        words=INFERENCE,
        metrics=("accuracy",),
        files={
            "train": ("train.tsv",),
            "dev": ("dev_matched.tsv",),
            "dev_mismatched": ("dev_mismatched.tsv",),
            "test": ("test_matched.tsv",),
            "test_mismatched": ("test_mismatched.tsv",),
        },
    ),
    "qnli": Task(
        folders=("QNLI",),
        remotes=(
            _remote(
                "QNLIv2.zip", 10627589, "e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5"
            ),
        ),
        counts={"train": (104743,), "dev": (5463,), "test": (5463,)},
        texts=("question", "sentence"),
        label="label",
        words=ENTAILED,
        metrics=("accuracy",),
        files=THREE,
        ranking=True,
    ),
    "rte": Task(
        folders=("RTE",),
        remotes=(
            _remote("RTE.zip", 697150, "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee"),
        ),
        counts={"train": (2490,), "dev": (277,), "test": (3000,)},
        texts=("sentence1", "sentence2"),
        label="label",
        words=ENTAILED,
        metrics=("accuracy",),
        files=THREE,
    ),
    "wnli": Task(
        folders=("WNLI",),
        remotes=(
            _remote("WNLI.zip", 28999, "ae0e8e4d16f4d46d4a0a566ec7ecceccfd3fbfaa4a7a4b4e02848c0f2561ac46"),
        ),
        counts={"train": (635,), "dev": (71,), "test": (146,)},
        texts=("sentence1", "sentence2"),
        label="label",
        words=BINARY,
        metrics=("accuracy",),
        files=THREE,
        ranking=True,
    ),
    # Test only, for models of mnli. The first file is the one for analyses, which has the answers.
    "ax": Task(
        folders=("AX", "diagnostic", "."),
        remotes=(
            _remote(
                "AX.tsv",
                222257,
                "0e13510b1bb14436ff7e2ee82338f0efb0133ecf2e73507a697dc210db3f05fd",
            ),
        ),
        counts={"test": (1104,)},
        texts=("sentence1", "sentence2"),
        label="Label",
        words=INFERENCE,
        metrics=("mcc", "accuracy"),
        files={"test": ("diagnostic-full.tsv", "AX.tsv", "diagnostic.tsv")},
    ),
}
