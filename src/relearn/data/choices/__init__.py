"""Questions with candidate answers by their official files: ARC, OpenBookQA, CommonsenseQA, RACE, Regents (zhu2022, section 3.5.1).

Each set is a file with ``load(folder) -> Questions`` (see :mod:`relearn.data.choices.questions`, which also says how a question becomes
rows of text). ARC, OpenBookQA and RACE are 4 candidates a question as a rule (ARC's go from 3 to 5), CommonsenseQA 5.

The texts belong to their authors; none is in this repository.
"""

from __future__ import annotations

from relearn.data.choices.questions import Question, Questions, examples

__all__ = ["Question", "Questions", "examples"]
