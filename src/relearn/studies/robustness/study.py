"""Identity of the study: its publication, steps and figures."""

from relearn.studies.study import Study

STUDY = Study(
    name="robustness",
    paper="zhu2022",
    title="Robustness of long-short image networks",
    chapter="chapter 5, section on robustness",
    steps={
        "evaluate_robustness": "relearn.studies.robustness.steps.evaluate_robustness",
    },
)
