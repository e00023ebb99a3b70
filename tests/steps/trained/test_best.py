"""The best network of a training: a higher score replaces it, an equal one does not, and a new process finds it again."""

from __future__ import annotations

from pathlib import Path

import pytest

from relearn.steps.trained.best import Best


def save(net: str, path: Path) -> None:
    path.write_text(net)


def kept(best: Best, folder: Path) -> str:
    best.copy_to(folder / "out")
    return (folder / "out").read_text()


def test_only_a_higher_score_replaces_the_network(tmp_path: Path) -> None:
    best = Best(tmp_path, save)
    for net, score in (("a", 0.5), ("b", 0.7), ("equal", 0.7), ("worse", 0.6)):
        best.offer(net, score)
    assert (kept(best, tmp_path), best.score) == ("b", 0.7)
    resumed = Best(tmp_path, save)
    resumed.offer("worse", 0.6)
    assert (kept(resumed, tmp_path), resumed.score) == ("b", 0.7)
    resumed.keep("last", 0.1)
    assert (kept(resumed, tmp_path), resumed.score) == ("last", 0.1)


def test_a_network_at_the_least_score_is_not_kept(tmp_path: Path) -> None:
    best = Best(tmp_path, save, least=0.5)
    best.offer("a", 0.5)
    assert best.score == 0.5 and not best.file.exists()


def test_a_write_that_fails_leaves_the_network_before_it(tmp_path: Path) -> None:
    def torn(net: str, path: Path) -> None:
        path.write_text("half")
        raise OSError("no space")

    Best(tmp_path, save).offer("a", 0.5)
    with pytest.raises(OSError, match="no space"):
        Best(tmp_path, torn).offer("b", 0.7)
    assert (kept(Best(tmp_path, save), tmp_path), Best(tmp_path, save).score) == ("a", 0.5)
