# examine: what theorems state and construct, case by case; of kim2020 also what goes in and comes out (figure 10).


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
            modules=["relearn.steps.constructions_l2_attention"],
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


rule examine_lipsformer_all:
    input:
        expand("{run}/record.json", run=LIPS_RUNS),
    localrule: True


use rule run as examine_lipsformer with:  # qi2023: theorems 1 and 2, the spectral start
    output:
        record=f"{LIPS_RUN}/record.json",
        cases=f"{LIPS_RUN}/cases.csv",
    log:
        f"{ROOT}/logs/examine_lipsformer/{{protocol}}/seed{{seed}}.log",
    wildcard_constraints:
        protocol="(?!activations)[a-z_0-9]+",
    resources:
        **needs(mem_mb=4000, minutes=60, gpu=0),
    params:
        **words(
            "examine",
            study="lipsformer",
            settings=lipsformer_settings,
            modules=["relearn.steps.constructions_lipsformer"],
        ),


use rule run as examine_activations with:  # qi2023: figure 2
    output:
        record=f"{ACTIVATIONS_RUN}/record.json",
        cases=f"{ACTIVATIONS_RUN}/cases.csv",
        curves=f"{ACTIVATIONS_RUN}/curves.csv",
    log:
        f"{ROOT}/logs/examine_lipsformer/activations/seed{{seed}}.log",
    resources:
        **needs(mem_mb=4000, minutes=60, gpu=0),
    params:
        **words(
            "examine",
            study="lipsformer",
            settings=activations_settings,
            modules=["relearn.steps.constructions_lipsformer"],
            protocol="activations",
        ),


rule examine_lrformer_all:
    input:
        expand("{run}/record.json", run=LRFORMER_RUNS),
    localrule: True


use rule run as examine_lrformer with:  # ye2023: LayerNorm, Lipschitz-regularised attention
    output:
        record=f"{LRFORMER_RUN}/record.json",
        cases=f"{LRFORMER_RUN}/cases.csv",
    log:
        f"{ROOT}/logs/examine_lrformer/{{protocol}}/seed{{seed}}.log",
    resources:
        **needs(mem_mb=4000, minutes=60, gpu=0),
    params:
        **words(
            "examine",
            study="lrformer",
            settings=lrformer_settings,
            modules=["relearn.steps.constructions_lrformer"],
        ),
