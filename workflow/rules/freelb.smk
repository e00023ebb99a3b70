# The study `freelb` (zhu2022, chapter 3).


include: "../settings/freelb.smk"


# acquire: an encoder and its tokenizer from texts alone, by masked language modelling (zhu2022, chapter 3, where no checkpoint is named).
rule acquire_all:
    input:
        expand("{run}/record.json", run=ACQUIRE_RUNS),
    localrule: True


use rule run as acquire with:
    output:
        record=f"{ACQUIRE_RUN}/record.json",
        history=f"{ACQUIRE_RUN}/history.csv",
        encoder=f"{ACQUIRE_RUN}/encoder.safetensors",
    log:
        f"{ROOT}/logs/freelb/acquire/{{encoder}}.log",
    resources:
        **needs(mem_mb=8000, minutes=1440),
    params:
        **words(
            "acquire",
            study="freelb",
            settings=acquire_settings,
            modules=[f"relearn.data.{FB['corpus']['dataset']}"],
            seed=FB_SEEDS[0],
        ),


# finetune: an encoder trained on a task, plainly or with adversarial gradients (zhu2022, tables 3.1 to 3.7).
rule finetune_all:
    input:
        expand("{run}/record.json", run=FINETUNE_RUNS),
    localrule: True


use rule run as finetune with:
    input:
        unpack(finetune_inputs),
    output:
        record=f"{FINETUNE_RUN}/record.json",
        history=f"{FINETUNE_RUN}/history.csv",
        answers=f"{FINETUNE_RUN}/answers.csv",
        network=f"{FINETUNE_RUN}/model.safetensors",
    log:
        f"{ROOT}/logs/freelb/finetune/{{encoder}}/{{task}}/{{method}}/seed{{seed}}.log",
    wildcard_constraints:
        task="[a-z_0-9]+",
        method="[a-z_0-9]+",
    resources:
        **needs(
            mem_mb=lambda wildcards: 40000 if FB["encoders"][wildcards.encoder]["checkpoint"] else 8000,
            minutes=1440,
        ),
    params:
        **words("finetune", study="freelb", settings=finetune_settings, modules=finetune_modules),


# provoke: the largest loss near each sample, for networks trained three ways (zhu2022, equation 3.5 and table 3.5).
rule provoke_all:
    input:
        expand("{run}/record.json", run=PROVOKE_RUNS),
    localrule: True


use rule run as provoke with:
    input:
        vanilla=provoked("vanilla"),
        pgd=provoked("pgd"),
        freelb=provoked("freelb"),
    output:
        record=f"{PROVOKE_RUN}/record.json",
        increases=f"{PROVOKE_RUN}/increases.csv",
    log:
        f"{ROOT}/logs/freelb/provoke/{{encoder}}/{{task}}/seed{{seed}}.log",
    wildcard_constraints:
        task="[a-z_0-9]+",
    resources:
        **needs(mem_mb=8000, minutes=1440),
    params:
        **words("provoke", study="freelb", settings=provoke_settings),


# vote: the answers of all fine-tunings of a method together, and the benchmark's submission (zhu2022, table 3.2).
rule vote_all:
    input:
        expand("{run}/record.json", run=VOTE_RUNS),
    localrule: True


use rule run as vote with:
    input:
        answers=vote_answers,
    output:
        record=f"{VOTE_RUN}/record.json",
        scores=f"{VOTE_RUN}/scores.csv",
        submission=f"{VOTE_RUN}/submission.zip",
    log:
        f"{ROOT}/logs/freelb/vote/{{encoder}}/{{method}}.log",
    wildcard_constraints:
        method="[a-z_0-9]+",
    resources:
        **needs(mem_mb=4000, minutes=30, gpu=0),
    params:
        **words("vote", study="freelb", settings=vote_settings, seed=FB_SEEDS[0]),


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


# count: FreeLB's gradient against that of the K-fold virtual batch.
rule count_freelb_all:
    input:
        expand("{run}/record.json", run=FB_COUNT_RUNS),
    localrule: True


use rule run as count_freelb with:
    output:
        record=f"{FB_COUNT_RUN}/record.json",
        gradients=f"{FB_COUNT_RUN}/gradients.csv",
    log:
        f"{ROOT}/logs/freelb/count/{{family}}.log",
    wildcard_constraints:
        family="gradient",
    resources:
        **needs(mem_mb=4000, minutes=30, gpu=0),
    params:
        **words(
            "count",
            study="freelb",
            settings=count_family_settings,
            modules=[method_module(STRATEGIES, "freelb")],
            seed=0,
        ),
