# prepare: the images of the studies that train vision Transformers.


rule prepare_vision:
    output:
        record=f"{ROOT}/runs/{{vision}}/prepare/{{dataset}}/record.json",
        data=f"{ROOT}/runs/{{vision}}/prepare/{{dataset}}/data.safetensors",
    log:
        f"{ROOT}/logs/{{vision}}/prepare/{{dataset}}.log",
    benchmark:
        f"{ROOT}/benchmarks/{{vision}}/prepare/{{dataset}}.tsv"
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
        settings=prepare_vision_settings,
        code=lambda wildcards: code_version("relearn.steps.prepare", dataset_module(wildcards.dataset)),
    shell:
        "relearn prepare --study {wildcards.vision} --settings {params.settings:q} --code {params.code}"
        " --label dataset={wildcards.dataset}"
        " --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
