"""What an analysis of chapter 3 says is what the published records hold."""

from pathlib import Path

import pandas

ROOT = Path(__file__).resolve().parents[3]


def test_increases_at_equal_loss() -> None:
    """The control of ``smallest_max_increase`` at small: the same sample, losses in the two networks with a ratio of at most 1.25."""
    from relearn.report import yaml_file

    rows = pandas.read_parquet(ROOT / "results/published/small/rows.parquet")
    rows = rows[rows["file"].eq("increases.csv") & rows["increase_nats"].notna()]
    analyses = yaml_file.read(ROOT / "src/relearn/studies/freelb/reported/analysis.yaml")
    text = " ".join(analyses["smallest_max_increase"]["small"]["text"].split())
    pairs, apart = {}, {}
    for reference, own in rows.groupby("reference"):
        both = own.pivot(index=["folder", "id"], columns="model", values=["increase_nats", "loss_nats"])
        ratio = both["loss_nats"]["freelb"] / both["loss_nats"]["pgd"]
        near = both["increase_nats"][ratio.between(1 / 1.25, 1.25)]
        means = (near["freelb"] - near["pgd"]).groupby(level=0).mean()
        assert (len(means), (means < 0).sum()) == (19, 14)
        pairs[reference], apart[reference] = len(near), means.median()
        low = (both["loss_nats"] < 0.03).mean()
        assert f"{low['pgd']:.0%}, {low['freelb']:.1%}" == "40%, 0.2%"
    assert f"({pairs['freelb']} and {pairs['pgd']} samples of 19 seeds)" in text
    assert f"by {-apart['freelb']:.2f} nats at its own radii and by {-apart['pgd']:.2f} at PGD's" in text
    assert "smaller with 14 of the 19 seeds" in text and "40% have a loss below 0.03 nats" in text
