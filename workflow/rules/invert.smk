# invert: x + c f(x) inverted by its fixed point (figures 3, 5 and 6).


rule invert_all:
    input:
        expand("{run}/record.json", run=INVERT_RUNS),
    localrule: True


use rule run as invert with:
    input:
        network=network_of,
    output:
        record=f"{INVERT_RUN}/record.json",
        errors=f"{INVERT_RUN}/errors.csv",
        ranges=f"{INVERT_RUN}/ranges.csv",
    log:
        f"{ROOT}/logs/invert/{{suite}}/{{attention}}/{{weights}}/{{length}}x{{dim}}/seed{{seed}}.log",
    wildcard_constraints:
        suite="fig[356]",
        attention=L_ATTENTIONS,
    resources:
        **needs(mem_mb=8000, minutes=120),
    params:
        **words("invert", study="l2_attention", settings=invert_settings),
