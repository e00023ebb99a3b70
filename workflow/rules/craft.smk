# craft: the poisons of an attack, for all targets, against all substitutes; the loss in watched victims beside it.


rule craft_all:
    input:
        expand(f"{CRAFT_RUN}/record.json", attack=CRAFTED, seed=SEEDS),
    localrule: True


use rule run as craft with:
    input:
        data=rules.prepare.output.data,
        substitutes=substitutes_of,
        watch=watched_of,
    output:
        record=f"{CRAFT_RUN}/record.json",
        poisons=f"{CRAFT_RUN}/poisons.safetensors",
        gallery=f"{CRAFT_RUN}/gallery.safetensors",
        history=f"{CRAFT_RUN}/history.csv",
        trials=f"{CRAFT_RUN}/trials.csv",
    log:
        f"{ROOT}/logs/craft/{{attack}}/seed{{seed}}.log",
    resources:
        **needs(mem_mb=8000, minutes=720),
    params:
        **words("craft", study="poisoning", settings=craft_settings, modules=craft_modules),
