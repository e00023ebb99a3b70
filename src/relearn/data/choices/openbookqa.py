"""OpenBookQA: questions on 1,326 facts of elementary science (Mihaylov et al., 2018, arXiv 1809.02789).

4,957 questions for training, 500 for development and 500 for test, with 4 candidates each. Only the questions are read, without the book of
facts. The first available source is used: ``folder`` with ``{train,dev,test}.jsonl``, directly or where the archive has them
(``Data/Main``); ``folder`` with the official archive; the archive, downloaded. ``folder/documents.jsonl`` may hold documents, see
:mod:`relearn.data.choices.documents`.
"""

from __future__ import annotations

from pathlib import Path

from relearn.data.choices import documents
from relearn.data.choices.files import contents
from relearn.data.choices.json_lines import parse
from relearn.data.choices.questions import PARTS, Questions, source
from relearn.data.remote import Remote

COUNTS = {"train": 4957, "dev": 500, "test": 500}
ROOT = "OpenBookQA-V1-Sep2018/Data/Main"
ARCHIVE = Remote(
    name="OpenBookQA-V1-Sep2018.zip",
    urls=(
        "https://s3-us-west-2.amazonaws.com/ai2-website/data/OpenBookQA-V1-Sep2018.zip",
        "https://ai2-public-datasets.s3.amazonaws.com/open-book-qa/OpenBookQA-V1-Sep2018.zip",
    ),
    size=1446098,
    sha256="82368cf05df2e3b309c17d162e10b888b4d768fad6e171e0a041954c8553be46",
)


def load(folder: Path | None = None) -> Questions:
    """All questions.

    Raises:
        ValueError: files that are missing or not OpenBookQA's.
        OSError: files cannot be read or fetched.
    """
    names = {part: f"{part}.jsonl" for part in PARTS}
    files, origin = contents(folder, names, ARCHIVE, ROOT, ("", "Data/Main", ROOT))
    found = documents.read(folder)
    parts = {part: documents.attach_documents(parse(files[part], names[part]), found) for part in PARTS}
    return Questions(**parts, source=source(origin, parts, COUNTS) | {"documents": bool(found)})
