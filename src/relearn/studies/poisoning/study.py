"""Identity of the study: its publication, steps and figures."""

from relearn.studies.study import Study

STUDY = Study(
    name="poisoning",
    paper="zhu2022",
    title="Data poisoning and Deep k-NN",
    chapter="chapter 2",
    steps={
        "prepare": "relearn.steps.prepare_images",
        "subset": "relearn.studies.poisoning.steps.split_overlap",
        "pretrain": "relearn.studies.poisoning.steps.pretrain",
        "harden": "relearn.studies.poisoning.steps.adversarial_training",
        "craft": "relearn.studies.poisoning.steps.craft",
        "filter": "relearn.studies.poisoning.steps.filter",
        "train": "relearn.studies.poisoning.steps.train",
        "evaluate": "relearn.studies.poisoning.steps.evaluate",
    },
    figures={
        "bars": "relearn.studies.poisoning.figures.bars",
        "curves": "relearn.studies.poisoning.figures.curves",
        "defended": "relearn.studies.poisoning.figures.defended",
        "fig2_11": "relearn.studies.poisoning.figures.knn_sweep",
        "plane": "relearn.studies.poisoning.figures.plane",
        "poisons": "relearn.studies.poisoning.figures.poisons",
        "qualitative": "relearn.studies.poisoning.figures.qualitative",
        "toy": "relearn.studies.poisoning.figures.toy",
    },
)
