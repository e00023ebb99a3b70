"""ARC, the AI2 Reasoning Challenge: questions of school exams in science (Clark et al., 2018, arXiv 1803.05457).

Easy: 2,251 questions for training, 570 for development, 2,376 for test. Challenge (questions that two simple methods answered wrongly):
1,119, 299, 1,172. Most have 4 candidates, some 3 or 5. Both sets together are in the order Easy, Challenge.

The first available source is used: ``folder`` with ``ARC-Easy/ARC-Easy-{Train,Dev,Test}.jsonl`` and ``ARC-Challenge/…``, as in the archive
(also below ``ARC-V1-Feb2018-2``); ``folder`` with the official archive; the archive, downloaded (680,841,265 bytes, because it includes a
corpus of 14 million sentences). ``folder/documents.jsonl`` may hold retrieved documents, see :mod:`relearn.data.choices.documents`.
"""

from __future__ import annotations

from pathlib import Path

from relearn.data.choices import documents
from relearn.data.choices.files import contents
from relearn.data.choices.json_lines import parse
from relearn.data.choices.questions import PARTS, Question, Questions, source
from relearn.data.remote import Remote

SETS = {"easy": "ARC-Easy", "challenge": "ARC-Challenge"}
COUNTS = {
    "easy": {"train": 2251, "dev": 570, "test": 2376},
    "challenge": {"train": 1119, "dev": 299, "test": 1172},
}
ROOT = "ARC-V1-Feb2018-2"
ARCHIVE = Remote(
    name="ARC-V1-Feb2018.zip",
    urls=(
        "https://s3-us-west-2.amazonaws.com/ai2-website/data/ARC-V1-Feb2018.zip",
        "https://ai2-public-datasets.s3.amazonaws.com/arc/ARC-V1-Feb2018.zip",
    ),
    size=680841265,
    sha256="6d2d5ab50b2ceec6ba5f79c921be77cf2de712ea25a2b3f4fff3acc101cecfa0",
)


def load(folder: Path | None = None, *, sets: tuple[str, ...] = ("easy", "challenge")) -> Questions:
    """The questions of one of :data:`SETS`, or of both.

    Raises:
        ValueError: an unknown set, or files that are missing or not ARC's.
        OSError: files cannot be read or fetched.
    """
    if not sets or any(one not in SETS for one in sets):
        raise ValueError(f"sets: {', '.join(sets) or 'none'} (allowed: {', '.join(SETS)})")
    found = documents.read(folder)
    parts: dict[str, list[Question]] = {part: [] for part in PARTS}
    origin = ""
    for one in sets:
        names = {part: f"{SETS[one]}/{SETS[one]}-{part.capitalize()}.jsonl" for part in PARTS}
        files, origin = contents(folder, names, ARCHIVE, ROOT, ("", ROOT))
        for part in PARTS:
            parts[part] += documents.attach_documents(parse(files[part], names[part]), found)
    official = {part: sum(COUNTS[one][part] for one in sets) for part in PARTS}
    return Questions(**parts, source=source(origin, parts, official) | {"documents": bool(found)})
