# Images that several studies share: a listing of ImageNet's folder, and the prepared sets of the vision studies.


include: "../settings/images.smk"


# folder: a listing of ImageNet's images, for the studies that read them where they lie.
use rule run as folder with:
    output:
        record=f"{LISTING_RUN}/record.json",
        listing=f"{LISTING_RUN}/listing.json",
    log:
        f"{ROOT}/logs/gradinit/folder.log",
    resources:
        **needs(mem_mb=4000, minutes=60, gpu=0),
    params:
        **words("folder", study="gradinit", settings=folder_settings, seed=None, dataset=FOLDER),


# prepare: the images of the studies that train vision Transformers.
use rule run as prepare_vision with:
    output:
        record=f"{ROOT}/runs/{{study}}/prepare/{{dataset}}/record.json",
        data=f"{ROOT}/runs/{{study}}/prepare/{{dataset}}/data.safetensors",
    log:
        f"{ROOT}/logs/{{study}}/prepare/{{dataset}}.log",
    wildcard_constraints:
        study="lipsformer|lrformer|freelb",
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
