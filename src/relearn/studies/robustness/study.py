"""Definition of the study: its publication and steps."""

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
