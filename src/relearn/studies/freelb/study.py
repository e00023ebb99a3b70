"""Identity of the study: its publication, steps and figures."""

from relearn.studies.study import Study

STUDY = Study(
    name="freelb",
    paper="zhu2022",
    title="Adversarial training in embedding space (FreeLB)",
    chapter="chapter 3",
    steps={
        "prepare_images": "relearn.steps.prepare_images",
        "pretrain_encoder": "relearn.studies.freelb.steps.pretrain_encoder",
        "finetune": "relearn.studies.freelb.steps.finetune",
        "max_loss_increase": "relearn.studies.freelb.steps.max_loss_increase",
        "ensemble": "relearn.studies.freelb.steps.ensemble",
        "merge_scores": "relearn.studies.freelb.steps.merge_scores",
        "train_images_adversarially": "relearn.studies.freelb.steps.train_images_adversarially",
        "check_gradient": "relearn.studies.freelb.steps.check_gradient",
    },
    figures={
        "clean_robust": "relearn.studies.freelb.figures.clean_robust",
    },
)
