# withstand: what trained networks get right on corrupted and attacked images (zhu2022, tables 5.8 to 5.11).


rule withstand_all:
    input:
        expand("{run}/record.json", run=WITHSTAND_RUNS),
    localrule: True


rule withstand:
    input:
        data=vision_images("long_short"),
        network=rules.classify_long_short.output.network,
        reference=withstand_reference,
    output:
        record=f"{WITHSTAND_RUN}/record.json",
        sets=f"{WITHSTAND_RUN}/sets.csv",
        attacks=f"{WITHSTAND_RUN}/attacks.csv",
        bad=f"{WITHSTAND_RUN}/bad_images.csv",
    log:
        f"{ROOT}/logs/robustness/withstand/{{network}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/robustness/withstand/{{network}}/seed{{seed}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=12000,
        runtime=1440,
        gpu=1,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=withstand_settings,
        code=withstand_code,
        reference=lambda wildcards, input: " ".join(
            f"--input reference {path}" for path in withstand_reference(wildcards)
        ),
    shell:
        "relearn withstand --study robustness --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q} --input network {input.network:q} {params.reference}"
        " --label network={wildcards.network}"
        " --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
