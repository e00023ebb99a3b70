# contrast: networks for images trained plainly and with adversarial gradients, clean and attacked accuracy.


rule contrast_all:
    input:
        expand("{run}/record.json", run=CONTRAST_RUNS),
    localrule: True


rule contrast:
    input:
        data=vision_images("freelb"),
    output:
        record=f"{CONTRAST_RUN}/record.json",
        history=f"{CONTRAST_RUN}/history.csv",
        answers=f"{CONTRAST_RUN}/answers.csv",
        network=f"{CONTRAST_RUN}/weights.safetensors",
    log:
        f"{ROOT}/logs/freelb/contrast/{{tactic}}/seed{{seed}}.log",
    benchmark:
        f"{ROOT}/benchmarks/freelb/contrast/{{tactic}}/seed{{seed}}.tsv"
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
        settings=contrast_settings,
        code=contrast_code,
    shell:
        "relearn contrast --study freelb --settings {params.settings:q} --code {params.code}"
        " --input data {input.data:q}"
        " --label method={wildcards.tactic}"
        " --seed {wildcards.seed} --threads {threads} --scale {params.scale}"
        " --device {resources.device} --precision {resources.precision}"
        " --out $(dirname {output.record:q}) --log {log:q}"
