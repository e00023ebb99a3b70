"""Multiple-choice questions from their official files: ARC, OpenBookQA, CommonsenseQA, RACE, Regents (zhu2022, section 3.5.1).

Each set is a module with ``load(folder) -> Questions`` (see :mod:`relearn.data.choices.questions`, which also defines how a question is
converted to rows of text). Questions of ARC, OpenBookQA and RACE usually have 4 candidates (ARC's 3 to 5), those of CommonsenseQA 5.

The texts belong to their authors; none is in this repository.
"""

from __future__ import annotations

from relearn.data.choices.questions import Question, Questions, examples

__all__ = ["Question", "Questions", "examples"]
