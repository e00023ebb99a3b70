"""Questions a line: letters and digits as keys, and each kind of damage refused with file and line."""

import json
from typing import Any

import pytest

from relearn.data.choices.json_lines import parse


def line(**changes: Any) -> dict[str, Any]:
    choices = [{"label": key, "text": f"answer {key}"} for key in changes.pop("labels", "ABCD")]
    inner = {"stem": "Which one?", "choices": choices} | changes.pop("question", {})
    return {"id": "q1", "question": inner, "answerKey": "B", **changes}


def encoded(*lines: Any) -> bytes:
    return "".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines).encode()


@pytest.mark.parametrize(
    ("labels", "key", "answer"), [("ABCD", "C", 2), ("123", "1", 0), ("ABCDE", "E", 4), ("12", "2", 1)]
)
def test_keys_are_letters_or_digits(labels: str, key: str, answer: int) -> None:
    (found,) = parse(encoded(line(labels=labels, answerKey=key)), "x.jsonl")
    assert found.answer == answer and found.keys == tuple(labels) and found.id == "q1"
    assert found.candidates == tuple(f"answer {one}" for one in labels) and found.stem == "Which one?"


@pytest.mark.parametrize("unknown", [{}, {"answerKey": ""}, {"answerKey": None}])
def test_an_answer_may_be_kept_back(unknown: dict[str, Any]) -> None:
    given = line()
    del given["answerKey"]
    assert parse(encoded(given | unknown), "x.jsonl")[0].answer is None


def test_other_fields_and_white_space_and_empty_lines() -> None:
    content = b"\xef\xbb\xbf" + encoded(line(fact="iron", question={"stem": " a\n b  c "}), "", line(id="q2"))
    assert [one.stem for one in parse(content, "x.jsonl")] == ["a b c", "Which one?"]


DAMAGED: list[tuple[Any, str]] = [
    ('{"id": ', "no JSON"),
    ([1], "list (allowed: an object)"),
    (line(question={"choices": None}), "no question with choices"),
    ({"id": "a"}, "no question with choices"),
    (line(labels="A", answerKey="A"), "1 choices (allowed: 2 to 8)"),
    (line(labels="AAB"), "labels A, A, B (allowed: all different)"),
    (line(answerKey="E"), "answerKey 'E' (allowed: A, B, C, D)"),
    (line(labels="1234", answerKey="B"), "answerKey 'B' (allowed: 1, 2, 3, 4)"),
    (line(question={"stem": " "}), "stem is ' ' (allowed: a text)"),
    (line(id=3), "id is 3 (allowed: a text)"),
    (line(question={"choices": ["a", "b"]}), "a choice's text is None (allowed: a text)"),
    (
        line(question={"choices": [{"text": "a"}, {"text": "b"}]}),
        "a choice's label is None (allowed: a text)",
    ),
    (line(id="good"), "id 'good' is that of line 1 (allowed: a new one)"),
]


@pytest.mark.parametrize(("damaged", "said"), DAMAGED)
def test_damage_is_refused_with_file_and_line(damaged: Any, said: str) -> None:
    with pytest.raises(ValueError) as fault:
        parse(encoded(line(id="good"), line(), damaged), "ARC-Easy-Train.jsonl")
    assert str(fault.value).startswith(f"ARC-Easy-Train.jsonl: line 3: {said}")
    assert "\n" not in str(fault.value)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(ValueError, match=r"x.jsonl: line 2: not UTF-8"):
        parse(encoded(line()) + b"\xff\n", "x.jsonl")
