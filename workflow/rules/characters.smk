# characters: a text as characters, sentence by sentence.


rule characters_all:
    input:
        f"{CHARACTERS_RUN}/record.json",
    localrule: True


use rule run as characters with:
    output:
        record=f"{CHARACTERS_RUN}/record.json",
        characters=f"{CHARACTERS_RUN}/characters.safetensors",
    log:
        f"{ROOT}/logs/characters/characters.log",
    resources:
        **needs(mem_mb=4000, minutes=60, gpu=0),
    params:
        **words(
            "characters",
            study="l2_attention",
            settings=CHARACTERS,
            modules=[text_module(CHARACTERS["dataset"])],
            seed=None,
            dataset=CHARACTERS["dataset"],
        ),
