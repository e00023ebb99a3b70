# The study `robustness` (zhu2022, section 5.3.4).


include: "../settings/robustness.smk"


# withstand: what trained networks get right on corrupted and attacked images (zhu2022, tables 5.8 to 5.11).
rule withstand_all:
    input:
        expand("{run}/record.json", run=WITHSTAND_RUNS),
    localrule: True


use rule run as withstand with:
    input:
        **inputs_of(LONG_SHORT["train_vision"]),
        network=LONG_SHORT["train_vision"].files["network"],
        reference=withstand_reference,
    output:
        record=f"{WITHSTAND_RUN}/record.json",
        sets=f"{WITHSTAND_RUN}/sets.csv",
        attacks=f"{WITHSTAND_RUN}/attacks.csv",
        bad=f"{WITHSTAND_RUN}/bad_images.csv",
    log:
        f"{ROOT}/logs/robustness/withstand/{{network}}/seed{{seed}}.log",
    resources:
        **needs(mem_mb=12000, minutes=1440),
    params:
        **words("withstand", study="robustness", settings=withstand_settings, modules=withstand_modules),
