# ascend: lower bounds on Lipschitz constants by gradient ascent on the input (figures 2, 7 and 8).


rule ascend_all:
    input:
        expand("{run}/record.json", run=ASCEND_RUNS),
    localrule: True


use rule run as ascend with:
    input:
        network=network_of,
    output:
        record=f"{ASCEND_RUN}/record.json",
        ascents=f"{ASCEND_RUN}/ascents.csv",
        curve=f"{ASCEND_RUN}/curve.csv",
    log:
        f"{ROOT}/logs/ascend/{{suite}}/{{attention}}/{{weights}}/{{length}}/seed{{seed}}.log",
    wildcard_constraints:
        suite="fig[278]",
        attention=L_ATTENTIONS,
    resources:
        **needs(mem_mb=8000, minutes=240),
    params:
        **words(
            "ascend",
            study="l2_attention",
            settings=ascend_settings,
            p=lambda wildcards: P_OF[wildcards.suite],
        ),
