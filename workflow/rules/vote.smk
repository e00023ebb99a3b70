# vote: the answers of all fine-tunings of a method together, and the benchmark's submission (zhu2022, table 3.2).


rule vote_all:
    input:
        expand("{run}/record.json", run=VOTE_RUNS),
    localrule: True


use rule run as vote with:
    input:
        answers=vote_answers,
    output:
        record=f"{VOTE_RUN}/record.json",
        scores=f"{VOTE_RUN}/scores.csv",
        submission=f"{VOTE_RUN}/submission.zip",
    log:
        f"{ROOT}/logs/freelb/vote/{{encoder}}/{{method}}.log",
    wildcard_constraints:
        method="[a-z_0-9]+",
    resources:
        **needs(mem_mb=4000, minutes=30, gpu=0),
    params:
        **words("vote", study="freelb", settings=vote_settings, seed=FB_SEEDS[0]),
