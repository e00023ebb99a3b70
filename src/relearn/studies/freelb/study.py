"""Identity of the study: its publication, steps and figures."""

from relearn.studies.study import Study, figures_of, steps_of

STUDY = Study(
    name="freelb",
    paper="zhu2022",
    title="Adversarial training in embedding space (FreeLB)",
    chapter="chapter 3",
    steps=steps_of(
        "freelb",
        *("prepare_images", "pretrain_encoder", "finetune", "max_loss_increase", "ensemble"),
        *("merge_scores", "train_images_adversarially", "check_gradient"),
    ),
    figures=figures_of("freelb", "clean_robust"),
    unpublished={"finetune": ("history.csv",)},
)
