# prepare: the images of the studies that train vision Transformers.


use rule run as prepare_vision with:
    output:
        record=f"{ROOT}/runs/{{vision}}/prepare/{{dataset}}/record.json",
        data=f"{ROOT}/runs/{{vision}}/prepare/{{dataset}}/data.safetensors",
    log:
        f"{ROOT}/logs/{{vision}}/prepare/{{dataset}}.log",
    resources:
        **needs(mem_mb=4000, minutes=30, gpu=0),
    params:
        **words(
            "prepare",
            study="{vision}",
            settings=prepare_vision_settings,
            code=lambda wildcards: code_version("relearn.steps.prepare", dataset_module(wildcards.dataset)),
            seed=None,
            dataset="{dataset}",
        ),
