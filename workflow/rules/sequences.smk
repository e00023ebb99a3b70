# sequences: the tasks of Long Range Arena, loaded or generated (zhu2022, section 5.3.1).


rule sequences_all:
    input:
        expand("{run}/record.json", run=expand(SEQUENCES_RUN, task=LS_TASKS)),
    localrule: True


use rule run as sequences with:
    output:
        record=f"{SEQUENCES_RUN}/record.json",
        data=f"{SEQUENCES_RUN}/data.safetensors",
    log:
        f"{ROOT}/logs/long_short/sequences/{{task}}.log",
    wildcard_constraints:
        task=LS_TASK,
    resources:
        **needs(mem_mb=8000, minutes=480, gpu=0),
    params:
        **words(
            "sequences",
            study="long_short",
            settings=sequences_settings,
            modules=sequences_modules,
            seed=LS_DATA_SEED,
        ),
