"""The note of a run in MLflow: a command that fits the page and that a shell reads as it was meant."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.runs.atomic_files import canonical
from relearn.tracking import note as tracked

SETTINGS = {
    "text": "it's $(rm -rf x) `y` \\ !",
    "networks": {f"ResNet-{depth}": {"lr": 0.1, "milestones": [40, 80]} for depth in range(30)},
}
WEIGHTS = [
    f"results/mini/runs/poisoning/pretrain/substitute/{name}/seed0/weights.safetensors" for name in "ab"
]
WHAT: dict[str, Any] = {
    "study": "poisoning",
    "step": "train",
    "scale": "mini",
    "seed": 0,
    "labels": {"victim": "DPN92"},
    "settings": SETTINGS,
    "inputs": {"substitutes": [{"path": path} for path in WEIGHTS]},
    "code": {"version": "v"},
    "machine": {"device": "cpu", "precision": "fp32", "threads": 1},
}


def pasted_into_bash(command: str) -> list[str]:
    """The words that a function named relearn gets when a person pastes the command."""
    script = f"relearn() {{ printf '%s\\0' \"$@\"; }}\n{command}\n"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.split("\0")[:-1]


def test_the_command_fits_the_page_and_can_be_pasted() -> None:
    text = tracked.note(WHAT, Path("out dir"))
    assert text.startswith("Run it again:") and max(map(len, text.splitlines())) <= 100
    assert pasted_into_bash(text.split("```")[1]) == [
        *("poisoning", "train", "--settings", canonical(SETTINGS), "--input", "substitutes", *WEIGHTS),
        *("--label", "victim=DPN92", "--scale", "mini", "--seed", "0"),
        *("--code", "v", "--device", "cpu", "--precision", "fp32", "--threads", "1", "--out", "out dir"),
    ]


@settings(max_examples=25)
@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0\r", exclude_categories=("Cs",)), max_size=300),
        min_size=1,
    )
)
def test_whatever_the_words_are_the_shell_gets_them_back(words: list[str]) -> None:
    assert pasted_into_bash(tracked.pasted(["relearn", *words])) == words


def test_a_command_that_no_note_can_hold_is_not_cut() -> None:
    """MLflow would show the first half of it, and half a command must not be pasted."""
    text = tracked.note({**WHAT, "settings": {"text": "x" * 6000}}, Path("out"))
    assert "`" not in text and text.endswith("its settings and inputs are in record.json.")
