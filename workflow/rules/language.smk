# language: character language models, one a kind of attention, depth and recipe.


rule language_all:
    input:
        expand("{run}/record.json", run=LANGUAGE_RUNS),
    localrule: True


use rule run as language with:
    input:
        characters=rules.characters.output.characters,
    output:
        record=f"{LANGUAGE_RUN}/record.json",
        weights=f"{LANGUAGE_RUN}/weights.safetensors",
        history=f"{LANGUAGE_RUN}/history.csv",
    log:
        f"{ROOT}/logs/language/{{attention}}/{{layers}}/{{recipe}}/seed{{seed}}.log",
    wildcard_constraints:
        attention=L_ATTENTIONS,
    resources:
        **needs(mem_mb=8000, minutes=1440),
    params:
        **words("language", study="l2_attention", settings=language_settings),
