"""Identity of the study: its publication, steps and figures."""

from relearn.studies.study import Study

STUDY = Study(
    name="lrformer",
    paper="ye2023",
    title="Lipschitz-regularised Transformers that know what they do not know (LRFormer)",
    chapter="",
    steps={
        "prepare_images": "relearn.steps.prepare_images",
        "check_theorems": "relearn.studies.lrformer.steps.check_theorems",
        "train_vision": "relearn.steps.train_vision",
        "evaluate_uncertainty": "relearn.studies.lrformer.steps.evaluate_uncertainty",
    },
    figures={
        "entropy_distance": "relearn.studies.lrformer.figures.entropy_distance",
        "entropy_histograms": "relearn.studies.lrformer.figures.entropy_histograms",
        "reliability": "relearn.studies.lrformer.figures.reliability",
    },
)
