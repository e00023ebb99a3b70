"""Definition of the study: its publication, steps and figures."""

from relearn.studies.study import Study

STUDY = Study(
    name="poisoning",
    paper="zhu2022",
    title="Data poisoning and Deep k-NN",
    chapter="chapter 2",
    steps={
        "prepare_images": "relearn.steps.prepare_images",
        "split_overlap": "relearn.studies.poisoning.steps.split_overlap",
        "pretrain": "relearn.studies.poisoning.steps.pretrain",
        "adversarial_training": "relearn.studies.poisoning.steps.adversarial_training",
        "craft": "relearn.studies.poisoning.steps.craft",
        "filter": "relearn.studies.poisoning.steps.filter",
        "train": "relearn.studies.poisoning.steps.train",
        "evaluate_networks": "relearn.studies.poisoning.steps.evaluate_networks",
        "feature_plane": "relearn.studies.poisoning.steps.feature_plane",
        "hull_proposition": "relearn.studies.poisoning.steps.hull_proposition",
        "toy_example": "relearn.studies.poisoning.steps.toy_example",
    },
    figures={
        "bars": "relearn.studies.poisoning.figures.bars",
        "curves": "relearn.studies.poisoning.figures.curves",
        "defended": "relearn.studies.poisoning.figures.defended",
        "knn_sweep": "relearn.studies.poisoning.figures.knn_sweep",
        "plane": "relearn.studies.poisoning.figures.plane",
        "poisons": "relearn.studies.poisoning.figures.poisons",
        "qualitative": "relearn.studies.poisoning.figures.qualitative",
        "toy": "relearn.studies.poisoning.figures.toy",
    },
)
