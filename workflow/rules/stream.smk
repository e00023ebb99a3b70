# stream: a text as one long row of characters, cut in three (zhu2022, section 5.3.2).


rule stream_all:
    input:
        expand("{run}/record.json", run=expand(STREAM_RUN, dataset=LS["stream"]["datasets"])),
    localrule: True


use rule run as stream with:
    output:
        record=f"{STREAM_RUN}/record.json",
        stream=f"{STREAM_RUN}/stream.safetensors",
    log:
        f"{ROOT}/logs/long_short/stream/{{dataset}}.log",
    wildcard_constraints:
        dataset=LS_TEXT,
    resources:
        **needs(mem_mb=4000, minutes=120, gpu=0),
    params:
        **words(
            "stream",
            study="long_short",
            settings=stream_settings,
            modules=lambda wildcards: [stream_module(wildcards.dataset)],
            seed=0,
        ),
