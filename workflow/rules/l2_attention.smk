# The study `l2_attention` (kim2020).


include: "../settings/l2_attention.smk"


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


# ascend: lower bounds on Lipschitz constants by gradient ascent on the input (figures 2, 7 and 8).
rule ascend_all:
    input:
        expand("{run}/record.json", run=ASCEND_RUNS),
    localrule: True


use rule run as ascend with:
    input:
        network=network_of,
    output:
        record=f"{ASCEND_RUN}/record.json",
        ascents=f"{ASCEND_RUN}/ascents.csv",
        curve=f"{ASCEND_RUN}/curve.csv",
    log:
        f"{ROOT}/logs/ascend/{{suite}}/{{attention}}/{{weights}}/{{length}}/seed{{seed}}.log",
    wildcard_constraints:
        suite="fig[278]",
        attention=L_ATTENTIONS,
    resources:
        **needs(mem_mb=8000, minutes=240),
    params:
        **words(
            "ascend",
            study="l2_attention",
            settings=ascend_settings,
            p=lambda wildcards: P_OF[wildcards.suite],
        ),


# invert: x + c f(x) inverted by its fixed point (figures 3, 5 and 6).
rule invert_all:
    input:
        expand("{run}/record.json", run=INVERT_RUNS),
    localrule: True


use rule run as invert with:
    input:
        network=network_of,
    output:
        record=f"{INVERT_RUN}/record.json",
        errors=f"{INVERT_RUN}/errors.csv",
        ranges=f"{INVERT_RUN}/ranges.csv",
    log:
        f"{ROOT}/logs/invert/{{suite}}/{{attention}}/{{weights}}/{{length}}x{{dim}}/seed{{seed}}.log",
    wildcard_constraints:
        suite="fig[356]",
        attention=L_ATTENTIONS,
    resources:
        **needs(mem_mb=8000, minutes=120),
    params:
        **words("invert", study="l2_attention", settings=invert_settings),


# examine: what theorems state and construct, case by case; what goes in and comes out of an attention layer (figure 10).
rule examine_all:
    input:
        expand("{run}/record.json", run=EXAMINE_RUNS),
    localrule: True


use rule run as examine with:
    output:
        record=f"{EXAMINE_RUN}/record.json",
        cases=f"{EXAMINE_RUN}/cases.csv",
    log:
        f"{ROOT}/logs/examine/{{protocol}}/seed{{seed}}.log",
    resources:
        **needs(mem_mb=4000, minutes=60, gpu=0),
    params:
        **words(
            "examine",
            study="l2_attention",
            settings=examine_settings,
            modules=["relearn.studies.l2_attention.steps.theorems"],
        ),


use rule run as examine_outputs with:
    input:
        network=network_of,
    output:
        record=f"{OUTPUTS_RUN}/record.json",
        histogram=f"{OUTPUTS_RUN}/histogram.csv",
    log:
        f"{ROOT}/logs/examine/outputs/{{attention}}/{{weights}}/seed{{seed}}.log",
    wildcard_constraints:
        attention=L_ATTENTIONS,
    resources:
        **needs(mem_mb=4000, minutes=60, gpu=0),
    params:
        **words("examine", study="l2_attention", settings=outputs_settings, protocol="outputs"),


# clock: a training step of each attention beside that of the dot product (table 1).
rule clock_all:
    input:
        expand("{run}/record.json", run=CLOCK_RUNS),
    localrule: True


use rule run as clock with:
    input:
        characters=rules.characters.output.characters,
    output:
        record=f"{CLOCK_RUN}/record.json",
        times=f"{CLOCK_RUN}/times.csv",
    log:
        f"{ROOT}/logs/clock/{{attention}}/seed{{seed}}.log",
    wildcard_constraints:
        attention=L_ATTENTIONS,
    resources:
        **needs(mem_mb=8000, minutes=240),
    params:
        **words("clock", study="l2_attention", settings=clock_settings),
