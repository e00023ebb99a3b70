# acquire: an encoder and its tokenizer from texts alone, by masked language modelling (zhu2022, chapter 3, where no checkpoint is named).


rule acquire_all:
    input:
        expand("{run}/record.json", run=ACQUIRE_RUNS),
    localrule: True


use rule run as acquire with:
    output:
        record=f"{ACQUIRE_RUN}/record.json",
        history=f"{ACQUIRE_RUN}/history.csv",
        encoder=f"{ACQUIRE_RUN}/encoder.safetensors",
    log:
        f"{ROOT}/logs/freelb/acquire/{{encoder}}.log",
    resources:
        **needs(mem_mb=8000, minutes=1440),
    params:
        **words("acquire", study="freelb", settings=acquire_settings, seed=FB_SEEDS[0]),
