"""What an analysis of chapter 3 says is what the published records hold."""

from pathlib import Path

import pandas

ROOT = Path(__file__).resolve().parents[3]


def test_dev_scores_and_controls() -> None:
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
    analyses = yaml_file.read(ROOT / "src/relearn/studies/freelb/reported/analysis.yaml")
    text = " ".join(analyses["freelb_beats_pgd"]["small"]["text"].split())
    assert f"{lead:.1f}" == "0.3" and "FreeAT leads by 0.3 points, too (medians)" in text
    control = scores["freelb"] - scores["freelb_fresh_as_freelb"]
    masks = medians["freelb"] - medians["freelb_fresh_as_freelb"]
    text = " ".join(analyses["mask_reuse"]["small"]["text"].split())
    assert (f"{masks:.1f}", (control > 0).sum(), len(control.dropna())) == ("0.6", 15, 25)
    assert "shared masks lead this control by 0.6 points, with 15 of 25 seeds" in text
