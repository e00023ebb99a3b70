# sequences: the tasks of Long Range Arena, loaded or generated (zhu2022, section 5.3.1).


rule sequences_all:
    input:
        expand("{run}/record.json", run=expand(SEQUENCES_RUN, task=LS_TASKS)),
    localrule: True


rule sequences:
    output:
        record=f"{SEQUENCES_RUN}/record.json",
        data=f"{SEQUENCES_RUN}/data.safetensors",
    log:
        f"{ROOT}/logs/long_short/sequences/{{task}}.log",
    benchmark:
        f"{ROOT}/benchmarks/long_short/sequences/{{task}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=8000,
        runtime=480,
        gpu=0,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=sequences_settings,
        seed=LS_DATA_SEED,
        code=sequences_code,
    shell:
        "relearn sequences --study long_short --settings {params.settings:q} --code {params.code}"
        " --label task={wildcards.task}"
        " --seed {params.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
