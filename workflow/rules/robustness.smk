# The study `robustness` (zhu2022, section 5.3.4). Its runs are defined in src/relearn/studies/robustness/plan.py.
ROBUSTNESS = plan_of("robustness")


rule robustness:
    input:
        records(ROBUSTNESS),
    localrule: True


# The accuracy of trained networks on corrupted and attacked images (tables 5.8 to 5.11).
use rule run as robustness_evaluate_robustness with:
    input:
        **inputs_of(ROBUSTNESS["evaluate_robustness"]),
    output:
        **ROBUSTNESS["evaluate_robustness"].files,
    log:
        ROBUSTNESS["evaluate_robustness"].log,
    resources:
        **needs_of(ROBUSTNESS["evaluate_robustness"]),
    params:
        **words_of(ROBUSTNESS["evaluate_robustness"]),
