"""Norms of the published model before training, measured with the step itself on a smaller size."""

from pathlib import Path

import pytest

from relearn.data import prepared_stream
from relearn.models import long_short_lm
from relearn.runs import record_file
from relearn.studies.long_short.steps import initial_norms

from ...steps.recorded import made_by

SMALL = {"layers": 2, "dim": 32, "heads": 2, "ffn": 16, "window": 32, "segment": 8, "rank": 1}


def step(out: Path, stream: Path, **changed) -> dict:
    settings = {"size": "small", "dual_norm": True, "characters": 100, **changed}
    return made_by(initial_norms, out, settings, inputs={"stream": [stream]}, study="long_short")


def test_ratios_of_every_layer_with_and_without_dual_norm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(long_short_lm.PUBLISHED, "small", SMALL)
    made, _ = prepared_stream.prepare(b"to be or not to be, that is the question: " * 100, name="own_text")
    prepared_stream.save_stream(made, tmp_path / "stream.safetensors")
    with_it = step(tmp_path / "with", tmp_path / "stream.safetensors")
    without = step(tmp_path / "without", tmp_path / "stream.safetensors", dual_norm=False)
    for found in (with_it, without):
        rows = record_file.rows(record_file.content(found, "norms.csv"))
        assert [row["layer"] for row in rows] == [1, 2] and {row["moment"] for row in rows} == {"start"}
    low, high = (with_it["metrics"][f"norm_ratio_start_{end}"] for end in ("min", "max"))
    assert 0.99 < low <= high < 1.01 and without["metrics"]["norm_ratio_start_min"] > 1.02
    count = with_it["metrics"]["parameters_count"] - without["metrics"]["parameters_count"]
    assert count == SMALL["layers"] * 4 * SMALL["dim"] / SMALL["heads"], (
        "two norms a layer, of a head's width"
    )
    for changed, said in (
        ({"size": "tiny"}, "size: found 'tiny', allowed: small, large"),
        ({"characters": 8}, "characters: found 8 of 210 in the validation part, allowed: at least 9"),
        ({"window": 8}, "the key window is unknown; allowed: size, dual_norm, characters"),
    ):
        with pytest.raises(ValueError, match=said):
            step(tmp_path / "odd", tmp_path / "stream.safetensors", **changed)


def test_the_published_sizes_are_those_of_the_paper() -> None:
    """44 and 110 million parameters, of which the claim takes the smaller model as full size."""
    for name, millions in (("small", 44), ("large", 110)):
        sizes = long_short_lm.PUBLISHED[name]
        dim, ffn, heads, layers = (sizes[key] for key in ("dim", "ffn", "heads", "layers"))
        each = 6 * dim**2 + 2 * dim * ffn + ffn + 5 * dim + dim * heads * sizes["rank"] + 4 * dim // heads
        assert round((204 * dim + 2 * dim + layers * each) / 1e6) == millions
