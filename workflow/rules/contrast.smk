# contrast: networks for images trained plainly and with adversarial gradients, clean and attacked accuracy.


rule contrast_all:
    input:
        expand("{run}/record.json", run=CONTRAST_RUNS),
    localrule: True


use rule run as contrast with:
    input:
        data=vision_images("freelb"),
    output:
        record=f"{CONTRAST_RUN}/record.json",
        history=f"{CONTRAST_RUN}/history.csv",
        answers=f"{CONTRAST_RUN}/answers.csv",
        network=f"{CONTRAST_RUN}/weights.safetensors",
    log:
        f"{ROOT}/logs/freelb/contrast/{{method}}/seed{{seed}}.log",
    wildcard_constraints:
        method="[a-z_0-9]+",
    resources:
        **needs(mem_mb=8000, minutes=1440),
    params:
        **words("contrast", study="freelb", settings=contrast_settings, modules=contrast_modules),
