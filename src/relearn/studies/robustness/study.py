"""Definition of the study: its publication and steps."""

from relearn.studies.study import Study, steps_of

STUDY = Study(
    name="robustness",
    paper="zhu2022",
    title="Robustness of long-short image networks",
    chapter="chapter 5, section on robustness",
    steps=steps_of("robustness", "evaluate_robustness"),
)
