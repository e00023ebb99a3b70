"""What an analysis of chapter 3 says is what the published records hold."""

from pathlib import Path

import pandas

ROOT = Path(__file__).resolve().parents[3]


def test_increases_at_equal_loss() -> None:
    """The control of ``smallest_max_increase`` at small: the same sample, losses in the two networks with a ratio of at most 1.25."""
    from relearn.report import yaml_file

    rows = pandas.read_parquet(ROOT / "results/published/small/rows.parquet")
    rows = rows[rows["file"].eq("increases.csv") & rows["increase_nats"].notna()]
    means = {
        pair: f"{value:.3f}"
        for pair, value in rows.groupby(["reference", "model"])["increase_nats"].mean().items()
    }
    analyses = yaml_file.read(ROOT / "src/relearn/studies/freelb/reported/analysis.yaml")
    text = " ".join(analyses["smallest_max_increase"]["small"]["text"].split())
    pairs, smaller, pooled, typical = {}, set(), {}, set()
    for reference, own in rows.groupby("reference"):
        both = own.pivot(index=["folder", "id"], columns="model", values=["increase_nats", "loss_nats"])
        ratio = both["loss_nats"]["freelb"] / both["loss_nats"]["pgd"]
        near = both["increase_nats"][ratio.between(1 / 1.25, 1.25)]
        apart = near["freelb"] - near["pgd"]
        assert apart.groupby(level=0).ngroups == 19
        pairs[reference], pooled[reference] = len(near), apart.mean()
        smaller.add(f"{(apart < 0).mean():.0%}, {abs(apart.median()):.3f}")
        typical.add(near["freelb"].groupby(level=0).size().median())
        low = (both["loss_nats"] < 0.03).mean()
        assert f"{low['pgd']:.0%}, {low['freelb']:.1%}" == "40%, 0.2%"
    assert f"({pairs['freelb']} and {pairs['pgd']} samples of 19 seeds)" in text
    assert smaller == {"49%, 0.000"}
    assert "is smaller in 49% of the samples, and the median difference is 0.000 nats" in text
    assert "Its mean is smaller, by 0.18 and 0.02 nats" in text and "five for a typical seed" in text
    assert (f"{-pooled['freelb']:.2f}", f"{-pooled['pgd']:.2f}") == ("0.18", "0.02") and typical == {5.0}
    assert "40% have a loss below 0.03 nats" in text
    assert (
        f"{means['freelb', 'freelb']} nats for FreeLB against {means['freelb', 'pgd']} for PGD at FreeLB's radii"
        in text
    )
    assert f"{means['pgd', 'freelb']} against {means['pgd', 'pgd']} at PGD's" in text


def test_the_dev_set_speaks_against_the_number_of_updates() -> None:
    """``freelb_beats_pgd`` and the control of ``mask_reuse`` at small: medians of the dev scores."""
    from relearn.report import yaml_file

    runs = pandas.read_parquet(ROOT / "results/published/small/runs.parquet")
    parts = runs["folder"].str.extract(r"^runs/freelb/finetune/roberta/sst2/([^/]+)/seed(\d+)$")
    scores = (
        runs.assign(arm=parts[0], of=parts[1])
        .dropna(subset=["arm"])
        .pivot(index="of", columns="arm", values="metrics.score_frac")
    )
    medians = 100 * scores.median()
    lead = medians["free_at"] - medians["freelb"]
    updates = medians["vanilla_as_often_as_free_at"] - medians["vanilla"]
    analyses = yaml_file.read(ROOT / "src/relearn/studies/freelb/reported/analysis.yaml")
    text = " ".join(analyses["freelb_beats_pgd"]["small"]["text"].split())
    said = "FreeAT leads by 0.3 points, and plain training gains nothing from more updates (medians)"
    assert (f"{lead:.1f}", f"{updates:.1f}") == ("0.3", "0.0") and said in text
    loss = runs[runs["folder"].str.contains("/sst2/free_at_as_often_as_freelb/")]["metrics.train_loss_nats"]
    assert f"its training loss is still {loss.median():.2f} nats" in text
    tried = runs["folder"].str.extract(r"/tuning/roberta/sst2/vanilla/rate([0-9.]+)/")[0]
    at = 100 * runs.groupby(tried)["metrics.held_out_score_frac"].mean()
    assert f"a rate twice as high gains {at['0.001'] - at['0.0005']:.1f}" in text
    dev = 100 * runs.groupby(tried)["metrics.score_frac"].mean()
    assert f"it loses {dev['0.0005'] - dev['0.001']:.1f}" in text
    control = scores["freelb"] - scores["freelb_fresh_as_freelb"]
    masks = medians["freelb"] - medians["freelb_fresh_as_freelb"]
    text = " ".join(analyses["mask_reuse"]["small"]["text"].split())
    assert (f"{masks:.1f}", (control > 0).sum(), len(control.dropna())) == ("0.6", 15, 25)
    assert "shared masks lead this control by 0.6 points, with 15 of 25 seeds" in text
