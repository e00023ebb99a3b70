# clock: a training step of each attention beside that of the dot product (table 1).


rule clock_all:
    input:
        expand("{run}/record.json", run=CLOCK_RUNS),
    localrule: True


use rule run as clock with:
    input:
        characters=rules.characters.output.characters,
    output:
        record=f"{CLOCK_RUN}/record.json",
        times=f"{CLOCK_RUN}/times.csv",
    log:
        f"{ROOT}/logs/clock/{{attention}}/seed{{seed}}.log",
    wildcard_constraints:
        attention=L_ATTENTIONS,
    resources:
        **needs(mem_mb=8000, minutes=240),
    params:
        **words("clock", study="l2_attention", settings=clock_settings),
