"""Identity of the study: its publication, steps and figures."""

from relearn.studies.study import Study

STUDY = Study(
    name="freelb",
    paper="zhu2022",
    title="Adversarial training in embedding space (FreeLB)",
    chapter="chapter 3",
    steps={
        "prepare": "relearn.steps.prepare_images",
        "acquire": "relearn.studies.freelb.steps.pretrain_encoder",
        "finetune": "relearn.studies.freelb.steps.finetune",
        "provoke": "relearn.studies.freelb.steps.max_loss_increase",
        "vote": "relearn.studies.freelb.steps.ensemble",
        "contrast": "relearn.studies.freelb.steps.train_images_adversarially",
        "count": "relearn.steps.count_params_flops",
    },
    figures={
        "clean_robust": "relearn.studies.freelb.figures.clean_robust",
    },
)
