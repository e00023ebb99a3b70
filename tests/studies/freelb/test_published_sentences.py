"""What the published page says of chapter 3 is what the published records hold."""

import re
import statistics
from pathlib import Path

import pandas

ROOT = Path(__file__).resolve().parents[3]
SMALL = "results/published/small_0.7"


def page(folder: str) -> str:
    return re.sub(r"\s+", " ", (ROOT / folder / "README.md").read_text(encoding="utf-8"))


def metric(folder: str, name: str, **labels: str) -> dict[int, float]:
    """A metric by seed, of the runs with these labels."""
    runs = pandas.read_parquet(ROOT / folder / "runs.parquet")
    for label, value in labels.items():
        runs = runs[runs[label if label == "step" else f"labels.{label}"] == value]
    found = runs.set_index("seed")[f"metrics.{name}"].dropna()
    return {int(seed): 100 * float(value) for seed, value in found.items()}


def test_medians_and_pairs_of_chapter_3() -> None:
    def score(task: str, method: str) -> dict[int, float]:
        return metric(SMALL, "score_frac", encoder="roberta", task=task, method=method)

    scores = {(task, method): score(task, method) for task in ("sst2", "imdb") for method in METHODS[task]}
    medians = {key: f"{statistics.median(one.values()):.1f}" for key, one in scores.items()}
    sst2, imdb = ({m: medians[t, m] for m in METHODS[t]} for t in ("sst2", "imdb"))
    assert (
        f"on SST-2 YOPO-3-3 {sst2['yopo_3_whole']}%, FreeLB {sst2['freelb']}, PGD {sst2['pgd']}, plain training "
        f"{sst2['vanilla']}, fresh masks {sst2['freelb_fresh']}, FreeAT {sst2['free_at']}; on IMDb FreeLB "
        f"{imdb['freelb']}, PGD {imdb['pgd']}, plain {imdb['vanilla']}, FreeAT {imdb['free_at']}."
    ) in page(SMALL)
    ours, fresh = scores["sst2", "freelb"], scores["sst2", "freelb_fresh"]
    apart = [fresh[seed] - ours[seed] for seed in ours]
    assert sum(one > 0 for one in apart) == 3 and f"{statistics.mean(apart):.1f}" == "0.3"
    assert "fresh masks win three seeds of five, and are ahead by 0.3 points" in page(SMALL)


def test_increases_at_equal_loss() -> None:
    """The control of ``smallest_max_increase`` at small: the same sample, losses in the two networks that differ by a quarter at most."""
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


METHODS = {
    "sst2": ("vanilla", "pgd", "free_at", "freelb", "freelb_fresh", "yopo_3_whole"),
    "imdb": ("vanilla", "pgd", "free_at", "freelb"),
}
