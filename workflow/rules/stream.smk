# stream: a text as one long row of characters, cut in three (zhu2022, section 5.3.2).


rule stream_all:
    input:
        expand("{run}/record.json", run=expand(STREAM_RUN, text=LS["stream"]["datasets"])),
    localrule: True


rule stream:
    output:
        record=f"{STREAM_RUN}/record.json",
        stream=f"{STREAM_RUN}/stream.safetensors",
    log:
        f"{ROOT}/logs/long_short/stream/{{text}}.log",
    benchmark:
        f"{ROOT}/benchmarks/long_short/stream/{{text}}.tsv"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=120,
        gpu=0,
        device=DEVICE,
        precision=PRECISION,
    params:
        scale=SCALE,
        settings=stream_settings,
        code=lambda wildcards: code_version("relearn.steps.stream", stream_module(wildcards.text)),
    shell:
        "relearn stream --study long_short --settings {params.settings:q} --code {params.code}"
        " --label dataset={wildcards.text}"
        " --seed 0 --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
