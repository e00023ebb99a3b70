"""Identity of the study: its publication, steps and figures."""

from relearn.studies.study import Study

STUDY = Study(
    name="lipsformer",
    paper="qi2023",
    title="Lipschitz-continuous vision Transformers (LipsFormer)",
    chapter="",
    steps={
        "prepare_images": "relearn.steps.prepare_images",
        "check_theorems": "relearn.studies.lipsformer.steps.check_theorems",
        "count_params_flops": "relearn.studies.lipsformer.steps.count_params_flops",
        "train_vision": "relearn.steps.train_vision",
        "throughput": "relearn.steps.throughput",
        "evaluate_imagenet": "relearn.studies.lipsformer.steps.evaluate_imagenet",
    },
    figures={
        "activations": "relearn.studies.lipsformer.figures.activations",
        "alphas": "relearn.studies.lipsformer.figures.alphas",
        "training_curves": "relearn.studies.lipsformer.figures.training_curves",
    },
)
