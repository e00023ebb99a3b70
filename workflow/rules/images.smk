# The prepared images of the vision studies.


include: "../settings/images.smk"


# prepare: the images of the studies that train vision Transformers.
use rule run as prepare_vision with:
    output:
        record=f"{ROOT}/runs/{{study}}/prepare/{{dataset}}/record.json",
        data=f"{ROOT}/runs/{{study}}/prepare/{{dataset}}/data.safetensors",
    log:
        f"{ROOT}/logs/{{study}}/prepare/{{dataset}}.log",
    wildcard_constraints:
        study="freelb",
        dataset="digits|cifar10",
    resources:
        **needs(mem_mb=4000, minutes=30, gpu=0),
    params:
        **words(
            "prepare",
            study="{study}",
            settings=prepare_vision_settings,
            modules=lambda wildcards: [dataset_module(wildcards.dataset)],
            seed=None,
        ),
