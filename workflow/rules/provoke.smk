# provoke: the largest loss near each sample, for networks trained three ways (zhu2022, equation 3.5 and table 3.5).


rule provoke_all:
    input:
        expand("{run}/record.json", run=PROVOKE_RUNS),
    localrule: True


rule provoke:
    input:
        vanilla=provoked("vanilla"),
        pgd=provoked("pgd"),
        freelb=provoked("freelb"),
    output:
        record=f"{PROVOKE_RUN}/record.json",
        increases=f"{PROVOKE_RUN}/increases.csv",
    log:
        f"{ROOT}/logs/freelb/provoke/{{encoder}}/{{exam}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/freelb/provoke/{{encoder}}/{{exam}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=8000,
        runtime=1440,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=provoke_settings,
        code=code_version("relearn.steps.provoke"),
    shell:
        "relearn provoke --study freelb --settings {params.settings:q} --code {params.code}"
        " --input vanilla {input.vanilla:q} --input pgd {input.pgd:q} --input freelb {input.freelb:q}"
        " --label encoder={wildcards.encoder} --label task={wildcards.exam}"
        " --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
