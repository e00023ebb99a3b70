# vote: the answers of all fine-tunings of a method together, and the benchmark's submission (zhu2022, table 3.2).


rule vote_all:
    input:
        expand("{run}/record.json", run=VOTE_RUNS),
    localrule: True


rule vote:
    input:
        answers=vote_answers,
    output:
        record=f"{VOTE_RUN}/record.json",
        scores=f"{VOTE_RUN}/scores.csv",
        submission=f"{VOTE_RUN}/submission.zip",
    log:
        f"{ROOT}/logs/freelb/vote/{{encoder}}/{{tactic}}.log",
    benchmark:
        f"{ROOT}/benchmarks/freelb/vote/{{encoder}}/{{tactic}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
        gpu=0,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=vote_settings,
        code=code_version("relearn.steps.vote"),
        seed=FB_SEEDS[0],
        answers=lambda wildcards: " ".join(f"--input answers {path}" for path in vote_answers(wildcards)),
    shell:
        "relearn vote --study freelb --settings {params.settings:q} --code {params.code}"
        " {params.answers}"
        " --label encoder={wildcards.encoder} --label method={wildcards.tactic}"
        " --seed {params.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
