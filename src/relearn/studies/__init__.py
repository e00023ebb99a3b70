"""The studies, each a package of its own. Code outside a study must reach it through STUDIES only."""

STUDIES = {
    "poisoning": "relearn.studies.poisoning.study:STUDY",
    "freelb": "relearn.studies.freelb.study:STUDY",
    "gradinit": "relearn.studies.gradinit.study:STUDY",
    "long_short": "relearn.studies.long_short.study:STUDY",
    "robustness": "relearn.studies.robustness.study:STUDY",
    "l2_attention": "relearn.studies.l2_attention.study:STUDY",
    "lipsformer": "relearn.studies.lipsformer.study:STUDY",
    "layer_scale": "relearn.studies.layer_scale.study:STUDY",
    "lrformer": "relearn.studies.lrformer.study:STUDY",
}
