"""QNLI and WNLI as a choice: which pairs make a sample, who borrows from whom, and that answers come back to their pairs."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.data.examples import Examples
from relearn.data.glue.ranking import as_rankings
from relearn.measures.glue_scores import entailment_answers

Pair = tuple[str, str, int]


def pairs(rows: list[Pair], known: bool = True) -> Examples:
    labels = torch.tensor([label for _, _, label in rows], dtype=torch.int64) if known else None
    return Examples([[(text, other)] for text, other, _ in rows], labels, [str(n) for n in range(len(rows))])


def test_candidates_are_grouped_by_question_as_the_rule_says() -> None:
    train = [
        *[("who?", "him", 0), ("where?", "there", 1), ("who?", "her", 1)],  # a sample: right is the second
        *[("what?", "a", 1), ("what?", "b", 1)],  # two entailed: left out
        *[
            ("lone?", "l", 1),
            ("asked?", "no", 0),
            ("both?", "yes", 1),
        ],  # alone: left out of training, but lent
        *[("why?", "x", 0), ("why?", "y", 0), ("why?", "z", 1)],
        ("own?", "r", 0),  # lent to nobody: that question has two sentences there
    ]
    dev = [
        ("asked?", "indeed", 1),
        ("both?", "maybe", 1),
        ("new?", "n", 0),
        ("own?", "p", 0),
        ("own?", "q", 1),
    ]
    test = [("where?", "here", 0), ("new?", "m", 0), ("g?", "1", 0), ("g?", "2", 0), ("lone?", "l", 0)]
    parts, told = as_rankings(pairs(train), pairs(dev), pairs(test, known=False))

    assert parts["train"].ids == ["0+2", "8+9+10"]
    assert parts["train"].rows[0] == [("who?", "him"), ("who?", "her")]
    assert parts["train"].labels is not None and parts["train"].labels.tolist() == [1, 2]
    assert told["train"] == {"samples": 2, "borrowed": 0, "left_out": 7}
    # "asked?" borrows the training part's "no"; "both?" would have two right answers; nobody asked "new?" before.
    assert parts["dev"].ids == ["0+train:6", "3+4"]
    assert parts["dev"].rows[0] == [("asked?", "indeed"), ("asked?", "no")]
    assert parts["dev"].labels is not None and parts["dev"].labels.tolist() == [0, 1]
    assert told["dev"] == {"samples": 2, "borrowed": 1, "left_out": 2}
    # Without labels every pair stays; its own text is no rival of itself.
    assert parts["test"].ids == ["0+train:1", "1", "2+3", "4"] and parts["test"].labels is None
    assert told["test"] == {"samples": 4, "borrowed": 1, "left_out": 0}


@settings(max_examples=40)
@given(st.data())
def test_what_holds_for_all(data: st.DataObject) -> None:
    """No pair twice, no training pair's text in another question; the right answers of a labelled part answer all its pairs rightly,
    and a test part's answers are complete."""
    row = st.tuples(st.sampled_from("abcd"), st.text("xyz", min_size=1, max_size=3), st.integers(0, 1))
    rows = {part: data.draw(st.lists(row, min_size=1, max_size=12)) for part in ("train", "dev", "test")}
    parts, told = as_rankings(pairs(rows["train"]), pairs(rows["dev"]), pairs(rows["test"], known=False))
    for part, made in parts.items():
        assert all(len({text for text, _ in candidates}) == 1 for candidates in made.rows)
        one_hot = [[float(n == 0) for n in range(len(each))] for each in made.rows]
        if made.labels is not None:
            picked = zip(made.labels.tolist(), made.rows)
            one_hot = [[float(n == label) for n in range(len(each))] for label, each in picked]
        answers = entailment_answers(made.ids, one_hot)
        if part == "test":
            assert set(answers) == {str(n) for n in range(len(rows["test"]))}
            continue
        assert all(rows[part][int(name)][2] == answer for name, answer in answers.items())
        assert len(answers) + told[part]["left_out"] == len(rows[part])
        assert part == "dev" or not any(":" in name for name in made.ids)


def test_hidden_labels_change_nothing() -> None:
    train, dev = [("a", "x", 1), ("a", "y", 0)], [("a", "z", 0)]
    for label in (0, 1):
        parts, _ = as_rankings(pairs(train), pairs(dev), pairs([("a", "w", label)], known=False))
        assert parts["test"].ids == ["0+train:0+train:1"] and parts["test"].labels is None


def test_without_labels_there_is_no_training_part() -> None:
    known, hidden = pairs([("a", "x", 1)]), pairs([("a", "x", 1)], known=False)
    with pytest.raises(ValueError, match=r"train: pairs without labels \(allowed: 0 or 1 each\)"):
        as_rankings(hidden, known, hidden)
    with pytest.raises(ValueError, match=r"dev: pairs without labels"):
        as_rankings(known, hidden, hidden)
